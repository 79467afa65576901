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
use nettrace_event::EventType;

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
use self::{entered::Entry, scope::Scope};
use crate::{
    context::{
        Context,
        frames::{self, Above, Begun, Entered, Snapshot},
    },
    sync::thread,
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
    #[inline(always)]
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
    /// `None`: nobody listens, or the span has ended.
    open: Option<Begun>,
    /// When the Start was recorded. [`Started::NEVER`] before.
    started: Started,
    events: E,
}

impl<E: SpanEvents> Span<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self { open: None, started: Started::NEVER, events }
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

    /// Records the Start. If the span is sampled out, that counts it.
    #[inline(always)]
    fn start(&mut self, start: impl FnOnce()) {
        let is_recorded = self.is_recorded();
        start();
        if is_recorded {
            self.started = Started::of_span::<E>();
        }
    }

    /// Begins a span that is [`off`](Self::off) where it is in memory, and puts it in force in
    /// `scope`. If the parent is sampled out, nothing is put in force.
    #[inline(always)]
    fn begin_here(
        &mut self,
        scope: &mut Scope,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(),
    ) {
        if parent.is_sampled_out() {
            start();
            self.open = frames::begin_sampled_out();
        } else {
            *scope = self.make_ids(parent, sampling);
            self.start(start);
        }
    }

    /// Makes ids, and enters the span.
    #[inline]
    fn make_ids(&mut self, parent: Parent<'_>, sampling: Option<Sampling>) -> Scope {
        let above = match parent {
            Parent::Current => Above::Current,
            Parent::None => Above::Nothing(None),
            Parent::Of(context) => Above::Snapshot(context.snapshot()),
            Parent::FollowsFrom(context) => Above::Nothing(context.span_id()),
        };
        // A span that is to be decided may have no Start.
        let start = E::start_type().filter(|_| sampling.is_none());
        let word = start.map(EventType::enabled);
        let scope = Scope(frames::begin_span(above, &mut self.open, word));
        match &mut self.open {
            Some(open) if sampling.is_some() || open.is_undecided() => {
                let has_none = matches!(parent, Parent::None | Parent::FollowsFrom(_));
                scope.decide(open, sampling, has_none || open.ids.related.is_none())
            }
            _ => scope,
        }
    }

    /// Whether the span is recorded: somebody listened when it began, and it is not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.open.as_ref().is_some_and(Begun::is_recorded)
    }

    /// Puts the span in force on this thread until the returned guard is dropped. That also ends
    /// the span.
    pub fn enter(self) -> EnteredSpan<E> {
        let entry = self.open.as_ref().map(|open| Entry::new(Scope(frames::enter_span(open))));
        EnteredSpan::new(self, entry)
    }

    /// The context of the span, for others to be its children. Empty if nobody listens to the span.
    /// If the span is sampled out, so is its context.
    #[must_use]
    pub fn context(&self) -> Context {
        self.open.as_ref().map_or_else(Context::none, |open| {
            Context::of(Snapshot::of_span(open.ids, open.state.clone()))
        })
    }

    /// What another service needs to go on with the trace: the same as of the
    /// [context](Self::context), which need not be made. `None` if nobody listens to the span.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        let Begun { ids, state, .. } = self.open.as_ref()?;
        Some(ids.trace_context(state.clone()))
    }

    #[inline]
    fn scope(&self) -> Scope {
        Scope(self.open.as_ref().map_or(Entered::NOTHING, frames::enter_span))
    }

    #[inline(never)]
    fn end_at_drop(&mut self) {
        let _scope = self.scope();
        let outcome = if thread::panicking() { Outcome::Panicked } else { Outcome::Ok };
        self.end(outcome, 0, Elapsed::ZERO);
    }

    /// [`Scope::return_to`] for the scope of this span.
    #[inline]
    fn return_to(&self, scope: &mut Scope) {
        if let Some(open) = &self.open {
            scope.return_to(open);
        }
    }

    /// Records the Stop, unless it is recorded. The span is in force.
    #[inline]
    fn end(&mut self, outcome: Outcome, polls: u32, busy: Elapsed) {
        self.end_with(outcome, polls, busy, |events, end| events.stop(&end));
    }

    /// As [`end`](Self::end). `stop` records the Stop.
    #[inline(always)]
    fn end_with(
        &mut self,
        outcome: Outcome,
        polls: u32,
        busy: Elapsed,
        stop: impl FnOnce(&mut E, End),
    ) {
        if self.open.is_some() {
            let (started, duration) = (self.started.time(), self.started.elapsed());
            let end = End { started, duration, outcome, polls, busy };
            self.open = None;
            // If recording the Start has unwound, there is no Stop. Nor if it is sampled out.
            if self.started.is_known() {
                stop(&mut self.events, end);
            }
        }
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
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_recorded() {
            self.end_at_drop();
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
