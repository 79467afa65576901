//! The times of the trace: what the session's clock says, corrected after it has jumped.
//!
//! # Two kinds of time
//!
//! Threads write ticks of the clock. The trace's ticks are the clock's until it jumps. From then on
//! they have an *offset* from the clock's, so that they go on as real time does. An offset belongs
//! to an *epoch* ([`Floor`]), and a chunk says in which epoch it was begun. Wherever the flusher
//! speaks of a time, it is the trace's.
//!
//! # Rounds and epochs
//!
//! The flusher [looks](Watch) at the clock when a round begins and when the round has everything in
//! hand. It notes a jump at once. But an epoch begins only with a round, before its barrier. Then
//! that round has all rows of earlier epochs, except those of threads that it does not wait for.
//! Rows of the new epoch are at or after the round's `T`. Rows of earlier epochs are moved before
//! it, unless they are there already ([`Segment::correct`]).
//!
//! A thread that a round does not wait for keeps rows of several epochs until a later round, which
//! may begin yet another epoch. It moves all of these rows before its own `T`, and some may pass
//! those of the epoch that followed theirs. So rows are also moved if they are earlier than the
//! thread's row before. That keeps each thread's order and every promise of earlier rounds,
//! whatever the clock says and however often it jumps.
//!
//! Rows that were recorded between the jump and the round get the right time if the clock jumped
//! forward, because the jump is subtracted. If it jumped back, they all have the time of the row
//! before. A thread's times never go back, and the thread did not note how far back the clock went.
//!
//! # Rows of the future
//!
//! When everything is in hand, no row should have a later time than now. A row can have one if the
//! counter of a processor was ahead, or if the clock jumped forward and back. Such rows are
//! corrected in the same way. Their thread would repeat that time until the clock catches up. So
//! the next round begins another epoch with the same offset, in which that time no longer binds the
//! thread.

use crate::{
    flusher::segment::Segment,
    protocol::{
        clock::{Source, Sync, Watch},
        pool::Pool,
        record::{Correction, Floor},
    },
};

/// How often, at most, a stream's sync point is taken again because the clock has jumped.
const MOST_TRIES: u32 = 8;

/// The state of the trace's time.
#[derive(Debug)]
pub(super) struct Timeline {
    watch: Watch,
    /// How far the trace's ticks are ahead of the clock's, by the last look.
    offset: u64,
    /// The epoch that threads know of, and its first time.
    epoch: u32,
    begun: u64,
    /// Whether the next round must begin another epoch.
    epoch_is_due: bool,
    /// The time of the last look.
    now: u64,
    /// The last `T`.
    last: u64,
    /// The time of the latest row so far.
    latest: u64,
}

impl Timeline {
    pub(super) fn new(source: Source) -> Self {
        let (watch, now) = Watch::new(source);
        Self { watch, offset: 0, epoch: 0, begun: 0, epoch_is_due: false, now, last: 0, latest: 0 }
    }

    /// Begins a round. Returns its `T`, which is later than any before.
    pub(super) fn begin_round(&mut self, floor: &Floor) -> u64 {
        self.look();
        nettrace_span::backend::set_time_of_day();
        let mut first = self.now.max(self.last + 1);
        if std::mem::take(&mut self.epoch_is_due) {
            first = first.max(self.latest + 1);
            self.epoch = floor.begin_epoch(first.wrapping_sub(self.offset), self.offset);
            self.begun = first;
        }
        self.last = floor.raise(first.wrapping_sub(self.offset)).wrapping_add(self.offset);
        self.last
    }

    /// Makes later rounds begin after a time.
    pub(super) fn put_off(&mut self, ts: u64) {
        self.last = self.last.max(ts);
    }

    /// Looks at the clock when a round has everything in hand.
    pub(super) fn end_collecting(&mut self) {
        self.look();
    }

    /// Checks the times of a segment that was collected in this round, and corrects them if they
    /// are too late, or earlier than `earliest`.
    pub(super) fn check(&mut self, segment: &mut Segment, earliest: u64, pool: &Pool) {
        let is_current = segment.epoch == self.epoch;
        let (latest, tolerance) = if is_current {
            // The floor may be ahead of the clock.
            (self.now.max(self.last), self.watch.ticks_per_second() / 1_000)
        } else if crate::mutant::takes_out("no_epoch_end") {
            (u64::MAX, 0)
        } else {
            (self.begun - 1, 0)
        };
        let shift = self.offset.wrapping_sub(segment.offset);
        let correction = Correction { latest, shift, earliest };
        if correction.is_needed(segment.base_ts(), segment.last_ts, tolerance) {
            self.epoch_is_due |= is_current && correction.is_late(segment.last_ts, tolerance);
            segment.correct(correction, pool);
        }
        self.latest = self.latest.max(segment.last_ts);
    }

    /// Measures again how many ticks a second has, for another stream.
    pub(super) fn measure_pace(&mut self) {
        self.watch.measure_again();
    }

    /// A tick with its time of day, for a stream in which nothing is older than `oldest`.
    pub(super) fn sync_before(&mut self, oldest: u64) -> Sync {
        // A microsecond earlier, so that the oldest row is not at time 0.
        let oldest = oldest.saturating_sub(self.watch.ticks_per_second() / 1_000_000 + 1);
        let mut sync = self.watch.sync_at(oldest, self.offset);
        // Start again if the clock has jumped meanwhile. A clock that jumps all the time must not
        // stop the session.
        for _ in 0..MOST_TRIES {
            if !self.look() {
                break;
            }
            sync = self.watch.sync_at(oldest, self.offset);
        }
        sync
    }

    /// Looks at the clock. Returns whether it has jumped.
    fn look(&mut self) -> bool {
        let look = self.watch.look();
        if let Some(passed) = look.jumped {
            self.offset = self.now.wrapping_add(passed).wrapping_sub(look.ticks);
            self.epoch_is_due = true;
        }
        self.now = look.ticks.wrapping_add(self.offset);
        look.jumped.is_some()
    }
}
