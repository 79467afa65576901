//! Counts the allocations of a thread.
//!
//! A test program makes [`Counting`] its allocator:
//!
//! ```
//! use testkit::allocations::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! assert_eq!(allocations::of(|| drop(Box::new(1))), 1);
//! ```
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts the allocations of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

// SAFETY: passes every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How many allocations of this thread `work` makes. Always 0 if the program's allocator is not
/// [`Counting`].
pub fn of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}
