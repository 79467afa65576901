//! The seam: the one module that names atomics, locks and threads, so that loom can stand in for
//! them (`--cfg nettrace_loom`). Everything else takes them from here.

#[cfg(not(nettrace_loom))]
mod real {
    pub(crate) use std::{
        sync::atomic::{
            AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
            fence,
        },
        thread,
    };

    pub(crate) use super::locks::{Condvar, Mutex};
}

#[cfg(nettrace_loom)]
mod real {
    pub(crate) use loom::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
        },
        thread,
    };
}

pub(crate) use real::*;

/// The standard library's locks, without poison: whatever a panicking thread leaves behind is as good as any state.
///
/// Not parking_lot's: those share one hash table of waiters between all locks of the process. A lock of that table which another
/// thread holds at the moment of a `fork` stays locked in the child for ever, and a fresh mutex of the child can meet it.
#[cfg(not(nettrace_loom))]
mod locks {
    use std::{
        sync::{self, MutexGuard, PoisonError, TryLockError},
        time::{Duration, Instant},
    };

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        #[cfg(unix)]
        pub(crate) fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
            let start = Instant::now();
            loop {
                match self.0.try_lock() {
                    Ok(guard) => return Some(guard),
                    Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                    Err(TryLockError::WouldBlock) if start.elapsed() > patience => return None,
                    Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        /// Waits at most so long; what for is the caller's to check.
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            patience: Duration,
        ) -> MutexGuard<'a, T> {
            self.0.wait_timeout(guard, patience).unwrap_or_else(PoisonError::into_inner).0
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
