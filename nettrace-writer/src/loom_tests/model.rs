//! A model of an emitting thread and the flusher, without formats. It uses the real [`Record`],
//! [`Pool`] and [`Barrier`], and rows of two bytes.
//!
//! [`Model::emit`] makes the calls of `emit::record` and `emit::slow::record_slowly` in their
//! order, and [`Flusher`] those of the real flusher. Each place of a chunk has a cell whose
//! accesses loom checks. So an execution in which both sides could touch the same bytes fails by
//! itself.

use loom::cell::UnsafeCell;
use nettrace_format::payload::Buffer as _;

use crate::{
    barrier::{self, Barrier},
    idle::Idle,
    memory::{Cursor, Memory},
    pool::{Layout, Pool},
    record::{Asked, Floor, MODE_FENCE, Mark, Reason, Record, Sealed, Waiting},
    sync::{AtomicU64, Ordering, thread},
};

/// A row is its id and its time, a byte each. A gap is [`GAP`] and how many numbers it skips.
/// Labels are [`LABELS`] and their version.
pub(super) const ROW: usize = 2;
const GAP: u8 = 0xff;
const LABELS: u8 = 0xfe;
/// The moment at which an event is encoded; see [`Model::emit_with_handler`].
const ENCODING: usize = 4;

/// The result of an attempt to record an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    Dropped,
    Closed,
}

/// A row as the flusher found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: u8,
    pub(super) ts: u64,
    pub(super) number: u64,
    /// As [`number`](Self::number), but without the gap directly before the row, which the row
    /// tells of.
    start: u64,
    /// How many numbers were given out when the next row of the chunk, or the chunk's end, was
    /// reached.
    end_number: u64,
}

/// What the threads of a model share.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) pool: Pool,
    barrier: Barrier,
    clock: AtomicU64,
    /// By how much the owners' clocks are behind.
    behind: u64,
    /// Whether the clock jumps.
    jumps: bool,
    floor: Floor,
    pub(super) idle: Idle,
    /// A cell for each place of each chunk.
    cells: Vec<UnsafeCell<()>>,
    rows_in_chunk: usize,
}

impl Model {
    pub(super) fn new(chunks: u32, rows_in_chunk: usize) -> Self {
        let chunk_size = rows_in_chunk * ROW;
        let layout = Layout { chunk_size, chunks, parts: 1, jumbo_size: chunk_size, jumbos: 0 };
        let cells = (0..chunks as usize * rows_in_chunk).map(|_| UnsafeCell::new(())).collect();
        let (pool, clock) = (Pool::new(layout).expect("memory"), AtomicU64::new(1));
        let (floor, idle) = (Floor::new(), Idle::new());
        Self {
            pool,
            barrier: Barrier::detect(),
            clock,
            behind: 0,
            jumps: false,
            floor,
            idle,
            cells,
            rows_in_chunk,
        }
    }

    /// Makes the owners' clocks be behind the flusher's.
    pub(super) fn behind(mut self, ticks: u64) -> Self {
        self.behind = ticks;
        self
    }

    /// Starts the clock at a later time, from which it is going to [`jump`](Self::jump).
    pub(super) fn ahead(mut self, ticks: u64) -> Self {
        self.clock.store(ticks, Ordering::Relaxed);
        self.jumps = true;
        self
    }

    /// Makes all clocks go back to the start.
    pub(super) fn jump(&self) {
        self.clock.store(1, Ordering::Relaxed);
    }

    fn owners_now(&self) -> u64 {
        self.now().saturating_sub(self.behind)
    }

    /// Reads the clock. No two readings are equal.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn cell(&self, chunk: u32, offset: usize) -> &UnsafeCell<()> {
        &self.cells[chunk as usize * self.rows_in_chunk + offset / ROW]
    }
}

/// The owner's side.
impl Model {
    /// Records one event.
    pub(super) fn emit(&self, record: &Record, id: u8) -> Outcome {
        self.emit_around(record, id, || {})
    }

    /// Records one event whose encoding calls `encode`.
    pub(super) fn emit_around(&self, record: &Record, id: u8, encode: impl FnMut()) -> Outcome {
        self.emit_with(record, id, false, encode)
    }

    /// Records one event after a change of labels, as `emit_after_change` does.
    pub(super) fn emit_after_change(&self, record: &Record, id: u8) -> Outcome {
        self.emit_with(record, id, true, || {})
    }

    /// Writes the ids of a span, as `emit::slow::write_span` does, and then records an event.
    pub(super) fn emit_after_span(&self, record: &Record, id: u8) -> Outcome {
        // With fences, because loom has no heavy barrier.
        if record.begin() {
            if record.mode() & MODE_FENCE != 0 {
                barrier::full();
            }
            self.relabel(record);
            record.end();
        }
        self.emit(record, id)
    }

