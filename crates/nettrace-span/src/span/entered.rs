//! Spans that are guards: in force on one thread, from begin to end.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use nettrace_event::TraceEvent;

use super::{
    Outcome, Parent, Sampling, Span, SpanEvents,
    engine::{self, Until},
};
use crate::context::NotAcrossAwait;

/// A span that is in force on this thread. It ends when this is dropped.
///
/// Dereferences to the span's events, where fields are that become known later.
///
/// Must not be held across an `.await`: a future has [`in_span`](crate::FutureExt::in_span). The
/// [guide] has lines for `clippy.toml`, with which Clippy finds that.
///
/// [guide]: https://docs.rs/nettrace-writer/latest/nettrace_writer/guide/#a-request-as-a-tree
///
/// Guards may end in any order, for instance if a new one takes the place of another in a variable.
/// What was entered within a guard stays in force when the guard ends.
///
/// A guard that is forgotten (`mem::forget`) leaves its span without a Stop, and in force until the
/// poll, the `#[traced]` call or the thread ends that it was entered in.
#[must_use = "the span ends when this is dropped; keep it in a variable (`let _ = …` drops it at \
              once)"]
pub struct EnteredSpan<E: SpanEvents> {
    pub(super) span: Span<E>,
    not_send: PhantomData<NotAcrossAwait>,
}

impl<E: SpanEvents> EnteredSpan<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline]
    pub fn off(events: E) -> Self {
        Self { span: Span::off(events), not_send: PhantomData }
    }

    /// As [`Span::begin_sampled`]. Enters the span, too.
    #[doc(hidden)]
    #[inline]
    pub fn begin_sampled(
        events: E,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(&mut E),
    ) -> Self {
        let mut span = Self::off(events);
        span.span.begin_here(parent, sampling, Until::End, start);
        span
    }

    /// As [`Span::begin_event`]. Enters the span, too.
    #[doc(hidden)]
    #[inline]
    pub fn begin_event(
        events: E,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: &impl TraceEvent,
    ) -> Self {
        let mut span = Self::off(events);
        span.span.begin_event_here(parent, sampling, Until::End, start);
        span
    }

    /// Enters a span that has begun.
    pub(super) fn new(mut span: Span<E>) -> Self {
        engine::enter(&mut span.open);
        Self { span, not_send: PhantomData }
    }

    /// Whether the span is recorded: somebody listened when it began, and it is not sampled out.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.span.is_recorded()
    }

    /// Says how the span ends. Without this it is [`Outcome::Panicked`] if the thread unwinds and
    /// did not when the span was entered, and otherwise [`Outcome::Ok`].
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.span.open.set_outcome(outcome);
    }
}

impl<E: SpanEvents> Deref for EnteredSpan<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.span
    }
}

impl<E: SpanEvents> DerefMut for EnteredSpan<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.span
    }
}

impl<E: SpanEvents> fmt::Debug for EnteredSpan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnteredSpan").field("span", &self.span).finish_non_exhaustive()
    }
}
