//! The lock for registering types and installing backends.
//!
//! Backends work under this lock, possibly for long: a tracepoint is registered by system calls,
//! which another thread may have to make. So a waiting thread sleeps, on a mutex of the standard
//! library. A thread that spins or yields could keep the holder off its processor for ever, if it
//! has a higher real-time priority.
//!
//! The child of a `fork` has one thread, and another thread of the parent may have held the lock.
//! So the child abandons that mutex and makes a new one. Rejected: taking the lock around each
//! `fork`. Every `fork` would then wait for the system calls of a registration, and a `fork` in a
//! signal handler that interrupted a registration would deadlock.
//!
//! A thread that holds the lock and asks for it again, in a signal handler or in a backend that
//! registers a type, would also deadlock. It gets `None` instead.
//!
//! Without the feature `std` there are no mutexes and no thread locals. The lock then spins, and
//! its holder must not ask for it again.

pub(super) use imp::{forget, lock};

#[cfg(feature = "std")]
mod imp {
    use core::{
        cell::Cell,
        ptr,
        sync::atomic::{AtomicPtr, Ordering},
    };
    use std::{
        boxed::Box,
        sync::{Mutex, MutexGuard, PoisonError},
        thread_local,
    };

    /// Null or a leaked mutex (R2).
    static LOCK: AtomicPtr<Mutex<()>> = AtomicPtr::new(ptr::null_mut());

    thread_local! {
        /// Whether this thread holds the lock or waits for it.
        static IS_HERE: Cell<bool> = const { Cell::new(false) };
    }

    pub(in crate::registry) struct Guard {
        held: Option<MutexGuard<'static, ()>>,
    }

    /// Returns `None` if this thread already holds the lock.
    pub(in crate::registry) fn lock() -> Option<Guard> {
        if IS_HERE.replace(true) {
            return None;
        }
        Some(Guard { held: Some(mutex().lock().unwrap_or_else(PoisonError::into_inner)) })
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            // A signal handler between the two must not find the mutex locked and the flag clear.
            self.held = None;
            IS_HERE.set(false);
        }
    }

    /// Makes the child of a `fork` use a new mutex.
    pub(in crate::registry) fn forget() {
        // Relaxed: the child has one thread.
        LOCK.store(ptr::null_mut(), Ordering::Relaxed);
    }

    fn mutex() -> &'static Mutex<()> {
        // Acquire pairs with the release below, which publishes the initialised mutex.
        let mut pointer = LOCK.load(Ordering::Acquire);
        if pointer.is_null() {
            let new = Box::into_raw(Box::new(Mutex::new(())));
            match LOCK.compare_exchange(pointer, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => pointer = new,
                Err(other) => {
                    // SAFETY: `new` was made above and not published, so nobody else has the
                    // pointer.
                    drop(unsafe { Box::from_raw(new) });
                    pointer = other;
                }
            }
        }
        // SAFETY: R2.
        unsafe { &*pointer }
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    use core::sync::atomic::{AtomicBool, Ordering};

    static LOCK: AtomicBool = AtomicBool::new(false);

    pub(in crate::registry) struct Guard;

    pub(in crate::registry) fn lock() -> Option<Guard> {
        // Acquire pairs with the release in `Guard::drop`.
        while LOCK.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            core::hint::spin_loop();
        }
        Some(Guard)
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            forget();
        }
    }

    pub(in crate::registry) fn forget() {
        LOCK.store(false, Ordering::Release);
    }
}
