//! To NetTrace V5 and V4, and to Heph's format: what sessions of those formats write, by the same
//! encoder ([`Stream`]), of the rows of another trace.
//!
//! # Threads
//!
//! These formats name a thread by its id in the operating system, and none of them takes leave of a
//! thread. One whose id is another's gets one of its own; one that gets the id of a thread that is
//! gone goes on counting where that one stopped ([`Claim`]).
//!
//! Readers of versions 4 and 5 take a thread's first number as it is. From version 6, which counts
//! from 1, the first event of a thread therefore gets the number 1, so that what was lost before it
//! is missing behind it; and what was lost of threads that have no events is missing behind the
//! last event of another thread. From version 5 to 5 and 4, numbers are as they were.

use std::collections::{BTreeSet, HashMap, HashSet};

use nettrace_format::{
    Format, FormatError, Row, Stream,
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    payload::Refusal,
    v6::{self, ThreadSequence},
};
use nettrace_reader::{Event, Item, Metadata, SequencePoint, Stack, Thread, Value};

use crate::{
    convert::{
        Target,
        left_out::LeftOut,
        numbers::Numbers,
        types::{self, Known, Refused, Types},
    },
    failure::Failure,
};

/// Bytes of rows from which on a block is ended, whatever the source's blocks are.
const MOST_ROWS: usize = 4 << 20;

/// A trace in the making.
#[derive(Debug)]
pub(super) struct Older {
    format: Format,
    stream: Stream,
    /// Whether the source is of version 4 or 5.
    is_from_older: bool,
    pointer_size: u32,
    process_id: Option<u64>,
    /// What the clock showed when the trace began.
    sync_ticks: u64,
    types: Types,
    /// By the metadata ids of the source.
    known: HashMap<u32, Known>,
    threads: HashMap<u64, Named>,
    /// By the thread ids of the result.
    claims: HashMap<u64, Claim>,
    next_index: u64,
    /// How many threads may be known.
    most_threads: usize,
    /// The thread of the last row.
    latest: Option<u64>,
    /// How many events were lost of threads that have none.
    owed: u32,
    /// Threads whose last number is to be told by the next sequence point.
    untold: BTreeSet<u64>,
    /// Stacks that could not be said, up to the next sequence point.
    no_stacks: HashSet<u32>,
    rows: Vec<u8>,
    /// The first and last time of the block in the making.
    block: Option<(u64, u64)>,
    last_ts: u64,
    payload: Vec<u8>,
    addresses: Vec<u64>,
    left_out: LeftOut,
}

/// A thread of the source.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// Its id in the result.
    id: u64,
    /// What its numbers are more than in the source.
    base: u32,
    /// Where a target that counts from 1 has a source that does not.
    numbers: Option<Numbers>,
}

/// An id of the result, which a thread has or had.
#[derive(Clone, Copy, Debug, Default)]
struct Claim {
    is_live: bool,
    /// Whether there is an event of it.
    has_rows: bool,
    /// The last number that was told.
    last: u32,
}

