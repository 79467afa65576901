//! Handlers for the child of a `fork`, and for `exit`.
//!
//! Invariant H1: [`SESSIONS`] is null or comes from a `&'static Handlers`.
#![allow(unsafe_code, reason = "the registration of handlers; H1")]

use std::{os::fd::RawFd, panic::catch_unwind, ptr, sync::OnceLock};

use crate::{
    process::{
        GENERATION,
        descriptors::{self, ClosedInChild},
    },
    protocol::clock,
    sync::{AtomicBool, AtomicPtr, Ordering},
};

/// The handlers of a part of the program for the child of each `fork`, and for `exit`. The former
/// must not take locks or allocate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handlers {
    pub(crate) in_child: fn(),
    pub(crate) at_exit: fn(),
}

/// Those of the sessions.
static SESSIONS: AtomicPtr<Handlers> = AtomicPtr::new(ptr::null_mut());
/// Those of `nettrace-diagnostics`.
static GUEST: OnceLock<Handlers> = OnceLock::new();

/// Calls `in_child` in the child of each `fork`, after this crate's handler, and `at_exit` at
/// `exit`, before it. The former must not take locks or allocate. Only the first call has an
/// effect.
pub fn accompany(in_child: fn(), at_exit: fn()) {
    GUEST.get_or_init(|| Handlers { in_child, at_exit });
    install();
}

/// Installs this crate's handlers, and has them call those of the sessions.
///
/// No thread waits for another that is installing, because that other thread would not exist in the
/// child of a `fork`.
pub(crate) fn install_for_sessions(handlers: &'static Handlers) {
    // Release pairs with the acquire in `sessions`.
    SESSIONS.store(ptr::from_ref(handlers).cast_mut(), Ordering::Release);
    install();
}

/// Registers this crate's handlers with the C library, if that is not done yet.
///
/// Several threads may do so at once, and the handlers may then be called several times, which does
/// no harm.
fn install() {
    static ARE_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Acquire pairs with the release below: the handlers were registered before.
    if ARE_INSTALLED.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handler may run in the child of a fork: it takes no lock and does not allocate.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: the handler may run at exit: it sends messages and waits a bounded time.
    unsafe { libc::atexit(at_exit) };
    ARE_INSTALLED.store(true, Ordering::Release);
}

/// Has the child of each `fork` close a descriptor. `None`: there was no place, and a child does
/// not close its copy.
pub(crate) fn close_in_child(descriptor: RawFd) -> Option<ClosedInChild> {
    install();
    ClosedInChild::of(descriptor)
}

/// The handlers of the sessions, if there have been any.
fn sessions() -> Option<&'static Handlers> {
    // Acquire pairs with the release in `install_for_sessions`. SAFETY: H1.
    unsafe { SESSIONS.load(Ordering::Acquire).as_ref() }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if let Some(sessions) = sessions() {
        (sessions.in_child)();
    }
    nettrace_span::backend::after_fork(clock::monotonic());
    // SAFETY: from here on the file that owned the descriptor neither uses nor closes it.
    descriptors::in_child(|descriptor| unsafe { rustix::io::close(descriptor) });
    if let Some(guest) = GUEST.get() {
        (guest.in_child)();
    }
}

extern "C" fn at_exit() {
    for handlers in GUEST.get().into_iter().chain(sessions()) {
        // A handler must not unwind.
        let _ = catch_unwind(handlers.at_exit);
    }
}
