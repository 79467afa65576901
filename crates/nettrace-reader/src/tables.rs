//! The definitions of a stream so far, and the counts of threads and event types.

use std::{borrow::Cow, mem::size_of, ops::Range};

pub use crate::tables::numbers::ThreadTotals;
pub(crate) use crate::tables::{cost::cost_of_metadata, numbers::Number};
use foldhash::HashMap;
use nettrace_format::{Metadata, Stack, Thread, Trace, v6::EncodedLabels};

use crate::{
    error::{Error, ErrorKind, Result, Table},
    framing::Format,
    labels::{Label, LastLabels},
    options::Dialect,
    runtime,
    tables::{cost::cost_of_thread, label_lists::LabelLists, numbers::Numbering},
};

mod cost;
mod label_lists;
mod numbers;
mod spans;

/// An event type and the counts of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeTotals {
    /// The event type.
    pub metadata: Metadata,
    /// The number of its events.
    pub events: u64,
    /// The size of their payloads in bytes.
    pub payload_bytes: u64,
}

/// The place of a thread or event type in its table.
pub(crate) type Slot = u32;

/// A place in the stream: how many definitions of threads and label lists are before it. An event
/// refers to the threads and the label list that its indices meant at its place, even if the
/// indices get another meaning before the event is delivered.
pub(crate) type Definitions = u64;

/// How a stream goes on with those before it, if there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Continues {
    /// The numbers of threads begin again.
    #[default]
    NextFile,
    /// The numbers go on, maybe much later.
    Later,
    /// It begins with threads and events that those before it had.
    Again,
}

/// In versions 4 and 5, no block states that a thread has ended. With more threads than this, the
/// reader forgets those that a sequence point does not list.
const MANY_THREADS: usize = 4096;

/// All definitions to which rows can refer.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) trace: Trace,
    format: Format,
    dialect: Dialect,
    /// Whether event types without fields are looked up among those of the .NET runtime.
    pub(crate) describes_runtime: bool,
    /// Whether event types that are declared wrongly are corrected.
    pub(crate) corrects_types: bool,
    /// Versions 4 and 5: the process id of all threads.
    process_id: Option<u64>,
    /// Whether any event type has tags. They distinguish version 5 from version 4.
    pub(crate) has_tags: bool,
    /// The number of sequence points so far.
    epoch: u64,
    metadata: Vec<Metadata>,
    /// The number of events of each type, and the size of their payloads.
    type_counts: Vec<(u64, u64)>,
    metadata_slots: HashMap<u32, Slot>,
    /// How many joined streams have ended, and how many had when each type was defined last.
    stream: u64,
    pub(crate) continues: Continues,
    /// The last numbers of threads that have ended, if a joined stream can have them again.
    pub(crate) ended: Option<HashMap<u64, u32>>,
    metadata_streams: Vec<u64>,
    threads: Vec<ThreadTotals>,
    /// Versions 4 and 5: whether there were too many threads to remember all of them.
    has_forgotten: bool,
    thread_slots: HashMap<u64, Slot>,
    /// The number of definitions of threads and label lists so far.
    definitions: Definitions,
    /// By index: removed threads to which events that are not delivered yet may refer, the earliest
    /// definition first.
    removed_threads: HashMap<u64, Vec<Slot>>,
    free_threads: Vec<Slot>,
    stacks: Stacks,
    /// Those of joined streams that have ended, to which events may refer that are not delivered
    /// yet.
    older: Vec<Older>,
    label_lists: LabelLists,
    /// About how many bytes the definitions take.
    cost: Cost,
    limit: usize,
}

#[derive(Debug, Default)]
struct Cost {
    metadata: usize,
    threads: usize,
}

/// The stacks of a stream since the last sequence point.
#[derive(Debug, Default)]
struct Stacks {
    places: HashMap<u32, Range<usize>>,
    bytes: Vec<u8>,
}

/// The stacks and label lists of a joined stream that has ended.
#[derive(Debug)]
struct Older {
    stream: u64,
    /// The number of the last definition in the stream.
    last: Definitions,
    stacks: Stacks,
    label_lists: LabelLists,
}

impl Stacks {
    /// About how many bytes they take.
    fn cost(&self) -> usize {
        self.bytes.len() + self.places.len() * 2 * size_of::<(u32, Range<usize>)>()
    }
}

