//! The seam: the only module that names atomics and threads.

pub(crate) use std::{
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence},
    thread,
};
