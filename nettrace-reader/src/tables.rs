//! What the stream has defined so far, and who has lost how much.

use std::{collections::HashMap, mem::size_of, ops::Range};

use crate::{
    error::{Error, ErrorKind, Result, Table},
    framing::Format,
    labels::{Label, LabelList},
    schema::{Field, Metadata, Type},
    trace::{Stack, Thread, Trace},
};

/// What a step back of a thread's numbers counts as: the reference reader cannot say how much was
/// lost either, and takes the largest number that it has.
pub(crate) const STEP_BACK: u32 = i32::MAX as u32;

/// A thread and how its events were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The thread as the stream described it.
    pub thread: Thread,
    /// How many events it recorded that are in the stream.
    pub events: u64,
    /// How many of its events are missing, by its numbers.
    pub lost: u64,
    /// How often its numbers went back, which no sound stream has. Each adds 2^31 - 1 to `lost`.
    pub step_backs: u64,
    /// The last number that was seen.
    pub last_sequence: u32,
    numbering: Numbering,
    /// How many sequence points had been when it was last listed by one or recorded an event.
    seen_at: u64,
}

/// How far the numbers of a thread are to be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Numbering {
    /// As version 6 has it: from 1, and every gap is a loss.
    #[default]
    Strict,
    /// Versions 4 and 5: no number was seen yet. The first one is taken as it is, since threads are
    /// not announced; so the reference reader has it.
    Unseen,
    /// Versions 4 and 5: behind number 0 (of a thread that had recorded nothing, or of one whose
    /// numbers have just wrapped) nothing counts as lost; so the reference reader has it.
    Lenient,
}

impl ThreadTotals {
    /// Takes note of a number of an event (`events_seen` = 1), or that a sequence point or the
    /// removal of the thread gives (0). Returns how many events are missing before it.
    #[inline]
    pub(crate) fn advance(&mut self, sequence: u32, events_seen: u32) -> u32 {
        let before = self.last_sequence;
        let gap = sequence.wrapping_sub(events_seen).wrapping_sub(before);
        self.last_sequence = sequence;
        if gap == 0 { 0 } else { self.count_gap(gap, before) }
    }

    /// Before a number is taken note of that may be the first one, and the one before it then this.
    fn begin_numbers(&mut self, before: u32) {
        if self.numbering == Numbering::Unseen {
            self.numbering = Numbering::Lenient;
            self.last_sequence = before;
        }
    }

    #[cold]
    fn count_gap(&mut self, gap: u32, before: u32) -> u32 {
        if self.numbering == Numbering::Lenient && before == 0 {
            return 0;
        }
        let lost = if gap > STEP_BACK {
            self.step_backs += 1;
            STEP_BACK
        } else {
            gap
        };
        self.lost += u64::from(lost);
        lost
    }
}

/// An event type and how its events were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeTotals {
    /// The type as the stream described it.
    pub metadata: Metadata,
    /// How many events of it were read.
    pub events: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
}

/// Where a thread or event type is kept.
pub(crate) type Slot = u32;

/// How many threads versions 4 and 5, which do not say when one ends, may have before those are
/// forgotten that a sequence point does not list.
const MANY_THREADS: usize = 4096;

/// All definitions that rows can refer to.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) trace: Trace,
    format: Format,
    /// Versions 4 and 5: the process of all threads.
    process_id: Option<u64>,
    /// Whether any event type has tags: so a stream of version 5 is told from one of version 4.
    pub(crate) has_tags: bool,
    /// How many sequence points there were.
    epoch: u64,
    metadata: Vec<Metadata>,
    /// How many events of each type there were, and the bytes of their payloads.
    type_counts: Vec<(u64, u64)>,
    metadata_slots: HashMap<u32, Slot>,
    threads: Vec<ThreadTotals>,
    thread_slots: HashMap<u64, Slot>,
    /// Threads that are gone but that events not yet delivered may refer to.
    removed_threads: HashMap<u64, Slot>,
    removed_slots: Vec<Slot>,
    free_threads: Vec<Slot>,
    stacks: HashMap<u32, Range<usize>>,
    stack_bytes: Vec<u8>,
    label_lists: HashMap<u32, LabelList>,
    /// About how many bytes the definitions take.
    cost: Cost,
    limit: usize,
}

