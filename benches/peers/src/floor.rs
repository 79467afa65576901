//! The floor: the least work that any recorder must do. It reads the counter and stores 24 bytes in
//! warm memory.

use std::hint::black_box;

use crate::{
    clock::ticks,
    harness::{Peer, numbers},
};

/// How many records the ring holds, a power of two. They take 192 KiB, which stay in the
/// second-level cache.
const SLOTS: usize = 8192;

/// A ring of records that nobody reads.
pub(crate) struct Floor {
    ring: Box<[[u64; 3]; SLOTS]>,
    next: usize,
    collected: usize,
}

impl Floor {
    /// A ring whose pages have been touched.
    pub(crate) fn new() -> Self {
        Self { ring: Box::new([[1; 3]; SLOTS]), next: 0, collected: 0 }
    }
}

impl Peer for Floor {
    fn name(&self) -> &'static str {
        "floor"
    }

    fn what(&self) -> &'static str {
        "rdtsc and a 24-byte store into a warm ring"
    }

    fn prepare(&mut self, _: u64) {
        self.collected = self.next;
    }

    fn pass(&mut self, first: u64, events: u64) {
        for index in first..first + events {
            let (a, b) = numbers(index);
            self.ring[self.next % SLOTS] = [ticks(), a, b];
            self.next += 1;
        }
        black_box(&mut self.ring);
    }

    fn collect(&mut self) -> u64 {
        (self.next - self.collected) as u64
    }
}
