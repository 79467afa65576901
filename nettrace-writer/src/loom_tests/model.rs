//! A model of an emitting thread and the flusher, without formats. It uses the real [`Record`],
//! [`Pool`] and [`Barrier`], and rows of two bytes.
//!
//! [`Model::emit`] makes the calls of `emit::general::attempt` and `emit::slow::record_slowly` in
//! their order, and [`Flusher`] those of the real flusher. Each place of a chunk has a cell whose
//! accesses loom checks. So an execution in which both sides could touch the same bytes fails by
//! itself.

mod flusher;

use loom::cell::UnsafeCell;

pub(super) use self::flusher::Flusher;
use crate::{
    protocol::{
        barrier::{self, Barrier},
        idle::Idle,
        pool::{Layout, Pool},
        record::{Floor, MODE_FENCE, Reason, Record},
        room::Room,
        row::HEAD_ROOM,
    },
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

/// What the threads of a model share.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) pool: Pool,
    barrier: Barrier,
    clock: AtomicU64,
    /// By how much the owners' clocks are behind.
    behind: u64,
    /// Whether the clock jumps, and how much time passes then.
    jumps: bool,
    asleep: u64,
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
            asleep: 0,
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

    /// Makes time pass at each jump back, which the clock does not show.
    pub(super) fn asleep(mut self, ticks: u64) -> Self {
        self.asleep = ticks;
        self
    }

    /// Makes all clocks jump to a time.
    pub(super) fn jump_to(&self, time: u64) {
        self.clock.store(time, Ordering::Relaxed);
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

    /// Records one event after a change of labels, as `record_after_change` does.
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
        if pos as usize + ROW > limit + HEAD_ROOM || ts < record.ts() {
            return self.emit_slowly(record, id, |moment| {
                if moment == ENCODING {
                    encode();
                }
            });
        }
        encode();
        let end = self.put(self.chunk_at(pos), pos, [id, ts as u8]);
        record.add(end, ts);
        record.end();
        Outcome::Written
    }

    /// The chunk that a position is in: the fast path does not ask which one that is.
    fn chunk_at(&self, pos: *mut u8) -> u32 {
        let first = self.pool.place(0).0 as usize;
        ((pos as usize - first) / (self.rows_in_chunk * ROW)) as u32
    }

    /// The calls of `emit::labels::relabel`, with labels that always have changed.
    fn relabel(&self, record: &Record) -> bool {
        let goes_on = record.goes_on();
        if Room::to_limit(record).is_none_or(|room| room.len() < ROW) {
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
            self.idle.wake(|| self.pool.is_low());
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
        record.add(end, ts);
        record.end();
    }

    fn put(&self, chunk: u32, pos: *mut u8, bytes: [u8; ROW]) -> *mut u8 {
        let place = self.pool.place(chunk);
        self.cell(chunk, pos as usize - place.0 as usize).with_mut(|_| {
            let room = Room::in_chunk(place, pos);
            room.bytes()[..ROW].copy_from_slice(&bytes);
            room.after(ROW)
        })
    }
}
