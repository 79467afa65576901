//! Errors of sinks: adding context, telling final errors from others, repeating an earlier error.

use std::{
    error::Error,
    fmt,
    io::{self, ErrorKind},
};

/// The system's error code for an invalid descriptor (on Windows a handle).
#[cfg(unix)]
const BAD_DESCRIPTOR: i32 = rustix::io::Errno::BADF.raw_os_error();
#[cfg(not(unix))]
const BAD_DESCRIPTOR: i32 = 6;

/// Adds to `source` what was being done, and keeps its kind and its [code](code_of).
///
/// The message has both, so the error has no `source()` that would repeat it.
pub(crate) fn during(action: impl Into<String>, source: io::Error) -> io::Error {
    let text = format!("{}: {}", action.into(), with_sources(&source));
    io::Error::new(source.kind(), ErrorText { text, code: code_of(&source), has_context: true })
}

/// The message of an error of a sink, with all its causes. An error without context comes from a
/// sink of the application's own, and may say no more than "permission denied".
pub(crate) fn sentence(error: &io::Error) -> String {
    let text = with_sources(error);
    if has_context(error) { text } else { format!("the sink failed: {text}") }
}

/// The message of an error and those of its sources.
fn with_sources(error: &io::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Whether the error's text says what was being done.
fn has_context(error: &io::Error) -> bool {
    told(error).is_some_and(|told| told.has_context)
}

fn told(error: &io::Error) -> Option<&ErrorText> {
    error.get_ref()?.downcast_ref()
}

/// The operating system's code of an error, even if context was added to it.
pub(crate) fn code_of(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| told(error)?.code)
}

/// Whether no later attempt can succeed after this error of a sink. [`Sink`](super::Sink) lists
/// such errors.
pub(crate) fn is_final(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::BrokenPipe
        | ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::InvalidData
        | ErrorKind::InvalidInput
        | ErrorKind::NotConnected
        | ErrorKind::Unsupported
        | ErrorKind::WriteZero => true,
        _ => code_of(error) == Some(BAD_DESCRIPTOR),
    }
}

/// An error that can be reported again.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    text: String,
    code: Option<i32>,
    has_context: bool,
}

impl Failure {
    pub(crate) fn of(error: &io::Error) -> Self {
        Self {
            kind: error.kind(),
            text: with_sources(error),
            code: code_of(error),
            has_context: has_context(error),
        }
    }

    /// The error.
    pub(crate) fn error(&self) -> io::Error {
        self.told(self.text.clone(), self.has_context)
    }

    /// The error of every later call. It has the kind of the first.
    pub(super) fn again(&self) -> io::Error {
        self.told(format!("the trace ended at an earlier error: {}", self.text), true)
    }

    fn told(&self, text: String, has_context: bool) -> io::Error {
        io::Error::new(self.kind, ErrorText { text, code: self.code, has_context })
    }
}

/// The text of an error, and the operating system's code for it.
#[derive(Debug)]
struct ErrorText {
    text: String,
    code: Option<i32>,
    /// Whether the text says what was being done.
    has_context: bool,
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ErrorText {}

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_code_is_kept_and_decides() {
        for (errno, final_) in [
            (Errno::MFILE, false),
            (Errno::NFILE, false),
            (Errno::NOSPC, false),
            (Errno::DQUOT, false),
            (Errno::IO, false),
            (Errno::AGAIN, false),
            (Errno::INTR, false),
            (Errno::NOMEM, false),
            (Errno::STALE, false),
            (Errno::PIPE, true),
            (Errno::CONNRESET, true),
            (Errno::BADF, true),
        ] {
            let plain = io::Error::from(errno);
            let code = plain.raw_os_error();
            assert_eq!(is_final(&plain), final_, "{plain}");
            let told = during("cannot write", during("cannot open", plain));
            assert!(told.to_string().starts_with("cannot write: cannot open: "), "{told}");
            for error in [Failure::of(&told).again(), Failure::of(&told).error(), told] {
                assert_eq!((is_final(&error), code_of(&error)), (final_, code), "{error}");
            }
        }
    }
}
