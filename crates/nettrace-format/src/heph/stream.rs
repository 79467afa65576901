//! Writes a whole trace from the types, threads and rows of a session.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec, vec::Vec};

use nettrace_event::{EventSchema, keys};

use crate::{
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    described::{EventDescription, EventFacts, EventType},
    error::FormatError,
    heph::{
        clock::Clock,
        event::{EventInfo, EventWriter},
        packet,
        spans::{Change as SpanChange, Part, Spans},
    },
    payload::Refusal,
    schema::{Field, Metadata, Type},
};

/// The size of such an option, in bytes.
pub(crate) const LOST_SIZE: u64 = (4 + 4 + 2 + keys::HEPH_LOST.len() + 16) as u64;

/// Half the range of sequence numbers. A number this far ahead of another counts as behind it.
const HALF: u32 = 1 << 31;

/// The processor number of a row whose processor is unknown.
const NO_PROCESSOR: u32 = u32::MAX;

/// Writes the packets of one trace.
///
/// ```
/// use nettrace_format::{
///     content::{RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
///     heph::Stream,
/// };
/// # use nettrace_format::example::SALE;
///
/// let (mut stream, mut trace) = (Stream::new(), Vec::new());
/// let info = TraceInfo {
///     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
///     sync_ticks: 5_000,
///     ticks_per_second: 1_000_000_000,
///     pointer_size: 8,
///     key_values: &[],
/// };
/// stream.begin(&info, &mut trace)?;
/// // `SALE` is an `EventSchema` with one field of 4 bytes.
/// stream.define(&[(1, &SALE)])?;
/// stream.thread(&ThreadInfo { index: 17, name: Some("main"), ..ThreadInfo::default() });
///
/// let header = RowHeader {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: 17,
///     thread: 17,
///     timestamp: 6_000,
///     payload_len: 4,
///     ..RowHeader::default()
/// };
/// stream.row(&header, &[], &[], &1_250_u32.to_le_bytes(), &mut trace)?;
/// // The thread's last number was 3, so two events are missing.
/// stream.numbers([(17, 3)], &mut trace)?;
///
/// let mut reader = nettrace_reader::heph::Reader::new(&trace[..]);
/// assert_eq!(reader.next_event()?.map(|event| event.description == "Sale"), Some(true));
/// assert!(reader.next_event()?.is_none());
/// assert_eq!(reader.totals().lost, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Stream {
    /// `None` before [`begin`](Self::begin).
    writer: Option<EventWriter>,
    /// By metadata id.
    types: Vec<Option<KnownType>>,
    threads: BTreeMap<u64, Thread>,
    /// Names of threads that events are about.
    subjects: BTreeMap<u64, Arc<str>>,
    spans: Spans,
    changes: Changes,
}

/// The state of a thread.
/// An event type.
#[derive(Debug)]
struct KnownType {
    ty: EventType,
    /// See [`Spans::family`].
    family: u32,
    /// Of a trace's type: the one of events whose payload is written as it is.
    opaque: Option<Box<Metadata>>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    name: Option<Arc<str>>,
    /// The last sequence number that the trace accounts for. A thread's first event has number 1.
    last: u32,
}

/// The log of changes, which lets a stream [go back](Stream::rewind).
#[derive(Debug, Default)]
struct Changes {
    /// The oldest change first.
    log: Vec<Change>,
    /// The length of `log` at the last mark. `None` if no mark was ever set; then nothing is
    /// logged.
    marked: Option<usize>,
}

#[derive(Debug)]
enum Change {
    /// A thread, with its state before.
    Thread(u64, Option<Thread>),
    Span(SpanChange),
}

impl Changes {
    /// Logs a thread that is about to change.
    fn note(&mut self, index: u64, thread: Option<&Thread>) {
        let Some(marked) = self.marked else { return };
        // Only the first change since the mark matters, and a block's rows belong to one thread.
        let is_noted = self.log.len() > marked
            && matches!(self.log.last(), Some(Change::Thread(last, _)) if *last == index);
        if !is_noted {
            self.log.push(Change::Thread(index, thread.cloned()));
        }
    }

