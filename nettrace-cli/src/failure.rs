//! How a command ends when it does not end well.

use std::{fmt, io, process::ExitCode};

use nettrace_reader::ErrorKind;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file cannot be opened.
    Open(String, io::Error),
    /// The trace is damaged, or could not be read.
    Trace(nettrace_reader::Error),
    /// The trace breaks this many promises; they were shown.
    Broken(u64),
    /// The output cannot be written.
    Output(io::Error),
}

impl Failure {
    /// Says on standard error why, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if let Self::Output(error) = self {
            if error.kind() == io::ErrorKind::BrokenPipe {
                // Whoever read the output has had enough.
                return ExitCode::SUCCESS;
            }
        }
        eprintln!("nettrace: {self}");
        ExitCode::from(match self {
            Self::Broken(_) => 1,
            Self::Trace(error) if !matches!(error.kind(), ErrorKind::Io(_)) => 1,
            Self::Trace(_) | Self::Open(..) | Self::Output(_) => 2,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(file, error) => write!(f, "cannot open {file}: {error}"),
            Self::Trace(error) => error.fmt(f),
            Self::Broken(1) => f.write_str("the trace breaks 1 promise"),
            Self::Broken(count) => write!(f, "the trace breaks {count} promises"),
            Self::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl From<nettrace_reader::Error> for Failure {
    fn from(error: nettrace_reader::Error) -> Self {
        Self::Trace(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
