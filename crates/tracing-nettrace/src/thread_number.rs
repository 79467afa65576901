//! A number for each thread, and where it looks for a row first.

use std::cell::Cell;

use nettrace_writer::bridge;

use crate::table::hash;

// Single words, because code for those is small enough to stand wherever they are used.
thread_local! {
    /// The thread's number, which no other one has. 0: it has none yet.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// The row of the first level that this thread gave back last, or would like to begin with, if
    /// it keeps none.
    static NEAR: Cell<usize> = const { Cell::new(0) };
}

/// The number of this thread.
#[inline]
pub(crate) fn thread() -> u64 {
    match THREAD.get() {
        0 => first_thread(),
        number => number,
    }
}

/// The number of this thread, if it has one. Otherwise 0.
#[inline]
pub(crate) fn known_thread() -> u64 {
    THREAD.get()
}

#[cold]
#[inline(never)]
fn first_thread() -> u64 {
    let number = bridge::unique_number();
    THREAD.set(number);
    NEAR.set((hash(number) >> 32) as usize);
    number
}

/// Where this thread should begin to look for a row if it keeps none.
pub(crate) fn near() -> usize {
    NEAR.get()
}

pub(crate) fn set_near(place: usize) {
    NEAR.set(place);
}