#[derive(Debug, Default)]
struct Cost {
    metadata: usize,
    threads: usize,
    /// Stacks and label lists.
    epoch: usize,
}

impl Tables {
    pub(crate) fn new(format: Format, trace: Trace, limit: usize) -> Self {
        let process_id = trace.value("ProcessId").and_then(|id| id.parse().ok());
        Self {
            trace,
            format,
            process_id,
            has_tags: false,
            epoch: 0,
            metadata: Vec::new(),
            type_counts: Vec::new(),
            metadata_slots: HashMap::new(),
            threads: Vec::new(),
            thread_slots: HashMap::new(),
            removed_threads: HashMap::new(),
            removed_slots: Vec::new(),
            free_threads: Vec::new(),
            stacks: HashMap::new(),
            stack_bytes: Vec::new(),
            label_lists: HashMap::new(),
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

    /// Whether the fields of an event type are stated. A type without fields may be one whose fields
    /// the producer does not describe: those of the .NET runtime are, also where their trace was
    /// converted to version 6.
    pub(crate) fn has_fields(&self, slot: Slot) -> bool {
        !self.metadata(slot).fields.is_empty()
    }

    /// Whether readers that tell event types by provider and event id take this one for that of
    /// `id` without harm. .NET has such types in several versions; so has a trace of .NET that was
    /// converted to version 6.
    pub(crate) fn is_alike(&self, id: u32, metadata: &Metadata) -> bool {
        self.metadata_slot(id).is_some_and(|slot| {
            let other = self.metadata(slot);
            (&other.name, &other.fields) == (&metadata.name, &metadata.fields)
                && (self.format == Format::V5 || other.version != metadata.version)
        })
    }

    /// Whether the numbers of a thread may begin anew: its id was given to another thread.
    pub(crate) fn reuses_ids(&self) -> bool {
        self.format == Format::V5
    }

    pub(crate) fn all_metadata(&self) -> &[Metadata] {
        &self.metadata
    }

    pub(crate) fn define_metadata(&mut self, offset: u64, metadata: Metadata) -> Result<()> {
        let id = metadata.id;
        if self.metadata_slots.contains_key(&id) {
            return Err(duplicate(offset, Table::Metadata, id.into()));
        }
        self.cost.metadata += cost_of_metadata(&metadata);
        self.check_limit(offset)?;
        self.has_tags |= metadata.has_tags;
        self.metadata_slots.insert(id, self.metadata.len() as Slot);
        self.metadata.push(metadata);
        self.type_counts.push((0, 0));
        Ok(())
    }

    /// Returns what is forgotten.
    pub(crate) fn flush_metadata(&mut self) -> (Vec<Metadata>, Vec<(u64, u64)>) {
        self.metadata_slots.clear();
        self.cost.metadata = 0;
        (std::mem::take(&mut self.metadata), std::mem::take(&mut self.type_counts))
    }

    /// Counts events of a type, and the bytes of their payloads, which have `payload_size` each.
    #[inline]
    pub(crate) fn count_type(&mut self, slot: Slot, events: u64, payload_size: u32) {
        let (all, bytes) = &mut self.type_counts[slot as usize];
        *all += events;
        *bytes += events * u64::from(payload_size);
    }

    /// How many events of each type in [`all_metadata`](Self::all_metadata) there were, and the
    /// bytes of their payloads.
    pub(crate) fn type_counts(&self) -> &[(u64, u64)] {
        &self.type_counts
    }

    pub(crate) fn thread_slot(&self, index: u64) -> Option<Slot> {
        self.thread_slots.get(&index).copied()
    }

    /// The thread that a row or a sequence point at `offset` refers to. Versions 4 and 5 do not
    /// define threads: there it is made when it is first seen.
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
        thread.numbering = Numbering::Unseen;
        thread.seen_at = self.epoch;
        Ok(slot)
    }

    /// The same, of the thread that recorded an event with a number (`events_seen` = 1), or of
    /// which a sequence point or a removal gives the last number (0).
    pub(crate) fn numbered_thread_at(
        &mut self,
        offset: u64,
        index: u64,
        sequence: u32,
        events_seen: u32,
    ) -> Result<Slot> {
        let slot = self.thread_at(offset, index)?;
        let epoch = self.epoch;
        let thread = self.thread_mut(slot);
        thread.begin_numbers(sequence.wrapping_sub(events_seen));
        thread.seen_at = epoch;
        Ok(slot)
    }

    /// Also finds a thread that was removed while events of it waited.
    pub(crate) fn any_thread_slot(&self, index: u64) -> Option<Slot> {
        self.thread_slot(index).or_else(|| self.removed_threads.get(&index).copied())
    }

    #[inline]
    pub(crate) fn thread(&self, slot: Slot) -> &ThreadTotals {
        &self.threads[slot as usize]
    }

    #[inline]
    pub(crate) fn thread_mut(&mut self, slot: Slot) -> &mut ThreadTotals {
        &mut self.threads[slot as usize]
    }

    pub(crate) fn live_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.thread_slots.values().map(|slot| &self.threads[*slot as usize])
    }

