//! The only module of this crate that names atomics and threads.

use std::{io, thread, time::Duration};

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Lets other threads go on for a millisecond.
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(1));
}

/// Starts a detached thread.
pub(crate) fn spawn(name: &str, work: fn()) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work).map(|_| ())
}

/// Enough for a thread that makes system calls and formats nothing.
const STACK_BYTES: usize = 64 << 10;
