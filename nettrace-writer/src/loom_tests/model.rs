//! The emitting thread and the flusher, without formats: the real [`Record`], [`Pool`] and [`Barrier`], rows of two bytes.
//!
//! [`Model::emit`] makes the calls of `emit::record` and `emit::record_slowly` in their order, [`Flusher`] those of the flusher of
//! that name. Each place of a chunk has a cell whose accesses loom checks, so that an execution in which both sides could
//! touch the same bytes fails by itself.

use loom::cell::UnsafeCell;
use nettrace_format::payload::Buffer as _;

use crate::{
    barrier::{self, Barrier},
    memory::{Cursor, Memory},
    pool::{Layout, Pool},
    record::{Asked, Floor, Reason, Record, Sealed, Waiting},
    row::Shape,
    sync::{AtomicU64, Ordering, thread},
};

/// A row: its id and its time, a byte each. A gap: [`GAP`] and how many numbers it skips.
pub(super) const ROW: usize = 2;
const GAP: u8 = 0xff;
/// The moment at which an event is encoded; see [`Model::emit_with_handler`].
const ENCODING: usize = 4;

/// What became of an event.
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
    /// As [`number`](Self::number), but gaps just before it that a row tells of are not counted.
    start: u64,
    /// Numbers given out when the next row of its chunk, or the chunk's end, was reached.
    end_number: u64,
}

/// What the threads share.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) pool: Pool,
    barrier: Barrier,
    clock: AtomicU64,
    /// How far the owners' clocks are behind.
    behind: u64,
    floor: Floor,
    /// One for each place of each chunk.
    cells: Vec<UnsafeCell<()>>,
    rows_in_chunk: usize,
}

impl Model {
    pub(super) fn new(chunks: u32, rows_in_chunk: usize) -> Self {
        let chunk_size = rows_in_chunk * ROW;
        let layout = Layout { chunk_size, chunks, jumbo_size: chunk_size, jumbos: 0 };
        let cells = (0..chunks as usize * rows_in_chunk).map(|_| UnsafeCell::new(())).collect();
        let (pool, clock) = (Pool::new(layout).expect("memory"), AtomicU64::new(1));
        let floor = Floor::new();
        Self { pool, barrier: Barrier::Fences, clock, behind: 0, floor, cells, rows_in_chunk }
    }

    /// Owners whose clocks are behind the flusher's.
    pub(super) fn behind(mut self, ticks: u64) -> Self {
        self.behind = ticks;
        self
    }

    fn owners_now(&self) -> u64 {
        self.now().saturating_sub(self.behind)
    }

    /// The time; no two readings are equal.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn cell(&self, chunk: u32, offset: usize) -> &UnsafeCell<()> {
        &self.cells[chunk as usize * self.rows_in_chunk + offset / ROW]
    }
}

/// The emitting side.
impl Model {
    /// Records one event.
    pub(super) fn emit(&self, record: &Record, id: u8) -> Outcome {
        self.emit_around(record, id, || {})
    }

    /// Records one event whose encoder does something.
    pub(super) fn emit_around(&self, record: &Record, id: u8, mut encode: impl FnMut()) -> Outcome {
        if !record.begin() {
            record.refuse_nested();
            return Outcome::Dropped;
        }
        barrier::full();
        let ts = self.owners_now();
        let (pos, limit) = (record.pos(), record.limit());
        if pos as usize + ROW > limit || ts < record.ts() {
            return self.emit_slowly(record, id, |moment| {
                if moment == ENCODING {
                    encode();
                }
            });
        }
        // Which chunk that is, the fast path does not ask.
        let first = self.pool.place(0).0 as usize;
        let chunk = ((pos as usize - first) / (self.rows_in_chunk * ROW)) as u32;
        encode();
        let end = self.put(chunk, pos, [id, ts as u8]);
        record.commit(end, ts, Shape { id: 1, len: ROW as u32 });
        Outcome::Written
    }

    /// How many moments [`emit_with_handler`](Self::emit_with_handler) knows.
    pub(super) const MOMENTS: usize = 5;

    /// Records one event by the slow path, and is interrupted by a handler that emits: after the event was announced, after each step
    /// that deals with notes, and while it is encoded.
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

    /// An event from within another: what a signal handler or an encoder does.
    pub(super) fn emit_nested(&self, record: &Record) {
        assert!(!record.begin());
        record.refuse_nested();
    }

    /// Writes into a chunk that the caller holds, for loom to see.
    pub(super) fn touch(&self, chunk: u32) {
        self.put(chunk, self.pool.place(chunk).0, [0; ROW]);
    }

