//! Work that makes more work: paths that wait for a worker.

use std::{
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Something to be read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// Which of the roots it is under.
    pub(crate) root: usize,
    /// How far under it.
    pub(crate) depth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
}

/// A stack of jobs, so that few wait at a time: the newest first.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Job>,
    /// Jobs that were taken and may still bring more.
    taken: usize,
}

impl Queue {
    pub(crate) fn add(&self, jobs: impl IntoIterator<Item = Job>) {
        self.lock().waiting.extend(jobs);
        self.changed.notify_all();
    }

    /// Waits for a job; `None` when all are done and no more can come.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop() {
                state.taken += 1;
                return Some(Taken { job, queue: self });
            }
            if state.taken == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job at work; done when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) job: Job,
    queue: &'a Queue,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.taken -= 1;
        if state.taken == 0 && state.waiting.is_empty() {
            drop(state);
            self.queue.changed.notify_all();
        }
    }
}
