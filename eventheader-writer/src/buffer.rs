//! The buffer for one event, on the emitting thread's stack. It has the size of the largest event
//! that the kernel delivers, and is not zeroed.
//!
//! Invariant B1: the first `len` bytes are initialised. `len` grows only by the number of bytes
//! copied, and never beyond the array.
#![allow(unsafe_code, reason = "B1: an array that is not zeroed for every event")]

use std::{fmt, mem::MaybeUninit, ptr, slice};

/// The most bytes of an event that the kernel delivers: header, extensions and payload together.
///
/// `perf` takes at most 8,192 bytes for a tracepoint's record, of which 8 are the kernel's own
/// (`PERF_MAX_TRACE_SIZE` and `struct trace_entry`). The kernel drops a larger event and reports
/// its writing as a success. (tracefs' own ring buffer, as in `cat trace_pipe`, holds somewhat less
/// than a page.)
pub const MAX_EVENT_BYTES: usize = 8_192 - 8;

/// The size of the write index, which goes before each event: the number from its registration.
pub(crate) const INDEX_BYTES: usize = 4;

const CAPACITY: usize = INDEX_BYTES + MAX_EVENT_BYTES;

/// A buffer that remembers whether something did not fit.
pub(crate) struct Buffer {
    bytes: [MaybeUninit<u8>; CAPACITY],
    len: usize,
    overflowed: bool,
}

impl Buffer {
    /// An empty buffer.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { bytes: [MaybeUninit::uninit(); CAPACITY], len: 0, overflowed: false }
    }

    /// Empties the buffer.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.overflowed = false;
    }

    /// Appends bytes. If they do not fit, remembers that instead.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let Some(end) = self.len.checked_add(bytes.len()).filter(|&end| end <= CAPACITY) else {
            self.overflowed = true;
            return;
        };
        let to = self.bytes.as_mut_ptr().wrapping_add(self.len).cast();
        // SAFETY: `len + bytes.len()` is within the array, which nothing else refers to.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.len = end;
    }

    /// Replaces two bytes that were appended before.
    #[inline(always)]
    pub(crate) fn patch(&mut self, at: usize, value: u16) {
        if let Some(to) = self.bytes[..self.len].get_mut(at..at.wrapping_add(2)) {
            to.copy_from_slice(&value.to_ne_bytes().map(MaybeUninit::new));
        }
    }

    /// The bytes appended so far.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: B1.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }

    /// The number of bytes appended so far.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether something did not fit.
    #[inline(always)]
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Marks the event as one that cannot be written.
    #[inline(always)]
    pub(crate) fn fail(&mut self) {
        self.overflowed = true;
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_exactly_what_it_can() {
        let mut buffer = Buffer::new();
        buffer.put(&[1; CAPACITY - 1]);
        buffer.put(&[2]);
        assert!(!buffer.overflowed());
        buffer.put(&[]);
        assert!(!buffer.overflowed());
        buffer.put(&[3]);
        assert!(buffer.overflowed());
        assert_eq!(buffer.bytes().len(), CAPACITY);
        assert_eq!(buffer.bytes()[CAPACITY - 1], 2);
        buffer.clear();
        assert!(buffer.bytes().is_empty() && !buffer.overflowed());
    }

    #[test]
    fn patches_what_is_there_and_nothing_else() {
        let mut buffer = Buffer::new();
        buffer.put(&[0; 3]);
        buffer.patch(1, 0x0101);
        buffer.patch(2, 0x0202);
        buffer.patch(usize::MAX, 0x0202);
        assert_eq!(buffer.bytes(), [0, 1, 1]);
    }
}
