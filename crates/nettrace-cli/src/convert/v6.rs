//! Converts to NetTrace V6, which can express whatever the versions before it contain.
//!
//! From version 6 to version 6, ids, sequence numbers, sorted marks and flushes stay the same; only
//! the bytes may differ. From versions 4 and 5:
//!
//! * each thread is defined before the first row that refers to it. Its index is its id in the
//!   operating system, which no other live thread has;
//! * the activity ids of rows become label lists;
//! * where the sequence numbers of the source begin again, those of the result continue: see
//!   [`sequence`];
//! * a block ends where the capture thread changes.
//!
//! [`sequence`]: super::sequence

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use nettrace_format::{
    Composer, FormatError,
    content::{RowHeader, ThreadInfo, TraceInfo},
    redact::Redaction,
    v6::{SequencePointFlags, ThreadSequence},
};
use nettrace_reader::{Event, Item, Metadata, SequencePoint, Thread};
use nettrace_views::model::recording_and_key;

use crate::{
    convert::{
        Rewriter, omissions::Omissions, redact, references::References, sequence::Numbers, types,
    },
    failure::Failure,
};

/// From this many threads on, the result removes threads that no sequence point and no event has
/// mentioned for a while. Only for sources of version 4 or 5.
const MANY_THREADS: usize = 4096;

/// A trace of version 6 that is being written.
#[derive(Debug)]
pub(super) struct ToV6 {
    /// Whether the source is of version 4 or 5.
    is_older: bool,
    composer: Composer,
    /// From an older source: the process of all threads.
    process_id: Option<u64>,
    /// From an older source: the threads that are defined, by index.
    threads: HashMap<u64, OlderThread>,
    references: References,
    /// How many sequence points have been passed.
    epoch: u64,
    left_out: Omissions,
    /// What is replaced in the result.
    redaction: Option<Redaction>,
    /// Whether threads do not tell their process.
    hides_process: bool,
}

/// A thread of an older source.
#[derive(Clone, Copy, Debug, Default)]
struct OlderThread {
    numbers: Numbers,
    seen_at: u64,
}

impl ToV6 {
    /// For a source of this version.
    pub(super) fn new(version: u32) -> Self {
        Self {
            is_older: version < 6,
            composer: Composer::new(),
            process_id: None,
            threads: HashMap::new(),
            references: References::default(),
            epoch: 0,
            left_out: Omissions::default(),
            redaction: None,
            hides_process: false,
        }
    }

    /// Also replaces values.
    pub(super) fn redacted(version: u32, redaction: Redaction) -> Self {
        Self { redaction: Some(redaction), ..Self::new(version) }
    }

    /// Whether something had each name. `types` are those of the trace.
    pub(super) fn redaction_result(&self, types: &[Metadata]) -> Result<(), Failure> {
        self.redaction.as_ref().map_or(Ok(()), |redaction| redact::result(redaction, types))
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let header = event.header;
        if header.payload_size > u16::MAX.into() {
            // It may be marked as sorted, and a thread may change only at such a row.
            self.composer.end_blocks(out)?;
            self.left_out.large_events += 1;
            return Ok(());
        }
        let redaction = self.redaction.as_mut();
        let redacted = match redaction.and_then(|it| it.payload(header.metadata_id, event.payload))
        {
            None => None,
            Some(Ok(payload)) => Some(payload),
            Some(Err(_)) => {
                self.composer.end_blocks(out)?;
                self.left_out.strange_events += 1;
                return Ok(());
            }
        };
        let payload = redacted.as_deref().unwrap_or(event.payload);
        let (mut sequence, mut labels) = (header.sequence_number, header.label_list);
        if self.is_older {
            self.introduce(header.thread, || event.thread().clone(), out)?;
            let thread = || event.capture_thread().thread.clone();
            let numbers = self.introduce(header.capture_thread, thread, out)?;
            let (number, is_other) = numbers.of_event(sequence);
            self.left_out.numbers += u64::from(is_other);
            sequence = number;
            labels = self.references.activities(header, &mut self.composer, out)?;
        }
        let row = RowHeader {
            metadata_id: header.metadata_id,
            sequence,
            capture_thread: header.capture_thread,
            processor: header.processor,
            thread: header.thread,
            stack: self.references.stack(header),
            timestamp: header.timestamp,
            labels,
            sorted: header.is_sorted,
            ..RowHeader::default()
        };
        self.composer.row(&row, payload, out)?;
        Ok(())
    }

    fn metadata(&mut self, metadata: &[Metadata], out: &mut Vec<u8>) -> Result<(), FormatError> {
        let mut rows = Vec::new();
        for of in metadata {
            if let Some(redaction) = &mut self.redaction {
                redact::define(redaction, of);
            }
            // Readers know the fields of these from a table, as this one does.
            let fields = Vec::new();
            let of = &match of.is_from_table {
                true => Cow::Owned(Metadata { fields, ..of.clone() }),
                false => Cow::Borrowed(of),
            };
            let cut = types::put_description(of, self.is_older, &mut rows)?;
            if cut.has_unknown_fields {
                self.left_out.without_fields(of);
            }
            self.left_out.type_texts += u64::from(cut.texts);
            self.left_out.type_fields += u64::from(cut.fields);
        }
        self.composer.metadata(&rows, out)
    }

