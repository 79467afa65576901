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

use nettrace_format::{
    Composer,
    v6::{MAX_ROW_HEADER, RowHeader, SequencePointFlags, ThreadSequence},
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

const AROUND: usize = Composer::BLOCK_OVERHEAD;

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
    /// The stream's blocks that are not whole yet, and those that are.
    composer: Composer,
    out: Vec<u8>,
    gaps: Gaps,
    /// The thread of the rows that wait in the composer, and how many lost rows their numbers show.
    rows_of: Option<u64>,
    gap: u64,
    /// How much the stream takes before `out`.
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
            composer: Composer::new(),
            out: Vec::new(),
            gaps: Gaps::new(),
            rows_of: None,
            gap: 0,
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
        if self.rows_of.is_some_and(|thread| thread != header.capture_thread) {
            self.end_block()?;
        }
        let need = self.row_needs(&header)? + payload.len();
        if self.is_broken || !self.is_empty && (self.leaves || !self.fits(need)) {
            self.begin_stream(to)?;
        }
        self.is_empty = false;
        self.put_thread(header.capture_thread)?;
        self.put_thread(header.thread)?;
        let Self { composer, out, stream, .. } = self;
        let of = self.types.get_mut(&header.metadata_id).ok_or(Malformed)?;
        if mem::replace(&mut of.stream, *stream) != *stream {
            composer.metadata(&of.row, out)?;
        }
        if let Some((row, bytes)) = self.stacks.get(header.stack) {
            if row.given.0 != *stream {
                row.given = (*stream, composer.new_stack(bytes, out)?);
            }
            header.stack = row.given.1;
        }
        if let Some((row, bytes)) = self.lists.get(header.labels) {
            if row.given.0 != *stream {
                row.given = (*stream, composer.new_label_list(bytes, out)?);
            }
            header.labels = row.given.1;
        }
        let thread = self.threads.get_mut(&header.capture_thread).ok_or(Malformed)?;
        self.gap += thread.owed();
        thread.number = thread.number.wrapping_add(1);
        thread.shown = thread.number;
        header.sequence = thread.number;
        self.rows_of = Some(header.capture_thread);
        composer.row(&header, payload, out)?;
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
        (self.out.len() + self.composer.waiting_bytes() + len) as u64 + ending <= self.room
    }

    /// Defines a thread, unless the stream has it.
    fn put_thread(&mut self, index: u64) -> Result<(), Malformed> {
        let thread = self.threads.get_mut(&index).ok_or(Malformed)?;
        if mem::replace(&mut thread.stream, self.stream) != self.stream {
            self.composer.thread_rows(&thread.row, &mut self.out)?;
            self.stream_threads += 1;
            self.is_empty = false;
        }
        Ok(())
    }

    /// Ends the blocks that are being made.
    pub(super) fn end_block(&mut self) -> Result<(), Malformed> {
        self.composer.end_blocks(&mut self.out)?;
        self.rows_of = None;
        note_gap(&mut self.gaps, &self.out, mem::take(&mut self.gap));
        Ok(())
    }

    /// Ends the stream, and begins the next one.
    fn begin_stream<S: Sink>(&mut self, to: &mut To<'_, S>) -> Result<(), Malformed> {
        self.finish(to)?;
        let number = self.first_number.map(|first| first.saturating_add(self.stream.into()));
        self.composer = Composer::new();
        let header = self.header.begin_at(to.horizon, number, &mut self.composer)?;
        to.queue.stream(header, self.end);
        to.queue.send(to.sink);
        self.room = to.queue.room(to.sink);
        self.stream += 1;
        (self.is_empty, self.leaves, self.is_broken) = (true, false, false);
        self.stream_threads = 0;
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
            self.told.tell(to.counts, to.latest, &mut self.composer, &mut self.out)?;
        }
        self.hand_over(to)
    }

    /// Hands over what is made.
    pub(super) fn hand_over<S: Sink>(&mut self, to: &mut To<'_, S>) -> Result<(), Malformed> {
        self.end_block()?;
        self.composer.shrink();
        self.room = self.room.saturating_sub(self.out.len() as u64);
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
            self.told.tell(to.counts, to.latest, &mut self.composer, &mut self.out)?;
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
            self.composer.sequence_point(point.timestamp, flags, &threads, &mut self.out)?;
            note_gap(&mut self.gaps, &self.out, gap);
            self.is_empty = false;
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
                self.composer.remove_threads(&[entry], &mut self.out)?;
                note_gap(&mut self.gaps, &self.out, thread.owed());
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
        self.lists.bytes()
            + self.stacks.bytes()
            + self.types.len() * in_map(size_of::<(u32, Type)>())
            + self.threads.len() * in_map(size_of::<(u64, Thread)>())
            + self.row_bytes
            + self.out.capacity()
    }
}

fn note_gap(gaps: &mut Gaps, out: &[u8], gap: u64) {
    if gap > 0 {
        gaps.push((out.len(), gap));
    }
}
