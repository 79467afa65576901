//! Spans: what happened inside of what.
//!
//! A span has the id of its trace, an id of its own, a parent, a start and an end. Two events tell
//! of it: Start and Stop. While the span is entered on a thread, every event of that thread carries
//! its ids ([`context`](crate::context)). Its Start and its Stop carry them too, so that nothing
//! else connects the two.
//!
//! A span begins only if somebody listens to its Start. Otherwise there are no ids, and nothing is
//! in force.
//!
//! The activity id of a span is made from its span id, and the related activity id from its
//! parent's ([`ActivityId`](nettrace_event::trace_context::ActivityId)). So formats and tools that
//! know activities alone still tell the tree. Rejected: nested paths, as .NET's EventSource makes
//! them. A span's number among its siblings needs a counter that all threads with children of the
//! span share, and the path of a deep span does not fit. The reference reader takes an activity's
//! parent from the related activity id of its start, if that activity is running, and never from
//! the path. (If it is not, the reader takes whatever the thread began last: see
//! [`Parent::FollowsFrom`].) *Would change our mind:* a reader that takes the parent from the path.
//!
//! # From `#[traced]` to its Stop
//!
//! `#[traced]`, [`TraceSpan`] and `nettrace-tower` stand on one [`engine`], which knows no type of
//! events. The code of a traced function asks `__traced::is_wanted`, and then it goes through
//! these:
//!
//! 1. `__traced::begin_usual` ([`call`]) puts a span that is off where it stays, and calls the
//!    backend's function for the begin of [usual spans](engine::UsualSpans).
//! 2. `begin_usual_with`, in that function, makes the ids, puts them in force, and has the Start
//!    recorded with them.
//! 3. The span's `drop`, or `__traced::end` if the result is known, calls the backend's function
//!    for the end.
//! 4. `end_usual_with`, in that function, says what the Stop tells, has it recorded, and leaves the
//!    scope.
//!
//! Whatever is not usual takes more of them: a span that is sampled, has another parent, or one
//! event; values that must be made; a thread's first event.
//!
//! 1. `__traced::begin`, or `begin_event` if the Start exists already, passes on how it begins.
//! 2. `Span::begin_here` records the Start in between.
//! 3. `engine::begin` counts a span that is sampled out, and begins any other.
//! 4. `frames::begin_plain` makes the ids and puts them in force; `frames::begin_span`, if the
//!    parent is another one or something rare is in force.
//! 5. `engine::has_started` takes the time of the Start.
//! 6. The span's `drop`, or `__traced::end`, ends it:
//! 7. `engine::end` says what the Stop tells, and leaves the scope. In between it calls the method
//!    `stop` that the macro has written.
//! 8. `__traced::stop` records a Stop that tells of nothing but the time, the outcome and polls.
//!
//! An async function begins its span where it stays (`__traced::begin_event_polled`), and
//! [`WithinSpan`](future::WithinSpan) borrows it; `engine::poll` polls. If the span is not usual,
//! it has `__traced::begin_polled` and [`InSpan`]. The Start and the Stop are events like others:
//! the ids come into the chunk with the first event after a change of what is in force.

pub(crate) mod call;
mod derived;
mod elapsed;
mod engine;
mod entered;
mod events;
pub(crate) mod future;
mod future_ext;
pub(crate) mod kept;
mod polled;

use std::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
};

use nettrace_event::{TraceEvent, trace_context::TraceContext};

pub use nettrace_event::Outcome;

use self::engine::{How, usual_spans};
pub use self::{
    call::PlainStop,
    derived::TraceSpan,
    elapsed::{Elapsed, StartTime, Started, set_frequency, set_time_of_day},
    engine::{Before, Open, Until, UsualSpans, begin_usual_with, end_usual_with},
    entered::EnteredSpan,
    events::{End, SpanEvents},
    future::InSpan,
    future_ext::FutureExt,
    polled::{PolledSpan, SpanPoll},
};
use crate::context::Context;
pub use crate::context::Sampling;

