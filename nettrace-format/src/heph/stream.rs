//! A whole trace, from what a session records: which types, threads and numbers there are.

use alloc::{borrow::ToOwned, collections::BTreeMap, string::String, vec::Vec};

use trace_event::EventSchema;

use crate::{
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    error::FormatError,
    heph::{
        clock::Clock,
        event::{EventInfo, EventWriter},
        packet,
    },
    payload::Refusal,
};

/// The option that says that events of a stream are missing where its counter does not show it:
/// before the first event and behind the last one. An invention of this project; other readers skip
/// it as they do all options that they do not know.
///
/// Its value is 16 bytes: the stream (32 bits), the number of the last missing event (32 bits), and
/// how many are missing since the last event of the stream, or since the last such option (64
/// bits).
pub const LOST: &str = "nettrace.lost";

/// Half of all numbers: what lies so far ahead seems to lie behind.
const HALF: u32 = 1 << 31;

/// The processor of a row that does not know it.
const NO_PROCESSOR: u32 = u32::MAX;

/// Writes the packets of one trace.
#[derive(Debug, Default)]
pub struct Stream {
    /// From the trace's beginning on.
    writer: Option<EventWriter>,
    /// By metadata id.
    types: Vec<Option<&'static EventSchema>>,
    threads: BTreeMap<u64, Thread>,
    /// Names of threads that events are about.
    subjects: BTreeMap<u64, String>,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Thread {
    name: Option<String>,
    /// The last number that the trace accounts for; a thread's first event has 1.
    last: u32,
}

impl Stream {
    /// A trace in which nothing has been said.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a trace: appends its epoch. Whatever an earlier one has defined is forgotten.
    ///
    /// # Errors
    /// [`FormatError::ClockRate`]. `out` is then as it was.
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let writer = EventWriter::new(Clock::of(info)?);
        writer.begin(out);
        *self = Self { writer: Some(writer), ..Self::default() };
        Ok(())
    }

    /// Takes note of event types, by the ids that rows have. Nothing is written: every packet says
    /// what it is.
    ///
    /// # Errors
    /// Those of [`check`](crate::heph::check).
    pub fn define(&mut self, types: &[(u32, &'static EventSchema)]) -> Result<(), FormatError> {
        for &(id, schema) in types {
            crate::heph::check(schema)?;
            let at = id as usize;
            self.types.resize(self.types.len().max(at + 1), None);
            self.types[at] = Some(schema);
        }
        Ok(())
    }

    /// Takes note of a thread and its name. Nothing is written.
    pub fn thread(&mut self, thread: &ThreadInfo<'_>) {
        self.threads.entry(thread.index).or_default().name = thread.name.map(str::to_owned);
    }

    /// Takes note of the name of a thread that rows will be about and that may have none of its
    /// own. Nothing is written.
    pub fn subject(&mut self, index: u64, name: &str) {
        self.subjects.insert(index, name.to_owned());
    }

    /// Forgets those names.
    pub fn forget_subjects(&mut self) {
        self.subjects.clear();
    }

    /// Appends the packet of a row; before it, where it is its thread's first and events before it
    /// are missing, or so many are missing that the counter does not show it, the option that
    /// [says so](LOST).
    ///
    /// # Errors
    /// Why the event cannot be told. Its number is then missing, and `out` is as it was.
    pub fn row(
        &mut self,
        header: &RowHeader,
        labels: &[Label<'_>],
        stack: &[u64],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let schema = self.types.get(header.metadata_id as usize).copied().flatten();
        let (Some(schema), Some(writer)) = (schema, &mut self.writer) else {
            return Err(Refusal::Malformed);
        };
        let before = out.len();
        let is_about_another = header.thread != header.capture_thread;
        let subject_name = if is_about_another {
            let of_thread = self.threads.get(&header.thread).and_then(|thread| thread.name.clone());
            self.subjects.get(&header.thread).cloned().or(of_thread)
        } else {
            None
        };
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
        match writer.event(schema, &info, payload, out) {
            Ok(()) => {
                thread.last = header.sequence;
                Ok(())
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

    /// Says of threads, each with the last number that it had given, how many events are missing
    /// behind the last one in the trace; appends nothing where there are none.
    ///
    /// # Errors
    /// [`FormatError::HephStream`]. `out` is then as it was.
    pub fn numbers(
        &mut self,
        threads: impl IntoIterator<Item = (u64, u32)>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let before = out.len();
        for (index, sequence) in threads {
            // A thread of which nothing is known and that has given no number.
            let last = self.threads.get(&index).map_or(0, |thread| thread.last);
            // Half of all numbers are behind any: an older one than is told already says nothing.
            let missing = sequence.wrapping_sub(last);
            if missing == 0 || missing > i32::MAX as u32 {
                continue;
            }
            let Ok(stream) = u32::try_from(index) else {
                out.truncate(before);
                return Err(FormatError::HephStream { thread: index });
            };
            lost(stream, sequence, missing, out);
            self.threads.entry(index).or_default().last = sequence;
        }
        Ok(())
    }

    /// Takes leave of threads, with the last number that each had given: as
    /// [`numbers`](Self::numbers), and forgets them.
    ///
    /// # Errors
    /// [`FormatError::HephStream`]. `out` is then as it was.
    pub fn remove_threads(
        &mut self,
        threads: impl IntoIterator<Item = (u64, u32)> + Clone,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.numbers(threads.clone(), out)?;
        for (index, _) in threads {
            self.threads.remove(&index);
        }
        Ok(())
    }
}

/// A thread's stream.
fn stream(thread: u64) -> Result<u32, Refusal> {
    u32::try_from(thread).map_err(|_| Refusal::PayloadTooLarge)
}

fn lost(stream: u32, last: u32, count: u32, out: &mut Vec<u8>) {
    let mut value = [0; 16];
    value[..4].copy_from_slice(&stream.to_be_bytes());
    value[4..8].copy_from_slice(&last.to_be_bytes());
    value[8..].copy_from_slice(&u64::from(count).to_be_bytes());
    // Name and value are short.
    let _ = packet::option(LOST, &value, out);
}