    fn emit_with(
        &self,
        record: &Record,
        id: u8,
        labels_changed: bool,
        mut encode: impl FnMut(),
    ) -> Outcome {
        if !record.begin() {
            record.refuse_nested();
            return Outcome::Dropped;
        }
        if record.mode() & MODE_FENCE != 0 {
            barrier::full();
        }
        let ts = self.owners_now();
        if labels_changed && !self.relabel(record) {
            return self.emit_slowly(record, id, |_| {});
        }
        let (pos, limit) = (record.pos(), record.limit());
        if pos as usize + ROW > limit || ts < record.ts() {
            return self.emit_slowly(record, id, |moment| {
                if moment == ENCODING {
                    encode();
                }
            });
        }
        encode();
        let end = self.put(self.chunk_at(pos), pos, [id, ts as u8]);
        record.commit(end, ts);
        Outcome::Written
    }

    /// The chunk that a position is in: the fast path does not ask which one that is.
    fn chunk_at(&self, pos: *mut u8) -> u32 {
        let first = self.pool.place(0).0 as usize;
        ((pos as usize - first) / (self.rows_in_chunk * ROW)) as u32
    }

    /// The calls of `emit::slow::relabel`, with labels that always have changed.
    fn relabel(&self, record: &Record) -> bool {
        let goes_on = record.goes_on();
        if Cursor::to_limit(record).is_none_or(|rest| rest.room() < ROW) {
            return false;
        }
        assert!(goes_on, "an address in `limit` says so");
        let pos = record.pos();
        let version = record.labels() + 1;
        let end = self.put(self.chunk_at(pos), pos, [LABELS, version as u8]);
        record.add_labels(end, version);
        true
    }

    /// Records one event on the slow path, like an owner that executes no fences.
    pub(super) fn install(&self, record: &Record, id: u8) -> Outcome {
        assert!(record.begin());
        let chunk = self.pool.take(0, true).expect("a chunk");
        let ts = record.install(&self.pool, chunk, &self.floor, || self.owners_now());
        self.write_row(record, record.held().expect("installed"), id, ts, |_| {});
        Outcome::Written
    }

    /// How many moments [`emit_with_handler`](Self::emit_with_handler) has.
    pub(super) const MOMENTS: usize = 5;

    /// Records one event on the slow path, interrupted by a handler that emits. The moment is after
    /// the event was announced, after one of the steps that deal with notes, or during the
    /// encoding.
    pub(super) fn emit_with_handler(&self, record: &Record, id: u8, moment: usize) {
        assert!(record.begin());
        barrier::full();
        let interrupt = |now| {
            if now == moment {
                self.emit_nested(record);
            }
        };
        self.emit_slowly(record, id, interrupt);
    }

    /// Emits within another event, as a signal handler or an encoder does.
    pub(super) fn emit_nested(&self, record: &Record) {
        assert!(!record.begin());
        record.refuse_nested();
    }

    /// Records one event, which waits if there is no room. After a few tries it waits for ever.
    pub(super) fn emit_or_wait(&self, record: &Record, id: u8) -> Outcome {
        for _ in 0..2 {
            assert!(record.begin());
            barrier::full();
            let has_waited = record.is_waiting();
            if record.held().is_some_and(|chunk| self.has_room(record, chunk))
                || self.pool.has_free()
            {
                let outcome = self.emit_slowly(record, id, |_| {});
                // If it has waited the flusher counts it.
                let is_left = has_waited && outcome == Outcome::Closed;
                return if is_left { Outcome::Dropped } else { outcome };
            }
            record.seal(&self.pool);
            if record.is_closed() {
                record.end();
                return if has_waited { Outcome::Dropped } else { Outcome::Closed };
            }
            record.wait_begins();
            record.end();
            thread::yield_now();
        }
        Outcome::Dropped
    }

    /// Frees the memory. Nobody may reach it any more.
    pub(super) fn free(&self) {
        self.cells.iter().for_each(|cell| cell.with_mut(|_| ()));
        self.pool.free();
    }

    /// Tells loom of a write to a chunk that the caller holds.
    pub(super) fn touch(&self, chunk: u32) {
        self.put(chunk, self.pool.place(chunk).0, [0; ROW]);
    }

