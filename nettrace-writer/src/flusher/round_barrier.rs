//! The barrier of a round, and which threads have passed it: see [`barrier`].

use crate::{
    flusher::source::Source,
    protocol::barrier::{self, Tour},
    shared::Shared,
};

/// The threads that have passed a barrier.
#[derive(Debug)]
pub(super) enum Reach {
    /// All threads.
    All,
    /// Threads that execute a fence themselves.
    Payers,
    /// Threads that execute a fence themselves, and those that a tour of the processors has
    /// reached.
    Toured(Tour),
}

impl Reach {
    /// Whether a thread, named by its id in the system, has passed a barrier although it executes
    /// no fence.
    pub(super) fn includes(&self, thread: u64) -> bool {
        match self {
            Self::All => true,
            Self::Payers => false,
            Self::Toured(tour) => tour.has_reached(thread),
        }
    }
}

/// Executes the barrier for the threads that were asked, and notes which have passed it.
pub(super) fn execute(
    session: &Shared,
    sources: &mut [Source],
    whom: impl Iterator<Item = usize> + Clone,
) {
    let reach = if session.barrier.heavy() {
        Reach::All
    } else if whom.clone().any(|at| sources[at].needs_barrier()) {
        barrier::tour().map_or(Reach::Payers, Reach::Toured)
    } else {
        Reach::Payers
    };
    whom.for_each(|at| sources[at].reached_by(&reach));
}
