//! Starts threads that take only the signals that they cause themselves.

/// Signals that a thread causes itself: by a fault, by a system call that a filter traps, by
/// `abort`. If one of them is blocked the kernel kills the process at once, and a crash handler of
/// the application never runs.
#[cfg(unix)]
const OWN: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Calls `start` with all other signals blocked. A thread that `start` creates inherits this.
#[cfg(unix)]
#[allow(unsafe_code, reason = "system calls on two local signal sets")]
pub(super) fn blocked<R>(start: impl FnOnce() -> R) -> R {
    let mut others = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: fills the set that it is given.
    unsafe { libc::sigfillset(others.as_mut_ptr()) };
    for signal in OWN {
        // SAFETY: takes a signal out of the set that was filled above.
        unsafe { libc::sigdelset(others.as_mut_ptr(), signal) };
    }
    // SAFETY: both point to sets of this function; the first was filled above.
    let changed = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, others.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = start();
    if changed {
        // SAFETY: `before` was filled by the call that succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

/// Calls `start`, because there are no signals.
#[cfg(not(unix))]
pub(super) fn blocked<R>(start: impl FnOnce() -> R) -> R {
    start()
}
