//! The event types of the process, and the backends that are told of each type.
//!
//! An event type registers with its first emit, or earlier on request. Registration assigns an
//! index and an id, and calls every backend. A backend sets its bit in the type's
//! [word](EventType::enabled) if somebody listens. A backend that is installed later walks
//! [`types`]. If both happen at once, at least one finds the other: see the comment in
//! [`register`].
//!
//! No two types of a provider have the same id. One whose author gave the id has that one. Any
//! other has the first of its [choices](crate::EventSchema::choices) that no other has, and goes on
//! to a later one if a type comes that was given it.
//!
//! A type that is refused is in a list of its own, so that whoever would have recorded its events
//! can count them.
//!
//! Types are never removed, because they are statics. Walking needs no lock. Registration holds a
//! lock while it compares the type with the others and calls the backends.
//!
//! # Unsafe
//!
//! - R1: the pointers in this module's lists come from `&'static` references and are never changed
//!   once stored, so turning one back into a reference is always sound.
//! - R2: the pointer to the lock is null or points to a leaked mutex, which is never freed.
#![allow(unsafe_code, reason = "R1: intrusive lists of statics; R2")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the registry is a seam")]

mod ids;
mod lock;
mod refused;

use core::{
    fmt, mem,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

pub use self::refused::RegisterError;
use crate::event::{EventType, LOST_BIT, NOT_REGISTERED};

/// The most event types of a process. Metadata ids then take at most two bytes in every row.
pub const MAX_TYPES: u32 = (1 << 14) - 1;

/// A backend, which is called for every event type. All NetTrace sessions together are one backend,
/// tracepoints are another.
///
/// ```
/// use std::sync::Mutex;
///
/// use nettrace_event::{
///     EventType, NOT_REGISTERED,
///     registry::{self, Backend, BackendEntry},
/// };
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// /// Lists the types of the process.
/// struct Listing(Mutex<Vec<&'static str>>);
///
/// impl Backend for Listing {
///     fn attach(&self, ty: &'static EventType) {
///         self.0.lock().unwrap().push(ty.schema().name);
///     }
///
///     fn settled(&self, ty: &'static EventType) {
///         // From here on the word has a bit for each listener.
///         assert_ne!(ty.enabled(), NOT_REGISTERED);
///     }
/// }
///
/// static LISTING: Listing = Listing(Mutex::new(Vec::new()));
/// static ENTRY: BackendEntry = BackendEntry::new(&LISTING);
/// static SALE: EventType = EventType::new(&SCHEMA);
///
/// registry::install(&ENTRY);
/// registry::register(&SALE)?;
/// assert_eq!(*LISTING.0.lock().unwrap(), ["Sale"]);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub trait Backend: Sync {
    /// Called for each registered type, once or more (see [`register`]), under the registry's lock.
    /// It must not register types. While the word is [`NOT_REGISTERED`], no bit may be set in it
    /// with `|`; [`listen`] handles this.
    fn attach(&self, ty: &'static EventType);

    /// Called for each type that was refused, once or more, under the registry's lock. Whoever
    /// would record its events [loses](lose) them.
    fn refused(&self, ty: &'static EventType) {
        let _ = ty;
    }

    /// Called when the type's [word](EventType::enabled) is valid. From then on, somebody outside
    /// this process may set and clear a bit of it. Called after each [`attach`](Self::attach) and
    /// [`refused`](Self::refused), also under the lock.
    fn settled(&self, ty: &'static EventType) {
        let _ = ty;
    }
}

/// A backend's entry in the list of backends. It must be a `static`.
#[derive(Debug)]
pub struct BackendEntry {
    backend: &'static dyn Backend,
    next: AtomicPtr<BackendEntry>,
}

impl BackendEntry {
    /// An entry for a backend that is not installed yet.
    ///
    /// [`install`] has an example.
    #[must_use]
    pub const fn new(backend: &'static dyn Backend) -> Self {
        Self { backend, next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

static TYPES: AtomicPtr<EventType> = AtomicPtr::new(ptr::null_mut());
static REFUSED: AtomicPtr<EventType> = AtomicPtr::new(ptr::null_mut());
/// Types that were met while nobody was attached. They stay in this list, registered or not.
static SET_ASIDE: AtomicPtr<EventType> = AtomicPtr::new(ptr::null_mut());
static BACKENDS: AtomicPtr<BackendEntry> = AtomicPtr::new(ptr::null_mut());

/// Registers an event type: assigns its index and its id, and calls every backend. Does nothing if
/// the type is already registered.
///
/// After it returns, the type's [word](EventType::enabled) is valid: the bits of its listeners, or
/// 0.
///
/// # Errors
///
/// [`RegisterError`] if the type is refused. It stays refused, with a word for those who
/// [`lose`] its events. Only [`RegisterError::Busy`] leaves everything unchanged.
///
/// ```
/// use nettrace_event::{EventType, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// registry::register(&SALE)?;
/// registry::register(&SALE)?; // does nothing
/// assert_eq!(registry::types().count(), 1);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn register(ty: &'static EventType) -> Result<(), RegisterError> {
    if ty.is_registered() {
        return Ok(());
    }
    let Some(_guard) = lock::lock() else {
        return Err(RegisterError::Busy { refused: ty.schema() });
    };
    register_locked(ty)
}

/// [`register`], for the holder of the lock.
fn register_locked(ty: &'static EventType) -> Result<(), RegisterError> {
    if ty.is_registered() {
        return Ok(());
    }
    let admitted = ids::admit(ty);
    if admitted.is_err() && ty.is_refused() {
        return admitted;
    }
    // The type goes into the list before the backends are read, and `install` puts a backend into
    // its list before it reads the types. All four accesses are SeqCst and thus in one order, so at
    // least one side finds the other. Both may, which is why `attach` can be called twice.
    let list = if admitted.is_ok() { &TYPES } else { &REFUSED };
    let head = list.load(Ordering::SeqCst);
    ty.next.store(head, Ordering::Relaxed);
    list.store(ptr::from_ref(ty).cast_mut(), Ordering::SeqCst);
    for entry in backends() {
        match admitted {
            Ok(()) => entry.backend.attach(ty),
            Err(_) => entry.backend.refused(ty),
        }
    }
    let _ =
        ty.enabled_word().compare_exchange(NOT_REGISTERED, 0, Ordering::Relaxed, Ordering::Relaxed);
    if admitted.is_ok() {
        ty.set_registered()
    } else {
        ty.set_refused()
    }
    for entry in backends() {
        entry.backend.settled(ty);
    }
    admitted
}

/// Puts a type into the list of those that [`install`] registers. Returns `false` if a thread has
/// done so, or is about to.
///
/// Takes no lock: while no backend is installed, nobody repairs a lock in the child of a `fork`. A
/// child that was forked in the middle of this finds the type in no list, but its word unchanged.
pub(crate) fn set_aside(ty: &'static EventType) -> bool {
    let own = ptr::from_ref(ty).cast_mut();
    let link = &ty.next_set_aside;
    // Relaxed: the insertion publishes the link. The last type of the list links to itself.
    if link.compare_exchange(ptr::null_mut(), own, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false;
    }
    let mut head = SET_ASIDE.load(Ordering::Relaxed);
    loop {
        link.store(if head.is_null() { own } else { head }, Ordering::Relaxed);
        // SeqCst: see `recorder::somebody`. Its release part pairs with the load in `walk`.
        match SET_ASIDE.compare_exchange_weak(head, own, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => head = now,
        }
    }
}

/// The types that were set aside.
fn set_aside_types() -> impl Iterator<Item = &'static EventType> {
    let mut last = ptr::null();
    // The last type comes again and again.
    walk(&SET_ASIDE, |ty: &EventType| &ty.next_set_aside)
        .take_while(move |ty| !ptr::eq(mem::replace(&mut last, ptr::from_ref(*ty)), *ty))
}

/// Installs a backend: puts it into the list and calls it for every registered type. Registers the
/// types whose events were emitted before any backend was installed. Does nothing if it is
/// installed, or in a signal handler that interrupted a registration.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use nettrace_event::{
///     EventType,
///     registry::{self, Backend, BackendEntry},
/// };
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// /// Counts the types that it is told of.
/// struct Counting(AtomicU32);
///
/// impl Backend for Counting {
///     fn attach(&self, _ty: &'static EventType) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// static COUNTING: Counting = Counting(AtomicU32::new(0));
/// static ENTRY: BackendEntry = BackendEntry::new(&COUNTING);
/// static SALE: EventType = EventType::new(&SCHEMA);
///
/// registry::register(&SALE)?;
/// // Later than the type, which it is told of nevertheless.
/// registry::install(&ENTRY);
/// assert_eq!(COUNTING.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn install(entry: &'static BackendEntry) {
    let Some(_guard) = lock::lock() else { return };
    // Search the list itself: after a `fork` by another thread, the child may have the entry in it
    // or not.
    if !backends().any(|installed| ptr::eq(installed, entry)) {
        let head = BACKENDS.load(Ordering::SeqCst);
        entry.next.store(head, Ordering::Relaxed);
        BACKENDS.store(ptr::from_ref(entry).cast_mut(), Ordering::SeqCst);
        for ty in types() {
            entry.backend.attach(ty);
            entry.backend.settled(ty);
        }
        for ty in refused() {
            entry.backend.refused(ty);
            entry.backend.settled(ty);
        }
    }
    // Also if the backend is installed: that may have been in the parent of a `fork`, which another
    // thread interrupted here. A type that is refused is in the list of these.
    for ty in set_aside_types().filter(|ty| !ty.is_settled()) {
        let _ = register_locked(ty);
    }
}

/// Every registered type, the newest first. Types with the same definition share an index.
///
/// ```
/// use nettrace_event::{EventType, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// registry::register(&SALE)?;
/// let names: Vec<_> = registry::types().map(|ty| ty.schema().name).collect();
/// assert_eq!(names, ["Sale"]);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn types() -> impl Iterator<Item = &'static EventType> {
    walk(&TYPES, |ty: &EventType| &ty.next)
}

