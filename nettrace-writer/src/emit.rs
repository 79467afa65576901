//! The path of an event from the caller to its thread's buffer.

mod begin;
#[cfg(feature = "testing")]
mod captured;
mod general;
mod in_place;
mod labels;
mod origin;
pub(crate) mod other_span;
pub(crate) mod sampled_out;
mod slow;
#[cfg(feature = "user_events")]
mod tracepoint;
mod usual_span;

use std::num::NonZero;

use nettrace_event::{Accompany, AnyEvent, EventType, Recorder, registry::RegisterError};
use nettrace_span::{backend::SpanRecorder, frames};

use self::{
    begin::{Outcome, see_listener},
    general::{attempt, emit_somewhere},
    in_place::place_now,
    labels::relabel,
    origin::NO_ORIGIN,
    sampled_out::leave_out,
    slow::record_slowly,
    usual_span::USUAL_SPANS,
};
use crate::{
    process::random,
    protocol::clock,
    shared::{
        buffer::ThreadBuffer,
        local, locks, refused_types,
        sessions::{self, handler_events},
    },
    sync::{AtomicBool, Ordering},
};

pub(crate) use self::general::{emit_to, lose_untyped};
pub use self::origin::{MAX_STACK_FRAMES, Origin};
#[doc(inline)]
pub use nettrace_event::{Emit, emit, emit_lazy};

/// What records the events of all crates, once this crate has attached itself.
static RECORDER: Recorder = Recorder { record, register: sessions::register };

/// The same for their spans and contexts.
static SPAN_RECORDER: SpanRecorder = SpanRecorder {
    last_counter: local::last_counter,
    leave_out,
    monotonic: clock::monotonic,
    random,
};

/// Makes an event type known before its first event. A type that is refused is remembered: its
/// events count as lost.
pub(crate) fn register(ty: &'static EventType) -> Result<(), RegisterError> {
    // The kernel may set its bit here, and in the words of types that were met before.
    attach();
    let registered = sessions::register_now(ty);
    match registered {
        Ok(()) | Err(RegisterError::Busy { .. }) => {}
        Err(error) => refused_types::note_refused(error.into()),
    }
    registered
}

/// Attaches this crate to those in which libraries have events, spans and contexts. To be called
/// before any bit of a listener is in a word, and before ids are made.
#[inline]
pub(crate) fn attach() {
    static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
    // Acquire pairs with the release below.
    if !IS_ATTACHED.load(Ordering::Acquire) {
        USUAL_SPANS.attach();
        static SETTLE: fn() = handler_events::settle;
        locks::on_release(&SETTLE);
        SPAN_RECORDER.attach();
        RECORDER.attach();
        IS_ATTACHED.store(true, Ordering::Release);
    }
}

impl Accompany for Origin<'_> {
    #[inline]
    fn record(&self, event: &dyn AnyEvent, word: NonZero<u32>, ty: &'static EventType) {
        if !is_left_out(ty, word.get()) {
            emit_somewhere(event, ty, word.get(), self);
        }
    }
}

/// [`Emit::emit`] for an event of any type.
pub(crate) fn emit_any(event: &dyn AnyEvent, ty: &'static EventType) {
    if ty.enabled() != 0 {
        record(event, ty);
    }
}

/// Records an event to whose type somebody listens: the way of every event. Exists once, so that it
/// stays in the processor's caches.
#[inline(never)]
fn record(event: &dyn AnyEvent, ty: &'static EventType) {
    let Some(buffer) = local::begin_current(ty) else { return record_elsewhere(event, ty) };
    // The usual clock is the counter.
    if place_now(buffer, event, ty).is_none() {
        record_or_move_on(buffer, event, ty);
    }
}

/// Whether the event is in a tree that sampling left out, and is left out with it. It is counted
/// then.
#[inline]
pub fn is_left_out(ty: &'static EventType, word: u32) -> bool {
    frames::is_sampled_out() && leave_out(ty, word)
}

/// [`record`] for an event that does not go to the thread's current buffer, or cannot begin there.
/// In a tree that sampling left out, that is every event: an event that is recorded in spite of it
/// makes no buffer the current one.
#[cold]
#[inline(never)]
fn record_elsewhere(event: &dyn AnyEvent, ty: &'static EventType) {
    let Some(word) = NonZero::new(ty.enabled()) else { return };
    see_listener();
    if frames::is_sampled_out() {
        if !leave_out(ty, word.get()) {
            emit_somewhere(event, ty, word.get(), &NO_ORIGIN);
        }
        return;
    }
    // The current buffer, if it is that which is busy, is the home too.
    match local::home(word).or_else(|| local::buffer_of(word.get())) {
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
    local::make_home(buffer);
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
