//! Writes one trace in any of the formats.
//!
//! The caller decides which blocks there are and when they are written: the
//! [stage](crate::Stage) of a session, or a conversion of a file. The folder of each format decides
//! how the format writes them.
//!
//! A [`Stream`] takes rows whose payloads were encoded by
//! [`NetTraceEncoder`](crate::payload::NetTraceEncoder), whatever the format. Version 6 stores
//! these payloads unchanged. The older formats convert the payloads of some types, and their rows
//! carry labels and stacks that version 6 stores by id; [`Row`] holds both.

mod points;
mod rows;

use alloc::{boxed::Box, vec::Vec};

use nettrace_event::EventSchema;

#[cfg(all(doc, feature = "heph"))]
use crate::heph;
#[cfg(all(doc, feature = "v5"))]
use crate::v5;
#[cfg(doc)]
use crate::{Row, ThreadIds};
use crate::{
    content::{ThreadInfo, ThreadSequence, TraceInfo},
    error::FormatError,
    format::Format,
    stream_end::StreamEnd,
    writer::{LeftOut, NumberedType, Source, Writer},
};

/// A position in a stream, between two blocks, that [`Stream::rewind`] can go back to.
///
/// [`Stream::rewind`] has an example.
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
///     EventSchema, FieldSchema, FieldType, Level, PayloadEncoder, Place, ProviderSchema,
/// };
///
/// static SALE: EventSchema = EventSchema {
///     provider: ProviderSchema { name: "Shop", guid: None, group: None },
///     name: "Sale",
///     id: 1,
///     place: Place::UNKNOWN,
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
/// let index = ThreadIds::new(Format::V6).recorder(17);
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
///
/// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
/// assert_eq!(reader.next_event()?.map(|event| event.header.timestamp), Some(6_000));
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
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    ///
    /// // A trace of version 4 becomes one of version 5.
    /// assert!(Stream::copying(Format::V5, 4).keeps_numbers());
    /// assert!(!Stream::copying(Format::V5, 6).keeps_numbers());
    /// ```
    #[must_use]
    pub fn copying(format: Format, version: u32) -> Self {
        Self::from_source(format, Source::Trace { version })
    }

    /// The format of the stream.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    ///
    /// assert_eq!(Stream::new(Format::V6).format(), Format::V6);
    /// ```
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    fn from_source(format: Format, source: Source) -> Self {
        let writer = (format.definition().writer)(source);
        Self { format, left_out: LeftOut::default(), writer }
    }

    /// Checks whether a format can describe an event type.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    /// # use nettrace_format::example::SALE;
    ///
    /// assert_eq!(Stream::check(Format::V4, &SALE), Ok(()));
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] says why it cannot.
    pub fn check(format: Format, schema: &'static EventSchema) -> Result<(), FormatError> {
        (format.definition().check)(schema)
    }

    /// Counts an event that the stream does not get.
    pub(crate) fn refuse(&mut self) {
        self.left_out.events += 1;
    }

    /// Counts labels that the stream does not get.
    pub(crate) fn leave_out_labels(&mut self, count: u64) {
        self.left_out.labels += count;
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
    ///
    /// [`rewind`](Self::rewind) has an example.
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
    /// use nettrace_format::{Format, content::ThreadInfo};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// let mark = stream.mark();
    /// let mut batch = Vec::new();
    /// stream.thread(&ThreadInfo { index: 1, ..ThreadInfo::default() }, &mut batch)?;
    /// // The disk is full, so the batch is dropped. The thread must be defined again, as another.
    /// stream.rewind(&mark);
    /// let mut batch = Vec::new();
    /// stream.thread(&ThreadInfo { index: 2, ..ThreadInfo::default() }, &mut batch)?;
    /// // This batch has reached the file.
    /// stream.settle();
    /// trace.extend(batch);
    /// # trace.extend(stream.end().bytes());
    /// # let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// # reader.read_to_end()?;
    /// # assert!(reader.live_threads().any(|thread| thread.thread.index == 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rewind(&mut self, mark: &Mark) {
        self.left_out = LeftOut { events: self.left_out.events, ..mark.left_out };
        self.writer.rewind(mark.of_writer);
    }

    /// Drops all marks and their log, because every block so far has reached the file.
    ///
    /// [`rewind`](Self::rewind) has an example.
    pub fn settle(&mut self) {
        self.writer.settle();
    }

    /// Restores the counts of [`left_out`](Self::left_out) to an earlier value. Call it when
    /// everything since then is written again into a new stream.
    pub(crate) fn set_left_out(&mut self, left_out: LeftOut) {
        self.left_out = left_out;
    }

    /// What a complete stream ends with.
    ///
    /// [`StreamEnd`] has an example.
    #[must_use]
    pub fn end(&self) -> StreamEnd {
        self.format.definition().end
    }

    /// Whether rows have the thread ids and numbers of the trace that is
    /// [copied](Self::copying). Then threads need not be defined or removed.
    ///
    /// [`copying`](Self::copying) has an example.
    #[must_use]
    pub fn keeps_numbers(&self) -> bool {
        self.writer.keeps_numbers()
    }

    /// Starts a stream: appends its first bytes and forgets everything that an earlier stream
    /// defined.
    ///
    /// # Errors
    /// [`FormatError`] if the format cannot store `info`.
    ///
    /// ```
    /// use nettrace_format::{Format, Stream};
    /// # use nettrace_format::example::INFO;
    ///
    /// // `INFO` is a `TraceInfo`.
    /// let (mut stream, mut trace) = (Stream::new(Format::V6), Vec::new());
    /// stream.begin(&INFO, &mut trace)?;
    /// assert!(trace.starts_with(b"Nettrace"));
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.writer.begin(info, &mut self.left_out, out)
    }

    /// Describes event types, each under the metadata id of its rows. Call it before the first row
    /// of a type.
    ///
    /// # Errors
    /// [`FormatError`] if a type [cannot be described](Self::check).
    ///
    /// The example of [`Stream`] shows it.
    pub fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let types: Vec<_> = types.iter().map(|ty| NumberedType::from(*ty)).collect();
        self.define_numbered(&types, out)
    }

    /// Describes event types as [`define`](Self::define) does, each also with an event id that
    /// another trace has given it.
    ///
    /// # Errors
    /// Those of [`define`](Self::define).
    ///
    /// ```
    /// use nettrace_format::{Format, NumberedType};
    /// # use nettrace_format::example::{ROW, SALE};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V5)?;
    ///
    /// // The field of the formats is wider than that of a schema.
    /// let far = NumberedType { metadata_id: 2, event_id: 70_000, schema: &SALE };
    /// stream.define_numbered(&[far], &mut trace)?;
    /// # trace.extend(stream.end().bytes());
    /// # let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// # reader.read_to_end()?;
    /// # assert!(reader.metadata().iter().any(|ty| ty.event_id == 70_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn define_numbered(
        &mut self,
        types: &[NumberedType],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.define(types, &mut self.left_out, out)
    }

    /// Defines a thread. Call it before the first row of the thread.
    ///
    /// # Errors
    /// [`FormatError`] if the thread's row is too large.
    ///
    /// The example of [`Stream`] shows it.
    pub fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.thread(thread, &mut self.left_out, out)
    }

    /// Notes the name of a thread that rows are about and name by its OS id. The name applies up to
    /// the next sequence point.
    pub(crate) fn subject(&mut self, os_id: u64, name: Option<&str>) {
        if let Some(name) = name {
            self.writer.subject(os_id, name, &mut self.left_out);
        }
    }

    /// Removes threads that have ended, each with its last sequence number.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    ///
    /// ```
    /// use nettrace_format::{Format, v6::ThreadSequence};
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// // The thread's two events were dropped.
    /// stream.remove_threads(&[ThreadSequence { thread: 17, sequence: 2 }], &mut trace)?;
    /// trace.extend(stream.end().bytes());
    /// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// reader.read_to_end()?;
    /// assert_eq!(reader.totals().lost, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// [`stacks`](Self::stacks) has an example.
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
    ///
    /// ```
    /// use nettrace_format::Format;
    /// # let (mut stream, mut trace) = nettrace_format::example::stream(Format::V6)?;
    ///
    /// // The ids 1 and 2. The second stack has two frames, the innermost first.
    /// let before = trace.len();
    /// stream.stacks(1, &[&[0x1000], &[0x2000, 0x1000]], 8, &mut trace)?;
    /// // A block header, the first id, the count, and two sizes before the addresses.
    /// assert_eq!(trace.len() - before, 4 + 4 + 4 + 2 * 4 + 3 * 8);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn stacks(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.stacks(first_id, stacks, pointer_size, out)
    }

    /// Defines `count` label lists under the ids `first_id`, `first_id + 1` and so on, from their
    /// [rows in version 6](crate::v6::label_list_row). The ids apply up to the next sequence
    /// point.
    ///
    /// # Errors
    /// Those of the functions of the formats.
    pub(crate) fn label_rows(
        &mut self,
        first_id: u32,
        count: u32,
        rows: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.writer.label_rows(first_id, count, rows, out)
    }
}
