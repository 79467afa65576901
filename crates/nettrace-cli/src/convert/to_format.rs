//! Converts to any format but version 6: makes version 6 of the source, of which the stage of
//! sessions ([`Transcoder`]) makes the format.
//!
//! # Threads
//!
//! These formats name a thread by its OS id. A thread whose id is in use by another gets an id that
//! is free. In versions 4 and 5 it has it only as the thread that records: what its events are
//! about is still named by the OS id. A thread that gets the id of one that has ended continues
//! that one's sequence numbers ([`Claim`]).
//!
//! Readers of some formats do not notice everything, for example losses before a thread's first
//! event. The stage states these in the way of its format. If source and target are both version 4
//! or 5, ids and numbers stay the same.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

use nettrace_format::{
    Composer, Format, FormatError, Stage as _, ThreadIds, Transcoder,
    content::{RowHeader, ThreadInfo, TraceInfo},
    v6::{self, SequencePointFlags, ThreadSequence},
};
use nettrace_reader::{Event, Item, Metadata, SequencePoint, Thread};

use crate::{
    convert::{
        Rewriter,
        omissions::Omissions,
        references::References,
        sequence::Numbers,
        types::{Known, Refused, Types},
    },
    failure::Failure,
};

/// About how many bytes an id takes, here and in the stage.
const COST_OF_THREAD: usize = size_of::<(u64, Claim)>() + 24;

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct ToFormat {
    format: Format,
    /// Makes version 6. Ids of threads are those of the result.
    composer: Composer,
    /// What the composer has made.
    blocks: Vec<u8>,
    stage: Transcoder,
    /// Whether the source is of version 4 or 5.
    is_from_older: bool,
    /// Whether ids and numbers of threads are those of the source.
    keeps_numbers: bool,
    process_id: Option<u64>,
    types: Types,
    /// Types of the result by the metadata ids of the source.
    known: BTreeMap<u32, Known>,
    threads: BTreeMap<u64, Named>,
    /// Who has which thread id of the result.
    claims: HashMap<u64, Claim>,
    ids: ThreadIds,
    /// How many threads may be remembered.
    most_threads: usize,
    references: References,
    left_out: Omissions,
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
    /// Its last number in the result.
    last: u32,
    /// Only if the source is version 4 or 5, and the numbers of the target must not begin again.
    numbers: Option<Numbers>,
}

/// A thread id of the result, which a thread has or had.
#[derive(Clone, Copy, Debug, Default)]
struct Claim {
    is_live: bool,
    /// The last number that was used, by a thread that has ended.
    last: u32,
}

