//! Stands for the log where there are no recorder files.

use std::ops::Deref;

/// There is none.
#[derive(Debug)]
pub(crate) enum Log {}

/// There is none.
#[derive(Debug)]
pub(crate) enum Kept {}

/// What would be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Blocks {
        #[expect(dead_code, reason = "for the log")]
        events: u64,
    },
    Threads,
    Moved {
        #[expect(dead_code, reason = "for the log")]
        order: u64,
        #[expect(dead_code, reason = "for the log")]
        has_threads: bool,
    },
}

impl Log {
    pub(crate) fn count(&mut self, _: u64) {
        match *self {}
    }

    pub(crate) fn most(&self) -> usize {
        match *self {}
    }

    pub(crate) fn put(&mut self, _: &[u8], _: Kind) -> Option<Kept> {
        match *self {}
    }

    pub(crate) fn is_read(&self) -> bool {
        match *self {}
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn give_up_oldest(&mut self) {
        match *self {}
    }

    pub(crate) fn give_up_before(&mut self, _: &Kept) {
        match *self {}
    }

    pub(crate) fn clear(&mut self) {
        match *self {}
    }
}

impl Kept {
    pub(crate) fn order(&self) -> u64 {
        match *self {}
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match *self {}
    }
}
