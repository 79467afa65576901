//! The future of a response.

use std::{
    fmt,
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use http::{Response, header::CONTENT_LENGTH};
use http_body::Body;
use nettrace_writer::{Context, Outcome, PolledSpan};
use pin_project_lite::pin_project;

use crate::{body::TracedBody, events::Exchange, tracked::ResponsePolling};

pin_project! {
    /// The future of a response from [`Server`](crate::Server) and [`Client`](crate::Client). The
    /// request's span is in force while it is polled.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct ResponseFuture<F> {
        tracked: ResponsePolling,
        // `None` only while this is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for ResponseFuture<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Destructors of what the future holds may emit.
            let future = &mut this.future;
            this.tracked.within(|| future.set(None));
        }
    }
}

impl<F> ResponseFuture<F> {
    /// `call` makes the future, while nobody listens.
    #[inline]
    pub(crate) fn unheard(caller: Option<Context>, call: impl FnOnce() -> F) -> Self {
        let tracked = caller.map_or(ResponsePolling::Nothing, ResponsePolling::Caller);
        let mut this = Self { tracked, future: None };
        this.future = Some(this.tracked.within(call));
        this
    }

    /// `future` was made while the span was in force.
    #[inline]
    pub(crate) fn of_span(span: PolledSpan<Exchange>, future: F) -> Self {
        Self { tracked: ResponsePolling::Span(span), future: Some(future) }
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<TracedBody<B>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // It is `None` only while this is being dropped.
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let poll = this.tracked.begin_poll();
        let polled = future.poll(cx);
        let has_ended = poll.end(|exchange| match &polled {
            Poll::Ready(Ok(response)) => head(exchange, response),
            Poll::Ready(Err(_)) => Some(Outcome::Err),
            Poll::Pending => None,
        });
        if has_ended {
            this.tracked.forget();
        }
        let response = ready!(polled)?;
        let tracked = this.tracked.take();
        Poll::Ready(Ok(response.map(|body| TracedBody::new(body, tracked))))
    }
}

/// The outcome of a response that is complete without a body.
fn head<B: Body>(exchange: &mut Exchange, response: &Response<B>) -> Option<Outcome> {
    let body = response.body();
    let length = || response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    let expected = body.size_hint().exact().or_else(length);
    let has_body = exchange.head(response.status(), response.headers(), expected);
    (!has_body || body.is_end_stream()).then(|| exchange.outcome())
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("tracked", &self.tracked).finish_non_exhaustive()
    }
}
