//! The stream that a stage writes, and the count of what it leaves out.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    content::ThreadInfo,
    error::FormatError,
    format::Format,
    payload::Refusal,
    writer::{LeftOut, Row, Source, Writer},
};

/// A block ends when its rows have this many bytes, which those of a session never have.
const MOST_ROWS: usize = 4 << 20;

/// The stream of a [`Transcoder`](super::Transcoder), in any format.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) format: Format,
    pub(super) writer: Box<dyn Writer>,
    pub(super) left_out: LeftOut,
}

/// A position in an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputMark {
    left_out: LeftOut,
    of_writer: usize,
}

impl Output {
    pub(super) fn new(format: Format, source: Source) -> Self {
        let writer = (format.definition().writer)(source);
        Self { format, writer, left_out: LeftOut::default() }
    }

    /// Defines a thread.
    pub(super) fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.thread(thread, &mut self.left_out, out)
    }

    /// Notes a thread that rows are about and that may record none itself.
    pub(super) fn subject(&mut self, os_id: u64, name: Option<&str>) {
        if let Some(name) = name {
            self.writer.subject(os_id, name, &mut self.left_out);
        }
    }

    /// Appends a row, or nothing if the format cannot store it.
    pub(super) fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.writer.row(row, is_first, &mut self.left_out, out)
    }

    /// Counts a row that was refused.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.left_out.events += 1;
        self.left_out.strange_events += u64::from(refusal == Refusal::Malformed);
    }

    pub(super) fn mark(&mut self) -> OutputMark {
        OutputMark { left_out: self.left_out, of_writer: self.writer.mark() }
    }

    pub(super) fn rewind(&mut self, mark: &OutputMark) {
        let LeftOut { events, strange_events, .. } = self.left_out;
        self.left_out = LeftOut { events, strange_events, ..mark.left_out };
        self.writer.rewind(mark.of_writer);
    }
}

/// The rows of a block that is being written.
pub(super) struct EventRows {
    pub(super) bytes: Vec<u8>,
    /// The times of its oldest and of its youngest row.
    pub(super) times: Option<(u64, u64)>,
    /// The thread that recorded its last row.
    thread: u64,
}

impl EventRows {
    /// No rows, in memory that other rows had.
    pub(super) fn new(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, times: None, thread: 0 }
    }

    /// Whether a row of this thread needs another block. Readers take a block's numbers for those
    /// of one thread, up to a row that is marked as sorted.
    pub(super) fn end_before(&self, thread: u64, is_sorted: bool) -> bool {
        thread != self.thread && !is_sorted || self.bytes.len() >= MOST_ROWS
    }

    pub(super) fn note(&mut self, thread: u64, at: u64) {
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
        self.thread = thread;
    }

    /// Writes the block, unless it has no rows.
    pub(super) fn end_block(
        &mut self,
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if let Some((first_ts, last_ts)) = self.times.take() {
            let tail = output.writer.event_block(first_ts, last_ts, self.bytes.len(), out)?;
            out.extend_from_slice(&self.bytes);
            out.extend_from_slice(tail);
            self.bytes.clear();
        }
        Ok(())
    }
}
