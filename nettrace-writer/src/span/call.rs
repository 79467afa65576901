//! What the code of `#[traced]` calls.

use std::{
    convert::Infallible,
    fmt,
    mem::{self, ManuallyDrop},
};

use nettrace_event::{
    EventType, FieldType, NOT_REGISTERED, PayloadEncoder, TextField, TraceEvent, TraceField,
    encoding,
};

use super::{
    Alone, Elapsed, End, EnteredSpan, Outcome, Parent, Sampling, Span, SpanEvents, Started,
    entered::Entry, open::Open, scope::Scope,
};
use crate::{
    Emit as _,
    context::frames::{self, Begun, Entered},
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
    (start.is_settled() || sessions::register(start)) && start.enabled() != 0
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
pub fn emit_single<T: TraceEvent>(event: T) {
    // The type is a struct. To ask the event would make it.
    if let Some(ty) = T::event_types().first() {
        single::emit_last(&event, ty, None);
    }
}

/// [`emit_single`] for a span whose ids are at hand.
#[inline(always)]
pub fn emit_alone<T: TraceEvent>(event: T, Alone(span): &Alone<'_>) {
    if let Some(ty) = T::event_types().first() {
        single::emit_last(&event, ty, Some((&span.ids, span.number)));
    }
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

    /// [`begin`](Self::begin) with a Start that takes no code of the application to make. It is
    /// recorded where the ids are made.
    #[inline(never)]
    pub fn begin_with_event(&mut self, events: impl FnOnce() -> E, start: impl TraceEvent) {
        if frames::is_sampled_out() {
            return start.emit();
        }
        self.span = ManuallyDrop::new(Some(EnteredSpan::off(events())));
        if let Some(span) = &mut *self.span {
            span.begin_with_event(start);
        }
    }

    /// Ends the span with an outcome, if its last event tells of no more than that and the time.
    #[inline(always)]
    pub fn end_as(mut self, outcome: Outcome) {
        if let Some(span) = &mut *self.span {
            match E::plain_stop() {
                Some(ty) => span.end_plain(ty, Some(outcome)),
                None => self.end_alone(Some(outcome)),
            }
            // There is nothing left to drop.
            mem::forget(self);
        }
    }

    /// Ends the span. `stop` records the Stop. It is told that the outcome is [`Outcome::Ok`], and
    /// may know better.
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

    /// Ends a span of one event.
    #[inline(never)]
    fn end_alone(&mut self, outcome: Option<Outcome>) {
        self.end_where_it_is(|span| span.end_alone(outcome));
    }

    /// Calls `end`, and drops the span where it is, because it is large.
    #[inline(always)]
    fn end_where_it_is(&mut self, end: impl FnOnce(&mut EnteredSpan<E>)) {
        let unwinding = Unwinding(&mut self.span);
        if let Some(span) = &mut **unwinding.0 {
            end(span);
            span.release();
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
            span.release();
        }
        *self.0 = ManuallyDrop::new(None);
    }
}

impl<E: SpanEvents> Drop for Call<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(span) = &mut *self.span {
            match E::plain_stop() {
                Some(ty) => span.end_plain(ty, None),
                None if E::IS_SINGLE => self.end_alone(None),
                None => self.drop_now(),
            }
        }
    }
}

impl<E: SpanEvents> EnteredSpan<E> {
    /// [`begin_here`](Self::begin_here) in the span in force, with a Start that takes no code of
    /// the application to make.
    #[inline(always)]
    fn begin_with_event<T: TraceEvent>(&mut self, start: T) {
        let ty = start.event_type();
        let Some(Entry { scope, .. }) = entry_of_nothing(&mut self.entry) else { return };
        let open = &mut self.span.open;
        match frames::begin_event(&mut open.begun, &mut scope.0, ty.enabled()) {
            Some(buffer) => open.started = single::emit_first(&start, ty, buffer),
            None => self.begin_otherwise(start),
        }
    }

    /// Goes on with [`begin_with_event`](Self::begin_with_event) if the ids are not in the chunk
    /// yet.
    #[cold]
    #[inline(never)]
    fn begin_otherwise(&mut self, start: impl TraceEvent) {
        self.decide_and_start(|| start.emit());
    }

    #[inline]
    fn decide_and_start(&mut self, start: impl FnOnce()) {
        if let (Some(begun), Some(Entry { scope, .. })) = (&mut self.span.open.begun, &self.entry) {
            if begun.is_undecided() {
                begun.decide(&scope.0, None, begun.ids.related.is_none());
            }
        }
        start();
        self.span.open.has_started(E::IS_SINGLE);
    }

    /// Records the event of a span that has no other. The span is still to be dropped.
    #[inline(always)]
    fn end_alone(&mut self, outcome: Option<Outcome>) {
        let Self { span: Span { open: Open { begun, started }, events }, entry, .. } = self;
        let (Some(span), Some(entry)) = (begun, entry) else { return };
        entry.scope.return_to(span);
        // If it is sampled out, there is no event.
        if started.is_known() {
            let outcome = outcome.unwrap_or_else(|| entry.outcome_now());
            let (duration, busy) = (started.elapsed(), Elapsed::ZERO);
            let end = End { started: started.time(), duration, outcome, polls: 0, busy };
            events.stop_alone(&end, &Alone(span));
        }
    }

    /// Ends the span, and drops what it has. Then there is nothing left to drop.
    #[inline(always)]
    fn end_plain(&mut self, ty: &'static EventType, outcome: Option<Outcome>) {
        const { assert!(E::IS_SINGLE || !mem::needs_drop::<E>()) };
        let Self { span: Span { open: Open { begun, started }, .. }, entry, .. } = self;
        end_plain(begun, entry, *started, ty, outcome);
    }
}

/// The entry of a span that is put in force next.
#[inline(always)]
fn entry_of_nothing(entry: &mut Option<Entry>) -> Option<&mut Entry> {
    // There is nothing to drop.
    mem::forget(entry.replace(Entry::new(Scope(Entered::NOTHING))));
    entry.as_mut()
}

/// Ends the span of a call whose Stop is plain. All such calls share this code. So it is in the
/// processor's caches if any of them has just ended.
#[inline(never)]
fn end_plain(
    open: &mut Option<Begun>,
    entry: &mut Option<Entry>,
    started: Started,
    ty: &'static EventType,
    outcome: Option<Outcome>,
) {
    let (Some(span), Some(entry)) = (&*open, entry) else { return };
    entry.scope.return_to(span);
    // If recording the Start has unwound, there is no Stop. Nor if it is sampled out.
    if started.is_known() {
        let outcome = outcome.unwrap_or_else(|| entry.outcome_now());
        let stop = PlainStop { ty, duration: started.elapsed(), outcome };
        single::emit_last(&stop, ty, Some((&span.ids, span.number)));
    }
    frames::leave(&entry.scope.0);
    if span.state.is_some() {
        release(open);
    }
}

#[cold]
#[inline(never)]
fn release(open: &mut Option<Begun>) {
    *open = None;
}

/// A Stop that tells of the time and the outcome, and of nothing else. The types of such events
/// have the same fields.
struct PlainStop {
    ty: &'static EventType,
    duration: Elapsed,
    outcome: Outcome,
}

impl TraceEvent for PlainStop {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.duration.encode_field(encoder);
        self.outcome.encode_field(encoder);
    }
}

/// Calls the body of a function. The bound makes the closure one that is called once, so that it
/// can return references into what it captures.
#[inline(always)]
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
    #[inline(always)]
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
    #[inline(always)]
    fn value(&self) -> Result<&T, Infallible> {
        Ok(self.0)
    }
}

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
