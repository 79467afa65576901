//! The events of a span: what the macros implement.

use nettrace_event::EventType;

use super::{Elapsed, Outcome, StartTime};
use crate::context::frames::Begun;

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

/// A span in force whose one event comes next.
#[doc(hidden)]
#[derive(Debug)]
pub struct Alone<'a>(pub(super) &'a Begun);

/// The events of one span. The macros implement this.
pub trait SpanEvents {
    /// Whether one event tells of the whole span. [`stop`](Self::stop) records it, and there is no
    /// Start.
    const IS_SINGLE: bool = false;

    /// The type of the Start. If this is known, the span's ids are in the chunk before the Start
    /// comes, so that the Start takes the usual way of an event.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    fn start_type() -> Option<&'static EventType> {
        None
    }

    /// The type of the Stop, if that tells of the time and the outcome, and of nothing else.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    fn plain_stop() -> Option<&'static EventType> {
        None
    }

    /// Records the Stop. The span is in force.
    fn stop(&mut self, end: &End);

    /// [`stop`](Self::stop), if one event tells of the whole span, and the span's ids are at hand.
    #[doc(hidden)]
    #[inline(always)]
    fn stop_alone(&mut self, end: &End, _: &Alone<'_>) {
        self.stop(end);
    }

    /// Drops what the events keep. For the code of `#[traced]`, whose events have nothing else to
    /// be dropped.
    #[doc(hidden)]
    #[inline(always)]
    fn release(&mut self) {}

    /// Records that a poll of the span's future begins. The span is in force.
    fn resume(&mut self) {}

    /// Records that a poll of the span's future ends. The span is in force.
    fn suspend(&mut self) {}
}
