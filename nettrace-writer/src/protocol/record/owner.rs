//! The owner's half of a record: what a thread does for each event. The [module above](super) says
//! why it is correct.
//!
//! Invariant:
//!
//! - N1: only the owner calls what is in this module, and only this module stores `busy`, `ts`
//!   and `last`. So the owner may load them like plain values (`LoadOwn`). A signal handler
//!   on its thread stores them only if it finds the owner idle, and leaves it idle. So the values
//!   of a busy owner do not change under its hands. If the load of `busy` itself is interrupted, it
//!   finds the owner idle before and after.
#![allow(unsafe_code, reason = "N1")]

use std::ptr;

use nettrace_event::EventType;

use crate::{
    protocol::{
        barrier,
        chunk_header::{ChunkHeader, NONE},
        pool::Pool,
        record::{ATTENTION, Floor, LABELS_AGAIN, MODE_FENCE, Record, SEIZED, limit_of},
    },
    sync::{LoadOwn as _, Ordering, compiler_fence, fence},
};

impl Record {
    /// Announces an event. Returns `false`, and announces nothing, if the thread is in the middle
    /// of one.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        // Only the owner stores `busy`. A signal handler on its thread restores the value before it
        // returns.
        let busy = self.busy.load(Ordering::Relaxed);
        if busy & 1 != 0 {
            return false;
        }
        self.busy.store(busy | 1, Ordering::Relaxed);
        barrier::light();
        true
    }

    /// [`begin`](Self::begin) for a record of the usual mode. Also returns `false` if the mode is
    /// another.
    #[inline]
    pub(crate) fn begin_usual(&self) -> bool {
        // SAFETY: N1.
        if unsafe { self.busy.load_own() } != 0 {
            return false;
        }
        self.busy.store(1, Ordering::Relaxed);
        barrier::light();
        true
    }

    /// Whether a record is idle, and its mode the usual one.
    ///
    /// # Safety
    /// The pointer is to a record of this thread, or to memory that nobody stores to and whose
    /// first bytes are those of a `busy`.
    #[inline]
    pub(crate) unsafe fn is_idle_and_usual(record: *const Self) -> bool {
        // SAFETY: the caller's. By the pointer: what is no record must not become one.
        let busy = unsafe { &raw const (*record).busy };
        // SAFETY: the caller's, and N1.
        unsafe { busy.cast::<u32>().read() == 0 }
    }

    /// [`begin_usual`](Self::begin_usual) for a record that [is idle](Self::is_idle_and_usual).
    #[inline]
    pub(crate) fn begin_idle(&self) {
        self.busy.store(1, Ordering::Relaxed);
        barrier::light();
    }

    #[inline]
    pub(crate) fn mode(&self) -> u32 {
        self.busy.load(Ordering::Relaxed) >> 1
    }

    /// Makes the owner execute a fence from the next event on, because the flusher's barrier has
    /// failed. Busy owner only.
    pub(crate) fn pay_fences(&self) {
        // Release pairs with the acquire in `ask`. A flusher that sees the bit sees all earlier
        // stores, and sees the owner busy with this event or a later state.
        let busy = self.busy.load(Ordering::Relaxed);
        if busy >> 1 & MODE_FENCE == 0 {
            self.busy.store(busy | MODE_FENCE << 1, Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn pos(&self) -> *mut u8 {
        self.pos.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn limit(&self) -> usize {
        // Relaxed: an event that begins after the heavy barrier sees what the flusher stored before
        // it. The barrier guarantees that, not this load.
        self.limit.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn ts(&self) -> u64 {
        self.ts.load(Ordering::Relaxed)
    }

    /// How many ticks a time is after the last row. Above every bound if it is before. Busy owner
    /// only.
    #[inline]
    pub(crate) fn ticks_since_last(&self, now: u64) -> u64 {
        // SAFETY: N1.
        now.wrapping_sub(unsafe { self.ts.load_own() })
    }

    /// Whether the last row is of this type. Busy owner only.
    #[inline]
    pub(crate) fn is_last(&self, ty: &'static EventType) -> bool {
        // SAFETY: N1.
        let last = unsafe { self.last.load_own() };
        last == ptr::from_ref(ty).addr()
    }

    /// Notes the type of the last row, or that the next row cannot leave anything out. Busy owner
    /// only.
    #[inline]
    pub(crate) fn set_last(&self, ty: Option<&'static EventType>) {
        let address = ty.map_or(0, |ty| ptr::from_ref(ty).addr());
        self.last.store(address, Ordering::Relaxed);
    }

    /// Notes the time of a row that is being encoded, `delta` after the last one. So neither need
    /// be kept in a register meanwhile. Only the owner reads the time before it adds the row: the
    /// flusher waits for the event first. Busy owner only.
    #[inline]
    pub(crate) fn begin_row(&self, ts: u64, delta: u64) {
        self.ts.store(ts, Ordering::Relaxed);
        self.delta.store(delta as u32, Ordering::Relaxed);
    }

    /// Takes that back: there is no such row, and the next one cannot leave anything out. Busy
    /// owner only.
    #[cold]
    pub(crate) fn take_back_row(&self) {
        let delta = self.delta.load(Ordering::Relaxed);
        self.ts.store(self.ts().wrapping_sub(delta.into()), Ordering::Relaxed);
        self.delta.store(0, Ordering::Relaxed);
        self.set_last(None);
    }

    /// Adds that row, which ends at `pos`. Busy owner only.
    #[inline]
    pub(crate) fn add_row(&self, pos: *mut u8) {
        self.move_to(pos);
        // Release: as in `add`.
        self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Adds the row that ends at `pos`.
    #[inline]
    pub(crate) fn add(&self, pos: *mut u8, ts: u64) {
        self.move_to(pos);
        self.ts.store(ts, Ordering::Relaxed);
        // Release pairs with the acquires in `Waiting::is_over` and `Record::mark` and with that in
        // `ask`: they see the row.
        self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Whoever reads the memory of a killed process takes what is before `pos` as whole.
    #[inline]
    fn move_to(&self, pos: *mut u8) {
        compiler_fence(Ordering::Release);
        self.pos.store(pos, Ordering::Relaxed);
    }

    /// Ends the event.
    #[inline]
    pub(crate) fn end(&self) {
        // Release pairs with the acquire in `is_idle`: whoever sees the event ended sees what it
        // did.
        self.busy.store(self.busy.load(Ordering::Relaxed) & !1, Ordering::Release);
    }

    /// [`end`](Self::end) for a record of the usual mode.
    #[inline]
    pub(crate) fn end_usual(&self) {
        // Release: see `end`.
        self.busy.store(0, Ordering::Release);
    }

    /// Counts an event that sampling left out: a Start (0) or another (1). Returns `false` if the
    /// record cannot count it: the thread is in the middle of an event, or the session is over.
    pub(crate) fn leave_out(&self, kind: usize) -> bool {
        if self.is_closed() || !self.begin() {
            return false;
        }
        let count = &self.sampled_out[kind];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.end();
        true
    }

    /// Counts an event that was emitted in the middle of another.
    #[cold]
    pub(crate) fn refuse_nested(&self) {
        // Read-modify-write, since a second handler may interrupt the first.
        self.nested.fetch_add(1, Ordering::Relaxed);
        self.leave_note();
    }

    /// Sends the next event to the slow path, if there is a chunk.
    pub(crate) fn leave_note(&self) {
        // Fails if the flusher has asked, or if there is no chunk. The closure runs again if a
        // handler has changed the limit meanwhile.
        let _ = self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |limit| {
            (limit > ATTENTION).then_some(ATTENTION)
        });
    }

    /// Whether the session is over. Busy owner only.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Marks the event as waiting for room. During the wait the owner is not busy: it ends the
    /// event, and begins it again afterwards. Busy owner only.
    pub(crate) fn wait_begins(&self) {
        // Relaxed: the release in `end` publishes it to whoever sees the owner idle.
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Whether an event waits for room, or has waited and is neither written nor counted yet. Owner
    /// only.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Clears the mark of [`wait_begins`](Self::wait_begins): the event is written or counted. Busy
    /// owner only.
    pub(crate) fn wait_ends(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// The current chunk, if the owner may still write to it. Ask once, at the start of an event: a
    /// chunk that it returns stays the owner's until the event ends, because the flusher waits for
    /// the event. Busy owner only.
    pub(crate) fn held(&self) -> Option<u32> {
        (self.limit() != SEIZED).then(|| self.chunk.load(Ordering::Relaxed))
    }

    /// Gives numbers to nested events that have none yet, ahead of the next row. `held` is the
    /// current chunk; if it is `None` there must be no current chunk (see [`seal`](Self::seal)).
    /// Busy owner only.
    pub(crate) fn fold_nested(&self, pool: &Pool, held: Option<u32>) {
        let nested = self.nested.load(Ordering::Relaxed);
        let new = nested - self.folded.load(Ordering::Relaxed);
        if new > 0 {
            self.folded.store(nested, Ordering::Relaxed);
            self.widen_gap(pool, held, new);
        }
    }

    /// How many numbers have been used without a row since the last row of the current chunk.
    #[inline]
    pub(crate) fn gap(&self) -> u64 {
        self.gap.load(Ordering::Relaxed)
    }

    /// Notes the number of the chunk's first row. It tells of any gap before that row.
    pub(crate) fn number_first_row(&self, pool: &Pool, held: u32) {
        let header = pool.header(held);
        header.first_number.store(self.numbers() + 1, Ordering::Relaxed);
        header.skipped.store(0, Ordering::Relaxed);
        self.gap.store(0, Ordering::Relaxed);
    }

    /// Notes that the gap is in the chunk.
    pub(crate) fn gap_written(&self) {
        self.gap.store(0, Ordering::Relaxed);
    }

    /// In the current chunk: the start of the escapes of the last row with escapes, plus 1.
    #[inline]
    pub(crate) fn last_escapes(&self) -> u32 {
        self.escapes.load(Ordering::Relaxed)
    }

    /// Notes that the bytes from `pos` on are escapes.
    #[inline]
    pub(crate) fn mark_escapes(&self) {
        let offset = self.pos() as usize - self.start.load(Ordering::Relaxed) as usize;
        self.escapes.store(offset as u32 + 1, Ordering::Relaxed);
    }

    /// Adds an escape that ends at `end` ahead of the next row, and the version of the labels that
    /// it contains. Busy owner only; the chunk must have a row.
    #[inline]
    pub(crate) fn add_labels(&self, end: *mut u8, version: u64) {
        self.mark_escapes();
        self.move_to(end);
        self.set_labels(version);
    }

    /// The version of the labels that was last written into a chunk of this record.
    #[inline]
    pub(crate) fn labels(&self) -> u64 {
        self.labels.load(Ordering::Relaxed)
    }

    /// Notes the version of the labels that has been written.
    #[inline]
    pub(crate) fn set_labels(&self, version: u64) {
        self.labels.store(version, Ordering::Relaxed);
    }

    /// How many numbers have been given out.
    pub(super) fn numbers(&self) -> u64 {
        self.own.load(Ordering::Relaxed) + self.folded.load(Ordering::Relaxed)
    }

    fn widen_gap(&self, pool: &Pool, held: Option<u32>, by: u64) {
        self.gap.store(self.gap() + by, Ordering::Relaxed);
        if let Some(chunk) = held {
            let skipped = &pool.header(chunk).skipped;
            skipped.store(skipped.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        }
    }

    /// Gives the event a number, counts it as dropped and ends it. `held` as for
    /// [`fold_nested`](Self::fold_nested). Busy owner only.
    #[cold]
    pub(crate) fn drop_event(&self, pool: &Pool, held: Option<u32>, why: Reason) {
        let counter = match why {
            Reason::NoRoom => &self.no_room,
            Reason::TooLarge => &self.too_large,
            Reason::Panicked => &self.panicked,
            Reason::Refused => &self.refused,
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.wait_ends();
        self.widen_gap(pool, held, 1);
        self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.leave_note();
        self.end();
    }

    /// Counts `count` events as dropped for lack of room, so that tests reach numbers that are
    /// billions of events away.
    #[cfg(feature = "__test_hooks")]
    pub(crate) fn pretend_dropped(&self, pool: &Pool, count: u64) {
        self.seal(pool);
        self.no_room.store(self.no_room.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        self.own.store(self.own.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// Seals the current chunk, unless the flusher has taken it. Busy owner only.
    pub(crate) fn seal(&self, pool: &Pool) {
        // Acquire pairs with the release in `seize`: if the flusher has taken the chunk, it has
        // read `pos` and the other values before the owner changes them. The release half pairs
        // with nothing, because the exchange of `sealed` below publishes the rows.
        let chunk = self.chunk.swap(NONE, Ordering::AcqRel);
        self.limit.store(SEIZED, Ordering::Relaxed);
        if chunk == NONE {
            return;
        }
        let header = pool.header(chunk);
        let (start, _) = pool.place(chunk);
        header.len.store((self.pos() as usize - start as usize) as u32, Ordering::Relaxed);
        header.last_ts.store(self.ts(), Ordering::Relaxed);
        header.escapes.store(self.last_escapes(), Ordering::Relaxed);
        header.end_number.store(self.numbers(), Ordering::Relaxed);
        let mut head = self.sealed.load(Ordering::Relaxed);
        loop {
            header.next.store(head, Ordering::Relaxed);
            // Release pairs with the acquire in `take_sealed`: it publishes the rows and the
            // header.
            match self.sealed.compare_exchange_weak(
                head,
                chunk,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Makes a chunk that was just taken from the pool the current one; there must be none. `now`
    /// reads the clock. Returns the base time of the chunk's first row. Busy owner only.
    ///
    /// A round that asks nobody makes this a store-buffering pattern. The round raises the floor,
    /// executes a fence and then looks for chunks in use ([`Pool::is_unused`]). The owner takes a
    /// chunk, executes a fence and then reads the floor. So the round sees the chunk, or the owner
    /// sees the floor.
    pub(crate) fn install(
        &self,
        pool: &Pool,
        chunk: u32,
        floor: &Floor,
        now: impl FnOnce() -> u64,
    ) -> u64 {
        if !crate::mutant::takes_out("no_floor_in_new_chunk") {
            // Pairs with the fence in `Pool::is_unused`.
            fence(Ordering::SeqCst);
        }
        let current = floor.current();
        // Read the clock only now: a chunk may be of an earlier epoch than the one in which its
        // times are read, but never of a later one.
        let mut ts = now().max(current.floor);
        if self.epoch.load(Ordering::Relaxed) == current.epoch {
            // The last row's time bounds this one only within an epoch.
            ts = ts.max(self.ts());
        }
        self.epoch.store(current.epoch, Ordering::Relaxed);
        let header = pool.header(chunk);
        let (start, size) = pool.place(chunk);
        header.base_ts.store(ts, Ordering::Relaxed);
        header.epoch.store(current.epoch, Ordering::Relaxed);
        header.offset.store(current.offset, Ordering::Relaxed);
        header.first_number.store(self.numbers() + 1, Ordering::Relaxed);
        header.skipped.store(0, Ordering::Relaxed);
        self.escapes.store(0, Ordering::Relaxed);
        self.gap.store(0, Ordering::Relaxed);
        self.leave(header);
        self.start.store(start, Ordering::Relaxed);
        self.move_to(start);
        self.hold(header, chunk);
        self.ts.store(ts, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
        self.limit.store(limit_of(start, size), Ordering::Relaxed);
        // Release pairs with the acquire in `ask`: a flusher that sees the chunk sees its header,
        // and its store to `limit` comes after the store above.
        self.chunk.store(chunk, Ordering::Release);
        ts
    }

    /// Notes where the rows of the last chunk end, if the record is in a recorder file. `pos` and
    /// `start` are still those of that chunk. When they change, `start` first, this is its end.
    #[cfg(not(nettrace_loom))]
    fn leave(&self, header: &ChunkHeader) {
        if self.place == 0 {
            return;
        }
        let used = (self.pos() as usize).wrapping_sub(self.start.load(Ordering::Relaxed) as usize);
        let serial = self.serial.load(Ordering::Relaxed);
        if used > 0 {
            self.before.store(u64::from(serial) << 32 | used as u64, Ordering::Relaxed);
        }
        self.serial.store(serial.wrapping_add(1), Ordering::Relaxed);
        header.serial.store(serial.wrapping_add(1), Ordering::Relaxed);
        header.before.store(self.before.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.labels() != 0 {
            self.set_labels(LABELS_AGAIN);
        }
        compiler_fence(Ordering::Release);
    }

    /// Names the record as the holder of its next chunk, if it is in a recorder file. `pos` and
    /// `start` are at the beginning of the chunk, so none of the bytes in it count as rows.
    #[cfg(not(nettrace_loom))]
    fn hold(&self, header: &ChunkHeader, chunk: u32) {
        if self.place != 0 {
            compiler_fence(Ordering::Release);
            header.holder.store(u64::from(self.place) << 32 | u64::from(chunk), Ordering::Relaxed);
        }
    }

    #[cfg(nettrace_loom)]
    fn leave(&self, _: &ChunkHeader) {}

    #[cfg(nettrace_loom)]
    fn hold(&self, _: &ChunkHeader, _: u32) {}

    /// Chooses the size of the next chunk, after the flusher has taken the owner's chunk or when
    /// there was none yet. If the owner has written less than a small chunk since the round before
    /// it gets a small one, otherwise a large one. Busy owner only.
    pub(crate) fn choose_size(&self, pool: &Pool) {
        let written = self.pos() as usize - self.start.load(Ordering::Relaxed) as usize;
        let filled = self.filled.load(Ordering::Relaxed);
        self.filled.store(false, Ordering::Relaxed);
        self.large.store(filled || written >= pool.small_size(), Ordering::Relaxed);
    }

    /// Chooses a large chunk as the next one, because the owner has filled a chunk. Busy owner
    /// only.
    pub(crate) fn choose_large(&self) {
        self.filled.store(true, Ordering::Relaxed);
        self.large.store(true, Ordering::Relaxed);
    }

    /// Whether the next chunk is to be a large one. Busy owner only.
    pub(crate) fn wants_large(&self) -> bool {
        self.large.load(Ordering::Relaxed)
    }

    /// Clears the note if there is one, so that the next event may take the fast path. `place` is
    /// that of the current chunk. Busy owner only.
    pub(crate) fn clear_note(&self, (start, size): (*mut u8, usize)) {
        if crate::mutant::takes_out("note_by_store") {
            self.limit.store(limit_of(start, size), Ordering::Relaxed);
            return;
        }
        // An exchange, not a store, so that a request of the flusher survives.
        let _ = self.limit.compare_exchange(
            ATTENTION,
            limit_of(start, size),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Whether the current chunk has a row, and the next row need not tell of numbers without a
    /// row. Busy owner only.
    ///
    /// That is so wherever `limit` is an address. Whoever installs a chunk or clears a note writes
    /// a row that tells of such numbers, or leaves a note, or seals the chunk, before it ends the
    /// event. Whoever uses a number without a row leaves a note.
    pub(crate) fn goes_on(&self) -> bool {
        let nested = self.nested.load(Ordering::Relaxed);
        self.pos() != self.start.load(Ordering::Relaxed)
            && self.gap() == 0
            && nested == self.folded.load(Ordering::Relaxed)
    }

    /// Ends the record at the end of its thread: hands over what it holds and makes its numbers
    /// final.
    pub(crate) fn exit(&self, pool: &Pool) {
        // A thread that ends in the middle of an event (`pthread_exit` in a handler) never finishes
        // it, so the record may be busy already.
        let _ = self.begin();
        self.seal(pool);
        self.fold_nested(pool, None);
        self.end();
        // Release pairs with the acquires in `ask` and `Record::mark`: the last chunk is sealed and
        // the numbers are final.
        self.exited.store(true, Ordering::Release);
    }
}

/// Why the owner drops an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reason {
    NoRoom,
    TooLarge,
    Panicked,
    /// The session cannot describe the event's type.
    Refused,
}
