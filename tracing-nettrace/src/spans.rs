//! The spans that are open, by the ids that `tracing` knows them by.
//!
//! A span is a few words, so it is a row of atomics, and the table is one of such rows. Each row
//! belongs to one span at a time. Whoever has a span's id got it from a thread that saw the span
//! begin, and the row is given back when the last handle is gone, so the words need no order of
//! their own. The row's id is stored last (release) and read first (acquire).
//!
//! The table grows by levels, and nothing moves. Rows of spans that have ended are used again, so
//! a program that opens and closes spans for ever needs no more memory. Rejected:
//! `tracing-subscriber`'s extensions, which allocate for each span and lock for each access.
//! Rejected: `sharded-slab`, which gives keys of its own, where the ids of a registry are given.

use std::sync::Arc;

use nettrace_context::TraceState;
use nettrace_writer::bridge::{Began, SpanIds};

use crate::{
    callsite::{Callsite, Naming},
    sync::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, PoisonError},
    table::{FIRST, PROBES, hash, place},
};

/// Levels of the table: 256 rows, then 1,024, and so on, 22 million in all.
const LEVELS: usize = 9;

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
    began: [AtomicU64; 2],
    /// The sessions that were told of its start (lower half), as of which change (upper half).
    told: AtomicU64,
    /// Nanoseconds that it was entered.
    busy: AtomicU64,
    /// How often it was entered.
    polls: AtomicU32,
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
            began: [const { AtomicU64::new(0) }; 2],
            told: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            polls: AtomicU32::new(0),
            clones: AtomicU32::new(0),
            has_state: AtomicU32::new(0),
            state: Mutex::new(None),
        }
    }

    /// The ids of the span.
    #[inline]
    pub(crate) fn ids(&self) -> Option<SpanIds> {
        let mut words = [0; 6];
        for (word, atomic) in words.iter_mut().zip(&self.ids) {
            *word = atomic.load(Ordering::Relaxed);
        }
        SpanIds::from_words(words)
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
        Began::from_words([0, 1].map(|word: usize| self.began[word].load(Ordering::Relaxed)))
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

    #[inline]
    pub(crate) fn entered(&self) {
        // Relaxed, as below: only the sum counts.
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn left(&self, nanos: u64) {
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Nanoseconds that it was entered, and how often.
    pub(crate) fn busy(&self) -> (u64, u32) {
        (self.busy.load(Ordering::Relaxed), self.polls.load(Ordering::Relaxed))
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
        // Pairs with the acquire in `open`: the next span's words come after this one's.
        self.id.store(FREE, Ordering::Release);
    }
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
                // Pairs with the release in `open`.
                if row.id.load(Ordering::Acquire) == id {
                    return Some(row);
                }
            }
        }
        None
    }

    /// Keeps a span under an id that no open span has. Returns `None` if there is no room.
    #[inline]
    pub(crate) fn open(&self, id: u64, new: New) -> Option<&Row> {
        let row = self.take(hash(id))?;
        row.callsite.store(new.callsite.address(), Ordering::Relaxed);
        for (word, value) in row.ids.iter().zip(new.ids.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        for (word, value) in row.began.iter().zip(new.began.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        row.told.store(new.told.to_word(), Ordering::Relaxed);
        row.busy.store(0, Ordering::Relaxed);
        row.polls.store(0, Ordering::Relaxed);
        row.clones.store(0, Ordering::Relaxed);
        row.has_state.store(new.state.is_some().into(), Ordering::Relaxed);
        if new.state.is_some() {
            *row.state.lock().unwrap_or_else(PoisonError::into_inner) = new.state;
        }
        row.id.store(id, Ordering::Release);
        Some(row)
    }

    /// Takes a free row among those that a hash has.
    #[inline]
    fn take(&self, hash: u64) -> Option<&Row> {
        for (number, level) in self.levels.iter().enumerate() {
            let rows = level.get_or_init(|| {
                std::iter::repeat_with(Row::new).take(FIRST << (2 * number)).collect()
            });
            for probe in 0..PROBES {
                let row = &rows[place(hash, probe, rows.len())];
                // Relaxed: the exchange decides.
                if row.id.load(Ordering::Relaxed) == FREE && row.take() {
                    return Some(row);
                }
            }
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
}
