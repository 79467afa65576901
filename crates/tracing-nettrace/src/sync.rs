//! The seam: the only module that names atomics, locks and threads.

pub(crate) use std::{
    sync::{
        Mutex, Once, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread::{Builder, panicking, sleep},
};
