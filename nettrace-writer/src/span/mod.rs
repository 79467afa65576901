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
//! parent's ([`nettrace_context::ActivityId`]). So formats and tools that know activities alone
//! still tell the tree. Rejected: nested paths, as .NET's EventSource makes them. A span's number
//! among its siblings needs a counter that all threads with children of the span share, and the
//! path of a deep span does not fit. The reference reader takes an activity's parent from the
//! related activity id of its start, if that activity is running, and never from the path. (If it
//! is not, the reader takes whatever the thread began last: see [`Parent::FollowsFrom`].) *Would
//! change our mind:* a reader that takes the parent from the path.

pub(crate) mod call;
mod derived;
mod elapsed;
mod entered;
mod events;
mod future;
pub(crate) mod kept;
mod open;
mod outcome;
mod polled;
mod sampling;
mod scope;
pub(crate) mod single;

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use nettrace_context::TraceContext;

pub(crate) use self::elapsed::{Started, set_frequency, set_time_of_day};
pub use self::{
    derived::TraceSpan,
    elapsed::{Elapsed, StartTime},
    entered::EnteredSpan,
    events::{Alone, End, SpanEvents},
    future::InSpan,
    outcome::Outcome,
    polled::PolledSpan,
    sampling::Sampling,
};
use self::{entered::Entry, open::Open, scope::Scope};
use crate::context::{
    Context,
    frames::{self, Begun, Entered, Snapshot},
};

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
    /// Nowhere, but it follows from the span of a context, which its label `RelatedActivityId`
    /// names. The trace is another one, so that readers can tell this from a parent.
    ///
    /// PerfView shows such a span within the one that it follows from, if that runs. It gives a
    /// span that names no running activity to whatever span its thread has begun before.
    FollowsFrom(&'a Context),
}

impl Parent<'_> {
    /// Whether the span in force is the parent, and is sampled out. To record the Start then counts
    /// the span.
    #[inline]
    fn is_sampled_out(self) -> bool {
        matches!(self, Self::Current) && frames::is_sampled_out()
    }
}

/// A span that has begun and is not entered. It ends when it is dropped.
///
/// [`enter`](Self::enter) puts it in force on a thread, and [`in_span`](crate::FutureExt::in_span)
/// gives it to a future. Dereferences to the span's events, where fields are that become known
/// later.
#[must_use = "the span ends when this is dropped"]
pub struct Span<E: SpanEvents> {
    open: Open,
    events: E,
}

impl<E: SpanEvents> Span<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self { open: Open::OFF, events }
    }

    /// Begins a span. `start` records the Start.
    #[doc(hidden)]
    #[inline]
    pub fn begin(events: E, parent: Parent<'_>, start: impl FnOnce()) -> Self {
        Self::begin_sampled(events, parent, None, start)
    }

    /// [`begin`](Self::begin) for a span that decides if it is a root. `None` decides nothing.
    #[doc(hidden)]
    #[inline]
    pub fn begin_sampled(
        events: E,
        parent: Parent<'_>,
        sampling: impl Into<Option<Sampling>>,
        start: impl FnOnce(),
    ) -> Self {
        SpanHere::begin_sampled(events, parent, sampling, start).span
    }

    /// Begins a span that is [`off`](Self::off) where it is in memory, and puts it in force in
    /// `scope`. If the parent is sampled out, nothing is put in force.
    #[inline]
    fn begin_here(
        &mut self,
        scope: &mut Scope,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(),
    ) {
        self.open.begin(scope, parent, sampling, E::start_type());
        start();
        self.open.has_started(E::IS_SINGLE);
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
        let entry = self.open.begun.as_ref().map(|_| Entry::new(self.open.scope()));
        EnteredSpan::new(self, entry)
    }

    /// The context of the span, for others to be its children. Empty if nobody listens to the span.
    /// If the span is sampled out, so is its context.
    #[must_use]
    pub fn context(&self) -> Context {
        self.open.begun.as_ref().map_or_else(Context::none, |begun| {
            Context::of(Snapshot::of_span(begun.ids, begun.state.clone()))
        })
    }

    /// What another service needs to go on with the trace: the same as of the
    /// [context](Self::context), which need not be made. `None` if nobody listens to the span.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        let Begun { ids, state, .. } = self.open.begun.as_ref()?;
        Some(ids.trace_context(state.clone()))
    }
}

/// A span that has begun, and that is in force where it began: for the code of `#[traced]`, which
/// polls a future next.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpanHere<E: SpanEvents> {
    // In this order: the scope ends after the span if it unwinds.
    span: Span<E>,
    scope: Scope,
}

impl<E: SpanEvents> SpanHere<E> {
    /// A span that nobody listens to.
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self { span: Span::off(events), scope: Scope(Entered::NOTHING) }
    }

    /// As [`Span::begin`].
    #[inline]
    pub fn begin(events: E, parent: Parent<'_>, start: impl FnOnce()) -> Self {
        Self::begin_sampled(events, parent, None, start)
    }

    /// As [`Span::begin_sampled`].
    #[inline]
    pub fn begin_sampled(
        events: E,
        parent: Parent<'_>,
        sampling: impl Into<Option<Sampling>>,
        start: impl FnOnce(),
    ) -> Self {
        let mut here = Self::off(events);
        here.span.begin_here(&mut here.scope, parent, sampling.into(), start);
        here
    }
}

impl<E: SpanEvents> Drop for Span<E> {
    #[inline]
    fn drop(&mut self) {
        if self.is_recorded() {
            let (_scope, end) = self.open.end_at_drop();
            if let Some(end) = end {
                self.events.stop(&end);
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
        f.debug_struct("Span").field("open", &self.open.begun).finish_non_exhaustive()
    }
}
