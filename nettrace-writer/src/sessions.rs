//! All sessions of the process: which slot each has, and what becomes of them at `fork` and `exit`.
//!
//! A slot is a bit in the word of every event type. The table is behind a lock that is taken when a session starts or ends, a thread
//! meets a session for the first time, or a type registers.
//!
//! # fork
//!
//! The child of a `fork` has one thread and no sessions: its copy of the table may be locked by a thread that it does not have,
//! so the child starts with an empty table and leaves the old one alone (S1). Every event type's session bits are cleared, and so are the slots of
//! the one thread. Parent and file notice nothing. The child may start sessions of its own.
//!
//! # Process exit
//!
//! `exit` (and a return from `main`) flushes every session that was not finished, by a handler that waits at most
//! two seconds for each. `_exit`, `abort` and a signal do not: what is missing then is younger than one flush interval and the time of one write.
//!
//! Invariants:
//!
//! - S1: [`TABLE`] is null or points to a leaked `Mutex<Table>`, which is never freed.
//! - S2: [`REFUSED`] and the `next` of each entry are null or point to a leaked `Refused`, which is never freed.
#![allow(unsafe_code, reason = "S1, S2, and the registration of handlers")]

use std::{collections::BTreeSet, ptr, sync::Arc};

use once_cell::sync::OnceCell;
use trace_event::{
    EventType, SESSION_BITS,
    registry::{self, Backend, BackendEntry},
};

pub(crate) mod missed;

use crate::{
    error::Error,
    local,
    shared::Shared,
    sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering},
};

/// Events that could not be attributed to a thread, by slot.
pub(crate) static UNPLACED: [AtomicU64; SESSION_BITS as usize + 1] =
    [const { AtomicU64::new(0) }; SESSION_BITS as usize + 1];

static TABLE: AtomicPtr<Mutex<Table>> = AtomicPtr::new(ptr::null_mut());
/// How many `fork`s lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, Default)]
struct Table {
    slots: [Option<Arc<Shared>>; SESSION_BITS as usize],
    /// Slots that are taken but whose session does not listen (yet, or any more).
    reserved: u32,
    /// Types that some session in a slot has listened to, by their index.
    heard: [BTreeSet<u32>; SESSION_BITS as usize],
}

fn table() -> &'static Mutex<Table> {
    // Acquire pairs with the release below.
    let mut pointer = TABLE.load(Ordering::Acquire);
    if pointer.is_null() {
        let new = Box::into_raw(Box::new(Mutex::new(Table::default())));
        match TABLE.compare_exchange(pointer, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => pointer = new,
            Err(other) => {
                // SAFETY: made above, and nobody else has it.
                drop(unsafe { Box::from_raw(new) });
                pointer = other;
            }
        }
    }
    // SAFETY: S1.
    unsafe { &*pointer }
}

/// A slot, kept free of other sessions while this lives.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u32,
    generation: u32,
}

impl Slot {
    /// Takes a free slot.
    pub(crate) fn take() -> Result<Self, Error> {
        local::holding_locks(prepare_process);
        local::holding_locks(Self::take_free).unwrap_or_else(|| {
            let message = "a session cannot be started in a signal handler".into();
            Err(Error::Setting { message })
        })
    }

    fn take_free() -> Result<Self, Error> {
        let mut table = table().lock();
        let number = (0..SESSION_BITS)
            .find(|slot| table.reserved & (1 << slot) == 0)
            .ok_or(Error::TooManySessions { limit: SESSION_BITS })?;
        table.reserved |= 1 << number;
        UNPLACED[number as usize].store(0, Ordering::Relaxed);
        Ok(Self { number, generation: generation() })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether this process took the slot (and not the one that it was forked from).
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    /// Lets the session listen.
    pub(crate) fn listen(&self, session: &Arc<Shared>) {
        local::holding_locks(|| {
            let mut table = table().lock();
            table.slots[self.number as usize] = Some(Arc::clone(session));
            for ty in registry::types().filter(|ty| records(session, ty)) {
                table.heard[self.number as usize].insert(ty.index());
                registry::listen(ty, 1 << self.number, 0);
            }
        });
    }

    /// Stops listening. Events that are under way may still come.
    pub(crate) fn hush(&self) {
        hush(self.number);
    }
}

/// Lets the session in a slot hear no more.
pub(crate) fn hush(slot: u32) {
    local::holding_locks(|| {
        let mut table = table().lock();
        table.slots[slot as usize] = None;
        for ty in registry::types() {
            registry::listen(ty, 0, 1 << slot);
        }
    });
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_ours() {
            self.hush();
            local::holding_locks(|| table().lock().reserved &= !(1 << self.number));
        }
    }
}

/// The session that listens in a slot.
pub(crate) fn session(slot: u32) -> Option<Arc<Shared>> {
    table().lock().slots.get(slot as usize)?.clone()
}

