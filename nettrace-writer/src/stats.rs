//! What a session has counted.

pub use nettrace_format::LeftOut;

pub use crate::record::Drops;

/// Counts of a session: since its start, over all threads, gone ones included.
///
/// While events are being emitted the numbers are of slightly different moments. Once the session has finished,
/// `attempted == written + dropped() `, exactly, and the trace itself says the same: readers find `dropped.total()` missing by its sequence
/// numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Events that were emitted while the session listened to their type.
    pub attempted: u64,
    /// Events that the sink has.
    pub written: u64,
    /// Events that were not recorded, and why.
    pub dropped: Drops,
    /// Events that were recorded but that the sink failed to take (disk full, closed pipe).
    pub lost_in_sink: u64,
    /// Events that were recorded but that the trace's [format](crate::Format) cannot hold: their payload is too large in it. Always 0 for
    /// version 6.
    pub not_in_format: u64,
    /// What of events, threads and types the format has no words for. All 0 for version 6.
    pub left_out: LeftOut,
    /// Bytes that the sink took.
    pub bytes: u64,
    /// How often the flusher has collected events.
    pub flushes: u64,
    /// Sequence points written.
    pub sequence_points: u64,
    /// Threads that emitted to the session.
    pub threads: u64,
    /// Bytes of buffer memory that have ever been used.
    pub memory_touched: u64,
}

impl Stats {
    /// Events that were attempted and are not in the sink, for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.total() + self.lost_in_sink + self.not_in_format
    }
}
