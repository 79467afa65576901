//! Metrics in the child of a `fork`.
//!
//! The thread that forks holds the lock meanwhile, so that the child finds what it protects whole,
//! and can use it. The child has no thread that reports, and none of its parent's reports.
//!
//! Invariant:
//!
//! - P1: The handlers take no lock but the one of [`state`](crate::metrics::state), and that with a bound on
//!   time: a signal handler may fork that has interrupted the lock's holder.
#![allow(unsafe_code, reason = "the registration of handlers")]

#[cfg(unix)]
pub(crate) use self::unix::accompany;

#[cfg(not(unix))]
pub(crate) fn accompany() {}

#[cfg(unix)]
mod unix {
    use std::{cell::Cell, mem, time::Duration};

    use crate::{
        metrics::state::{LockedState, STATE},
        sync::{AtomicBool, Ordering},
    };

    /// Time that a fork waits for the lock.
    const PATIENCE: Duration = Duration::from_millis(200);

    thread_local! {
        /// The lock, while this thread forks.
        static HELD: Cell<Option<LockedState>> = const { Cell::new(None) };
    }

    /// Registers the handlers, if that is not done yet. Several threads may do so at once. The
    /// handlers are then called twice, which does no harm.
    pub(crate) fn accompany() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        if IS_DONE.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: P1.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        IS_DONE.store(true, Ordering::Relaxed);
    }

    fn take() -> Option<LockedState> {
        HELD.try_with(Cell::take).ok().flatten()
    }

    extern "C" fn before() {
        let locked = take().or_else(|| STATE.try_lock_for(PATIENCE));
        // If the thread is ending there is no place, and the lock is free again.
        let _ = HELD.try_with(|held| held.set(locked));
    }

    extern "C" fn in_parent() {
        drop(take());
    }

    extern "C" fn in_child() {
        let Some(mut locked) = take() else { return };
        let Some(state) = locked.as_mut() else { return };
        state.has_reporter = false;
        state.busy = None;
        // Not dropped: what they refer to may be in any state.
        mem::forget(mem::take(&mut state.reports));
        mem::forget(mem::take(&mut state.stopped));
    }
}
