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
mod future;
pub(crate) mod kept;
mod polled;
mod sampling;

use std::{
    fmt,
    marker::PhantomData,
    mem,
    ops::{Deref, DerefMut},
};

use nettrace_context::TraceContext;
use nettrace_event::{EventType, FieldType, PayloadEncoder, TraceField};

use self::elapsed::Busy;
pub(crate) use self::elapsed::{Started, set_frequency, set_time_of_day};
pub use self::{
    derived::TraceSpan,
    elapsed::{Elapsed, StartTime},
    future::InSpan,
    polled::PolledSpan,
    sampling::Sampling,
};
use crate::{
    context::{
        Context, NotAcrossAwait,
        frames::{self, Above, Begun, Entered, Snapshot},
    },
    sync::thread,
};

/// How a span ended. Recorded as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// `ok`: it returned, and not an error.
    Ok,
    /// `err`: it returned an error.
    Err,
    /// `cancelled`: its future was dropped before it was ready.
    Cancelled,
    /// `panicked`: it unwound.
    Panicked,
}

impl Outcome {
    /// The text that is recorded.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Err => "err",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
        }
    }

    /// The outcome of a call that returned `result`.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Ok } else { Self::Err }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TraceField for Outcome {
    const TYPE: FieldType = <str as TraceField>::TYPE;

    #[inline(always)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        // The compiler knows each text, and makes a few stores of it. The usual one comes first.
        if let Self::Ok = self {
            return <str as TraceField>::encode_field("ok", encoder);
        }
        unusual();
        match self {
            Self::Cancelled => <str as TraceField>::encode_field("cancelled", encoder),
            Self::Panicked => <str as TraceField>::encode_field("panicked", encoder),
            _ => <str as TraceField>::encode_field("err", encoder),
        }
    }
}

/// Keeps the compiler from making one table of a usual case and of those that come after this.
#[cold]
#[inline(never)]
fn unusual() {}

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
pub struct Alone<'a>(&'a Begun);

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

/// Ends what was entered, also if the span's events unwind.
#[derive(Debug)]
struct Scope(Entered);

impl Scope {
    /// [`Begun::decide`] for the span whose scope this is. Takes the scope along, which need not be
    /// in memory otherwise.
    #[cold]
    #[inline(never)]
    fn decide(self, open: &mut Begun, sampling: Option<Sampling>, is_first: bool) -> Self {
        open.decide(&self.0, sampling, is_first);
        self
    }

    /// Puts the span whose scope this is in force again, if its scope has ended or if others are
    /// within it.
    #[inline(always)]
    fn return_to(&mut self, span: &Begun) {
        if !frames::return_to(&self.0) {
            self.enter_again(span);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_again(&mut self, span: &Begun) {
        // A scope around this one has ended before it, and this one with it.
        *self = Self(Entered::NOTHING);
        *self = Self(frames::enter_span(span));
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        frames::leave(&self.0);
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
        match &self.open {
            Some(open) => {
                let scope = Scope(frames::enter_span(open));
                EnteredSpan::new(self, scope)
            }
            None => EnteredSpan { span: self, entry: None, not_send: PhantomData },
        }
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

/// A span that is in force on this thread. It ends when this is dropped.
///
/// Dereferences to the span's events, where fields are that become known later.
///
/// Must not be held across an `.await`: a future has [`in_span`](crate::FutureExt::in_span). The
/// [guide](crate::guide#a-request-as-a-tree) has lines for `clippy.toml`, with which Clippy finds
/// that.
///
/// A guard that is forgotten (`mem::forget`) leaves its span without a Stop, and in force until an
/// outer scope ends.
#[must_use = "the span ends when this is dropped; keep it in a variable (`let _ = …` drops it at \
              once)"]
pub struct EnteredSpan<E: SpanEvents> {
    span: Span<E>,
    /// `None` if nobody listens.
    entry: Option<Entry>,
    not_send: PhantomData<NotAcrossAwait>,
}

#[derive(Debug)]
struct Entry {
    scope: Scope,
    was_panicking: bool,
    outcome: Option<Outcome>,
}

impl Entry {
    #[inline]
    fn new(scope: Scope) -> Self {
        Self { scope, was_panicking: thread::panicking(), outcome: None }
    }

    /// The outcome of a span that ends now, if nobody has said what it is.
    #[inline(always)]
    fn outcome_now(&self) -> Outcome {
        let has_panicked = !self.was_panicking && thread::panicking();
        if has_panicked { Outcome::Panicked } else { Outcome::Ok }
    }
}

impl<E: SpanEvents> EnteredSpan<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self { span: Span::off(events), entry: None, not_send: PhantomData }
    }

    /// Begins a span and enters it. `start` records the Start.
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
        let mut span = Self::off(events);
        if parent.is_sampled_out() {
            start();
            // What is in force is all that this could put in force.
        } else {
            span.begin_here(parent, sampling.into(), start);
        }
        span
    }

