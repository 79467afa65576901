//! What the process is: its environment, its threads, the ids that only it gives, and what happens
//! to all of that at `fork` and `exit`.

pub(crate) mod description;
#[cfg(unix)]
pub(crate) mod descriptors;
pub(crate) mod environment;
#[cfg(unix)]
pub(crate) mod handlers;
pub(crate) mod ids;
pub(crate) mod thread;

use crate::sync::{AtomicU32, Ordering};

/// How many `fork`s separate this process from the first one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that tells a process from those that it was forked from.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
