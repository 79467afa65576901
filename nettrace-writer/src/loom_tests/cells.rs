//! Models of counters: of the cells of threads, and of places that are filled once. No increment
//! is lost or counted twice while a thread begins or ends, while a page is made, or while somebody
//! reads. A node has one cell of its own and one page of one cell.

use crate::{
    loom_tests::explore::{ALL, HALF, ONE_NODE, SOME, TWO_NODES, Tally, assert_met, explore},
    metrics::cells,
    sync::thread,
};

/// The cell in the node, and the one in its page.
const CELLS: [u32; 2] = [0, 1];

/// What a counter does.
fn add(index: u32, value: u64) {
    cells::add(index, value, || cells::cell_or_add(index, value));
}

fn sums() -> [u64; 2] {
    CELLS.map(cells::sum)
}

/// Whether one thread has taken over the other's node, or each has its own.
fn tell_nodes(tally: &Tally) {
    tally.add([ONE_NODE, TWO_NODES][cells::count_nodes() - 1], 1);
}

/// Whether a reading had every increment.
fn tell(tally: &Tally, has_all: bool) {
    tally.add(if has_all { ALL } else { SOME }, 1);
}

#[test]
fn loom_a_thread_that_ends_leaves_its_sums_to_the_next() {
    let tally = explore("cells of the next", 3, |tally| {
        let threads = [1, 10].map(|value| {
            thread::spawn(move || {
                add(0, value);
                add(0, value);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [22, 0]);
        tell_nodes(tally);
    });
    assert_met(&tally, &[ONE_NODE, TWO_NODES]);
}

#[test]
fn loom_one_thread_gets_a_free_node() {
    let tally = explore("free node", 3, |tally| {
        cells::release(cells::take());
        let threads = [1, 10].map(|value| thread::spawn(move || add(0, value)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [11, 0]);
        tell_nodes(tally);
    });
    assert_met(&tally, &[ONE_NODE, TWO_NODES]);
}

#[test]
fn loom_a_reader_sees_each_increment_once() {
    let tally = explore("reader of cells", 3, |tally| {
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
        tell(tally, first == [2, 20]);
        tally.add(HALF, usize::from(first[1] == 10));
    });
    assert_met(&tally, &[ALL, SOME, HALF]);
}

#[test]
fn loom_threads_that_are_ending_share_cells() {
    let tally = explore("shared cells", 3, |tally| {
        let threads = [1, 10].map(|value| {
            thread::spawn(move || {
                cells::add_to_shared(0, value);
                cells::add_to_shared(1, value);
            })
        });
        let reading = thread::spawn(sums);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums(), [11, 11]);
        tell(tally, reading.join().unwrap() == [11, 11]);
    });
    assert_met(&tally, &[ALL, SOME]);
}
