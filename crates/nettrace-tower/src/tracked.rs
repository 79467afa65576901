//! The span entered around each poll of a response and its body.

use std::mem;

use nettrace_writer::{Context, Outcome, PolledSpan};

use crate::events::Exchange;

#[derive(Debug)]
pub(crate) enum ResponsePolling {
    /// The span of the request.
    Span(PolledSpan<Exchange>),
    /// No session listens. The caller's span, so that requests made meanwhile are in its trace.
    Caller(Context),
    /// No session listens, and there is no caller's span, or the span has ended.
    Nothing,
}

impl ResponsePolling {
    /// Polls by `f`, which gets what is known of the request if it is recorded. If it returns an
    /// outcome, the span ends.
    #[inline]
    pub(crate) fn poll(&mut self, f: impl FnOnce(Option<&mut Exchange>) -> Option<Outcome>) {
        let is_recorded = matches!(self, Self::Span(span) if span.span().is_recorded());
        match self {
            Self::Span(span) if is_recorded => {
                let mut has_ended = false;
                span.poll(|exchange| {
                    let outcome = f(Some(exchange));
                    has_ended = outcome.is_some();
                    ((), outcome)
                });
                // It is in force no more, so that it need not be looked at either. What it has had
                // to drop, it has dropped.
                if has_ended {
                    const { assert!(!mem::needs_drop::<Exchange>()) };
                    mem::forget(self.take());
                }
            }
            other => drop(other.within(|| f(None))),
        }
    }

    /// Calls `f`, which is no poll.
    #[inline]
    pub(crate) fn within<R>(&mut self, f: impl FnOnce() -> R) -> R {
        match self {
            Self::Span(span) => span.within(f),
            Self::Caller(context) => context.within(f),
            Self::Nothing => f(),
        }
    }

    /// Leaves nothing in its place.
    pub(crate) fn take(&mut self) -> Self {
        mem::replace(self, Self::Nothing)
    }
}