impl Tables {
    pub(crate) fn new(format: Format, dialect: Dialect, trace: Trace, limit: usize) -> Self {
        let process_id = trace.value("ProcessId").and_then(|id| id.parse().ok());
        Self {
            trace,
            format,
            dialect,
            describes_runtime: false,
            corrects_types: false,
            process_id,
            has_tags: false,
            epoch: 0,
            metadata: Vec::new(),
            type_counts: Vec::new(),
            metadata_slots: HashMap::default(),
            stream: 0,
            continues: Continues::default(),
            ended: None,
            metadata_streams: Vec::new(),
            threads: Vec::new(),
            has_forgotten: false,
            thread_slots: HashMap::default(),
            definitions: Definitions::default(),
            removed_threads: HashMap::default(),
            free_threads: Vec::new(),
            stacks: Stacks::default(),
            older: Vec::new(),
            label_lists: LabelLists::default(),
            cost: Cost::default(),
            limit,
        }
    }

    pub(crate) fn metadata_slot(&self, id: u32) -> Option<Slot> {
        self.metadata_slots.get(&id).copied()
    }

    #[inline]
    pub(crate) fn metadata(&self, slot: Slot) -> &Metadata {
        &self.metadata[slot as usize]
    }

    /// Whether an event type states its fields. A type without fields may be one that its producer
    /// does not describe, such as those of the .NET runtime (even after a conversion to version 6).
    pub(crate) fn has_fields(&self, slot: Slot) -> bool {
        !self.metadata(slot).fields.is_empty()
    }

    /// Whether a reader that identifies event types by provider and event id can use the type of
    /// `id` in place of this one. .NET has such types, in several versions (even after a conversion
    /// to version 6).
    pub(crate) fn is_alike(&self, id: u32, metadata: &Metadata) -> bool {
        self.metadata_slot(id).is_some_and(|slot| {
            let other = self.metadata(slot);
            (&other.name, &other.fields) == (&metadata.name, &metadata.fields)
                && (self.format == Format::V5 || other.version != metadata.version)
        })
    }

    /// Whether the numbers of a thread id may begin again, because another thread has got the id.
    pub(crate) fn reuses_ids(&self) -> bool {
        self.format == Format::V5
    }

    pub(crate) fn all_metadata(&self) -> &[Metadata] {
        &self.metadata
    }

    pub(crate) fn define_metadata(&mut self, offset: u64, mut metadata: Metadata) -> Result<()> {
        let id = metadata.id;
        if (self.format, self.dialect) == (Format::V5, Dialect::Reference)
            && metadata.fields.iter().any(|field| field.ty.unknown_code().is_some())
        {
            metadata.fields.clear();
        }
        if self.describes_runtime {
            runtime::describe(&mut metadata, self.trace.pointer_size);
        }
        if self.corrects_types {
            runtime::correct(&mut metadata);
        }
        if let Some(slot) = self.metadata_slot(id) {
            let stream = &mut self.metadata_streams[slot as usize];
            if *stream == self.stream || self.metadata[slot as usize] != metadata {
                return Err(duplicate(offset, Table::Metadata, id.into()));
            }
            *stream = self.stream;
            return Ok(());
        }
        self.cost.metadata += cost_of_metadata(&metadata);
        self.check_limit(offset)?;
        self.has_tags |= metadata.has_tags;
        self.metadata_slots.insert(id, self.metadata.len() as Slot);
        self.metadata.push(metadata);
        self.metadata_streams.push(self.stream);
        self.type_counts.push((0, 0));
        Ok(())
    }

    /// Returns the event types that are forgotten.
    pub(crate) fn flush_metadata(&mut self) -> (Vec<Metadata>, Vec<(u64, u64)>) {
        self.metadata_slots.clear();
        self.metadata_streams.clear();
        self.cost.metadata = 0;
        (std::mem::take(&mut self.metadata), std::mem::take(&mut self.type_counts))
    }

    /// Counts events of a type, each with a payload of `payload_size` bytes.
    #[inline]
    pub(crate) fn count_type(&mut self, slot: Slot, events: u64, payload_size: u32) {
        let (all, bytes) = &mut self.type_counts[slot as usize];
        *all += events;
        *bytes += events * u64::from(payload_size);
    }

    /// For each type of [`all_metadata`](Self::all_metadata), the number of its events and the size
    /// of their payloads.
    pub(crate) fn type_counts(&self) -> &[(u64, u64)] {
        &self.type_counts
    }

    pub(crate) fn thread_slot(&self, index: u64) -> Option<Slot> {
        self.thread_slots.get(&index).copied()
    }

