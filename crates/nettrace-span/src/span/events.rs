//! The events of a span: what the macros implement.

use nettrace_event::EventType;

use super::{Elapsed, Outcome, StartTime};

/// What a span's Stop tells of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct End {
    /// When it began.
    pub started: StartTime,
    /// The time from start to end.
    pub duration: Elapsed,
    /// How it ended.
    pub outcome: Outcome,
    /// How often its future was polled. 0 if it was no future.
    pub polls: u32,
    /// The time in its future's polls. 0 if it was no future.
    pub busy: Elapsed,
}

/// The events of one span. The macros implement this.
pub trait SpanEvents {
    /// Whether one event tells of the whole span. [`stop`](Self::stop) records it, and there is no
    /// Start.
    #[inline]
    #[must_use]
    fn is_single() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The type of the Start, or of the only event. If this is known, a span that is sampled out is
    /// counted without its Start.
    #[inline]
    #[must_use]
    fn first_type() -> Option<&'static EventType>
    where
        Self: Sized,
    {
        None
    }

    /// The type of a Stop that tells of nothing but the time and the outcome: then
    /// [`stop`](Self::stop) need not be called.
    #[inline]
    #[must_use]
    fn plain_stop() -> Option<&'static EventType>
    where
        Self: Sized,
    {
        None
    }

    /// The same of a Stop that tells of polls, too.
    #[inline]
    #[must_use]
    fn plain_polled() -> Option<&'static EventType>
    where
        Self: Sized,
    {
        None
    }

    /// Whether [`resume`](Self::resume) and [`suspend`](Self::suspend) do anything.
    #[inline]
    #[must_use]
    fn tells_polls() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Records the Stop. The span is in force.
    fn stop(&mut self, end: &End);

    /// Records that a poll of the span's future begins. The span is in force.
    fn resume(&mut self) {}

    /// Records that a poll of the span's future ends. The span is in force.
    fn suspend(&mut self) {}
}
