//! One thread's end of one session: the buffer protocol between the thread that emits and the flusher.
//!
//! # The protocol
//!
//! The owner writes rows into its current chunk. An event is
//!
//! 1. [`begin`](Record::begin): `busy` := 1, [light barrier](barrier::light);
//! 2. the clock is read, a row is written at `pos` if it ends below `limit`;
//! 3. [`commit`](Record::commit): `pos`, `ts`, `own` move on, `busy` := 0 (release).
//!
//! `limit` is the flusher's lever: an address while the chunk may be written, [`SEIZED`] when the
//! flusher has asked for it (or there is none), [`ATTENTION`] when the owner left itself a note. Anything but an address sends the
//! next event to the slow path.
//!
//! In a round the flusher
//!
//! 1. reads `T` from the clock;
//! 2. of every record: [`ask`](Record::ask): reads what numbers were given out, which chunk is current, `limit` := [`SEIZED`];
//! 3. executes the [heavy barrier](crate::barrier::Barrier::heavy);
//! 4. of every record: waits until the event that was under way at the barrier [is over](Waiting::is_over), then [collects](Record::collect): it takes the list of chunks that
//!    the owner sealed itself, and seizes the chunk that it saw in step 2 by compare-and-exchange of `chunk`.
//!
//! An event that was under way in step 2 may have sealed that chunk and gone into a new one; then steps 2 to 4 are repeated for that record,
//! once: see [`collect_rest`](Record::collect_rest).
//!
//! # Why that is right
//!
//! *An event that the flusher does not wait for is not older than `T`.* The heavy barrier runs on the owner's processor at some
//! point of its program. An event whose step 1 comes before that point is seen as busy in step 4 (and waited for), or has
//! already ended. One whose step 1 comes after it reads the clock after it, hence after `T` was read.
//!
//! *The owner never writes into a chunk that was seized.* An event that began before the barrier was waited for. One
//! that begins after it sees [`SEIZED`] and takes the slow path, where the owner must first win its own chunk back from `chunk` by a
//! swap: it or the flusher has it, never both. The owner that wins seals it and never again uses it as its current chunk before
//! the flusher has recycled it, so the flusher's exchange cannot succeed on a chunk that came back (no ABA): the flusher recycles
//! chunks only outside of a round's steps 2 to 4.
//!
//! *`limit` := [`SEIZED`] is never overwritten for the chunk that it was meant for.* The owner sets `limit` to an address in two
//! places. After it installed a new chunk: then `chunk` is stored after `limit` (release), so a flusher that saw the new chunk in step 2
//! (acquire) stores its `limit` later in the order of that variable; a flusher that saw the old chunk fails its exchange. After a note was
//! dealt with: by compare-and-exchange from [`ATTENTION`], which fails if the flusher asked meanwhile.
//!
//! *What the flusher reads of a chunk that it seizes is what the owner wrote last.* The owner's last stores come before `busy` := 0
//! (release), which step 4 read (acquire). They are read before the exchange (its release half keeps them there) and are good if it succeeds,
//! for the owner changes them only after a swap of its own, which would have made it fail.
//!
//! *A clock that goes back does no harm.* (The machine was suspended; the counter of another processor is behind.) `T` is kept in a
//! [`Floor`] and only grows, and is put there before anybody is asked. No row of the slow path is older than the floor, and an event that the
//! round does not wait for takes the slow path: it sees [`SEIZED`], by the barrier, and by the same barrier the floor. From there on its
//! thread's own last time is the bound, as ever.
//!
//! *A signal handler, a `Drop` or a formatter that emits while its thread is busy* finds `busy` set: it is counted in `nested` and leaves a
//! note, so that the next row shows the gap.
//!
//! The models in `loom_tests` check these under every interleaving, and fail when the barrier or the wait is taken out.

mod visit;

pub(crate) use self::visit::{Asked, Sealed, Waiting};

