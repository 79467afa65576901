//! The one line in `main`.

use std::path::PathBuf;

use nettrace_writer::{Session, SessionBuilder, Stats, companion::complain, record_panics};
use tracing_core::{Dispatch, dispatcher, subscriber::NoSubscriber};
use tracing_subscriber::filter::{ParseError, Targets};

use crate::{directives, options::Options, sync::Builder};

/// The directives if there are no others.
const DEFAULT: &str = "info";

/// Records the spans and events of the whole process, from the one line in `main`:
///
/// ```no_run
/// # fn main() -> Result<(), tracing_nettrace::InitError> {
/// let _trace = tracing_nettrace::init().file("service.nettrace").install()?;
/// # Ok(())
/// # }
/// ```
///
/// The environment variable `RUST_LOG` says what is recorded, and `info` if it is not set. A
/// directive that has spans or fields in brackets is left out, and one line on standard error says
/// so. See [`Init`] for what can be chosen.
pub fn init() -> Init {
    Init {
        session: Session::builder(),
        options: Options::new(),
        directives: Source::default(),
        panics: true,
        #[cfg(feature = "log")]
        log: true,
    }
}

/// Where the directives come from.
#[derive(Debug)]
enum Source {
    Text(String),
    Variable(String),
}

impl Default for Source {
    fn default() -> Self {
        Self::Variable(directives::VARIABLE.into())
    }
}

/// Chooses what [`init`] does.
#[must_use = "nothing is recorded before `install`"]
pub struct Init {
    session: SessionBuilder,
    options: Options,
    directives: Source,
    panics: bool,
    #[cfg(feature = "log")]
    log: bool,
}

impl std::fmt::Debug for Init {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directives = &self.directives;
        f.debug_struct("Init").field("directives", directives).finish_non_exhaustive()
    }
}

impl Init {
    /// Writes the trace to a file: see [`SessionBuilder::file`] for placeholders in its name.
    ///
    /// The next run replaces the file, and keeps this one: `service.nettrace` has the name
    /// `service.previous.nettrace` then ([`SessionBuilder::keep_previous`]). A file that another
    /// process writes is not replaced; [`install`](Self::install) fails. For another choice call
    /// [`session`](Self::session) after this: `|session| session.overwrite(false)`.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.session = self.session.file(path).keep_previous();
        self
    }

    /// Changes the session: its filters, its format, its memory.
    ///
    /// ```no_run
    /// use nettrace_writer::OnFull;
    ///
    /// let trace = tracing_nettrace::init()
    ///     .session(|session| session.on_full(OnFull::Block).provider("my_service"))
    ///     .file("service.nettrace")
    ///     .install()?;
    /// # Ok::<(), tracing_nettrace::InitError>(())
    /// ```
    pub fn session(mut self, change: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Self {
        self.session = change(self.session);
        self
    }

    /// Records what these directives let pass, as [`Options::directives`]. Those with spans or
    /// fields in brackets are left out, and if none is left, they are `info`. No environment
    /// variable is read.
    pub fn directives(mut self, directives: impl Into<String>) -> Self {
        self.directives = Source::Text(directives.into());
        self
    }

    /// Takes the directives from an environment variable. If it is not set or empty, they are
    /// `info`, and so they are in a program that has more rights than who starts it: one with the
    /// setuid or setgid bit, or with capabilities of its file.
    pub fn directives_from_env(mut self, variable: impl Into<String>) -> Self {
        self.directives = Source::Variable(variable.into());
        self
    }

    /// Changes how spans and events are recorded.
    pub fn options(mut self, change: impl FnOnce(Options) -> Options) -> Self {
        self.options = change(self.options);
        self
    }

    /// Whether panics are recorded, too, by [`record_panics`]: `true` unless this is called.
    pub fn panics(mut self, panics: bool) -> Self {
        self.panics = panics;
        self
    }

    /// Whether records of the crate `log` are recorded, too: `true` unless this is called. Then the
    /// process must have no other logger.
    #[cfg(feature = "log")]
    pub fn log(mut self, log: bool) -> Self {
        self.log = log;
        self
    }

    /// Starts the session, and makes the [`subscriber`](fn@crate::subscriber) that of the process.
    ///
    /// The returned handle ends the session when it is dropped. So keep it in a variable of `main`.
    ///
    /// # Errors
    ///
    /// [`InitError`] says what cannot be done. Nothing is recorded then.
    pub fn install(self) -> Result<Trace, InitError> {
        let given = match self.directives {
            Source::Text(text) => text,
            Source::Variable(name) => directives::text(&name).unwrap_or_else(|| DEFAULT.into()),
        };
        let mut directives = directives::without_brackets(&given);
        if directives.is_empty() && !given.is_empty() {
            directives = DEFAULT.into();
        }
        let targets: Targets =
            directives.parse().map_err(|reason| InitError::Directives { directives, reason })?;
        if has_subscriber() {
            return Err(InitError::AlreadyInstalled);
        }
        let options = self.options.targets(targets);
        let session = self.session.start().map_err(InitError::Session)?;
        if self.panics {
            record_panics();
        }
        #[cfg(feature = "log")]
        if self.log {
            options.clone().logger().install().map_err(|_| InitError::LoggerInstalled)?;
        }
        let subscriber = options.subscriber();
        dispatcher::set_global_default(Dispatch::new(subscriber))
            .map_err(|_| InitError::AlreadyInstalled)?;
        Ok(Trace { session })
    }

    /// [`install`](Self::install) for a service that must run whether or not it is recorded. An
    /// error is one line on standard error, [`health`](nettrace_writer::health()) tells it, and the
    /// result is `None`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # std::env::set_current_dir(&directory)?;
    /// let _trace = tracing_nettrace::init().file("service.nettrace").install_or_warn();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use = "the trace ends when this is dropped"]
    pub fn install_or_warn(self) -> Option<Trace> {
        let installed = self.install();
        installed.inspect_err(|error| complain(format_args!("nothing is recorded: {error}"))).ok()
    }
}

/// Whether the process has a subscriber.
fn has_subscriber() -> bool {
    // This is also true if there was one for a scope.
    if !dispatcher::has_been_set() {
        return false;
    }
    // A new thread is in no scope.
    let ask = || dispatcher::get_default(|it| !it.is::<NoSubscriber>());
    Builder::new().spawn(ask).is_ok_and(|asked| asked.join().unwrap_or(true))
}

/// The trace that [`init`] has begun. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the trace ends when this is dropped; keep it in a variable of `main` (`let _ = …` \
              drops it at once)"]
pub struct Trace {
    session: Session,
}

impl Trace {
    /// The session: for its counts, its warnings and its filters.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Ends the trace. Returns the counts, which are final.
    ///
    /// # Errors
    ///
    /// Those of [`Session::finish`].
    pub fn finish(self) -> Result<Stats, nettrace_writer::Error> {
        self.session.finish()
    }
}

/// Why [`Init::install`] could not begin a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The directives cannot be read.
    #[error("cannot read the directives `{directives}`: {reason}")]
    Directives {
        /// The directives.
        directives: String,
        /// What is wrong with them.
        reason: ParseError,
    },
    /// The process has a subscriber already.
    #[error(
        "the process has a subscriber for `tracing` already; add `tracing_nettrace::layer()` to it"
    )]
    AlreadyInstalled,
    /// The process has a logger for the crate `log`.
    #[cfg(feature = "log")]
    #[error("the process has a logger already; call `log(false)` to leave it in place")]
    LoggerInstalled,
    /// The session did not start.
    #[error("{0}")]
    Session(nettrace_writer::Error),
}
