//! The session's memory: chunks, and a few jumbo chunks for events that are too large for a chunk.
//! All are cut from one allocation of the session's budget and recycled for as long as the session
//! lives.
//!
//! Any thread takes a chunk without a lock; only the flusher gives chunks back. The free chunks are
//! on a Treiber stack over indices, with a tag against ABA (R. K. Treiber, "Systems Programming:
//! Coping with Parallelism", 1986). The stack is last in, first out: a chunk that is still in the
//! caches is used first, and memory that is never needed is never touched.
//!
//! # Small chunks
//!
//! A thread that emits rarely fills a fraction of a chunk before the flusher takes it, and a budget
//! holds few chunks. So a large chunk can be split into *small* ones of about 2 KiB. A thread that
//! needs a small chunk and finds none splits a large one and leaves the other parts to others. A
//! thread that wants a large chunk and finds none takes a small one, unless the event needs more.
//! So an event finds room as long as there is any, however the memory is split.
//!
//! The flusher [merges](Pool::merge) small chunks when all parts of a large one are free. For that
//! it takes all free small chunks at once. This is harmless, because it does so only while half of
//! the memory is free in large chunks.
//!
//! *What a thread may miss:* between the pop of a large chunk and the push of its parts, these are
//! on neither stack. A thread that finds both stacks empty at that moment treats the budget as
//! spent. It misses less than one large chunk.

use crate::{
    protocol::{
        chunk_header::{ChunkHeader, NONE},
        memory::{Memory, Table},
    },
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

/// A stack of free chunks of one size, whose numbers go from `start` to `end`.
#[derive(Debug)]
struct Class {
    /// The tag (high half) and the number of the chunk on top.
    free: AtomicU64,
    /// Chunks from this one to `end` have never been used.
    fresh: AtomicU32,
    start: u32,
    end: u32,
    /// How many chunks are in use.
    used: AtomicU32,
}

/// All chunks of a session.
#[derive(Debug)]
pub(crate) struct Pool {
    /// A header for each small chunk, then one for each jumbo chunk. A large chunk uses the header
    /// of its first part.
    headers: Table<ChunkHeader>,
    memory: Memory,
    chunk_size: usize,
    small_size: usize,
    jumbo_size: usize,
    /// How many small chunks a large one has.
    parts: u32,
    small: Class,
    large: Class,
    jumbo: Class,
    /// How many large chunks are split.
    split: AtomicU32,
    /// Whether there are too many threads for a large chunk each.
    crowded: AtomicBool,
}

/// The sizes of the kinds of chunk. A large chunk can be split into `parts` small ones; 1 means
/// that it is never split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) chunk_size: usize,
    pub(crate) chunks: u32,
    pub(crate) parts: u32,
    pub(crate) jumbo_size: usize,
    pub(crate) jumbos: u32,
}

impl Layout {
    /// How many chunks have headers.
    pub(crate) fn headers(&self) -> usize {
        (self.chunks * self.parts + self.jumbos) as usize
    }

    /// How many bytes all chunks take.
    pub(crate) fn memory(&self) -> usize {
        self.chunk_size * self.chunks as usize + self.jumbo_size * self.jumbos as usize
    }

    /// The size of a small chunk: a multiple of a cache line.
    pub(crate) fn small_size(&self) -> usize {
        match self.parts {
            1 => self.chunk_size,
            parts => (self.chunk_size / parts as usize) & !63,
        }
    }
}

impl Pool {
    /// Returns `None` if there is not enough memory.
    pub(crate) fn new(layout: Layout) -> Option<Self> {
        let (headers, memory) = (Table::headers(layout.headers())?, Memory::new(layout.memory())?);
        Some(Self::of(layout, headers, memory))
    }

    /// A pool of this memory.
    pub(crate) fn of(layout: Layout, headers: Table<ChunkHeader>, memory: Memory) -> Self {
        let Layout { chunk_size, chunks, parts, jumbo_size, jumbos } = layout;
        // Chunks are numbered in this order: small ones, large ones, jumbo ones.
        let (small, large) = (if parts > 1 { chunks * parts } else { 0 }, chunks);
        let total = small + large + jumbos;
        Self {
            headers,
            memory,
            chunk_size,
            small_size: layout.small_size(),
            jumbo_size,
            parts,
            // Small chunks come only from splitting large ones.
            small: Class::new(0, 0),
            large: Class::new(small, small + large),
            jumbo: Class::new(small + large, total),
            split: AtomicU32::new(0),
            crowded: AtomicBool::new(false),
        }
    }

    pub(crate) fn header(&self, chunk: u32) -> &ChunkHeader {
        self.headers.at(self.index(chunk))
    }

    pub(crate) fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    pub(crate) fn small_size(&self) -> usize {
        self.small_size
    }

    pub(crate) fn jumbo_size(&self) -> usize {
        self.jumbo_size
    }

