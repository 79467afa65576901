//! The recorder that spans and contexts ask: none, until a backend attaches itself.
//!
//! `nettrace-writer` does so before a listener's bit can be in the word of any type, and stays
//! attached. While nobody is attached, no span begins.
//!
//! # Unsafe
//!
//! - P1: the pointer comes from `&'static` references, so turning it back into one is always sound.
#![allow(unsafe_code, reason = "P1")]

use std::{fmt, ptr};

use nettrace_event::EventType;

use crate::sync::{AtomicPtr, AtomicU32, Ordering, fence};

/// A word for the backend: not 0 while anybody may listen to anything. While it is 0, labels are
/// not kept.
pub static LISTENERS: AtomicU32 = AtomicU32::new(0);

/// Whether anybody listens to anything: one relaxed load. As with the words of types, a thread that
/// learns of a session's start from whoever started it sees the session.
#[inline]
pub(crate) fn anyone_listens() -> bool {
    LISTENERS.load(Ordering::Relaxed) != 0
}

/// What a backend tells of its own. It must be a `static`.
///
/// None of these functions may put anything in force on the thread.
#[allow(clippy::exhaustive_structs, reason = "one backend makes it")]
pub struct SpanRecorder {
    /// The [counter](crate::backend::counter) at the thread's last event. `None` if something else
    /// is in force since then, or if the event's time is that of another clock.
    pub last_counter: fn() -> Option<u64>,
    /// Leaves an event out, because what is in force is sampled out, and counts it. The type's word
    /// comes with it. Returns `false` if the event is to be recorded in spite of that.
    pub leave_out: fn(&'static EventType, u32) -> bool,
    /// The monotonic clock, in nanoseconds.
    pub monotonic: fn() -> u64,
    /// Random bits, by which the ids of this process differ from those of others. Called once.
    pub random: fn() -> u64,
}

impl SpanRecorder {
    /// Makes this what all spans and contexts of the process ask, from now on. Call it before
    /// [`nettrace_event::Recorder::attach`].
    pub fn attach(&'static self) {
        RECORDER.set(self);
    }
}

impl fmt::Debug for SpanRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanRecorder")
    }
}

static NOBODY: SpanRecorder = SpanRecorder {
    last_counter: || None,
    leave_out: |ty, word| look_again().is_some_and(|recorder| (recorder.leave_out)(ty, word)),
    monotonic: || look_again().map_or(0, |recorder| (recorder.monotonic)()),
    random: || look_again().map_or(0, |recorder| (recorder.random)()),
};
static RECORDER: Attached<SpanRecorder> = Attached::new(&NOBODY);

/// A static that a backend replaces.
pub(crate) struct Attached<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Attached<T> {
    pub(crate) const fn new(nobody: &'static T) -> Self {
        Self(AtomicPtr::new(ptr::from_ref(nobody).cast_mut()))
    }

    pub(crate) fn set(&self, backend: &'static T) {
        // Relaxed: see `look_again`.
        self.0.store(ptr::from_ref(backend).cast_mut(), Ordering::Relaxed);
    }

    /// What is attached, as far as the thread knows.
    #[inline]
    pub(crate) fn get(&self) -> &'static T {
        // Relaxed: what is attached is never written to. Who finds an old value goes on without a
        // backend, which leads to `look_again` or to events, or is right for a thread that has
        // recorded no event yet: it keeps nothing that changes.
        // SAFETY: P1.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}

/// What is attached, as far as the thread knows.
#[inline]
pub(crate) fn recorder() -> &'static SpanRecorder {
    RECORDER.get()
}

/// What is attached by now.
///
/// A span begins because its thread has read a listener's bit in the word of a type. The backend
/// was attached before that bit was set, so this finds it.
#[cold]
fn look_again() -> Option<&'static SpanRecorder> {
    // Pairs with the release in `registry::listen`.
    fence(Ordering::Acquire);
    Some(recorder()).filter(|recorder| !ptr::eq(*recorder, &raw const NOBODY))
}
