//! [`Failure`]: why a command failed, and its exit code.

use std::{
    io::{self, ErrorKind::BrokenPipe},
    path::Path,
    process::ExitCode,
};

use nettrace_format::{FormatError, recorder::RecorderError};
use nettrace_reader::ErrorKind;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// The file cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(String, #[source] io::Error),
    /// The file is no trace: what it is, and what to do.
    #[error("this is no trace, but {0}; {1}")]
    Foreign(&'static str, &'static str),
    /// The trace is damaged, or could not be read.
    #[error(transparent)]
    Trace(#[from] nettrace_reader::Error),
    /// One of several files is damaged: its name, where, and the error of all files together.
    #[error(
        "cannot read {0} beyond byte {1}, nor the files after it: {kind}", kind = .2.kind()
    )]
    OneOf(String, u64, #[source] nettrace_reader::Error),
    /// So many of the files could not be read to their end. They were named.
    #[error("{0} of the files could not be read to the end; what was readable was used")]
    Cut(usize),
    /// So many of all files break the format, or cannot be read. They were named.
    #[error("{0} of {1} files are not sound")]
    Unsound(usize, usize),
    /// A trace that is to be merged says not when it begins, or not how long a tick is.
    #[error("{0} does not state its time by the wall clock, so it cannot be merged with others")]
    NoStart(String),
    /// The trace breaks rules of the format so often. They were shown.
    #[error("the trace breaks {0} rule{s} of the format", s = if *.0 == 1 { "" } else { "s" })]
    Illegal(u64),
    /// The trace breaks this many promises. They were shown.
    #[error("the trace breaks {0} promise{s}", s = if *.0 == 1 { "" } else { "s" })]
    Broken(u64),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The output file cannot be created or written.
    #[error("cannot write {0}: {1}")]
    Destination(String, #[source] io::Error),
    /// The trace cannot be expressed in another format.
    #[error("the trace cannot be converted: {0}")]
    Format(#[from] FormatError),
    /// A conversion lacks so many things that the target has a place for. They were listed.
    #[error("{0} events or values could not be converted; the result has everything else")]
    Missing(u64),
    /// An input that is no recorder file, or cannot be read as one.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// An input of `recover` that needs no recovery.
    #[error("{0}")]
    Recover(String),
    /// The process of a recorder file still runs.
    #[error(
        "process {0} still runs and records into this file; recover when it has ended; \
         `nettrace info` shows what is in it now{1}"
    )]
    Runs(u32, String),
    /// Parts of a recorder file that are not in the result.
    #[error("{0}; the result has everything else")]
    NotRecovered(String),
    /// A limit on memory would be exceeded: by what, and the limit.
    #[error("{0} exceed {1}; if you trust the trace, raise the bound with --definitions-limit")]
    TooMuch(&'static str, usize),
    /// `convert` without `--to`, and a path whose ending says nothing.
    #[error("say with --to in which format to write; endings that say it too: {0}")]
    NoTarget(String),
    /// An option of flame graphs, with another target.
    #[error("{0} is for flame graphs: --to flamegraph or folded, or an OUT that ends in .svg")]
    OnlyFlameGraphs(&'static str),
    /// An option of tables, with another target.
    #[cfg(feature = "parquet")]
    #[error("{0} is for tables: --to parquet or arrow, or an OUT that ends in .parquet or .arrow")]
    OnlyTables(&'static str),
    /// A format of several files, with standard output.
    #[error("{0} is a folder of files, which cannot go to standard output: give OUT a name")]
    NeedsFolder(&'static str),
    /// Tables by host, of a trace that does not say its host.
    #[cfg(feature = "parquet")]
    #[error("the trace does not say its host, by a key-value host.name: add --host NAME")]
    NoHost,
    /// A file of schemas cannot be read: its name and the line.
    #[error("{0}")]
    Schema(String),
    /// A target of redaction that is not there, or a missing key.
    #[error("{0}")]
    Redact(String),
    /// So many changes of schemas break what reads them. They were shown.
    #[error("{0} change{s} break{n} what reads these events", s = if *.0 == 1 { "" } else { "s" },
        n = if *.0 == 1 { "s" } else { "" })]
    Differs(usize),
    /// `view` cannot serve, or cannot open what it made.
    #[error("{0}")]
    Browser(String),
    /// `tree` for a trace without a tick frequency.
    #[error("the trace does not state how long a tick is: its spans have no duration")]
    NoDurations,
    /// `tree` with more conditions than it can test.
    #[error("--where can be given 62 times: more conditions than that cannot be tested")]
    TooManyConditions,
    /// A filter of what reads whole traces, with a pipe.
    #[error(
        "filters need files here, which are read twice: to find what passes, and then the rest of \
         its traces. Write standard input or the pipe into a file first"
    )]
    FilterNeedsFile,
    /// A file has other contents in the second pass.
    #[error("the file was replaced while it was read: try again")]
    Replaced,
    /// A filter by time for a trace without a tick frequency.
    #[error("the trace does not state how long a tick is: --from and --to cannot be used")]
    NoTimes,
    /// A live process cannot be asked.
    #[cfg(unix)]
    #[error("{0}")]
    Process(String),
    /// A live process does not answer, or refuses.
    #[cfg(unix)]
    #[error("{0}")]
    Client(#[from] nettrace_diagnostics::client::ClientError),
    /// The program that was started has ended so: its name, its exit code as a shell has it.
    #[cfg(unix)]
    #[error("{0} has ended: {2}")]
    Program(String, u8, std::process::ExitStatus),
    /// A filter by time of day for a trace without one.
    #[error(
        "the trace does not state by the wall clock when it starts: give --from and --to in \
         seconds since the start"
    )]
    NoWallClock,
}