/// Types (by their index, in order) that earlier sessions in a slot listened to.
///
/// A thread may have read such a type's word while one of them was live, and been interrupted by a signal handler that emits to the session
/// of today and so gives the thread a buffer in the slot: back in its event, the thread writes into that. It is an event more than was asked
/// for, and as good as any other if its type is defined in the trace.
pub(crate) fn heard(slot: u32) -> Vec<u32> {
    let heard = || table().lock().heard[slot as usize].iter().copied().collect();
    local::holding_locks(heard).unwrap_or_default()
}

/// Tells apart processes that share a past.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// All sessions together, as the registry of types sees them.
#[derive(Debug)]
struct Sessions;

impl Backend for Sessions {
    fn attach(&self, ty: &'static EventType) {
        let mut table = table().lock();
        let recording = table.slots.iter().flatten().filter(|session| records(session, ty));
        let bits = recording.fold(0, |bits, session| bits | 1 << session.slot);
        for (slot, heard) in table.heard.iter_mut().enumerate() {
            if bits & (1 << slot) != 0 {
                heard.insert(ty.index());
            }
        }
        registry::listen(ty, bits, 0);
    }
}

/// Registers a type at its first event. `false`: its events are not recorded, and [`refused_types`] says why; or this is a signal handler
/// that interrupted the taking of locks: then the event is counted, and the type registered, when they have been given back (see [`missed`]).
pub(crate) fn register(ty: &'static EventType) -> bool {
    let registered = local::holding_locks(|| {
        #[cfg(feature = "user_events")]
        eventheader_writer::install();
        registry::register(ty)
    });
    match registered {
        Some(Err(error)) => {
            note_refused(error.into());
            false
        }
        Some(Ok(())) => true,
        None => {
            missed::note(ty);
            false
        }
    }
}

/// Whether a session records a type: it wants it, and its format can describe it. If it cannot, its events are refused like those of
/// a clash.
fn records(session: &Shared, ty: &EventType) -> bool {
    session.wants(ty) && session.describes(ty).map_err(|error| note_refused(error.into())).is_ok()
}

/// Remembers that an event type was refused while no one could be told; once.
pub(crate) fn note_refused(error: Error) {
    let message = error.to_string_with_sources();
    if refused().any(|other| *other == message) {
        return;
    }
    let new = Box::leak(Box::new(Refused { message, next: AtomicPtr::new(ptr::null_mut()) }));
    let mut head = REFUSED.load(Ordering::Relaxed);
    loop {
        new.next.store(head, Ordering::Relaxed);
        // Release pairs with the acquire in `refused`.
        match REFUSED.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Every event type that was refused so far in this process, in words.
///
/// An event type registers itself with its first event, where there is nobody to return an error to. A service can
/// log these; [`SessionBuilder::register`](crate::SessionBuilder::register) makes them errors of its start.
#[must_use]
pub fn refused_types() -> Vec<String> {
    let mut all: Vec<_> = refused().cloned().collect();
    all.reverse();
    all
}

/// A list without a lock, the newest first: the child of a `fork` has it as it is. Entries are never freed (S2); there is one for each type
/// at most, and one for each way in which it was refused.
static REFUSED: AtomicPtr<Refused> = AtomicPtr::new(ptr::null_mut());

struct Refused {
    message: String,
    next: AtomicPtr<Refused>,
}

fn refused() -> impl Iterator<Item = &'static String> {
    let mut at = REFUSED.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: S2.
        let entry = unsafe { at.as_ref() }?;
        // Relaxed: what stands behind an entry was there before it, and was seen with it.
        at = entry.next.load(Ordering::Relaxed);
        Some(&entry.message)
    })
}

/// What is due once in a process, before its first session.
fn prepare_process() {
    static BACKEND: BackendEntry = BackendEntry::new(&Sessions);
    static HANDLERS: OnceCell<()> = OnceCell::new();
    registry::install(&BACKEND);
    #[cfg(feature = "user_events")]
    eventheader_writer::install();
    HANDLERS.get_or_init(install_handlers);
}

#[cfg(unix)]
fn install_handlers() {
    // SAFETY: the handler is a function that may run in the child of a fork (it takes no lock and does not allocate).
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: the handler may run at exit: it sends messages and waits a bounded time.
    unsafe { libc::atexit(at_exit) };
}

#[cfg(not(unix))]
fn install_handlers() {}

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    TABLE.store(ptr::null_mut(), Ordering::Release);
    missed::forget();
    registry::after_fork((1 << SESSION_BITS) - 1);
    local::forget_all();
}

#[cfg(unix)]
extern "C" fn at_exit() {
    // A handler must not unwind; and the table may be in use by a thread that goes on running.
    let sessions: Vec<_> = match table().try_lock_for(std::time::Duration::from_secs(1)) {
        Some(table) => table.slots.iter().flatten().cloned().collect(),
        None => return,
    };
    for session in sessions {
        let (done, answer) = crossbeam_channel::bounded(1);
        if session.commands.try_send(crate::shared::Command::Flush(done)).is_ok() {
            let _ = answer.recv_timeout(std::time::Duration::from_secs(2));
        }
    }
}
