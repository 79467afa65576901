//! The spans that are open, by the ids that `tracing` knows them by.
//!
//! A span is a few words, so it is a row of atomics, and the table is one of such rows. Each row
//! belongs to one span at a time. Whoever has a span's id got it from a thread that saw the span
//! begin, and the row is given back when the last handle is gone, so the words need no order of
//! their own. The row's id is stored last (release) and read first (acquire).
//!
//! A registry gives its spans ids, so their rows are found by a hash. It uses its own places again,
//! and counts in an id's highest bits how often. Among the first rows the hash leaves those bits
//! out, so that a place of the registry has the same row each time, which is in the cache. The
//! subscriber chooses ids itself, and puts the place of the row in them. A thread takes the row
//! that it gave back last, so that threads do not share rows.
//!
//! The table grows by levels, and nothing moves. Rows of spans that have ended are used again, so
//! a program that opens and closes spans for ever needs no more memory. Rejected:
//! `tracing-subscriber`'s extensions, which allocate for each span and lock for each access.
//! Rejected: `sharded-slab`, which gives keys of its own, where the ids of a registry are given.

use std::{cell::Cell, iter, sync::Arc};

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

/// The highest bits of a registry's id, which count how often its place was used. (A registry that
/// has more of them, or none, loses nothing but rows of the first level.)
const GENERATION_BITS: u32 = 13;

/// A row that nobody has.
const FREE: u64 = 0;
/// A row that somebody is filling.
const FILLING: u64 = u64::MAX;

