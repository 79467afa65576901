//! The streams that are written: one after the other, each complete.
//!
//! The session sees one stream without a bound. Only here it is known what is written, so here it
//! is decided when the sink within gets a new stream: when the next row does not fit, or when the
//! sink asks for one. A type, a thread, a stack or a label list is defined in a stream when the
//! first row that is kept refers to it. So any row can begin a stream.
//!
//! *Numbers* of a thread go on by one for each row that is kept, and by as many as are lost where
//! rows are lost. A loss that one stream does not show is shown by the next.
//!
//! *What ends a stream always fits*: after each row there is room for a sequence point and for the
//! counts.

use std::{collections::BTreeMap, mem};

use nettrace_format::v6::{
    self, BLOCK_HEADER, BlockKind, EVENT_BLOCK_HEADER, MAX_ROW_HEADER, RowEncoder, RowHeader,
    SequencePointFlags, ThreadSequence,
};

use crate::{
    sink::{Sink, StreamEnd},
    tail::{
        blocks::{Malformed, Point},
        counts::{self, TailCounts, Told},
        header::Header,
        queue::{Gaps, Queue},
        table::Table,
        trees::in_map,
    },
};

/// The most bytes that a thread takes in a sequence point, and in a block that removes it.
const ENTRY: u64 = 20;

/// The most bytes of a block besides its rows.
const AROUND: usize = BLOCK_HEADER + EVENT_BLOCK_HEADER;

/// The stream that is being written, and what can be defined in it.
#[derive(Debug)]
pub(super) struct Outgoing {
    header: Header,
    end: StreamEnd,
    /// Streams are counted from 1.
    stream: u32,
    /// The number of the first one in the recording. Those of the session's own streams do not
    /// count: it sees one stream where several are written.
    first_number: Option<u64>,
    /// Whether the stream has nothing but its header.
    is_empty: bool,
    /// Whether the next row begins a new stream.
    leaves: bool,
    /// Whether the sink cannot go on with the stream.
    is_broken: bool,
    told: Told,
    types: BTreeMap<u32, Type>,
    threads: BTreeMap<u64, Thread>,
    /// The bytes of the rows of types and threads.
    row_bytes: usize,
    /// How many of the threads the stream has.
    stream_threads: u64,
    pub(super) lists: Table,
    pub(super) stacks: Table,
    next_list: u32,
    next_stack: u32,
    /// Blocks that are made, and those that are being made.
    out: Vec<u8>,
    gaps: Gaps,
    making: Making,
    /// How much the stream takes after the blocks that are made.
    room: u64,
}

/// A type of events: its row, and the stream that has it last.
#[derive(Debug)]
struct Type {
    row: Box<[u8]>,
    stream: u32,
}

#[derive(Debug)]
struct Thread {
    row: Box<[u8]>,
    /// The stream that has it last.
    stream: u32,
    /// Whether the session's present stream has it.
    is_current: bool,
    /// Its last number in the session's stream.
    seen: u32,
    /// Its last number in the stream that is written, and the last one that is shown there.
    number: u32,
    shown: u32,
}

impl Thread {
    /// Takes over a number of the session's stream: what is between was lost.
    fn skip_to(&mut self, seen: u32) {
        self.number = self.number.wrapping_add(seen.wrapping_sub(self.seen));
        self.seen = seen;
    }

    fn owes(&self) -> bool {
        self.number != self.shown
    }

    /// How many lost rows the stream is yet to show.
    fn owed(&self) -> u64 {
        self.number.wrapping_sub(self.shown).into()
    }
}

/// Blocks that are being made: rows of a thread, and what they need.
#[derive(Debug, Default)]
struct Making {
    types: Vec<u8>,
    threads: Vec<u8>,
    /// Those with the last ids, and how many they are.
    stacks: Vec<u8>,
    stack_count: u32,
    lists: Vec<u8>,
    list_count: u32,
    rows: Vec<u8>,
    /// How many lost rows the numbers of the rows show.
    gap: u64,
    encoder: RowEncoder,
    /// The thread of the rows, and their first and last time.
    of: Option<(u64, u64, u64)>,
}

