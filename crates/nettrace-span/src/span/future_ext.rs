//! Extensions of futures: a context, labels, a span.

use nettrace_event::Label;

use super::{End, InSpan, Outcome, Span, SpanEvents};
use crate::{
    context::{Context, LabelError, WithContext},
    recorder::anyone_listens,
};

/// What a future can have in force while it is polled: every [`Future`] has these methods.
///
/// ```
/// use nettrace_span::{Context, FutureExt};
///
/// # async fn charge() {}
/// # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
/// // The task's events carry the span and the labels that are in force here.
/// spawn(charge().with_context(Context::current()));
/// ```
pub trait FutureExt: Future + Sized {
    /// Puts `context` in force while the future is polled and dropped. It replaces the context of
    /// the thread that polls or drops.
    fn with_context(self, context: Context) -> WithContext<Self> {
        WithContext::new(self, context)
    }

    /// Adds labels to what is in force here, and puts both in force while the future is polled and
    /// dropped. This is [`enter_labels`](crate::enter_labels) across `.await`.
    ///
    /// # Errors
    ///
    /// Those of [`enter_labels`](crate::enter_labels).
    ///
    /// # Example
    ///
    /// ```
    /// use nettrace_span::{FutureExt, Label};
    ///
    /// # async fn charge() {}
    /// # fn block_on(_: impl Future) {}
    /// block_on(charge().with_labels(&[Label::Str("route", "/cart")])?);
    /// # Ok::<(), nettrace_span::LabelError>(())
    /// ```
    fn with_labels(self, labels: &[Label<'_>]) -> Result<WithContext<Self>, LabelError> {
        let context = if anyone_listens() {
            Context::current().with_labels(labels)?
        } else {
            Context::current()
        };
        Ok(self.with_context(context))
    }

    /// Puts a span in force while the future is polled and dropped. The span ends when the future
    /// is ready or dropped.
    fn in_span<E: SpanEvents>(self, span: Span<E>) -> InSpan<Self, E> {
        InSpan::new(self, span)
    }

    /// As [`in_span`](Self::in_span). When the future is ready, `result` gets the span, to set its
    /// later fields, and what the future returns. It says how the span ends:
    /// see [`TraceSpan`](trait@crate::TraceSpan).
    fn in_span_with<E, R>(
        self,
        span: Span<E>,
        mut result: R,
    ) -> InSpan<Self, E, impl FnMut(&mut E, &Self::Output, End)>
    where
        E: SpanEvents,
        R: FnMut(&mut E, &Self::Output) -> Outcome,
    {
        InSpan::with_result(self, span, move |events, output, mut end| {
            end.outcome = result(events, output);
            events.stop(&end);
        })
    }
}

impl<F: Future> FutureExt for F {}
