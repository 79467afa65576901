//! Spans of what is polled by hand.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use super::{
    End, Outcome, Parent, Sampling, Span, SpanEvents,
    engine::{self, Before, InPoll, Polled, Polls, Until},
};
use crate::context::NotAcrossAwait;

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
        let poll = self.begin_poll();
        let (result, outcome) = f(poll.events);
        poll.end(outcome);
        result
    }

    /// Begins a [`poll`](Self::poll), which lasts until [`SpanPoll::end`]. No closure, because what
    /// it takes and what it returns would be moved once more.
    #[inline]
    pub fn begin_poll(&mut self) -> SpanPoll<'_, E> {
        let Self { span: Span { open, events }, polls } = self;
        let poll = InPoll::begin(open, polls);
        if E::tells_polls() && poll.is_counted() {
            events.resume();
        }
        SpanPoll { poll, events, not_send: PhantomData }
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

/// A poll of a [`PolledSpan`] that is under way. If this is dropped, the poll has unwound.
///
/// Dereferences to the span's events.
#[must_use = "a poll that is dropped has unwound"]
pub struct SpanPoll<'a, E: SpanEvents> {
    poll: InPoll<'a>,
    events: &'a mut E,
    not_send: PhantomData<NotAcrossAwait>,
}

impl<E: SpanEvents> SpanPoll<'_, E> {
    /// Whether the span has not ended before this poll, and is not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.poll.is_counted()
    }

    /// Ends the poll. If there is an outcome, the span ends with it.
    #[inline]
    pub fn end(self, outcome: Option<Outcome>) {
        self.end_with(outcome, |events, end| events.stop(end));
    }

    /// [`end`](Self::end). `stop` records the Stop.
    #[inline]
    pub(super) fn end_with(self, outcome: Option<Outcome>, stop: impl FnOnce(&mut E, &End)) {
        let Self { mut poll, events, .. } = self;
        if E::tells_polls() && poll.is_counted() {
            poll.put_in_force_after(outcome.is_some());
            events.suspend();
        }
        poll.end(outcome, |end| stop(events, end));
    }
}

impl<E: SpanEvents> Deref for SpanPoll<'_, E> {
    type Target = E;

    #[inline]
    fn deref(&self) -> &E {
        self.events
    }
}

impl<E: SpanEvents> DerefMut for SpanPoll<'_, E> {
    #[inline]
    fn deref_mut(&mut self) -> &mut E {
        self.events
    }
}

impl<E: SpanEvents> fmt::Debug for SpanPoll<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanPoll").finish_non_exhaustive()
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
