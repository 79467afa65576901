//! The times of a chunk's rows, as the trace has them.

/// How to correct the times of a chunk's rows, in ticks of the trace.
///
/// The bounds do not depend on what the clock said. So a thread's rows stay in their order and
/// behind what earlier rounds have promised, whatever values the clock had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    /// No row may be later than this, unless `earliest` is.
    pub(crate) latest: u64,
    /// What to add to the time of a row that is later.
    pub(crate) shift: u64,
    /// No row may be earlier than this: the time of the row before, or a time that the trace has
    /// promised to have passed.
    pub(crate) earliest: u64,
}

impl Correction {
    /// Whether rows from `first` to `last` need it. They may be later by `tolerance`.
    pub(crate) fn is_needed(&self, first: u64, last: u64, tolerance: u64) -> bool {
        let is_early = first < self.earliest && !crate::mutant::takes_out("no_row_before");
        is_early || last < first || self.is_late(last, tolerance)
    }

    /// Whether a row is later than it may be by more than `tolerance`.
    pub(crate) fn is_late(&self, ts: u64, tolerance: u64) -> bool {
        ts > self.latest.saturating_add(tolerance)
    }

    /// The corrected time of the next row.
    pub(crate) fn apply(&mut self, ts: u64) -> u64 {
        let ts = if ts > self.latest { ts.wrapping_add(self.shift) } else { ts };
        self.earliest = ts.min(self.latest).max(self.earliest);
        self.earliest
    }
}