/// Every type that was refused, the newest first.
///
/// ```
/// use nettrace_event::{EventSchema, EventType, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// static REFUND: EventType = EventType::new(&EventSchema { name: "Refund", ..SCHEMA });
/// registry::register(&SALE)?;
/// assert!(registry::register(&REFUND).is_err());
/// let names: Vec<_> = registry::refused().map(|ty| ty.schema().name).collect();
/// assert_eq!(names, ["Refund"]);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn refused() -> impl Iterator<Item = &'static EventType> {
    walk(&REFUSED, |ty: &EventType| &ty.next)
}

/// Sets or clears a backend's bits in a type's word, and replaces [`NOT_REGISTERED`]. Release: a
/// thread that sees a bit by an acquire also sees the type's index.
///
/// ```
/// use nettrace_event::{
///     EventType,
///     registry::{self, Backend, BackendEntry},
/// };
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// /// Listens to the events of one provider, by bit 0.
/// struct Listening;
///
/// impl Backend for Listening {
///     fn attach(&self, ty: &'static EventType) {
///         if ty.schema().provider.name == "Shop" {
///             registry::listen(ty, 1, 0);
///         }
///     }
/// }
///
/// static ENTRY: BackendEntry = BackendEntry::new(&Listening);
/// static SALE: EventType = EventType::new(&SCHEMA);
///
/// registry::install(&ENTRY);
/// registry::register(&SALE)?;
/// assert_eq!(SALE.enabled(), 1);
/// registry::listen(&SALE, 0, 1); // no more
/// assert_eq!(SALE.enabled(), 0);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn listen(ty: &EventType, set: u32, clear: u32) {
    change(ty, set, 0, clear);
}

