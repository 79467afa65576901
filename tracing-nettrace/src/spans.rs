//! The spans that are open, by the ids that `tracing` knows them by.
//!
//! A span is a few words, so it is a row of atomics, and the table is one of such rows. Each row
//! belongs to one span at a time. Whoever has a span's id got it from a thread that saw the span
//! begin, and the row is given back when the last handle is gone, so the words need no order of
//! their own. The row's id is stored last (release) and read first (acquire).
//!
//! A registry gives its spans ids, so their rows are found by a hash. The subscriber chooses ids
//! itself, and puts the place of the row in them. A thread takes the row that it gave back last, so
//! that threads do not share rows.
//!
//! The table grows by levels, and nothing moves. Rows of spans that have ended are used again, so
//! a program that opens and closes spans for ever needs no more memory. Rejected:
//! `tracing-subscriber`'s extensions, which allocate for each span and lock for each access.
//! Rejected: `sharded-slab`, which gives keys of its own, where the ids of a registry are given.

use std::{cell::Cell, sync::Arc};

use nettrace_context::TraceState;
use nettrace_writer::{
    bridge,
    bridge::{Began, SpanIds},
};

use crate::{
    callsite::{Callsite, Naming},
    sync::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, PoisonError},
    table::{PROBES, hash, place},
};

/// Rows in the first level: a power of two.
const FIRST: usize = 256;
/// Levels of the table: 256 rows, then 1,024, and so on, 22 million in all.
const LEVELS: usize = 9;

/// The bits of an id that are the place of the row, if the id was chosen here.
const PLACE_BITS: u32 = 25;
const PLACE: u64 = (1 << PLACE_BITS) - 1;

/// A row that nobody has.
const FREE: u64 = 0;
/// A row that somebody is filling.
const FILLING: u64 = u64::MAX;

/// A span that is open.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Row {
    id: AtomicU64,
    /// The address of its metadata.
    callsite: AtomicU64,
    ids: [AtomicU64; 6],
    began: AtomicU64,
    /// The sessions that were told of its start (lower half), as of which change (upper half).
    told: AtomicU64,
    /// The number of the thread on which it began.
    thread: AtomicU64,
    /// How long it was entered on that thread, and how often: see [`Busy`].
    busy: AtomicU64,
    /// The same on other threads.
    busy_elsewhere: AtomicU64,
    /// What did not fit into `busy`: nanoseconds, and how often.
    more_busy: [AtomicU64; 2],
    /// Handles beyond the first.
    clones: AtomicU32,
    has_state: AtomicU32,
    state: Mutex<Option<Arc<TraceState>>>,
}

impl Row {
    fn new() -> Self {
        Self {
            id: AtomicU64::new(FREE),
            callsite: AtomicU64::new(0),
            ids: [const { AtomicU64::new(0) }; 6],
            began: AtomicU64::new(0),
            told: AtomicU64::new(0),
            thread: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            busy_elsewhere: AtomicU64::new(0),
            more_busy: [const { AtomicU64::new(0) }; 2],
            clones: AtomicU32::new(0),
            has_state: AtomicU32::new(0),
            state: Mutex::new(None),
        }
    }

    /// The ids of the span.
    #[inline(always)]
    pub(crate) fn ids(&self) -> Option<SpanIds> {
        let [a, b, c, d, e, f] = &self.ids;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        SpanIds::from_words([load(a), load(b), load(c), load(d), load(e), load(f)])
    }

    /// The `tracestate` that it has inherited. Takes a lock if there is one.
    #[inline]
    pub(crate) fn state(&self) -> Option<Arc<TraceState>> {
        if self.has_state.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let (busy, before) = if self.thread.load(Ordering::Relaxed) == thread() {
            let before = self.busy.load(Ordering::Relaxed);
            self.busy.store(before + word, Ordering::Relaxed);
            (&self.busy, before)
        } else {
            let busy = &self.busy_elsewhere;
            (busy, busy.fetch_add(word, Ordering::Relaxed))
        };
        if before & Busy::NEARLY_FULL != 0 {
            self.spill(Busy::from_word(busy.swap(0, Ordering::Relaxed)));
        }
    }

    #[cold]
    fn spill(&self, busy: Busy) {
        self.more_busy[0].fetch_add(busy.nanos, Ordering::Relaxed);
        self.more_busy[1].fetch_add(busy.polls, Ordering::Relaxed);
    }

    /// How long it was entered, and how often.
    #[inline]
    pub(crate) fn busy(&self) -> Busy {
        let here = Busy::from_word(self.busy.load(Ordering::Relaxed));
        let elsewhere = Busy::from_word(self.busy_elsewhere.load(Ordering::Relaxed));
        let [nanos, polls] = &self.more_busy;
        Busy {
            nanos: here.nanos + elsewhere.nanos + nanos.load(Ordering::Relaxed),
            polls: here.polls + elsewhere.polls + polls.load(Ordering::Relaxed),
        }
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
        // If others dropped theirs since then, this one goes below zero, and was the last.
        self.clones.fetch_sub(1, Ordering::AcqRel) == 0
    }

