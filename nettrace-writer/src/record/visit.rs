//! The flusher's side of a record: asking, waiting, collecting. What each step is for, and why it is right, stands in the
//! [module above](super).

use crate::{
    pool::{NONE, Pool},
    record::{Drops, Record, SEIZED},
    sync::Ordering,
};

/// What the flusher saw when it asked for a record's chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) chunk: u32,
    own: u64,
    number: u64,
    /// Whether the owner had gone: nothing comes after this round.
    pub(crate) exited: bool,
}

impl Asked {
    /// A number such that every event up to it is in a chunk that this round collects, or was dropped; once all was collected.
    ///
    /// `again`: it is the second time that the owner was asked. An event that was under way then may be in a chunk of the next round, and its number
    /// leaves out the nested events that had not been given theirs; so does this one.
    pub(crate) fn settled(self, again: bool) -> u64 {
        if again && !self.exited { self.own } else { self.number }
    }
}

/// Rows that changed hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) chunk: u32,
    pub(crate) len: u32,
    pub(crate) base_ts: u64,
    pub(crate) last_ts: u64,
    pub(crate) first_number: u64,
    pub(crate) end_number: u64,
    pub(crate) rows: u64,
    pub(crate) escapes: bool,
}

/// The flusher's side.
impl Record {
    /// Asks for the current chunk. Comes before the heavy barrier.
    pub(crate) fn ask(&self) -> Asked {
        // Acquire pairs with the release in `exit`.
        let exited = self.exited.load(Ordering::Acquire);
        // `own` before `nested`, both only growing: their sum was passed by now. Every row up to it was written or is being
        // written, and is collected after the wait.
        let own = self.own.load(Ordering::Acquire);
        let number = own + self.nested.load(Ordering::Relaxed);
        // Acquire pairs with the release in `install`.
        let chunk = self.chunk.load(Ordering::Acquire);
        if chunk != NONE {
            // A swap only for loom, which keeps no total order of a plain store among exchanges.
            self.limit.swap(SEIZED, Ordering::Relaxed);
        }
        Asked { chunk, own, number, exited }
    }

    /// Ends the session for this record: an event that begins after the next heavy barrier gets no new chunk. What an event from
    /// before that barrier has installed is collected by one more round.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// What to wait for after the heavy barrier.
    pub(crate) fn wait(&self) -> Waiting {
        Waiting { own: self.own.load(Ordering::Relaxed) }
    }

    /// Whether no event is under way.
    pub(crate) fn is_idle(&self) -> bool {
        if cfg!(nettrace_mutant = "no_wait") {
            return true;
        }
        // Acquire pairs with the release in `end`.
        self.busy.load(Ordering::Acquire) & 1 == 0
    }

    /// Takes everything that the owner wrote before the heavy barrier, the oldest first. The event of that time is over.
    ///
    /// `false`: that event may have gone into a chunk that the owner took meanwhile, and that it may be sealing just now. The owner must be
    /// asked once more, with a barrier and a wait of their own, and then [`collect_rest`](Self::collect_rest) has it all.
    pub(crate) fn collect(&self, pool: &Pool, asked: Asked, out: &mut Vec<Sealed>) -> bool {
        // Before the chunk that was asked for, for they are older.
        self.take_sealed(pool, out);
        if asked.chunk == NONE {
            // Where the owner had no chunk, has none, was idle and has counted nothing since, there was no event. (The acquire of
            // `is_idle` keeps the second load behind it.)
            return self.is_idle() && self.own.load(Ordering::Relaxed) == asked.own;
        }
        match self.seize(pool, asked) {
            Some(sealed) => {
                out.push(sealed);
                true
            }
            None => cfg!(nettrace_mutant = "no_second_pass"),
        }
    }