/// Where a span begins.
#[derive(Clone, Copy, Debug, Default)]
pub enum Parent<'a> {
    /// In the span that is in force. If none is, the span begins a trace.
    #[default]
    Current,
    /// Nowhere: the span begins a trace.
    None,
    /// In the span of a context. If it has none, the span begins a trace.
    Of(&'a Context),
    /// In a span of another process, as a request names it. [`Sampling::caller`] follows its flag
    /// "sampled".
    Caller(&'a TraceContext),
    /// Nowhere, but it follows from the span of a context, which its label `RelatedActivityId`
    /// names. The trace is another one, so that readers can tell this from a parent.
    ///
    /// PerfView shows such a span within the one that it follows from, if that runs. It gives a
    /// span that names no running activity to whatever span its thread has begun before.
    FollowsFrom(&'a Context),
}

/// A span that has begun and is not entered. It ends when it is dropped.
///
/// [`enter`](Self::enter) puts it in force on a thread, and [`in_span`](crate::FutureExt::in_span)
/// gives it to a future. Dereferences to the span's events, where fields are that become known
/// later.
#[must_use = "the span ends when this is dropped"]
pub struct Span<E: SpanEvents> {
    /// [`engine::end`] ends it, so that no other code has to drop what it has.
    open: ManuallyDrop<Open>,
    events: E,
}

impl<E: SpanEvents> Span<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline]
    pub fn off(events: E) -> Self {
        Self { open: ManuallyDrop::new(Open::off()), events }
    }

    /// Begins a span. If it is a root, `sampling` decides whether it is recorded; `None` decides
    /// nothing. `start` records the Start.
    #[doc(hidden)]
    #[inline]
    pub fn begin_sampled(
        events: E,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(&mut E),
    ) -> Self {
        let mut span = Self::off(events);
        span.begin_here(parent, sampling, Until::Start, start);
        span
    }

    /// As [`begin_sampled`](Self::begin_sampled), for a Start that is an event that exists already.
    #[doc(hidden)]
    #[inline]
    pub fn begin_event(
        events: E,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: &impl TraceEvent,
    ) -> Self {
        let mut span = Self::off(events);
        span.begin_event_here(parent, sampling, Until::Start, start);
        span
    }

    /// Begins a span that is [`off`](Self::off) where it is in memory.
    #[inline]
    fn begin_here(
        &mut self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        until: Until,
        start: impl FnOnce(&mut E),
    ) {
        let (first, is_single) = (E::first_type(), E::is_single());
        let how = How { parent, sampling, first, is_single, until };
        if engine::begin(&mut self.open, &how) {
            start(&mut self.events);
            engine::has_started(&mut self.open, &how);
        }
    }

    /// [`begin_here`](Self::begin_here) for a span whose Start is an event that exists already.
    #[inline]
    fn begin_event_here(
        &mut self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        until: Until,
        start: &impl TraceEvent,
    ) {
        let ty = start.event_type();
        if let (Parent::Current, None) = (&parent, &sampling) {
            return (usual_spans().begin)(&mut self.open, start, ty, until);
        }
        let how = How { parent, sampling, first: Some(ty), is_single: false, until };
        engine::begin_event(&mut self.open, &how, start, ty);
    }

    /// Whether the span is recorded: somebody listened when it began, and it is not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.open.is_recorded()
    }

    /// Puts the span in force on this thread until the returned guard is dropped. That also ends
    /// the span.
    pub fn enter(self) -> EnteredSpan<E> {
        EnteredSpan::new(self)
    }

    /// The context of the span, for others to be its children. Empty if nobody listens to the span.
    /// If the span is sampled out, so is its context.
    #[must_use]
    pub fn context(&self) -> Context {
        engine::context(&self.open)
    }

    /// What another service needs to go on with the trace: the same as of the
    /// [context](Self::context), which need not be made. `None` if nobody listens to the span.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        engine::trace_context(&self.open)
    }
}

impl<E: SpanEvents> Drop for Span<E> {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_open() {
            match E::plain_stop() {
                Some(ty) => {
                    (usual_spans().end)(&mut self.open, None, ty, 0, Elapsed::ZERO);
                }
                None => engine::end(&mut self.open, None, None, &mut self.events),
            }
        }
    }
}

impl<E: SpanEvents> Deref for Span<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.events
    }
}

impl<E: SpanEvents> DerefMut for Span<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.events
    }
}

impl<E: SpanEvents> fmt::Debug for Span<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("open", &self.open).finish_non_exhaustive()
    }
}
