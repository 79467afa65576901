//! The header of a chunk.

use crate::sync::{AtomicU32, AtomicU64};

/// No chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// What is known of a chunk besides its bytes. The thread that holds the chunk writes it by relaxed
/// stores; the hand-over (seal or seize) publishes it.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ChunkHeader {
    /// Who holds the chunk, for those who read the memory of a killed process: see
    /// [`Record::install`](crate::protocol::record::Record). 0: nobody.
    pub(crate) holder: AtomicU64,
    /// The timestamp that the first row's delta counts from.
    pub(crate) base_ts: AtomicU64,
    /// The offset of the epoch in which the chunk was begun: see
    /// [`Floor`](crate::protocol::record::Floor).
    pub(crate) offset: AtomicU64,
    /// The number of the first row.
    pub(crate) first_number: AtomicU64,
    /// How many numbers between the first row and the end have no row.
    pub(crate) skipped: AtomicU64,
    /// Set when sealed: timestamp of the last row.
    pub(crate) last_ts: AtomicU64,
    /// Set when sealed: the last number given out so far.
    pub(crate) end_number: AtomicU64,
    /// The serial of the holder's last chunk before this one that is not empty (high half), and how
    /// many bytes of it are used.
    pub(crate) before: AtomicU64,
    /// The next chunk of the list that the chunk is in.
    pub(crate) next: AtomicU32,
    /// The epoch.
    pub(crate) epoch: AtomicU32,
    /// Set when sealed: the start of the escapes of the last row with escapes, plus 1. 0: all rows
    /// are plain.
    pub(crate) escapes: AtomicU32,
    /// Set when sealed: bytes used.
    pub(crate) len: AtomicU32,
    /// How many chunks the holder has had, this one included.
    pub(crate) serial: AtomicU32,
}
