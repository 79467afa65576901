//! What the code of `#[traced]` calls for functions with `mode = single`.

use std::mem::{self, ManuallyDrop};

use nettrace_event::EventType;

use super::{Alone, Elapsed, End, Outcome, SpanEvents, Started, call::count_if_sampled_out};
use crate::{
    context::frames::{self, Begun, Entered},
    sync::thread,
};

/// The span of a call that has one event, if somebody listens: [`Call`](super::call::Call) for a
/// span in the one in force whose event tells of nothing that the call returns.
///
/// What is not of the event's type is in `Single`.
#[derive(Debug)]
pub struct SingleCall<E: SpanEvents> {
    /// Dropped by `end`, and not once more by the compiler's own code.
    span: ManuallyDrop<Option<Single>>,
    events: ManuallyDrop<Option<E>>,
}

impl<E: SpanEvents> SingleCall<E> {
    /// A call that nobody listens to.
    #[inline(always)]
    #[must_use]
    pub fn off() -> Self {
        Self { span: ManuallyDrop::new(None), events: ManuallyDrop::new(None) }
    }

    /// Begins the span where this is. Its event has this type.
    #[inline(never)]
    pub fn begin(&mut self, events: impl FnOnce() -> E, ty: &'static EventType) {
        if frames::is_sampled_out() {
            return count_if_sampled_out(ty);
        }
        self.events = ManuallyDrop::new(Some(events()));
        begin(&mut self.span, ty);
    }

    /// Ends the span with an outcome.
    #[inline(always)]
    pub fn end_as(mut self, outcome: Outcome) {
        if self.span.is_some() {
            self.end(Some(outcome));
        }
        // There is nothing left to drop.
        mem::forget(self);
    }

    #[inline(never)]
    fn end(&mut self, outcome: Option<Outcome>) {
        const { assert!(E::IS_SINGLE) };
        let unwinding = Unwinding(self);
        let SingleCall { span, events } = &mut *unwinding.0;
        if let (Some(single), Some(events)) = (&mut **span, &mut **events) {
            single.record_end(events, outcome);
            frames::leave(&single.entered);
            let has_state = single.begun.state.is_some();
            if has_state {
                release(span);
            }
            events.release();
        }
        mem::forget(unwinding);
    }
}

/// What is not of the event's type.
#[derive(Debug)]
struct Single {
    begun: Begun,
    entered: Entered,
    /// [`Started::NEVER`] if it is sampled out.
    started: Started,
    /// Whether the thread was unwinding when the span began.
    was_panicking: bool,
}

/// Begins a span in the one in force, and puts it in force. `place` is `None`. The span is written
/// there, because it is large.
///
/// All such spans share this code. So it is in the processor's caches if any of them has just
/// begun.
#[inline(never)]
fn begin(place: &mut Option<Single>, ty: &'static EventType) {
    frames::begin_plain(
        #[inline(always)]
        |begun| {
            let (entered, started) = (Entered::NOTHING, Started::NEVER);
            let single = Single { begun, entered, started, was_panicking: false };
            // There is nothing to drop.
            mem::forget(place.take());
            &mut place.insert(single).entered
        },
    );
    match place {
        Some(span) => (span.started, span.was_panicking) = (Started::now(), thread::panicking()),
        None => begin_otherwise(place, ty),
    }
}

/// [`begin`] if there is more to do than that.
#[inline(never)]
fn begin_otherwise(place: &mut Option<Single>, ty: &'static EventType) {
    let (mut begun, mut entered) = (None, Entered::NOTHING);
    frames::begin_in_current(&mut begun, &mut entered);
    let Some(mut begun) = begun else { return };
    if begun.is_undecided() {
        begun.decide(&entered, None, begun.ids.related.is_none());
    }
    count_if_sampled_out(ty);
    let started = if begun.is_recorded() { Started::now() } else { Started::NEVER };
    *place = Some(Single { begun, entered, started, was_panicking: thread::panicking() });
}

impl Single {
    /// Records the event. The span is still in force.
    #[inline(always)]
    fn record_end<E: SpanEvents>(&mut self, events: &mut E, outcome: Option<Outcome>) {
        if !frames::return_to(&self.entered) {
            enter_again(self);
        }
        // If it is sampled out, there is no event.
        if self.started.is_known() {
            let outcome = outcome.unwrap_or_else(|| {
                let has_panicked = thread::panicking() && !self.was_panicking;
                if has_panicked { Outcome::Panicked } else { Outcome::Ok }
            });
            let (started, duration) = (self.started.time(), self.started.elapsed());
            let end = End { started, duration, outcome, polls: 0, busy: Elapsed::ZERO };
            events.stop_alone(&end, &Alone(&self.begun));
        }
    }
}

/// As [`Scope::return_to`](super::scope::Scope::return_to) does.
#[cold]
#[inline(never)]
fn enter_again(span: &mut Single) {
    span.entered = Entered::NOTHING;
    span.entered = frames::enter_span(&span.begun);
}

/// Out of line, because few spans have a `tracestate`.
#[cold]
#[inline(never)]
fn release(span: &mut Option<Single>) {
    *span = None;
}

/// Releases a span whose event unwinds.
struct Unwinding<'a, E: SpanEvents>(&'a mut SingleCall<E>);

impl<E: SpanEvents> Drop for Unwinding<'_, E> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let SingleCall { span, events } = &mut *self.0;
        if let Some(span) = &**span {
            frames::leave(&span.entered);
        }
        release(span);
        **events = None;
    }
}

impl<E: SpanEvents> Drop for SingleCall<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.span.is_some() {
            self.end(None);
        }
    }
}
