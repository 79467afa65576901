//! Errors with their context: which file, which step, and that a sink has failed before.

use std::error::Error;
use std::fmt;
use std::io;

/// Adds what was being done to `source`, and keeps its kind.
///
/// The text says both, so the error has no `source()` that would say it again; the kind is that of the original.
pub(super) fn during(action: impl Into<String>, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), During { action: action.into(), source })
}

/// Why a sink takes nothing any more.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: io::ErrorKind,
    text: String,
}

impl Failure {
    pub(super) fn of(error: &io::Error) -> Self {
        Self { kind: error.kind(), text: error.to_string() }
    }

    /// The error of every later call: the kind of the first.
    pub(super) fn again(&self) -> io::Error {
        io::Error::new(self.kind, format!("the trace ended at an earlier error: {}", self.text))
    }
}

#[derive(Debug)]
struct During {
    action: String,
    source: io::Error,
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.source)
    }
}

impl Error for During {}
