//! The descriptors of files that the child of a `fork` must not keep open.

use std::os::fd::RawFd;

use crate::sync::{AtomicI32, Ordering};

/// More than the files that a process writes at a time. What exceeds it stays open in a child.
const MOST: usize = 128;

/// -1: a free place.
static DESCRIPTORS: [AtomicI32; MOST] = [const { AtomicI32::new(-1) }; MOST];

/// A place of a descriptor that a child closes.
#[derive(Debug)]
pub(crate) struct ClosedInChild(&'static AtomicI32);

impl ClosedInChild {
    /// `None`: there was no place, and a child does not close its copy.
    pub(super) fn of(descriptor: RawFd) -> Option<Self> {
        // Nothing depends on the order: a process has a single thread when its handler runs.
        let is_free = |place: &&AtomicI32| {
            place.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        DESCRIPTORS.iter().find(is_free).map(Self)
    }

    /// A child that is forked from here on does not close the descriptor.
    pub(crate) fn remove(&self) {
        self.0.store(-1, Ordering::Relaxed);
    }
}

/// Passes each descriptor that the child of a `fork` has to close to `close`. From then on nothing
/// uses or closes it. Takes no lock and does not allocate.
pub(super) fn in_child(close: impl Fn(RawFd)) {
    for place in &DESCRIPTORS {
        let descriptor = place.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            close(descriptor);
        }
    }
}
