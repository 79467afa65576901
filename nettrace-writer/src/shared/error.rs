//! Errors of a session. Recording itself has no error, only counters.

use std::{fmt, io, time::Duration};

use nettrace_event::registry::RegisterError;
use nettrace_format::FormatError;

use crate::{
    shared::filter::FilterError,
    sink::{FileNameError, failure},
};

/// Why a session did not start, or did not write all that it should have.
///
/// # Messages
///
/// [`Display`](fmt::Display) writes one message that includes every cause: which file, what the
/// operating system said, what to do about it. [`source`](std::error::Error::source) is always
/// `None`, so that a report which prints an error and its sources (that of `anyhow`, for instance)
/// says nothing twice. A program that wants to decide by the cause matches the variant.
///
/// [`Debug`](fmt::Debug) writes the same message, because `fn main() -> Result<(), Error>` prints
/// an error by its `Debug`:
///
/// ```
/// use std::io::ErrorKind;
///
/// use nettrace_writer::{Error, Session};
///
/// let error = Session::builder().file("no-such-directory/service.nettrace").start().unwrap_err();
/// assert!(error.to_string().contains("no-such-directory/service.nettrace"));
/// assert_eq!(format!("{error:?}"), error.to_string());
/// match &error {
///     Error::Sink(cause) => assert_eq!(cause.kind(), ErrorKind::NotFound),
///     other => panic!("{other}"),
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder was given no sink.
    #[error("a session needs a sink: call `file` or `sink` on its builder")]
    NoSink,
    /// All slots are taken.
    #[error(
        "the process already has {limit} sessions, the most that can record at once; finish one"
    )]
    TooManySessions {
        /// The largest number of sessions in a process.
        limit: u32,
    },
    /// [`chunk_size`](crate::SessionBuilder::chunk_size) is out of range.
    #[error("a chunk size of {given} bytes is out of range; use {least} to {most} bytes")]
    ChunkSize {
        /// The size that was asked for, in bytes.
        given: usize,
        /// The smallest chunk, in bytes.
        least: usize,
        /// The largest chunk, in bytes.
        most: usize,
    },
    /// [`budget`](crate::SessionBuilder::budget) holds too few chunks.
    #[error(
        "a budget of {given} bytes is too small; with chunks of {chunk_size} bytes a session needs \
         at least {least} bytes"
    )]
    BudgetTooSmall {
        /// The budget that was asked for, in bytes.
        given: usize,
        /// The size of a chunk, in bytes.
        chunk_size: usize,
        /// The smallest budget with chunks of that size, in bytes.
        least: usize,
    },
    /// The system did not reserve that much memory for
    /// [`budget`](crate::SessionBuilder::budget).
    #[error("the system has no room for a budget of {given} bytes; use a smaller one")]
    BudgetTooLarge {
        /// The budget that was asked for, in bytes.
        given: usize,
    },
    /// [`flush_interval`](crate::SessionBuilder::flush_interval) is zero, so the session's thread
    /// would never rest.
    #[error("a flush interval of zero would never let the session's thread rest; use 1 ms or more")]
    ZeroFlushInterval,
    /// The variable of
    /// [`providers_from_env`](crate::SessionBuilder::providers_from_env) holds filters that cannot
    /// be read.
    #[error("cannot read the filters in the environment variable `{variable}`: {reason}")]
    FilterVariable {
        /// The variable's name.
        variable: String,
        /// The defect of its value.
        reason: FilterError,
    },
    /// A placeholder in the name of [`file`](crate::SessionBuilder::file) has no value.
    #[error("{0}")]
    FileName(FileNameError),
    /// [`overwrite`](crate::SessionBuilder::overwrite) or
    /// [`keep_previous`](crate::SessionBuilder::keep_previous) was called for a session that has a
    /// [`sink`](crate::SessionBuilder::sink) and no [`file`](crate::SessionBuilder::file).
    #[error(
        "`overwrite` and `keep_previous` on the session's builder are for `file` alone; a sink has \
         options of its own"
    )]
    OverwriteWithoutFile,
    /// The session keeps no events in memory, so it has nothing to dump.
    #[error("the session is no flight recorder: call `flight_recorder` on its builder")]
    NoRecorder,
    /// A signal cannot make a flight recorder write a dump.
    #[error("signal {signal} cannot make the session write a dump: {cause}")]
    Signal {
        /// The number of the signal.
        signal: i32,
        /// Why not.
        cause: io::Error,
    },
    /// A session with a [recorder file](crate::SessionBuilder::persistent) has another format than
    /// version 6.
    #[error("what a recorder file keeps becomes version 6 alone; leave the format as it is")]
    RecorderFormat,
    /// A session with a [recorder file](crate::SessionBuilder::persistent) was to
    /// [redact](crate::SessionBuilder::redact) values, which the file has before they are replaced.
    #[error(
        "a recorder file has the values that `redact` is to keep out of the trace; leave out \
         `persistent`, or give the fields the type `Secret`, whose values are recorded nowhere; if \
         another session redacts them, `redact_alone` says that this one records them"
    )]
    RedactedRecorder,
    /// The [recorder file](crate::SessionBuilder::persistent) cannot be made: its folder does not
    /// exist or has no room for the budget, or another process writes a file of that name.
    #[error("{0}")]
    Recorder(io::Error),
    /// This machine has no such clock, or none whose pace can be measured.
    #[error("this machine has no processor counter of a steady pace; use `Clock::Auto`")]
    NoClock,
    /// An event type was refused.
    #[error("{0}")]
    Register(RegisterError),
    /// The trace's format cannot hold an event type, or a value that describes the trace.
    #[error("the format of the trace cannot hold this: {0}")]
    Format(FormatError),
    /// The sink failed. What was written before is a readable trace.
    #[error("{}", failure::sentence(.0))]
    Sink(io::Error),
    /// The session's thread could not be started.
    #[error("the session's thread could not be started: {0}")]
    Thread(io::Error),
    /// The session's thread has died: a sink panicked, or this crate has a defect. The trace ends
    /// where it was. The session records nothing that is emitted afterwards.
    #[error("the session's thread has died, because its sink panicked; what it wrote is readable")]
    FlusherDied,
    /// The sink has not taken everything within
    /// [`finish_timeout`](crate::SessionBuilder::finish_timeout). The session's thread still
    /// writes; [`Stats::pending`](crate::Stats::pending) says how many events it has left.
    #[error(
        "the sink has not taken everything after {after:?}; the rest follows if it does so before \
         the process ends"
    )]
    FinishTimeout {
        /// Time that `finish` has waited.
        after: Duration,
    },
    /// The session belongs to the process from which this one was forked.
    #[error("the session belongs to the parent process; start another in this one")]
    Forked,
    /// The call came from a signal handler that interrupted this crate while it held a lock.
    #[error("a signal handler cannot start, flush or change a session; do it in a thread")]
    InSignalHandler,
    /// A sink called [`flush`](crate::Session::flush) or [`finish`](crate::Session::finish) on the
    /// session that it belongs to. It would have waited for itself.
    #[error("a sink cannot wait for its own session; flush and finish it from another thread")]
    InOwnSink,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}

