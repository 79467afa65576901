//! Streams that go on with the recording of the one before: [`Options::joined`].
//!
//! The next file of a recording begins its numbers anew. The dumps of a flight recorder have the
//! number of one file, and are parts of one stream: each has all of it from where the dump begins
//! to where it ends. It says how many events were before it, so it is known whether a dump begins
//! before what has been read ends. Then rows are left out whose sequence numbers their threads have
//! passed. Until the first other row, sequence points are older than what has been read, and say
//! nothing new.
//!
//! [`Options::joined`]: crate::Options::joined

use nettrace_format::{Cursor, Trace};

use crate::{
    block,
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result},
    input::Source,
    reader::Reader,
    tables::Continues,
};

impl<R: Source> Reader<R> {
    /// Goes on with the stream that follows. Returns whether there is one.
    pub(super) fn next_stream(&mut self) -> Result<bool> {
        let offset = self.blocks.offset();
        let other = || Error::new(offset, ErrorKind::OtherRecording);
        match self.blocks.next_stream()? {
            None => return Ok(false),
            Some(false) => return Err(other()),
            Some(true) => {}
        }
        let head = self.blocks.next()?;
        self.totals.blocks += 1;
        if head.kind != BlockKind::Trace {
            return Err(Error::new(head.offset, ErrorKind::NoTraceBlock));
        }
        let body = Cursor::new(self.blocks.body(), head.body);
        let trace = block::parse_trace(self.blocks.format(), body)
            .map_err(|damage| Error::malformed(BlockKind::Trace, damage))?;
        let first = &self.tables.trace;
        let recording = first.value(Trace::RECORDING);
        if recording.is_none()
            || recording != trace.value(Trace::RECORDING)
            || first.pointer_size != trace.pointer_size
        {
            return Err(other());
        }
        let mut part = Part::of(&trace);
        let continues = part.follow(&self.part, self.totals.events);
        self.part = part;
        let gone = self.tables.begin_stream(continues);
        if self.options.keep_thread_totals {
            self.finished_threads.extend(gone);
        }
        Ok(true)
    }

    /// Whether a stream before had the current row.
    pub(super) fn is_repeated(&self) -> bool {
        let number = self.current.rows.header.sequence_number;
        self.tables.thread(self.current.capture_thread).has_passed(number)
    }
}

/// Where a stream is in its recording.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Which file of it.
    file: Option<String>,
    /// For a dump: how many events of the recorder were before its first one.
    before: Option<u64>,
    /// Where the dumps before it end, counted in the same way.
    reached: u64,
    /// How many events the streams before it have.
    pub(super) first: u64,
    /// How many of its own were left out.
    pub(super) left_out: u64,
}

impl Part {
    pub(super) fn of(trace: &Trace) -> Self {
        let file = trace.value(Trace::FILE).map(str::to_owned);
        Self { file, before: trace.events_before(), ..Self::default() }
    }

    pub(super) fn is_dump(&self) -> bool {
        self.before.is_some()
    }

    /// Notes that this comes after another part, at the end of which there were so many events.
    fn follow(&mut self, last: &Self, events: u64) -> Continues {
        self.first = events;
        let (Some(before), Some(last_before)) = (self.before, last.before) else {
            return Continues::NextFile;
        };
        if self.file != last.file {
            return Continues::NextFile;
        }
        let end = last_before.saturating_add(events - last.first + last.left_out);
        self.reached = last.reached.max(end);
        if before < self.reached { Continues::Again } else { Continues::Later }
    }
}
