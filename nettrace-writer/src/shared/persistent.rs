//! The recorder file of a session: its memory outlives the process.
//!
//! `nettrace_format::recorder` says where everything is in such a file, and why it can be read
//! after the process was killed. Here is who writes it. Threads write rows and counts as they
//! always do: their records and chunks are in the file. The rest is written when it changes: a type
//! when the session meets it, a thread when it gets a buffer, a stream when it begins.

use std::path::PathBuf;

cfg_if::cfg_if! {
    if #[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))] {
        mod file;
        mod leftover;
        mod owner;
        mod shared_file;

        pub(crate) use self::file::Persistent;
    } else {
        mod absent;

        pub(crate) use self::absent::Persistent;
    }
}

/// The trace of what the process before has left in its recorder file: see
/// [`SessionBuilder::recover_to`](crate::SessionBuilder::recover_to).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The trace that was made of it.
    pub path: PathBuf,
    /// The number of events in the trace.
    pub events: u64,
    /// The number of lost events, as the trace states it.
    pub lost: u64,
    /// Why there is no trace, or what it lacks because the recorder file is damaged. That file is
    /// kept then: `.previous` follows its name.
    pub error: Option<String>,
}

/// A counter of lost events without a thread, which a trace names like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum UnattributedCounter {
    /// Events that no thread can be named for.
    Unplaced = 0,
    /// Threads that ended while nothing could be written.
    Forgotten = 1,
}

impl UnattributedCounter {
    pub(crate) const ALL: [Self; 2] = [Self::Unplaced, Self::Forgotten];

    /// The name of the thread that stands for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unplaced => "(events that no thread could be named for)",
            Self::Forgotten => "(threads that ended while nothing could be written)",
        }
    }

    /// Its slot in a recorder file.
    pub(crate) fn slot(self) -> u32 {
        self as u32
    }
}
