//! What can go wrong around a session. Recording itself has no error, only counters.

use std::{error, fmt, io};

use nettrace_format::FormatError;
use trace_event::registry::RegisterError;

/// Why a session did not start, or did not write all that it should have.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The builder was given no sink.
    NoSink,
    /// All slots are taken.
    TooManySessions {
        /// How many sessions a process can have at once.
        limit: u32,
    },
    /// A setting of the builder makes no sense.
    Setting {
        /// What is wrong and what to do.
        message: String,
    },
    /// This machine has no such clock; use [`Clock::Auto`](crate::Clock::Auto).
    NoClock,
    /// An event type was refused.
    Register(RegisterError),
    /// Something that was said of the trace exceeds what the format can hold.
    Format(FormatError),
    /// The sink failed. What was written before is a readable trace.
    Sink(io::Error),
    /// The flusher thread could not be started.
    Thread(io::Error),
    /// The flusher thread has died: a sink panicked, or this crate has a defect. The trace ends where it was; what is emitted afterwards is
    /// no longer the session's.
    FlusherDied,
    /// The session belongs to the process from which this one was forked.
    Forked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSink => {
                f.write_str("a session needs a sink: call `file` or `sink` on its builder")
            }
            Self::TooManySessions { limit } => {
                write!(
                    f,
                    "the process has {limit} sessions already, the most that it can have at once; finish one"
                )
            }
            Self::Setting { message } => f.write_str(message),
            Self::NoClock => {
                f.write_str("this machine has no processor counter; use `Clock::Auto`")
            }
            Self::Register(_) => f.write_str("an event type was refused"),
            Self::Format(_) => f.write_str("the trace cannot be described in the format"),
            Self::Sink(_) => f.write_str("the trace could not be written"),
            Self::Thread(_) => f.write_str("the session's thread could not be started"),
            Self::FlusherDied => {
                f.write_str("the session's thread has died; what was written before is readable")
            }
            Self::Forked => {
                f.write_str("the session belongs to the parent process; start another in this one")
            }
        }
    }
}

impl Error {
    /// The message and those of its sources.
    pub(crate) fn to_string_with_sources(&self) -> String {
        let mut message = self.to_string();
        let mut source = error::Error::source(self);
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        message
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Register(error) => Some(error),
            Self::Format(error) => Some(error),
            Self::Sink(error) | Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}
