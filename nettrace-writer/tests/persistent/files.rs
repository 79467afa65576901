//! The files that both processes have, in one folder.

/// Where the stepped thread is: its id, the phase, then a byte for each event.
pub(crate) const PROGRESS: &str = "progress";
pub(crate) const THREAD: u64 = 0;
pub(crate) const PHASE: u64 = 4;
pub(crate) const EVENTS: u64 = 8;

/// A phase: the thread is through.
pub(crate) const DONE: u8 = 1;
/// A phase: the parent may not step the thread.
pub(crate) const NOT_PERMITTED: u8 = 2;

/// An event's `emit` was called.
pub(crate) const BEGUN: u8 = 1;
/// It has returned.
pub(crate) const RETURNED: u8 = 2;

/// For each span its trace's id and its own.
pub(crate) const SPANS: &str = "spans";
pub(crate) const SPAN: u64 = 24;

pub(crate) const RECORDER: &str = "stepped.recorder";
pub(crate) const TRACE: &str = "stepped.nettrace";