    pub(crate) fn define_thread(&mut self, offset: u64, thread: Thread) -> Result<()> {
        let index = thread.index;
        if self.thread_slots.contains_key(&index) {
            return Err(duplicate(offset, Table::Thread, index));
        }
        self.add_thread(offset, thread).map(|_| ())
    }

    fn add_thread(&mut self, offset: u64, thread: Thread) -> Result<Slot> {
        let index = thread.index;
        self.cost.threads += cost_of_thread(&thread);
        self.check_limit(offset)?;
        let totals = ThreadTotals { thread, ..ThreadTotals::default() };
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

    /// Nothing may refer to the thread any more but events that were read already.
    pub(crate) fn remove_thread(&mut self, index: u64) {
        if let Some(slot) = self.thread_slots.remove(&index) {
            self.removed_threads.insert(index, slot);
            self.removed_slots.push(slot);
        }
    }

    pub(crate) fn flush_threads(&mut self) {
        let slots: Vec<_> = self.thread_slots.drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            self.free_thread(slot);
        }
    }

    /// All events that were read have been delivered: what was removed can go.
    pub(crate) fn forget_removed_threads(&mut self) {
        while let Some(slot) = self.removed_slots.pop() {
            self.removed_threads.clear();
            self.free_thread(slot);
        }
    }

    pub(crate) fn has_stack(&self, id: u32) -> bool {
        id == 0 || self.stacks.contains_key(&id)
    }