    /// The thread to which a row or a sequence point at `offset` refers. In versions 4 and 5, no
    /// block defines a thread, so this function defines it on first use.
    pub(crate) fn thread_at(&mut self, offset: u64, index: u64) -> Result<Slot> {
        if let Some(slot) = self.thread_slot(index) {
            return Ok(slot);
        }
        if self.format == Format::V6 {
            return Err(undefined(offset, Table::Thread, index));
        }
        let (process_id, os_thread_id) = (self.process_id, Some(index));
        let thread = Thread { index, process_id, os_thread_id, ..Thread::default() };
        let slot = self.add_thread(offset, thread)?;
        let thread = &mut self.threads[slot as usize];
        thread.seen_at = self.epoch;
        if self.has_forgotten && thread.numbering == Numbering::Restarting {
            thread.numbering = Numbering::Forgotten;
        }
        Ok(slot)
    }

    /// The same, for a thread whose sequence number is stated there.
    pub(crate) fn numbered_thread_at(
        &mut self,
        offset: u64,
        index: u64,
        number: Number,
    ) -> Result<Slot> {
        let slot = self.thread_at(offset, index)?;
        let epoch = self.epoch;
        let thread = self.thread_mut(slot);
        thread.begin_numbers(number);
        thread.seen_at = epoch;
        Ok(slot)
    }

    /// The number of sequence points so far.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of definitions so far.
    #[inline]
    pub(crate) fn definitions(&self) -> Definitions {
        self.definitions
    }

    /// The thread that had the index at a place of the stream.
    pub(crate) fn thread_slot_among(&self, definitions: Definitions, index: u64) -> Option<Slot> {
        let is_known = |slot: &Slot| self.thread(*slot).definition <= definitions;
        self.thread_slot(index).filter(is_known).or_else(|| {
            self.removed_threads.get(&index)?.iter().rev().copied().find(|slot| is_known(slot))
        })
    }

    #[inline]
    pub(crate) fn thread(&self, slot: Slot) -> &ThreadTotals {
        &self.threads[slot as usize]
    }

    #[inline]
    pub(crate) fn thread_mut(&mut self, slot: Slot) -> &mut ThreadTotals {
        &mut self.threads[slot as usize]
    }