impl Failure {
    /// A folder cannot be written. The error may begin with the folder's name, or with that of a
    /// file in it.
    pub(crate) fn folder(out: &Path, error: io::Error) -> Self {
        let name = out.display().to_string();
        let text = error.to_string();
        let error = match text.strip_prefix(&*name).and_then(|rest| rest.strip_prefix(": ")) {
            Some(why) => io::Error::new(error.kind(), why),
            None => error,
        };
        Self::Destination(name, error)
    }

    /// Writes the message to standard error and returns the exit code. `file` is what the command
    /// reads. The message begins with its name, unless it is standard input or the message itself
    /// names a file.
    pub(crate) fn report(&self, file: Option<&Path>) -> ExitCode {
        if let Self::Output(error) = self {
            if error.kind() == BrokenPipe {
                // The reader of the output has closed it. That is no failure.
                return ExitCode::SUCCESS;
            }
        }
        // If standard error is closed, only the exit code is left.
        let _ = match file.filter(|file| !self.names_a_file() && file.as_os_str() != "-") {
            Some(file) => crate::standard_error::say(Some(format_args!(
                "nettrace: {}: {self}",
                file.display()
            ))),
            None => crate::standard_error::say(Some(format_args!("nettrace: {self}"))),
        };
        ExitCode::from(match self {
            Self::Illegal(_)
            | Self::Broken(_)
            | Self::Foreign(..)
            | Self::OneOf(..)
            | Self::Cut(_)
            | Self::Differs(_)
            | Self::Unsound(..)
            | Self::Format(_)
            | Self::Recorder(_)
            | Self::TooMuch(..)
            | Self::Replaced => 1,
            Self::Missing(_) | Self::NotRecovered(_) => 3,
            Self::Trace(error) if !matches!(error.kind(), ErrorKind::Io(_)) => 1,
            Self::Trace(_) | Self::Open(..) | Self::Output(_) | Self::Destination(..) => 2,
            Self::NoStart(_)
            | Self::NoTarget(_)
            | Self::OnlyFlameGraphs(_)
            | Self::NeedsFolder(_)
            | Self::TooManyConditions
            | Self::FilterNeedsFile
            | Self::Schema(_)
            | Self::Redact(_)
            | Self::Recover(_)
            | Self::Runs(..) => 2,
            #[cfg(feature = "parquet")]
            Self::OnlyTables(_) | Self::NoHost => 2,
            #[cfg(unix)]
            Self::Process(_) | Self::Client(_) => 2,
            #[cfg(unix)]
            Self::Program(_, code, _) => *code,
            Self::NoTimes | Self::NoWallClock | Self::NoDurations | Self::Browser(_) => 2,
        })
    }

    /// Whether the message is about a file that it names, or about the output.
    fn names_a_file(&self) -> bool {
        matches!(
            self,
            Self::Open(..)
                | Self::OneOf(..)
                | Self::NoStart(_)
                | Self::Output(_)
                | Self::Destination(..)
        )
    }
}

impl From<serde_json::Error> for Failure {
    /// Serialization itself cannot fail, so this is an error of the output.
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}
