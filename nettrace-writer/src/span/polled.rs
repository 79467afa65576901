//! Spans of what is polled by hand.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
};

use super::{
    End, Outcome, Parent, Sampling, Span, SpanEvents, SpanHere, Started, elapsed::Busy,
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
    /// The scope of a span that is in force already, until its first poll takes it.
    entered: Entered,
    polls: u32,
    busy: Busy,
    // Within a poll, and for good after one that unwound.
    is_polled: bool,
}

impl<E: SpanEvents> PolledSpan<E> {
    /// Takes a span that has begun.
    #[inline]
    pub fn new(span: Span<E>) -> Self {
        Self::entered(span, Entered::NOTHING)
    }

    /// Takes a span that is in force here until the first poll ends, which must come next.
    #[inline]
    pub(super) fn here(SpanHere { span, mut scope }: SpanHere<E>) -> Self {
        let entered = mem::replace(&mut scope.0, Entered::NOTHING);
        Self::entered(span, entered)
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
        self.entered = mem::replace(&mut scope.0, Entered::NOTHING);
    }

    /// Does what [`within`](Self::within) does around the code from here to the call of
    /// [`Before::end`], after [`begin`](Self::begin). No closure, because what it takes would be
    /// moved once more.
    #[doc(hidden)]
    #[inline]
    pub fn before_polls(&mut self) -> Before<'_, E> {
        let scope = self.scope_here();
        self.is_polled = true;
        Before { span: self, _scope: scope }
    }

    #[inline(always)]
    fn entered(span: Span<E>, entered: Entered) -> Self {
        Self { span, entered, polls: 0, busy: Busy::ZERO, is_polled: false }
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
        let is_here = self.entered.is_something();
        let mut scope = if is_here { self.scope_here() } else { self.span.scope() };
        if !self.span.is_recorded() {
            return f(&mut self.span);
        }
        self.polls = self.polls.saturating_add(1);
        self.is_polled = true;
        self.span.resume();
        // A span that began just now has the time of its Start, and one that ends now has that of
        // its Stop. So a future that is ready at once reads no clock besides its events.
        let began = if is_here { self.span.started } else { Started::now() };
        let counted = Counted { busy: &mut self.busy, began };
        let result = f(&mut self.span);
        let outcome = outcome(&result);
        match outcome {
            None => drop(counted),
            Some(_) => mem::forget(counted),
        }
        self.span.return_to(&mut scope);
        self.span.suspend();
        self.is_polled = false;
        if let Some(outcome) = outcome {
            let stop = |events: &mut E, end| stop(events, &result, end);
            self.span.end_with(outcome, self.polls, self.busy.total_with(began), stop);
        }
        result
    }

    /// Calls `f` with the span in force, and does not count it as a poll: for what comes before the
    /// first poll, and for destructors.
    #[inline]
    pub fn within<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let _scope = self.span.scope();
        let was_polled = self.is_polled;
        self.is_polled = true;
        let result = f();
        self.is_polled = was_polled;
        result
    }

    /// Ends the span, unless it has ended. If a poll unwound, the outcome is
    /// [`Outcome::Panicked`] in any case.
    pub fn end(&mut self, outcome: Outcome) {
        if self.span.is_recorded() {
            let outcome = if self.is_polled { Outcome::Panicked } else { outcome };
            let _scope = self.span.scope();
            self.span.end(outcome, self.polls, self.busy.total());
        }
    }

    #[inline(always)]
    fn scope_here(&mut self) -> Scope {
        Scope(mem::replace(&mut self.entered, Entered::NOTHING))
    }
}

/// Counts the time of a poll when it is dropped. A poll that unwinds drops it too.
struct Counted<'a> {
    busy: &'a mut Busy,
    began: Started,
}

impl Drop for Counted<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.busy.add(self.began);
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
        self.span.is_polled = false;
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