impl ToFormat {
    /// For a source of `version`. Types may take `limit` bytes of memory, and so may threads, label
    /// lists and stacks.
    pub(super) fn new(format: Format, version: u32, limit: usize) -> Self {
        let is_from_older = version < 6;
        Self {
            format,
            composer: Composer::new(),
            blocks: Vec::new(),
            stage: Transcoder::copying(format, is_from_older, limit),
            is_from_older,
            keeps_numbers: is_from_older && format != Format::Heph,
            process_id: None,
            types: Types::new(format, version, limit),
            known: BTreeMap::new(),
            threads: BTreeMap::new(),
            claims: HashMap::new(),
            ids: ThreadIds::new(format),
            most_threads: limit / 2 / COST_OF_THREAD,
            references: References::default(),
            left_out: Omissions::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let header = event.header;
        let known = self.known.get(&header.metadata_id).copied();
        // The reader refuses rows of a type that is not defined.
        let known = known.ok_or(FormatError::ZeroId { kind: v6::BlockKind::Metadata })?;
        let is_large = event.payload.len() > usize::from(u16::MAX);
        let (capture_thread, thread, sequence) = self.threads_of(event, is_large)?;
        if self.format.has_stacks_in_rows() {
            let is_undefined = header.stack_id != 0 && event.stack().is_none();
            self.left_out.undefined_stacks += u64::from(is_undefined);
        }
        self.left_out.code_names += u64::from(known.names_code);
        if is_large {
            self.left_out.large_events += 1;
            return Ok(());
        }
        let labels = match self.is_from_older {
            true => self.references.activities(header, &mut self.composer, &mut self.blocks)?,
            false => self.references.whole_list(event, &mut self.composer, &mut self.blocks)?,
        };
        let row = RowHeader {
            metadata_id: known.id,
            sequence,
            capture_thread,
            processor: header.processor,
            thread,
            stack: self.references.stack(header),
            timestamp: header.timestamp,
            labels,
            sorted: header.is_sorted,
            ..RowHeader::default()
        };
        self.composer.row(&row, event.payload, &mut self.blocks)?;
        Ok(())
    }

    /// The id of the thread that recorded an event, that of the thread that it is about, and the
    /// number that the event gets.
    ///
    /// A thread that events are about has, where rows can have it, the id of the operating system,
    /// although another thread of the result records under it.
    fn threads_of(
        &mut self,
        event: &Event<'_>,
        is_left_out: bool,
    ) -> Result<(u64, u64, u32), Failure> {
        let header = event.header;
        let (capture, about) = (header.capture_thread, header.thread);
        if self.keeps_numbers {
            return Ok((capture, about, header.sequence_number));
        }
        let named = self.named(capture, &event.capture_thread().thread)?;
        let is_replaced = mem::take(&mut named.is_replaced);
        let (mut number, mut is_other) = (header.sequence_number, false);
        if let Some(numbers) = &mut named.numbers {
            (number, is_other) = numbers.of_event(number);
        }
        number = number.wrapping_add(named.base);
        if !is_left_out {
            named.last = number;
        }
        let (id, mut subject) = (named.id, named.subject);
        self.left_out.thread_ids += u64::from(is_replaced);
        self.left_out.numbers += u64::from(is_other);
        if about != capture {
            let named = self.named(about, event.thread())?;
            subject = named.subject;
            let is_replaced = subject == named.id && mem::take(&mut named.is_replaced);
            self.left_out.thread_ids += u64::from(is_replaced);
        }
        Ok((id, subject, number))
    }

    /// A thread of the source, which is introduced if it is new.
    fn named(&mut self, index: u64, thread: &Thread) -> Result<&mut Named, Failure> {
        if !self.threads.contains_key(&index) {
            self.introduce(index, thread)?;
        }
        self.threads.get_mut(&index).ok_or_else(|| FormatError::MalformedBlock.into())
    }

    fn introduce(&mut self, index: u64, thread: &Thread) -> Result<(), Failure> {
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
                let mut free = self.ids.index();
                while self.claims.contains_key(&free) {
                    free = self.ids.index();
                }
                free
            }
        };
        let claim = self.claims.entry(id).or_default();
        claim.is_live = true;
        let base = claim.last;
        let numbers = self.is_from_older.then(Numbers::default);
        let is_replaced = own.is_some_and(|own| own != id);
        let subject = own.and_then(|own| self.ids.os_subject(own)).unwrap_or(id);
        let named = Named { id, subject, is_replaced, base, last: base, numbers };
        self.threads.insert(index, named);

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
        Ok(self.composer.thread(&info, &mut self.blocks)?)
    }

    /// Notes a thread's last number in the source, and returns it as the number in the result.
    fn last_number(&mut self, index: u64, sequence: u32) -> Option<ThreadSequence> {
        let named = self.threads.get_mut(&index)?;
        let number = match &mut named.numbers {
            Some(numbers) => numbers.of_point(sequence),
            None => sequence,
        };
        let number = number.wrapping_add(named.base);
        // The number in a sequence point may be a lower bound.
        if number.wrapping_sub(named.last) <= i32::MAX as u32 {
            named.last = number;
        }
        Some(ThreadSequence { thread: named.id, sequence: number })
    }

    fn remove(&mut self, threads: &[(u64, u32)]) -> Result<(), FormatError> {
        let mut gone = Vec::with_capacity(threads.len());
        for (index, sequence) in threads {
            gone.extend(self.last_number(*index, *sequence));
            self.forget(*index);
        }
        self.composer.remove_threads(&gone, &mut self.blocks)
    }

    /// Forgets a thread that has ended. Its id remembers the last number.
    fn forget(&mut self, index: u64) {
        let Some(named) = self.threads.remove(&index) else { return };
        if let Some(claim) = self.claims.get_mut(&named.id) {
            *claim = Claim { is_live: false, last: named.last };
        }
    }

    fn sequence_point(&mut self, point: SequencePoint) -> Result<(), Failure> {
        let mut threads = Vec::with_capacity(point.threads.len());
        for (index, sequence) in point.threads {
            if self.keeps_numbers {
                threads.push(ThreadSequence { thread: index, sequence });
                continue;
            }
            let os_thread_id = self.is_from_older.then_some(index);
            self.named(index, &Thread { index, os_thread_id, ..Thread::default() })?;
            threads.extend(self.last_number(index, sequence));
        }
        let (flags, out) = (SequencePointFlags::default(), &mut self.blocks);
        self.composer.sequence_point(point.timestamp, flags, &threads, out)?;
        self.references = References::default();
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
        let mut new = Vec::new();
        for of in types {
            let known = match self.types.find(of) {
                Some(known) => known,
                None => {
                    let definition = self.types.define(of).map_err(|refused| match refused {
                        Refused::Format(error) => Failure::from(error),
                        Refused::Limit(limit) => Failure::TooMuch("event types", limit),
                    })?;
                    if definition.lost_fields {
                        self.left_out.without_fields(of);
                    }
                    self.left_out.type_numbers += u64::from(definition.lost_numbers);
                    new.push(definition.ty);
                    definition.known
                }
            };
            self.known.insert(of.id, known);
        }
        Ok(self.stage.define_types(new, out)?)
    }

    /// Makes the format of what the composer has made.
    fn convert(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if !self.blocks.is_empty() {
            self.stage.blocks(&self.blocks, out)?;
            self.blocks.clear();
        }
        Ok(())
    }
}

