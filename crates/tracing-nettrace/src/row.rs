//! A span that is open, as the table has it.
//!
//! A span is a few words, so it is a row of atomics. Each row belongs to one span at a time.
//! Whoever has a span's id got it from a thread that saw the span begin, and the row is given back
//! when the last handle is gone, so the words need no order of their own. The row's id is stored
//! last (release) and read first (acquire).

use std::sync::Arc;

use nettrace_event::{AnyEvent, trace_context::TraceState};
use nettrace_writer::{
    bridge::{Began, Entry, KeptIds, SpanIds},
    event::EventType,
};

use crate::{
    callsite::{Callsite, Naming},
    sync::{AtomicU32, AtomicU64, Mutex, Ordering, PoisonError},
    thread_number::thread,
};

/// A row that nobody has.
const FREE: u64 = 0;
/// A row that somebody is filling, who has not kept it.
const FILLING: u64 = u64::MAX;

/// Bit of [`Row::rare`]: the span has inherited a `tracestate`.
const STATE: u32 = 1;
/// Bit of [`Row::rare`]: `busy` is not all of the time that the span was entered.
const MORE_BUSY: u32 = 2;
/// Bit of [`Row::rare`]: the call that the span is has returned an error.
const FAILED: u32 = 4;

/// A span that is open.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Row {
    /// Its id, or [`FREE`], [`FILLING`], or who [keeps](Self::keep) the row.
    id: AtomicU64,
    /// Its [callsite](Callsite::to_word).
    callsite: AtomicU64,
    ids: KeptIds,
    began: AtomicU64,
    /// The sessions that were told of its start (lower half), as of which change (upper half).
    told: AtomicU64,
    /// The number of the thread on which it began.
    thread: AtomicU64,
    /// How long it was entered on that thread, and how often: see [`Busy`].
    busy: AtomicU64,
    /// Handles beyond the first. 0 in a row that is not a span's.
    clones: AtomicU32,
    /// What few spans have: [`STATE`], [`MORE_BUSY`], [`FAILED`]. 0 in a row that is not a span's,
    /// and if it is 0, so is all that follows.
    rare: AtomicU32,
    /// As `busy`, on other threads.
    busy_elsewhere: AtomicU64,
    /// What did not fit into `busy`: nanoseconds, and how often.
    more_busy: [AtomicU64; 2],
    state: Mutex<Option<Arc<TraceState>>>,
}

impl Row {
    pub(crate) fn new() -> Self {
        Self {
            id: AtomicU64::new(FREE),
            callsite: AtomicU64::new(0),
            ids: KeptIds::new(),
            began: AtomicU64::new(0),
            told: AtomicU64::new(0),
            thread: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            busy_elsewhere: AtomicU64::new(0),
            more_busy: [const { AtomicU64::new(0) }; 2],
            clones: AtomicU32::new(0),
            rare: AtomicU32::new(0),
            state: Mutex::new(None),
        }
    }

