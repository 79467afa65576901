//! Sessions write out what they have, because the process ends, or may end.

use std::time::{Duration, Instant};

use super::{live, table};
use crate::shared::{Command, channel, local, locks};

/// Time that the end of the process waits for all sessions.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Time that it waits for a lock, which the thread itself may hold if a signal handler calls
/// `exit`.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a thread that goes on waits for the lock of an inbox.
const SHORT_PATIENCE: Duration = Duration::from_millis(1);

/// Asks all sessions to write out what they have, and waits for none.
pub(crate) fn soon() {
    // Whoever holds a lock of this crate has panicked within it.
    let sessions = if local::may_wait() { locks::holding_locks(live) } else { None };
    for (_, session) in sessions.unwrap_or_default() {
        let (done, _) = channel::bounded(1);
        session.try_send(Command::Flush(done), SHORT_PATIENCE);
    }
}

/// Asks all sessions to write out what they have before the process ends, and waits for that a
/// bounded time.
pub(crate) fn at_end() {
    // The table may be in use by a thread that goes on running, or by this thread if a signal
    // handler calls `exit`.
    let sessions = || {
        let table = table().try_lock_for(LOCK_PATIENCE)?;
        let sessions = table.slots.iter().chain(&table.ending).flatten();
        Some(sessions.cloned().collect::<Vec<_>>())
    };
    let Some(sessions) = locks::with_locks(sessions) else { return };
    // Ask all sessions before waiting for one. One that is ending has no answer, but its flusher
    // drops the question when it has written everything.
    let deadline = Instant::now() + END_PATIENCE;
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