impl From<FileNameError> for Error {
    fn from(error: FileNameError) -> Self {
        Self::FileName(error)
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, fmt::Write as _};

    use super::*;

    /// A cause with a source of its own, as a sink of an application may give it.
    #[derive(Debug, thiserror::Error)]
    #[error("the upload was refused")]
    struct Refused(#[source] fmt::Error);

    /// A report of an error and its sources.
    fn report(error: &Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            write!(text, ": {cause}").unwrap();
            source = cause.source();
        }
        text
    }

    #[test]
    fn a_report_tells_every_cause_once() {
        let told = failure::during("cannot write the trace /tmp/a", io::Error::other("it is full"));
        let own = io::Error::other(Refused(fmt::Error));
        let again = failure::Failure::of(&io::Error::other(Refused(fmt::Error))).error();
        let refused = format!("the sink failed: the upload was refused: {}", fmt::Error);
        for (error, text) in [
            (Error::Sink(told), "cannot write the trace /tmp/a: it is full"),
            (Error::Sink(own), &*refused),
            (Error::Sink(again), &refused),
            (Error::Sink(io::Error::other("no more")), "the sink failed: no more"),
            (
                Error::Thread(io::Error::other("too many")),
                "the session's thread could not be started: too many",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert_eq!(format!("{error:?}"), text);
            assert_eq!(report(&error), text);
        }
    }
}