impl Rewriter for ToFormat {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.composer = Composer::resume(info.pointer_size, 0, 0).with_shared_blocks();
        self.process_id = info.value("ProcessId").and_then(|id| id.parse().ok());
        Ok(self.stage.begin(info, out)?)
    }

    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Item::Event(event) = &item {
            self.event(event)?;
            return Ok(self.convert(out)?);
        }
        self.composer.end_blocks(&mut self.blocks)?;
        self.convert(out)?;
        match item {
            Item::Metadata(types) => self.metadata(&types, out)?,
            Item::Threads(threads) => {
                for thread in &threads {
                    self.introduce(thread.index, thread)?;
                }
            }
            Item::RemovedThreads(threads) => self.remove(&threads)?,
            Item::Stacks(stacks) => {
                let Self { references, composer, blocks, .. } = self;
                self.left_out.stacks += references.stacks(&stacks, composer, blocks)?;
            }
            Item::LabelLists(lists) => self.references.replace_lists(lists),
            Item::SequencePoint(point) => self.sequence_point(point)?,
            _ => {}
        }
        Ok(self.convert(out)?)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.composer.end_blocks(&mut self.blocks)?;
        self.convert(out)?;
        self.stage.finish(out)?;
        out.extend_from_slice(self.stage.end().bytes());
        Ok(())
    }

    fn left_out(&self) -> Omissions {
        let left_out = self.stage.left_out();
        let refused = left_out.events - left_out.strange_events;
        Omissions {
            large_events: self.left_out.large_events + refused,
            strange_events: left_out.strange_events,
            longer_events: left_out.longer_events,
            labels: left_out.labels,
            thread_names: left_out.thread_names,
            key_values: left_out.key_values,
            type_texts: left_out.types,
            early_times: left_out.early_times,
            spans: left_out.spans,
            losses: self.stage.untold_losses(),
            ..self.left_out
        }
    }
}
