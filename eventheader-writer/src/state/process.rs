//! Tracepoints at `fork`, at `exit`, and when a library is unloaded.
//!
//! # fork
//!
//! The child inherits the descriptor. Its words are registered for it, by the kernel or by
//! [`registrar`], so its events are written like the parent's. The lock is held during the `fork`,
//! so the child finds its content consistent. A type that another thread was registering at that
//! moment is not registered in the child; [`retry`](super::retry) registers it.
//!
//! # Unloading and exit
//!
//! At `exit`, and when a library that contains this crate is unloaded, every word is unregistered
//! before its memory is reused. From then on nothing is registered.

use std::{cell::Cell, sync::TryLockError};

use nettrace_event::registry;

use super::registrar;
use super::{LOCKED_HERE, LockedState, STATE, lock};
use crate::{sync::pause, sys};

/// The number of attempts to take the lock at the end of the process, with a pause of a millisecond
/// after each.
const UNLOAD_TRIES: u32 = 500;

/// Has the handlers below called.
pub(super) fn accompany() {
    sys::at_fork(before_fork, in_parent, in_child);
    sys::at_unload(at_unload);
}

thread_local! {
    /// The locks that this thread holds during a `fork`, in the order of their release.
    static FORKING: Cell<Option<(registrar::ForkLock, LockedState)>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    // Without thread locals the thread is ending. The `fork` then goes on without the locks.
    let _ = FORKING.try_with(|forking| {
        // Called twice, or in a signal handler that interrupted the holder. That `fork` also goes
        // on without the locks.
        if LOCKED_HERE.get() {
            return;
        }
        let state = lock();
        forking.set(Some((registrar::hold(), state)));
    });
}

extern "C" fn in_parent() {
    let _ = FORKING.try_with(Cell::take);
}

extern "C" fn in_child() {
    let is_forgotten = registrar::after_fork();
    if let Ok(Some((held, mut state))) = FORKING.try_with(Cell::take) {
        drop(held);
        if is_forgotten {
            state.register_again();
        }
    }
    // Undoes a registration that another thread had begun, and its lock.
    registry::after_fork(0);
}

pub(super) extern "C" fn at_unload() {
    // A registration takes microseconds. A thread that is stopped during one must not delay the
    // exit for ever.
    for _ in 0..UNLOAD_TRIES {
        let mut state = match STATE.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                pause();
                continue;
            }
        };
        state.is_closed = true;
        return state.unregister_all();
    }
}
