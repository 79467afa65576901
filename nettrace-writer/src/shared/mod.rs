//! The state that recording threads, a session's flusher and its handle share: the table of
//! sessions, the state and the counts of each, the buffers of a thread.

pub(crate) mod buffer;
pub(crate) mod channel;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod known_types;
pub(crate) mod local;
pub(crate) mod locks;
pub(crate) mod on_full;
pub(crate) mod persistent;
pub(crate) mod refused_types;
pub(crate) mod sessions;
pub(crate) mod slot_counters;
mod state;
pub(crate) mod stats;
pub(crate) mod trace_ids;
pub(crate) mod warning;
pub(crate) mod watchers;

pub(crate) use self::state::{Command, NoBuffer, Shared, describes};