    fn emit_slowly(&self, record: &Record, id: u8, mut at: impl FnMut(usize)) -> Outcome {
        let pool = &self.pool;
        barrier::full();
        record.pay_fences();
        at(0);
        let mut held = record.held();
        at(1);
        match held {
            Some(chunk) => record.clear_note(pool.place(chunk)),
            None => record.seal(pool),
        }
        at(2);
        record.fold_nested(pool, held);
        at(3);
        let mut ts = held.map_or(0, |_| self.owners_now().max(record.ts()));
        loop {
            if let Some(chunk) = held {
                if self.has_room(record, chunk) {
                    self.write_row(record, chunk, id, ts, &mut at);
                    return Outcome::Written;
                }
                record.seal(pool);
            }
            if record.is_closed() {
                record.end();
                return Outcome::Closed;
            }
            held = pool.take(0, false);
            let Some(chunk) = held else {
                record.drop_event(pool, None, Reason::NoRoom);
                return Outcome::Dropped;
            };
            ts = record.install(pool, chunk, &self.floor, || self.owners_now());
            record.fold_nested(pool, held);
            self.idle.wake();
        }
    }

    fn has_room(&self, record: &Record, chunk: u32) -> bool {
        let (start, size) = self.pool.place(chunk);
        let used = record.pos() as usize - start as usize;
        let gap = if used > 0 && record.gap() > 0 { ROW } else { 0 };
        used + gap + ROW <= size
    }

    fn write_row(&self, record: &Record, chunk: u32, id: u8, ts: u64, mut at: impl FnMut(usize)) {
        let mut pos = record.pos();
        if pos == self.pool.place(chunk).0 {
            record.number_first_row(&self.pool, chunk);
        } else if record.gap() > 0 {
            pos = self.put(chunk, pos, [GAP, record.gap() as u8]);
            record.mark_escapes();
        }
        at(ENCODING);
        let end = self.put(chunk, pos, [id, ts as u8]);
        record.gap_written();
        record.wait_ends();
        record.commit(end, ts);
    }

    fn put(&self, chunk: u32, pos: *mut u8, bytes: [u8; ROW]) -> *mut u8 {
        let place = self.pool.place(chunk);
        self.cell(chunk, pos as usize - place.0 as usize).with_mut(|_| {
            let mut cursor = Cursor::in_chunk(place, pos);
            cursor.put(&bytes);
            cursor.position()
        })
    }
}

/// What the flusher knows of one thread.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The rows that are in the trace.
    pub(super) written: Vec<Row>,
    /// The rows that stay for the next round.
    pub(super) kept: Vec<Row>,
    /// The version of the labels that were found last.
    pub(super) labels: u64,
    /// The last number that the trace accounts for.
    pub(super) told: u64,
    /// How often the chunk that was asked for had been sealed, so that the owner was asked again.
    pub(super) moved_on: usize,
    /// How often the owner was sealing a chunk during a visit.
    pub(super) sealing: usize,
    /// How many chunks were seized rather than sealed.
    pub(super) seized: usize,
    /// The time of the last sequence point.
    point: u64,
    /// Whether the owner has ended and all its rows are in hand.
    pub(super) ended: bool,
    asked: Option<Asked>,
    waiting: Option<Waiting>,
    settled: Option<u64>,
    mark: Option<Mark>,
}

/// The flusher's side.
#[derive(Debug)]
pub(super) struct Flusher<'a> {
    model: &'a Model,
    records: Vec<&'a Record>,
    pub(super) sources: Vec<Source>,
    times: Times,
    /// How many rounds asked nobody.
    pub(super) still: usize,
    is_closing: bool,
    /// How often the flusher could not know whether an owner was writing.
    pub(super) unproved: usize,
    /// Whether the last round collected everything.
    complete: bool,
}

/// The times of the trace, as in `flusher::timeline`. If the clock went back, it has jumped.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    offset: u64,
    epoch: u32,
    /// The first time of the epoch.
    begun: u64,
    /// The last reading of the clock, and the last `T`.
    clock: u64,
    last: u64,
    /// The time of the latest row.
    latest: u64,
    /// Whether a row was of the future.
    is_over: bool,
}

impl Times {
    fn begin_round(&mut self, model: &Model) -> u64 {
        let clock = model.now();
        if clock < self.clock || std::mem::take(&mut self.is_over) {
            self.begun = self.last.max(self.latest) + 1;
            self.begun = self.begun.max(clock + self.offset);
            self.offset = self.begun - clock;
            self.epoch = model.floor.begin_epoch(clock, self.offset);
        }
        self.clock = clock;
        self.last = model.floor.raise(clock) + self.offset;
        self.last
    }

