//! Counts the allocations of a thread, and their bytes.
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
    /// The bytes of this thread, less those of others that it has freed, and the most that were.
    static BYTES: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn add(bytes: i64) {
    let _ = BYTES.try_with(|cell| {
        let (now, most) = cell.get();
        cell.set((now + bytes, most.max(now + bytes)));
    });
}

/// The system's allocator, which counts the allocations of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

// SAFETY: passes every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        add(layout.size() as i64);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The number of allocations of this thread in `work`. Always 0 if the program's allocator is not
/// [`Counting`].
pub fn of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// By how many bytes `work` changes the memory of this thread, and by how many at most meanwhile.
/// Memory that is moved counts twice while it is.
pub fn bytes_of(work: impl FnOnce()) -> (i64, i64) {
    let before = BYTES.get().0;
    BYTES.set((before, before));
    work();
    let (now, most) = BYTES.get();
    (now - before, most - before)
}

/// The number of bytes that this thread has allocated and not freed.
pub fn held() -> i64 {
    BYTES.get().0
}
