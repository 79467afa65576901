//! Checks what `cells` and `once` promise, under every interleaving that loom finds with few
//! preemptions: no increment is lost or counted twice while a thread begins or ends, while a page
//! is made, or while somebody reads.
//!
//! `cargo xtask loom` runs the models. Each fails if none of its executions met the situation that
//! it is made for. In a model a node has one cell of its own and one page of one cell.

use loom::{model::Builder, thread};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::cells;

/// The cell in the node, and the one in its page.
const CELLS: [u32; 2] = [0, 1];

/// How often an execution met something.
#[derive(Clone, Debug, Default)]
struct Met(Arc<[AtomicUsize; 3]>);

impl Met {
    fn add(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::Relaxed);
    }

    /// Prints how often each was met. Fails if one of the first so many was never met.
    fn assert_all(&self, kinds: usize) {
        println!("{:?}", self.0);
        let met = |kind: &AtomicUsize| kind.load(Ordering::Relaxed) > 0;
        assert!(self.0[..kinds].iter().all(met), "the model is too weak: {:?}", self.0);
    }
}

/// Explores all executions with at most so many switches from a thread that could go on.
/// `LOOM_MAX_PREEMPTIONS` replaces the number.
fn explore(preemptions: usize, model: impl Fn(&Met) + Send + Sync + 'static) -> Met {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    let met = Met::default();
    let counts = met.clone();
    builder.check(move || model(&counts));
    met
}

/// What a counter does.
fn add(index: u32, value: u64) {
    cells::add(index, value, || cells::cell_or_add(index, value));
}

fn sums() -> [u64; 2] {
    CELLS.map(cells::sum)
}

#[test]
fn loom_a_thread_that_ends_leaves_its_sums_to_the_next() {
    explore(3, |met| {
        let threads = [1, 10].map(|value| {
            thread::spawn(move || {
                add(0, value);
                add(0, value);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [22, 0]);
        // One thread has taken over the other's node, or each has its own.
        met.add(cells::count_nodes() - 1);
    })
    .assert_all(2);
}

#[test]
fn loom_one_thread_gets_a_free_node() {
    explore(3, |met| {
        cells::release(cells::take());
        let threads = [1, 10].map(|value| thread::spawn(move || add(0, value)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [11, 0]);
        met.add(cells::count_nodes() - 1);
    })
    .assert_all(2);
}

#[test]
fn loom_a_reader_sees_each_increment_once() {
    explore(3, |met| {
        let adding = thread::spawn(|| {
            add(0, 1);
            add(1, 10);
            add(0, 1);
            add(1, 10);
        });
        let reading = thread::spawn(|| (sums(), sums()));
        adding.join().unwrap();
        let (first, second) = reading.join().unwrap();
        // No sum goes back, none is more than what was added, and in the end each is exact.
        for (index, all) in [(0, 2), (1, 20)] {
            assert!(first[index] <= second[index] && second[index] <= all, "{first:?} {second:?}");
        }
        assert_eq!(sums(), [2, 20]);
        met.add(usize::from(first == [2, 20]));
        if first[1] == 10 {
            met.add(2);
        }
    })
    .assert_all(3);
}

#[test]
fn loom_threads_that_are_ending_share_cells() {
    explore(3, |met| {
        let threads = [1, 10].map(|value| {
            thread::spawn(move || {
                cells::add_to_shared(0, value);
                cells::add_to_shared(1, value);
            })
        });
        let reading = thread::spawn(sums);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [11, 11]);
        met.add(usize::from(reading.join().unwrap() == [11, 11]));
    })
    .assert_all(2);
}