    /// The trace's time of a row with the time `ts`. `earliest` is the time of the row before.
    fn of_row(&mut self, model: &Model, sealed: &Sealed, ts: u8, earliest: u64) -> u64 {
        let ts = u64::from(ts) + sealed.offset;
        let is_current = sealed.epoch == self.epoch;
        let latest = match (is_current, model.jumps) {
            (false, _) => self.begun - 1,
            (true, true) => self.last.max(model.now() + self.offset),
            // No row is of the future. To read the clock would multiply the executions.
            (true, false) => u64::MAX,
        };
        self.is_over |= is_current && ts > latest;
        // A row that is not of the future must have the right time already.
        let ts = if ts > latest { latest.max(earliest) } else { ts };
        self.latest = self.latest.max(ts);
        ts
    }
}

impl<'a> Flusher<'a> {
    pub(super) fn new(model: &'a Model, records: &[&'a Record]) -> Self {
        let sources = records.iter().map(|_| Source::default()).collect();
        let (records, times) = (records.to_vec(), Times::default());
        let (is_closing, still, unproved, complete) = (false, 0, 0, true);
        Self { model, records, sources, times, is_closing, still, unproved, complete }
    }

    /// Closes the session: the rounds that follow are the last.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.records.iter().for_each(|record| record.close());
    }

    /// Does a round without patience. What cannot be had at once stays, and no order is claimed.
    pub(super) fn impatient_round(&mut self) -> usize {
        self.times.begin_round(self.model);
        let all: Vec<_> = (0..self.sources.len()).collect();
        self.ask(&all);
        let mut busy = 0;
        for at in all {
            let (source, record) = (&mut self.sources[at], self.records[at]);
            if source.waiting.expect("asked before").is_over(record) {
                self.visit(at, false);
            } else {
                busy += 1;
                let mut collected = Vec::new();
                record.take_sealed(&self.model.pool, &mut collected);
                source.take(self.model, &mut self.times, &collected);
            }
        }
        self.sources.iter_mut().for_each(Source::write_all);
        busy
    }

    /// Collects once, and ends with a sequence point. No later row may break what an earlier point
    /// promised.
    pub(super) fn round(&mut self) {
        self.complete = true;
        let ts = self.collect();
        for source in &mut self.sources {
            if self.complete {
                source.write(ts);
            } else {
                source.write_all();
            }
        }
    }

    fn collect(&mut self) -> u64 {
        let ts = self.times.begin_round(self.model);
        if self.nobody_emitted() {
            self.still += 1;
            return ts;
        }
        let all: Vec<_> = (0..self.sources.len()).collect();
        self.ask(&all);
        let mut moved_on = Vec::new();
        for at in all {
            if !self.visit(at, false) {
                moved_on.push(at);
            }
        }
        if !moved_on.is_empty() {
            self.ask(&moved_on);
            for at in moved_on {
                self.sources[at].moved_on += 1;
                self.visit(at, true);
            }
        }
        ts
    }

    fn nobody_emitted(&self) -> bool {
        let mut all = self.sources.iter().zip(&self.records);
        !self.is_closing
            && all.all(|(source, record)| {
                source.kept.is_empty() && source.mark.is_some_and(|mark| mark == record.mark())
            })
            && self.model.pool.is_unused()
    }

    fn ask(&mut self, whom: &[usize]) {
        for &at in whom {
            (self.sources[at].settled, self.sources[at].mark) = (None, None);
            self.sources[at].asked = Some(self.records[at].ask());
        }
        self.model.barrier.heavy();
        for &at in whom {
            self.sources[at].waiting = Some(self.records[at].wait());
        }
    }

    /// Collects from one record, or what is left of it after it was asked again (`rest`). Returns
    /// `false` if not everything is in hand, which never happens for the rest.
    fn visit(&mut self, at: usize, rest: bool) -> bool {
        let collect = if rest { Record::collect_rest } else { Record::collect };
        let (source, record) = (&mut self.sources[at], self.records[at]);
        let asked = source.asked.expect("asked before");
        let waiting = source.waiting.as_ref().expect("asked before");
        if asked.needs_barrier() {
            let mut collected = Vec::new();
            record.take_sealed(&self.model.pool, &mut collected);
            source.take(self.model, &mut self.times, &collected);
            self.unproved += 1;
            self.complete = false;
            return true;
        }
        while !waiting.is_over(record) {
            thread::yield_now();
        }
        let mut collected = Vec::new();
        let mut all = collect(record, &self.model.pool, asked, &mut collected);
        while !all && rest {
            source.sealing += 1;
            thread::yield_now();
            all = collect(record, &self.model.pool, asked, &mut collected);
        }
        source.seized +=
            collected.iter().filter(|sealed| all && sealed.chunk == asked.chunk).count();
        source.take(self.model, &mut self.times, &collected);
        if all {
            let left = self.is_closing && record.is_left_waiting();
            source.settled = Some(asked.settled(rest) + u64::from(left));
            source.ended = asked.exited;
            source.mark = asked.mark(rest);
        }
        all
    }
}

