//! The buffer for one event, on the emitting thread's stack. It has the size of the largest event
//! that the kernel delivers, and is not zeroed.
//!
//! The bytes are apart from their number, and a [`Buffer`] only refers to them. In one struct they
//! would be zeroed together: the compiler joins what it fills in anyway with the zeros beside it.
//!
//! Invariants:
//!
//! - B1: a [`Fill`] goes with one [`Storage`], whose first `len` bytes are initialised. `len` grows
//!   only by the number of bytes copied.
//! - B2: `len` is at most `CAPACITY`, so it is within the array.
#![allow(unsafe_code, reason = "B1, B2: an array that is not zeroed for every event")]

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

/// The bytes of a buffer.
pub(crate) struct Storage([MaybeUninit<u8>; CAPACITY]);

impl Storage {
    /// Bytes that are not initialised.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; CAPACITY])
    }

    /// The first bytes, if all fitted.
    #[inline]
    fn bytes(&self, Fill { len, overflowed }: Fill) -> Option<&[u8]> {
        // SAFETY: B1, B2.
        let bytes = unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), len) };
        (!overflowed).then_some(bytes)
    }
}

/// A buffer that remembers whether something did not fit.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    storage: &'a mut Storage,
    fill: Fill,
}

/// The fill level of a buffer.
#[derive(Clone, Copy, Debug)]
struct Fill {
    len: usize,
    overflowed: bool,
}

impl Fill {
    const EMPTY: Self = Self { len: 0, overflowed: false };
}

impl<'a> Buffer<'a> {
    /// An empty buffer.
    #[inline]
    pub(crate) const fn new(storage: &'a mut Storage) -> Self {
        Self { storage, fill: Fill::EMPTY }
    }

    /// Empties the buffer.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.fill = Fill::EMPTY;
    }

    /// Appends bytes. If they do not fit, remembers that instead.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        // Cannot overflow: a slice has at most `isize::MAX` bytes.
        let end = self.fill.len + bytes.len();
        if end > CAPACITY {
            return self.fail();
        }
        // SAFETY: `end` is within the array.
        unsafe { self.copy(bytes) };
        self.fill.len = end;
    }

    /// Appends values, of which `bytes` gives as many bytes as they have in memory.
    #[inline]
    pub(crate) fn put_all<T: Copy, const N: usize>(
        &mut self,
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        const { assert!(N == size_of::<T>()) };
        // Cannot overflow: a slice has at most `isize::MAX` bytes.
        let end = self.fill.len + values.len() * N;
        if end > CAPACITY {
            return self.fail();
        }
        for &value in values {
            // SAFETY: the last of the values ends at `end`, which is within the array.
            unsafe { self.copy(&bytes(value)) };
            self.fill.len += N;
        }
    }

    /// Copies bytes to the end.
    ///
    /// # Safety
    ///
    /// `len + bytes.len()` is within the array.
    #[inline]
    unsafe fn copy(&mut self, bytes: &[u8]) {
        let to = self.storage.0.as_mut_ptr().wrapping_add(self.fill.len).cast();
        // SAFETY: as promised. Nothing else refers to the array.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Replaces two bytes that were appended before.
    #[inline]
    pub(crate) fn patch(&mut self, at: usize, value: u16) {
        if let Some(to) = self.storage.0[..self.fill.len].get_mut(at..at.wrapping_add(2)) {
            to.copy_from_slice(&value.to_ne_bytes().map(MaybeUninit::new));
        }
    }

    /// The bytes appended so far; `None` if something did not fit.
    #[inline]
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.storage.bytes(self.fill)
    }

    /// The number of bytes appended so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.fill.len
    }

    /// Marks the event as one that cannot be written. Its bytes are of no use any more.
    #[inline]
    pub(crate) fn fail(&mut self) {
        self.fill = Fill { overflowed: true, ..Fill::EMPTY };
    }
}

/// A buffer on the heap.
#[derive(Debug)]
pub(crate) struct HeapBuffer {
    storage: Box<Storage>,
    fill: Fill,
}

impl HeapBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        Self { storage: Box::new(Storage::new()), fill: Fill::EMPTY }
    }

    /// Appends what `append` appends.
    pub(crate) fn append(&mut self, append: impl FnOnce(&mut Buffer<'_>)) {
        let mut buffer = Buffer { storage: &mut self.storage, fill: self.fill };
        append(&mut buffer);
        self.fill = buffer.fill;
    }

    /// Empties the buffer.
    pub(crate) fn clear(&mut self) {
        self.fill = Fill::EMPTY;
    }

    /// The bytes appended so far; `None` if something did not fit.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.storage.bytes(self.fill)
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_exactly_what_it_can() {
        let mut storage = Storage::new();
        let mut buffer = Buffer::new(&mut storage);
        buffer.put(&[1; CAPACITY - 1]);
        buffer.put(&[2]);
        buffer.put(&[]);
        let bytes = buffer.bytes().unwrap();
        assert_eq!((bytes.len(), bytes[CAPACITY - 1]), (CAPACITY, 2));
        buffer.put(&[3]);
        assert!(buffer.bytes().is_none());
        buffer.put(&[4]);
        assert!(buffer.bytes().is_none(), "it remembers");
        buffer.clear();
        assert_eq!(buffer.bytes(), Some(&[][..]));
    }

    #[test]
    fn values_are_appended_at_once_or_not_at_all() {
        let mut storage = Storage::new();
        let mut buffer = Buffer::new(&mut storage);
        buffer.put(&[7]);
        buffer.put_all(&[0x0102_u16, 0x0304], u16::to_be_bytes);
        assert_eq!(buffer.bytes(), Some(&[7, 1, 2, 3, 4][..]));
        buffer.put(&[0; CAPACITY - 5 - 8]);
        buffer.put_all(&[-1_i32; 2], i32::to_ne_bytes);
        assert_eq!(buffer.bytes().unwrap()[CAPACITY - 8..], [0xFF; 8]);
        buffer.put_all(&[1_u64; CAPACITY], u64::to_ne_bytes);
        assert!(buffer.bytes().is_none());
    }

    #[test]
    fn patches_what_is_there_and_nothing_else() {
        let mut storage = Storage::new();
        let mut buffer = Buffer::new(&mut storage);
        buffer.put(&[0; 3]);
        buffer.patch(1, 0x0101);
        buffer.patch(2, 0x0202);
        buffer.patch(usize::MAX, 0x0202);
        assert_eq!(buffer.bytes(), Some(&[0, 1, 1][..]));
    }

    #[test]
    fn a_kept_buffer_keeps_what_is_appended() {
        let mut kept = HeapBuffer::new();
        kept.append(|buffer| buffer.put(&[1]));
        kept.append(|buffer| buffer.put(&[2]));
        assert_eq!(kept.bytes(), Some(&[1, 2][..]));
        kept.append(|buffer| buffer.fail());
        assert!(kept.bytes().is_none());
        kept.clear();
        assert_eq!(kept.bytes(), Some(&[][..]));
    }
}
