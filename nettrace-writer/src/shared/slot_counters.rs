//! Counters of each slot, for events without a thread's buffer to count them in.

use nettrace_event::{KERNEL_BIT, SESSION_BITS};

use crate::{
    shared::stats::SampledOut,
    sync::{AtomicU64, Ordering},
};

/// Events that no thread can be named for, by slot.
pub(crate) static UNPLACED: [AtomicU64; SESSION_BITS as usize + 1] =
    [const { AtomicU64::new(0) }; SESSION_BITS as usize + 1];

/// Counts of what sampling has left out, as far as no thread's buffer has them: spans and events.
pub(crate) struct SampledOutCounts([AtomicU64; 2]);

/// By bit of a word: those of sessions, and the kernel's.
static SAMPLED_OUT: [SampledOutCounts; KERNEL_BIT as usize + 1] =
    [const { SampledOutCounts([const { AtomicU64::new(0) }; 2]) }; KERNEL_BIT as usize + 1];

impl SampledOutCounts {
    /// Those of a slot.
    pub(crate) fn of(slot: u32) -> &'static Self {
        &SAMPLED_OUT[slot as usize % SAMPLED_OUT.len()]
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
