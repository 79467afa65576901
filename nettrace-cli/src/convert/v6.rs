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
    collections::{HashMap, HashSet, hash_map::Entry},
};

use nettrace_format::{
    FormatError,
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    redact::Redaction,
    v6::{self, RowEncoder, SequencePointFlags, ThreadSequence},
};
use nettrace_reader::{Event, Item, LabelLists, Metadata, SequencePoint, Stack, Thread};
use nettrace_views::model::recording_and_key;

use crate::{
    convert::{Rewriter, omissions::Omissions, redact, sequence::Numbers, turned, types},
    failure::Failure,
};

/// A block ends when its rows have this many bytes: blocks of version 5 may be larger than version
/// 6 allows.
const MOST_ROWS: usize = 4 << 20;

/// How many label lists of activity ids are remembered. When there are more, all are forgotten, and
/// defined again where they are needed.
const MOST_LISTS: usize = 1 << 16;

/// How many label lists of the source are decoded and written together.
const LISTS_OF_BLOCK: usize = 1 << 12;

/// From this many threads on, the result removes threads that no sequence point and no event has
/// mentioned for a while. Only for sources of version 4 or 5.
const MANY_THREADS: usize = 4096;

/// A trace of version 6 that is being written.
#[derive(Debug)]
pub(super) struct ToV6 {
    /// Whether the source is of version 4 or 5.
    is_older: bool,
    pointer_size: u32,
    /// From an older source: the process of all threads.
    process_id: Option<u64>,
    encoder: RowEncoder,
    rows: Vec<u8>,
    block: Option<Block>,
    /// From an older source: the threads that are defined, by index.
    threads: HashMap<u64, OlderThread>,
    /// From an older source: the label lists that are defined, by the two activity ids.
    lists: HashMap<[[u8; 16]; 2], u32>,
    last_list: u32,
    /// How many sequence points have been passed.
    epoch: u64,
    /// Stacks that were left out since the last sequence point.
    no_stacks: HashSet<u32>,
    left_out: Omissions,
    /// What is replaced in the result.
    redaction: Option<Redaction>,
    /// Whether threads do not tell their process.
    hides_process: bool,
}

