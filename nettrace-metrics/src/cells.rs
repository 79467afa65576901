//! Numbers to which many threads add.
//!
//! Each thread has a [`Node`] with a cell for each number, to which it alone writes: an increment
//! is a load, an addition and a store. Whoever reads a number sums its cells.
//!
//! Nodes are never freed. When a thread ends its node keeps its sums, and a later thread goes on
//! with them. So nothing has to be moved, and nothing is counted twice or lost. In the child of a
//! `fork` the nodes of the threads that it does not have keep their sums, too.
//!
//! The number of a cell may be used again. The sum at that time is then the new number's zero.
//!
//! What the orderings rely on: a thread takes a node by an acquire that pairs with the release of
//! the thread before. So it sees that thread's last stores, and adds to them. A reader that knows
//! by any means that an increment has happened sees it, because a load cannot return an older value
//! than one that happened before it.

use std::{cell::Cell, fmt, ptr};

use crate::{
    once::Once,
    sync::{AtomicBool, AtomicU64, Ordering},
};

/// Cells of a node that are in the node itself. The shortest path is to them.
const FIRST: usize = 1_024;
/// Cells of a page.
const PAGE: usize = 64;
/// Pages of a node.
const PAGES: usize = 512;
/// How many cells there are.
pub(crate) const CELLS: u32 = (FIRST + PAGE * PAGES) as u32;
/// The number of no cell.
pub(crate) const NO_CELL: u32 = u32::MAX;

struct Page([AtomicU64; PAGE]);

impl Page {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; PAGE])
    }
}

/// The cells of one thread.
struct Node {
    first: [AtomicU64; FIRST],
    pages: [Once<Page>; PAGES],
    /// Whether a thread has it.
    is_taken: AtomicBool,
    next: Once<&'static Node>,
}

impl Node {
    const fn new() -> Self {
        Self {
            first: [const { AtomicU64::new(0) }; FIRST],
            pages: [const { Once::new() }; PAGES],
            is_taken: AtomicBool::new(false),
            next: Once::new(),
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
            self.pages.get(further / PAGE)?.get_or_set(Page::new);
        }
        self.cell(index)
    }
}

/// The first node. Threads that are ending share it: its cells are changed by read-modify-writes.
static SHARED: Node = Node::new();

fn nodes() -> impl Iterator<Item = &'static Node> {
    let mut at = Some(&SHARED);
    std::iter::from_fn(move || {
        let node = at?;
        at = node.next.get().copied();
        Some(node)
    })
}

/// A node that belongs to this thread alone until it is [released](release).
fn take() -> &'static Node {
    let is_free = |node: &&Node| {
        // Acquire pairs with the release in `release`.
        !node.is_taken.load(Ordering::Relaxed) && !node.is_taken.swap(true, Ordering::Acquire)
    };
    if let Some(node) = nodes().skip(1).find(is_free) {
        return node;
    }
    let new: &'static Node = Box::leak(Box::new(Node::new()));
    new.is_taken.store(true, Ordering::Relaxed);
    let mut last = &SHARED;
    loop {
        let next = *last.next.get_or_set(|| new);
        if ptr::eq(next, new) {
            return new;
        }
        last = next;
    }
}

fn release(node: &'static Node) {
    // Release pairs with the acquire in `take`.
    node.is_taken.store(false, Ordering::Release);
}

thread_local! {
    /// The first cells of this thread's node. None if it has no node: one comparison tells both.
    static FIRST_CELLS: Cell<&'static [AtomicU64]> = const { Cell::new(&[]) };
    /// Gives the node back when the thread ends.
    static OWNER: Owner = Owner(take());
}

struct Owner(&'static Node);

impl Drop for Owner {
    fn drop(&mut self) {
        // Whatever this thread still adds goes to the shared node.
        FIRST_CELLS.set(&[]);
        release(self.0);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// Adds to one of this thread's first cells. `false`: it has no such cell.
#[inline(always)]
pub(crate) fn add_quickly(index: u32, value: u64) -> bool {
    let Some(cell) = FIRST_CELLS.get().get(index as usize) else { return false };
    // Nobody else writes this cell.
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
    true
}

/// Adds to this thread's cell, in any state of the thread.
pub(crate) fn add(index: u32, value: u64) {
    let Ok(node) = OWNER.try_with(|owner| owner.0) else {
        if let Some(cell) = SHARED.make_cell(index) {
            cell.fetch_add(value, Ordering::Relaxed);
        }
        return;
    };
    FIRST_CELLS.set(&node.first);
    if let Some(cell) = node.make_cell(index) {
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
    }
}

/// The sum of the cells with this number.
pub(crate) fn sum(index: u32) -> u64 {
    let cells = nodes().filter_map(|node| node.cell(index));
    cells.fold(0, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
}
