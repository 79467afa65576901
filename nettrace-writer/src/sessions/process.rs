//! What happens to all sessions at `fork` and at `exit`: see the [module above](super).
#![allow(unsafe_code, reason = "the registration of handlers")]

use std::{
    panic::catch_unwind,
    ptr,
    sync::OnceLock,
    time::{Duration, Instant},
};

use nettrace_event::{SESSION_BITS, registry};

use crate::{
    channel,
    context::ids,
    local,
    sessions::{handler_events, table},
    shared::Command,
    sink::live,
    sync::{AtomicBool, Ordering},
};

/// How long `exit` waits for all sessions.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);
/// How long this waits for a lock, which the thread itself may hold if a signal handler calls
/// `exit`.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// What `nettrace-diagnostics` does in the child of a `fork`, and at `exit`.
static GUEST: OnceLock<Guest> = OnceLock::new();

#[derive(Clone, Copy, Debug)]
struct Guest {
    in_child: fn(),
    at_exit: fn(),
}

/// Calls `in_child` in the child of each `fork`, after this crate's handler, and `at_exit` at
/// `exit`, before it. The former must not take locks or allocate. Only the first call has an
/// effect.
pub fn accompany(in_child: fn(), at_exit: fn()) {
    GUEST.get_or_init(|| Guest { in_child, at_exit });
    install_handlers();
}

/// Registers this crate's handlers with the C library, if that is not done yet.
///
/// Several threads may do so at once, and the handlers may then be called several times, which does
/// no harm. No thread waits for another that is registering, because that other thread would not
/// exist in the child of a `fork`.
pub(crate) fn install_handlers() {
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

extern "C" fn in_child() {
    super::GENERATION.fetch_add(1, Ordering::Relaxed);
    super::TABLE.store(ptr::null_mut(), Ordering::Release);
    super::LISTENERS.fetch_and(super::TRACEPOINTS, Ordering::Relaxed);
    handler_events::forget();
    registry::after_fork((1 << SESSION_BITS) - 1);
    local::forget_all();
    ids::after_fork();
    // SAFETY: from here on the file that owned the descriptor neither uses nor closes it.
    live::in_child(|descriptor| unsafe { rustix::io::close(descriptor) });
    if let Some(guest) = GUEST.get() {
        (guest.in_child)();
    }
}

extern "C" fn at_exit() {
    if let Some(guest) = GUEST.get() {
        // A handler must not unwind.
        let _ = catch_unwind(guest.at_exit);
    }
    // A handler must not unwind. The table may be in use by a thread that goes on running, or by
    // this thread if a signal handler calls `exit`.
    let sessions = || {
        let table = table().try_lock_for(LOCK_PATIENCE)?;
        let sessions = table.slots.iter().chain(&table.ending).flatten();
        Some(sessions.cloned().collect::<Vec<_>>())
    };
    let Some(sessions) = local::with_locks(sessions) else { return };
    // Ask all sessions before waiting for one. One that is ending has no answer, but its flusher
    // drops the question when it has written everything.
    let deadline = Instant::now() + EXIT_PATIENCE;
    let asked: Vec<_> = sessions
        .iter()
        .filter_map(|session| {
            let (done, answer) = channel::bounded(1);
            session.try_send(Command::Exit(done), LOCK_PATIENCE).then_some(answer)
        })
        .collect();
    for answer in asked {
        let _ = answer.recv_until(Some(deadline));
    }
}
