//! The bytes behind a pool's chunks, and the one way to write and read them. Unsafe lives here.
//!
//! Invariants:
//!
//! - M1: every address that [`Memory::at`] gives points to `len` bytes inside one allocation, which lives as long as
//!   the `Memory`, and a `Memory` lives as long as its pool, which every record and the flusher keep alive.
//! - M2: a chunk's bytes are written only by the thread that holds the chunk (a record's owner, while it is busy), and
//!   read only by the flusher after the chunk was handed over (sealed or seized: see `record`). A
//!   [`Cursor`] is made by the owner alone, a slice from [`Memory::bytes`] by the flusher alone.
//! - M3: a [`Cursor`] never writes outside of the range that it was made for: each method compares with what is left.
//! - M4: bytes are zeroed at allocation, so that all of them are initialised.
#![allow(unsafe_code, reason = "M1 to M4")]

use std::{alloc, ptr::NonNull};

use nettrace_format::payload::{Buffer, MAX_PAYLOAD, Refusal};

use crate::{record::Record, row::HEAD_ROOM};

const PAGE: usize = 4096;

/// One allocation of zeroed bytes. Large ones come straight from the kernel and have no pages until touched.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Page-aligned.
    start: NonNull<u8>,
    len: usize,
    allocation: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: the memory is plain bytes; who may touch which of them is M2's matter, not the handle's.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `None`: there is not so much.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(PAGE)?.max(PAGE);
        // Not aligned to pages by the allocator: of a large alignment it zeroes by writing, which touches every page.
        let layout = alloc::Layout::from_size_align(len.checked_add(PAGE)?, 16).ok()?;
        // SAFETY: the size is not zero.
        let allocation = unsafe { alloc::alloc_zeroed(layout) };
        let allocation = NonNull::new(allocation)?;
        let offset = allocation.as_ptr().align_offset(PAGE).min(PAGE);
        // SAFETY: at most a page from the start of an allocation that is a page longer than `len`.
        let start = unsafe { allocation.add(offset) };
        Some(Self { start, len, allocation, layout })
    }

    /// The address of `len` bytes from `offset`.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= self.len, "a place inside the memory");
        // SAFETY: M1, checked above.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Writes one byte of each page, for the caller who holds the chunk.
    pub(crate) fn touch(&self, at: *mut u8, len: usize) {
        for offset in (0..len).step_by(PAGE) {
            // SAFETY: M1 and M2: inside of the chunk, which the caller has alone. Volatile, since the value is the same.
            unsafe { at.wrapping_add(offset).write_volatile(0) };
        }
    }

    /// Gives the pages back to the system, where that can be done: the bytes are zeros again (M4). For a caller after whom nobody uses the
    /// memory.
    #[cfg(not(nettrace_loom))]
    pub(crate) fn discard(&self) {
        #[cfg(target_os = "linux")]
        // SAFETY: M1: the range is our own allocation, page-aligned; its content is of no interest to anyone.
        unsafe {
            libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_DONTNEED);
        }
    }

    /// The first `len` bytes of a chunk that was handed over.
    pub(crate) fn bytes<'a>(place: (*mut u8, usize), len: usize) -> &'a [u8] {
        assert!(len <= place.1, "bytes inside the chunk");
        // SAFETY: M1, M2, M4. The lifetime is the caller's to bound: the flusher keeps the chunk (and the pool) until
        // it has written what it borrowed.
        unsafe { std::slice::from_raw_parts(place.0, len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { alloc::dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

/// The free part of a busy record's chunk, at least as much as a row of a known payload takes.
#[derive(Debug)]
pub(crate) struct Window {
    at: *mut u8,
    limit: usize,
    payload: usize,
}

impl Window {
    /// `None`: a header and `payload` bytes do not fit, or the chunk may not be written.
    #[inline(always)]
    pub(crate) fn open(record: &Record, payload: usize) -> Option<Self> {
        // M2: the record is busy, and a limit that is an address ends the chunk that `pos` is in.
        let (at, limit) = (record.pos(), record.limit());
        (payload <= MAX_PAYLOAD && at as usize + HEAD_ROOM + payload <= limit).then_some(Self {
            at,
            limit,
            payload,
        })
    }

    /// Writes the header of a row and its payload's size; the cursor is for exactly the payload that the
    /// window was opened for.
    #[inline(always)]
    pub(crate) fn fixed(self, head: u64, head_len: usize, size: u32, size_len: usize) -> Cursor {
        let size_at = self.head(head, head_len);
        // SAFETY: M3: at most 7 and 4 bytes from the start, of HEAD_ROOM that are free.
        unsafe { size_at.cast::<[u8; 4]>().write_unaligned(size.to_le_bytes()) };
        Cursor::new(size_at.wrapping_add(size_len & 3), self.payload)
    }

    /// Writes the header of a row whose size, of two bytes, is set later; the cursor is for what fits.
    #[inline(always)]
    pub(crate) fn variable(self, head: u64, head_len: usize) -> (SizeField, Cursor) {
        let size_at = self.head(head, head_len);
        let body = size_at.wrapping_add(2);
        (SizeField(size_at), Cursor::new(body, self.limit - body as usize))
    }

    #[inline(always)]
    fn head(&self, head: u64, head_len: usize) -> *mut u8 {
        // SAFETY: M3: 8 bytes of HEAD_ROOM that are free.
        unsafe { self.at.cast::<[u8; 8]>().write_unaligned(head.to_le_bytes()) };
        self.at.wrapping_add(head_len & 7)
    }
}

/// Where the size of a payload goes.
#[derive(Debug)]
pub(crate) struct SizeField(*mut u8);

impl SizeField {
    /// Stores the size, of two bytes.
    #[inline(always)]
    pub(crate) fn set(self, size: u32) {
        // SAFETY: M3: within the HEAD_ROOM of the window that made this.
        unsafe { self.0.cast::<[u8; 2]>().write_unaligned((size as u16).to_le_bytes()) };
    }
}

/// Writes into a chunk, never beyond what it was given.
#[derive(Debug)]
pub(crate) struct Cursor {
    start: *mut u8,
    len: usize,
    room: usize,
    overflowed: bool,
    refusal: Option<Refusal>,
}

impl Cursor {
    #[inline(always)]
    fn new(start: *mut u8, room: usize) -> Self {
        Self { start, len: 0, room, overflowed: false, refusal: None }
    }

    /// From a position in a chunk to the chunk's end.
    pub(crate) fn in_chunk((start, size): (*mut u8, usize), at: *mut u8) -> Self {
        let used = (at as usize).wrapping_sub(start as usize);
        assert!(used <= size, "a position in the chunk");
        Self::new(at, size - used)
    }

    /// A cursor of its own for at most `max` bytes of what is left.
    pub(crate) fn split(&self, max: usize) -> Self {
        Self::new(self.position(), self.room().min(max))
    }

    /// Bytes left.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.room - self.len
    }

    /// Where the next byte goes.
    #[inline(always)]
    pub(crate) fn position(&self) -> *mut u8 {
        self.start.wrapping_add(self.len)
    }

    /// Why the payload was refused, if the encoder said so.
    #[inline(always)]
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }
}

impl Buffer for Cursor {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if self.room - self.len < bytes.len() {
            self.overflowed = true;
            return;
        }
        // SAFETY: M3, compared above; a chunk is never part of what a caller can borrow (M2), so they do not overlap.
        unsafe { self.position().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
    }

    #[inline(always)]
    fn space(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.room() < len {
            self.overflowed = true;
            return None;
        }
        let at = self.position();
        self.len += len;
        // SAFETY: M1, M2, M3, M4; the slice borrows the cursor, so that nothing else writes meanwhile.
        Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    #[inline(always)]
    fn window(&mut self, len: usize) -> Option<&mut [u8]> {
        // SAFETY: as for `space`.
        (self.room() >= len)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.position(), len) })
    }

    #[inline(always)]
    fn advance(&mut self, len: usize) {
        if self.room() >= len {
            self.len += len;
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if at > self.len || self.len - at < bytes.len() {
            self.overflowed = true;
            return;
        }
        // SAFETY: M3, compared above.
        unsafe {
            self.start.wrapping_add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    #[inline(always)]
    fn overflowed(&self) -> bool {
        self.overflowed || self.refusal.is_some()
    }

    #[inline(always)]
    fn fail(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
    }
}
