//! Numbers to which many threads add.
//!
//! Each thread has a [`ThreadCells`] with a cell for each number, to which it alone writes: an
//! increment is a load, an addition and a store. Whoever reads a number sums its cells.
//!
//! Nodes are never freed. When a thread ends its node keeps its sums, and a later thread goes on
//! with them. So nothing has to be moved, and nothing is counted twice or lost. In the child of a
//! `fork` the nodes of the threads that it does not have keep their sums, too.
//!
//! The number of a cell may be used again. The sum at that time is then the new number's zero.
//!
//! What the orderings rely on:
//!
//! - A thread takes a node by an acquire that pairs with the release of the thread before. So it
//!   sees that thread's last stores, and adds to them.
//! - A node, and a page of cells, is published by a release and found by an acquire
//!   ([`ForkSafeOnce`]). A reader that finds it finds zeros, or what was added since.
//! - All else is relaxed. A reader that knows by any means that an increment has happened sees it,
//!   because a load cannot return an older value than one that happened before it.
//!
//! The module `loom_tests` checks this under every interleaving of a few threads.

use std::{cell::Cell, fmt, ptr};

use crate::{
    metrics::once::ForkSafeOnce,
    mutant,
    sync::{
        AtomicBool, AtomicU64, Ordering, const_fn, const_local, shared_static, thread_local, zeros,
    },
};

/// Cells of a node that are in the node itself. The shortest path is to them. Models have one.
const FIRST: usize = if cfg!(nettrace_loom) { 1 } else { 1_024 };
/// Cells of a page.
const PAGE: usize = if cfg!(nettrace_loom) { 1 } else { 64 };
/// Pages of a node.
const PAGES: usize = if cfg!(nettrace_loom) { 1 } else { 512 };
/// The number of cells.
pub(crate) const CELLS: u32 = (FIRST + PAGE * PAGES) as u32;
/// The number of no cell.
pub(crate) const NO_CELL: u32 = u32::MAX;

struct CellPage([AtomicU64; PAGE]);

impl CellPage {
    fn new() -> Self {
        Self(zeros())
    }
}

/// The cells of one thread.
pub(crate) struct ThreadCells {
    first: [AtomicU64; FIRST],
    pages: [ForkSafeOnce<CellPage>; PAGES],
    /// Whether a thread has it.
    is_taken: AtomicBool,
    next: ForkSafeOnce<&'static ThreadCells>,
}

impl ThreadCells {
    const_fn! {
        fn new() -> Self {
            let is_taken = AtomicBool::new(false);
            let pages = ForkSafeOnce::many();
            Self { first: zeros(), pages, is_taken, next: ForkSafeOnce::new() }
        }
    }

    fn cell(&self, index: u32) -> Option<&AtomicU64> {
        let index = index as usize;
        let Some(further) = index.checked_sub(FIRST) else { return self.first.get(index) };
        let page = self.pages.get(further / PAGE)?.get()?;
        page.0.get(further % PAGE)
    }

    fn make_cell(&self, index: u32) -> Option<&AtomicU64> {
        if let Some(further) = (index as usize).checked_sub(FIRST) {
            self.pages.get(further / PAGE)?.get_or_set(CellPage::new);
        }
        self.cell(index)
    }
}

shared_static! {
    /// The first node. Threads that are ending share it: its cells are changed by
    /// read-modify-writes.
    fn shared() -> &'static ThreadCells { ThreadCells::new() }
}

fn nodes() -> impl Iterator<Item = &'static ThreadCells> {
    let mut at = Some(shared());
    std::iter::from_fn(move || {
        let node = at?;
        at = node.next.get().copied();
        Some(node)
    })
}

/// The number of nodes besides the shared one.
#[cfg(all(test, nettrace_loom))]
pub(crate) fn count_nodes() -> usize {
    nodes().skip(1).count()
}

