//! Spans of what is polled by hand.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
};

use super::{
    End, Outcome, Parent, Sampling, Span, SpanEvents, SpanHere,
    open::{self, Polled, Polls},
    scope::Scope,
};
use crate::context::frames::Entered;

/// A span of something that is polled and is no future, such as a stream or the body of a response:
/// what [`in_span`](crate::FutureExt::in_span) is for a future.
///
/// It is in force during each [`poll`](Self::poll). It ends when a poll says so, by
/// [`end`](Self::end), or when it is dropped: then its outcome is [`Outcome::Cancelled`], or
/// [`Outcome::Panicked`] if a poll unwound. After its end it is in force no more, unless it is
/// sampled out.
///
/// Dereferences to the span's events, where fields are that become known later.
#[must_use = "the span ends when this is dropped"]
pub struct PolledSpan<E: SpanEvents> {
    span: Span<E>,
    polls: Polls,
}

impl<E: SpanEvents> PolledSpan<E> {
    /// Takes a span that has begun.
    #[inline]
    pub fn new(span: Span<E>) -> Self {
        Self { span, polls: Polls::new(Entered::NOTHING) }
    }

    /// Takes a span that is in force here until the first poll ends, which must come next.
    #[inline]
    pub(super) fn here(SpanHere { span, scope }: SpanHere<E>) -> Self {
        Self { span, polls: Polls::new(scope.into_entered()) }
    }

    /// A span that has not begun, and that nobody listens to until [`begin`](Self::begin).
    #[doc(hidden)]
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self::new(Span::off(events))
    }

    /// Begins a span that is [`off`](Self::off), where it is in memory. `start` records the Start.
    /// The span is in force here until [`before_polls`](Self::before_polls), which must come next, has
    /// ended. For `nettrace-tower`.
    #[doc(hidden)]
    #[inline]
    pub fn begin(&mut self, parent: Parent<'_>, sampling: Option<Sampling>, start: impl FnOnce()) {
        let mut scope = Scope(Entered::NOTHING);
        self.span.begin_here(&mut scope, parent, sampling, start);
        self.polls.entered = scope.into_entered();
    }

    /// Does what [`within`](Self::within) does around the code from here to the call of
    /// [`Before::end`], after [`begin`](Self::begin). No closure, because what it takes would be
    /// moved once more.
    #[doc(hidden)]
    #[inline]
    pub fn before_polls(&mut self) -> Before<'_, E> {
        let scope = self.polls.take_scope();
        self.polls.is_polled = true;
        Before { span: self, _scope: scope }
    }

    /// The span, for instance for its [`context`](Span::context).
    #[inline]
    pub fn span(&self) -> &Span<E> {
        &self.span
    }

    /// Polls: calls `f` with the span in force, and counts the poll and its time. If `f` returns an
    /// outcome, the span ends with it. After the end of the span, this only calls `f`.
    #[inline]
    pub fn poll<R>(&mut self, f: impl FnOnce(&mut E) -> (R, Option<Outcome>)) -> R {
        self.poll_with(f, |(_, outcome)| *outcome, |events, _, end| events.stop(&end)).0
    }

    /// As [`poll`](Self::poll). `outcome` says whether the span ends, and `stop` records the Stop.
    #[inline]
    pub(super) fn poll_with<R>(
        &mut self,
        f: impl FnOnce(&mut E) -> R,
        outcome: impl FnOnce(&R) -> Option<Outcome>,
        stop: impl FnOnce(&mut E, &R, End),
    ) -> R {
        let Self { span, polls } = self;
        let Span { open, events } = span;
        let (f, result) = (Some(f), None);
        let mut polled = PolledBy { events, f, outcome: Some(outcome), stop: Some(stop), result };
        open::poll(open, polls, &mut polled);
        let Some(result) = polled.result else { unreachable!("it is polled once") };
        result
    }

    /// Calls `f` with the span in force, and does not count it as a poll: for what comes before the
    /// first poll, and for destructors.
    #[inline]
    pub fn within<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let _scope = self.span.open.scope();
        let was_polled = mem::replace(&mut self.polls.is_polled, true);
        let result = f();
        self.polls.is_polled = was_polled;
        result
    }

    /// Ends the span, unless it has ended. If a poll unwound, the outcome is
    /// [`Outcome::Panicked`] in any case.
    pub fn end(&mut self, outcome: Outcome) {
        if let Some((_scope, Some(end))) = self.polls.end(&mut self.span.open, outcome) {
            self.span.events.stop(&end);
        }
    }
}

/// What [`PolledSpan::poll_with`] is given, and what it returns.
struct PolledBy<'a, E, R, F, O, S> {
    events: &'a mut E,
    f: Option<F>,
    outcome: Option<O>,
    stop: Option<S>,
    result: Option<R>,
}

impl<E, R, F, O, S> Polled for PolledBy<'_, E, R, F, O, S>
where
    E: SpanEvents,
    F: FnOnce(&mut E) -> R,
    O: FnOnce(&R) -> Option<Outcome>,
    S: FnOnce(&mut E, &R, End),
{
    fn resume(&mut self) {
        self.events.resume();
    }

    fn poll(&mut self) -> Option<Outcome> {
        let (f, outcome) = (self.f.take()?, self.outcome.take()?);
        outcome(self.result.insert(f(self.events)))
    }

    fn suspend(&mut self) {
        self.events.suspend();
    }

    fn stop(&mut self, end: End) {
        if let (Some(stop), Some(result)) = (self.stop.take(), &self.result) {
            stop(self.events, result, end);
        }
    }
}

/// What comes before the first poll of a span.
#[doc(hidden)]
#[derive(Debug)]
pub struct Before<'a, E: SpanEvents> {
    span: &'a mut PolledSpan<E>,
    _scope: Scope,
}

impl<E: SpanEvents> Before<'_, E> {
    /// Ends it. If this is dropped without, the span's outcome is [`Outcome::Panicked`].
    #[inline]
    pub fn end(self) {
        self.span.polls.is_polled = false;
    }
}

impl<E: SpanEvents> Drop for PolledSpan<E> {
    #[inline]
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}

impl<E: SpanEvents> Deref for PolledSpan<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.span
    }
}

impl<E: SpanEvents> DerefMut for PolledSpan<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.span
    }
}

impl<E: SpanEvents> fmt::Debug for PolledSpan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledSpan").field("span", &self.span).finish_non_exhaustive()
    }
}
