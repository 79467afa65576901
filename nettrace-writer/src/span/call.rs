//! What the code of `#[traced]` calls.

use std::{
    fmt,
    mem::{self, ManuallyDrop},
};

use nettrace_event::{
    EventType, FieldType, NOT_REGISTERED, PayloadEncoder, TextField, TraceEvent, TraceField,
    encoding,
};

use super::{End, EnteredSpan, Outcome, Parent, Sampling, SpanEvents};
use crate::{
    context::frames,
    emit::{sampled_out::leave_out, single},
    sessions,
};

/// Whether anybody listens to a span whose Start has this type.
#[inline(always)]
#[must_use]
pub fn is_wanted(start: &'static EventType) -> bool {
    match start.enabled() {
        0 => false,
        NOT_REGISTERED => is_wanted_at_first(start),
        _ => true,
    }
}

/// [`is_wanted`] before the first event of the type.
#[cold]
#[inline(never)]
fn is_wanted_at_first(start: &'static EventType) -> bool {
    (start.is_registered() || sessions::register(start)) && start.enabled() != 0
}

/// Counts a span of one event that begins in a tree that is sampled out: it has no Start that would
/// be counted.
#[inline]
pub fn count_if_sampled_out(ty: &'static EventType) {
    if frames::is_sampled_out() {
        leave_out(ty, ty.enabled());
    }
}

/// Records the event of a span of one event, which has ended so.
#[inline(always)]
pub fn emit_single<T: TraceEvent>(event: T, end: &End) {
    // A copy, so that nothing refers to the whole of `end`.
    let span = end.single;
    single::emit_single(event, span.as_ref());
}

/// The span of a call, if somebody listens. What begins and ends it is out of line, so that a
/// function whose calls nobody listens to has little more than two branches.
#[derive(Debug)]
pub struct Call<E: SpanEvents> {
    /// Dropped here, out of line, and not once more by the compiler's own code.
    span: ManuallyDrop<Option<EnteredSpan<E>>>,
}

impl<E: SpanEvents> Call<E> {
    /// A call that nobody listens to.
    #[inline(always)]
    #[must_use]
    pub fn off() -> Self {
        Self { span: ManuallyDrop::new(None) }
    }

    /// Begins the span where this is, in the one in force, and enters it. It is large: whatever
    /// moved it would read what has just been written, in other pieces, and the processor would
    /// wait for that. So `events` makes the events there, too.
    #[inline(never)]
    pub fn begin(&mut self, events: impl FnOnce() -> E, start: impl FnOnce()) {
        self.begin_with(events, Parent::Current, None, start);
    }

    /// [`begin`](Self::begin) anywhere.
    #[inline(never)]
    pub fn begin_in(
        &mut self,
        events: impl FnOnce() -> E,
        parent: Parent<'_>,
        start: impl FnOnce(),
    ) {
        self.begin_with(events, parent, None, start);
    }

    /// [`begin`](Self::begin) for a span that decides if it is a root.
    #[inline(never)]
    pub fn begin_sampled(
        &mut self,
        events: impl FnOnce() -> E,
        parent: Parent<'_>,
        sampling: Sampling,
        start: impl FnOnce(),
    ) {
        self.begin_with(events, parent, Some(sampling), start);
    }

    #[inline(always)]
    fn begin_with(
        &mut self,
        events: impl FnOnce() -> E,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
        start: impl FnOnce(),
    ) {
        if parent.is_sampled_out() {
            return start();
        }
        self.span = ManuallyDrop::new(Some(EnteredSpan::off(events())));
        if let Some(span) = &mut *self.span {
            span.begin_here(parent, sampling, start);
        }
    }

    /// Ends the span. `stop` records the Stop: see [`EnteredSpan::end_with`].
    #[inline(always)]
    pub fn end_with(mut self, stop: impl FnOnce(&mut E, End)) {
        if self.span.is_some() {
            self.end_now(stop);
        }
    }

    #[inline(never)]
    fn end_now(&mut self, stop: impl FnOnce(&mut E, End)) {
        self.end_where_it_is(|span| span.end_where_it_is(stop));
    }

    #[inline(never)]
    fn drop_now(&mut self) {
        self.end_where_it_is(EnteredSpan::end_at_drop);
    }

    /// Calls `end`, and drops the span where it is, because it is large.
    #[inline(always)]
    fn end_where_it_is<F: FnOnce(&mut EnteredSpan<E>)>(&mut self, end: F) {
        let unwinding = Unwinding(&mut self.span);
        if let Some(span) = &mut **unwinding.0 {
            end(span);
            span.release::<F>();
        }
        // Does not drop anything.
        *unwinding.0 = ManuallyDrop::new(None);
        mem::forget(unwinding);
    }
}

/// Releases a span whose end unwinds.
struct Unwinding<'a, E: SpanEvents>(&'a mut ManuallyDrop<Option<EnteredSpan<E>>>);

impl<E: SpanEvents> Drop for Unwinding<'_, E> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(span) = &mut **self.0 {
            span.release::<Self>();
        }
        *self.0 = ManuallyDrop::new(None);
    }
}

impl<E: SpanEvents> Drop for Call<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.span.is_some() {
            self.drop_now();
        }
    }
}

/// Calls the body of a function. The bound makes the closure one that is called once, so that it
/// can return references into what it captures.
#[inline(always)]
pub fn call<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The value that a call returned. Its method `outcome` is this type's for a `Result`, and
/// [`AnyReturned`]'s for every other type.
#[derive(Debug)]
pub struct Returned<'a, T>(pub &'a T);

impl<T, E> Returned<'_, Result<T, E>> {
    /// By the variant.
    #[inline]
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.0)
    }
}

/// The outcome of a call that did not return a `Result`.
pub trait AnyReturned {
    /// It returned.
    #[inline]
    #[must_use]
    fn outcome(&self) -> Outcome {
        Outcome::Ok
    }
}

impl<T> AnyReturned for Returned<'_, T> {}

/// A returned value or an error, recorded as text.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// By its `Debug`.
    Debug(&'a dyn fmt::Debug),
    /// By its `Display`.
    Display(&'a dyn fmt::Display),
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debug(value) => value.fmt(f),
            Self::Display(value) => value.fmt(f),
        }
    }
}

impl TraceField for Shown<'_> {
    const TYPE: FieldType = <str as TraceField>::TYPE;

    #[inline(never)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        <Self as TextField<encoding::Debug>>::encode_text(self, encoder);
    }
}