/// A node that belongs to this thread alone until it is [released](release).
pub(crate) fn take() -> &'static ThreadCells {
    if let Some(node) = nodes().skip(1).find(can_take) {
        return node;
    }
    let new: &'static ThreadCells = Box::leak(Box::new(ThreadCells::new()));
    // Nobody else knows it. The release of `ForkSafeOnce::set` publishes it.
    new.is_taken.store(true, Ordering::Relaxed);
    let mut last = shared();
    loop {
        let next = *last.next.get_or_set(|| new);
        if ptr::eq(next, new) {
            return new;
        }
        last = next;
    }
}

/// Takes a node if it is free.
fn can_take(node: &&ThreadCells) -> bool {
    // The load alone decides nothing: it saves the others the swap of a node that is taken.
    if node.is_taken.load(Ordering::Relaxed) {
        return false;
    }
    if mutant::takes_out("cells_no_swap") {
        node.is_taken.store(true, Ordering::Relaxed);
        return true;
    }
    // Pairs with the release in `release`.
    let order = match mutant::takes_out("cells_no_acquire") {
        true => Ordering::Relaxed,
        false => Ordering::Acquire,
    };
    !node.is_taken.swap(true, order)
}

/// Leaves a node, with its sums, to a later thread.
pub(crate) fn release(node: &'static ThreadCells) {
    // Pairs with the acquire in `can_take`.
    let order = match mutant::takes_out("cells_no_release") {
        true => Ordering::Relaxed,
        false => Ordering::Release,
    };
    node.is_taken.store(false, order);
}

const_local! {
    /// The first cells of this thread's node. None if it has no node: one comparison tells both.
    static FIRST_CELLS: Cell<&'static [AtomicU64]> = Cell::new(&[]);
}

thread_local! {
    /// Gives the node back when the thread ends.
    static OWNER: CellsOwner = CellsOwner(take());
}

struct CellsOwner(&'static ThreadCells);

impl Drop for CellsOwner {
    fn drop(&mut self) {
        // Whatever this thread still adds goes to the shared node.
        let _ = FIRST_CELLS.try_with(|first| first.set(&[]));
        release(self.0);
    }
}

impl fmt::Debug for CellsOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// Adds to this thread's cell. If that is none of its first ones, `otherwise` finds it, or adds
/// the value in another way and returns none.
///
/// Both ways end in the same addition, so its address is in one register. Some processors then
/// forward what one `add(1)` has stored to the next without delay. If the address has an index
/// they do not, and an increment takes four times as long.
#[inline]
pub(crate) fn add(index: u32, value: u64, otherwise: impl FnOnce() -> Option<&'static AtomicU64>) {
    let cell = match FIRST_CELLS.with(Cell::get).get(index as usize) {
        Some(cell) => cell,
        None => match otherwise() {
            Some(cell) => cell,
            None => return,
        },
    };
    // Nobody else writes this cell. The next thread that does has acquired this thread's release.
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

/// This thread's cell, which is made if there is none. A thread that is ending has no cell: then
/// the value is added to what such threads share.
pub(crate) fn cell_or_add(index: u32, value: u64) -> Option<&'static AtomicU64> {
    let Ok(node) = OWNER.try_with(|owner| owner.0) else {
        add_to_shared(index, value);
        return None;
    };
    FIRST_CELLS.with(|first| first.set(&node.first));
    node.make_cell(index)
}

/// Adds to the cell that threads share that are ending.
pub(crate) fn add_to_shared(index: u32, value: u64) {
    let Some(cell) = shared().make_cell(index) else { return };
    if mutant::takes_out("cells_shared_by_store") {
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
        return;
    }
    // No ordering: nothing else is published by it.
    cell.fetch_add(value, Ordering::Relaxed);
}

/// The sum of the cells with this number.
pub(crate) fn sum(index: u32) -> u64 {
    let cells = nodes().filter_map(|node| node.cell(index));
    cells.fold(0, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
}
