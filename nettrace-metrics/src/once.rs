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

use crate::sync::{AtomicPtr, Ordering};

/// A place for one value.
pub(crate) struct Once<T> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<T>,
}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self { pointer: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    pub(crate) fn with(value: T) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(Box::new(value))), owns: PhantomData }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire pairs with the release in `set`.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: O1, and by O2 the value lives as long as the place.
        unsafe { pointer.as_ref() }
    }

    /// Fills the place. If another thread was first, returns what that thread has put there.
    pub(crate) fn set(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        let filled = self.pointer.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
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
            None => self.set(make()),
        }
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        let pointer = *self.pointer.get_mut();
        if !pointer.is_null() {
            // SAFETY: O1, O2.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