impl Older {
    /// For a source of `version`; types may take `limit` bytes of memory, and threads as many.
    pub(super) fn new(format: Format, version: u32, limit: usize) -> Self {
        let stream = Stream::new(format);
        let next_index = stream.first_thread_index();
        Self {
            format,
            stream,
            is_from_older: version < 6,
            pointer_size: 8,
            process_id: None,
            sync_ticks: 0,
            types: Types::new(format, limit),
            known: HashMap::new(),
            threads: HashMap::new(),
            claims: HashMap::new(),
            next_index,
            most_threads: limit / 2 / size_of::<(u64, Claim)>(),
            latest: None,
            owed: 0,
            untold: BTreeSet::new(),
            no_stacks: HashSet::new(),
            rows: Vec::new(),
            block: None,
            last_ts: 0,
            payload: Vec::new(),
            addresses: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Whether threads and their numbers are what they were.
    fn keeps_numbers(&self) -> bool {
        self.is_from_older && !self.stream.introduces_threads()
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.rows.len() >= MOST_ROWS {
            self.end_block(out)?;
        }
        let header = event.header;
        let known = self.known.get(&header.metadata_id).copied();
        // The reader refuses rows of a type that was not described.
        let known = known.ok_or(FormatError::ZeroId { kind: v6::BlockKind::Metadata })?;
        let (capture_thread, sequence, real) =
            self.number(header.capture_thread, header.sequence_number, event, out)?;
        let thread = if header.thread == header.capture_thread {
            capture_thread
        } else {
            self.thread(header.thread, event.thread(), out)?
        };
        if self.format == Format::Heph {
            self.addresses.clear();
            self.addresses.extend(event.stack().iter().flat_map(Stack::addresses));
            self.left_out.undefined_stacks +=
                u64::from(header.stack_id != 0 && event.stack().is_none());
        }
        let has_labels = header.label_list != 0 || self.is_from_older;
        let read = if has_labels { event.labels() } else { Default::default() };
        let labels: Vec<Label<'_>> = read.iter().filter_map(types::label).collect();
        self.left_out.labels += (read.len() - labels.len()) as u64;
        let header = RowHeader {
            metadata_id: known.id,
            sequence,
            capture_thread,
            processor: header.processor,
            thread,
            stack: if self.no_stacks.contains(&header.stack_id) { 0 } else { header.stack_id },
            timestamp: header.timestamp,
            labels: 0,
            sorted: header.is_sorted,
            payload_len: header.payload_size,
        };
        match self.row(header, &labels, event, known) {
            Ok(()) => self.told(&header, real),
            Err(refusal) => {
                match refusal {
                    Refusal::Malformed => self.left_out.strange_events += 1,
                    _ => self.left_out.large_events += 1,
                }
                if header.sorted {
                    // The mark of order that it has allowed the next row another thread.
                    self.end_block(out)?;
                }
            }
        }
        Ok(())
    }

    /// Appends a row, with its values or, where the format allows, as bytes.
    fn row(
        &mut self,
        header: RowHeader,
        labels: &[Label<'_>],
        event: &Event<'_>,
        known: Known,
    ) -> Result<(), Refusal> {
        let payload = event.payload;
        if payload.len() > usize::from(u16::MAX) {
            return Err(Refusal::PayloadTooLarge);
        }
        let is_first = self.block.is_none();
        let stack = &*self.addresses;
        let is_opaque = !known.has_fields && !payload.is_empty();
        let mut told = Err(Refusal::Malformed);
        if !(is_opaque && known.opaque_id.is_some() || known.has_dates && has_long_dates(event)) {
            let row = Row { header, labels, stack, payload };
            told = self.stream.row(&row, is_first, &mut self.rows);
            let is_longer = told.is_ok() && known.is_mapped && is_longer(event);
            self.left_out.longer_events += u64::from(is_longer);
        }
        if let (Err(Refusal::Malformed), Some(metadata_id)) = (told, known.opaque_id) {
            self.payload.clear();
            self.payload.extend_from_slice(&(payload.len() as u16).to_le_bytes());
            self.payload.extend_from_slice(payload);
            let header = RowHeader { metadata_id, ..header };
            let row = Row { header, labels, stack, payload: &self.payload };
            told = self.stream.row(&row, is_first, &mut self.rows);
        }
        told
    }

    /// Takes note of a row that was written, and of the number that it should have had.
    fn told(&mut self, header: &RowHeader, real: u32) {
        let ts = header.timestamp;
        // Only there is time counted from the beginning.
        let is_early = self.format == Format::Heph && ts < self.sync_ticks;
        self.left_out.early_times += u64::from(is_early);
        let (first, last) = self.block.unwrap_or((ts, ts));
        self.block = Some((first.min(ts), last.max(ts)));
        self.last_ts = self.last_ts.max(ts);
        if !self.keeps_numbers() {
            let thread = header.capture_thread;
            let claim = self.claims.entry(thread).or_default();
            (claim.has_rows, claim.last) = (true, real);
            self.latest = Some(thread);
            if header.sequence != real {
                self.untold.insert(thread);
            }
        }
    }

    /// The thread that recorded an event, the number that the event is to get, and the one that it
    /// should get.
    fn number(
        &mut self,
        index: u64,
        sequence: u32,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(u64, u32, u32), Failure> {
        if self.keeps_numbers() {
            return Ok((index, sequence, sequence));
        }
        let id = self.thread(index, &event.capture_thread().thread, out)?;
        let Some(named) = self.threads.get_mut(&index) else {
            return Ok((id, sequence, sequence));
        };
        let number = match &mut named.numbers {
            Some(numbers) => {
                let (number, is_other) = numbers.of_event(sequence);
                self.left_out.numbers += u64::from(is_other);
                number
            }
            None => sequence,
        };
        let is_first = !self.claims.get(&id).is_some_and(|claim| claim.has_rows);
        let counts_from_first = !self.stream.introduces_threads();
        let number = number.wrapping_add(named.base);
        Ok((id, if is_first && counts_from_first { 1 } else { number }, number))
    }

    /// The id of a thread, which is introduced if it was not.
    fn thread(&mut self, index: u64, thread: &Thread, out: &mut Vec<u8>) -> Result<u64, Failure> {
        if self.keeps_numbers() {
            return Ok(index);
        }
        match self.threads.get(&index) {
            Some(named) => Ok(named.id),
            None => self.introduce(thread, out),
        }
    }

    fn introduce(&mut self, thread: &Thread, out: &mut Vec<u8>) -> Result<u64, Failure> {
        if self.claims.len() >= self.most_threads {
            return Err(Failure::TooMuch("the threads of all the trace", self.most_threads));
        }
        let most = if self.format == Format::Heph { u32::MAX.into() } else { u64::MAX };
        let is_free =
            |id: &u64| *id <= most && !self.claims.get(id).is_some_and(|claim| claim.is_live);
        let own = thread.os_thread_id.filter(|id| *id != 0);
        let id = match own.filter(is_free) {
            Some(id) => id,
            None => {
                self.left_out.thread_ids += u64::from(own.is_some());
                while self.claims.contains_key(&self.next_index) {
                    self.next_index += 1;
                }
                self.next_index
            }
        };
        let claim = self.claims.entry(id).or_default();
        claim.is_live = true;
        let base = claim.last;
        let numbers = self.is_from_older.then(Numbers::default);
        self.threads.insert(thread.index, Named { id, base, numbers });

        let is_other = |process: &u64| self.process_id != Some(*process);
        self.left_out.thread_processes +=
            u64::from(thread.process_id.is_some_and(|id| is_other(&id)));
        self.left_out.thread_key_values += thread.key_values.len() as u64;
        let info = ThreadInfo {
            index: id,
            name: thread.name.as_deref(),
            process_id: thread.process_id,
            os_thread_id: thread.os_thread_id,
            key_values: &[],
        };
        self.stream.thread(&info, out)?;
        Ok(id)
    }

    /// A thread's last number, as the source gives it; in the numbers of the result, where there is
    /// something to be told.
    fn last_number(&mut self, index: u64, sequence: u32) -> Option<ThreadSequence> {
        let named = self.threads.get_mut(&index)?;
        let number = match &mut named.numbers {
            Some(numbers) => numbers.of_point(sequence),
            None => sequence,
        };
        let number = number.wrapping_add(named.base);
        let claim = self.claims.entry(named.id).or_default();
        if !claim.has_rows && !self.stream.introduces_threads() {
            // Readers would take it for the first.
            self.owed = self.owed.wrapping_add(number);
            named.base = named.base.wrapping_sub(number);
            return None;
        }
        claim.last = number;
        Some(ThreadSequence { thread: named.id, sequence: number })
    }

    fn remove(&mut self, threads: &[(u64, u32)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        for (index, sequence) in threads {
            let last = self.last_number(*index, *sequence);
            self.forget(*index);
            match last {
                Some(last) if self.stream.introduces_threads() => {
                    self.stream.sequence_point(self.last_ts, &[last], out)?;
                }
                Some(last) => drop(self.untold.insert(last.thread)),
                None => {}
            }
        }
        Ok(())
    }

    /// A thread is gone. Its id remembers how far it has come.
    fn forget(&mut self, index: u64) {
        let named = self.threads.remove(&index);
        if let Some(claim) = named.and_then(|named| self.claims.get_mut(&named.id)) {
            claim.is_live = false;
        }
    }

    fn sequence_point(&mut self, point: SequencePoint, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut threads = Vec::with_capacity(point.threads.len());
        for (index, sequence) in point.threads {
            if self.keeps_numbers() {
                threads.push(ThreadSequence { thread: index, sequence });
                continue;
            }
            let os_thread_id = self.is_from_older.then_some(index);
            self.thread(index, &Thread { index, os_thread_id, ..Thread::default() }, out)?;
            threads.extend(self.last_number(index, sequence));
        }
        self.tell_all(&mut threads);
        self.stream.sequence_point(point.timestamp, &threads, out)?;
        self.last_ts = self.last_ts.max(point.timestamp);
        self.no_stacks.clear();
        if point.flush_threads {
            let all: Vec<_> = self.threads.keys().copied().collect();
            all.into_iter().for_each(|index| self.forget(index));
        }
        if point.flush_metadata {
            self.known.clear();
        }
        Ok(())
    }

    /// Adds what else is to be told of threads' numbers.
    fn tell_all(&mut self, threads: &mut Vec<ThreadSequence>) {
        if let (1.., Some(id)) = (self.owed, self.latest) {
            let owed = std::mem::take(&mut self.owed);
            let claim = self.claims.entry(id).or_default();
            claim.last = claim.last.wrapping_add(owed);
            let named = self.threads.values_mut().filter(|named| named.id == id);
            named.for_each(|named| named.base = named.base.wrapping_add(owed));
            threads.retain(|entry| entry.thread != id);
            self.untold.insert(id);
        }
        for entry in &*threads {
            self.untold.remove(&entry.thread);
        }
        for id in std::mem::take(&mut self.untold) {
            let sequence = self.claims.get(&id).map_or(0, |claim| claim.last);
            threads.push(ThreadSequence { thread: id, sequence });
        }
    }

    fn metadata(&mut self, types: &[Metadata], out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut schemas = Vec::new();
        for of in types {
            let known = match self.types.find(of) {
                Some(known) => known,
                None => {
                    let definition = self.types.define(of).map_err(|refused| match refused {
                        Refused::Format(error) => Failure::from(error),
                        Refused::Limit(limit) => Failure::TooMuch("event types", limit),
                    })?;
                    schemas.extend(definition.schemas.into_iter().flatten());
                    self.left_out.type_fields += u64::from(definition.lost_fields);
                    self.left_out.type_numbers += u64::from(definition.lost_numbers);
                    definition.known
                }
            };
            self.known.insert(of.id, known);
        }
        if !schemas.is_empty() {
            self.stream.define(&schemas, out)?;
        }
        Ok(())
    }

    fn stacks(&mut self, stacks: &[(u32, Stack<'_>)], out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.format == Format::Heph {
            return Ok(()); // rows have theirs with them
        }
        for (id, stack) in stacks {
            self.addresses.clear();
            self.addresses.extend(stack.addresses());
            match self.stream.stack(*id, &self.addresses, self.pointer_size, out) {
                Ok(()) => {}
                Err(FormatError::ZeroId { .. } | FormatError::StackTooDeep { .. }) => {
                    self.left_out.stacks += 1;
                    self.no_stacks.insert(*id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.addresses.clear();
        Ok(())
    }

    fn end_block(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if let Some((first_ts, last_ts)) = self.block.take() {
            let tail = self.stream.event_block(first_ts, last_ts, self.rows.len(), out)?;
            out.extend_from_slice(&self.rows);
            out.extend_from_slice(tail);
            self.rows.clear();
        }
        Ok(())
    }
}

impl Target for Older {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.pointer_size = info.pointer_size;
        self.sync_ticks = info.sync_ticks;
        let process = info.key_values.iter().find(|(key, _)| *key == "ProcessId");
        self.process_id = process.and_then(|(_, id)| id.parse().ok());
        Ok(self.stream.begin(info, out)?)
    }

    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Item::Event(event) = &item {
            return self.event(event, out);
        }
        self.end_block(out)?;
        match item {
            Item::Metadata(types) => self.metadata(&types, out)?,
            Item::Threads(threads) => {
                for thread in &threads {
                    self.introduce(thread, out)?;
                }
            }
            Item::RemovedThreads(threads) => self.remove(&threads, out)?,
            Item::Stacks(stacks) => self.stacks(&stacks, out)?,
            Item::SequencePoint(point) => self.sequence_point(point, out)?,
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.end_block(out)?;
        let mut threads = Vec::new();
        self.tell_all(&mut threads);
        self.left_out.losses = self.owed.into();
        if !threads.is_empty() {
            self.stream.sequence_point(self.last_ts.saturating_add(1), &threads, out)?;
        }
        out.extend_from_slice(self.stream.end_of_stream());
        Ok(())
    }

    fn left_out(&self) -> LeftOut {
        let unsaid = self.stream.left_out();
        LeftOut {
            labels: self.left_out.labels + unsaid.labels,
            thread_names: unsaid.thread_names,
            key_values: unsaid.key_values,
            type_texts: unsaid.types,
            ..self.left_out
        }
    }
}

/// Whether an event's payload goes on behind the last field of its type.
fn is_longer(event: &Event<'_>) -> bool {
    let mut fields = event.fields();
    fields.by_ref().all(|field| field.is_ok()) && fields.used() < event.payload.len()
}

/// Whether an event has dates of sixteen bytes, which no other version has.
fn has_long_dates(event: &Event<'_>) -> bool {
    fn is_long(value: &Value<'_>) -> bool {
        match value {
            Value::DateTime(_) => true,
            Value::Array(values) => values.iter().any(is_long),
            Value::Object(fields) => fields.iter().any(|(_, value)| is_long(value)),
            _ => false,
        }
    }
    event.fields().any(|field| field.is_ok_and(|(_, value)| is_long(&value)))
}