impl Source {
    /// Keeps the rows of chunks, and gives the chunks back.
    fn take(&mut self, model: &Model, times: &mut Times, collected: &[Sealed]) {
        for sealed in collected {
            self.keep(model, times, sealed);
            model.pool.give(sealed.chunk);
        }
    }

    fn keep(&mut self, model: &Model, times: &mut Times, sealed: &Sealed) {
        assert!(!self.ended, "{sealed:?} of a thread that has ended");
        let place = model.pool.place(sealed.chunk);
        let bytes = Memory::bytes(place, sealed.len as usize);
        let (mut number, mut start, mut rows) = (sealed.first_number, sealed.first_number, 0);
        for (at, row) in bytes.chunks_exact(ROW).enumerate() {
            let row = model.cell(sealed.chunk, at * ROW).with(|_| [row[0], row[1]]);
            if row[0] == GAP {
                number += u64::from(row[1]);
                continue;
            }
            if row[0] == LABELS {
                self.labels += 1;
                assert_eq!(u64::from(row[1]), self.labels, "labels are lost");
                assert!(sealed.escapes as usize > at * ROW && rows > 0, "nobody finds them");
                continue;
            }
            let before = self.kept.last().or(self.written.last());
            let earliest = before.map_or(0, |before| before.ts).max(self.point);
            let ts = times.of_row(model, sealed, row[1], earliest);
            assert!(ts >= self.point, "time {ts} behind the sequence point at {}", self.point);
            if let Some(before) = self.kept.last().or(self.written.last()) {
                assert!(before.id < row[0] && before.ts <= ts && before.number < number);
            }
            self.kept.push(Row { id: row[0], ts, number, start, end_number: number });
            (number, start, rows) = (number + 1, number + 1, rows + 1);
        }
        assert_eq!(rows, sealed.rows, "a chunk says how many rows it has: {sealed:?}");
        assert!(number <= sealed.end_number + 1, "{number} rows in {sealed:?}");
        if let Some(last) = self.kept.last_mut().filter(|_| rows > 0) {
            assert!(sealed.base_ts <= sealed.last_ts && last.ts <= sealed.last_ts + sealed.offset);
            last.end_number = sealed.end_number;
        }
    }

    /// Writes the rows older than `ts`, and a sequence point.
    fn write(&mut self, ts: u64) {
        let cut = self.kept.iter().position(|row| row.ts >= ts).unwrap_or(self.kept.len());
        self.write_until(cut);
        // Whether a later row is older than the point is checked when the row comes.
        self.point = ts;
    }

    /// Writes everything, without a sequence point.
    fn write_all(&mut self) {
        self.write_until(self.kept.len());
    }

    fn write_until(&mut self, cut: usize) {
        for row in self.kept.drain(..cut) {
            // Every earlier sequence point accounts for the numbers up to `told`, and for no
            // others.
            assert!(row.number > self.told, "{row:?} behind a point that told {}", self.told);
            self.told = row.end_number;
            self.written.push(row);
        }
        self.told = match (self.kept.first(), self.settled) {
            (Some(next), _) => next.start - 1,
            (None, Some(settled)) => settled.max(self.told),
            (None, None) => self.told,
        };
    }
}
/// What must be true after the last round.
impl Flusher<'_> {
    /// Checks that the only thread has these rows, and that its numbers add up.
    pub(super) fn check_rows(&self, ids: &[u8]) {
        let [source] = &self.sources[..] else { panic!("one thread") };
        assert_eq!(source.written.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
        self.check_counts();
    }

    /// Checks that everything attempted was written or dropped, and that the trace says so.
    pub(super) fn check_counts(&self) {
        for (source, record) in self.sources.iter().zip(&self.records) {
            let (attempted, drops) = record.counts();
            assert!(source.kept.is_empty());
            assert_eq!(attempted, source.written.len() as u64 + drops.total());
            assert_eq!(attempted, source.told, "the last sequence point tells all numbers");
        }
    }

    /// How many epochs began because the clock jumped.
    pub(super) fn epochs(&self) -> usize {
        self.times.epoch as usize
    }

    /// How many rows are in hand or written.
    pub(super) fn rows(&self) -> usize {
        self.sources.iter().map(|source| source.written.len() + source.kept.len()).sum()
    }
}
