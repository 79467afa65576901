//! Streams that go on with the recording of the one before: [`Options::joined`].
//!
//! The next file of a recording begins its numbers anew. The dumps of a flight recorder have the
//! number of one file, and are parts of one stream: each has all of it from where the dump begins
//! to where it ends. So a dump that begins later than the one before repeats at most its end, and
//! behind that only goes on. Rows whose sequence numbers a thread has passed are left out. Until
//! the first other row, sequence points are older than what has been read, and say nothing new.
//!
//! [`Options::joined`]: crate::Options::joined

use crate::{
    block::{self, BlockKind},
    cursor::Cursor,
    error::{Error, ErrorKind, Result},
    input::Source,
    reader::Reader,
    tables::STEP_BACK,
    trace::Trace,
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
        let file = trace.value(Trace::FILE).map(str::to_owned);
        let are_dumps = self.tables.ended.is_some() && trace.value(Trace::GIVEN_UP).is_some();
        let repeats = are_dumps && file == self.file;
        (self.file, self.repeats) = (file, repeats.then_some(self.totals.events));
        let gone = self.tables.begin_stream(repeats);
        if self.options.keep_thread_totals {
            self.finished_threads.extend(gone);
        }
        Ok(true)
    }

    /// Whether a stream before had the current row.
    pub(super) fn is_repeated(&self) -> bool {
        let thread = self.tables.thread(self.current.capture_thread);
        let ahead = self.current.rows.header.sequence_number.wrapping_sub(thread.last_sequence);
        let is_known = thread.events > 0 || thread.last_sequence > 0;
        is_known && (ahead == 0 || ahead > STEP_BACK)
    }
}
