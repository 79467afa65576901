//! The lower bound of times: the floor under the clock, and the epoch that it belongs to.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The last `T`, as a lower bound for the rows that later rounds collect. It consists of ticks of
/// the clock and of the offset to the trace's ticks.
///
/// When the clock jumps an *epoch* begins: from then on the clock's ticks have another offset to
/// the trace's. Within an epoch the floor grows from round to round.
#[derive(Debug)]
pub(crate) struct Floor {
    epoch: AtomicU32,
    /// The terms of the current epoch and of the one before. The lowest bit of an epoch's number is
    /// the index of its terms.
    terms: [Terms; 2],
}

#[derive(Debug)]
struct Terms {
    floor: AtomicU64,
    offset: AtomicU64,
}

/// What a thread needs to know of the current epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) epoch: u32,
    pub(crate) floor: u64,
    pub(crate) offset: u64,
}

impl Floor {
    pub(crate) fn new() -> Self {
        let terms = || Terms { floor: AtomicU64::new(0), offset: AtomicU64::new(0) };
        Self { epoch: AtomicU32::new(0), terms: [terms(), terms()] }
    }

    /// Begins a round: returns its `T`, which is later than any before in this epoch. Flusher only,
    /// before it reads the roster and before [`Record::ask`](super::Record::ask).
    pub(crate) fn raise(&self, now: u64) -> u64 {
        let floor = &self.terms_of(self.epoch.load(Ordering::Relaxed)).floor;
        let ts = now.max(floor.load(Ordering::Relaxed) + 1);
        // Relaxed. The roster's lock publishes it to threads that join later. The heavy barrier
        // publishes it to all others, or the fence of `Pool::is_unused` does in a round that asks
        // nobody.
        floor.store(ts, Ordering::Relaxed);
        ts
    }

    /// Begins an epoch in which no tick is before `first` and the trace's ticks are `offset` ahead
    /// of the clock's. Returns its number. Flusher only, directly before [`raise`](Self::raise),
    /// which publishes it.
    pub(crate) fn begin_epoch(&self, first: u64, offset: u64) -> u32 {
        let epoch = self.epoch.load(Ordering::Relaxed).wrapping_add(1);
        let terms = self.terms_of(epoch);
        // Release pairs with the acquire in `current`. These terms replace those of the epoch
        // before the last. A reader that sees one of them sees that the last epoch had begun. The
        // same holds for a floor that `raise` stores later: the heavy barrier or the fence of the
        // last epoch's first round comes before it.
        terms.floor.store(first.saturating_sub(1), Ordering::Release);
        terms.offset.store(offset, Ordering::Release);
        // Release pairs with the acquire in `current`: a reader that sees the epoch sees its terms.
        self.epoch.store(epoch, Ordering::Release);
        epoch
    }

    /// The current epoch.
    pub(crate) fn current(&self) -> Current {
        loop {
            // Acquire pairs with the releases in `begin_epoch`.
            let epoch = self.epoch.load(Ordering::Acquire);
            let terms = self.terms_of(epoch);
            let floor = terms.floor.load(Ordering::Acquire);
            let offset = terms.offset.load(Ordering::Acquire);
            if self.epoch.load(Ordering::Relaxed) == epoch {
                let floor = if crate::mutant::takes_out("no_floor") { 0 } else { floor };
                return Current { epoch, floor, offset };
            }
            // The terms may belong to the epoch after the next. Read them again.
        }
    }

    fn terms_of(&self, epoch: u32) -> &Terms {
        &self.terms[epoch as usize & 1]
    }
}
