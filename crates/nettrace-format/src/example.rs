//! The beginning of the examples in the documentation.

pub use nettrace_event::example::SALE;

use crate::content::{RowHeader, SystemTimeParts, TraceInfo};

/// A clock of nanoseconds that read 5,000 in November 2023, in process 17.
pub const INFO: TraceInfo<'static> = TraceInfo {
    sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
    sync_ticks: 5_000,
    ticks_per_second: 1_000_000_000,
    pointer_size: 8,
    key_values: &[("ProcessId", "17")],
};

/// The first event of thread 17: a [`SALE`] at tick 6,000.
pub const ROW: RowHeader = RowHeader {
    metadata_id: 1,
    sequence: 1,
    capture_thread: 17,
    processor: 0,
    thread: 17,
    stack: 0,
    timestamp: 6_000,
    labels: 0,
    sorted: false,
    payload_len: 4,
};