    /// The address of a chunk's first byte and its size.
    pub(crate) fn place(&self, chunk: u32) -> (*mut u8, usize) {
        let (at, size) = if chunk < self.large.start {
            let (parent, part) = (chunk / self.parts, chunk % self.parts);
            let at = parent as usize * self.chunk_size + part as usize * self.small_size;
            (at, self.small_size)
        } else if chunk < self.jumbo.start {
            ((chunk - self.large.start) as usize * self.chunk_size, self.chunk_size)
        } else {
            let ordinary = self.large.count() as usize * self.chunk_size;
            (ordinary + (chunk - self.jumbo.start) as usize * self.jumbo_size, self.jumbo_size)
        };
        (self.memory.at(at, size), size)
    }

    pub(crate) fn is_jumbo(&self, chunk: u32) -> bool {
        chunk >= self.jumbo.start
    }

    fn is_small(&self, chunk: u32) -> bool {
        chunk < self.large.start
    }

    /// Notes how many threads record. If a large chunk for each of them would take half of the
    /// memory or more, they get no large chunks while memory runs low.
    pub(crate) fn set_threads(&self, threads: usize) {
        // Relaxed: a hint, which may be late.
        self.crowded.store(2 * threads > self.large.count() as usize, Ordering::Relaxed);
    }

    /// Takes a chunk that holds `need` bytes. `large` says whether the thread can use a large one.
    /// Returns `None` when the budget is spent, or if no chunk is that large.
    pub(crate) fn take(&self, need: usize, large: bool) -> Option<u32> {
        // Depending on the configuration a jumbo chunk may be smaller than a large one.
        if need > self.jumbo_size.max(self.chunk_size) {
            None
        } else if need > self.chunk_size {
            self.jumbo.take(self)
        } else if need > self.small_size {
            // A jumbo chunk if there is no large one: only small chunks may be left.
            self.large.take(self).or_else(|| self.jumbo.take(self))
        } else if large && !(self.crowded.load(Ordering::Relaxed) && self.is_low()) {
            self.large.take(self).or_else(|| self.take_small())
        } else {
            self.take_small()
        }
    }