    /// The second half of [`collect`](Self::collect): what was asked for again. `false`: the owner is sealing that chunk at this very moment; to be
    /// called again.
    ///
    /// The event of the first barrier is over, so that its row is in the chunk that was current when the owner was asked again, or in one that the
    /// owner had begun to seal by then. That the wait after the second barrier has seen the end of.
    pub(crate) fn collect_rest(&self, pool: &Pool, asked: Asked, out: &mut Vec<Sealed>) -> bool {
        self.take_sealed(pool, out);
        if asked.chunk == NONE || out.iter().any(|sealed| sealed.chunk == asked.chunk) {
            return true;
        }
        match self.seize(pool, asked) {
            Some(sealed) => {
                out.push(sealed);
                true
            }
            None => {
                self.take_sealed(pool, out);
                out.iter().any(|sealed| sealed.chunk == asked.chunk)
            }
        }
    }

    /// Takes the chunk that was asked for, unless the owner gave it up itself.
    fn seize(&self, pool: &Pool, asked: Asked) -> Option<Sealed> {
        if asked.chunk == NONE {
            return None;
        }
        let header = pool.header(asked.chunk);
        let (start, _) = pool.place(asked.chunk);
        let len = (self.pos() as usize).wrapping_sub(start as usize) as u32;
        let (last_ts, end_number) = (self.ts(), self.numbers());
        // Success keeps the loads above before it (release) and what the flusher does with the chunk behind it (acquire).
        self.chunk.compare_exchange(asked.chunk, NONE, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        header.len.store(len, Ordering::Relaxed);
        header.last_ts.store(last_ts, Ordering::Relaxed);
        header.end_number.store(end_number, Ordering::Relaxed);
        Some(Sealed::of(pool, asked.chunk))
    }

    /// Takes the chunks that the owner sealed, the oldest first, into `out`.
    pub(crate) fn take_sealed(&self, pool: &Pool, out: &mut Vec<Sealed>) {
        // Acquire pairs with the release in `seal`.
        let mut chunk = self.sealed.swap(NONE, Ordering::Acquire);
        let first = out.len();
        while chunk != NONE {
            out.push(Sealed::of(pool, chunk));
            chunk = pool.header(chunk).next.load(Ordering::Relaxed);
        }
        out[first..].reverse();
    }

    /// How many events were attempted, and why some were dropped; of a quiet record exact.
    pub(crate) fn counts(&self) -> (u64, Drops) {
        let own = self.own.load(Ordering::Relaxed);
        let drops = Drops {
            no_room: self.no_room.load(Ordering::Relaxed),
            too_large: self.too_large.load(Ordering::Relaxed),
            reentrant: self.nested.load(Ordering::Relaxed),
            panicked: self.panicked.load(Ordering::Relaxed),
        };
        (own + drops.reentrant, drops)
    }
}

/// How the flusher knows that the event which was under way at the heavy barrier, if any, has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// The record's `own`, read after the barrier.
    own: u64,
}

impl Waiting {
    /// The owner is idle, or has got as far as to count another event. A thread that emits without pause is hardly ever seen
    /// idle, least of all if it is preempted again and again.
    pub(crate) fn is_over(self, record: &Record) -> bool {
        // Acquire pairs with the release in `add` and `drop_event`: that event's row is seen, and the next one began after the
        // barrier, so that it seals the chunk instead of writing to it.
        record.is_idle() || record.own.load(Ordering::Acquire) != self.own
    }
}

impl Sealed {
    fn of(pool: &Pool, chunk: u32) -> Self {
        let header = pool.header(chunk);
        let (first_number, end_number) = (
            header.first_number.load(Ordering::Relaxed),
            header.end_number.load(Ordering::Relaxed),
        );
        let skipped = header.skipped.load(Ordering::Relaxed);
        Self {
            chunk,
            len: header.len.load(Ordering::Relaxed),
            base_ts: header.base_ts.load(Ordering::Relaxed),
            last_ts: header.last_ts.load(Ordering::Relaxed),
            first_number,
            end_number,
            rows: (end_number + 1).saturating_sub(first_number + skipped),
            escapes: header.escapes.load(Ordering::Relaxed),
        }
    }
}