/// Sets bits in a type's word as [`listen`] does: those of `set`, for sessions that record the
/// type's events, and those of `lose`, for sessions that cannot and count them. While there is one
/// of the second kind, the word has [`LOST_BIT`] as well.
///
/// ```
/// use nettrace_event::{EventType, LOST_BIT, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// registry::register(&SALE)?;
/// registry::lose(&SALE, 1 << 2, 1 << 5);
/// assert_eq!(SALE.enabled(), 1 << 2 | 1 << 5 | 1 << LOST_BIT);
/// assert_eq!(SALE.lost(), 1 << 5);
/// registry::listen(&SALE, 0, 1 << 5); // that session is over
/// assert_eq!(SALE.enabled(), 1 << 2);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn lose(ty: &EventType, set: u32, lose: u32) {
    change(ty, set, lose, 0);
}

/// Two backends never change the same bits, and each changes its own under a lock of its own.
///
/// A bit that is cleared in the word stays among those that lose: an event that has read the word
/// before must not be recorded.
fn change(ty: &EventType, set: u32, lose: u32, clear: u32) {
    ty.change_lost(lose, set);
    let _ = ty.enabled_word().fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
        let word = if word == NOT_REGISTERED && !ty.is_settled() { 0 } else { word };
        let word = word & !clear & !(1 << LOST_BIT) | set | lose;
        Some(if word & ty.lost() == 0 { word } else { word | 1 << LOST_BIT })
    });
}

/// Repairs the registry in a child process. Call it in the child of a `fork`, which has a single
/// thread. No session listens there, and a registration that another thread had begun is undone.
///
/// Clears `session_bits` in every word; the kernel keeps its own bit.
///
/// ```
/// use nettrace_event::{EventType, SESSION_BITS, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// registry::register(&SALE)?;
/// registry::listen(&SALE, 1 << 4, 0);
/// // In the child of a `fork`:
/// registry::after_fork((1 << SESSION_BITS) - 1);
/// assert_eq!(SALE.enabled(), 0);
/// # Ok::<(), registry::RegisterError>(())
/// ```
pub fn after_fork(session_bits: u32) {
    lock::forget();
    // One that is in a list but not finished stays there, and registration finishes without the
    // bits of its backends.
    for ty in types() {
        if ty.is_settled() {
            listen(ty, 0, session_bits);
        } else {
            ty.enabled_word().store(0, Ordering::Relaxed);
            ty.set_registered();
        }
    }
    for ty in refused() {
        if ty.is_settled() {
            listen(ty, 0, session_bits);
        } else {
            ty.enabled_word().store(0, Ordering::Relaxed);
            ty.set_refused();
        }
    }
}

fn backends() -> impl Iterator<Item = &'static BackendEntry> {
    walk(&BACKENDS, |entry: &BackendEntry| &entry.next)
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
