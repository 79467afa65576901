//! Memory that is a part of a file, and so outlives the process. It is unsafe.
//!
//! Invariants:
//!
//! - P1: a [`Mapping`] has `len` bytes from `start` on, as long as it lives. The pages are in the
//!   file system before they are touched, so that a full file system is an error beforehand and not
//!   a signal. (Whoever cuts the file all the same ends the process.)
//! - P2: words are atomics. Other bytes are written by one thread at a time, and read by other
//!   processes only, when this one is gone.
//! - P3: the child of a `fork` does not have the mapping. It does not reach for it either, because
//!   it forgets its buffers and sessions first.
#![allow(unsafe_code, reason = "P1 to P3")]

use std::{io, mem::ManuallyDrop, os::fd::RawFd, ptr, ptr::NonNull};

use super::{Memory, Table, system};
use crate::{
    protocol::chunk_header::ChunkHeader,
    sync::{AtomicU32, AtomicU64, AtomicUsize},
};

/// A part of a file as memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: P2.
unsafe impl Send for Mapping {}
// SAFETY: P2.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a part of a file, which begins at a page.
    pub(crate) fn new(file: RawFd, at: usize, len: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (place, at) = (ptr::null_mut(), at as libc::off_t);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(place, len, access, libc::MAP_SHARED, file, at) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(mapped) = NonNull::new(start.cast()) else { return Err(io::Error::other("null")) };
        let mapping = Self { start: mapped, len };
        // SAFETY: the mapping that was just made. It concerns only children.
        match unsafe { libc::madvise(start, len, libc::MADV_DONTFORK) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// The address of `len` bytes.
    pub(crate) fn place(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "within the mapping");
        // SAFETY: P1, checked above.
        unsafe { self.start.add(at) }
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0, "an aligned word");
        let place = self.place(at, 8).cast();
        // SAFETY: P1. A mapping begins at a page, so this is aligned. P2: an atomic.
        unsafe { place.as_ref() }
    }

    pub(crate) fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at % 4 == 0, "an aligned half of a word");
        let place = self.place(at, 4).cast();
        // SAFETY: as above.
        unsafe { place.as_ref() }
    }

    /// Writes bytes, which no other thread reads or writes (P2).
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let place = self.place(at, bytes.len());
        // SAFETY: P1, P2. `bytes` is not a part of the mapping, of which there are no slices.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
    }

    fn into_parts(self) -> (NonNull<u8>, usize) {
        let this = ManuallyDrop::new(self);
        (this.start, this.len)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this length, and nothing refers to it any more.
        unsafe { system::release(self.start, self.len) };
    }
}

impl Memory {
    /// The memory of a file that is zeroed.
    pub(crate) fn of(mapping: Mapping) -> Self {
        let (start, len) = mapping.into_parts();
        Self { start, len: AtomicUsize::new(len) }
    }
}

impl Table<ChunkHeader> {
    /// Headers in a file that is zeroed.
    pub(crate) fn of(mapping: Mapping, count: usize) -> Self {
        let _ = mapping.place(0, count * size_of::<ChunkHeader>());
        let (start, mapped) = mapping.into_parts();
        // Aligned, because a mapping begins at a page; valid by `Zero`.
        Self { start: start.cast(), len: AtomicUsize::new(count), mapped }
    }
}