    pub(crate) fn stack(&self, id: u32) -> Option<Stack<'_>> {
        let range = self.stacks.get(&id)?.clone();
        Some(Stack { bytes: &self.stack_bytes[range], pointer_size: self.trace.pointer_size })
    }

    pub(crate) fn define_stack(&mut self, offset: u64, id: u32, addresses: &[u8]) -> Result<()> {
        self.cost.epoch += addresses.len() + 2 * size_of::<(u32, Range<usize>)>();
        self.check_limit(offset)?;
        let start = self.stack_bytes.len();
        self.stack_bytes.extend_from_slice(addresses);
        match self.stacks.insert(id, start..self.stack_bytes.len()) {
            None => Ok(()),
            Some(_) => Err(duplicate(offset, Table::Stack, id.into())),
        }
    }

    pub(crate) fn label_list(&self, index: u32) -> Option<&LabelList> {
        self.label_lists.get(&index)
    }

    pub(crate) fn define_label_list(
        &mut self,
        offset: u64,
        index: u32,
        list: LabelList,
    ) -> Result<()> {
        self.cost.epoch += cost_of_labels(&list);
        self.check_limit(offset)?;
        match self.label_lists.insert(index, list) {
            None => Ok(()),
            Some(_) => Err(duplicate(offset, Table::LabelList, index.into())),
        }
    }

    /// Behind a sequence point stacks and label lists have to be defined again. Returns the threads
    /// that are forgotten with them, of which versions 4 and 5 do not say that they have ended.
    pub(crate) fn flush_epoch(&mut self) -> Vec<ThreadTotals> {
        let mut forgotten = Vec::new();
        if self.format == Format::V5 && self.thread_slots.len() > MANY_THREADS {
            let is_gone = |slot: &Slot| self.threads[*slot as usize].seen_at < self.epoch;
            let slots: Vec<_> = self.thread_slots.values().copied().filter(is_gone).collect();
            for slot in slots {
                let totals = self.thread(slot).clone();
                self.thread_slots.remove(&totals.thread.index);
                self.free_thread(slot);
                forgotten.push(totals);
            }
        }
        self.epoch += 1;
        self.stacks.clear();
        self.stack_bytes.clear();
        self.label_lists.clear();
        self.cost.epoch = 0;
        forgotten
    }

    fn free_thread(&mut self, slot: Slot) {
        let totals = std::mem::take(&mut self.threads[slot as usize]);
        self.cost.threads = self.cost.threads.saturating_sub(cost_of_thread(&totals.thread));
        self.free_threads.push(slot);
    }

    fn check_limit(&self, offset: u64) -> Result<()> {
        if self.cost.metadata + self.cost.threads + self.cost.epoch <= self.limit {
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

pub(crate) fn cost_of_metadata(metadata: &Metadata) -> usize {
    size_of::<Metadata>()
        + metadata.provider.len()
        + metadata.name.len()
        + metadata.message_template.as_ref().map_or(0, String::len)
        + metadata.description.as_ref().map_or(0, String::len)
        + cost_of_pairs(&metadata.key_values)
        + cost_of_fields(&metadata.fields)
}

fn cost_of_fields(fields: &[Field]) -> usize {
    fields.iter().map(|field| size_of::<Field>() + field.name.len() + cost_of_type(&field.ty)).sum()
}

fn cost_of_type(ty: &Type) -> usize {
    match ty {
        Type::Object(fields) => cost_of_fields(fields),
        Type::Array(element)
        | Type::FixedArray(element, _)
        | Type::RelLoc(element)
        | Type::DataLoc(element) => size_of::<Type>() + cost_of_type(element),
        _ => 0,
    }
}

pub(crate) fn cost_of_thread(thread: &Thread) -> usize {
    2 * size_of::<ThreadTotals>()
        + thread.name.as_ref().map_or(0, String::len)
        + cost_of_pairs(&thread.key_values)
}

pub(crate) fn cost_of_labels(list: &LabelList) -> usize {
    let texts: usize = list
        .labels
        .iter()
        .map(|label| match label {
            Label::Text(key, value) => key.len() + value.len(),
            Label::Number(key, _) => key.len(),
            _ => 0,
        })
        .sum();
    2 * size_of::<LabelList>() + list.labels.len() * size_of::<Label>() + texts
}

fn cost_of_pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, value)| 2 * size_of::<String>() + key.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::{Format, STEP_BACK, Tables, ThreadTotals};
    use crate::trace::{Thread, Trace, WallTime};

    #[test]
    fn gaps_are_losses_modulo_2_to_the_32() {
        let mut thread = ThreadTotals::default();
        assert_eq!(thread.advance(1, 1), 0);
        assert_eq!(thread.advance(4, 1), 2);
        assert_eq!(thread.advance(4, 0), 0);
        assert_eq!(thread.advance(9, 0), 5);
        thread.last_sequence = u32::MAX;
        assert_eq!(thread.advance(0, 1), 0);
        assert_eq!(thread.advance(2, 1), 1);
        assert_eq!((thread.lost, thread.step_backs), (8, 0));
        assert_eq!(thread.advance(2, 1), STEP_BACK);
        assert_eq!(thread.advance(1, 0), STEP_BACK);
        assert_eq!((thread.lost, thread.step_backs), (8 + 2 * u64::from(STEP_BACK), 2));
    }

    #[test]
    fn a_gap_of_half_the_range_is_a_step_back() {
        let mut thread = ThreadTotals::default();
        assert_eq!(thread.advance(1 << 31, 1), STEP_BACK);
        assert_eq!(thread.step_backs, 0);
        assert_eq!(ThreadTotals::default().advance(1 + (1 << 31), 1), STEP_BACK);
    }

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
        let mut tables = Tables::new(Format::V6, trace, 1 << 20);
        for index in 0..100_000 {
            tables.define_thread(0, Thread { index, ..Thread::default() }).unwrap();
            tables.remove_thread(index);
            assert!(tables.thread_slot(index).is_none());
            assert!(tables.any_thread_slot(index).is_some());
            tables.forget_removed_threads();
        }
        assert_eq!(tables.threads.len(), 1);
        assert_eq!(tables.cost.threads, 0);
    }
}