    fn take_small(&self) -> Option<u32> {
        if self.parts == 1 {
            return self.large.take(self);
        }
        // The second `pop` finds parts of the last large chunk, if another thread has just split
        // it.
        let chunk =
            self.small.pop(self).or_else(|| self.split()).or_else(|| self.small.pop(self))?;
        self.small.used.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    /// Splits a large chunk, and returns its first part.
    fn split(&self) -> Option<u32> {
        let parent = self.large.pop(self).or_else(|| self.large.take_fresh())?;
        self.split.fetch_add(1, Ordering::Relaxed);
        let first = (parent - self.large.start) * self.parts;
        self.small.push_all(self, first + 1..first + self.parts);
        Some(first)
    }

    /// Gives a chunk back, which nobody else may hold.
    pub(crate) fn give(&self, chunk: u32) {
        #[cfg(not(nettrace_loom))]
        self.header(chunk).holder.store(0, Ordering::Relaxed);
        let class = if self.is_jumbo(chunk) {
            &self.jumbo
        } else if self.is_small(chunk) {
            &self.small
        } else {
            &self.large
        };
        class.push_all(self, [chunk]);
        class.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// Merges small chunks if all parts of a large one are free and half of the memory is free in
    /// large chunks. Flusher only. `free` is a buffer for the chunks that it looks at.
    pub(crate) fn merge(&self, free: &mut Vec<u32>) {
        if self.split.load(Ordering::Relaxed) == 0 || 2 * self.taken() > self.large.count() {
            return;
        }
        free.clear();
        self.small.pop_all(self, free);
        free.sort_unstable();
        let parents = free.chunk_by(|one, other| one / self.parts == other / self.parts);
        for parts in parents {
            if parts.len() == self.parts as usize {
                self.split.fetch_sub(1, Ordering::Relaxed);
                self.large.push_all(self, [self.large.start + parts[0] / self.parts]);
            } else {
                self.small.push_all(self, parts.iter().copied());
            }
        }
    }

    /// How many large chunks the chunks in use would fill.
    pub(crate) fn in_use(&self) -> u32 {
        let small = self.small.used.load(Ordering::Relaxed);
        self.large.used.load(Ordering::Relaxed) + small.div_ceil(self.parts)
    }

    /// How many large chunks are in use or split.
    pub(crate) fn taken(&self) -> u32 {
        self.large.used.load(Ordering::Relaxed) + self.split.load(Ordering::Relaxed)
    }

    /// How many large chunks there are, whether split or not.
    pub(crate) fn chunks(&self) -> u32 {
        self.large.count()
    }

    /// How many chunks there are if all are split.
    pub(crate) fn pieces(&self) -> u32 {
        self.large.count() * self.parts
    }

    /// Whether no chunk is in use: no record has one, and the flusher holds no rows. Flusher only,
    /// because only the flusher gives chunks back. If it returns `true`, a thread that takes a
    /// chunk later sees what the flusher stored before the call.
    pub(crate) fn is_unused(&self) -> bool {
        // Pairs with the fences that follow `take`, in `Record::install` and `Idle::wake`.
        fence(Ordering::SeqCst);
        let classes = [&self.small, &self.large, &self.jumbo];
        classes.iter().all(|class| class.used.load(Ordering::Relaxed) == 0)
    }

    /// Whether a quarter or more of the chunks, or of the jumbo chunks, is in use.
    pub(crate) fn is_low(&self) -> bool {
        let used = |class: &Class| class.used.load(Ordering::Relaxed);
        used(&self.small) + used(&self.large) * self.parts >= self.pieces().div_ceil(4)
            || used(&self.jumbo) >= self.jumbo.count().div_ceil(4)
    }

    /// Frees all chunks. Flusher only, once no thread can reach any of them (M5 in
    /// [`memory`](crate::protocol::memory)). The counts of chunks remain.
    pub(crate) fn free(&self) {
        self.memory.free();
        self.headers.free();
    }

    /// Whether there is a free chunk, for a model in which no other thread takes one.
    #[cfg(nettrace_loom)]
    pub(crate) fn has_free(&self) -> bool {
        self.in_use() < self.large.count()
    }

    /// Touches up to `ahead` chunks that have never been used, as long as there is `time` for
    /// another. Flusher only.
    pub(crate) fn prefault(&self, ahead: u32, time: impl Fn() -> bool) {
        for _ in 0..ahead {
            if !time() {
                return;
            }
            let Some(chunk) = self.large.take_fresh() else { return };
            let (at, size) = self.place(chunk);
            self.memory.touch(at, size);
            // One by one: an event that finds no chunk is dropped.
            self.large.push_all(self, [chunk]);
        }
    }

    /// How many large chunks have ever been taken.
    pub(crate) fn touched(&self) -> u32 {
        self.large.fresh.load(Ordering::Relaxed).min(self.large.end) - self.large.start
    }

    /// The index of a chunk's header.
    fn index(&self, chunk: u32) -> usize {
        let index = if self.is_small(chunk) {
            chunk
        } else if self.is_jumbo(chunk) {
            self.large.count() * self.parts + (chunk - self.jumbo.start)
        } else {
            (chunk - self.large.start) * self.parts
        };
        index as usize
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

    fn count(&self) -> u32 {
        self.end - self.start
    }

    fn take(&self, pool: &Pool) -> Option<u32> {
        let chunk = self.pop(pool).or_else(|| self.take_fresh())?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    fn pop(&self, pool: &Pool) -> Option<u32> {
        // Acquire pairs with the release in `push_all`: it shows the chunk's `next`, and that the
        // flusher has read the chunk's bytes.
        let mut top = self.free.load(Ordering::Acquire);
        loop {
            let chunk = top as u32;
            if chunk == NONE {
                return None;
            }
            // Another thread may have taken the chunk and be changing its `next`. Then the tag
            // differs and the exchange fails.
            let next = pool.header(chunk).next.load(Ordering::Relaxed);
            let new = tagged(top, next);
            match self.free.compare_exchange_weak(top, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all chunks that are on the stack.
    fn pop_all(&self, pool: &Pool, out: &mut Vec<u32>) {
        let mut top = self.free.load(Ordering::Relaxed);
        // Acquire: as in `pop`.
        while let Err(now) = self.free.compare_exchange_weak(
            top,
            tagged(top, NONE),
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            top = now;
        }
        let mut chunk = top as u32;
        while chunk != NONE {
            out.push(chunk);
            chunk = pool.header(chunk).next.load(Ordering::Relaxed);
        }
    }

    /// Pushes chunks by one exchange; the first is then on top. Nobody else may hold them.
    fn push_all(&self, pool: &Pool, chunks: impl IntoIterator<Item = u32>) {
        let mut chunks = chunks.into_iter();
        let Some(first) = chunks.next() else { return };
        let mut last = first;
        for chunk in chunks {
            pool.header(last).next.store(chunk, Ordering::Relaxed);
            last = chunk;
        }
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            pool.header(last).next.store(top as u32, Ordering::Relaxed);
            // Release pairs with the acquires in `pop` and `pop_all`. Pushes and pops in between
            // continue the release sequence, because all of them are exchanges.
            let new = tagged(top, first);
            match self.free.compare_exchange_weak(top, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    fn take_fresh(&self) -> Option<u32> {
        // Relaxed: a chunk that has never been used has nothing to publish. The counter alone
        // decides which thread gets it.
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

/// The word for a stack with `chunk` on top, after it was `top`.
fn tagged(top: u64, chunk: u32) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | u64::from(chunk)
}
