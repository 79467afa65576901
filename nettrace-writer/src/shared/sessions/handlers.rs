//! What happens to all sessions at `fork` and at `exit`: see the [module above](super).

use std::{
    ptr,
    time::{Duration, Instant},
};

use nettrace_event::{SESSION_BITS, registry};

use super::{LISTENERS, TABLE, TRACEPOINTS, handler_events, table};
use crate::{
    process::handlers::{self, Handlers},
    shared::{Command, channel, local},
    sync::Ordering,
};

/// How long `exit` waits for all sessions.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);
/// How long this waits for a lock, which the thread itself may hold if a signal handler calls
/// `exit`.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Installs the handlers of the process, if that is not done yet.
pub(super) fn install() {
    static HANDLERS: Handlers = Handlers { in_child, at_exit };
    handlers::install_for_sessions(&HANDLERS);
}

fn in_child() {
    TABLE.store(ptr::null_mut(), Ordering::Release);
    LISTENERS.fetch_and(TRACEPOINTS, Ordering::Relaxed);
    handler_events::forget();
    registry::after_fork((1 << SESSION_BITS) - 1);
    local::forget_all();
}

fn at_exit() {
    // The table may be in use by a thread that goes on running, or by this thread if a signal
    // handler calls `exit`.
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