    /// Those that live at this point, as far as is known.
    pub(crate) fn live_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.defined_threads().filter(|thread| !thread.is_repeated())
    }

    fn defined_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.thread_slots.values().map(|slot| &self.threads[*slot as usize])
    }

    pub(crate) fn define_thread(&mut self, offset: u64, thread: Thread) -> Result<()> {
        let index = thread.index;
        let Some(slot) = self.thread_slot(index) else {
            return self.add_thread(offset, thread).map(|_| ());
        };
        let known = &mut self.threads[slot as usize];
        if known.stream == self.stream {
            return Err(duplicate(offset, Table::Thread, index));
        }
        // It goes on in this stream.
        self.cost.threads -= cost_of_thread(&known.thread);
        self.cost.threads += cost_of_thread(&thread);
        (known.thread, known.stream) = (thread, self.stream);
        match self.continues {
            Continues::NextFile => known.last_sequence = 0,
            Continues::Later => known.comes_later = true,
            Continues::Again => {}
        }
        self.check_limit(offset)
    }

    fn add_thread(&mut self, offset: u64, thread: Thread) -> Result<Slot> {
        let index = thread.index;
        self.cost.threads += cost_of_thread(&thread);
        self.check_limit(offset)?;
        self.definitions += 1;
        let ended = self.ended.as_ref().and_then(|ended| ended.get(&index).copied());
        let totals = ThreadTotals {
            thread,
            last_sequence: ended.unwrap_or(0),
            has_ended_before: ended.is_some(),
            comes_later: self.continues == Continues::Later,
            numbering: Numbering::new(self.format, self.dialect),
            definition: self.definitions,
            stream: self.stream,
            ..ThreadTotals::default()
        };
        let slot = match self.free_threads.pop() {
            Some(slot) => {
                self.threads[slot as usize] = totals;
                slot
            }
            None => {
                self.threads.push(totals);
                (self.threads.len() - 1) as Slot
            }
        };
        self.thread_slots.insert(index, slot);
        Ok(slot)
    }

    /// Removes a thread. Only events that were read before may still refer to it.
    pub(crate) fn remove_thread(&mut self, index: u64) {
        if let Some(slot) = self.thread_slots.remove(&index) {
            self.removed_threads.entry(index).or_default().push(slot);
            if let Some(ended) = &mut self.ended {
                ended.insert(index, self.threads[slot as usize].last_sequence);
            }
        }
    }

    pub(crate) fn flush_threads(&mut self) {
        let slots: Vec<_> = self.thread_slots.drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            self.free_thread(slot);
        }
    }

    /// Notes that a stream has ended and that its continuation begins. Returns threads that seem to
    /// have ended, and are removed.
    pub(crate) fn begin_stream(&mut self, continues: Continues) -> Vec<ThreadTotals> {
        // What comes now belongs to other definitions.
        let last = self.definitions;
        self.definitions += 1;
        let stacks = std::mem::take(&mut self.stacks);
        let label_lists = std::mem::take(&mut self.label_lists);
        self.older.push(Older { stream: self.stream, last, stacks, label_lists });
        // A stream that repeats others can end before threads do that have ended in them.
        let repeated = self.defined_threads().filter(|thread| thread.is_repeated());
        for index in repeated.map(|thread| thread.thread.index).collect::<Vec<_>>() {
            self.remove_thread(index);
        }
        // A stream need not say that a thread ended if that happens as the stream ends.
        let mut gone = Vec::new();
        if self.thread_slots.len() > MANY_THREADS {
            let threads = self.live_threads();
            gone.extend(threads.filter(|thread| thread.stream < self.stream).cloned());
            gone.iter().for_each(|thread| self.remove_thread(thread.thread.index));
        }
        self.stream += 1;
        self.continues = continues;
        if continues == Continues::NextFile {
            self.ended.iter_mut().for_each(HashMap::clear);
        }
        gone
    }

    /// Forgets the stacks and label lists of this stream. No event that was delivered, or will be,
    /// refers to them.
    pub(crate) fn flush_stream(&mut self) {
        self.stacks = Stacks::default();
        self.label_lists = LabelLists::default();
    }

    /// How many joined streams have ended.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// Drops what only events refer to that came before these definitions.
    pub(crate) fn forget_older(&mut self, definitions: Definitions) {
        self.older.retain(|older| definitions <= older.last);
    }

    /// How many joined streams had ended at a place of the stream to which stacks belong.
    pub(crate) fn stream_of_stacks(&self, definitions: Definitions) -> u64 {
        self.older(definitions).map_or(self.stream, |older| older.stream)
    }

    #[inline]
    fn older(&self, definitions: Definitions) -> Option<&Older> {
        self.older.iter().find(|older| definitions <= older.last)
    }

    /// Drops removed and replaced definitions. All events that were read have been delivered.
    pub(crate) fn forget_removed(&mut self) {
        if !self.removed_threads.is_empty() {
            let slots: Vec<_> = self.removed_threads.drain().flat_map(|(_, slots)| slots).collect();
            for slot in slots {
                self.free_thread(slot);
            }
        }
        self.label_lists.forget_replaced();
        self.older.clear();
    }

    pub(crate) fn has_stack(&self, id: u32) -> bool {
        id == 0 || self.stacks.places.contains_key(&id)
    }

    /// The stack that had the id at a place of the stream.
    pub(crate) fn stack(&self, definitions: Definitions, id: u32) -> Option<Stack<'_>> {
        let stacks = self.older(definitions).map_or(&self.stacks, |older| &older.stacks);
        let bytes = &stacks.bytes[stacks.places.get(&id)?.clone()];
        Some(Stack::new(bytes, self.trace.pointer_size))
    }

    pub(crate) fn define_stack(&mut self, offset: u64, id: u32, addresses: &[u8]) -> Result<()> {
        let Stacks { places, bytes } = &mut self.stacks;
        let start = bytes.len();
        bytes.extend_from_slice(addresses);
        match places.insert(id, start..bytes.len()) {
            None => self.check_limit(offset),
            Some(_) => Err(duplicate(offset, Table::Stack, id.into())),
        }
    }

    #[inline]
    pub(crate) fn has_label_list(&self, index: u32) -> bool {
        index == 0 || self.label_lists.contains(index)
    }

    #[inline]
    fn lists(&self, definitions: Definitions) -> &LabelLists {
        self.older(definitions).map_or(&self.label_lists, |older| &older.label_lists)
    }

    /// The labels that had the index at a place of the stream.
    pub(crate) fn labels(&self, definitions: Definitions, index: u32) -> Cow<'_, [Label]> {
        self.lists(definitions).labels(definitions, index)
    }

    /// The same, if the labels of the event before are known. Returns whether these are others.
    #[inline]
    pub(crate) fn labels_into(
        &self,
        definitions: Definitions,
        index: u32,
        last: &mut LastLabels,
    ) -> bool {
        self.lists(definitions).labels_into(definitions, index, last)
    }

    /// The value of the last of these labels that is of a kind that replaces a fact of the event
    /// type.
    pub(crate) fn override_by(
        &self,
        definitions: Definitions,
        index: u32,
        kind: u8,
    ) -> Option<u64> {
        self.lists(definitions).override_by(definitions, index, kind)
    }

    /// Defines a label list. It replaces an earlier one with the same index for later events.
    /// Returns whether there was one.
    pub(crate) fn define_label_list(
        &mut self,
        offset: u64,
        index: u32,
        list: EncodedLabels<'_>,
    ) -> Result<bool> {
        self.definitions += 1;
        let is_replaced = self.label_lists.insert(self.definitions, index, list);
        self.check_limit(offset)?;
        Ok(is_replaced)
    }

    /// Forgets stacks and label lists, which must be defined again after a sequence point. In
    /// versions 4 and 5, which do not state that a thread has ended, also forgets threads, and
    /// returns them.
    pub(crate) fn flush_epoch(&mut self) -> Vec<ThreadTotals> {
        let mut forgotten = Vec::new();
        if self.format == Format::V5 && self.thread_slots.len() > MANY_THREADS {
            let is_gone = |slot: &Slot| self.threads[*slot as usize].seen_at < self.epoch;
            let slots: Vec<_> = self.thread_slots.values().copied().filter(is_gone).collect();
            self.has_forgotten |= !slots.is_empty();
            for slot in slots {
                let totals = self.thread(slot).clone();
                self.thread_slots.remove(&totals.thread.index);
                self.free_thread(slot);
                forgotten.push(totals);
            }
        }
        self.epoch += 1;
        self.stacks.places.clear();
        self.stacks.bytes.clear();
        self.older.clear();
        self.label_lists.clear();
        forgotten
    }

    fn free_thread(&mut self, slot: Slot) {
        let totals = std::mem::take(&mut self.threads[slot as usize]);
        self.cost.threads = self.cost.threads.saturating_sub(cost_of_thread(&totals.thread));
        self.free_threads.push(slot);
    }

    fn check_limit(&self, offset: u64) -> Result<()> {
        let Cost { metadata, threads } = self.cost;
        let cost = |stacks: &Stacks, lists: &LabelLists| stacks.cost() + lists.cost();
        let older: usize = self.older.iter().map(|it| cost(&it.stacks, &it.label_lists)).sum();
        let current = cost(&self.stacks, &self.label_lists);
        let ended =
            self.ended.as_ref().map_or(0, |ended| ended.len() * 2 * size_of::<(u64, u32)>());
        if metadata + threads + current + older + ended <= self.limit {
            return Ok(());
        }
        let what = "keeping the threads, event types, stacks and labels";
        Err(Error::new(offset, ErrorKind::LimitExceeded { what, limit: self.limit }))
    }
}

