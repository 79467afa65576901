//! Counts of a session about its sink.

use std::io;

use nettrace_format::LeftOut;

use crate::{
    shared::stats::SinkError,
    sink::failure::code_of,
    sync::{AtomicBool, AtomicU64, Mutex, Ordering},
};

/// The flusher's counts.
#[derive(Debug, Default)]
pub(crate) struct SinkCounters {
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Rows that the format cannot hold.
    pub(crate) refused: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) sequence_points: AtomicU64,
    /// Parts of events that the streams left out.
    pub(crate) left_out: Mutex<LeftOut>,
    /// The number of failures of the sink, and its last error.
    pub(super) errors: Mutex<(u64, Option<SinkError>)>,
    /// The message of the error that keeps the sink from taking events, and whether that error is
    /// final.
    pub(super) trouble: Mutex<Option<(String, bool)>>,
    /// Whether the application's callback or logger has panicked.
    pub(crate) notice_has_panicked: AtomicBool,
}

impl SinkCounters {
    /// Counts an error of the sink.
    pub(crate) fn failed(&self, error: &io::Error) {
        let mut errors = self.errors.lock();
        let told = SinkError { kind: error.kind(), code: code_of(error) };
        *errors = (errors.0 + 1, Some(told));
    }

    /// Remembers what keeps the sink from taking events now.
    pub(crate) fn set_trouble(&self, trouble: Option<(String, bool)>) {
        *self.trouble.lock() = trouble;
    }

    /// The error that keeps the sink from taking events now, and whether it is final.
    pub(crate) fn trouble(&self) -> Option<(String, bool)> {
        self.trouble.lock().clone()
    }

    /// Remembers that the application's callback or logger has panicked.
    pub(crate) fn notice_panicked(&self) {
        // Relaxed: a warning may come a moment later.
        self.notice_has_panicked.store(true, Ordering::Relaxed);
    }
}
