//! Spans that are guards: in force on one thread, from begin to end.

use std::{
    fmt,
    marker::PhantomData,
    mem,
    ops::{Deref, DerefMut},
};

use super::{Elapsed, End, Outcome, Parent, Sampling, Span, SpanEvents, open::Open, scope::Scope};
use crate::{
    context::{NotAcrossAwait, frames},
    sync::thread,
};

/// A span that is in force on this thread. It ends when this is dropped.
///
/// Dereferences to the span's events, where fields are that become known later.
///
/// Must not be held across an `.await`: a future has [`in_span`](crate::FutureExt::in_span). The
/// [guide](crate::guide#a-request-as-a-tree) has lines for `clippy.toml`, with which Clippy finds
/// that.
///
/// A guard that is forgotten (`mem::forget`) leaves its span without a Stop, and in force until an
/// outer scope ends.
#[must_use = "the span ends when this is dropped; keep it in a variable (`let _ = …` drops it at \
              once)"]
pub struct EnteredSpan<E: SpanEvents> {
    pub(super) span: Span<E>,
    /// `None` if nobody listens.
    pub(super) entry: Option<Entry>,
    not_send: PhantomData<NotAcrossAwait>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) scope: Scope,
    was_panicking: bool,
    outcome: Option<Outcome>,
}

impl Entry {
    #[inline]
    pub(super) fn new(scope: Scope) -> Self {
        Self { scope, was_panicking: thread::panicking(), outcome: None }
    }

    /// The outcome of a span that ends now, if nobody has said what it is.
    #[inline(always)]
    pub(super) fn outcome_now(&self) -> Outcome {
        let has_panicked = !self.was_panicking && thread::panicking();
        if has_panicked { Outcome::Panicked } else { Outcome::Ok }
    }
}

impl<E: SpanEvents> EnteredSpan<E> {
    /// A span that nobody listens to.
    #[doc(hidden)]
    #[inline(always)]
    pub fn off(events: E) -> Self {
        Self::new(Span::off(events), None)
    }

    /// As [`Span::begin_sampled`]. Enters the span, too.
    #[doc(hidden)]
    #[inline]
    pub fn begin_sampled(
        events: E,
        parent: Parent<'_>,
        sampling: impl Into<Option<Sampling>>,
        start: impl FnOnce(),
    ) -> Self {
        let mut span = Self::off(events);
        if parent.is_sampled_out() {
            start();
            // What is in force is all that this could put in force.
        } else {
            span.begin_here(parent, sampling.into(), start);
        }
        span
    }

    /// [`begin_sampled`](Self::begin_sampled) for a span that is [`off`](Self::off), and whose
    /// parent is not sampled out.
    #[inline]
    pub(super) fn begin_here(
        &mut self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(),
    ) {
        // First, so that nothing that may unwind comes between the ids and their scope.
        let was_panicking = thread::panicking();
        let scope = self.span.open.make_ids(parent, sampling, E::start_type());
        // There is nothing to drop.
        mem::forget(self.entry.replace(Entry { scope, was_panicking, outcome: None }));
        start();
        self.span.open.has_started(E::IS_SINGLE);
    }

    #[inline(always)]
    pub(super) fn new(span: Span<E>, entry: Option<Entry>) -> Self {
        Self { span, entry, not_send: PhantomData }
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
        if let Some(entry) = &mut self.entry {
            entry.outcome = Some(outcome);
        }
    }

    /// Ends the span, which is still to be dropped: see [`Call::end_with`](super::call::Call).
    #[inline]
    pub(super) fn end_where_it_is(&mut self, stop: impl FnOnce(&mut E, End)) {
        if !self.is_recorded() {
            return;
        }
        let Self { span, entry: Some(entry), .. } = self else { return };
        if let Some(end) = end_entered(&mut span.open, entry, Some(Outcome::Ok)) {
            stop(&mut span.events, end);
        }
    }

    /// What dropping does first.
    #[inline(always)]
    pub(super) fn end_at_drop(&mut self) {
        let Self { span, entry: Some(entry), .. } = self else { return };
        if let Some(end) = end_entered(&mut span.open, entry, None) {
            span.events.stop(&end);
        }
    }

    /// Leaves the scope of a span that has ended, and drops what the span has. Then there is
    /// nothing left to drop.
    #[inline]
    pub(super) fn release(&mut self) {
        const { assert!(E::IS_SINGLE || !mem::needs_drop::<E>()) };
        if let Some(Entry { scope, .. }) = &self.entry {
            frames::leave(&scope.0);
        }
        self.span.open.begun = None;
        self.span.events.release();
    }
}

/// Ends a span: puts it in force if it is not or if others are within it, and returns what its Stop
/// tells. Without an `outcome`, it is what somebody has said, or else what it seems to be.
#[inline(never)]
fn end_entered(open: &mut Open, entry: &mut Entry, outcome: Option<Outcome>) -> Option<End> {
    open.return_to(&mut entry.scope);
    let outcome = outcome.or(entry.outcome).unwrap_or_else(|| entry.outcome_now());
    open.end(outcome, 0, Elapsed::ZERO)
}

impl<E: SpanEvents> Drop for EnteredSpan<E> {
    #[inline]
    fn drop(&mut self) {
        self.end_at_drop();
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
