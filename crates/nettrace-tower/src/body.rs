//! The body of a response.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use nettrace_writer::Outcome;
use pin_project_lite::pin_project;

use crate::{events::Exchange, tracked::ResponsePolling};

pin_project! {
    /// The body of a response from [`Server`](crate::Server) and [`Client`](crate::Client). The
    /// request's span is in force while it is polled, and ends with it.
    ///
    /// Its frames, its errors and its length are those of the body that the service returned.
    pub struct TracedBody<B> {
        tracked: ResponsePolling,
        // `None` only while this is dropped.
        #[pin]
        body: Option<B>,
    }

    impl<B> PinnedDrop for TracedBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let body = &mut this.body;
            this.tracked.within(|| body.set(None));
            if let ResponsePolling::Span(span) = this.tracked {
                let outcome = span.outcome_if_dropped();
                span.end(outcome);
            }
        }
    }
}

impl<B> TracedBody<B> {
    pub(crate) fn new(body: B, tracked: ResponsePolling) -> Self {
        Self { tracked, body: Some(body) }
    }
}

impl<B: Body> Body for TracedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let Some(mut body) = this.body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let poll = this.tracked.begin_poll();
        let polled = body.as_mut().poll_frame(cx);
        let has_ended = poll.end(|exchange| match &polled {
            Poll::Pending => None,
            Poll::Ready(None) => Some(exchange.outcome()),
            Poll::Ready(Some(Err(_))) => Some(Outcome::Err),
            Poll::Ready(Some(Ok(frame))) => {
                note(exchange, frame);
                body.is_end_stream().then(|| exchange.outcome())
            }
        });
        if has_ended {
            this.tracked.forget();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

fn note<D: bytes::Buf>(exchange: &mut Exchange, frame: &Frame<D>) {
    if let Some(data) = frame.data_ref() {
        exchange.data(data.remaining());
    } else if let Some(trailers) = frame.trailers_ref() {
        exchange.trailers(trailers);
    }
}

/// An empty body without a span.
impl<B: Default> Default for TracedBody<B> {
    fn default() -> Self {
        Self::new(B::default(), ResponsePolling::Nothing)
    }
}

impl<B> fmt::Debug for TracedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracedBody").field("tracked", &self.tracked).finish_non_exhaustive()
    }
}
