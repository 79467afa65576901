//! Explores a model, and counts what it met.

use std::sync::atomic;

use loom::model::Builder;

/// Counts what happened in all executions of a model.
#[derive(Clone, Default)]
pub(super) struct Tally(std::sync::Arc<[atomic::AtomicUsize; 17]>);

impl Tally {
    pub(super) fn add(&self, what: usize, by: usize) {
        self.0[what].fetch_add(by, atomic::Ordering::Relaxed);
    }

    fn of(&self, what: usize) -> usize {
        self.0[what].load(atomic::Ordering::Relaxed)
    }
}

/// Executions of the model.
const EXECUTIONS: usize = 0;
/// Records that had to be asked a second time.
pub(super) const MOVED_ON: usize = 1;
/// Chunks that the flusher seized.
pub(super) const SEIZED: usize = 2;
/// Visits while the owner was sealing its chunk.
pub(super) const SEALING: usize = 3;
/// Events dropped.
pub(super) const DROPPED: usize = 4;
/// Rows that a model found.
pub(super) const ROWS: usize = 5;
/// Threads that a round did not wait for.
pub(super) const BUSY: usize = 6;
/// Rounds that asked nobody, and rests.
pub(super) const STILL: usize = 7;
/// Large chunks that were merged while other threads took chunks.
pub(super) const MERGED: usize = 8;
/// Epochs that began.
pub(super) const EPOCHS: usize = 9;
/// Visits to owners of which the flusher could not know whether they were writing.
pub(super) const UNPROVED: usize = 10;
/// Changes of labels that a model found.
pub(super) const LABELS: usize = 11;
/// Threads of which one took over the other's node of cells.
pub(super) const ONE_NODE: usize = 12;
/// Threads that had each a node of its own.
pub(super) const TWO_NODES: usize = 13;
/// Readings that had every increment.
pub(super) const ALL: usize = 14;
/// Readings that did not.
pub(super) const SOME: usize = 15;
/// Readings that had one increment of two.
pub(super) const HALF: usize = 16;

/// Explores all executions of a model with at most that many preemptions: switches from a thread
/// that could go on. `LOOM_MAX_PREEMPTIONS` replaces the bound.
///
/// Loom's authors say that 2 or 3 preemptions are enough to find most bugs. A model has 3 if it
/// then takes some ten seconds or less, otherwise 2. Only the model with two emitting threads has
/// 1. With 2 the models notice each of the safeguards that `cargo xtask mutants` takes out.
pub(super) fn explore(
    name: &str,
    preemptions: usize,
    model: impl Fn(&Tally) + Send + Sync + 'static,
) -> Tally {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 20_000;
    let tally = Tally::default();
    let counts = tally.clone();
    builder.check(move || {
        counts.add(EXECUTIONS, 1);
        model(&counts);
    });
    println!(
        "{name}: {:?} (executions, moved on, seized, sealing, dropped, rows, busy, still, merged, \
         epochs, unproved, labels, one node, two nodes, all, some, half)",
        tally.0
    );
    tally
}

/// Fails if one of these never happened.
pub(super) fn assert_met(tally: &Tally, kinds: &[usize]) {
    for &kind in kinds {
        assert!(tally.of(kind) > 0, "nothing of kind {kind}: the model is too weak");
    }
}