use crate::{
    barrier,
    pool::{NONE, Pool},
    row::Shape,
    sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// [`Record::limit`](Record): there is no chunk, or the flusher wants it.
pub(crate) const SEIZED: usize = 0;
/// [`Record::limit`](Record): the chunk is the owner's, but something must be written before the next row.
pub(crate) const ATTENTION: usize = 1;

/// Why events were not recorded, counted by the thread that emitted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The memory budget was spent.
    pub no_room: u64,
    /// The payload exceeded what readers take (65,436 bytes) or a limit of its fields.
    pub too_large: u64,
    /// Emitted while the same thread was in the middle of another event: from a signal handler, a `Drop`, a formatter.
    pub reentrant: u64,
    /// The event's own encoding panicked.
    pub panicked: u64,
}

impl Drops {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.no_room + self.too_large + self.reentrant + self.panicked
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.no_room += other.no_room;
        self.too_large += other.too_large;
        self.reentrant += other.reentrant;
        self.panicked += other.panicked;
    }
}

/// The last `T`, which no row that a later round collects is older than.
#[derive(Debug)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// `T` of a round that begins, later than any before. Flusher only, ahead of the roster and of [`Record::ask`].
    pub(crate) fn raise(&self, now: u64) -> u64 {
        let ts = now.max(self.0.load(Ordering::Relaxed) + 1);
        // Relaxed: the roster's lock, for threads that are met later, and the heavy barrier, for all others, publish it.
        self.0.store(ts, Ordering::Relaxed);
        ts
    }

    /// The time of a row by the slow path, where the clock says `now`.
    pub(crate) fn bound(&self, now: u64) -> u64 {
        if cfg!(nettrace_mutant = "no_floor") {
            return now;
        }
        now.max(self.0.load(Ordering::Relaxed))
    }
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Record {
    // What each event touches: one pair of cache lines, written by the owner.
    /// Bit 0: the owner is in the middle of an event. The rest is constant: how the clock is read and whether a fence is due, 0 for the
    /// usual.
    busy: AtomicU32,
    limit: AtomicUsize,
    pos: AtomicPtr<u8>,
    ts: AtomicU64,
    /// The [`Shape`] of the last row.
    id: AtomicU32,
    len: AtomicU32,
    /// Numbers given to this thread's events, those of nested events aside.
    own: AtomicU64,
    /// The current chunk.
    chunk: AtomicU32,
    // What the slow path touches.
    /// Chunks that the owner gave up, the last first.
    sealed: AtomicU32,
    /// Events refused because they were nested.
    nested: AtomicU64,
    /// How many of `nested` have been given numbers.
    folded: AtomicU64,
    /// How many numbers, just before the next row, have no row.
    gap: AtomicU64,
    /// Which version of the thread's labels was last written.
    labels: AtomicU64,
    no_room: AtomicU64,
    too_large: AtomicU64,
    panicked: AtomicU64,
    /// The owner has gone.
    exited: AtomicBool,
    /// The session is over.
    closed: AtomicBool,
}

impl Record {
    pub(crate) fn new(mode: u32) -> Self {
        Self {
            busy: AtomicU32::new(mode << 1),
            limit: AtomicUsize::new(SEIZED),
            pos: AtomicPtr::new(std::ptr::null_mut()),
            ts: AtomicU64::new(0),
            id: AtomicU32::new(Shape::NONE.id),
            len: AtomicU32::new(Shape::NONE.len),
            own: AtomicU64::new(0),
            chunk: AtomicU32::new(NONE),
            sealed: AtomicU32::new(NONE),
            nested: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            gap: AtomicU64::new(0),
            labels: AtomicU64::new(0),
            no_room: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            exited: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }
}

/// The owner's side.
impl Record {
    /// Announces an event. `false`: the thread is in the middle of one; nothing was announced.
    #[inline(always)]
    pub(crate) fn begin(&self) -> bool {
        // Only the owner stores `busy`; a signal handler on its thread has put it back when it returns.
        let busy = self.busy.load(Ordering::Relaxed);
        if busy & 1 != 0 {
            return false;
        }
        self.busy.store(busy | 1, Ordering::Relaxed);
        barrier::light();
        true
    }

    /// [`begin`](Self::begin) for a record of the usual mode; `false` for any other as well.
    #[inline(always)]
    pub(crate) fn begin_usual(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.busy.store(1, Ordering::Relaxed);
        barrier::light();
        true
    }

    #[inline(always)]
    pub(crate) fn mode(&self) -> u32 {
        self.busy.load(Ordering::Relaxed) >> 1
    }

