//! Whether the process records as its author meant: for a health check.

use std::{
    fmt,
    io::{self, Write as _},
};

use crate::{
    emit,
    session::{Session, builder::SessionBuilder},
    shared::{locks, sessions, warning},
};

/// Whether this process records as its author meant. See [`health`].
///
/// [`Display`](fmt::Display) writes one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The number of sessions that record now. Those of clients that have attached count as well.
    pub sessions: usize,
    /// Sessions that did not start since the process began, and the [warnings](Session::warnings)
    /// of the others: a sentence each.
    pub problems: Vec<String>,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions = self.sessions;
        write!(f, "{sessions} {}", if sessions == 1 { "session" } else { "sessions" })?;
        match self.problems.as_slice() {
            [] => f.write_str(", no problem"),
            problems => write!(f, "; {}", problems.join("; ")),
        }
    }
}

/// Whether this process records as its author meant, for the health check of a service. Tracing
/// that fails is rarely a reason to restart a service, so show it there rather than fail.
///
/// It tells what [`start_or_warn`](SessionBuilder::start_or_warn) and
/// `nettrace_diagnostics::listen_or_warn` could not start, and the warnings of every session. In a
/// signal handler that interrupted this crate it tells nothing.
///
/// ```
/// use nettrace_writer::{Session, health};
///
/// let session = Session::builder().file("/no/such/folder/service.nettrace").start_or_warn();
/// assert!(session.is_none());
/// let health = health();
/// assert_eq!(health.sessions, 0);
/// assert!(health.problems[0].contains("/no/such/folder/service.nettrace"), "{health}");
/// ```
#[must_use]
pub fn health() -> Health {
    let mut problems = sessions::problems();
    let live = locks::holding_locks(sessions::live).unwrap_or_default();
    for (_, session) in &live {
        let warnings = locks::holding_locks(|| warning::warnings(session)).unwrap_or_default();
        for warning in warnings.iter().map(ToString::to_string) {
            if !problems.contains(&warning) {
                problems.push(warning);
            }
        }
    }
    Health { sessions: live.len(), problems }
}

/// Says on standard error that something does not work, and has [`health`] tell it.
pub fn complain(problem: impl fmt::Display) {
    let problem = problem.to_string();
    say(&problem);
    sessions::note_problem(emit::attach, problem);
}

/// Says something on standard error.
pub(super) fn say(words: impl fmt::Display) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "nettrace: {words}");
}

impl SessionBuilder {
    /// [`start`](Self::start) for a service that must run whether or not it is recorded. An error
    /// is one line on standard error, [`health`] tells it, and the result is `None`. Events then
    /// cost what they cost while nobody listens.
    ///
    /// If only the [recorder file](Self::persistent) cannot be had, because it cannot be made or
    /// does not go with [`redact`](Self::redact) or the format, the line says so, and the session
    /// records without it.
    ///
    /// Unless [`on_sink_change`](Self::on_sink_change) is set, standard error also has a line when a
    /// disk is full, and when the trace goes on.
    ///
    /// ```
    /// use nettrace_writer::Session;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # std::env::set_current_dir(&directory)?;
    /// let session = Session::builder().file("service-{pid}.nettrace").start_or_warn();
    /// // … what the service does …
    /// drop(session); // or `finish` it, which tells what was recorded
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use = "a session that is dropped at once records nothing; keep it in a variable"]
    pub fn start_or_warn(mut self) -> Option<Session> {
        if self.on_sink_change.is_none() {
            self = self.on_sink_change(|change| say(change));
        }
        self.memory.without_recorder_file = Some(|error| {
            complain(format_args!("events are recorded, but not in a recorder file: {error}"));
        });
        let started = self.start();
        started.inspect_err(|error| complain(format_args!("nothing is recorded: {error}"))).ok()
    }
}
