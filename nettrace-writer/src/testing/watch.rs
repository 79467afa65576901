//! A thread that waits for events, and wakes a task.

use std::{sync::Arc, task::Waker, time::Instant};

use crate::{
    shared::sessions::captures::Store,
    sync::{AtomicBool, Mutex, Ordering, thread},
};

/// Wakes a task after each event, and at the end of a time, until this is dropped.
#[derive(Debug)]
pub(super) struct EventWaker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    store: Arc<Store>,
    waker: Mutex<Waker>,
    is_over: AtomicBool,
    is_dropped: AtomicBool,
}

impl EventWaker {
    /// Begins to wait for more events than so many.
    pub(super) fn start(
        store: &Arc<Store>,
        known: usize,
        deadline: Instant,
        waker: &Waker,
    ) -> Self {
        let watched = Arc::new(WakerState {
            store: Arc::clone(store),
            waker: Mutex::new(waker.clone()),
            is_over: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
        });
        let watching = Arc::clone(&watched);
        thread::spawn(move || watching.watch(known, deadline));
        Self(watched)
    }

    /// From now on wakes this task. Returns whether the time is over.
    pub(super) fn wake(&self, waker: &Waker) -> bool {
        self.0.waker.lock().clone_from(waker);
        // Acquire pairs with the release in `watch`: the events that came before are seen.
        self.0.is_over.load(Ordering::Acquire)
    }
}

impl WakerState {
    fn watch(&self, mut known: usize, deadline: Instant) {
        let is_dropped = || self.is_dropped.load(Ordering::Relaxed);
        while self.store.wait_for_more(known, deadline, is_dropped) {
            known = self.store.len();
            self.wake();
        }
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        waker.wake();
    }
}

impl Drop for EventWaker {
    fn drop(&mut self) {
        // Relaxed: the thread reads it with the lock that `Store::wake` takes.
        self.0.is_dropped.store(true, Ordering::Relaxed);
        self.0.store.wake();
    }
}
