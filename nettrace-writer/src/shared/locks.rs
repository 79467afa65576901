//! The taking of this crate's locks. A signal handler that interrupts it must take none, because
//! its thread would wait for ever for a lock that it holds.
//!
//! Invariant K1: [`ON_RELEASE`] is null or comes from a `&'static fn()`.
#![allow(unsafe_code, reason = "K1")]

use std::{cell::Cell, ptr};

use crate::sync::{AtomicPtr, Ordering, thread};

thread_local! {
    /// The thread is taking locks of this crate: a signal handler that emits now must not take
    /// them.
    static HOLDS_LOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Called when a thread has released its locks.
static ON_RELEASE: AtomicPtr<fn()> = AtomicPtr::new(ptr::null_mut());

/// Has `call` called whenever a thread has released its locks: for the events of signal handlers
/// that interrupted it.
pub(crate) fn on_release(call: &'static fn()) {
    // Release pairs with the acquire in `released`.
    ON_RELEASE.store(ptr::from_ref(call).cast_mut(), Ordering::Release);
}

fn released() {
    // Acquire pairs with the release in `on_release`. SAFETY: K1.
    if let Some(call) = unsafe { ON_RELEASE.load(Ordering::Acquire).as_ref() } {
        call();
    }
}

/// Whether this is a signal handler that interrupted the taking of locks.
pub(crate) fn are_held() -> bool {
    HOLDS_LOCKS.get()
}

/// Forgets the locks of the parent in the child of a `fork`.
#[cfg(unix)]
pub(crate) fn forget() {
    HOLDS_LOCKS.set(false);
}

/// Calls `f`, which takes locks. Returns `None` without a call if this is a signal handler that
/// interrupted such a call: the thread would wait for ever for a lock that it holds.
pub(crate) fn holding_locks<R>(f: impl FnOnce() -> R) -> Option<R> {
    (!HOLDS_LOCKS.get()).then(|| with_locks(f))
}

/// [`holding_locks`] for a call that must not be left out. The thread must hold none of the same
/// locks.
pub(crate) fn with_locks<R>(f: impl FnOnce() -> R) -> R {
    /// Also runs if `f` unwinds.
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            HOLDS_LOCKS.set(false);
            if !thread::panicking() {
                released();
            }
        }
    }
    let _release = (!HOLDS_LOCKS.replace(true)).then_some(Release);
    f()
}
