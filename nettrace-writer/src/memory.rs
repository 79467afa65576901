//! The bytes of a pool's chunks, and the only code that writes and reads them. It is unsafe.
//!
//! Invariants:
//!
//! - M1: every address that [`Memory::at`] returns points to `len` bytes inside one allocation. The
//!   allocation lives until [`Memory::free`] (see M5) or as long as the `Memory`. A `Memory` lives
//!   as long as its pool, which every record and the flusher keep alive. The same holds for the
//!   items of a [`Table`].
//! - M2: only the thread that holds a chunk writes its bytes: the owner of a record, while it is
//!   busy. Only the flusher reads them, after the chunk was handed over (sealed or seized: see
//!   `record`). Only the owner makes a [`Cursor`], and only the flusher takes a slice from
//!   [`Memory::bytes`].
//! - M3: a [`Cursor`] never writes outside of the range that it was made for: each method compares
//!   with what is left.
//! - M4: bytes are zeroed at allocation, so all of them are initialised.
//! - M5: `free` is called when no thread can reach the memory any more, although records still
//!   refer to their pool. That is so after a round of the flusher that collected everything and
//!   whose heavy barrier came after every record was closed. An event that began before that
//!   barrier is over, and its chunk has come back. An event that begins after it finds `limit` at
//!   `SEIZED` and takes the slow path. There it finds no chunk, so that sealing touches nothing. It
//!   finds its record closed, so it ends without taking a chunk. No thread joins a closed session.
//!   After `free` the length is 0: if all this should be wrong, the checks of M1 panic.
#![allow(unsafe_code, reason = "M1 to M5")]

#[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
mod widen;

#[cfg(not(nettrace_loom))]
use std::alloc::{self, Layout};
use std::{fmt, hint, ptr::NonNull};

use nettrace_format::payload::{Buffer, MAX_PAYLOAD, Refusal};

use crate::{
    pool::ChunkHeader,
    record::{ATTENTION, Record},
    row::HEAD_ROOM,
    sync::{AtomicUsize, Ordering},
};

const PAGE: usize = 4096;

/// One allocation of zeroed bytes. It comes straight from the kernel where there is `mmap`: then it
/// has no pages until they are touched, and none after it is freed. (An allocator may keep freed
/// memory, and may zero memory by writing to it.)
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    /// 0 once the memory is freed.
    len: AtomicUsize,
}

