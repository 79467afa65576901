//! The session's memory: chunks of one size, and a few jumbo chunks for events that no ordinary one
//! holds, cut from one allocation of the session's budget and recycled for ever.
//!
//! Any thread takes a chunk, lock-free (a Treiber stack over indices, with a tag against ABA: R. K. Treiber, "Systems
//! Programming: Coping with Parallelism", 1986), the flusher alone gives them back. Last in, first out: a chunk that is
//! still in the caches is used first, and memory that was never needed is never touched.

use crate::{
    memory::Memory,
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// No chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// What is known of a chunk besides its bytes. Written by the thread that holds the chunk, with relaxed
/// stores; the hand-over (seal or seize) publishes it.
#[derive(Debug)]
pub(crate) struct ChunkHeader {
    /// The next chunk of whatever list the chunk is in.
    pub(crate) next: AtomicU32,
    /// Timestamp that the first row's delta counts from.
    pub(crate) base_ts: AtomicU64,
    /// Number of the first row.
    pub(crate) first_number: AtomicU64,
    /// How many numbers between the first row and the end have no row.
    pub(crate) skipped: AtomicU64,
    /// Whether there is anything but plain rows.
    pub(crate) escapes: AtomicBool,
    /// Set when sealed: bytes used.
    pub(crate) len: AtomicU32,
    /// Set when sealed: timestamp of the last row.
    pub(crate) last_ts: AtomicU64,
    /// Set when sealed: the last number given out so far.
    pub(crate) end_number: AtomicU64,
}

impl ChunkHeader {
    fn new() -> Self {
        Self {
            next: AtomicU32::new(NONE),
            base_ts: AtomicU64::new(0),
            first_number: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            escapes: AtomicBool::new(false),
            len: AtomicU32::new(0),
            last_ts: AtomicU64::new(0),
            end_number: AtomicU64::new(0),
        }
    }
}

/// A stack of free chunks of one size.
#[derive(Debug)]
struct Class {
    /// Tag (high half) and index of the chunk on top.
    free: AtomicU64,
    /// Chunks from here to `end` were never used.
    fresh: AtomicU32,
    start: u32,
    end: u32,
    /// How many chunks are in use.
    used: AtomicU32,
}

/// All chunks of a session.
#[derive(Debug)]
pub(crate) struct Pool {
    headers: Box<[ChunkHeader]>,
    memory: Memory,
    chunk_size: usize,
    jumbo_size: usize,
    small: Class,
    jumbo: Class,
}

/// Sizes of the two kinds of chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) chunk_size: usize,
    pub(crate) chunks: u32,
    pub(crate) jumbo_size: usize,
    pub(crate) jumbos: u32,
}

impl Pool {
    /// `None`: there is not so much memory.
    pub(crate) fn new(layout: Layout) -> Option<Self> {
        let small_bytes = layout.chunk_size * layout.chunks as usize;
        let memory = Memory::new(small_bytes + layout.jumbo_size * layout.jumbos as usize)?;
        let total = layout.chunks + layout.jumbos;
        Some(Self {
            headers: (0..total).map(|_| ChunkHeader::new()).collect(),
            memory,
            chunk_size: layout.chunk_size,
            jumbo_size: layout.jumbo_size,
            small: Class::new(0, layout.chunks),
            jumbo: Class::new(layout.chunks, total),
        })
    }

    pub(crate) fn header(&self, chunk: u32) -> &ChunkHeader {
        &self.headers[chunk as usize]
    }

    pub(crate) fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    pub(crate) fn jumbo_size(&self) -> usize {
        self.jumbo_size
    }

    /// The address of a chunk's first byte and its size.
    pub(crate) fn place(&self, chunk: u32) -> (*mut u8, usize) {
        if self.is_jumbo(chunk) {
            let at = self.small.end as usize * self.chunk_size
                + (chunk - self.small.end) as usize * self.jumbo_size;
            (self.memory.at(at, self.jumbo_size), self.jumbo_size)
        } else {
            (self.memory.at(chunk as usize * self.chunk_size, self.chunk_size), self.chunk_size)
        }
    }

    pub(crate) fn is_jumbo(&self, chunk: u32) -> bool {
        chunk >= self.small.end
    }

