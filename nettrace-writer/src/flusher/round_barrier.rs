//! The barrier of a round, and which threads have passed it: see [`barrier`].

use crate::{
    flusher::source::{Reach, Source},
    protocol::barrier,
    shared::Shared,
};

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
