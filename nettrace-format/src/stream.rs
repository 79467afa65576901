//! Writes one trace in any of the formats.
//!
//! The recorder decides which blocks there are and when they are written. The folder of each format
//! decides how the format writes them.
//!
//! A [`Stream`] takes rows whose payloads were encoded by
//! [`NetTraceEncoder`](crate::payload::NetTraceEncoder), whatever the format, so recording threads
//! need not know the format. Version 6 stores these payloads unchanged. The older formats convert
//! the payloads of some types, and their rows carry labels and stacks that version 6 stores by id;
//! [`Row`] holds both.

use alloc::{boxed::Box, vec::Vec};

use nettrace_event::EventSchema;

#[cfg(doc)]
use crate::{ThreadIds, heph, v5};
use crate::{
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    error::FormatError,
    format::{Format, Source},
    payload::Refusal,
    stream_end::StreamEnd,
    v6::{RowChange, ThreadSequence},
    writer::Writer,
};

/// A row with everything that any format stores of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The header. Its stack id and label list id were defined by [`Stream::stack`] and
    /// [`Stream::labels`].
    pub header: RowHeader,
    /// The labels of the list [`RowHeader::labels`].
    pub labels: &'a [Label<'a>],
    /// The addresses of the stack [`RowHeader::stack`].
    pub stack: &'a [u64],
    /// The payload as [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it.
    pub payload: &'a [u8],
}

/// Counts what a trace leaves out because its format cannot store it. All counts are 0 for version
/// 6.
///
/// See [`v5`] and [`heph`] for what those formats cannot store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Events whose payload exceeds what the format can hold. They show as gaps in the sequence
    /// numbers of the rows.
    pub events: u64,
    /// Labels of rows.
    pub labels: u64,
    /// Names of threads. The name of a thread that events are about, but that records none itself,
    /// counts once more after each sequence point.
    pub thread_names: u64,
    /// Key-value pairs of the trace and of threads.
    pub key_values: u64,
    /// Event types that lack a part of their description: message template, description,
    /// key-values, opcode or provider GUID.
    pub types: u64,
    /// Times before the start of the trace, which became the start.
    pub early_times: u64,
}

/// A position in a stream, between two blocks, that [`Stream::rewind`] can go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    left_out: LeftOut,
    of_writer: usize,
}

/// Writes the blocks of one trace in its format.
///
/// ```
/// use nettrace_format::{
///     Format, Row, Stream, ThreadIds,
///     content::{RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
///     payload::{NetTraceEncoder, VecBuffer},
/// };
/// use nettrace_event::{
///     EventSchema, FieldSchema, FieldType, Level, PayloadEncoder, ProviderSchema,
/// };
///
/// static SALE: EventSchema = EventSchema {
///     provider: ProviderSchema { name: "Shop", guid: None, group: None },
///     name: "Sale",
///     id: 1,
///     id_is_explicit: true,
///     version: 0,
///     level: Level::Informational,
///     keywords: 0,
///     opcode: None,
///     tag: 0,
///     message: None,
///     description: None,
///     key_values: &[],
///     fields: &[FieldSchema::new("cents", FieldType::U32)],
/// };
///
/// let (mut stream, mut trace) = (Stream::new(Format::V6), Vec::new());
/// let info = TraceInfo {
///     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
///     sync_ticks: 5_000,
///     ticks_per_second: 1_000_000_000,
///     pointer_size: 8,
///     key_values: &[("ProcessId", "17")],
/// };
/// stream.begin(&info, &mut trace)?;
/// stream.define(&[(1, &SALE)], &mut trace)?;
/// let index = ThreadIds::new(Format::V6).recorder(17).recorder;
/// stream.thread(&ThreadInfo { index, name: Some("main"), ..Default::default() }, &mut trace)?;
///
/// let mut payload = NetTraceEncoder::new(VecBuffer::default());
/// payload.u32(1_250);
/// let payload = payload.finish().into_payload()?;
/// let header = RowHeader {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: index,
///     thread: index,
///     timestamp: 6_000,
///     payload_len: payload.len() as u32,
///     ..Default::default()
/// };
/// let mut rows = Vec::new();
/// stream.row(&Row { header, labels: &[], stack: &[], payload: &payload }, true, &mut rows)?;
/// let tail = stream.event_block(6_000, 6_000, rows.len(), &mut trace)?;
/// trace.extend(rows);
/// trace.extend(tail);
/// trace.extend(stream.end().bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    format: Format,
    left_out: LeftOut,
    writer: Box<dyn Writer>,
}