impl Making {
    fn parts(&self) -> [&Vec<u8>; 5] {
        [&self.types, &self.threads, &self.stacks, &self.lists, &self.rows]
    }

    fn len(&self) -> usize {
        let parts = self.parts().into_iter().filter(|part| !part.is_empty());
        parts.map(|part| part.len() + AROUND).sum()
    }
}

/// Where blocks go.
#[derive(Debug)]
pub(super) struct To<'a, S> {
    pub(super) queue: &'a mut Queue,
    pub(super) sink: &'a mut S,
    pub(super) counts: &'a mut TailCounts,
    /// The latest time so far.
    pub(super) latest: u64,
    /// Nothing that comes is older.
    pub(super) horizon: u64,
}

impl Outgoing {
    /// Begins with a stream that the sink gets with the same header.
    pub(super) fn new(header: Header, end: StreamEnd) -> Self {
        Self {
            first_number: header.number(),
            header,
            end,
            stream: 1,
            is_empty: true,
            leaves: false,
            is_broken: false,
            told: Told::default(),
            types: BTreeMap::new(),
            threads: BTreeMap::new(),
            row_bytes: 0,
            stream_threads: 0,
            lists: Table::default(),
            stacks: Table::default(),
            next_list: 1,
            next_stack: 1,
            out: Vec::new(),
            gaps: Gaps::new(),
            making: Making::default(),
            room: 0,
        }
    }

    /// The session has begun a stream, in which it counts from 1 and defines everything again.
    pub(super) fn goes_on(&mut self, header: Header, end: StreamEnd) {
        (self.header, self.end) = (header, end);
        (self.lists, self.stacks) = Default::default();
        self.threads.values_mut().for_each(|thread| {
            (thread.seen, thread.is_current) = (0, false);
        });
        self.forget_threads();
    }

    /// Forgets the threads that neither the session nor the stream has.
    fn forget_threads(&mut self) {
        let Self { threads, stream, row_bytes, .. } = self;
        threads.retain(|_, thread| {
            let stays = thread.is_current || thread.stream == *stream || thread.owes();
            *row_bytes -= if stays { 0 } else { thread.row.len() };
            stays
        });
    }

    /// How many streams there were.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    /// The sink cannot go on with the stream.
    pub(super) fn breaks(&mut self) {
        self.is_broken = true;
    }

    /// Takes over the row of a type.
    pub(super) fn define_type(&mut self, id: u32, row: &[u8]) {
        let Self { types, row_bytes, .. } = self;
        let new = || Type { row: Box::default(), stream: 0 };
        let known = types.entry(id).or_insert_with(new);
        if *known.row != *row {
            *row_bytes = *row_bytes + row.len() - known.row.len();
            known.row = row.into();
            // A stream has one type with an id.
            self.leaves |= known.stream == self.stream;
        }
    }

    /// Takes over the row of a thread.
    pub(super) fn define_thread(&mut self, index: u64, row: &[u8]) {
        let Self { threads, row_bytes, .. } = self;
        let (stream, seen, number, shown) = Default::default();
        let row_of_none = Box::default();
        let new = || Thread { row: row_of_none, stream, is_current: true, seen, number, shown };
        let known = threads.entry(index).or_insert_with(new);
        *row_bytes = *row_bytes + row.len() - known.row.len();
        (known.row, known.is_current) = (row.into(), true);
    }

    /// Begins to add blocks.
    pub(super) fn begin<S: Sink>(&mut self, to: &mut To<'_, S>) {
        self.room = to.queue.room(to.sink);
        self.leaves |= !to.queue.begins_stream() && to.sink.wants_restart();
    }