    #[inline(always)]
    pub(crate) fn pos(&self) -> *mut u8 {
        self.pos.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn limit(&self) -> usize {
        // Relaxed: that an event which begins after the heavy barrier sees what was stored before it is the
        // barrier's work.
        self.limit.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn ts(&self) -> u64 {
        self.ts.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> Shape {
        Shape { id: self.id.load(Ordering::Relaxed), len: self.len.load(Ordering::Relaxed) }
    }

    /// Adds the row that ends at `pos`, and ends the event.
    #[inline(always)]
    pub(crate) fn commit(&self, pos: *mut u8, ts: u64, shape: Shape) {
        self.add(pos, ts, shape);
        self.end();
    }

    /// [`commit`](Self::commit) for a record of the usual mode.
    #[inline(always)]
    pub(crate) fn commit_usual(&self, pos: *mut u8, ts: u64, shape: Shape) {
        self.add(pos, ts, shape);
        // Release: see `end`.
        self.busy.store(0, Ordering::Release);
    }

    #[inline(always)]
    fn add(&self, pos: *mut u8, ts: u64, shape: Shape) {
        self.pos.store(pos, Ordering::Relaxed);
        self.ts.store(ts, Ordering::Relaxed);
        self.id.store(shape.id, Ordering::Relaxed);
        self.len.store(shape.len, Ordering::Relaxed);
        // Release pairs with the acquire in `Waiting::is_over`.
        self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Ends the event.
    #[inline(always)]
    pub(crate) fn end(&self) {
        // Release pairs with the acquire in `is_idle`: what the event did is seen by whoever sees it ended.
        self.busy.store(self.busy.load(Ordering::Relaxed) & !1, Ordering::Release);
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
        // Fails, and is tried again, where the flusher has asked or a handler has changed the chunk in between.
        let _ = self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |limit| {
            (limit > ATTENTION).then_some(ATTENTION)
        });
    }

    /// Whether the session is over. Busy owner only.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The current chunk, if the owner may go on writing it: asked once, at the start of an event. Then it stays so to the
    /// event's end, for an owner that was not asked when it began is waited for. Busy owner only.
    pub(crate) fn held(&self) -> Option<u32> {
        (self.limit() != SEIZED).then(|| self.chunk.load(Ordering::Relaxed))
    }

    /// Gives numbers to nested events that have none yet; they come before the next row. Busy owner only; `held` is the
    /// current chunk, and where it is none there must be none (see [`seal`](Self::seal)).
    pub(crate) fn fold_nested(&self, pool: &Pool, held: Option<u32>) {
        let nested = self.nested.load(Ordering::Relaxed);
        let new = nested - self.folded.load(Ordering::Relaxed);
        if new > 0 {
            self.folded.store(nested, Ordering::Relaxed);
            self.widen_gap(pool, held, new);
        }
    }

    /// How many numbers have gone without a row since the last row of the current chunk.
    pub(crate) fn gap(&self) -> u64 {
        self.gap.load(Ordering::Relaxed)
    }

    /// The next row starts the chunk: gaps before it are told by its number alone.
    pub(crate) fn number_first_row(&self, pool: &Pool, held: u32) {
        let header = pool.header(held);
        header.first_number.store(self.numbers() + 1, Ordering::Relaxed);
        header.skipped.store(0, Ordering::Relaxed);
        self.gap.store(0, Ordering::Relaxed);
    }

    /// The gap has been written into the chunk.
    pub(crate) fn gap_written(&self) {
        self.gap.store(0, Ordering::Relaxed);
    }

    /// Says that the current chunk holds more than plain rows.
    pub(crate) fn mark_escapes(&self, pool: &Pool, held: u32) {
        pool.header(held).escapes.store(true, Ordering::Relaxed);
    }

    /// The version of the labels that the chunks of this record have been told.
    pub(crate) fn labels(&self) -> u64 {
        self.labels.load(Ordering::Relaxed)
    }

    /// Notes the version of the labels that was written.
    pub(crate) fn set_labels(&self, version: u64) {
        self.labels.store(version, Ordering::Relaxed);
    }

    /// Numbers given out so far.
    fn numbers(&self) -> u64 {
        self.own.load(Ordering::Relaxed) + self.folded.load(Ordering::Relaxed)
    }

    fn widen_gap(&self, pool: &Pool, held: Option<u32>, by: u64) {
        self.gap.store(self.gap() + by, Ordering::Relaxed);
        if let Some(chunk) = held {
            let skipped = &pool.header(chunk).skipped;
            skipped.store(skipped.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        }
    }

    /// Gives the event a number and drops it, and ends it. Busy owner only; `held` as for [`fold_nested`](Self::fold_nested).
    #[cold]
    pub(crate) fn drop_event(&self, pool: &Pool, held: Option<u32>, why: Reason) {
        let counter = match why {
            Reason::NoRoom => &self.no_room,
            Reason::TooLarge => &self.too_large,
            Reason::Panicked => &self.panicked,
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.widen_gap(pool, held, 1);
        self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.leave_note();
        self.end();
    }

    /// As if so many events had been dropped for want of room: to test what is billions of events away.
    pub(crate) fn pretend_dropped(&self, pool: &Pool, count: u64) {
        self.seal(pool);
        self.no_room.store(self.no_room.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        self.own.store(self.own.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// Gives up the current chunk, if the flusher has not taken it. Busy owner only.
    pub(crate) fn seal(&self, pool: &Pool) {
        // Acquire pairs with nothing that the owner did not do itself; release keeps what follows (a new `pos`) behind the
        // swap, for a flusher that reads them and then fails its exchange.
        let chunk = self.chunk.swap(NONE, Ordering::AcqRel);
        self.limit.store(SEIZED, Ordering::Relaxed);
        if chunk == NONE {
            return;
        }
        let header = pool.header(chunk);
        let (start, _) = pool.place(chunk);
        header.len.store((self.pos() as usize - start as usize) as u32, Ordering::Relaxed);
        header.last_ts.store(self.ts(), Ordering::Relaxed);
        header.end_number.store(self.numbers(), Ordering::Relaxed);
        let mut head = self.sealed.load(Ordering::Relaxed);
        loop {
            header.next.store(head, Ordering::Relaxed);
            // Release pairs with the acquire in `take_sealed`: the rows and the header.
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

    /// Starts a new chunk at the time `ts`; there is no current one. Busy owner only.
    pub(crate) fn install(&self, pool: &Pool, chunk: u32, ts: u64) {
        let header = pool.header(chunk);
        let (start, size) = pool.place(chunk);
        header.base_ts.store(ts, Ordering::Relaxed);
        header.first_number.store(self.numbers() + 1, Ordering::Relaxed);
        header.skipped.store(0, Ordering::Relaxed);
        header.escapes.store(false, Ordering::Relaxed);
        self.gap.store(0, Ordering::Relaxed);
        self.pos.store(start, Ordering::Relaxed);
        self.ts.store(ts, Ordering::Relaxed);
        self.id.store(Shape::NONE.id, Ordering::Relaxed);
        self.len.store(Shape::NONE.len, Ordering::Relaxed);
        self.limit.store(start as usize + size, Ordering::Relaxed);
        // Release pairs with the acquire in `ask`: whoever sees the chunk sees its header and stores `limit` after this.
        self.chunk.store(chunk, Ordering::Release);
    }

    /// Takes the note off: later events may take the fast path again. Busy owner only.
    pub(crate) fn clear_note(&self, pool: &Pool, held: u32) {
        let (start, size) = pool.place(held);
        if cfg!(nettrace_mutant = "note_by_store") {
            self.limit.store(start as usize + size, Ordering::Relaxed);
            return;
        }
        // Exchange, not store: a request of the flusher must survive.
        let _ = self.limit.compare_exchange(
            ATTENTION,
            start as usize + size,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// The owner goes: whatever it holds is handed over, and its numbers are final.
    pub(crate) fn exit(&self, pool: &Pool) {
        // A thread that ends in the middle of an event (`pthread_exit` from a handler) will not finish it.
        let _ = self.begin();
        self.seal(pool);
        self.fold_nested(pool, None);
        self.end();
        // Release pairs with the acquire in `ask`: the last chunk is sealed, the numbers are final.
        self.exited.store(true, Ordering::Release);
    }
}

/// Why the owner drops an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reason {
    NoRoom,
    TooLarge,
    Panicked,
}
