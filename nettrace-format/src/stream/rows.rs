//! The rows of a [`Stream`], and the blocks that hold them.

use alloc::vec::Vec;

#[cfg(doc)]
use crate::LeftOut;
use crate::{
    content::{Label, RowChange},
    error::FormatError,
    payload::Refusal,
    stream::Stream,
    writer::Row,
};

impl Stream {
    /// Appends a row of an event block, which the caller frames with
    /// [`event_block`](Self::event_block). The header of a block's first row is complete; those of
    /// later rows contain what changed since the row before.
    ///
    /// Returns how many events of the thread are missing before the row that readers do not notice
    /// yet. The thread's next row shows them, or the next sequence point does. Only versions 4 and
    /// 5 return more than 0.
    ///
    /// # Errors
    /// [`Refusal`] if the format cannot store the payload. The row then counts in
    /// [`LeftOut::events`], and nothing is appended.
    ///
    /// The example of [`Stream`] shows it.
    pub fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refusal> {
        let result = self.writer.row(row, is_first, &mut self.left_out, out);
        self.left_out.events += u64::from(result.is_err());
        result
    }

    /// Whether the rows of a block can be copied as they were recorded, without gaps, after a first
    /// row that has this thread and sequence number.
    ///
    /// [`rows_as_recorded`](Self::rows_as_recorded) has an example.
    #[must_use]
    pub fn takes_rows_as_recorded(&self, thread: u64, sequence: u32) -> bool {
        self.writer.takes_rows_as_recorded(thread, sequence)
    }

    /// Notes rows that the caller copies as they were recorded, after the [row](Self::row) that
    /// begins the block. Their labels equal `labels`. Only for a block that the stream
    /// [takes](Self::takes_rows_as_recorded) in this way.
    ///
    /// ```
    /// use nettrace_format::{Format, Row};
    /// # use nettrace_format::example::ROW;
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// let mut rows = Vec::new();
    /// let payload = 1_250_u32.to_le_bytes();
    /// let row = Row { header: ROW, labels: &[], stack: &[], payload: &payload };
    /// stream.row(&row, true, &mut rows)?;
    /// // The thread's next row, as it wrote it: no flags, and 50 ticks later.
    /// if stream.takes_rows_as_recorded(17, 1) {
    ///     rows.extend([0, 50]);
    ///     rows.extend(1_300_u32.to_le_bytes());
    ///     stream.rows_as_recorded(17, &[], 1);
    /// }
    /// let tail = stream.event_block(6_000, 6_050, rows.len(), &mut trace)?;
    /// trace.extend(rows);
    /// trace.extend(tail);
    /// trace.extend(stream.end().bytes());
    /// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// reader.read_to_end()?;
    /// assert_eq!((reader.totals().events, reader.totals().lost), (2, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rows_as_recorded(&mut self, thread: u64, labels: &[Label<'_>], rows: u32) {
        self.writer.rows_as_recorded(thread, labels, rows, &mut self.left_out);
    }

    /// Whether rows can be copied as they were recorded wherever [`change_row`](Self::change_row)
    /// says in what they differ from the row before. Such a format has labels and stacks by their
    /// ids alone.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    ///
    /// assert!(Stream::new(Format::V6).changes_rows());
    /// assert!(!Stream::new(Format::Heph).changes_rows());
    /// ```
    #[must_use]
    pub fn changes_rows(&self) -> bool {
        self.writer.changes_rows()
    }

    /// Appends the beginning of a recorded row, with `change` in its header. Returns how many bytes
    /// of the recorded row this replaces; the caller copies the others. Returns `None` if the row
    /// is not a [plain row](crate::v6::change_row), or if the format does not [change
    /// rows](Self::changes_rows).
    ///
    /// ```
    /// use nettrace_format::{Format, Stream, v6::RowChange};
    ///
    /// // The row has no flags, 50 ticks, and then its payload. It gets the label list 3.
    /// let change = RowChange { labels: Some(3), ..RowChange::default() };
    /// let mut rows = Vec::new();
    /// let stream = Stream::new(Format::V6);
    /// let replaced = stream.change_row(&[0, 50, 20, 5, 0, 0], &change, &mut rows);
    /// assert_eq!(replaced, Some(2));
    /// assert_eq!(rows, [16, 50, 3]);
    /// ```
    pub fn change_row(&self, row: &[u8], change: &RowChange, out: &mut Vec<u8>) -> Option<usize> {
        self.writer.change_row(row, change, out)
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
