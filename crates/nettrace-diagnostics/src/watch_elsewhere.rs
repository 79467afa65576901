//! Where the system has no inotify, a tool is found at the next attempt to connect.

use std::{os::fd::BorrowedFd, path::Path, time::Instant};

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "there is no watch")]
pub(crate) enum WatchEvent {
    Others,
    Arrival,
    FolderGone,
}

/// There is none.
#[derive(Debug)]
pub(crate) enum PathWatch {}

impl PathWatch {
    pub(crate) fn new(_: &Path) -> Option<Self> {
        None
    }

    pub(crate) fn waits(&self, _: Instant) -> Option<BorrowedFd<'_>> {
        match *self {}
    }

    pub(crate) fn rests_until(&self) -> Option<Instant> {
        match *self {}
    }

    pub(crate) fn see(&mut self, _: Instant) -> WatchEvent {
        match *self {}
    }
}