/// The event block that is being written.
#[derive(Clone, Copy, Debug)]
struct Block {
    capture_thread: u64,
    first_ts: u64,
    last_ts: u64,
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
            pointer_size: 8,
            process_id: None,
            encoder: RowEncoder::new(),
            rows: Vec::new(),
            block: None,
            threads: HashMap::new(),
            lists: HashMap::new(),
            last_list: 0,
            epoch: 0,
            no_stacks: HashSet::new(),
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
            self.end_block(out)?;
            self.left_out.large_events += 1;
            return Ok(());
        }
        let redaction = self.redaction.as_mut();
        let redacted = match redaction.and_then(|it| it.payload(header.metadata_id, event.payload))
        {
            None => None,
            Some(Ok(payload)) => Some(payload),
            Some(Err(_)) => {
                self.end_block(out)?;
                self.left_out.strange_events += 1;
                return Ok(());
            }
        };
        let payload = redacted.as_deref().unwrap_or(event.payload);
        let is_other = |block: &Block| block.capture_thread != header.capture_thread;
        if self.block.as_ref().is_some_and(is_other) || self.rows.len() >= MOST_ROWS {
            self.end_block(out)?;
        }
        let (mut sequence, mut labels) = (header.sequence_number, header.label_list);
        if self.is_older {
            self.introduce(header.thread, || event.thread().clone(), out)?;
            let thread = || event.capture_thread().thread.clone();
            let numbers = self.introduce(header.capture_thread, thread, out)?;
            let (number, is_other) = numbers.of_event(sequence);
            self.left_out.numbers += u64::from(is_other);
            sequence = number;
            labels = self.list(header.activity_id, header.related_activity_id, out)?;
        }
        let stack = if self.no_stacks.contains(&header.stack_id) { 0 } else { header.stack_id };
        let row = RowHeader {
            metadata_id: header.metadata_id,
            sequence,
            capture_thread: header.capture_thread,
            processor: header.processor,
            thread: header.thread,
            stack,
            timestamp: header.timestamp,
            labels,
            sorted: header.is_sorted,
            payload_len: payload.len() as u32,
        };
        match &mut self.block {
            Some(block) => {
                block.first_ts = block.first_ts.min(row.timestamp);
                block.last_ts = block.last_ts.max(row.timestamp);
                self.encoder.row(&row, &mut self.rows);
            }
            none => {
                *none = Some(Block {
                    capture_thread: row.capture_thread,
                    first_ts: row.timestamp,
                    last_ts: row.timestamp,
                });
                self.encoder = RowEncoder::new();
                self.encoder.full_row(&row, &mut self.rows);
            }
        }
        self.rows.extend_from_slice(payload);
        Ok(())
    }

    fn end_block(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if let Some(Block { first_ts, last_ts, .. }) = self.block.take() {
            out.extend(v6::event_block_header(first_ts, last_ts, true, self.rows.len())?);
            out.extend_from_slice(&self.rows);
            self.rows.clear();
        }
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
        v6::metadata_block(&rows, out)
    }

    fn label_lists(
        &mut self,
        mut lists: LabelLists<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        loop {
            let run: Vec<_> = lists.by_ref().take(LISTS_OF_BLOCK).collect();
            let Some((first, _)) = run.first() else { return Ok(()) };
            let mut owned: Vec<Vec<_>> = Vec::new();
            let mut all: Vec<Vec<Label<'_>>> = Vec::with_capacity(run.len());
            for (_, list) in &run {
                if let Some(redaction) = &mut self.redaction {
                    let redacted = list.labels.iter().map(|label| redact::label(redaction, label));
                    let redacted: Vec<_> = redacted.collect();
                    owned.push(redacted);
                }
            }
            for (at, (_, list)) in run.iter().enumerate() {
                let list = owned.get(at).unwrap_or(&list.labels);
                let labels: Vec<_> = list.iter().filter_map(types::label).collect();
                self.left_out.labels += (list.len() - labels.len()) as u64;
                all.push(labels);
            }
            let all: Vec<_> = all.iter().map(|list| &**list).collect();
            v6::label_list_block(*first, &all, out)?;
        }
    }

    fn stacks(
        &mut self,
        stacks: &[(u32, Stack<'_>)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        // The ids in a block are consecutive. A stack that is left out starts another block.
        let mut run: Vec<Vec<u64>> = Vec::new();
        let mut first = 0;
        for (id, stack) in stacks {
            let addresses: Vec<u64> = stack.addresses().collect();
            let size = addresses.len() * self.pointer_size as usize;
            if *id == 0 || size > v6::MAX_STACK {
                self.left_out.stacks += 1;
                self.no_stacks.insert(*id);
                self.stack_block(first, &mut run, out)?;
                continue;
            }
            if run.is_empty() {
                first = *id;
            }
            run.push(addresses);
        }
        self.stack_block(first, &mut run, out)
    }

    fn stack_block(
        &self,
        first: u32,
        run: &mut Vec<Vec<u64>>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if !run.is_empty() {
            let stacks: Vec<_> = run.iter().map(|stack| &**stack).collect();
            v6::stack_block(first, &stacks, self.pointer_size, out)?;
            run.clear();
        }
        Ok(())
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
        v6::sequence_point(point.timestamp, flags, &threads, out)?;
        self.lists.clear();
        self.last_list = 0;
        self.no_stacks.clear();
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
                thread_block(&[thread], out)?;
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
        v6::remove_thread_block(&gone, out)
    }

    /// The label list of two activity ids, as the rows of versions 4 and 5 have them; 0 if both are
    /// zero.
    fn list(
        &mut self,
        activity: [u8; 16],
        related: [u8; 16],
        out: &mut Vec<u8>,
    ) -> Result<u32, FormatError> {
        if activity == [0; 16] && related == [0; 16] {
            return Ok(0);
        }
        if let Some(id) = self.lists.get(&[activity, related]) {
            return Ok(*id);
        }
        let mut labels = Vec::new();
        if activity != [0; 16] {
            labels.push(Label::ActivityId(turned(activity)));
        }
        if related != [0; 16] {
            labels.push(Label::RelatedActivityId(turned(related)));
        }
        let too_many = FormatError::IdTooLarge { kind: v6::BlockKind::LabelList, id: 1 << 32 };
        let id = self.last_list.checked_add(1).ok_or(too_many)?;
        v6::label_list_block(id, &[&labels], out)?;
        self.last_list = id;
        if self.lists.len() >= MOST_LISTS {
            self.lists.clear();
        }
        self.lists.insert([activity, related], id);
        Ok(id)
    }
}

impl Rewriter for ToV6 {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.pointer_size = info.pointer_size;
        self.process_id = info.value("ProcessId").and_then(|id| id.parse().ok());
        v6::stream_header(out);
        let Some(redaction) = &mut self.redaction else { return Ok(v6::trace_block(info, out)?) };
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
        Ok(v6::trace_block(&TraceInfo { key_values: &key_values, ..*info }, out)?)
    }

    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Item::Event(event) = &item {
            return self.event(event, out);
        }
        self.end_block(out)?;
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
                thread_block(&threads, out)?;
            }
            Item::RemovedThreads(threads) => {
                let numbers = threads.into_iter();
                let gone: Vec<_> =
                    numbers.map(|(thread, sequence)| ThreadSequence { thread, sequence }).collect();
                v6::remove_thread_block(&gone, out)?;
            }
            Item::Stacks(stacks) => self.stacks(&stacks, out)?,
            Item::LabelLists(lists) => self.label_lists(lists, out)?,
            Item::SequencePoint(point) => self.sequence_point(point, out)?,
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.end_block(out)?;
        out.extend_from_slice(&v6::END_OF_STREAM);
        Ok(())
    }

    fn left_out(&self) -> Omissions {
        self.left_out
    }
}

fn thread_block(threads: &[Thread], out: &mut Vec<u8>) -> Result<(), FormatError> {
    let mut rows = Vec::new();
    for thread in threads {
        let key_values = types::pairs(&thread.key_values);
        let info = ThreadInfo {
            index: thread.index,
            name: thread.name.as_deref(),
            process_id: thread.process_id,
            os_thread_id: thread.os_thread_id,
            key_values: &key_values,
        };
        v6::thread_row(&info, &mut rows)?;
    }
    v6::thread_block(&rows, out)
}
