//! Streams that go on with the recording of the one before: [`Options::joined`].
//!
//! [`Options::joined`]: crate::Options::joined

use crate::{
    block::{self, BlockKind},
    cursor::Cursor,
    error::{Error, ErrorKind, Result},
    input::Source,
    reader::Reader,
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
        let gone = self.tables.begin_stream();
        if self.options.keep_thread_totals {
            self.finished_threads.extend(gone);
        }
        Ok(true)
    }
}
