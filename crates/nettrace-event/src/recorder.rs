//! The recorder of events: none until a backend attaches itself.
//!
//! An event whose word is not 0 goes to [`record`], which knows one recorder. At first that is
//! [`NOBODY`]. It sets aside the types whose events it meets, for the backends that are
//! [installed](crate::registry::install) later, and makes their words 0. So from the second event
//! on, an event costs one load and one branch.
//!
//! `nettrace-writer` attaches its own before a session's bit can be in any word, and never detaches
//! it. Whoever reads such a bit finds the writer's: see [`somebody`].
//!
//! # Unsafe
//!
//! - R3: a pointer comes from `&'static` references to a [`Recorder`], or from the function in one,
//!   so turning it back into such is always sound.
#![allow(unsafe_code, reason = "R3")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a seam: one pointer")]

use core::{
    fmt, mem, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence},
};

use crate::{
    any_event::AnyEvent,
    event::{EventType, NOT_REGISTERED},
    registry,
};

/// The functions that record events. It must be a `static`.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use nettrace_event::{AnyEvent, Emit, EventType, Recorder, TraceEvent, registry};
/// # use nettrace_event::{PayloadEncoder, example::SALE as SCHEMA};
/// # static SALE: EventType = EventType::new(&SCHEMA);
/// # struct Sale { cents: u32 }
/// # impl TraceEvent for Sale {
/// #     fn event_types() -> &'static [&'static EventType] { &[] }
/// #     fn event_type(&self) -> &'static EventType { &SALE }
/// #     fn encode<E: PayloadEncoder>(&self, encoder: &mut E) { encoder.u32(self.cents); }
/// # }
///
/// static EVENTS: AtomicU32 = AtomicU32::new(0);
///
/// /// Counts events. The recorder of a tracing library would keep them.
/// fn count(_: &dyn AnyEvent, _: &'static EventType) {
///     EVENTS.fetch_add(1, Ordering::Relaxed);
/// }
///
/// static COUNTING: Recorder =
///     Recorder { record: count, register: |ty| registry::register(ty).is_ok() };
///
/// Sale { cents: 1_250 }.emit(); // nobody records it
/// COUNTING.attach();
/// Sale { cents: 1_250 }.emit(); // nobody listens
/// # registry::register(&SALE)?;
/// registry::listen(&SALE, 1, 0);
/// Sale { cents: 1_250 }.emit();
/// assert_eq!(EVENTS.load(Ordering::Relaxed), 1);
/// # Ok::<(), registry::RegisterError>(())
/// ```
#[allow(clippy::exhaustive_structs, reason = "one backend makes it")]
pub struct Recorder {
    /// Records an event of a type whose word was not 0. It may be another one by now, and may be
    /// [`NOT_REGISTERED`].
    pub record: fn(&dyn AnyEvent, &'static EventType),
    /// Registers a type before its first event, so that its word is valid. Returns `false` if it
    /// cannot do so now.
    pub register: fn(&'static EventType) -> bool,
}

impl Recorder {
    /// Makes this the recorder of all events of the process, from now on. Call it before
    /// [`registry::install`], which registers the types that were met before.
    ///
    /// A process has one recorder. If there is another one, it gets no events any more, and
    /// [`is_replaced`] says so.
    pub fn attach(&'static self) {
        let own = ptr::from_ref(self).cast_mut();
        // Before the recorder itself, so that who finds that finds this.
        RECORD.store(self.record as *mut (), Ordering::SeqCst);
        // SeqCst: see `somebody`. It is also a release: see there.
        let before = RECORDER.swap(own, Ordering::SeqCst);
        if !ptr::eq(before, own) && !ptr::eq(before, &raw const NOBODY) {
            IS_REPLACED.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether a recorder has taken the place of another one, whose sessions record nothing any more.
/// This happens if a program has two backends, or two versions of one.
#[must_use]
pub fn is_replaced() -> bool {
    // Relaxed: only this flag counts.
    IS_REPLACED.load(Ordering::Relaxed)
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

static NOBODY: Recorder = Recorder { record: nobody_records, register: nobody_registers };
static IS_REPLACED: AtomicBool = AtomicBool::new(false);
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new((&raw const NOBODY).cast_mut());
/// [`Recorder::record`] of the recorder, so that an event calls it by one indirect call.
static RECORD: AtomicPtr<()> = AtomicPtr::new(nobody_records as *mut ());

/// The type of [`Recorder::record`].
type Record = fn(&dyn AnyEvent, &'static EventType);

/// Records an event to whose type somebody listens, or which is the first of its type. In line, so
/// that there is one call and not two.
#[inline]
pub(crate) fn record(event: &dyn AnyEvent, ty: &'static EventType) {
    // Relaxed: code is never written to. An old value leads to `somebody`.
    let record = RECORD.load(Ordering::Relaxed);
    // SAFETY: R3: all that is ever stored are functions of this type. (A function has the size of a
    // pointer on every target that has threads.)
    let record = unsafe { mem::transmute::<*mut (), Record>(record) };
    record(event, ty);
}

/// Whether anybody listens to a type. If it is not registered, it is now. For whatever comes before
/// an event, such as a span before its Start.
///
/// ```
/// use nettrace_event::{EventType, is_wanted, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// assert!(!is_wanted(&SALE));
/// # registry::register(&SALE)?;
/// registry::listen(&SALE, 1, 0);
/// assert!(is_wanted(&SALE));
/// # Ok::<(), registry::RegisterError>(())
/// ```
#[inline]
#[must_use]
pub fn is_wanted(ty: &'static EventType) -> bool {
    match ty.enabled() {
        0 => false,
        NOT_REGISTERED => is_wanted_at_first(ty),
        _ => true,
    }
}

#[cold]
#[inline(never)]
fn is_wanted_at_first(ty: &'static EventType) -> bool {
    // Relaxed: as in `record`.
    (ty.is_settled() || (recorder(Ordering::Relaxed).register)(ty)) && ty.enabled() != 0
}

fn recorder(ordering: Ordering) -> &'static Recorder {
    // SAFETY: R3.
    unsafe { &*RECORDER.load(ordering) }
}

fn nobody_records(event: &dyn AnyEvent, ty: &'static EventType) {
    if let Some(recorder) = somebody(ty.enabled(), ty) {
        (recorder.record)(event, ty);
    }
}

fn nobody_registers(ty: &'static EventType) -> bool {
    somebody(NOT_REGISTERED, ty).is_some_and(|recorder| (recorder.register)(ty))
}

/// The recorder attached by now. If that is nobody, a type that is not registered is set aside, and
/// its word becomes 0.
///
/// This loads the pointer again, because a recorder may have been attached meanwhile, and this
/// thread must not miss it:
///
/// - If the thread has read a listener's bit in the word, the recorder was attached before that bit
///   was set. The fence pairs with the release in `registry::change`, so the load finds the
///   recorder.
/// - If the word says that the type is not registered, the type is now in the list of those that
///   were set aside. Its insertion, this load, [`Recorder::attach`] and the walk of that list in
///   [`registry::install`] are all SeqCst and thus in one order. So either this load finds the
///   recorder, which registers the type, or the walk finds the type.
///
/// The word becomes 0 only in the second case. Nobody listens before that walk is over, so no other
/// thread reads the 0 while a session wants the type.
#[cold]
fn somebody(word: u32, ty: &'static EventType) -> Option<&'static Recorder> {
    let is_set_aside = word == NOT_REGISTERED && registry::set_aside(ty);
    fence(Ordering::Acquire);
    let recorder = recorder(Ordering::SeqCst);
    if !ptr::eq(recorder, &raw const NOBODY) {
        return Some(recorder);
    }
    if is_set_aside {
        // Relaxed: registration, if it was faster, has put in another value.
        let word = ty.enabled_word();
        let _ = word.compare_exchange(NOT_REGISTERED, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
    None
}