    /// The id, if the row is a span's.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        // Pairs with the release in `fill`.
        self.id.load(Ordering::Acquire)
    }

    /// The ids of the span. Takes a lock if it has inherited a `tracestate`.
    #[inline]
    pub(crate) fn ids(&self) -> Option<SpanIds> {
        let state = if self.has_state() { self.state_there() } else { None };
        self.ids.get(state)
    }

    /// Puts the span in force.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entry> {
        if self.has_state() { self.enter_with_state() } else { self.ids.enter() }
    }

    #[cold]
    #[inline(never)]
    fn enter_with_state(&self) -> Option<Entry> {
        self.ids().map(|ids| ids.enter())
    }

    /// The ids of a span that has nothing of what few spans have.
    #[inline]
    pub(crate) fn plain_ids(&self) -> Option<&KeptIds> {
        (self.rare.load(Ordering::Relaxed) == 0).then_some(&self.ids)
    }

    #[inline]
    fn has_state(&self) -> bool {
        self.rare.load(Ordering::Relaxed) & STATE != 0
    }

    #[cold]
    #[inline(never)]
    fn state_there(&self) -> Option<Arc<TraceState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[cold]
    #[inline(never)]
    fn set_state(&self, state: Option<Arc<TraceState>>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    #[inline]
    pub(crate) fn callsite(&self, naming: &'static Naming) -> Option<&'static Callsite> {
        Callsite::at(self.callsite.load(Ordering::Relaxed), naming)
    }

    #[inline]
    pub(crate) fn began(&self) -> Began {
        Began::from_word(self.began.load(Ordering::Relaxed))
    }

    /// Which sessions were told of its start.
    #[inline]
    pub(crate) fn told(&self) -> Told {
        Told::from_word(self.told.load(Ordering::Relaxed))
    }

    /// More sessions are about to be told. Returns `false` if another thread does it.
    pub(crate) fn tell(&self, before: Told, now: Told) -> bool {
        let (before, now) = (before.to_word(), now.to_word());
        self.told.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It was entered for so long, once more. Several threads may leave it at once.
    #[inline]
    pub(crate) fn left(&self, nanos: u64) {
        if nanos >= Busy::HALF {
            return self.spill(Busy { nanos, polls: 1 });
        }
        // Relaxed: only the sum counts. The thread on which the span began is the only one that
        // changes its word, so it needs no exchange. What a signal handler adds in between is lost.
        let word = Busy { nanos, polls: 1 }.to_word();
        if self.is_of(thread()) {
            let before = self.busy.load(Ordering::Relaxed);
            self.busy.store(before + word, Ordering::Relaxed);
            if before & Busy::NEARLY_FULL != 0 {
                self.spill(Busy::from_word(self.busy.swap(0, Ordering::Relaxed)));
            }
        } else {
            self.left_elsewhere(word);
        }
    }

    /// [`left`](Self::left) on another thread than the one where the span began.
    #[inline(never)]
    fn left_elsewhere(&self, word: u64) {
        let busy = &self.busy_elsewhere;
        if busy.fetch_add(word, Ordering::Relaxed) & Busy::NEARLY_FULL != 0 {
            self.spill(Busy::from_word(busy.swap(0, Ordering::Relaxed)));
        } else if self.rare.load(Ordering::Relaxed) & MORE_BUSY == 0 {
            self.rare.fetch_or(MORE_BUSY, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill(&self, busy: Busy) {
        self.more_busy[0].fetch_add(busy.nanos, Ordering::Relaxed);
        self.more_busy[1].fetch_add(busy.polls, Ordering::Relaxed);
        self.rare.fetch_or(MORE_BUSY, Ordering::Relaxed);
    }

    /// How long it was entered on the thread on which it began, and how often, unless that is
    /// [more](Self::busy) than a word can have.
    #[inline]
    pub(crate) fn busy_here(&self) -> Busy {
        Busy::from_word(self.busy.load(Ordering::Relaxed))
    }

    /// How long it was entered, and how often.
    pub(crate) fn busy(&self) -> Busy {
        let here = self.busy_here();
        if self.rare.load(Ordering::Relaxed) & MORE_BUSY == 0 {
            return here;
        }
        let elsewhere = Busy::from_word(self.busy_elsewhere.load(Ordering::Relaxed));
        let [nanos, polls] = &self.more_busy;
        Busy {
            nanos: here.nanos + elsewhere.nanos + nanos.load(Ordering::Relaxed),
            polls: here.polls + elsewhere.polls + polls.load(Ordering::Relaxed),
        }
    }

    /// The call that the span is has returned an error.
    pub(crate) fn fail(&self) {
        self.rare.fetch_or(FAILED, Ordering::Relaxed);
    }

    /// Whether it has.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.rare.load(Ordering::Relaxed) & FAILED != 0
    }

    /// There is one more handle.
    pub(crate) fn cloned(&self) {
        // Relaxed, as `Arc` does: a new handle is made from one that stays.
        self.clones.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one handle less. Returns whether it was the last.
    #[inline]
    pub(crate) fn dropped(&self) -> bool {
        // With one handle there is nobody else to change the count. Acquire pairs with the release
        // below: what others did with their handles comes before the end of the span.
        if self.clones.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.dropped_one_of_several()
    }

    #[inline(never)]
    fn dropped_one_of_several(&self) -> bool {
        // If others dropped theirs since then, this one goes below zero, and was the last.
        let is_last = self.clones.fetch_sub(1, Ordering::AcqRel) == 0;
        if is_last {
            self.clones.store(0, Ordering::Relaxed);
        }
        is_last
    }

    /// The span has ended. What few spans have must go before the row does.
    #[inline]
    pub(crate) fn end(&self) {
        if self.rare.load(Ordering::Relaxed) != 0 {
            self.forget_rare();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_rare(&self) {
        if self.rare.swap(0, Ordering::Relaxed) & STATE != 0 {
            self.set_state(None);
        }
        self.busy_elsewhere.store(0, Ordering::Relaxed);
        self.more_busy.iter().for_each(|more| more.store(0, Ordering::Relaxed));
    }

    /// Gives the row back.
    #[inline]
    pub(crate) fn give_back(&self) {
        // Pairs with the acquire in `take`: the next span's words come after this one's.
        self.id.store(FREE, Ordering::Release);
    }

    /// From now on, a thread keeps the row for its next span. The number is the thread's.
    #[inline]
    pub(crate) fn keep(&self, thread: u64) {
        // Relaxed: only that thread takes it.
        self.id.store(!thread, Ordering::Relaxed);
    }

    /// Whether the thread with this number keeps the row. (Nobody else changes that.)
    #[inline]
    pub(crate) fn is_kept_by(&self, thread: u64) -> bool {
        self.id.load(Ordering::Relaxed) == !thread
    }

    /// Takes the row if it is free.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        let take = || self.id.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed);
        // Acquire pairs with the release in `give_back`. Relaxed: the exchange decides.
        self.id.load(Ordering::Relaxed) == FREE && take().is_ok()
    }

    /// Begins a span in whatever is in force, with ids that are kept here: see [`KeptIds::begin`].
    /// The caller has taken the row.
    #[inline]
    pub(crate) fn begin(&self, start: &dyn AnyEvent, ty: &'static EventType) -> Option<Began> {
        self.ids.begin(start, ty)
    }

    /// Keeps the ids of a span. The caller has taken the row.
    pub(crate) fn keep_ids(&self, ids: &SpanIds) {
        self.ids.keep(ids);
        if let Some(state) = ids.state() {
            self.rare.store(STATE, Ordering::Relaxed);
            self.set_state(Some(Arc::clone(state)));
        }
    }

    /// [`SpanIds::number`] of the ids that are kept here.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.ids.number()
    }

    /// Makes the row a span's. The caller has taken it, and it has the span's ids.
    #[inline]
    pub(crate) fn fill(&self, id: u64, thread: u64, new: &New) {
        self.callsite.store(new.callsite.to_word(), Ordering::Relaxed);
        self.began.store(new.began.to_word(), Ordering::Relaxed);
        self.told.store(new.told.to_word(), Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
        self.id.store(id, Ordering::Release);
    }

    /// Whether the span began on this thread, whose number is given.
    #[inline]
    pub(crate) fn is_of(&self, thread: u64) -> bool {
        self.thread.load(Ordering::Relaxed) == thread
    }
}

/// How long a span was entered, and how often. In one word, so that one addition counts both:
/// nanoseconds in 44 bits (almost five hours), polls in 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) nanos: u64,
    pub(crate) polls: u64,
}

impl Busy {
    const BITS: u32 = 44;
    /// Half of the nanoseconds that a word can have.
    const HALF: u64 = 1 << (Self::BITS - 1);
    /// The highest bits of both. Each is added to by so little that it does not overflow before
    /// the word is taken.
    const NEARLY_FULL: u64 = Self::HALF | 1 << 63;

    fn to_word(self) -> u64 {
        self.polls << Self::BITS | self.nanos
    }

    fn from_word(word: u64) -> Self {
        Self { nanos: word & ((1 << Self::BITS) - 1), polls: word >> Self::BITS }
    }
}

/// Which sessions were told of a span's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// As of which change of the sessions.
    pub(crate) changes: u32,
    /// The bits of the sessions.
    pub(crate) sessions: u32,
}

impl Told {
    fn to_word(self) -> u64 {
        u64::from(self.changes) << 32 | u64::from(self.sessions)
    }

    fn from_word(word: u64) -> Self {
        Self { changes: (word >> 32) as u32, sessions: word as u32 }
    }
}

/// What a span begins with, besides ids.
pub(crate) struct New {
    pub(crate) callsite: &'static Callsite,
    pub(crate) began: Began,
    pub(crate) told: Told,
}

#[cfg(test)]
mod tests {
    use super::{Busy, Ordering, Row, thread};

    #[test]
    fn busy_time_is_exact_beyond_a_word() {
        let (here, elsewhere) = (Row::new(), Row::new());
        here.thread.store(thread(), Ordering::Relaxed);
        [here, elsewhere].iter().for_each(is_exact_beyond_a_word);
    }

    fn is_exact_beyond_a_word(row: &Row) {
        let nanos = [1, Busy::HALF - 1, Busy::HALF, 5 * Busy::HALF, 7];
        nanos.iter().for_each(|nanos| row.left(*nanos));
        let sum = nanos.iter().sum();
        assert_eq!(row.busy(), Busy { nanos: sum, polls: 5 });
        (0..3_000_000).for_each(|_| row.left(2));
        assert_eq!(row.busy(), Busy { nanos: sum + 6_000_000, polls: 3_000_005 });
    }
}
