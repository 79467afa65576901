//! Futures that are spans.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use super::{End, Outcome, PolledSpan, Span, SpanEvents};

pin_project! {
    /// A future with a span, which ends when the future is ready or dropped: see
    /// [`FutureExt::in_span`](crate::FutureExt::in_span).
    #[must_use = "a future does nothing unless it is polled"]
    pub struct InSpan<F, E, R = fn(&mut E, &<F as Future>::Output, End)>
    where
        F: Future,
        E: SpanEvents,
    {
        span: PolledSpan<E>,
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
            // Destructors of what the future holds may emit.
            this.span.within(|| this.future.set(None));
        }
    }
}

impl<F: Future, E: SpanEvents> InSpan<F, E> {
    pub(crate) fn new(future: F, span: Span<E>) -> Self {
        Self::with_result(future, span, |events, _, end| events.stop(&end))
    }
}

impl<F, E, R> InSpan<F, E, R>
where
    F: Future,
    E: SpanEvents,
    R: FnMut(&mut E, &F::Output, End),
{
    /// `result` records the Stop if the future is ready. It is told that the outcome is
    /// [`Outcome::Ok`], and may know better.
    #[doc(hidden)]
    #[inline]
    pub fn with_result(future: F, span: Span<E>, result: R) -> Self {
        Self { span: PolledSpan::new(span), result, future: Some(future) }
    }
}

impl<F, E, R> Future for InSpan<F, E, R>
where
    F: Future,
    E: SpanEvents,
    R: FnMut(&mut E, &F::Output, End),
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let poll = this.span.begin_poll();
        let polled = future.poll(cx);
        let result = this.result;
        poll.end_with(polled.is_ready().then_some(Outcome::Ok), |events, end| {
            if let Poll::Ready(output) = &polled {
                result(events, output, *end);
            }
        });
        polled
    }
}

impl<F: Future, E: SpanEvents, R> fmt::Debug for InSpan<F, E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan").field("span", &self.span).finish_non_exhaustive()
    }
}

pin_project! {
    /// [`InSpan`] for a span that is elsewhere, so that it is not moved once it has begun, and
    /// whose Stop tells of nothing but time, outcome and polls. `outcome` says how the span ends
    /// from what the future returns. For the code of `#[traced]`.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct WithinSpan<'a, F, E, O>
    where
        F: Future,
        E: SpanEvents,
    {
        span: &'a mut PolledSpan<E>,
        outcome: O,
        // `None` once it is ready.
        #[pin]
        future: Option<F>,
    }

    impl<F, E, O> PinnedDrop for WithinSpan<'_, F, E, O>
    where
        F: Future,
        E: SpanEvents,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() && this.span.span.open.is_open() {
                this.span.within(|| this.future.set(None));
            }
        }
    }
}

impl<'a, F, E, O> WithinSpan<'a, F, E, O>
where
    F: Future,
    E: SpanEvents,
    O: FnMut(&F::Output) -> Outcome,
{
    /// A future whose span has begun, if somebody listens.
    #[inline]
    pub fn new(future: F, span: &'a mut PolledSpan<E>, outcome: O) -> Self {
        Self { span, outcome, future: Some(future) }
    }
}

impl<F, E, O> Future for WithinSpan<'_, F, E, O>
where
    F: Future,
    E: SpanEvents,
    O: FnMut(&F::Output) -> Outcome,
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (mut future, outcome) = (this.future, this.outcome);
        let mut result = Poll::Pending;
        this.span.poll_plainly(|| {
            result = future.as_mut().as_pin_mut()?.poll(cx);
            let Poll::Ready(output) = &result else { return None };
            // Here, where the span is in force.
            future.set(None);
            Some(outcome(output))
        });
        result
    }
}

impl<F: Future, E: SpanEvents, O> fmt::Debug for WithinSpan<'_, F, E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithinSpan").finish_non_exhaustive()
    }
}
