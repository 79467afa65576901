//! The seam: the only module that names atomics and locks.

pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(feature = "metrics")]
pub(crate) use std::thread::LocalKey;
