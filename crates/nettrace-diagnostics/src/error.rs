//! Errors that keep a process from listening.

use std::{fmt, io, path::PathBuf};

/// Why nobody can attach. The message includes every cause, so [`source`](std::error::Error::source)
/// is always `None`.
///
/// ```
/// use nettrace_diagnostics::{Error, Options};
///
/// # #[cfg(unix)] {
/// let error = Options::new().directory("/no/such/folder").listen().unwrap_err();
/// assert!(matches!(error, Error::Bind { .. }));
/// assert!(error.to_string().contains("/no/such/folder/dotnet-diagnostic-"));
/// # }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path of the socket is too long for a Unix socket.
    #[error(
        "the path of the socket has {} bytes, and the system allows {limit}: {}; set TMPDIR to a \
         shorter folder, for this process and for the tool",
        path.as_os_str().len(), path.display()
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The largest number of bytes.
        limit: usize,
    },
    /// This process, or another with the same path, listens already.
    #[error("another listener has {}; a process listens once", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The system did not make the socket, for example because the folder is read-only.
    #[cfg_attr(windows, error("cannot make the pipe {}: {cause}", path.display()))]
    #[cfg_attr(
        not(windows),
        error(
            "cannot make the socket {}: {cause}; set TMPDIR to another folder, for this process \
             and for the tool",
            path.display()
        )
    )]
    Bind {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The thread that answers clients could not be started, or has not all that it needs.
    #[error("the thread that answers clients could not be started: {0}")]
    Thread(io::Error),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
