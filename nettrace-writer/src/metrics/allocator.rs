//! An allocator that counts.
//!
//! Invariant:
//!
//! - A1: Every call goes to the other allocator unchanged, and its result is returned unchanged.
//!   Counting does not allocate, unwind or take a lock.
#![allow(unsafe_code, reason = "A1")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use crate::{
    metrics::instruments::Meter,
    sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// The number of shards.
const SHARDS: usize = 16;

/// Counts of some threads, in lines of their own.
#[repr(align(128))]
#[derive(Debug)]
struct Shard {
    allocations: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
}

static COUNTS: [Shard; SHARDS] = [const {
    Shard { allocations: AtomicU64::new(0), allocated: AtomicU64::new(0), freed: AtomicU64::new(0) }
}; SHARDS];

thread_local! {
    /// The thread's shard and 1; 0 if it has none yet.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

fn own() -> &'static Shard {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut own = OWN.get();
    if own == 0 {
        own = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS + 1;
        OWN.set(own);
    }
    &COUNTS[own - 1]
}

fn sum(of: fn(&Shard) -> &AtomicU64) -> u64 {
    COUNTS.iter().map(|shard| of(shard).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
}

/// An allocator that counts allocations and bytes, and leaves the work to another allocator.
///
/// ```
/// use nettrace_writer::metrics::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator::system();
///
/// fn main() {
///     CountingAllocator::<std::alloc::System>::observe();
///     let before = CountingAllocator::<std::alloc::System>::live();
///     let bytes = vec![0_u8; 1 << 20];
///     assert!(CountingAllocator::<std::alloc::System>::live() >= before + (1 << 20));
///     drop(bytes);
/// }
/// ```
///
/// An allocation costs two atomic increments more, in memory that few threads share.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator<A = System>(A);

impl CountingAllocator {
    /// The system's allocator.
    #[must_use]
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> CountingAllocator<A> {
    /// Another allocator.
    #[must_use]
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// The bytes that are allocated now.
    #[must_use]
    pub fn live() -> u64 {
        // Those that were freed first: an allocation comes before its end.
        let freed = sum(|shard| &shard.freed);
        sum(|shard| &shard.allocated).saturating_sub(freed)
    }

    /// Makes the counts known to clients: of the meter `NetTrace.Process`, the counters
    /// `process.memory.allocations` (`{allocation}`) and `process.memory.allocated` (`By`), and the
    /// gauge `process.memory.live` (`By`). Further calls do nothing.
    pub fn observe() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        static METER: Meter = Meter::new("NetTrace.Process");
        if IS_DONE.swap(true, Ordering::Relaxed) {
            return;
        }
        METER
            .observable_counter("process.memory.allocations", |observer| {
                observer.observe(sum(|shard| &shard.allocations));
            })
            .unit("{allocation}")
            .description("Allocations")
            .build()
            .forget();
        METER
            .observable_counter("process.memory.allocated", |observer| {
                observer.observe(sum(|shard| &shard.allocated));
            })
            .unit("By")
            .description("Bytes that were allocated")
            .build()
            .forget();
        METER
            .observable_gauge("process.memory.live", |observer| {
                observer.observe(Self::live());
            })
            .unit("By")
            .description("Bytes that are allocated now")
            .build()
            .forget();
    }
}

fn count(pointer: *mut u8, size: usize) {
    if !pointer.is_null() {
        let own = own();
        own.allocations.fetch_add(1, Ordering::Relaxed);
        own.allocated.fetch_add(size as u64, Ordering::Relaxed);
    }
}

// SAFETY: A1.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: A1.
        let pointer = unsafe { self.0.alloc(layout) };
        count(pointer, layout.size());
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: A1.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        count(pointer, layout.size());
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        own().freed.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: A1.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: A1.
        let pointer = unsafe { self.0.realloc(pointer, layout, size) };
        if !pointer.is_null() {
            count(pointer, size);
            own().freed.fetch_add(layout.size() as u64, Ordering::Relaxed);
        }
        pointer
    }
}
