//! First events of a type that came in a signal handler while their thread held locks of ours.
//!
//! Such an event cannot register its type, hence nobody knows yet which sessions listen to it. It is noted here, without a lock, and when the
//! thread has given its locks back it registers the type and counts the event, as refused, in every session that listens; at a tracepoint
//! that is listened to as well.

use std::ptr;

use trace_event::{EventType, SESSION_BITS};

use crate::{
    sessions::{UNPLACED, register},
    sync::{AtomicPtr, AtomicU64, Ordering},
};

/// Events of one type.
struct Entry {
    /// Set once: types are never removed.
    ty: AtomicPtr<EventType>,
    count: AtomicU64,
}

/// How many types can have been met like this. A process has few that are first emitted in a handler.
const ENTRIES: usize = 64;

static MISSED: [Entry; ENTRIES] =
    [const { Entry { ty: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) } }; ENTRIES];
/// How many are noted in all.
static PENDING: AtomicU64 = AtomicU64::new(0);

/// Notes an event. Takes no lock and allocates nothing.
pub(super) fn note(ty: &'static EventType) {
    let own = ptr::from_ref(ty).cast_mut();
    for entry in &MISSED {
        let holder = entry
            .ty
            .compare_exchange(ptr::null_mut(), own, Ordering::Release, Ordering::Relaxed)
            .unwrap_or_else(|holder| holder);
        if holder.is_null() || holder == own {
            entry.count.fetch_add(1, Ordering::Relaxed);
            PENDING.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    // Rather counted where nobody listens than nowhere.
    for unplaced in &UNPLACED[..SESSION_BITS as usize] {
        unplaced.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts what is noted. For a thread that has just given its locks back.
#[inline]
pub(crate) fn settle() {
    if PENDING.load(Ordering::Relaxed) != 0 {
        settle_all();
    }
}

#[cold]
fn settle_all() {
    for entry in &MISSED {
        // Acquire pairs with the release in `note`: nothing but the pointer, which is to a static.
        // SAFETY: null, or from a `&'static EventType`.
        let Some(ty) = (unsafe { entry.ty.load(Ordering::Acquire).as_ref() }) else { return };
        let count = entry.count.swap(0, Ordering::Relaxed);
        if count == 0 {
            continue;
        }
        PENDING.fetch_sub(count, Ordering::Relaxed);
        if !register(ty) {
            continue; // refused, like all of its type
        }
        #[cfg(feature = "user_events")]
        crate::tracepoints::count_missed(ty, count);
        for (slot, unplaced) in UNPLACED.iter().enumerate().take(SESSION_BITS as usize) {
            if ty.enabled() & (1 << slot) != 0 {
                unplaced.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

/// In a child process: the events were the parent's.
#[cfg(unix)]
pub(super) fn forget() {
    PENDING.store(0, Ordering::Relaxed);
    MISSED.iter().for_each(|entry| entry.count.store(0, Ordering::Relaxed));
}
