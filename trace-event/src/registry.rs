//! The event types of the process, and the backends that hear of each.
//!
//! An event type registers itself with its first emit, or earlier when it is asked to. Registration
//! checks that its id is its own, numbers it, and tells every backend, which then sets its bit in
//! the type's [word](EventType::enabled) if somebody listens. A backend that comes later walks
//! [`types`]. Either of the two meets the other: see the comment in [`register`].
//!
//! Types are never removed: they are statics. Walking needs no lock; registration takes a spin
//! lock (this crate is usable without an operating system) that is held for the time of one comparison with
//! the other types and of the backends' own work.
//!
//! # Unsafe
//!
//! One invariant (R1): the pointers in this module's lists come from `&'static` references and are
//! never changed once stored, so that turning one back into a reference is always right.
#![allow(unsafe_code, reason = "R1: intrusive lists of statics")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the registry is a seam")]

use core::{
    fmt,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

use crate::{
    event::{EventType, NOT_REGISTERED},
    schema::EventSchema,
};

/// How many event types a process can have: metadata ids stay within two bytes in every row.
pub const MAX_TYPES: u32 = (1 << 14) - 1;

/// Something that wants to hear of event types: all NetTrace sessions together are one backend,
/// tracepoints another.
pub trait Backend: Sync {
    /// A type was registered. Called once or more for each type (see [`register`]), under the
    /// registry's lock; must not register types itself. While the word is [`NOT_REGISTERED`] no bit may be
    /// set in it by `|`: [`listen`] does it right.
    fn attach(&self, ty: &'static EventType);

    /// The type's [word](EventType::enabled) is final: from now on somebody else than this process
    /// may set and clear a bit of it. Called after [`attach`](Self::attach), as often, and under
    /// the lock as well.
    fn settled(&self, ty: &'static EventType) {
        let _ = ty;
    }
}

/// A place in the list of backends; a `static` of the backend's.
#[derive(Debug)]
pub struct BackendEntry {
    backend: &'static dyn Backend,
    next: AtomicPtr<BackendEntry>,
    installed: AtomicBool,
}

impl BackendEntry {
    /// An entry for a backend, not installed yet.
    #[must_use]
    pub const fn new(backend: &'static dyn Backend) -> Self {
        Self { backend, next: AtomicPtr::new(ptr::null_mut()), installed: AtomicBool::new(false) }
    }
}

impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

/// Why a type was refused. Its events are then never recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another event of the provider has the same id but not the same definition.
    IdClash {
        /// The type that was refused.
        refused: &'static EventSchema,
        /// The type that has the id.
        holder: &'static EventSchema,
    },
    /// The process has [`MAX_TYPES`] event types already.
    TooManyTypes {
        /// The type that was refused.
        refused: &'static EventSchema,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdClash { refused, holder } => write!(
                f,
                "event `{}` of provider `{}` has id {}, which event `{}` has already{}; \
                 give it another with `#[trace_event(id = ...)]`",
                refused.name,
                refused.provider.name,
                refused.id,
                holder.name,
                if refused.id_is_explicit { "" } else { " (the id was derived from the name)" },
            ),
            Self::TooManyTypes { refused } => write!(
                f,
                "event `{}` of provider `{}` is one more than the {MAX_TYPES} event types that a process can have",
                refused.name, refused.provider.name,
            ),
        }
    }
}

impl core::error::Error for RegisterError {}

static LOCK: AtomicBool = AtomicBool::new(false);
static TYPES: AtomicPtr<EventType> = AtomicPtr::new(ptr::null_mut());
static BACKENDS: AtomicPtr<BackendEntry> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Registers an event type: numbers it and tells every backend of it. Does nothing when it is
/// registered already.
///
/// After it returns the type's [word](EventType::enabled) is final: a listener's bit, or 0.
///
/// # Errors
///
/// [`RegisterError`] when the type is refused; it stays refused, and its word 0.
pub fn register(ty: &'static EventType) -> Result<(), RegisterError> {
    if ty.is_registered() {
        return Ok(());
    }
    let _guard = lock();
    if ty.is_registered() {
        return Ok(());
    }
    let index = match admit(ty.schema()) {
        Ok(index) => index,
        Err(error) => {
            ty.enabled_word().store(0, Ordering::Relaxed);
            return Err(error);
        }
    };
    ty.set_index(index);
    // The type goes into the list before the backends are read, and `install` puts a backend into its
    // list before it reads the types: with both in the one order of SeqCst at least one side meets the
    // other, and both may, which is why `attach` can come twice.
    let head = TYPES.load(Ordering::SeqCst);
    ty.next.store(head, Ordering::Relaxed);
    TYPES.store(ptr::from_ref(ty).cast_mut(), Ordering::SeqCst);
    for entry in backends() {
        entry.backend.attach(ty);
    }
    let _ =
        ty.enabled_word().compare_exchange(NOT_REGISTERED, 0, Ordering::Relaxed, Ordering::Relaxed);
    ty.set_registered();
    for entry in backends() {
        entry.backend.settled(ty);
    }
    Ok(())
}

