//! The flusher's sleep, and its wakers.
//!
//! Between rounds the flusher *watches*: a command ends that sleep, and so does an event that takes
//! a chunk and finds that memory runs low. If memory is low already, or much data comes, it *waits*
//! for a short time: only a command ends that sleep. While nobody emits it *rests*, which takes
//! longer: a command ends that sleep, and so does an event that takes a chunk. Nothing else ends a
//! sleep before its time. While nobody emits no record has a chunk, so the first event must take
//! one. Events that find a chunk never look here.
//!
//! Waking allocates nothing and takes no lock, because it may happen in a signal handler.
//!
//! On Linux the flusher sleeps in a `futex` of its own, for a length of time. The standard library
//! sleeps until a moment of the monotonic clock. If a program is given a clock that goes forward by
//! a minute, such a sleep takes a minute too long.

use std::time::Duration;

use crate::sync::{AtomicU32, Bell, Ordering, fence};

/// The state of the flusher's sleep.
#[derive(Debug)]
pub(crate) struct Idle {
    /// [`AWAKE`], or the [`Sleep`] that the flusher is in or about to begin.
    state: AtomicU32,
    flusher: Bell,
}

const AWAKE: u32 = 0;

/// A way to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Sleep {
    /// Until there is a command.
    Wait = 1,
    /// Until there is a command, or a chunk is taken.
    Rest = 2,
    /// Until there is a command, or a chunk is taken and memory runs low.
    Watch = 3,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(AWAKE), flusher: Bell::new() }
    }

    /// Names the calling thread as the flusher's. To be called before the first
    /// [`begin`](Self::begin).
    pub(crate) fn set_flusher(&self) {
        self.flusher.set_sleeper();
    }

    /// Sleeps for `longest` or less, unless there is something to do. `is_quiet` looks for what
    /// would end the sleep. Returns whether somebody has ended it.
    pub(crate) fn sleep(
        &self,
        how: Sleep,
        longest: Duration,
        is_quiet: impl FnOnce() -> bool,
    ) -> bool {
        if self.begin(how, is_quiet) {
            // This may end for no reason. Then there is one round more, which does no harm.
            self.flusher.wait_while(&self.state, how as u32, longest);
        }
        self.end()
    }

    /// Announces that the flusher is going to sleep. `false`: there is something to do.
    pub(crate) fn begin(&self, how: Sleep, is_quiet: impl FnOnce() -> bool) -> bool {
        self.state.store(how as u32, Ordering::Relaxed);
        // Store buffering with `wake` and `call`. Here the flusher stores `state` and then looks
        // for chunks and commands. There a thread takes a chunk or sends a command and then looks
        // at `state`. Both have a fence in between, so one of the two sees what the other stored.
        fence(Ordering::SeqCst);
        is_quiet()
    }

    /// Ends the sleep. Returns whether somebody woke the flusher.
    pub(crate) fn end(&self) -> bool {
        // Relaxed: the flusher looks for itself for what there is to do.
        self.state.swap(AWAKE, Ordering::Relaxed) == AWAKE
    }

    /// Ends a rest, and a watch if memory runs low, which `is_low` looks for. The caller must just
    /// have taken a chunk.
    pub(crate) fn wake(&self, is_low: impl FnOnce() -> bool) {
        if !crate::mutant::takes_out("no_wake_fence") {
            // Pairs with the fence in `begin`.
            fence(Ordering::SeqCst);
        }
        // The load comes first because nobody writes this line while the flusher is busy. The
        // exchange picks one of several callers.
        let sleep = self.state.load(Ordering::Relaxed);
        let ends = sleep == Sleep::Rest as u32 || sleep == Sleep::Watch as u32 && is_low();
        if ends
            && self
                .state
                .compare_exchange(sleep, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.flusher.ring(&self.state);
        }
    }

    /// Ends any sleep. The caller must just have sent a command.
    pub(crate) fn call(&self) {
        // Pairs with the fence in `begin`.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) != AWAKE
            && self.state.swap(AWAKE, Ordering::Relaxed) != AWAKE
        {
            self.flusher.ring(&self.state);
        }
    }
}
