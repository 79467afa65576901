//! Settings for listening.

use std::{path::PathBuf, time::Duration};

use nettrace_writer::{Format, Redact, companion::complain};

use crate::{Diagnostics, error::Error};

/// Time for a client to send a message, to read the answer, or to read some of its trace.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most memory for the events of one session: what `dotnet-trace` asks for by default.
const MAX_BUFFER: usize = 256 << 20;

/// Settings for listening. [`listen`](crate::listen) has the defaults.
///
/// ```no_run
/// use nettrace_diagnostics::Options;
///
/// // At most 16 MiB for each session, whatever clients ask for.
/// Options::new().max_buffer(16 << 20).listen()?;
/// # Ok::<(), nettrace_diagnostics::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `listen` is called"]
pub struct Options {
    pub(crate) directory: Option<PathBuf>,
    pub(crate) max_buffer: usize,
    pub(crate) format: Format,
    pub(crate) patience: Duration,
    pub(crate) redacted: Vec<(String, Redact)>,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            directory: None,
            max_buffer: MAX_BUFFER,
            format: Format::V6,
            patience: PATIENCE,
            redacted: Vec::new(),
        }
    }

    /// The folder of the socket. The default is that of the variable `TMPDIR`, or else `/tmp`.
    /// Tools look in the folder that `TMPDIR` names for themselves. On Windows this has no effect:
    /// pipes have no folder.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The most memory for the events of one session that are not yet sent, in bytes. The default
    /// is 256 MiB. Clients ask for a size, and get it up to this bound, and at least 1 MiB. A page
    /// is used only when events reach it.
    pub fn max_buffer(mut self, bytes: usize) -> Self {
        self.max_buffer = bytes;
        self
    }

    /// Keeps values out of the traces that tools ask for, and out of those of all sessions that
    /// begin later, as [`SessionBuilder::redact`](nettrace_writer::SessionBuilder::redact) does by
    /// the same names. What a session of the program redacts holds for tools that attach later
    /// without this.
    ///
    /// ```no_run
    /// use nettrace_diagnostics::Options;
    /// use nettrace_writer::Redact;
    ///
    /// Options::new().redact("customer", Redact::Mask).listen()?;
    /// # Ok::<(), nettrace_diagnostics::Error>(())
    /// ```
    pub fn redact(mut self, name: impl Into<String>, how: Redact) -> Self {
        self.redacted.push((name.into(), how));
        self
    }

    /// The format of traces. The default is [`Format::V6`]. Clients cannot ask for a version of
    /// NetTrace. So choose `Format::V5` or `Format::V4` if your tools are so old that they cannot
    /// read version 6: before 2025. They need the feature `v5` of nettrace-writer.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Time for a client to send its message, and to read the answer. A client that reads nothing
    /// of its trace for so long is disconnected. The default is 10 s.
    ///
    /// Until then the session's memory takes the events. When it is full, events are dropped and
    /// counted, or threads wait if the client has asked for that (buffering mode Block).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets tools attach to this process, as [`listen`](crate::listen) does.
    ///
    /// # Errors
    ///
    /// As for [`listen`](crate::listen).
    pub fn listen(self) -> Result<Diagnostics, Error> {
        Diagnostics::start(self)
    }

    /// Lets tools attach to this process, as [`listen_or_warn`](crate::listen_or_warn) does.
    #[allow(clippy::must_use_candidate, reason = "most callers want the socket alone")]
    pub fn listen_or_warn(self) -> Option<Diagnostics> {
        self.listen().inspect_err(|error| complain(format_args!("nobody can attach: {error}"))).ok()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
