//! Converts to any format but version 6, with the encoder that sessions use ([`Stream`]).
//!
//! # Threads
//!
//! These formats name a thread by its OS id. A thread whose id is in use by another gets an id that
//! is free. In versions 4 and 5 it has it only as the thread that records: what its events are
//! about is still named by the OS id. A thread that gets the id of one that has ended continues
//! that one's sequence numbers ([`Claim`]).
//!
//! Readers of some formats do not notice everything, for example losses before a thread's first
//! event. The stream states these in the way of its format. If source and target are both version 4
//! or 5, ids and numbers stay the same.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use nettrace_format::{
    Format, FormatError, Row, Stream, ThreadIds,
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    payload::Refusal,
    v6::{self, ThreadSequence},
};
use nettrace_reader::{Event, Item, Metadata, SequencePoint, Stack, Thread, Value};

use crate::{
    convert::{
        Rewriter,
        omissions::Omissions,
        payload::normalize_payload,
        sequence::Numbers,
        types::{Known, Refused, Types},
    },
    failure::Failure,
};

/// A block ends when its rows have this many bytes, whatever the blocks of the source are.
const MOST_ROWS: usize = 4 << 20;

/// About how many bytes an id takes, here and in the stream.
const COST_OF_THREAD: usize = size_of::<(u64, Claim)>() + 24;

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct ToStream {
    format: Format,
    stream: Stream,
    /// Whether the source is of version 4 or 5.
    is_from_older: bool,
    pointer_size: u32,
    process_id: Option<u64>,
    types: Types,
    /// Types of the result by the metadata ids of the source.
    known: HashMap<u32, Known>,
    threads: HashMap<u64, Named>,
    /// Who has which thread id of the result.
    claims: HashMap<u64, Claim>,
    ids: ThreadIds,
    /// How many threads may be remembered.
    most_threads: usize,
    /// Stacks that were left out since the last sequence point.
    no_stacks: HashSet<u32>,
    rows: Vec<u8>,
    block: Option<Block>,
    last_ts: u64,
    payload: Vec<u8>,
    addresses: Vec<u64>,
    left_out: Omissions,
}

/// The event block that is being written.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The thread that recorded its last row.
    capture_thread: u64,
    first_ts: u64,
    last_ts: u64,
}

/// A thread of the source.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// Its id in the result, where it records.
    id: u64,
    /// Its id in the result, where events are about it.
    subject: u64,
    /// Whether the id of the source is another thread's, which was not told yet.
    is_replaced: bool,
    /// How far its numbers in the result are ahead of those in the source.
    base: u32,
    /// Only if the source is version 4 or 5, and the numbers of the target must not begin again.
    numbers: Option<Numbers>,
}

/// A thread id of the result, which a thread has or had.
#[derive(Clone, Copy, Debug, Default)]
struct Claim {
    is_live: bool,
    /// The last number that was used.
    last: u32,
}