    /// Adds a row, with the number and the ids that the session gave it.
    pub(super) fn row<S: Sink>(
        &mut self,
        mut header: RowHeader,
        payload: &[u8],
        to: &mut To<'_, S>,
    ) -> Result<(), Malformed> {
        self.leave_out(&header)?;
        if self.making.of.is_some_and(|(thread, ..)| thread != header.capture_thread) {
            self.end_block()?;
        }
        let need = self.row_needs(&header)? + payload.len();
        if self.is_broken || !self.is_empty && (self.leaves || !self.fits(need)) {
            self.begin_stream(to)?;
        }
        self.is_empty = false;
        let of = self.types.get_mut(&header.metadata_id).ok_or(Malformed)?;
        if mem::replace(&mut of.stream, self.stream) != self.stream {
            self.making.types.extend_from_slice(&of.row);
        }
        self.put_thread(header.capture_thread)?;
        self.put_thread(header.thread)?;
        if let Some((row, bytes)) = self.stacks.get(header.stack) {
            if row.given.0 != self.stream {
                row.given = (self.stream, self.next_stack);
                self.making.stacks.extend_from_slice(bytes);
                (self.next_stack, self.making.stack_count) =
                    (self.next_stack + 1, self.making.stack_count + 1);
            }
            header.stack = row.given.1;
        }
        if let Some((row, bytes)) = self.lists.get(header.labels) {
            if row.given.0 != self.stream {
                row.given = (self.stream, self.next_list);
                self.making.lists.extend_from_slice(bytes);
                (self.next_list, self.making.list_count) =
                    (self.next_list + 1, self.making.list_count + 1);
            }
            header.labels = row.given.1;
        }
        let thread = self.threads.get_mut(&header.capture_thread).ok_or(Malformed)?;
        self.making.gap += thread.owed();
        thread.number = thread.number.wrapping_add(1);
        thread.shown = thread.number;
        header.sequence = thread.number;
        let (at, Making { rows, encoder, of, .. }) = (header.timestamp, &mut self.making);
        match of {
            Some((_, first, last)) => {
                (*first, *last) = ((*first).min(at), (*last).max(at));
                encoder.row(&header, rows);
            }
            None => {
                *of = Some((header.capture_thread, at, at));
                *encoder = RowEncoder::new();
                encoder.full_row(&header, rows);
            }
        }
        rows.extend_from_slice(payload);
        Ok(())
    }

    /// Takes over the number of a row that is left out.
    pub(super) fn leave_out(&mut self, header: &RowHeader) -> Result<(), Malformed> {
        let thread = self.threads.get_mut(&header.capture_thread).ok_or(Malformed)?;
        thread.skip_to(header.sequence.wrapping_sub(1));
        thread.seen = header.sequence;
        Ok(())
    }

    /// The most bytes of a row without its payload, and of what it needs in this stream.
    fn row_needs(&mut self, header: &RowHeader) -> Result<usize, Malformed> {
        let stream = self.stream;
        let of = self.types.get(&header.metadata_id).ok_or(Malformed)?;
        let mut parts = [0; 5];
        parts[0] = if of.stream == stream { 0 } else { of.row.len() };
        for (part, index) in [(1, header.capture_thread), (2, header.thread)] {
            let thread = self.threads.get(&index).ok_or(Malformed)?;
            parts[part] = if thread.stream == stream { 0 } else { thread.row.len() };
        }
        for (part, table, id) in
            [(3, &mut self.stacks, header.stack), (4, &mut self.lists, header.labels)]
        {
            if id != 0 {
                let (row, bytes) = table.get(id).ok_or(Malformed)?;
                parts[part] = if row.given.0 == stream { 0 } else { bytes.len() };
            }
        }
        let new = parts.into_iter().filter(|len| *len > 0).map(|len| len + AROUND);
        Ok(MAX_ROW_HEADER + AROUND + new.sum::<usize>())
    }

    /// Whether the stream has room for so many bytes more, and for what ends it.
    fn fits(&self, len: usize) -> bool {
        // The counts come before the last sequence point, and again at the end.
        let ending = 2 * counts::MOST + self.stream_threads * 2 * ENTRY;
        (self.making.len() + len) as u64 + ending <= self.room
    }

