//! The rows of a [`Stream`], and the blocks that hold them.

use alloc::vec::Vec;

#[cfg(doc)]
use crate::LeftOut;
use crate::{content::Label, error::FormatError, payload::Refusal, stream::Stream, writer::Row};

impl Stream {
    /// Appends a row of an event block, which the caller frames with
    /// [`event_block`](Self::event_block). The header of a block's first row is complete; those of
    /// later rows contain what changed since the row before.
    ///
    /// # Errors
    /// [`Refusal`] if the format cannot store the payload. The row then counts in
    /// [`LeftOut::events`], and nothing is appended.
    ///
    /// The example of [`Stream`] shows it.
    pub fn row(&mut self, row: &Row<'_>, is_first: bool, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let result = self.writer.row(row, is_first, &mut self.left_out, out);
        self.left_out.events += u64::from(result.is_err());
        result
    }

    /// Whether the rows of a block can be copied as they were recorded, without gaps, after a first
    /// row that has this thread and sequence number.
    pub(crate) fn takes_rows_as_recorded(&self, thread: u64, sequence: u32) -> bool {
        self.writer.takes_rows_as_recorded(thread, sequence)
    }

    /// Notes rows that the caller copies as they were recorded, after the [row](Self::row) that
    /// begins the block. Their labels equal `labels`. Only for a block that the stream
    /// [takes](Self::takes_rows_as_recorded) in this way.
    pub(crate) fn rows_as_recorded(&mut self, thread: u64, labels: &[Label<'_>], rows: u32) {
        self.writer.rows_as_recorded(thread, labels, rows, &mut self.left_out);
    }

    /// Appends the part of an event block before its `rows_len` bytes of rows, and returns the part
    /// after them.
    ///
    /// # Errors
    /// Those of the functions of the formats: no rows, or too many.
    ///
    /// The example of [`Stream`] shows it.
    pub fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        self.writer.event_block(first_ts, last_ts, rows_len, out)
    }
}
