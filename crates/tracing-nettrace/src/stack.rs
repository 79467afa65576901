//! The spans that a thread has entered, in the order in which it entered them.
//!
//! `tracing` lets spans be left in any order. A span that is left while others are within it stays
//! in its place, marked, until those are left. So the innermost span that is not left is always the
//! one in force.
//!
//! A span that is entered once more inside itself stays where it is, as in a registry: what it has
//! entered since then is still the innermost. The connections of `h2` do that.

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
    /// `None` if the span was entered already.
    entry: Option<Entry>,
}

impl Entered {
    fn is(&self, owner: u64, id: u64) -> bool {
        self.id == id && self.owner == owner && !self.is_left
    }
}

thread_local! {
    static STACK: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Adds a span, and puts it in force by `enter`, unless the thread has entered it already. Returns
/// whether it is in force now.
#[inline]
pub(crate) fn push(owner: u64, id: u64, enter: impl FnOnce() -> Option<Entry>) -> bool {
    let pushed = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let is_new = !stack.iter().any(|entered| entered.is(owner, id));
        let entry = if is_new { Some(enter()?) } else { None };
        stack.push(Entered { owner, id, began: Began::now(), is_left: false, entry });
        Some(is_new)
    });
    pushed.ok().flatten().unwrap_or(false)
}

/// Leaves a span. Returns the nanoseconds since it was entered. `None` if it was not entered on
/// this thread, or has been entered before that and is not left.
#[inline]
pub(crate) fn pop(owner: u64, id: u64) -> Option<u64> {
    let popped = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        // A span that is left before any other, within one that is in force.
        let is_simple = |outer: &Entered| !outer.is_left && outer.entry.is_some();
        match &mut **stack {
            [others @ .., last] if last.is(owner, id) && others.last().is_none_or(is_simple) => {
                let nanos = last.entry.take().map(|entry| {
                    let nanos = last.began.elapsed().as_nanos();
                    entry.leave();
                    nanos
                });
                stack.pop();
                nanos
            }
            _ => pop_otherwise(&mut stack, owner, id),
        }
    });
    popped.ok().flatten()
}

/// [`pop`] for a span that has others within it, or is within one that is left or entered twice.
#[cold]
#[inline(never)]
fn pop_otherwise(stack: &mut Vec<Entered>, owner: u64, id: u64) -> Option<u64> {
    let entered = stack.iter_mut().rev().find(|entered| entered.is(owner, id))?;
    entered.is_left = true;
    let nanos = entered.entry.is_some().then(|| entered.began.elapsed().as_nanos());
    for entered in stack.iter_mut().rev() {
        match &entered.entry {
            Some(_) if !entered.is_left => break,
            _ => drop(entered.entry.take().map(Entry::leave)),
        }
    }
    while stack.last().is_some_and(|last| last.is_left) {
        stack.pop();
    }
    nanos
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
        let is_it = |entered: &&Entered| {
            entered.owner == owner && entered.entry.is_some() && !entered.is_left
        };
        Some(stack.iter().rev().find(is_it)?.id)
    });
    current.ok().flatten()
}
