//! The process: its environment, its threads, and what becomes of both at `fork` and `exit`.

pub(crate) mod description;
#[cfg(unix)]
pub(crate) mod descriptors;
pub(crate) mod environment;
#[cfg(unix)]
pub(crate) mod handlers;
pub(crate) mod reserved;
pub(crate) mod thread;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use crate::{
    protocol::clock,
    sync::{AtomicU32, Ordering},
};

/// The number of `fork`s between this process and the first one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Random bits: the standard library seeds its hash maps with some of the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish() ^ clock::monotonic()
}

/// A number that tells a process from those that it was forked from.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