/// Puts a backend into the list and tells it of every type that is registered. Does nothing when it is there.
pub fn install(entry: &'static BackendEntry) {
    let _guard = lock();
    if entry.installed.swap(true, Ordering::Relaxed) {
        return;
    }
    let head = BACKENDS.load(Ordering::SeqCst);
    entry.next.store(head, Ordering::Relaxed);
    BACKENDS.store(ptr::from_ref(entry).cast_mut(), Ordering::SeqCst);
    for ty in types() {
        entry.backend.attach(ty);
        entry.backend.settled(ty);
    }
}

/// Every registered type, the newest first. Types of identical definition share an index.
pub fn types() -> impl Iterator<Item = &'static EventType> {
    walk(&TYPES, |ty: &EventType| &ty.next)
}

/// Sets (or clears) bits in a type's word as a backend has to: what stands there before registration is replaced. A release: whoever sees
/// a bit by an acquire sees the type's index.
pub fn listen(ty: &EventType, set: u32, clear: u32) {
    let _ = ty.enabled_word().fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
        let word = if word == NOT_REGISTERED && !ty.is_registered() { 0 } else { word };
        Some((word & !clear) | set)
    });
}

/// Puts the registry in order in a child process: called from the child's side of `fork`, where only
/// one thread is left. No session listens; a registration that another thread had begun is forgotten.
///
/// `session_bits` are cleared in every word; the kernel keeps its own bit.
pub fn after_fork(session_bits: u32) {
    LOCK.store(false, Ordering::Relaxed);
    for ty in types() {
        if ty.is_registered() {
            listen(ty, 0, session_bits);
        } else {
            // In the list but not finished: it stays there, and is finished without its backends' bits.
            ty.enabled_word().store(0, Ordering::Relaxed);
            ty.set_registered();
        }
    }
}

fn backends() -> impl Iterator<Item = &'static BackendEntry> {
    walk(&BACKENDS, |entry: &BackendEntry| &entry.next)
}

/// The index for a new type: that of its twin where the same definition is registered, else the next.
fn admit(schema: &'static EventSchema) -> Result<u32, RegisterError> {
    for other in types() {
        let holder = other.schema();
        if holder.provider.name == schema.provider.name && holder.id == schema.id {
            if holder == schema {
                return Ok(other.index());
            }
            return Err(RegisterError::IdClash { refused: schema, holder });
        }
    }
    let count = COUNT.load(Ordering::Relaxed);
    if count == MAX_TYPES {
        return Err(RegisterError::TooManyTypes { refused: schema });
    }
    COUNT.store(count + 1, Ordering::Relaxed);
    Ok(count + 1)
}

fn walk<T: 'static>(
    head: &'static AtomicPtr<T>,
    next: fn(&'static T) -> &'static AtomicPtr<T>,
) -> impl Iterator<Item = &'static T> {
    // Acquire pairs with the release part of the SeqCst stores that publish an entry.
    let mut at = NonNull::new(head.load(Ordering::SeqCst));
    core::iter::from_fn(move || {
        // SAFETY: R1.
        let entry: &'static T = unsafe { at?.as_ref() };
        at = NonNull::new(next(entry).load(Ordering::Acquire));
        Some(entry)
    })
}

struct Guard;

fn lock() -> Guard {
    // Acquire pairs with the release in `Guard::drop`.
    while LOCK.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        relax();
    }
    Guard
}

impl Drop for Guard {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

#[cfg(feature = "std")]
fn relax() {
    std::thread::yield_now();
}

#[cfg(not(feature = "std"))]
fn relax() {
    core::hint::spin_loop();
}
