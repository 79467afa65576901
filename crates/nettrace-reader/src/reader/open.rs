//! The opening of a stream.

use super::{Current, Reader, State, Totals};
use foldhash::HashMap;
use nettrace_format::Cursor;

use crate::{
    block,
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result},
    framing::Blocks,
    input::Source,
    options::Options,
    reader::joined::Part,
    tables::{Continues, Tables},
};

impl Options {
    /// Opens a stream with these options: reads its header and its Trace block.
    ///
    /// # Errors
    /// [`ErrorKind::NotNetTrace`], [`ErrorKind::UnsupportedVersion`] or [`ErrorKind::TooNew`] if
    /// the stream is of another format, [`ErrorKind::NoTraceBlock`], and the errors of
    /// [`Reader::next_event`].
    ///
    /// ```
    /// use nettrace_reader::Options;
    ///
    /// # let file = nettrace_reader::example();
    /// let options = Options::default().definitions_limit(16 << 20);
    /// let reader = options.open(&file[..])?;
    /// assert_eq!(reader.major_version(), 6);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn open<R: Source>(self, source: R) -> Result<Reader<R>> {
        let mut blocks = Blocks::open(source, self.block_limit)?;
        let format = blocks.format();
        let head = blocks.next()?;
        if head.kind != BlockKind::Trace {
            return Err(Error::new(head.offset, ErrorKind::NoTraceBlock));
        }
        let trace = block::parse_trace(format, Cursor::new(blocks.body(), head.body))
            .map_err(|damage| Error::malformed(BlockKind::Trace, damage))?;
        let part = Part::of(&trace);
        let mut tables = Tables::new(format, self.dialect, trace, self.definitions_limit);
        if part.is_dump() {
            tables.continues = Continues::Later;
            tables.ended = self.joined.then(HashMap::default);
        }
        tables.describes_runtime = self.runtime_events;
        tables.corrects_types = true;
        Ok(Reader {
            blocks,
            part,
            tables,
            options: self,
            totals: Totals { blocks: 1, ..Totals::default() },
            earliest: u64::MAX,
            latest: 0,
            finished_threads: Vec::new(),
            finished_types: Vec::new(),
            finished_types_cost: 0,
            first_damage: None,
            second_trace: None,
            current: Current::default(),
            state: State::BetweenBlocks,
        })
    }
}
