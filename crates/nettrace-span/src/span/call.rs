//! Functions for the code of `#[traced]`.

use std::{convert::Infallible, fmt, marker::PhantomData, mem};

use nettrace_event::{
    Emit as _, EventType, FieldType, PayloadEncoder, TextField, TraceEvent, TraceField, encoding,
};

use super::{
    Elapsed, End, EnteredSpan, Outcome, Parent, PolledSpan, Sampling, Span, SpanEvents,
    engine::{self, Until, usual_spans},
};

/// Begins the span of a call where it stays: it is large. Whatever moved it would read what has
/// just been written, in other pieces, and the processor would wait for that.
///
/// Out of line, so that a function whose calls nobody listens to has little more than two branches.
#[inline(never)]
pub fn begin<E: SpanEvents>(
    place: &mut Option<EnteredSpan<E>>,
    events: impl FnOnce() -> E,
    parent: Parent<'_>,
    sampling: Option<Sampling>,
    start: impl FnOnce(&mut E),
) {
    // It is nothing, and the code that would drop it is not needed.
    mem::forget(place.replace(EnteredSpan::off(events())));
    if let Some(EnteredSpan { span, .. }) = place {
        span.begin_here(parent, sampling, Until::Return, start);
    }
}

/// [`begin`] for a span whose Start is an event that exists already.
#[inline(never)]
pub fn begin_event<E: SpanEvents, S: TraceEvent>(
    place: &mut Option<EnteredSpan<E>>,
    events: impl FnOnce() -> E,
    parent: Parent<'_>,
    sampling: Option<Sampling>,
    start: S,
) {
    // It is nothing, and the code that would drop it is not needed.
    mem::forget(place.replace(EnteredSpan::off(events())));
    if let Some(EnteredSpan { span, .. }) = place {
        span.begin_event_here(parent, sampling, Until::Return, &start);
    }
}

/// [`begin_event`] in the span in force, without sampling of its own.
#[inline(never)]
pub fn begin_usual<E: SpanEvents, S: TraceEvent>(
    place: &mut Option<EnteredSpan<E>>,
    events: impl FnOnce() -> E,
    start: S,
) {
    // As in `begin`.
    mem::forget(place.replace(EnteredSpan::off(events())));
    if let Some(EnteredSpan { span, .. }) = place {
        (usual_spans().begin)(&mut span.open, &start, start.event_type(), Until::Return);
    }
}

/// [`begin_event`] for a span of a future that is polled next, where it stays.
#[inline]
pub fn begin_event_polled<E: SpanEvents, S: TraceEvent>(
    span: &mut PolledSpan<E>,
    parent: Parent<'_>,
    sampling: Option<Sampling>,
    start: S,
) {
    span.span.begin_event_here(parent, sampling, Until::Poll, &start);
}

/// Begins a span of a future that is polled next. It is in force here until then.
#[inline]
pub fn begin_polled<E: SpanEvents>(
    events: E,
    parent: Parent<'_>,
    sampling: Option<Sampling>,
    start: impl FnOnce(&mut E),
) -> Span<E> {
    let mut span = Span::off(events);
    span.begin_here(parent, sampling, Until::Poll, start);
    span
}

/// Ends the span of a call with an outcome.
#[inline]
pub fn end<E: SpanEvents>(place: &mut Option<EnteredSpan<E>>, outcome: Outcome) {
    if let Some(EnteredSpan { span, .. }) = place {
        if let Some(ty) = E::plain_stop() {
            return (usual_spans().end)(&mut span.open, Some(outcome), ty, 0, Elapsed::ZERO);
        }
        engine::end(&mut span.open, Some(outcome), None, &mut span.events);
    }
}

/// Ends the span of a call. `stop` records the Stop. It is told that the outcome is
/// [`Outcome::Ok`], and may know better.
#[inline]
pub fn end_with<E: SpanEvents>(place: &mut Option<EnteredSpan<E>>, stop: impl FnOnce(&mut E, End)) {
    if let Some(EnteredSpan { span, .. }) = place {
        let mut returned = Returning { events: &mut span.events, stop: Some(stop) };
        engine::end(&mut span.open, Some(Outcome::Ok), None, &mut returned);
    }
}

/// The events of a span that ends with what a call returned.
struct Returning<'a, E, F> {
    events: &'a mut E,
    stop: Option<F>,
}

impl<E: SpanEvents, F: FnOnce(&mut E, End)> SpanEvents for Returning<'_, E, F> {
    fn stop(&mut self, end: &End) {
        if let Some(stop) = self.stop.take() {
            stop(self.events, *end);
        }
    }
}

/// Records a Stop that tells of nothing but the time and the outcome, and of polls if there may be
/// some. The types of such events have the same fields.
pub fn stop(ty: &'static EventType, end: &End, has_polls: bool) {
    let (duration, outcome, polls, busy) = (end.duration, end.outcome, end.polls, end.busy);
    PlainStop { ty, duration, outcome, has_polls, polls, busy }.emit();
}

/// A Stop that tells of nothing but time, outcome and polls.
#[derive(Debug)]
pub struct PlainStop {
    pub(super) ty: &'static EventType,
    pub(super) duration: Elapsed,
    pub(super) outcome: Outcome,
    pub(super) has_polls: bool,
    pub(super) polls: u32,
    pub(super) busy: Elapsed,
}

impl TraceEvent for PlainStop {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.duration.encode_field(encoder);
        self.outcome.encode_field(encoder);
        if self.has_polls {
            encoder.u32(self.polls);
            self.busy.encode_field(encoder);
        }
    }
}

/// Calls the body of a function. The bound makes the closure one that is called once, so that it
/// can return references into what it captures.
#[inline]
pub fn call<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The value that a call returned. Its methods are this type's for a `Result`, and
/// [`AnyReturned`]'s for every other type, also for another one with that name.
#[derive(Debug)]
pub struct Returned<'a, T>(pub &'a T);

impl<'a, T, E> Returned<'a, Result<T, E>> {
    /// By the variant.
    #[inline]
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.0)
    }

    /// What is in the variant.
    ///
    /// # Errors
    /// The error of the call.
    #[inline]
    pub fn value(&self) -> Result<&'a T, &'a E> {
        self.0.as_ref()
    }
}

/// The outcome of a call that did not return a `Result`.
pub trait AnyReturned<T> {
    /// It returned.
    #[inline]
    #[must_use]
    fn outcome(&self) -> Outcome {
        Outcome::Ok
    }

    /// The whole.
    ///
    /// # Errors
    /// Never.
    fn value(&self) -> Result<&T, Infallible>;
}

impl<T> AnyReturned<T> for Returned<'_, T> {
    #[inline]
    fn value(&self) -> Result<&T, Infallible> {
        Ok(self.0)
    }
}

/// Whether a type is a `Result`, under whatever name: [`NoResult`] says it of all others.
#[derive(Debug)]
pub struct IsResult<T: ?Sized>(PhantomData<T>);

impl<T, E> IsResult<Result<T, E>> {
    /// It is.
    pub const IS: bool = true;
}

/// What [`IsResult`] says of a type that is none.
pub trait NoResult {
    /// It is not.
    const IS: bool = false;
}

impl<T: ?Sized> NoResult for IsResult<T> {}

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