    /// Takes a chunk that holds `need` bytes; `None` when the budget is spent (or no chunk is that large).
    pub(crate) fn take(&self, need: usize) -> Option<u32> {
        if need <= self.chunk_size {
            self.small.take(&self.headers)
        } else if need <= self.jumbo_size {
            self.jumbo.take(&self.headers)
        } else {
            None
        }
    }

    /// Gives a chunk back. The caller has it alone.
    pub(crate) fn give(&self, chunk: u32) {
        let class = if self.is_jumbo(chunk) { &self.jumbo } else { &self.small };
        class.give(&self.headers, chunk);
    }

    /// How many ordinary chunks are in use, and how many there are.
    pub(crate) fn use_of_chunks(&self) -> (u32, u32) {
        (self.small.used.load(Ordering::Relaxed), self.small.end)
    }

    /// Whether a quarter of the chunks of either size or more is in use.
    pub(crate) fn is_low(&self) -> bool {
        [&self.small, &self.jumbo].into_iter().any(|class| {
            let all = class.end - class.start;
            class.used.load(Ordering::Relaxed) >= all.div_ceil(4)
        })
    }

    /// Gives all pages back to the system. Nothing of the memory may be in use or of interest any more.
    #[cfg(not(nettrace_loom))]
    pub(crate) fn discard(&self) {
        self.memory.discard();
    }

    /// Touches chunks that were never used, so that there are `ahead` whose pages exist. Flusher only.
    pub(crate) fn prefault(&self, ahead: u32) {
        let (mut taken, mut list) = (0, NONE);
        while taken < ahead {
            let Some(chunk) = self.small.take_fresh() else { break };
            let (at, size) = self.place(chunk);
            self.memory.touch(at, size);
            self.header(chunk).next.store(list, Ordering::Relaxed);
            list = chunk;
            taken += 1;
        }
        while list != NONE {
            let next = self.header(list).next.load(Ordering::Relaxed);
            self.small.push(&self.headers, list);
            list = next;
        }
    }

    /// How many chunks were ever touched.
    pub(crate) fn touched(&self) -> u32 {
        self.small.fresh.load(Ordering::Relaxed).min(self.small.end)
    }
}

impl Class {
    fn new(start: u32, end: u32) -> Self {
        Self {
            free: AtomicU64::new(u64::from(NONE)),
            fresh: AtomicU32::new(start),
            start,
            end,
            used: AtomicU32::new(0),
        }
    }

    fn take(&self, headers: &[ChunkHeader]) -> Option<u32> {
        let chunk = self.pop(headers).or_else(|| self.take_fresh())?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    fn give(&self, headers: &[ChunkHeader], chunk: u32) {
        self.push(headers, chunk);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    fn pop(&self, headers: &[ChunkHeader]) -> Option<u32> {
        // Acquire pairs with the release in `push`: the chunk's `next`, and that the flusher is done reading its bytes.
        let mut top = self.free.load(Ordering::Acquire);
        loop {
            let chunk = top as u32;
            if chunk == NONE {
                return None;
            }
            // May read a `next` that is being changed by someone who took the chunk meanwhile; then the tag
            // differs and the exchange fails.
            let next = headers[chunk as usize].next.load(Ordering::Relaxed);
            let new = ((top >> 32).wrapping_add(1) << 32) | u64::from(next);
            match self.free.compare_exchange_weak(top, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => top = now,
            }
        }
    }

    fn push(&self, headers: &[ChunkHeader], chunk: u32) {
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            headers[chunk as usize].next.store(top as u32, Ordering::Relaxed);
            let new = ((top >> 32).wrapping_add(1) << 32) | u64::from(chunk);
            // Release pairs with the acquire in `pop`.
            match self.free.compare_exchange_weak(top, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    fn take_fresh(&self) -> Option<u32> {
        // Relaxed: a chunk that was never used has nothing to publish; the counter alone decides who has it.
        let mut at = self.fresh.load(Ordering::Relaxed);
        while at < self.end {
            match self.fresh.compare_exchange_weak(at, at + 1, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(at),
                Err(now) => at = now,
            }
        }
        None
    }
}
