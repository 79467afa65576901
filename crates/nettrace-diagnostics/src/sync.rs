//! The seam: the only module that names atomics, locks and threads.

pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, TryLockError,
    atomic::{AtomicI32, Ordering},
    mpsc,
};
pub(crate) use std::thread::sleep;
#[cfg(unix)]
pub(crate) use std::thread::{Builder, ScopedJoinHandle, scope};

/// Takes a lock. A thread that panicked while it held the lock has left nothing half done: each use
/// changes one value.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
