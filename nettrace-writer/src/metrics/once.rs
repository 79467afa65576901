//! A place that is filled once, without a lock.
//!
//! `OnceLock` lets other threads wait for the one that fills it. In the child of a `fork` that
//! thread may not exist.
//!
//! Invariants:
//!
//! - O1: The pointer is null, or it comes from `Box::into_raw` and its value is whole. It changes
//!   from null once, by a compare-exchange that releases, and is read by acquires.
//! - O2: The value is freed only by `drop`, which has the place for itself.
#![allow(unsafe_code, reason = "O1, O2")]

use std::{fmt, marker::PhantomData, ptr};

use crate::{
    mutant,
    sync::{AtomicPtr, Ordering, const_fn},
};

/// A place for one value.
pub(crate) struct ForkSafeOnce<T> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<T>,
}

impl<T> ForkSafeOnce<T> {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self { pointer: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
        }
    }

    /// Empty places.
    #[cfg(not(nettrace_loom))]
    pub(crate) const fn many<const N: usize>() -> [Self; N] {
        [const { Self::new() }; N]
    }

    /// Empty places.
    #[cfg(nettrace_loom)]
    pub(crate) fn many<const N: usize>() -> [Self; N] {
        std::array::from_fn(|_| Self::new())
    }

    pub(crate) fn with(value: T) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(Box::new(value))), owns: PhantomData }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Pairs with the release in `set`.
        let order = match mutant::takes_out("once_no_acquire") {
            true => Ordering::Relaxed,
            false => Ordering::Acquire,
        };
        let pointer = self.pointer.load(order);
        // SAFETY: O1, and by O2 the value lives as long as the place.
        unsafe { pointer.as_ref() }
    }

    /// Fills the place. If another thread was first, returns what that thread has put there.
    pub(crate) fn set(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        // Release pairs with the acquire in `get`, and with the one that finds the place filled.
        let filled = match () {
            () if mutant::takes_out("once_no_release") => {
                let null = ptr::null_mut();
                self.pointer.compare_exchange(null, new, Ordering::Acquire, Ordering::Acquire)
            }
            () if mutant::takes_out("once_no_exchange") => {
                self.pointer.store(new, Ordering::Release);
                Ok(new)
            }
            () => {
                let null = ptr::null_mut();
                self.pointer.compare_exchange(null, new, Ordering::Release, Ordering::Acquire)
            }
        };
        let pointer = match filled {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and never published.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: O1, O2.
        unsafe { &*pointer }
    }

    /// The value, which `make` makes if there is none.
    #[inline]
    pub(crate) fn get_or_set(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.make(make),
        }
    }

    #[cold]
    fn make(&self, make: impl FnOnce() -> T) -> &T {
        self.set(make())
    }
}

/// Not in models: what is static there is dropped when no execution runs, and would need one.
#[cfg(not(nettrace_loom))]
impl<T> Drop for ForkSafeOnce<T> {
    fn drop(&mut self) {
        // Nobody else has the place (O2), so any ordering does.
        let pointer = self.pointer.load(Ordering::Relaxed);
        if !pointer.is_null() {
            // SAFETY: O1, O2.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for ForkSafeOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
