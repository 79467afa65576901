//! Counts, for the process, of what is not recorded as it is.

use crate::sync::{AtomicU64, Ordering};

/// A count.
#[derive(Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[cold]
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: only the number counts.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) static TYPES: Count = Count::new();
pub(crate) static IDS_MOVED: Count = Count::new();
pub(crate) static TYPES_REFUSED: Count = Count::new();
pub(crate) static EVENTS_REFUSED: Count = Count::new();
pub(crate) static SPANS_REFUSED: Count = Count::new();
pub(crate) static TEXTS_CUT: Count = Count::new();
pub(crate) static FIELDS_LEFT_OUT: Count = Count::new();
pub(crate) static PANICKED: Count = Count::new();
pub(crate) static ON_SESSION_THREAD: Count = Count::new();

/// Counts of this process: what became of `tracing`'s spans and events before they reached a
/// session. What a session drops is in its own [`Stats`](nettrace_writer::Stats).
///
/// ```
/// let stats = tracing_nettrace::stats();
/// assert_eq!(stats.panicked, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Event types that were made so far. A callsite has one for each combination of types that its
    /// fields had, and a span some more.
    pub types: u64,
    /// Event types whose id was that of another type, so that they got the next one of their own.
    pub ids_moved: u64,
    /// How often an event type was not made: the process has too many of them, or one callsite has.
    pub types_refused: u64,
    /// Events that are not recorded because their type was not made, or because they tell of a
    /// span that was refused: its Start and its Stop, and what is recorded of it later. Sessions
    /// count the first kind as lost, among [events of refused
    /// types](nettrace_writer::Drops::refused).
    pub events_refused: u64,
    /// Spans that are not recorded, because the open ones take as much memory as they
    /// [may](crate::Options::span_memory). Sessions count the Start and the Stop of each as lost,
    /// among [events that are too large](nettrace_writer::Drops::too_large). Spans whose types were
    /// not made are counted here, too, and not by sessions.
    pub spans_refused: u64,
    /// Texts that were cut, because otherwise no session could take the event. Each ends with `…`.
    pub texts_cut: u64,
    /// Fields beyond the 32 that an event or span can have.
    pub fields_left_out: u64,
    /// Events and spans that are not recorded, because the `Debug` or `Display` implementation of a
    /// value panicked.
    pub panicked: u64,
    /// Events and spans that are not recorded, because they come from a session's own thread: a
    /// sink that logs would never let the session rest.
    pub on_session_thread: u64,
}

/// The counts so far.
#[must_use]
pub fn stats() -> Stats {
    Stats {
        types: TYPES.now(),
        ids_moved: IDS_MOVED.now(),
        types_refused: TYPES_REFUSED.now(),
        events_refused: EVENTS_REFUSED.now(),
        spans_refused: SPANS_REFUSED.now(),
        texts_cut: TEXTS_CUT.now(),
        fields_left_out: FIELDS_LEFT_OUT.now(),
        panicked: PANICKED.now(),
        on_session_thread: ON_SESSION_THREAD.now(),
    }
}
