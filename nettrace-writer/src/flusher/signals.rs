//! Threads that take no signals.

/// Runs `start`, which starts a thread, with all signals blocked, so that the thread inherits that.
#[cfg(unix)]
#[allow(unsafe_code, reason = "system calls on two local signal sets")]
pub(super) fn blocked<R>(start: impl FnOnce() -> R) -> R {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: fills the set that it is given.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both point to sets of this function; the first was filled above.
    let changed =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0 };
    let result = start();
    if changed {
        // SAFETY: `before` was filled by the call that succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

/// Runs `start`: there are no signals.
#[cfg(not(unix))]
pub(super) fn blocked<R>(start: impl FnOnce() -> R) -> R {
    start()
}
