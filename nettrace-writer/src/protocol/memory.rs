//! The bytes of a pool's chunks. Only [`Room`] writes them, and only the flusher reads them. It is
//! unsafe.
//!
//! Invariants:
//!
//! - M1: every address that [`Memory::at`] returns points to `len` bytes inside one allocation. The
//!   allocation lives until [`Memory::free`] (see M5) or as long as the `Memory`. A `Memory` lives
//!   as long as its pool, which every record and the flusher keep alive. The same holds for the
//!   items of a [`Table`].
//! - M2: only the thread that holds a chunk writes its bytes: the owner of a record, while it is
//!   busy. Only the flusher reads them, after the chunk was handed over (sealed or seized: see
//!   `record`). Only the owner makes a [`Room`], and only the flusher takes a slice from
//!   [`Memory::bytes`].
//! - M3: a [`Room`] is within one chunk, and so is the header before it: each way to make one
//!   compares with the chunk's end.
//! - M4: bytes are zeroed at allocation, so all of them are initialised.
//! - M5: `free` is called when no thread can reach the memory any more, although records still
//!   refer to their pool. That is so after a round of the flusher that collected everything and
//!   whose heavy barrier came after every record was closed. An event that began before that
//!   barrier is over, and its chunk has come back. An event that begins after it finds `limit` at
//!   `SEIZED` and takes the slow path. There it finds no chunk, so that sealing touches nothing. It
//!   finds its record closed, so it ends without taking a chunk. No thread joins a closed session.
//!   After `free` the length is 0: if all this should be wrong, the checks of M1 panic.
//!
//! [`Room`]: crate::protocol::room::Room
#![allow(unsafe_code, reason = "M1 to M5")]

#[cfg(not(nettrace_loom))]
use std::alloc::{self, Layout};
use std::{fmt, ptr::NonNull};

use crate::{
    protocol::chunk_header::ChunkHeader,
    sync::{AtomicUsize, Ordering},
};

#[cfg(all(
    feature = "persistent",
    target_os = "linux",
    target_pointer_width = "64",
    not(nettrace_loom)
))]
pub(crate) mod mapping;

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
    /// If the items are in a mapping, which takes no part in allocations: its length.
    mapped: usize,
}

// SAFETY: a table is a boxed slice.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above: it gives out only shared references.
unsafe impl<T: Sync> Sync for Table<T> {}

impl Table<ChunkHeader> {
    /// Zeroed headers. There may be very many; headers that are never used take no pages. Returns
    /// `None` if there is not enough memory.
    #[cfg(not(nettrace_loom))]
    pub(crate) fn headers(count: usize) -> Option<Self> {
        let Ok(layout) = Layout::array::<ChunkHeader>(count) else {
            unreachable!("less than chunks")
        };
        assert!(layout.size() > 0, "a header at least");
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        let items = NonNull::slice_from_raw_parts(start.cast(), count);
        // SAFETY: just allocated with the layout of this slice. Zeros are valid headers, because
        // these consist of atomic integers and an atomic boolean.
        Some(Self::new(unsafe { Box::from_raw(items.as_ptr()) }))
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
        Self { start: NonNull::from(Box::leak(items)).cast(), len, mapped: 0 }
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
        if len > 0 && self.mapped > 0 {
            // SAFETY: whoever made the table gave it a mapping of this length, and no other call
            // has found the number of the items. These are atomics, which need no drop.
            unsafe { system::release(self.start.cast(), self.mapped) };
        } else if len > 0 {
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
