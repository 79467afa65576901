//! The seam: atomics of this crate are named here alone.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