impl Stream {
    /// A stream of recorded events that has not begun.
    ///
    /// No two threads of it may have the same id, even if one has ended: see
    /// [`ThreadIds::recorder`].
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self::from_source(format, Source::Recording)
    }

    /// A stream that has not begun, and into which a trace of another NetTrace version is copied.
    ///
    /// The id of a thread that has ended may become another thread's, which must continue its
    /// numbers. From version 4 or 5 to version 4 or 5 all numbers are
    /// [kept](Self::keeps_numbers).
    #[must_use]
    pub fn copying(format: Format, version: u32) -> Self {
        Self::from_source(format, Source::Trace { version })
    }

    fn from_source(format: Format, source: Source) -> Self {
        let writer = (format.definition().writer)(source);
        Self { format, left_out: LeftOut::default(), writer }
    }

    /// Checks whether a format can describe an event type.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    /// # use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, ProviderSchema};
    /// # static SALE: EventSchema = EventSchema {
    /// #     provider: ProviderSchema { name: "Shop", guid: None, group: None },
    /// #     name: "Sale",
    /// #     id: 1,
    /// #     id_is_explicit: true,
    /// #     version: 0,
    /// #     level: Level::Informational,
    /// #     keywords: 0,
    /// #     opcode: None,
    /// #     tag: 0,
    /// #     message: None,
    /// #     description: None,
    /// #     key_values: &[],
    /// #     fields: &[FieldSchema::new("cents", FieldType::U32)],
    /// # };
    ///
    /// assert_eq!(Stream::check(Format::V4, &SALE), Ok(()));
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] says why it cannot.
    pub fn check(format: Format, schema: &'static EventSchema) -> Result<(), FormatError> {
        (format.definition().check)(schema)
    }

    /// Counts what the stream has left out so far.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream, content::ThreadInfo};
    ///
    /// let mut stream = Stream::new(Format::V5);
    /// let main = ThreadInfo { index: 17, name: Some("main"), ..ThreadInfo::default() };
    /// stream.thread(&main, &mut Vec::new())?;
    /// // Version 5 has no names of threads.
    /// assert_eq!(stream.left_out().thread_names, 1);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Marks the current position.
    ///
    /// From the first mark on, the stream logs its changes so that it can undo them. The log grows
    /// until [`settle`](Self::settle) clears it.
    pub fn mark(&mut self) -> Mark {
        Mark { left_out: self.left_out, of_writer: self.writer.mark() }
    }

    /// Goes back to a mark that was set in this stream since the last [`settle`](Self::settle).
    /// Call it when the blocks after the mark did not reach the file.
    ///
    /// The caller must define the threads, stacks and label lists of those blocks again, under new
    /// ids. Event types may be described again under the same ids. [`LeftOut::events`] keeps its
    /// value, because those events are not recorded again.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream, content::ThreadInfo};
    ///
    /// let mut stream = Stream::new(Format::V6);
    /// # let info = nettrace_format::content::TraceInfo {
    /// #     sync_utc: nettrace_format::content::SystemTimeParts::from_unix_millis(0),
    /// #     sync_ticks: 0,
    /// #     ticks_per_second: 1,
    /// #     pointer_size: 8,
    /// #     key_values: &[],
    /// # };
    /// # stream.begin(&info, &mut Vec::new())?;
    /// let mark = stream.mark();
    /// let mut batch = Vec::new();
    /// stream.thread(&ThreadInfo { index: 1, ..ThreadInfo::default() }, &mut batch)?;
    /// // The disk is full, so the batch is dropped. The thread must be defined again, as another.
    /// stream.rewind(&mark);
    /// let mut batch = Vec::new();
    /// stream.thread(&ThreadInfo { index: 2, ..ThreadInfo::default() }, &mut batch)?;
    /// // This batch has reached the file.
    /// stream.settle();
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn rewind(&mut self, mark: &Mark) {
        self.left_out = LeftOut { events: self.left_out.events, ..mark.left_out };
        self.writer.rewind(mark.of_writer);
    }

    /// Drops all marks and the log behind them, because every block so far has reached the file.
    pub fn settle(&mut self) {
        self.writer.settle();
    }

    /// Restores the counts of [`left_out`](Self::left_out) to an earlier value. Call it when
    /// everything since then is written again into a new stream.
    pub fn set_left_out(&mut self, left_out: LeftOut) {
        self.left_out = left_out;
    }

    /// The most bytes that the end of the stream takes: a [sequence point](Self::sequence_point)
    /// that names all threads so far, and a [`remove_threads`](Self::remove_threads) call for each
    /// of them.
    #[must_use]
    pub fn closing_size(&self) -> u64 {
        self.writer.closing_size()
    }

    /// What a complete stream ends with.
    #[must_use]
    pub fn end(&self) -> StreamEnd {
        self.format.definition().end
    }

    /// Whether only a stream with rows can tell losses, and only by sequence points. Then a thread
    /// that ends is told by the next sequence point, so it must be removed before.
    #[must_use]
    pub fn needs_rows(&self) -> bool {
        self.format.definition().needs_rows
    }

    /// Whether rows have the thread ids and numbers of the trace that is
    /// [copied](Self::copying). Then threads need not be defined or removed.
    #[must_use]
    pub fn keeps_numbers(&self) -> bool {
        self.writer.keeps_numbers()
    }

    /// Starts a stream: appends its first bytes and forgets everything that an earlier stream
    /// defined.
    ///
    /// # Errors
    /// [`FormatError`] if the format cannot store `info`.
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.writer.begin(info, &mut self.left_out, out)
    }

    /// Describes event types, each under the metadata id of its rows. Call it before the first row
    /// of a type.
    ///
    /// # Errors
    /// [`FormatError`] if a type [cannot be described](Self::check).
    pub fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.define(types, &mut self.left_out, out)
    }

    /// Defines a thread. Call it before the first row of the thread.
    ///
    /// # Errors
    /// [`FormatError`] if the thread's row is too large.
    pub fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.thread(thread, &mut self.left_out, out)
    }

    /// Notes the name of a thread that rows are about and name by its OS id. The name applies up to
    /// the next sequence point.
    pub fn subject(&mut self, os_id: u64, name: Option<&str>) {
        if let Some(name) = name {
            self.writer.subject(os_id, name, &mut self.left_out);
        }
    }

    /// Removes threads that have ended, each with its last sequence number.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.remove_threads(threads, out)
    }

    /// Defines a stack under an id. The id applies up to the next sequence point.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn stack(
        &mut self,
        id: u32,
        addresses: &[u64],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stacks(id, &[addresses], pointer_size, out)
    }

    /// Defines stacks under the ids `first_id`, `first_id + 1` and so on. The ids apply up to the
    /// next sequence point.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn stacks(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.stacks(first_id, stacks, pointer_size, out)
    }

    /// Defines a label list under an id. The id applies up to the next sequence point.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn labels(
        &mut self,
        id: u32,
        labels: &[Label<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.labels(id, labels, out)
    }

    /// Defines `count` label lists under the ids `first_id`, `first_id + 1` and so on, from their
    /// [encoding in version 6](crate::v6::label_rows_block). The ids apply up to the next sequence
    /// point.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn label_rows(
        &mut self,
        first_id: u32,
        count: u32,
        rows: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.label_rows(first_id, count, rows, out)
    }

    /// Appends a row of an event block, which the caller frames with
    /// [`event_block`](Self::event_block). The header of a block's first row is complete; those of
    /// later rows contain what changed since the row before.
    ///
    /// Returns how many events of the thread are missing before the row although no reader notices
    /// it yet. The thread's next row shows them, or the next sequence point. Only versions 4 and 5
    /// return more than 0.
    ///
    /// # Errors
    /// [`Refusal`] if the format cannot store the payload. The row then counts in
    /// [`LeftOut::events`], and nothing is appended.
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

    /// Whether the rows of a block can be copied as they were recorded, without gaps, behind a
    /// first row that has this thread and sequence number.
    #[must_use]
    pub fn takes_rows_as_recorded(&self, thread: u64, sequence: u32) -> bool {
        self.writer.takes_rows_as_recorded(thread, sequence)
    }

    /// Notes rows that the caller copies as they were recorded, behind the [row](Self::row) that
    /// begins the block. Their labels equal `labels`. Only for a block that the stream
    /// [takes](Self::takes_rows_as_recorded) in this way.
    pub fn rows_as_recorded(&mut self, thread: u64, labels: &[Label<'_>], rows: u32) {
        self.writer.rows_as_recorded(thread, labels, rows, &mut self.left_out);
    }

    /// Whether rows can be copied as they were recorded wherever [`change_row`](Self::change_row)
    /// says in what they differ from the row before. Such a format has labels and stacks by their
    /// ids alone.
    #[must_use]
    pub fn changes_rows(&self) -> bool {
        self.writer.changes_rows()
    }

    /// Appends the beginning of a row that was recorded, with what the row does not say of itself.
    /// Returns how many of its bytes that replaces; the caller copies the others. Returns `None` if
    /// the row is not a [plain row](crate::v6::change_row), or if the format does not [change
    /// rows](Self::changes_rows).
    pub fn change_row(&self, row: &[u8], change: &RowChange, out: &mut Vec<u8>) -> Option<usize> {
        self.writer.change_row(row, change, out)
    }

    /// Appends the part of an event block before its `rows_len` bytes of rows, and returns the part
    /// after them.
    ///
    /// # Errors
    /// Those of the functions of the formats: no rows, or too many.
    pub fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        self.writer.event_block(first_ts, last_ts, rows_len, out)
    }

    /// Appends a sequence point, which separates the events older than `timestamp` from those that
    /// follow. `threads` holds the last sequence number of each thread.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.sequence_point(timestamp, threads, out)
    }

    /// Whether a sequence point should come soon, because many threads have ended since the last
    /// one and it must name them.
    #[must_use]
    pub fn wants_point(&self) -> bool {
        self.writer.wants_point()
    }

    /// Appends a sequence point if there are losses that only a sequence point can tell. Call it
    /// before the end of a stream that does not end with a sequence point of its own.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub fn last_point(&mut self, timestamp: u64, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.writer.last_point(timestamp, out)
    }

    /// How many lost events no thread of the stream has told yet. They are of threads without rows;
    /// the next sequence point tells them as losses of another thread, if any thread has a row.
    #[must_use]
    pub fn untold_losses(&self) -> u64 {
        self.writer.untold_losses()
    }
}
