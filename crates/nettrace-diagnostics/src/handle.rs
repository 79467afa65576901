//! A server, as the rest of the process sees it.

use std::{path::PathBuf, process, time::Duration};

use crate::{
    standard_error::say,
    sync::{Arc, Condvar, Mutex, TryLockError, lock},
    transport::Waker,
};

/// Time before a process that waits to be resumed says so.
const SILENCE: Duration = Duration::from_secs(5);
/// Time that `exit` waits for the ends of all sessions.
pub(crate) const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// A server, or what stands for it where the environment forbids one.
#[derive(Debug)]
pub(crate) struct Handle {
    pid: u32,
    pub(crate) path: PathBuf,
    /// Makes the server end. `None`: there is no server.
    waker: Option<Waker>,
    progress: Mutex<Progress>,
    /// Told of each change of `progress`.
    changed: Condvar,
}

/// The progress of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It answers, and the process waits to be resumed.
    Suspended,
    Serving,
    Ended,
}

impl Handle {
    pub(crate) fn new(path: PathBuf, waker: Waker) -> Self {
        Self { waker: Some(waker), ..Self::without_server(path) }
    }

    /// A substitute for a server at `path`, where there is none.
    pub(crate) fn without_server(path: PathBuf) -> Self {
        Self {
            pid: process::id(),
            path,
            waker: None,
            progress: Mutex::new(Progress::Ended),
            changed: Condvar::new(),
        }
    }

    /// Whether this process has the server, and it has not ended.
    pub(crate) fn serves(&self) -> bool {
        self.pid == process::id() && *lock(&self.progress) != Progress::Ended
    }

    /// Ends the server, and the sessions that its clients have. Returns when that is done, or after
    /// `patience`.
    pub(crate) fn stop(&self, patience: Duration) {
        if self.pid != process::id() {
            return; // The child of a fork has closed the descriptor.
        }
        let Some(waker) = &self.waker else { return };
        waker.wake();
        let progress = lock(&self.progress);
        let goes_on = |progress: &mut Progress| *progress != Progress::Ended;
        let _ = self.changed.wait_timeout_while(progress, patience, goes_on);
    }

    pub(crate) fn set(&self, progress: Progress) {
        *lock(&self.progress) = progress;
        self.changed.notify_all();
    }

    /// Waits until a client has resumed the process. Says so if that takes long.
    pub(crate) fn wait_until_resumed(&self) {
        let waits = |progress: &mut Progress| *progress == Progress::Suspended;
        let progress = lock(&self.progress);
        let waited = self.changed.wait_timeout_while(progress, SILENCE, waits);
        let (progress, result) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        if result.timed_out() {
            say(format_args!(
                "process {} waits until a tool resumes it: DOTNET_DiagnosticPorts or \
                 DOTNET_DefaultDiagnosticPortSuspend says so",
                self.pid
            ));
            drop(self.changed.wait_while(progress, waits));
        }
    }

    /// Makes [`at_exit`] end this server.
    pub(crate) fn remember(self: &Arc<Self>) {
        let mut handles = lock(&HANDLES);
        handles.retain(|handle| handle.serves());
        handles.push(Arc::clone(self));
    }
}

/// The servers of this process.
static HANDLES: Mutex<Vec<Arc<Handle>>> = Mutex::new(Vec::new());

/// Whether a server of this process listens at `path`.
#[cfg(windows)]
pub(crate) fn listens_at(path: &std::path::Path) -> bool {
    lock(&HANDLES).iter().any(|handle| handle.serves() && handle.path == path)
}

/// Ends all servers, so that traces are complete and no socket stays.
pub(crate) fn at_exit() {
    // In the child of a fork, a thread that does not exist may hold the lock.
    let handles = match HANDLES.try_lock() {
        Ok(handles) => handles.clone(),
        Err(TryLockError::Poisoned(handles)) => handles.into_inner().clone(),
        Err(TryLockError::WouldBlock) => return,
    };
    handles.iter().for_each(|handle| handle.stop(EXIT_PATIENCE));
}
