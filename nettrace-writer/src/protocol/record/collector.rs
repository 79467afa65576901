//! The flusher's half of a record: asking, waiting, collecting. The [module above](super) says what
//! each step is for and why it is correct.

use crate::{
    mutant,
    protocol::{
        chunk_header::NONE,
        pool::Pool,
        record::{Drops, MODE_FENCE, Record, SEIZED},
    },
    sync::Ordering,
};

/// What the flusher saw when it asked for a record's chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) chunk: u32,
    own: u64,
    number: u64,
    /// Whether the owner had ended: nothing comes after this round.
    pub(crate) exited: bool,
    /// Whether the owner had announced that it executes a fence.
    pays: bool,
}

impl Asked {
    /// Whether the chunk may be seized only if the owner has passed a barrier. If not, the
    /// flusher's own fence is enough.
    pub(crate) fn needs_barrier(self) -> bool {
        self.chunk != NONE && !self.pays && !mutant::takes_out("no_proof")
    }

    /// The state of the record when it was asked, if this round has everything up to there.
    pub(crate) fn mark(self, again: bool) -> Option<Mark> {
        let mark = Mark { number: self.number, exited: self.exited };
        (self.settled(again) == self.number).then_some(mark)
    }

    /// The number up to which this round has every event, in a chunk or counted as dropped, once
    /// the round has collected everything.
    ///
    /// `again` says that the owner was asked a second time. An event that was under way at that
    /// time may go into a chunk of the next round. Its number comes before those of the nested
    /// events that had no numbers yet, so this number leaves them out.
    pub(crate) fn settled(self, again: bool) -> u64 {
        if again && !self.exited { self.own } else { self.number }
    }
}

/// A chunk with rows that the flusher has taken over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) chunk: u32,
    pub(crate) len: u32,
    pub(crate) base_ts: u64,
    pub(crate) epoch: u32,
    pub(crate) offset: u64,
    pub(crate) last_ts: u64,
    pub(crate) first_number: u64,
    pub(crate) end_number: u64,
    pub(crate) rows: u64,
    pub(crate) escapes: u32,
}

/// How far a record has counted. If two marks differ, the record went on in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    number: u64,
    exited: bool,
}

/// The flusher's half.
impl Record {
    /// The present state of the record. If a row was counted before this and went into a chunk,
    /// that chunk counts as in use by now.
    pub(crate) fn mark(&self) -> Mark {
        // Acquire pairs with the releases in `exit`, `add`, `drop_event` and `pretend_dropped`.
        let exited = self.exited.load(Ordering::Acquire);
        let own = self.own.load(Ordering::Acquire);
        Mark { number: own + self.nested.load(Ordering::Relaxed), exited }
    }

    /// Asks for the current chunk. To be called before the heavy barrier.
    pub(crate) fn ask(&self) -> Asked {
        // First of all loads. Acquire pairs with the release in `pay_fences`.
        let pays = self.busy.load(Ordering::Acquire) >> 1 & MODE_FENCE != 0;
        // Acquire pairs with the release in `exit`.
        let exited = self.exited.load(Ordering::Acquire);
        // `own` before `nested`. Both only grow, so the record has given out this many numbers by
        // now. Each row up to that number is written or being written, and is collected after the
        // wait. Acquire pairs with the releases in `add` and `drop_event`.
        let own = self.own.load(Ordering::Acquire);
        let number = own + self.nested.load(Ordering::Relaxed);
        // Acquire pairs with the release in `install`.
        let chunk = self.chunk.load(Ordering::Acquire);
        if chunk != NONE {
            // A swap only for loom, whose model does not order a plain store among the exchanges.
            self.limit.swap(SEIZED, Ordering::Relaxed);
        }
        Asked { chunk, own, number, exited, pays }
    }

    /// Ends the session for this record: an event that begins after the next heavy barrier gets no
    /// new chunk. One more round collects the chunk of an event that began before that barrier.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Notes what to wait for. To be called after the heavy barrier.
    pub(crate) fn wait(&self) -> Waiting {
        Waiting { own: self.own.load(Ordering::Relaxed) }
    }

    /// Whether no event is under way.
    pub(crate) fn is_idle(&self) -> bool {
        if crate::mutant::takes_out("no_wait") {
            return true;
        }
        // Acquire pairs with the releases in `end` and `end_usual`.
        self.busy.load(Ordering::Acquire) & 1 == 0
    }

