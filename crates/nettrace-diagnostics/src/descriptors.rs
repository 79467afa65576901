//! Descriptors that the child of a `fork` closes.
//!
//! The child of a `fork` has no thread that answers, but copies of all descriptors. They would keep
//! connections open after the parent has closed them, and the socket after the parent has died, so
//! that a client would wait for an answer that never comes. So the child closes them. Only here is
//! unsafe code: the child closes descriptors whose owners are in threads that it does not have.
//!
//! Invariant:
//!
//! - D1: A descriptor in [`DESCRIPTORS`] belongs to a value that a [`ClosedInChild`] accompanies.
//!   In a child nothing drops such a value: either its thread does not exist there, or it is in a
//!   [`Handle`](crate::handle::Handle), which the server's thread also holds and so keeps alive.
#![allow(unsafe_code, reason = "D1")]

use std::os::fd::{AsRawFd, RawFd};

use crate::sync::{AtomicI32, Ordering};

/// More than the descriptors that all connections, sessions and listeners can have.
const MOST: usize = 256;

/// The descriptors that a child closes. -1: a free place.
static DESCRIPTORS: [AtomicI32; MOST] = [const { AtomicI32::new(-1) }; MOST];

/// Makes the child of a `fork` close a descriptor, while this lives. Drop it before the
/// descriptor's owner.
#[derive(Debug)]
pub(crate) struct ClosedInChild {
    place: &'static AtomicI32,
    descriptor: RawFd,
}

impl ClosedInChild {
    /// `None`: there are too many.
    pub(crate) fn new(owner: &impl AsRawFd) -> Option<Self> {
        let descriptor = owner.as_raw_fd();
        let is_free = |place: &&AtomicI32| {
            place.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        DESCRIPTORS.iter().find(is_free).map(|place| Self { place, descriptor })
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        // In a child the place is free already, and may have been taken again.
        let _ =
            self.place.compare_exchange(self.descriptor, -1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Closes the descriptors in the child of a `fork`. Takes no lock and does not allocate.
pub(crate) fn close_in_child() {
    for place in &DESCRIPTORS {
        let descriptor = place.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: D1: nobody else closes it.
            unsafe { rustix::io::close(descriptor) };
        }
    }
}
