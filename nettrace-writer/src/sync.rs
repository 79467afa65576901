//! The seam: the one module that names atomics, locks and threads, so that loom can stand in for
//! them (`--cfg nettrace_loom`). Everything else takes them from here.

#[cfg(not(nettrace_loom))]
mod real {
    pub(crate) use std::{
        sync::atomic::{
            AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
            fence,
        },
        thread,
    };

    pub(crate) use parking_lot::{Condvar, Mutex};
}

#[cfg(nettrace_loom)]
mod real {
    pub(crate) use loom::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
        },
        thread,
    };
}

pub(crate) use real::*;
