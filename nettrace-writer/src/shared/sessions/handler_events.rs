//! The first events of a type if a signal handler emits them while its thread holds locks of this
//! crate.
//!
//! Such an event cannot register its type, so nobody knows yet which sessions listen to it. The
//! handler notes the event here, without a lock. When the thread has released its locks, it
//! registers the type and counts the event as refused in every session that listens, and at a
//! tracepoint that somebody listens to.

use std::ptr;

use nettrace_event::{EventType, SESSION_BITS};

use crate::{
    shared::{
        sessions::{count_everywhere, register_for},
        slot_counters::UNPLACED,
    },
    sync::{AtomicPtr, AtomicU64, Ordering},
};

/// The noted events of one type.
struct NotedEvents {
    /// Null at first, then set once: types are never removed.
    ty: AtomicPtr<EventType>,
    count: AtomicU64,
}

/// For how many types events can be noted. A process has few types whose first event comes from a
/// handler.
const ENTRIES: usize = 64;

static MISSED: [NotedEvents; ENTRIES] =
    [const { NotedEvents { ty: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) } };
        ENTRIES];
/// The number of noted events in all.
static PENDING: AtomicU64 = AtomicU64::new(0);

/// Notes events of a type. Takes no lock and allocates nothing.
pub(super) fn note(ty: &'static EventType, events: u64) {
    let own = ptr::from_ref(ty).cast_mut();
    for entry in &MISSED {
        let holder = entry
            .ty
            .compare_exchange(ptr::null_mut(), own, Ordering::Release, Ordering::Relaxed)
            .unwrap_or_else(|holder| holder);
        if holder.is_null() || holder == own {
            entry.count.fetch_add(events, Ordering::Relaxed);
            PENDING.fetch_add(events, Ordering::Relaxed);
            return;
        }
    }
    // The table is full.
    count_everywhere(events);
}

/// Counts the events that are noted. Called by a thread that has just released its locks.
pub(crate) fn settle() {
    if PENDING.load(Ordering::Relaxed) != 0 {
        settle_all();
    }
}

#[cold]
fn settle_all() {
    for entry in &MISSED {
        // Acquire pairs with the release in `note`. It shows the pointer alone, which points to a
        // static. SAFETY: null, or from a `&'static EventType`.
        let Some(ty) = (unsafe { entry.ty.load(Ordering::Acquire).as_ref() }) else { return };
        let count = entry.count.swap(0, Ordering::Relaxed);
        if count == 0 {
            continue;
        }
        PENDING.fetch_sub(count, Ordering::Relaxed);
        if !register_for(ty, count) {
            continue;
        }
        #[cfg(feature = "user_events")]
        if ty.enabled() & 1 << nettrace_event::KERNEL_BIT != 0 {
            eventheader_writer::backend::count_missed(count);
        }
        for (slot, unplaced) in UNPLACED.iter().enumerate().take(SESSION_BITS as usize) {
            if ty.enabled() & (1 << slot) != 0 {
                unplaced.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

/// Empties the table in a forked child: the events are the parent's.
#[cfg(unix)]
pub(super) fn forget() {
    PENDING.store(0, Ordering::Relaxed);
    MISSED.iter().for_each(|entry| entry.count.store(0, Ordering::Relaxed));
}
