//! Spans of what is polled by hand.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use super::{
    End, Outcome, Parent, Sampling, Span, SpanEvents,
    engine::{self, Before, Polled, Polls, Until},
};

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
    pub(super) span: Span<E>,
    polls: Polls,
}

impl<E: SpanEvents> PolledSpan<E> {
    /// Takes a span that has begun.
    #[inline]
    pub fn new(span: Span<E>) -> Self {
        Self { span, polls: Polls::NONE }
    }

    /// A span that has not begun, and that nobody listens to until [`begin`](Self::begin).
    #[inline]
    pub fn off(events: E) -> Self {
        Self::new(Span::off(events))
    }

    /// Begins a span that is [`off`](Self::off), where it is in memory. `start` records the Start.
    /// The span is in force here until its first poll or [`before_polls`](Self::before_polls),
    /// which must come next, has ended.
    #[inline]
    pub fn begin(
        &mut self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(&mut E),
    ) {
        self.span.begin_here(parent, sampling, Until::Poll, start);
    }

    /// Does what [`within`](Self::within) does around the code from here to the call of
    /// [`Before::end`]. No closure, because what it takes would be moved once more.
    #[inline]
    pub fn before_polls(&mut self) -> Before<'_> {
        engine::before_polls(&mut self.span.open, &mut self.polls)
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
        engine::poll(open, polls, &mut polled, E::tells_polls(), None);
        let Some(result) = polled.result else { unreachable!("it is polled once") };
        result
    }

    /// As [`poll`](Self::poll), for a span whose Stop is [`SpanEvents::plain_polled`].
    #[inline]
    pub(super) fn poll_plainly(&mut self, f: impl FnMut() -> Option<Outcome>) {
        let Self { span: Span { open, events }, polls } = self;
        let mut polled = PolledPlainly { events, f };
        engine::poll(open, polls, &mut polled, E::tells_polls(), E::plain_polled());
    }

    /// Calls `f` with the span in force, and does not count it as a poll: for what comes before the
    /// first poll, and for destructors.
    #[inline]
    pub fn within<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let before = self.before_polls();
        let result = f();
        before.end();
        result
    }

    /// Ends the span, unless it has ended. If a poll unwound, the outcome is
    /// [`Outcome::Panicked`] in any case.
    pub fn end(&mut self, outcome: Outcome) {
        let Self { span: Span { open, events }, polls } = self;
        // One that is sampled out stays open, so that all its polls are sampled out.
        if open.is_recorded() {
            engine::end(open, Some(outcome), Some(polls), events);
        }
    }
}

/// What [`PolledSpan::poll_plainly`] is given.
struct PolledPlainly<'a, E, F> {
    events: &'a mut E,
    f: F,
}

impl<E: SpanEvents, F: FnMut() -> Option<Outcome>> Polled for PolledPlainly<'_, E, F> {
    fn resume(&mut self) {
        self.events.resume();
    }

    #[inline]
    fn poll(&mut self) -> Option<Outcome> {
        (self.f)()
    }

    fn suspend(&mut self) {
        self.events.suspend();
    }

    fn stop(&mut self, end: &End) {
        self.events.stop(end);
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

    fn stop(&mut self, end: &End) {
        if let (Some(stop), Some(result)) = (self.stop.take(), &self.result) {
            stop(self.events, result, *end);
        }
    }
}

impl<E: SpanEvents> Drop for PolledSpan<E> {
    #[inline]
    fn drop(&mut self) {
        if self.span.open.is_open() {
            self.end(Outcome::Cancelled);
        }
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
