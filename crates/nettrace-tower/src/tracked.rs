//! The span entered around each poll of a response and its body.

use std::mem;

use nettrace_writer::{Context, ContextScope, Outcome, PolledSpan, SpanPoll};

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
    /// Begins a poll, which lasts until [`ResponsePoll::end`].
    #[inline]
    pub(crate) fn begin_poll(&mut self) -> ResponsePoll<'_> {
        match self {
            Self::Span(span) => ResponsePoll::Span(span.begin_poll()),
            Self::Caller(context) => ResponsePoll::Caller(context.enter()),
            Self::Nothing => ResponsePoll::Nothing,
        }
    }

    /// Forgets a span that has ended. It is in force no more, so that it need not be looked at
    /// either. What it has had to drop, it has dropped.
    #[inline]
    pub(crate) fn forget(&mut self) {
        const { assert!(!mem::needs_drop::<Exchange>()) };
        mem::forget(self.take());
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

/// A poll that is under way.
pub(crate) enum ResponsePoll<'a> {
    Span(SpanPoll<'a, Exchange>),
    Caller(#[expect(dead_code, reason = "in force until it is dropped")] ContextScope),
    Nothing,
}

impl ResponsePoll<'_> {
    /// Ends it. `outcome` gets what is known of the request, if it is recorded. If it returns an
    /// outcome, the span ends, and this returns `true`.
    #[inline]
    pub(crate) fn end(self, outcome: impl FnOnce(&mut Exchange) -> Option<Outcome>) -> bool {
        let Self::Span(mut poll) = self else { return false };
        let outcome = if poll.is_recorded() { outcome(&mut poll) } else { None };
        poll.end(outcome);
        outcome.is_some()
    }
}
