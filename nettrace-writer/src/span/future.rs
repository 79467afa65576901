//! Futures that are spans.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::context::frames;

use super::{Elapsed, Outcome, Span, SpanEvents, Started};

pin_project! {
    /// A future with a span, which ends when the future is ready or dropped: see
    /// [`FutureExt::in_span`](crate::FutureExt::in_span).
    #[must_use = "a future does nothing unless it is polled"]
    pub struct InSpan<F, E, R = fn(&mut E, &<F as Future>::Output) -> Outcome>
    where
        F: Future,
        E: SpanEvents,
    {
        span: Span<E>,
        polls: u32,
        busy: Elapsed,
        // Within a poll, and for good after one that unwound.
        is_polled: bool,
        result: R,
        // `None` only while this is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F, E, R> PinnedDrop for InSpan<F, E, R>
    where
        F: Future,
        E: SpanEvents,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.span.is_recorded() {
                let _scope = this.span.scope();
                // Destructors of what the future holds may emit.
                this.future.set(None);
                let panicked = *this.is_polled;
                let outcome = if panicked { Outcome::Panicked } else { Outcome::Cancelled };
                this.span.end(outcome, *this.polls, *this.busy);
            }
        }
    }
}

impl<F: Future, E: SpanEvents> InSpan<F, E> {
    pub(crate) fn new(future: F, span: Span<E>) -> Self {
        Self::with_result(future, span, |_, _| Outcome::Ok)
    }
}

impl<F, E, R> InSpan<F, E, R>
where
    F: Future,
    E: SpanEvents,
    R: FnMut(&mut E, &F::Output) -> Outcome,
{
    /// `result` says how the span ends if the future is ready.
    #[doc(hidden)]
    #[inline]
    pub fn with_result(future: F, span: Span<E>, result: R) -> Self {
        let busy = Elapsed::ZERO;
        Self { span, polls: 0, busy, is_polled: false, result, future: Some(future) }
    }
}

impl<F, E, R> Future for InSpan<F, E, R>
where
    F: Future,
    E: SpanEvents,
    R: FnMut(&mut E, &F::Output) -> Outcome,
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let span = this.span;
        if !span.is_recorded() {
            return future.poll(cx);
        }
        let scope = span.scope();
        *this.polls = this.polls.saturating_add(1);
        *this.is_polled = true;
        span.resume();
        let began = Started::now();
        let polled = future.poll(cx);
        *this.busy = this.busy.plus(began.elapsed());
        frames::return_to(&scope.0);
        span.suspend();
        *this.is_polled = false;
        if let Poll::Ready(output) = &polled {
            let outcome = (this.result)(span, output);
            span.end(outcome, *this.polls, *this.busy);
        }
        polled
    }
}

impl<F: Future, E: SpanEvents, R> fmt::Debug for InSpan<F, E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan").field("span", &self.span).finish_non_exhaustive()
    }
}