impl ToStream {
    /// For a source of `version`. Types may take `limit` bytes of memory, and so may threads.
    pub(super) fn new(format: Format, version: u32, limit: usize) -> Self {
        Self {
            format,
            stream: Stream::copying(format, version),
            is_from_older: version < 6,
            pointer_size: 8,
            process_id: None,
            types: Types::new(format, version, limit),
            known: HashMap::new(),
            threads: HashMap::new(),
            claims: HashMap::new(),
            ids: ThreadIds::new(format),
            most_threads: limit / 2 / COST_OF_THREAD,
            no_stacks: HashSet::new(),
            rows: Vec::new(),
            block: None,
            last_ts: 0,
            payload: Vec::new(),
            addresses: Vec::new(),
            left_out: Omissions::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.rows.len() >= MOST_ROWS {
            self.end_block(out)?;
        }
        let header = event.header;
        let known = self.known.get(&header.metadata_id).copied();
        // The reader refuses rows of a type that is not defined.
        let known = known.ok_or(FormatError::ZeroId { kind: v6::BlockKind::Metadata })?;
        let (capture_thread, sequence) =
            self.number(header.capture_thread, header.sequence_number, event, out)?;
        let thread = self.subject(header.thread, event.thread(), out)?;
        let is_other = |block: &Block| block.capture_thread != capture_thread;
        if !header.is_sorted && self.block.as_ref().is_some_and(is_other) {
            // Readers take a block's numbers for those of one thread, up to a row that is marked as
            // sorted.
            self.end_block(out)?;
        }
        if self.format.has_stacks_in_rows() {
            self.addresses.clear();
            self.addresses.extend(event.stack().iter().flat_map(Stack::addresses));
            self.left_out.undefined_stacks +=
                u64::from(header.stack_id != 0 && event.stack().is_none());
        }
        let has_labels = header.label_list != 0 || self.is_from_older;
        let read = if has_labels { event.labels() } else { Default::default() };
        let labels: Vec<Label<'_>> = read.iter().map(|label| label.borrowed()).collect();
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
        self.left_out.code_names += u64::from(known.names_code);
        match self.row(header, &labels, event, known) {
            Ok(()) => self.told(&header),
            Err(refusal) => match refusal {
                Refusal::Malformed => self.left_out.strange_events += 1,
                _ => self.left_out.large_events += 1,
            },
        }
        Ok(())
    }

    /// Appends a row: with its values, or as bytes if its payload does not fit its type and the
    /// format allows that.
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
        if !(is_opaque && known.opaque_id.is_some()) {
            let has_long_dates = known.has_dates && has_long_dates(event);
            if !has_long_dates {
                let row = Row { header, labels, stack, payload };
                told = self.stream.row(&row, is_first, &mut self.rows);
            }
            if known.has_fields && told == Err(Refusal::Malformed) {
                self.payload.clear();
                let fields = &event.metadata().fields;
                told = normalize_payload(fields, payload, has_long_dates, &mut self.payload)
                    .and_then(|()| {
                        let header = RowHeader { payload_len: self.payload.len() as u32, ..header };
                        let row = Row { header, labels, stack, payload: &self.payload };
                        self.stream.row(&row, is_first, &mut self.rows)
                    });
            }
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

    /// Notes a row that was written.
    fn told(&mut self, header: &RowHeader) {
        let ts = header.timestamp;
        let capture_thread = header.capture_thread;
        let (first_ts, last_ts) = self.block.map_or((ts, ts), |it| (it.first_ts, it.last_ts));
        self.block =
            Some(Block { capture_thread, first_ts: first_ts.min(ts), last_ts: last_ts.max(ts) });
        self.last_ts = self.last_ts.max(ts);
        if !self.stream.keeps_numbers() {
            self.claims.entry(header.capture_thread).or_default().last = header.sequence;
        }
    }

    /// The id of the thread that recorded an event, and the number that the event gets.
    fn number(
        &mut self,
        index: u64,
        sequence: u32,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(u64, u32), Failure> {
        if self.stream.keeps_numbers() {
            return Ok((index, sequence));
        }
        let id = self.thread(index, &event.capture_thread().thread, out)?;
        let Some(named) = self.threads.get_mut(&index) else {
            return Ok((id, sequence));
        };
        self.left_out.thread_ids += u64::from(mem::take(&mut named.is_replaced));
        let number = match &mut named.numbers {
            Some(numbers) => {
                let (number, is_other) = numbers.of_event(sequence);
                self.left_out.numbers += u64::from(is_other);
                number
            }
            None => sequence,
        };
        Ok((id, number.wrapping_add(named.base)))
    }

    /// The id of a thread that an event is about: where rows can have it, that of the operating
    /// system, although another thread of the result records under it.
    fn subject(&mut self, index: u64, thread: &Thread, out: &mut Vec<u8>) -> Result<u64, Failure> {
        let id = self.thread(index, thread, out)?;
        let Some(named) = self.threads.get_mut(&index) else { return Ok(id) };
        if named.subject == named.id {
            self.left_out.thread_ids += u64::from(mem::take(&mut named.is_replaced));
        }
        Ok(named.subject)
    }

    /// The id of a thread. Introduces the thread if it is new.
    fn thread(&mut self, index: u64, thread: &Thread, out: &mut Vec<u8>) -> Result<u64, Failure> {
        if self.stream.keeps_numbers() {
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
        let is_free = |id: &u64| {
            self.ids.can_store(*id) && !self.claims.get(id).is_some_and(|claim| claim.is_live)
        };
        let own = thread.os_thread_id.filter(|id| *id != 0);
        let id = match own.filter(is_free) {
            Some(id) => id,
            None => {
                let mut index = self.ids.index();
                while self.claims.contains_key(&index) {
                    index = self.ids.index();
                }
                index
            }
        };
        let claim = self.claims.entry(id).or_default();
        claim.is_live = true;
        let base = claim.last;
        let numbers = self.is_from_older.then(Numbers::default);
        let is_replaced = own.is_some_and(|own| own != id);
        let subject = own.and_then(|own| self.ids.os_subject(own)).unwrap_or(id);
        self.threads.insert(thread.index, Named { id, subject, is_replaced, base, numbers });

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

    /// Notes a thread's last number in the source, and returns it as the number in the result.
    fn last_number(&mut self, index: u64, sequence: u32) -> Option<ThreadSequence> {
        let named = self.threads.get_mut(&index)?;
        let number = match &mut named.numbers {
            Some(numbers) => numbers.of_point(sequence),
            None => sequence,
        };
        let number = number.wrapping_add(named.base);
        let claim = self.claims.entry(named.id).or_default();
        // The number in a sequence point may be a lower bound.
        if number.wrapping_sub(claim.last) <= i32::MAX as u32 {
            claim.last = number;
        }
        Some(ThreadSequence { thread: named.id, sequence: number })
    }

    fn remove(&mut self, threads: &[(u64, u32)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        for (index, sequence) in threads {
            let last = self.last_number(*index, *sequence);
            self.forget(*index);
            if let Some(last) = last {
                self.stream.remove_threads(&[last], out)?;
            }
        }
        Ok(())
    }

    /// Forgets a thread that has ended. Its id remembers the last number.
    fn forget(&mut self, index: u64) {
        let named = self.threads.remove(&index);
        if let Some(claim) = named.and_then(|named| self.claims.get_mut(&named.id)) {
            claim.is_live = false;
        }
    }

    fn sequence_point(&mut self, point: SequencePoint, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut threads = Vec::with_capacity(point.threads.len());
        for (index, sequence) in point.threads {
            if self.stream.keeps_numbers() {
                threads.push(ThreadSequence { thread: index, sequence });
                continue;
            }
            let os_thread_id = self.is_from_older.then_some(index);
            self.thread(index, &Thread { index, os_thread_id, ..Thread::default() }, out)?;
            threads.extend(self.last_number(index, sequence));
        }
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
                    if definition.lost_fields {
                        self.left_out.without_fields(of);
                    }
                    self.left_out.type_numbers += u64::from(definition.lost_numbers);
                    definition.known
                }
            };
            self.known.insert(of.id, known);
        }
        if !schemas.is_empty() {
            self.stream.define_numbered(&schemas, out)?;
        }
        Ok(())
    }

    fn stacks(&mut self, stacks: &[(u32, Stack<'_>)], out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.format.has_stacks_in_rows() {
            return Ok(());
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
        if let Some(Block { first_ts, last_ts, .. }) = self.block.take() {
            let tail = self.stream.event_block(first_ts, last_ts, self.rows.len(), out)?;
            out.extend_from_slice(&self.rows);
            out.extend_from_slice(tail);
            self.rows.clear();
        }
        Ok(())
    }
}

impl Rewriter for ToStream {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.pointer_size = info.pointer_size;
        self.process_id = info.value("ProcessId").and_then(|id| id.parse().ok());
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
        self.stream.last_point(self.last_ts.saturating_add(1), out)?;
        self.left_out.losses = self.stream.untold_losses();
        out.extend_from_slice(self.stream.end().bytes());
        Ok(())
    }

    fn left_out(&self) -> Omissions {
        let unsaid = self.stream.left_out();
        Omissions {
            labels: self.left_out.labels + unsaid.labels,
            thread_names: unsaid.thread_names,
            key_values: unsaid.key_values,
            type_texts: unsaid.types,
            early_times: unsaid.early_times,
            spans: unsaid.spans,
            ..self.left_out
        }
    }
}

/// Whether an event's payload has bytes after the last field of its type.
fn is_longer(event: &Event<'_>) -> bool {
    let mut fields = event.fields();
    fields.by_ref().all(|field| field.is_ok()) && fields.used() < event.payload.len()
}

/// Whether an event has dates of sixteen bytes, which only version 6 has.
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