    /// [`begin_sampled`](Self::begin_sampled) for a span that is [`off`](Self::off), and whose
    /// parent is not sampled out.
    #[inline]
    fn begin_here(&mut self, parent: Parent<'_>, sampling: Option<Sampling>, start: impl FnOnce()) {
        // First, so that nothing that may unwind comes between the ids and their scope.
        let was_panicking = thread::panicking();
        let scope = self.span.make_ids(parent, sampling);
        // There is nothing to drop.
        mem::forget(self.entry.replace(Entry { scope, was_panicking, outcome: None }));
        self.span.start(start);
    }

    #[inline]
    fn new(span: Span<E>, scope: Scope) -> Self {
        Self { span, entry: Some(Entry::new(scope)), not_send: PhantomData }
    }

    /// Whether the span is recorded: somebody listened when it began, and it is not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.span.is_recorded()
    }

    /// Says how the span ends. Without this it is [`Outcome::Panicked`] if the thread unwinds and
    /// did not when the span was entered, and otherwise [`Outcome::Ok`].
    pub fn set_outcome(&mut self, outcome: Outcome) {
        if let Some(entry) = &mut self.entry {
            entry.outcome = Some(outcome);
        }
    }

    /// Ends the span. `stop` records the Stop. It is told that the outcome is [`Outcome::Ok`], and
    /// may know better.
    #[doc(hidden)]
    #[inline]
    pub fn end_with(mut self, stop: impl FnOnce(&mut E, End)) {
        self.end_where_it_is(stop);
    }

    /// [`end_with`](Self::end_with). The span is still to be dropped.
    #[inline]
    fn end_where_it_is(&mut self, stop: impl FnOnce(&mut E, End)) {
        if self.is_recorded() {
            self.return_here();
            self.span.end_with(Outcome::Ok, 0, Elapsed::ZERO, stop);
        }
    }

    /// What dropping does first.
    #[inline(always)]
    fn end_at_drop(&mut self) {
        let Self { span, entry: Some(entry), .. } = self else { return };
        if span.open.is_none() {
            return; // the span has ended
        }
        span.return_to(&mut entry.scope);
        let outcome = entry.outcome.unwrap_or_else(|| entry.outcome_now());
        span.end(outcome, 0, Elapsed::ZERO);
    }

    /// Leaves the scope of a span that has ended, and drops what the span has. Then there is
    /// nothing left to drop. `Caller` stands for the function that calls this.
    #[inline(always)]
    fn release<Caller>(&mut self) {
        const { assert!(E::IS_SINGLE || !mem::needs_drop::<E>()) };
        if let Some(Entry { scope, .. }) = &self.entry {
            frames::leave_from::<Caller>(&scope.0);
        }
        self.span.open = None;
        self.span.events.release();
    }

    /// Puts the span in force, if it is not or if others are within it.
    #[inline]
    fn return_here(&mut self) {
        let Some(Entry { scope, .. }) = &mut self.entry else { return };
        self.span.return_to(scope);
    }
}

impl<E: SpanEvents> Drop for EnteredSpan<E> {
    #[inline]
    fn drop(&mut self) {
        self.end_at_drop();
    }
}

impl<E: SpanEvents> Deref for EnteredSpan<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.span
    }
}

impl<E: SpanEvents> DerefMut for EnteredSpan<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.span
    }
}

impl<E: SpanEvents> fmt::Debug for EnteredSpan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnteredSpan").field("span", &self.span).finish_non_exhaustive()
    }
}