    fn sequence_point(
        &mut self,
        point: SequencePoint,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.epoch += 1;
        let mut threads = Vec::with_capacity(point.threads.len());
        for (thread, mut sequence) in point.threads {
            if self.is_older {
                let (process_id, os_thread_id) = (self.process_id, Some(thread));
                let new =
                    || Thread { index: thread, process_id, os_thread_id, ..Thread::default() };
                sequence = self.introduce(thread, new, out)?.of_point(sequence);
            }
            threads.push(ThreadSequence { thread, sequence });
        }
        let flags = SequencePointFlags {
            flush_threads: point.flush_threads,
            flush_metadata: point.flush_metadata,
        };
        self.composer.sequence_point(point.timestamp, flags, &threads, out)?;
        self.references = References::default();
        self.forget_threads(out)
    }

    /// The numbers of a thread of an older source. Defines the thread if it is not defined.
    fn introduce(
        &mut self,
        index: u64,
        thread: impl FnOnce() -> Thread,
        out: &mut Vec<u8>,
    ) -> Result<&mut Numbers, FormatError> {
        let epoch = self.epoch;
        let known = match self.threads.entry(index) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut thread = thread();
                if self.hides_process {
                    thread.process_id = None;
                }
                define(&mut self.composer, &thread, out)?;
                new.insert(OlderThread::default())
            }
        };
        known.seen_at = epoch;
        Ok(&mut known.numbers)
    }

    /// Removes threads of an older source if there are many: those that nothing mentioned between
    /// two sequence points. Versions 4 and 5 do not say which threads have ended.
    fn forget_threads(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if self.threads.len() <= MANY_THREADS {
            return Ok(());
        }
        let mut gone = Vec::new();
        let epoch = self.epoch;
        self.threads.retain(|&thread, known| {
            let stays = known.seen_at >= epoch - 1;
            if !stays {
                gone.push(ThreadSequence { thread, sequence: known.numbers.last() });
            }
            stays
        });
        gone.sort_unstable_by_key(|entry| entry.thread);
        self.composer.remove_threads(&gone, out)
    }
}

impl Rewriter for ToV6 {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.process_id = info.value("ProcessId").and_then(|id| id.parse().ok());
        let Some(redaction) = &mut self.redaction else {
            return Ok(self.composer.begin(info, out)?);
        };
        let has_process =
            info.key_values.iter().any(|(key, _)| recording_and_key(key).1 == "ProcessId");
        if has_process && redaction.hides("ProcessId") {
            (self.process_id, self.hides_process) = (None, true);
        }
        let text = |&(key, value)| {
            let named = if redaction.hides(key) { key } else { recording_and_key(key).1 };
            (key, redaction.text(named, value))
        };
        let pairs: Vec<_> = info.key_values.iter().map(text).collect();
        let key_values: Vec<_> = pairs.iter().map(|(key, value)| (*key, &**value)).collect();
        let info = TraceInfo { key_values: &key_values, ..*info };
        Ok(self.composer.begin(&info, out)?)
    }

    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Item::Event(event) = &item {
            return self.event(event, out);
        }
        self.composer.end_blocks(out)?;
        match item {
            Item::Metadata(types) => self.metadata(&types, out)?,
            Item::Threads(mut threads) => {
                if self.hides_process {
                    threads.iter_mut().for_each(|thread| thread.process_id = None);
                }
                if let Some(redaction) = &mut self.redaction {
                    for (key, value) in threads.iter_mut().flat_map(|it| &mut it.key_values) {
                        *value = redaction.text(key, value).into_owned();
                    }
                }
                for thread in &threads {
                    define(&mut self.composer, thread, out)?;
                }
            }
            Item::RemovedThreads(threads) => {
                let numbers = threads.into_iter();
                let gone: Vec<_> =
                    numbers.map(|(thread, sequence)| ThreadSequence { thread, sequence }).collect();
                self.composer.remove_threads(&gone, out)?;
            }
            Item::Stacks(stacks) => {
                self.left_out.stacks += self.references.stacks(&stacks, &mut self.composer, out)?;
            }
            Item::LabelLists(lists) => {
                let Self { redaction, composer, .. } = self;
                let change = |label| match redaction.as_mut() {
                    Some(redaction) => redact::label(redaction, label),
                    None => label,
                };
                References::label_lists(lists, change, composer, out)?;
            }
            Item::SequencePoint(point) => self.sequence_point(point, out)?,
            _ => {}
        }
        // The result has the blocks of the source.
        Ok(self.composer.end_blocks(out)?)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(self.composer.finish(out)?)
    }

    fn left_out(&self) -> Omissions {
        self.left_out
    }
}

fn define(composer: &mut Composer, thread: &Thread, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let info = ThreadInfo {
        index: thread.index,
        name: thread.name.as_deref(),
        process_id: thread.process_id,
        os_thread_id: thread.os_thread_id,
        key_values: &types::pairs(&thread.key_values),
    };
    composer.thread(&info, out)
}