    /// Takes everything that the owner wrote before the heavy barrier, the oldest rows first. The
    /// event that was under way then must be over.
    ///
    /// `false`: that event may have gone into a new chunk, which the owner may be sealing at this
    /// moment. Ask the owner once more, with another barrier and wait; then
    /// [`collect_rest`](Self::collect_rest) takes everything.
    pub(crate) fn collect(&self, pool: &Pool, asked: Asked, out: &mut Vec<Sealed>) -> bool {
        // First, because sealed chunks are older than the one that was asked for.
        self.take_sealed(pool, out);
        if asked.chunk == NONE {
            // There was no event if the owner had no chunk, has none, was idle and has counted
            // nothing since. (The acquire of `is_idle` keeps the load of `own` after it.)
            return self.is_idle() && self.own.load(Ordering::Relaxed) == asked.own;
        }
        match self.seize(pool, asked) {
            Some(sealed) => {
                out.push(sealed);
                true
            }
            None => crate::mutant::takes_out("no_second_pass"),
        }
    }

    /// Finishes a [`collect`](Self::collect) after the owner was asked again. `false`: the owner is
    /// sealing the chunk at this moment; call again.
    ///
    /// The event of the first barrier is over. Its row is in the chunk that was current when the
    /// owner was asked again, or in one that the owner had begun to seal by then. The wait after
    /// the second barrier has seen the end of that sealing.
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

    /// Takes the chunk that was asked for, unless the owner has sealed it.
    fn seize(&self, pool: &Pool, asked: Asked) -> Option<Sealed> {
        if asked.chunk == NONE {
            return None;
        }
        let header = pool.header(asked.chunk);
        let (start, _) = pool.place(asked.chunk);
        let len = (self.pos() as usize).wrapping_sub(start as usize) as u32;
        let (last_ts, end_number) = (self.ts(), self.numbers());
        let escapes = self.last_escapes();
        // On success the release half keeps the loads above before the exchange, and the acquire
        // half keeps after it what the flusher does with the chunk. Pairs with the swap in `seal`.
        self.chunk.compare_exchange(asked.chunk, NONE, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        header.len.store(len, Ordering::Relaxed);
        header.last_ts.store(last_ts, Ordering::Relaxed);
        header.escapes.store(escapes, Ordering::Relaxed);
        header.end_number.store(end_number, Ordering::Relaxed);
        Some(Sealed::of(pool, asked.chunk))
    }

    /// Appends the chunks that the owner sealed to `out`, the oldest first.
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

    /// Whether an event waited for room when the session ended; it is dropped then. Final after
    /// [`close`](Self::close), a heavy barrier and the wait.
    pub(crate) fn is_left_waiting(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && self.waits.load(Ordering::Relaxed)
    }

    /// How many events were attempted, and why some were dropped. Exact if no event is under way.
    pub(crate) fn counts(&self) -> (u64, Drops) {
        let waiting = u64::from(self.is_left_waiting());
        let own = self.own.load(Ordering::Relaxed) + waiting;
        let drops = Drops {
            no_room: self.no_room.load(Ordering::Relaxed) + waiting,
            too_large: self.too_large.load(Ordering::Relaxed),
            reentrant: self.nested.load(Ordering::Relaxed),
            panicked: self.panicked.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        };
        (own + drops.reentrant, drops)
    }

    /// How many Starts, and how many other events, sampling has left out.
    pub(crate) fn sampled_out(&self) -> [u64; 2] {
        self.sampled_out.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// Tells the flusher whether the event that was under way at the heavy barrier, if any, is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// The record's `own` after the barrier.
    own: u64,
}

impl Waiting {
    /// Whether the owner is idle or has counted another event. The count is needed because the
    /// flusher hardly ever finds a thread idle if the thread emits without pause, least of all if
    /// it is often preempted.
    pub(crate) fn is_over(self, record: &Record) -> bool {
        // Acquire pairs with the releases in `add` and `drop_event`: the event's row is seen. The
        // next event began after the barrier, so it seals the chunk and does not write to it.
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
            epoch: header.epoch.load(Ordering::Relaxed),
            offset: header.offset.load(Ordering::Relaxed),
            last_ts: header.last_ts.load(Ordering::Relaxed),
            first_number,
            end_number,
            rows: (end_number + 1).saturating_sub(first_number + skipped),
            escapes: header.escapes.load(Ordering::Relaxed),
        }
    }
}
