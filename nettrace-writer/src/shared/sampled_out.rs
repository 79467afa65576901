//! What sampling left out, where no thread has a buffer to count it in.

use nettrace_event::KERNEL_BIT;

use crate::{
    shared::stats::SampledOut,
    sync::{AtomicU64, Ordering},
};

/// Counts that are in no thread's buffer: spans and events.
pub(crate) struct Counts([AtomicU64; 2]);

/// By bit of a word: those of sessions, and the kernel's.
static UNPLACED: [Counts; KERNEL_BIT as usize + 1] =
    [const { Counts([const { AtomicU64::new(0) }; 2]) }; KERNEL_BIT as usize + 1];

impl Counts {
    /// Those of a slot.
    pub(crate) fn of(slot: u32) -> &'static Self {
        &UNPLACED[slot as usize % UNPLACED.len()]
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// Counts a span (0) or an event (1).
    pub(crate) fn add(&self, kind: usize) {
        self.0[kind].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> SampledOut {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed)).into()
    }
}
