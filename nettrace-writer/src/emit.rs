//! The path of an event from the caller to its thread's buffer.

pub(crate) mod any_event;
pub(crate) mod apart;
mod general;
mod in_place;
mod origin;
pub(crate) mod sampled_out;
mod slow;
#[cfg(feature = "user_events")]
mod tracepoint;

use std::num::NonZero;

use nettrace_event::{EventType, TraceEvent};

use self::{
    any_event::AnyEvent,
    general::{Outcome, attempt, emit_somewhere},
    in_place::place_now,
    origin::NO_ORIGIN,
    sampled_out::leave_out,
    slow::{record_slowly, relabel},
};
use crate::{
    context::frames,
    shared::local::{self, ThreadBuffer},
    sync::{Ordering, fence},
};

pub(crate) use self::general::emit_to;
pub use self::origin::{MAX_STACK_FRAMES, Origin};

/// Records events: every type that implements [`TraceEvent`] has these methods.
///
/// ```
/// use nettrace_writer::{Emit, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Answered {
///     micros: u64,
/// }
///
/// /// Takes any event, and passes its value on.
/// fn traced<E: TraceEvent>(event: E) -> E {
///     (&event).emit();
///     event
/// }
///
/// assert_eq!(traced(Answered { micros: 180 }).micros, 180);
/// ```
pub trait Emit: TraceEvent {
    /// Records the event in every session that listens to its type. If none does, this costs one
    /// load and one branch.
    ///
    /// Never fails and never panics: an event that cannot be recorded is counted. Never blocks,
    /// unless a session [asks for it](crate::OnFull::Block).
    ///
    /// Takes the event by value. So its fields need not be in memory before the check whether a
    /// session listens. To keep the event, write `(&event).emit()`.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered<'a> {
    ///     url: &'a str,
    ///     micros: u64,
    /// }
    ///
    /// Answered { url: "/cart", micros: 200 }.emit(); // nobody listens
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let event = Answered { url: "/cart", micros: 180 };
    /// (&event).emit();
    /// event.emit();
    /// assert_eq!(session.finish()?.written, 2);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            record(&self, word, ty);
        }
    }

    /// Records the event with a stack or a related thread. Otherwise as [`emit`](Self::emit).
    ///
    /// ```
    /// use nettrace_writer::{Origin, Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Allocated {
    ///     bytes: u64,
    /// }
    ///
    /// // Return addresses, from whatever walks stacks in the application.
    /// let addresses = [0x5555_0010, 0x5555_0200];
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// Allocated { bytes: 4_096 }.emit_with(&Origin::new().stack(&addresses));
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline]
    fn emit_with(&self, origin: &Origin<'_>) {
        let ty = self.event_type();
        let word = ty.enabled();
        if word != 0 && !is_left_out(ty, word) {
            emit_somewhere(&self, ty, word, origin);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// Records an event, and evaluates the expression that makes it only if a session listens. If none
/// does, this costs one load and one branch, however expensive the expression is. ([`Emit::emit`]
/// checks as cheaply, but its event exists already.)
///
/// ```
/// # use nettrace_writer::emit;
/// # #[derive(nettrace_writer::TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Snapshot { rows: usize }
/// # fn count_rows() -> usize { 3 }
/// emit!(Snapshot { rows: count_rows() });
/// ```
#[macro_export]
macro_rules! emit {
    ($event:expr) => {
        $crate::emit_lazy(|| $event)
    };
}

/// Records the event that `event` returns. Calls `event` only if a session listens.
///
/// ```
/// # use nettrace_writer::emit_lazy;
/// # #[derive(nettrace_writer::TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Snapshot { rows: usize }
/// # fn count_rows() -> usize { 3 }
/// emit_lazy(|| Snapshot { rows: count_rows() });
/// ```
#[inline]
pub fn emit_lazy<T: TraceEvent>(event: impl FnOnce() -> T) {
    if T::is_any_enabled() {
        event().emit();
    }
}

/// [`Emit::emit`] for an event of any type.
pub(crate) fn emit_any(event: &dyn AnyEvent, ty: &'static EventType) {
    if let Some(word) = NonZero::new(ty.enabled()) {
        record(event, word, ty);
    }
}

/// Records an event to whose type somebody listens: the way of every event. Exists once, so that it
/// stays in the processor's caches.
#[inline(never)]
fn record(event: &dyn AnyEvent, word: NonZero<u32>, ty: &'static EventType) {
    let Some(buffer) = local::current(word) else {
        see_listener();
        return record_elsewhere(event, word, ty);
    };
    if !buffer.record.begin_usual() {
        see_listener();
        return record_unusually(buffer, event, ty);
    }
    // The usual clock is the counter.
    if place_now(buffer, event, ty).is_none() {
        record_or_move_on(buffer, event, ty);
    }
}

/// Comes between the load of a type's word and the loads of what was stored before a listener's bit
/// was set: what registration has found out about the type, the session. Pairs with the release in
/// `registry::listen`. On AArch64 it is an instruction, which waits for all loads before it.
#[inline(always)]
pub(crate) fn see_listener() {
    fence(Ordering::Acquire);
}

/// Whether the event is in a tree that sampling left out, and is left out with it. It is counted
/// then.
#[inline]
pub fn is_left_out(ty: &'static EventType, word: u32) -> bool {
    frames::is_sampled_out() && leave_out(ty, word)
}

/// [`record`] for an event that does not go to the thread's current buffer. In a tree that sampling
/// left out, that is every event: an event that is recorded in spite of it makes no buffer the
/// current one.
#[cold]
#[inline(never)]
fn record_elsewhere(event: &dyn AnyEvent, word: NonZero<u32>, ty: &'static EventType) {
    if frames::is_sampled_out() {
        if !leave_out(ty, word.get()) {
            emit_somewhere(event, ty, word.get(), &NO_ORIGIN);
        }
        return;
    }
    match local::buffer_of(word.get()) {
        Some(buffer) => record_after_change(buffer, event, ty),
        None => emit_somewhere(event, ty, word.get(), &NO_ORIGIN),
    }
}

/// Records into a buffer that is not the current one, because labels changed or because the event
/// before went to another session. Makes it the current one if its labels are those in force.
fn record_after_change(buffer: &ThreadBuffer, event: &dyn AnyEvent, ty: &'static EventType) {
    if !buffer.record.begin_usual() {
        return record_unusually(buffer, event, ty);
    }
    if !relabel(buffer) {
        return record_or_move_on(buffer, event, ty);
    }
    local::make_current(buffer);
    if place_now(buffer, event, ty).is_none() {
        record_or_move_on(buffer, event, ty);
    }
}

/// Records into a record whose mode is not the usual one, or counts the event as nested if the
/// record is busy.
#[cold]
#[inline(never)]
fn record_unusually(buffer: &ThreadBuffer, event: &dyn AnyEvent, ty: &'static EventType) {
    let slot = buffer.session.slot;
    if attempt(buffer, event, ty, &NO_ORIGIN) == Outcome::Closed {
        emit_somewhere(event, ty, 1 << slot, &NO_ORIGIN);
    }
}

/// [`record_slowly`]. If the session is over, goes on with the next one in the same slot.
#[cold]
#[inline(never)]
fn record_or_move_on(buffer: &ThreadBuffer, event: &dyn AnyEvent, ty: &'static EventType) {
    let slot = buffer.session.slot;
    if record_slowly(buffer, event, ty, &NO_ORIGIN) == Outcome::Closed {
        emit_somewhere(event, ty, 1 << slot, &NO_ORIGIN);
    }
}