// SAFETY: the memory is plain bytes. M2 says who may touch which of them; the handle gives no
// access.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Returns `None` if there is not enough memory.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(PAGE)?.max(PAGE);
        Some(Self { start: system::reserve(len)?, len: AtomicUsize::new(len) })
    }

    /// The address of the `len` bytes from `offset`.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        // Relaxed: by M5 no thread that could see the 0 calls this.
        assert!(offset + len <= self.len.load(Ordering::Relaxed), "a place inside the memory");
        // SAFETY: M1, checked above.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Writes one byte of each page of a chunk, which the caller must hold.
    pub(crate) fn touch(&self, at: *mut u8, len: usize) {
        for offset in (0..len).step_by(PAGE) {
            // SAFETY: M1 and M2: inside of the chunk, which only the caller holds. Volatile, so
            // that the compiler keeps a store of the same value.
            unsafe { at.wrapping_add(offset).write_volatile(0) };
        }
    }

    /// Gives the memory back to the system. Nobody may use it afterwards (M5).
    pub(crate) fn free(&self) {
        let len = self.len.swap(0, Ordering::Relaxed);
        if len > 0 {
            // SAFETY: `new` reserved it with this length, and no other call has found the length.
            unsafe { system::release(self.start, len) };
        }
    }

    /// The first `len` bytes of a chunk that was handed over.
    pub(crate) fn bytes<'a>(place: (*mut u8, usize), len: usize) -> &'a [u8] {
        assert!(len <= place.1, "bytes inside the chunk");
        // SAFETY: M1, M2, M4. The caller bounds the lifetime: the flusher keeps the chunk (and the
        // pool) until it has written what it borrowed.
        unsafe { std::slice::from_raw_parts(place.0, len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(all(unix, not(nettrace_loom)))]
mod system {
    use std::ptr::{self, NonNull};

    /// Reserves zeroed bytes, page-aligned.
    pub(super) fn reserve(len: usize) -> Option<NonNull<u8>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then(|| NonNull::new(start.cast())).flatten()
    }

    /// # Safety
    ///
    /// The bytes come from `reserve` with this length, and nobody uses them afterwards.
    pub(super) unsafe fn release(start: NonNull<u8>, len: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { libc::munmap(start.as_ptr().cast(), len) };
    }
}

#[cfg(any(not(unix), nettrace_loom))]
mod system {
    use std::{
        alloc::{Layout, alloc_zeroed, dealloc},
        ptr::NonNull,
    };

    /// Less than a page: allocators write zeros to memory with a large alignment.
    const ALIGNMENT: usize = 16;

    /// Reserves zeroed bytes.
    pub(super) fn reserve(len: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(len, ALIGNMENT).ok()?;
        // SAFETY: the size is not zero, for `Memory::new` asks for a page at least.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    ///
    /// The bytes come from `reserve` with this length, and nobody uses them afterwards.
    pub(super) unsafe fn release(start: NonNull<u8>, len: usize) {
        let Ok(layout) = Layout::from_size_align(len, ALIGNMENT) else { return };
        // SAFETY: the caller guarantees it; `reserve` used the same layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

/// Items that can be freed while references to the table exist (M5).
pub(crate) struct Table<T> {
    start: NonNull<T>,
    /// 0 once the items are freed.
    len: AtomicUsize,
}

// SAFETY: a table is a boxed slice.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above: it gives out only shared references.
unsafe impl<T: Sync> Sync for Table<T> {}

/// A type for which bytes of zero are a valid value.
///
/// # Safety
/// Bytes that are all zero are a valid value of the type.
#[cfg(not(nettrace_loom))]
unsafe trait Zero {}

// SAFETY: it consists of atomic integers and an atomic boolean.
#[cfg(not(nettrace_loom))]
unsafe impl Zero for ChunkHeader {}

impl Table<ChunkHeader> {
    /// Zeroed headers. There may be very many; headers that are never used take no pages. Returns
    /// `None` if there is not enough memory.
    #[cfg(not(nettrace_loom))]
    pub(crate) fn headers(count: usize) -> Option<Self> {
        fn zeroed<T: Zero>(count: usize) -> Option<Box<[T]>> {
            let Ok(layout) = Layout::array::<T>(count) else { unreachable!("less than chunks") };
            assert!(layout.size() > 0, "a header at least");
            // SAFETY: the size is not zero.
            let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
            let items = NonNull::slice_from_raw_parts(start.cast(), count);
            // SAFETY: just allocated with the layout of this slice, and zeros are values of `T`.
            Some(unsafe { Box::from_raw(items.as_ptr()) })
        }
        zeroed(count).map(Self::new)
    }

    /// Headers that the models can follow.
    #[cfg(nettrace_loom)]
    pub(crate) fn headers(count: usize) -> Option<Self> {
        Some(Self::new((0..count).map(|_| ChunkHeader::default()).collect()))
    }
}

impl<T> Table<T> {
    fn new(items: Box<[T]>) -> Self {
        let len = AtomicUsize::new(items.len());
        Self { start: NonNull::from(Box::leak(items)).cast(), len }
    }

    pub(crate) fn at(&self, index: usize) -> &T {
        // Relaxed: as in `Memory::at`.
        assert!(index < self.len.load(Ordering::Relaxed), "an item of the table");
        // SAFETY: M1, checked above.
        let item = unsafe { self.start.add(index) };
        // SAFETY: as above; by M5 the reference is not used after the items are freed.
        unsafe { item.as_ref() }
    }

    /// Frees the items. Nobody may use them afterwards (M5).
    pub(crate) fn free(&self) {
        let len = self.len.swap(0, Ordering::Relaxed);
        if len > 0 {
            let items = NonNull::slice_from_raw_parts(self.start, len);
            // SAFETY: `new` leaked the box of this length, and no other call has found the length.
            drop(unsafe { Box::from_raw(items.as_ptr()) });
        }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        self.free();
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?})", self.len)
    }
}

/// The free part of a busy record's chunk, large enough for a row with the payload that is asked
/// for.
#[derive(Debug)]
pub(crate) struct Window {
    at: *mut u8,
    limit: usize,
    payload: usize,
}

impl Window {
    /// Returns `None` if a header and `payload` bytes do not fit, or if the chunk may not be
    /// written.
    #[inline(always)]
    pub(crate) fn open(record: &Record, payload: usize) -> Option<Self> {
        // M2: the record is busy. If `limit` is an address it is HEAD_ROOM bytes before the end of
        // the chunk that `pos` is in. If not, it is below every position, and the room negative.
        let (at, limit) = (record.pos(), record.limit());
        let room = limit.wrapping_sub(at as usize) as isize;
        (payload <= MAX_PAYLOAD && payload as isize <= room).then_some(Self { at, limit, payload })
    }

    /// Writes the header of a row with its payload's size. Returns a cursor for exactly the payload
    /// that the window was opened for.
    #[inline(always)]
    pub(crate) fn fixed(self, head: u64, head_len: usize, size: u32, size_len: usize) -> Cursor {
        let size_at = self.head(head, head_len);
        // SAFETY: M3: at most 7 and 4 bytes from the start, within the HEAD_ROOM that is free.
        unsafe { size_at.cast::<[u8; 4]>().write_unaligned(size.to_le_bytes()) };
        Cursor::new(size_at.wrapping_add(size_len & 3), self.payload)
    }

    /// Writes the header of a row without its payload's size. Returns a cursor for exactly the
    /// payload that the window was opened for.
    #[inline(always)]
    pub(crate) fn same(self, head: u64, head_len: usize) -> Cursor {
        Cursor::new(self.head(head, head_len), self.payload)
    }

    /// Writes the header of a row: its flags, and four bytes more. Returns a cursor for exactly the
    /// payload that the window was opened for, and where that payload ends.
    #[inline(always)]
    pub(crate) fn sized(self, flags: u8, rest: u32) -> (Cursor, *mut u8) {
        // SAFETY: M3: a byte, within the HEAD_ROOM that is free.
        unsafe { self.at.write(flags) };
        let rest_at = self.at.wrapping_add(1).cast::<[u8; 4]>();
        // SAFETY: M3: the four bytes after it, within the HEAD_ROOM as well.
        unsafe { rest_at.write_unaligned(rest.to_le_bytes()) };
        let payload = self.at.wrapping_add(5);
        (Cursor::new(payload, self.payload), payload.wrapping_add(self.payload))
    }

    /// Writes the header of a row whose size, of two bytes, is set later. Returns a cursor for the
    /// rest of the chunk.
    #[inline(always)]
    pub(crate) fn variable(self, head: u64, head_len: usize) -> (SizeField, Cursor) {
        let size_at = self.head(head, head_len);
        let body = size_at.wrapping_add(2);
        (SizeField(size_at), Cursor::new(body, self.limit + HEAD_ROOM - body as usize))
    }

    #[inline(always)]
    fn head(&self, head: u64, head_len: usize) -> *mut u8 {
        // SAFETY: M3: 8 bytes, within the HEAD_ROOM that is free.
        unsafe { self.at.cast::<[u8; 8]>().write_unaligned(head.to_le_bytes()) };
        self.at.wrapping_add(head_len & 7)
    }
}

/// The place of a payload's size.
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

/// Writes into a part of a chunk, and never outside of it.
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

    /// A cursor from a position in a chunk to the chunk's end.
    pub(crate) fn in_chunk((start, size): (*mut u8, usize), at: *mut u8) -> Self {
        let used = (at as usize).wrapping_sub(start as usize);
        assert!(used <= size, "a position in the chunk");
        Self::new(at, size - used)
    }

    /// A cursor from a busy record's position to the end of the chunk. `None` if there is no chunk,
    /// or if the next event must take the slow path.
    #[inline(always)]
    pub(crate) fn to_limit(record: &Record) -> Option<Self> {
        // M2: the record is busy. If `limit` is an address it is HEAD_ROOM bytes before the end of
        // the chunk that `pos` is in.
        let (at, limit) = (record.pos(), record.limit());
        (limit > ATTENTION).then(|| Self::new(at, (limit + HEAD_ROOM).saturating_sub(at as usize)))
    }

    /// A cursor for the next `len` bytes of a busy record's chunk. `None` if they do not fit with
    /// the header of a row, if there is no chunk, or if the next event must take the slow path.
    #[inline(always)]
    pub(crate) fn for_next(record: &Record, len: usize) -> Option<Self> {
        // M2: as in `to_limit`. What is no address is below every position.
        let at = record.pos();
        (at as usize + len <= record.limit()).then(|| Self::new(at, len))
    }

    /// A separate cursor for at most `max` of the bytes that are left.
    pub(crate) fn split(&self, max: usize) -> Self {
        Self::new(self.position(), self.room().min(max))
    }

    /// How many bytes are left.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.room - self.len
    }

    /// Where the next byte goes.
    #[inline(always)]
    pub(crate) fn position(&self) -> *mut u8 {
        self.start.wrapping_add(self.len)
    }

    /// Why the encoder refused the payload, if it did.
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
        // SAFETY: M3, compared above. Nobody can borrow bytes of a chunk (M2), so the ranges do not
        // overlap.
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
        // SAFETY: M1, M2, M3, M4. The slice borrows the cursor, so nothing else writes meanwhile.
        Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    #[inline(always)]
    fn window(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.room() < len {
            return None;
        }
        let at = self.position();
        // SAFETY: M1: an address in a chunk, or the one after its end. The compiler cannot know
        // that.
        unsafe { hint::assert_unchecked(!at.is_null()) };
        // SAFETY: as for `space`.
        Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    #[inline(always)]
    fn advance(&mut self, len: usize) {
        if self.room() >= len {
            self.len += len;
        }
    }

    #[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
    #[inline(always)]
    fn put_plain(&mut self, text: &[u8]) -> bool {
        // A slice has at most `isize::MAX` bytes.
        let len = 2 * text.len();
        if self.room() < len {
            return false;
        }
        // SAFETY: M3, compared above. The ranges do not overlap: see `put`.
        let plain = unsafe { widen::plain(text.as_ptr(), text.len(), self.position()) };
        if plain {
            self.len += len;
        }
        plain
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