pub(crate) fn undefined(offset: u64, table: Table, id: u64) -> Error {
    Error::new(offset, ErrorKind::Undefined { table, id })
}

fn duplicate(offset: u64, table: Table, id: u64) -> Error {
    Error::new(offset, ErrorKind::Duplicate { table, id })
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Format, Tables};
    use nettrace_format::{Thread, Trace, WallTime};

    #[test]
    fn threads_that_come_and_go_leave_nothing() {
        let sync_time = WallTime {
            year: 1,
            month: 1,
            day_of_week: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            millisecond: 0,
        };
        let trace = Trace {
            sync_time,
            sync_ticks: 0,
            ticks_per_second: 1,
            pointer_size: 8,
            key_values: Vec::new(),
        };
        let mut tables = Tables::new(Format::V6, Dialect::default(), trace, 1 << 20);
        for index in 0..100_000 {
            tables.define_thread(0, Thread { index, ..Thread::default() }).unwrap();
            tables.remove_thread(index);
            assert!(tables.thread_slot(index).is_none());
            let definitions = tables.definitions();
            assert!(tables.thread_slot_among(definitions, index).is_some());
            assert!(tables.thread_slot_among(definitions - 1, index).is_none());
            tables.forget_removed();
        }
        assert_eq!(tables.threads.len(), 1);
        assert_eq!(tables.cost.threads, 0);
    }
}