    /// Defines a thread, unless the stream has it.
    fn put_thread(&mut self, index: u64) -> Result<(), Malformed> {
        let thread = self.threads.get_mut(&index).ok_or(Malformed)?;
        if mem::replace(&mut thread.stream, self.stream) != self.stream {
            self.making.threads.extend_from_slice(&thread.row);
            self.stream_threads += 1;
            self.is_empty = false;
        }
        Ok(())
    }

    /// Ends the blocks that are being made.
    pub(super) fn end_block(&mut self) -> Result<(), Malformed> {
        let Self { making, out, gaps, .. } = self;
        let start = out.len();
        v6::metadata_block(&making.types, out)?;
        v6::thread_block(&making.threads, out)?;
        if making.stack_count > 0 {
            let first = self.next_stack - making.stack_count;
            v6::block(BlockKind::Stack, out, |out| {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&making.stack_count.to_le_bytes());
                out.extend_from_slice(&making.stacks);
                Ok(())
            })?;
        }
        if making.list_count > 0 {
            let first = self.next_list - making.list_count;
            v6::label_rows_block(first, making.list_count, &making.lists, out)?;
        }
        if let Some((_, first, last)) = making.of.take() {
            out.extend(v6::event_block_header(first, last, true, making.rows.len())?);
            out.extend_from_slice(&making.rows);
        }
        note_gap(gaps, out, mem::take(&mut making.gap));
        let Making { types, threads, stacks, lists, rows, .. } = making;
        [types, threads, stacks, lists, rows].into_iter().for_each(Vec::clear);
        (making.stack_count, making.list_count) = (0, 0);
        self.room = self.room.saturating_sub((self.out.len() - start) as u64);
        Ok(())
    }

    /// Ends the stream, and begins the next one.
    fn begin_stream<S: Sink>(&mut self, to: &mut To<'_, S>) -> Result<(), Malformed> {
        self.finish(to)?;
        let number = self.first_number.map(|first| first.saturating_add(self.stream.into()));
        to.queue.stream(self.header.at(to.horizon, number)?, self.end);
        to.queue.send(to.sink);
        self.room = to.queue.room(to.sink);
        self.stream += 1;
        (self.is_empty, self.leaves, self.is_broken) = (true, false, false);
        (self.next_stack, self.next_list, self.stream_threads) = (1, 1, 0);
        self.told.restart();
        for thread in self.threads.values_mut() {
            thread.number = thread.number.wrapping_sub(thread.shown);
            thread.shown = 0;
        }
        self.forget_threads();
        Ok(())
    }

    /// Ends the stream.
    pub(super) fn finish<S: Sink>(&mut self, to: &mut To<'_, S>) -> Result<(), Malformed> {
        self.end_block()?;
        if !self.is_broken {
            self.told.tell(to.counts, to.latest, &mut self.out)?;
        }
        self.hand_over(to)
    }

    /// Hands over what is made.
    pub(super) fn hand_over<S: Sink>(&mut self, to: &mut To<'_, S>) -> Result<(), Malformed> {
        self.end_block()?;
        self.making = Making::default();
        to.queue.blocks(mem::take(&mut self.out), mem::take(&mut self.gaps));
        Ok(())
    }

    /// Adds a sequence point that tells what is lost. Ids of stacks and label lists end.
    pub(super) fn point<S: Sink>(
        &mut self,
        point: &Point,
        to: &mut To<'_, S>,
    ) -> Result<(), Malformed> {
        self.give_up(&point.threads)?;
        self.end_block()?;
        loop {
            let owing = self.threads.iter().filter(|(_, thread)| thread.owes());
            let owing: Vec<u64> = owing.map(|(index, _)| *index).collect();
            let has_room = !self.is_broken && (self.is_empty || self.fits(0));
            let is_new = !self.is_empty || self.told.differs(to.counts);
            if owing.is_empty() && !(has_room && is_new) {
                break;
            }
            if !has_room {
                self.begin_stream(to)?;
            }
            let mut is_all = true;
            for index in owing {
                let thread = self.threads.get(&index).ok_or(Malformed)?;
                let len = thread.row.len() + AROUND;
                is_all = thread.stream == self.stream || self.is_empty || self.fits(len);
                if !is_all {
                    break;
                }
                self.put_thread(index)?;
            }
            self.end_block()?;
            let start = self.out.len();
            self.told.tell(to.counts, to.latest, &mut self.out)?;
            let stream = self.stream;
            let threads = self.threads.iter_mut().filter(|(_, thread)| thread.stream == stream);
            let mut gap = 0;
            let threads = threads.map(|(&index, thread)| {
                gap += thread.owed();
                thread.shown = thread.number;
                ThreadSequence { thread: index, sequence: thread.number }
            });
            let threads: Vec<_> = threads.chain(self.told.thread()).collect();
            let flags = SequencePointFlags::default();
            v6::sequence_point(point.timestamp, flags, &threads, &mut self.out)?;
            note_gap(&mut self.gaps, &self.out, gap);
            self.is_empty = false;
            self.room = self.room.saturating_sub((self.out.len() - start) as u64);
            (self.next_stack, self.next_list) = (1, 1);
            if is_all {
                break;
            }
            self.begin_stream(to)?;
        }
        (self.lists, self.stacks) = Default::default();
        Ok(())
    }

    /// Removes threads. What is lost of them is told.
    pub(super) fn remove<S: Sink>(
        &mut self,
        threads: &[ThreadSequence],
        to: &mut To<'_, S>,
    ) -> Result<(), Malformed> {
        self.end_block()?;
        for of in threads {
            let thread = self.threads.get_mut(&of.thread).ok_or(Malformed)?;
            thread.skip_to(of.sequence);
            let (owes, len) = (thread.owes(), thread.row.len() + AROUND);
            if owes && (self.is_broken || thread.stream != self.stream) {
                if self.is_broken || !self.is_empty && !self.fits(len) {
                    self.begin_stream(to)?;
                }
                self.put_thread(of.thread)?;
                self.end_block()?;
            }
            let Some(thread) = self.threads.remove(&of.thread) else { continue };
            self.row_bytes -= thread.row.len();
            // What a broken stream has of the thread may be lost.
            if !self.is_broken && thread.stream == self.stream {
                let entry = ThreadSequence { thread: of.thread, sequence: thread.number };
                let start = self.out.len();
                v6::remove_thread_block(&[entry], &mut self.out)?;
                note_gap(&mut self.gaps, &self.out, thread.owed());
                self.room = self.room.saturating_sub((self.out.len() - start) as u64);
                self.stream_threads -= 1;
            }
        }
        Ok(())
    }

    /// Takes over the numbers of rows that come into no stream.
    pub(super) fn give_up(&mut self, threads: &[ThreadSequence]) -> Result<(), Malformed> {
        for of in threads {
            self.threads.get_mut(&of.thread).ok_or(Malformed)?.skip_to(of.sequence);
        }
        Ok(())
    }

    /// How many lost rows no stream shows.
    pub(super) fn owed(&self) -> u64 {
        self.threads.values().map(Thread::owed).sum()
    }

    /// How many bytes of memory this takes.
    pub(super) fn bytes(&self) -> usize {
        let making: usize = self.making.parts().into_iter().map(Vec::capacity).sum();
        self.lists.bytes()
            + self.stacks.bytes()
            + self.types.len() * in_map(size_of::<(u32, Type)>())
            + self.threads.len() * in_map(size_of::<(u64, Thread)>())
            + self.row_bytes
            + self.out.capacity()
            + making
    }
}

fn note_gap(gaps: &mut Gaps, out: &[u8], gap: u64) {
    if gap > 0 {
        gaps.push((out.len(), gap));
    }
}
