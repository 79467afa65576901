//! How a command ends when it does not end well.

use std::{fmt, io, process::ExitCode};

use nettrace_format::FormatError;
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
    /// The file that was to be made cannot be.
    Destination(String, io::Error),
    /// The trace cannot be said in another format.
    Format(FormatError),
    /// Going on would take too much memory: of what, and how much there may be.
    TooMuch(&'static str, usize),
    /// A Heph trace is to be converted.
    HephSource,
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
            Self::Broken(_) | Self::Format(_) | Self::TooMuch(..) => 1,
            Self::Trace(error) if !matches!(error.kind(), ErrorKind::Io(_)) => 1,
            Self::Trace(_) | Self::Open(..) | Self::Output(_) => 2,
            Self::Destination(..) | Self::HephSource => 2,
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
            Self::Destination(file, error) => write!(f, "cannot write {file}: {error}"),
            Self::Format(error) => write!(f, "cannot be converted: {error}"),
            Self::TooMuch(what, limit) => write!(
                f,
                "{what} exceed {limit}; --definitions-limit raises the bound if the trace is to be \
                 trusted"
            ),
            Self::HephSource => f.write_str(
                "a Heph trace cannot be converted; NetTrace V4, V5 and V6 can (dump --json shows it)",
            ),
        }
    }
}

impl From<nettrace_reader::Error> for Failure {
    fn from(error: nettrace_reader::Error) -> Self {
        Self::Trace(error)
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
