//! A queue of work that creates more work: paths that wait for a worker.

use std::path::PathBuf;

use parking_lot::{Condvar, Mutex};

/// A path to be read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// The number of the root that it is below.
    pub(crate) root: usize,
    /// Its depth below the root.
    pub(crate) depth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
}

/// A stack of jobs. Taking the newest first keeps few jobs waiting.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Job>,
    /// Jobs that were taken, and may still add more.
    taken: usize,
}

impl Queue {
    pub(crate) fn add(&self, jobs: impl IntoIterator<Item = Job>) {
        self.state.lock().waiting.extend(jobs);
        self.changed.notify_all();
    }

    /// Waits for a job. Returns `None` when all jobs are done, so no more can come.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop() {
                state.taken += 1;
                return Some(Taken { job, queue: self });
            }
            if state.taken == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// A job that is being worked on. It is done when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) job: Job,
    queue: &'a Queue,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.taken -= 1;
        if state.taken == 0 && state.waiting.is_empty() {
            drop(state);
            self.queue.changed.notify_all();
        }
    }
}
