//! The spans that a thread has entered, in the order in which it entered them.
//!
//! `tracing` lets spans be left in any order. A span that is left while others are within it stays
//! in its place, marked, until those are left. So the innermost span that is not left is always the
//! one in force.

use std::cell::{Cell, RefCell};

use nettrace_writer::bridge::{Began, Entry};

/// A span that was entered.
#[derive(Debug)]
struct Entered {
    /// Which subscriber's span it is.
    owner: u64,
    id: u64,
    began: Began,
    is_left: bool,
    entry: Entry,
}

thread_local! {
    static STACK: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Adds a span that is in force by `entry`.
#[inline]
pub(crate) fn push(owner: u64, id: u64, entry: Entry) {
    let _ = STACK.try_with(|stack| {
        if let Ok(mut stack) = stack.try_borrow_mut() {
            stack.push(Entered { owner, id, began: Began::now(), is_left: false, entry });
        }
    });
}

/// Leaves a span. Returns the nanoseconds since it was entered. `None` if it was not entered on
/// this thread.
#[inline]
pub(crate) fn pop(owner: u64, id: u64) -> Option<u64> {
    let popped = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let is_it =
            |entered: &Entered| entered.id == id && entered.owner == owner && !entered.is_left;
        let entered = stack.iter_mut().rev().find(|entered| is_it(entered))?;
        entered.is_left = true;
        let nanos = entered.began.elapsed().as_nanos();
        while stack.last().is_some_and(|last| last.is_left) {
            if let Some(left) = stack.pop() {
                left.entry.leave();
            }
        }
        Some(nanos)
    });
    popped.ok().flatten()
}

thread_local! {
    /// The change of sessions that all spans of the thread's stack were told of.
    static TOLD: Cell<u32> = const { Cell::new(0) };
}

/// Calls `f` with the spans that this thread has entered, the outermost first, unless it was called
/// for this change of sessions before.
#[inline]
pub(crate) fn after_change(changes: u32, f: impl FnMut(u64, u64)) {
    if TOLD.get() != changes {
        TOLD.set(changes);
        for_each(f);
    }
}

#[cold]
fn for_each(mut f: impl FnMut(u64, u64)) {
    // `f` may log, so the stack is not borrowed while it runs.
    let entered = |at: usize| {
        let entered = STACK.try_with(|stack| {
            let stack = stack.try_borrow().ok()?;
            stack.get(at).map(|entered| (entered.owner, entered.id))
        });
        entered.ok().flatten()
    };
    for at in 0.. {
        let Some((owner, id)) = entered(at) else { return };
        f(owner, id);
    }
}

/// The innermost span of a subscriber that this thread has entered and not left.
#[inline]
pub(crate) fn current(owner: u64) -> Option<u64> {
    let current = STACK.try_with(|stack| {
        let stack = stack.try_borrow().ok()?;
        let is_it = |entered: &&Entered| entered.owner == owner && !entered.is_left;
        Some(stack.iter().rev().find(is_it)?.id)
    });
    current.ok().flatten()
}