    /// Gives the row back.
    #[inline]
    pub(crate) fn close(&self) {
        if self.has_state.load(Ordering::Relaxed) != 0 {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        // Pairs with the acquire in `take`: the next span's words come after this one's.
        self.id.store(FREE, Ordering::Release);
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

thread_local! {
    /// The row of the first level that this thread gave back last, or would like to begin with.
    static NEAR: Cell<usize> = Cell::new(hash(bridge::unique_number()) as usize % FIRST);
    /// The thread's number, which no other one has. 0: it has none yet.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The number of this thread.
#[inline]
fn thread() -> u64 {
    match THREAD.get() {
        0 => first_thread(),
        number => number,
    }
}

#[cold]
fn first_thread() -> u64 {
    let number = bridge::unique_number();
    THREAD.set(number);
    number
}

/// What a span begins with.
pub(crate) struct New {
    pub(crate) callsite: &'static Callsite,
    pub(crate) ids: SpanIds,
    pub(crate) state: Option<Arc<TraceState>>,
    pub(crate) began: Began,
    pub(crate) told: Told,
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

/// The open spans of one subscriber.
#[derive(Debug)]
pub(crate) struct Spans {
    levels: [OnceLock<Box<[Row]>>; LEVELS],
}

impl Spans {
    pub(crate) const fn new() -> Self {
        Self { levels: [const { OnceLock::new() }; LEVELS] }
    }

    /// The span with this id.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<&Row> {
        let hash = hash(id);
        for level in &self.levels {
            let rows = level.get()?;
            for probe in 0..PROBES {
                let row = rows.get(place(hash, probe, rows.len()))?;
                // Pairs with the release in `fill`.
                if row.id.load(Ordering::Acquire) == id {
                    return Some(row);
                }
            }
        }
        None
    }

    /// The span whose id [`open_anywhere`](Self::open_anywhere) has chosen.
    #[inline]
    pub(crate) fn at(&self, id: u64) -> Option<&Row> {
        let mut place = (id & PLACE) as usize;
        for level in &self.levels {
            let rows = level.get()?;
            if let Some(row) = rows.get(place) {
                // Pairs with the release in `fill`.
                return (row.id.load(Ordering::Acquire) == id).then_some(row);
            }
            place -= rows.len();
        }
        None
    }

    /// Keeps a span under an id that no open span has. Returns `None` if there is no room.
    #[inline(always)]
    pub(crate) fn open(&self, id: u64, new: New) -> Option<u64> {
        let (row, _) = self.take(hash(id))?;
        row.fill(id, new);
        Some(id)
    }

    /// Keeps a span, and chooses its id: a number that no other span has, and the place of its row.
    /// The row is the one that the thread gave back last, or one after it, if that is free. Returns
    /// `None` if there is no room.
    #[inline(always)]
    pub(crate) fn open_anywhere(&self, new: New) -> Option<u64> {
        let near = NEAR.try_with(Cell::get).unwrap_or(0);
        let (row, place) = match self.take_near(near) {
            Some(taken) => taken,
            None => self.take(hash(bridge::unique_number()))?,
        };
        let _ = NEAR.try_with(|near| near.set(place + 1));
        let id = bridge::unique_number() << PLACE_BITS | place as u64;
        row.fill(id, new);
        Some(id)
    }

    /// Gives the row of a span back whose id [`open_anywhere`](Self::open_anywhere) has chosen.
    #[inline]
    pub(crate) fn close_at(&self, id: u64, row: &Row) {
        let _ = NEAR.try_with(|near| near.set((id & PLACE) as usize));
        row.close();
    }

    /// Takes a free row of the first level, near to a place.
    #[inline(always)]
    fn take_near(&self, near: usize) -> Option<(&Row, usize)> {
        let rows = self.levels[0].get()?;
        let mut places = (near..near + PROBES).map(|place| place % FIRST);
        places.find_map(|place| {
            let row = rows.get(place)?;
            (row.id.load(Ordering::Relaxed) == FREE && row.take()).then_some((row, place))
        })
    }

    /// Takes a free row among those that a hash has. Returns its place, too.
    #[inline]
    fn take(&self, hash: u64) -> Option<(&Row, usize)> {
        let mut before = 0;
        for (number, level) in self.levels.iter().enumerate() {
            let rows = level.get_or_init(|| {
                std::iter::repeat_with(Row::new).take(FIRST << (2 * number)).collect()
            });
            for probe in 0..PROBES {
                let place = place(hash, probe, rows.len());
                let row = rows.get(place)?;
                // Relaxed: the exchange decides.
                if row.id.load(Ordering::Relaxed) == FREE && row.take() {
                    return Some((row, before + place));
                }
            }
            before += rows.len();
        }
        None
    }
}

impl Row {
    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `close`.
        let taken = self.id.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[inline(always)]
    fn fill(&self, id: u64, new: New) {
        let row = self;
        row.callsite.store(new.callsite.address(), Ordering::Relaxed);
        for (word, value) in row.ids.iter().zip(new.ids.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        row.began.store(new.began.to_word(), Ordering::Relaxed);
        row.told.store(new.told.to_word(), Ordering::Relaxed);
        row.thread.store(thread(), Ordering::Relaxed);
        row.busy.store(0, Ordering::Relaxed);
        row.busy_elsewhere.store(0, Ordering::Relaxed);
        row.more_busy.iter().for_each(|more| more.store(0, Ordering::Relaxed));
        row.clones.store(0, Ordering::Relaxed);
        row.has_state.store(new.state.is_some().into(), Ordering::Relaxed);
        if new.state.is_some() {
            *row.state.lock().unwrap_or_else(PoisonError::into_inner) = new.state;
        }
        row.id.store(id, Ordering::Release);
    }
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