    /// Logs a change of a span.
    fn push(&mut self, change: SpanChange) {
        if self.marked.is_some() {
            self.log.push(Change::Span(change));
        }
    }
}

impl Stream {
    /// A stream that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a trace: appends its epoch and forgets everything that an earlier trace defined.
    /// Spans that began in an earlier trace can end in this one. So both must have the same clock.
    ///
    /// # Errors
    /// [`FormatError::ClockRate`]. An error leaves `out` unchanged.
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let clock = Clock::of(info)?;
        let writer = match self.writer.take() {
            Some(writer) => writer.after(clock),
            None => EventWriter::new(clock),
        };
        writer.begin(out);
        let marked = self.changes.marked.map(|_| 0);
        let changes = Changes { log: Vec::new(), marked };
        let spans = core::mem::take(&mut self.spans);
        *self = Self { writer: Some(writer), changes, spans, ..Self::default() };
        Ok(())
    }

    /// How many threads the stream remembers.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Marks the current position, so that [`rewind`](Self::rewind) can go back to it.
    pub(crate) fn mark(&mut self) -> usize {
        let mark = self.changes.log.len();
        self.changes.marked = Some(mark);
        mark
    }

    /// Goes back to a mark: undoes all changes since.
    pub(crate) fn rewind(&mut self, mark: usize) {
        while self.changes.log.len() > mark {
            match self.changes.log.pop() {
                Some(Change::Thread(index, Some(thread))) => {
                    self.threads.insert(index, thread);
                }
                Some(Change::Thread(index, None)) => _ = self.threads.remove(&index),
                Some(Change::Span(change)) => self.spans.undo(change),
                None => {}
            }
        }
        self.changes.marked = Some(mark);
    }

    /// Clears the log of changes.
    pub(crate) fn settle(&mut self) {
        self.changes.log.clear();
        self.changes.marked = self.changes.marked.map(|_| 0);
    }

    /// Notes event types by the ids of their rows. It writes nothing, because every packet contains
    /// the parts of its type.
    ///
    /// # Errors
    /// Those of [`check`](crate::heph::check).
    pub fn define(&mut self, types: &[(u32, &'static EventSchema)]) -> Result<(), FormatError> {
        for (id, schema) in types {
            crate::heph::check(*schema)?;
            self.know(*id, EventType::Own(schema));
        }
        Ok(())
    }

    /// Notes an event type, which was checked.
    pub(super) fn know(&mut self, id: u32, ty: EventType) {
        let (EventFacts { provider, name, .. }, opaque) = match &ty {
            EventType::Own(schema) => (schema.facts(), None),
            EventType::Read(of) => (of.facts(), Some(Box::new(opaque(of)))),
        };
        let family = self.spans.family(provider, name);
        let at = id as usize;
        if self.types.len() <= at {
            self.types.resize_with(at + 1, || None);
        }
        self.types[at] = Some(KnownType { ty, family, opaque });
    }

    /// Notes a thread and its name. Writes nothing.
    pub fn thread(&mut self, thread: &ThreadInfo<'_>) {
        self.changes.note(thread.index, self.threads.get(&thread.index));
        self.threads.entry(thread.index).or_default().name = thread.name.map(Arc::from);
    }

    /// Notes the name of a thread that rows will be about and that may record no events itself.
    /// Writes nothing.
    ///
    /// ```
    /// use nettrace_format::{content::RowHeader, heph::Stream};
    /// # use nettrace_format::example::{INFO, ROW, SALE};
    ///
    /// let (mut stream, mut trace) = (Stream::new(), Vec::new());
    /// # stream.begin(&INFO, &mut trace)?;
    /// # stream.define(&[(1, &SALE)])?;
    /// stream.subject(42, "worker");
    /// // Thread 17 records an event that is about thread 42.
    /// let header = RowHeader { capture_thread: 17, thread: 42, ..ROW };
    /// stream.row(&header, &[], &[], &1_250_u32.to_le_bytes(), &mut trace)?;
    /// // From here on the id may be another thread's.
    /// stream.forget_subjects();
    ///
    /// let mut reader = nettrace_reader::heph::Reader::new(&trace[..]);
    /// let event = reader.next_event()?.expect("there is one event");
    /// let mut attributes = event.attributes().filter_map(Result::ok);
    /// let name = attributes.find(|(name, _)| *name == "@subject_thread");
    /// assert_eq!(name.unwrap().1, nettrace_reader::heph::Value::Text("worker"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subject(&mut self, index: u64, name: &str) {
        self.subjects.insert(index, Arc::from(name));
    }

    /// Forgets the names that [`subject`](Self::subject) noted.
    pub fn forget_subjects(&mut self) {
        self.subjects.clear();
    }

    /// Notes that no later row is older than `ticks`.
    pub(crate) fn raise(&mut self, ticks: u64) {
        self.spans.raise(ticks);
    }

    /// How many spans lack what the event that came first states, since the last call.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.spans.take_forgotten()
    }

    /// Appends the packet of a row: an instant, or a [span](super#spans) if the row completes one.
    /// An [option](keys::HEPH_LOST) goes before it if events before it are
    /// missing and the counter does not show them: because the row is its thread's first, or
    /// because half the range of numbers or more is missing.
    ///
    /// # Errors
    /// [`Refusal`] if the event cannot be written. The counter then shows it as missing, and `out`
    /// is unchanged.
    pub fn row(
        &mut self,
        header: &RowHeader,
        labels: &[Label<'_>],
        stack: &[u64],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.any_row(header, (labels, stack), payload, false, out).map(drop)
    }

    /// [`row`](Self::row), for a payload that `is_opaque`: written as bytes, which only events of a
    /// trace's types can be. Returns whether the payload has bytes behind its last field.
    pub(super) fn any_row(
        &mut self,
        header: &RowHeader,
        facts: (&[Label<'_>], &[u64]),
        payload: &[u8],
        is_opaque: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        // Taken out for as long as the others are changed.
        let known = self.types.get_mut(header.metadata_id as usize).and_then(Option::take);
        let known = known.ok_or(Refusal::Malformed)?;
        let family = known.family;
        let result = match (&known.ty, &known.opaque) {
            (_, Some(opaque)) if is_opaque => {
                let mut bytes = Vec::with_capacity(2 + payload.len());
                bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
                bytes.extend_from_slice(payload);
                self.row_of(&**opaque, family, header, facts, &bytes, out)
            }
            _ if is_opaque => Err(Refusal::Malformed),
            (EventType::Own(schema), _) => {
                self.row_of(*schema, family, header, facts, payload, out)
            }
            (EventType::Read(of), _) => self.row_of(&**of, family, header, facts, payload, out),
        };
        self.types[header.metadata_id as usize] = Some(known);
        result
    }

    fn row_of(
        &mut self,
        schema: &impl EventDescription,
        family: u32,
        header: &RowHeader,
        (labels, stack): (&[Label<'_>], &[u64]),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        let Some(writer) = &mut self.writer else { return Err(Refusal::Malformed) };
        let before = out.len();
        let is_about_another = header.thread != header.capture_thread;
        let subject_name = if is_about_another {
            let of_thread = self.threads.get(&header.thread).and_then(|thread| thread.name.clone());
            self.subjects.get(&header.thread).cloned().or(of_thread)
        } else {
            None
        };
        self.changes.note(header.capture_thread, self.threads.get(&header.capture_thread));
        let thread = self.threads.entry(header.capture_thread).or_default();
        let stream = stream(header.capture_thread)?;
        let missing = header.sequence.wrapping_sub(thread.last).wrapping_sub(1);
        let shows = thread.last != 0 && missing < HALF;
        if missing > 0 && !shows {
            lost(stream, header.sequence.wrapping_sub(1), missing, out);
        }
        let info = EventInfo {
            stream,
            counter: header.sequence,
            timestamp: header.timestamp,
            thread_name: thread.name.as_deref(),
            subject: if is_about_another { Some(self::stream(header.thread)?) } else { None },
            subject_name: subject_name.as_deref(),
            processor: Some(header.processor).filter(|processor| *processor != NO_PROCESSOR),
            labels,
            stack,
        };
        if header.sorted {
            self.spans.raise(header.timestamp);
        }
        let part = self.spans.part(schema, family, header, labels, payload, writer.clock());
        let whole = match &part {
            Part::Last(_, whole) => Some(whole),
            _ => None,
        };
        match writer.write(schema, &info, payload, whole, out) {
            Ok(written) => {
                thread.last = header.sequence;
                let mut log = |change| self.changes.push(change);
                match part {
                    Part::None | Part::Last(None, _) => {}
                    Part::Last(Some(key), _) => self.spans.remove(&key, &mut log),
                    Part::First(key, side) => {
                        let (fields, description) =
                            (&out[written.fields..], writer.description(&written));
                        let event = (side, header.timestamp, stream);
                        self.spans.remember(key, event, description, fields, &mut log);
                    }
                }
                Ok(written.is_longer)
            }
            Err(error) => {
                out.truncate(before);
                Err(match error {
                    FormatError::PayloadMismatch { .. } | FormatError::HephTime { .. } => {
                        Refusal::Malformed
                    }
                    FormatError::HephArrayTooLong { .. } => Refusal::TooManyElements,
                    _ => Refusal::PayloadTooLarge,
                })
            }
        }
    }

    /// Appends, for each thread with its last sequence number, how many events are missing after
    /// the thread's last event in the trace. Appends nothing for a thread without such losses.
    ///
    /// # Errors
    /// [`FormatError::HephStream`]. An error leaves `out` unchanged.
    pub fn numbers(
        &mut self,
        threads: impl IntoIterator<Item = (u64, u32)>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let before = out.len();
        for (index, sequence) in threads {
            // An unknown thread has given no numbers so far.
            let last = self.threads.get(&index).map_or(0, |thread| thread.last);
            // A number ahead by half the range or more is an older one, which was accounted for.
            let missing = sequence.wrapping_sub(last);
            if missing == 0 || missing > i32::MAX as u32 {
                continue;
            }
            let Ok(stream) = u32::try_from(index) else {
                out.truncate(before);
                return Err(FormatError::HephStream { thread: index });
            };
            lost(stream, sequence, missing, out);
            self.changes.note(index, self.threads.get(&index));
            self.threads.entry(index).or_default().last = sequence;
        }
        Ok(())
    }

    /// Removes threads that have ended, each with its last sequence number: appends what
    /// [`numbers`](Self::numbers) appends, and forgets the threads.
    ///
    /// # Errors
    /// [`FormatError::HephStream`]. An error leaves `out` unchanged.
    ///
    /// ```
    /// use nettrace_format::heph::Stream;
    /// use nettrace_event::keys::HEPH_LOST;
    ///
    /// // Two events of the thread were attempted, and none was recorded.
    /// let (mut stream, mut trace) = (Stream::new(), Vec::new());
    /// stream.remove_threads([(17, 2)], &mut trace)?;
    /// assert!(trace.windows(HEPH_LOST.len()).any(|bytes| bytes == HEPH_LOST.as_bytes()));
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
    pub fn remove_threads(
        &mut self,
        threads: impl IntoIterator<Item = (u64, u32)> + Clone,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.numbers(threads.clone(), out)?;
        for (index, _) in threads {
            self.changes.note(index, self.threads.get(&index));
            self.threads.remove(&index);
        }
        Ok(())
    }
}

/// The type of events whose payload is written as bytes. The other has the texts already.
fn opaque(of: &Metadata) -> Metadata {
    Metadata {
        fields: vec![Field::new("payload", Type::Array(Box::new(Type::UInt8)))],
        message_template: None,
        description: None,
        key_values: Vec::new(),
        provider_guid: None,
        ..of.clone()
    }
}

/// The stream number of a thread.
fn stream(thread: u64) -> Result<u32, Refusal> {
    u32::try_from(thread).map_err(|_| Refusal::PayloadTooLarge)
}

fn lost(stream: u32, last: u32, count: u32, out: &mut Vec<u8>) {
    let mut value = [0; 16];
    value[..4].copy_from_slice(&stream.to_be_bytes());
    value[4..8].copy_from_slice(&last.to_be_bytes());
    value[8..].copy_from_slice(&u64::from(count).to_be_bytes());
    // Name and value are within the limits.
    let _ = packet::option(keys::HEPH_LOST, &value, out);
}