/// Bit of [`Row::rare`]: the span has inherited a `tracestate`.
const STATE: u32 = 1;
/// Bit of [`Row::rare`]: `busy` is not all of the time that the span was entered.
const MORE_BUSY: u32 = 2;

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
    /// What few spans have: [`STATE`], [`MORE_BUSY`].
    rare: AtomicU32,
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
            rare: AtomicU32::new(0),
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
        if self.rare.load(Ordering::Relaxed) & STATE == 0 { None } else { self.state_there() }
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
        if self.thread.load(Ordering::Relaxed) == thread() {
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

    /// How long it was entered, and how often.
    #[inline]
    pub(crate) fn busy(&self) -> Busy {
        let here = Busy::from_word(self.busy.load(Ordering::Relaxed));
        if self.rare.load(Ordering::Relaxed) & MORE_BUSY == 0 { here } else { self.more(here) }
    }

    #[cold]
    #[inline(never)]
    fn more(&self, here: Busy) -> Busy {
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
        if self.rare.load(Ordering::Relaxed) & STATE != 0 {
            self.set_state(None);
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

/// What a thread has.
#[derive(Debug)]
struct Here {
    /// The thread's number, which no other one has. 0: it has none yet.
    thread: Cell<u64>,
    /// The row of the first level that this thread gave back last, or would like to begin with.
    near: Cell<usize>,
}

thread_local! {
    static HERE: Here = const { Here { thread: Cell::new(0), near: Cell::new(0) } };
}

/// The number of this thread.
#[inline]
fn thread() -> u64 {
    match HERE.with(|here| here.thread.get()) {
        0 => first_thread(),
        number => number,
    }
}

#[cold]
#[inline(never)]
fn first_thread() -> u64 {
    let number = bridge::unique_number();
    HERE.with(|here| {
        here.thread.set(number);
        here.near.set((hash(number) >> 32) as usize);
    });
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
    first: OnceLock<Box<[Row; FIRST]>>,
    /// The levels after the first.
    levels: [OnceLock<Box<[Row]>>; LEVELS - 1],
}

impl Spans {
    pub(crate) const fn new() -> Self {
        Self { first: OnceLock::new(), levels: [const { OnceLock::new() }; LEVELS - 1] }
    }

    /// The span with this id.
    #[inline(always)]
    pub(crate) fn find(&self, id: u64) -> Option<&Row> {
        let row = &self.first.get()?[near_place(id, 0)];
        // Pairs with the release in `fill`.
        if row.id.load(Ordering::Acquire) == id { Some(row) } else { self.search(id) }
    }

    /// [`find`](Self::find) for a span that is not in the first of its places.
    #[inline(never)]
    fn search(&self, id: u64) -> Option<&Row> {
        let first = self.first.get()?;
        // Pairs with the release in `fill`.
        let is_it = |row: &&Row| row.id.load(Ordering::Acquire) == id;
        let found = (1..PROBES).map(|probe| &first[near_place(id, probe)]).find(is_it);
        let others = self.levels.iter().map_while(OnceLock::get);
        let mut others = others.flat_map(|rows| places(id, rows).map(|place| &rows[place]));
        found.or_else(|| others.find(is_it))
    }

    /// The span whose id [`open_anywhere`](Self::open_anywhere) has chosen.
    #[inline(always)]
    pub(crate) fn at(&self, id: u64) -> Option<&Row> {
        let place = (id & PLACE) as usize;
        let row = if place < FIRST { &self.first.get()?[place] } else { self.beyond_first(place)? };
        // Pairs with the release in `fill`.
        (row.id.load(Ordering::Acquire) == id).then_some(row)
    }

    /// The row at a place beyond the first level.
    #[cold]
    #[inline(never)]
    fn beyond_first(&self, place: usize) -> Option<&Row> {
        let mut place = place - FIRST;
        for level in &self.levels {
            let rows = level.get()?;
            if let Some(row) = rows.get(place) {
                return Some(row);
            }
            place -= rows.len();
        }
        None
    }

    /// Keeps a span under an id that no open span has. Returns `None` if there is no room.
    #[inline(always)]
    pub(crate) fn open(&self, id: u64, new: New) -> Option<u64> {
        let row = match self.take_at(near_place(id, 0)) {
            Some(row) => row,
            None => self.take((0..PROBES).map(|probe| near_place(id, probe)), id)?.0,
        };
        row.fill(id, thread(), new);
        Some(id)
    }

    /// Keeps a span, and chooses its id: a number that no other span has, and the place of its row.
    /// The row is the one that the thread gave back last, or one after it, if that is free. Returns
    /// `None` if there is no room.
    #[inline(always)]
    pub(crate) fn open_anywhere(&self, new: New) -> Option<u64> {
        let thread = thread();
        let mut place = HERE.with(|here| here.near.get()) % FIRST;
        let row = match self.take_at(place) {
            Some(row) => row,
            None => {
                let near = (place..place + PROBES).map(|place| place % FIRST);
                let (row, taken) = self.take(near, bridge::unique_number())?;
                place = taken;
                row
            }
        };
        HERE.with(|here| here.near.set(place + 1));
        let id = new.ids.number() << PLACE_BITS | place as u64;
        row.fill(id, thread, new);
        Some(id)
    }

    /// Gives the row of a span back whose id [`open_anywhere`](Self::open_anywhere) has chosen.
    #[inline]
    pub(crate) fn close_at(&self, id: u64, row: &Row) {
        HERE.with(|here| here.near.set((id & PLACE) as usize));
        row.close();
    }

    /// Takes a row of the first level if it is free.
    #[inline(always)]
    fn take_at(&self, place: usize) -> Option<&Row> {
        let row = self.first.get()?.get(place)?;
        row.take().then_some(row)
    }

    /// Takes a free row: in the first level at one of these places, in another one where the id may
    /// be. Returns its place, too.
    #[cold]
    #[inline(never)]
    fn take(&self, near: impl Iterator<Item = usize>, id: u64) -> Option<(&Row, usize)> {
        let first = self.first.get_or_init(|| {
            let rows: Box<[Row]> = new_rows(FIRST);
            rows.try_into().unwrap_or_else(|_| unreachable!("they are so many"))
        });
        let mut near = near.map(|place| (&first[place % FIRST], place % FIRST));
        if let Some(taken) = near.find(|(row, _)| row.take()) {
            return Some(taken);
        }
        let mut before = FIRST;
        for (number, level) in (1..).zip(&self.levels) {
            let rows = level.get_or_init(|| new_rows(FIRST << (2 * number)));
            let mut places = places(id, rows).map(|place| (&rows[place], before + place));
            if let Some(taken) = places.find(|(row, _)| row.take()) {
                return Some(taken);
            }
            before += rows.len();
        }
        None
    }
}

fn new_rows(count: usize) -> Box<[Row]> {
    iter::repeat_with(Row::new).take(count).collect()
}

/// A place that an id has in the first level.
#[inline(always)]
fn near_place(id: u64, probe: usize) -> usize {
    place(hash(id << GENERATION_BITS), probe, FIRST)
}

/// The places that an id has in another level.
fn places(id: u64, rows: &[Row]) -> impl Iterator<Item = usize> + use<> {
    let (hash, len) = (hash(id), rows.len());
    (0..PROBES).map(move |probe| place(hash, probe, len))
}

impl Row {
    /// Takes the row if it is free.
    #[inline(always)]
    fn take(&self) -> bool {
        let take = || self.id.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed);
        // Acquire pairs with the release in `close`. Relaxed: the exchange decides.
        self.id.load(Ordering::Relaxed) == FREE && take().is_ok()
    }

    #[inline(always)]
    fn fill(&self, id: u64, thread: u64, new: New) {
        let row = self;
        row.callsite.store(new.callsite.address(), Ordering::Relaxed);
        for (word, value) in row.ids.iter().zip(new.ids.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        row.began.store(new.began.to_word(), Ordering::Relaxed);
        row.told.store(new.told.to_word(), Ordering::Relaxed);
        row.thread.store(thread, Ordering::Relaxed);
        row.busy.store(0, Ordering::Relaxed);
        row.busy_elsewhere.store(0, Ordering::Relaxed);
        row.more_busy.iter().for_each(|more| more.store(0, Ordering::Relaxed));
        row.clones.store(0, Ordering::Relaxed);
        row.rare.store(if new.state.is_some() { STATE } else { 0 }, Ordering::Relaxed);
        if new.state.is_some() {
            row.set_state(new.state);
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