    fn emit_slowly(&self, record: &Record, id: u8, mut at: impl FnMut(usize)) -> Outcome {
        let pool = &self.pool;
        at(0);
        let mut held = record.held();
        at(1);
        if held.is_none() {
            record.seal(pool);
        }
        record.fold_nested(pool, held);
        at(2);
        let ts = self.floor.bound(self.owners_now().max(record.ts()));
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
            held = pool.take(0);
            let Some(chunk) = held else {
                record.drop_event(pool, None, Reason::NoRoom);
                return Outcome::Dropped;
            };
            record.install(pool, chunk, ts);
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
        record.clear_note(&self.pool, chunk);
        at(3);
        if pos == self.pool.place(chunk).0 {
            record.number_first_row(&self.pool, chunk);
        } else if record.gap() > 0 {
            pos = self.put(chunk, pos, [GAP, record.gap() as u8]);
            record.mark_escapes(&self.pool, chunk);
        }
        at(ENCODING);
        let end = self.put(chunk, pos, [id, ts as u8]);
        record.gap_written();
        record.commit(end, ts, Shape { id: 1, len: ROW as u32 });
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
    /// Rows that are in the trace.
    pub(super) written: Vec<Row>,
    /// Rows that are for the next round.
    pub(super) kept: Vec<Row>,
    /// The last number that the trace accounts for.
    pub(super) told: u64,
    /// How often what was asked for had been given up, and a second pass was due.
    pub(super) moved_on: usize,
    /// How often the owner was giving a chunk up while it was visited.
    pub(super) sealing: usize,
    /// How many chunks were seized rather than sealed.
    pub(super) seized: usize,
    /// The time of the last sequence point.
    point: u64,
    /// The owner had gone, and everything was in hand.
    pub(super) ended: bool,
    asked: Option<Asked>,
    waiting: Option<Waiting>,
    settled: Option<u64>,
}

/// The collecting side.
#[derive(Debug)]
pub(super) struct Flusher<'a> {
    model: &'a Model,
    records: Vec<&'a Record>,
    pub(super) sources: Vec<Source>,
}

impl<'a> Flusher<'a> {
    pub(super) fn new(model: &'a Model, records: &[&'a Record]) -> Self {
        let sources = records.iter().map(|_| Source::default()).collect();
        Self { model, records: records.to_vec(), sources }
    }

    /// A round that has no patience: what is not to be had at once stays, and no order is claimed.
    pub(super) fn impatient_round(&mut self) -> usize {
        self.model.floor.raise(self.model.now());
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
                source.take(self.model, &collected);
            }
        }
        self.sources.iter_mut().for_each(Source::write_all);
        busy
    }

    /// Collects once, and ends with a sequence point. What comes must not break what earlier points promised.
    pub(super) fn round(&mut self) {
        let ts = self.collect();
        for source in &mut self.sources {
            source.write(ts);
        }
    }

    fn collect(&mut self) -> u64 {
        let ts = self.model.floor.raise(self.model.now());
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

    fn ask(&mut self, whom: &[usize]) {
        for &at in whom {
            self.sources[at].settled = None;
            self.sources[at].asked = Some(self.records[at].ask());
        }
        self.model.barrier.heavy();
        for &at in whom {
            self.sources[at].waiting = Some(self.records[at].wait());
        }
    }

    /// `false`: not everything is in hand; never where it is the `rest` that is collected.
    fn visit(&mut self, at: usize, rest: bool) -> bool {
        let collect = if rest { Record::collect_rest } else { Record::collect };
        let (source, record) = (&mut self.sources[at], self.records[at]);
        let asked = source.asked.expect("asked before");
        let waiting = source.waiting.as_ref().expect("asked before");
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
        source.take(self.model, &collected);
        if all {
            source.settled = Some(asked.settled(rest));
            source.ended = asked.exited;
        }
        all
    }
}

impl Source {
    /// Keeps the rows, and gives the chunks back.
    fn take(&mut self, model: &Model, collected: &[Sealed]) {
        for sealed in collected {
            self.keep(model, sealed);
            model.pool.give(sealed.chunk);
        }
    }

    fn keep(&mut self, model: &Model, sealed: &Sealed) {
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
            let ts = u64::from(row[1]);
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
            assert!(last.ts <= sealed.last_ts && sealed.base_ts <= last.ts);
            last.end_number = sealed.end_number;
        }
    }

    /// Writes what is older than `ts`, and a sequence point.
    fn write(&mut self, ts: u64) {
        let cut = self.kept.iter().position(|row| row.ts >= ts).unwrap_or(self.kept.len());
        self.write_until(cut);
        // That no row behind the point is older is checked when one comes.
        self.point = ts;
    }

    /// Writes everything, without a sequence point.
    fn write_all(&mut self) {
        self.write_until(self.kept.len());
    }

    fn write_until(&mut self, cut: usize) {
        for row in self.kept.drain(..cut) {
            // Every earlier sequence point accounts for the numbers up to `told` and no others.
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
/// What must be so after the last round.
impl Flusher<'_> {
    /// The rows of the only thread are these, and its numbers add up.
    pub(super) fn check_rows(&self, ids: &[u8]) {
        let [source] = &self.sources[..] else { panic!("one thread") };
        assert_eq!(source.written.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
        self.check_counts();
    }

    /// What was attempted was written or dropped, and the trace says so.
    pub(super) fn check_counts(&self) {
        for (source, record) in self.sources.iter().zip(&self.records) {
            let (attempted, drops) = record.counts();
            assert!(source.kept.is_empty());
            assert_eq!(attempted, source.written.len() as u64 + drops.total());
            assert_eq!(attempted, source.told, "the last sequence point tells all numbers");
        }
    }

    /// How many rows are in hand or written.
    pub(super) fn rows(&self) -> usize {
        self.sources.iter().map(|source| source.written.len() + source.kept.len()).sum()
    }
}
