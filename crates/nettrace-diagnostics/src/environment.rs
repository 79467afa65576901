//! The session that the environment asks for: its start and end. [`plan`](mod@plan) reads the
//! variables.

mod plan;

use std::{
    io::ErrorKind,
    mem,
    path::{Path as FilePath, PathBuf},
    process,
    time::Duration,
};

use nettrace_writer::{
    Error, ProviderFilter, Session, SinkChange, Warning,
    companion::{
        all_variables, complain, flush_within, ignores, reads_providers, redact_session, spawn,
    },
    sink::FileOptions,
};

#[cfg(feature = "__fuzzing")]
pub(crate) use self::plan::check;
use self::plan::{
    EnvironmentPlan, OutputPath, PROVIDERS, Variables, has_idle_filters, misspelt, of_this_process,
    plan, without_effect,
};
pub(crate) use self::plan::{forbids_to_listen, redacted_for_client};
use crate::{
    filters::unmatched,
    protocol::{Refusal, code},
    standard_error::say,
    sync::{Mutex, TryLockError, lock, sleep},
};

/// Time that `exit` waits for the end of the session.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);
/// Times that a thread waits before it looks at the filters and names. In the first seconds, many
/// providers have yet to appear.
const LOOKS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(50)];
/// The number of names of its own that a process tries if the file is in use.
const OWN_NAMES: u32 = 100;

/// The session of the environment, and the process that it belongs to.
#[derive(Debug)]
struct Recording {
    pid: u32,
    /// `None`: the environment asks for none, or it could not start.
    session: Option<EnvironmentSession>,
    /// Whether there are filters that no session of the environment takes, of which nothing was
    /// said yet.
    has_idle_filters: bool,
}

impl Recording {
    /// The lines of [`EnvironmentSession::news`], and that filters have no effect, unless the
    /// application has taken them.
    fn news(&mut self, is_end: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if mem::take(&mut self.has_idle_filters) && !reads_providers() {
            // It may read the variable in another way.
            lines.push(format!(
                "{PROVIDERS}: no effect without NETTRACE_OUTPUT, unless the program reads it"
            ));
        }
        let news = self.session.as_mut().map(|recorded| recorded.news(is_end));
        lines.extend(news.iter().flatten().map(ToString::to_string));
        lines
    }
}

#[derive(Debug)]
struct EnvironmentSession {
    session: Session,
    path: PathBuf,
    /// The filters of which it was said that they select nothing.
    told: Vec<ProviderFilter>,
    /// The names of which it was said that they redact nothing.
    told_names: Vec<String>,
}

impl EnvironmentSession {
    /// Warnings about filters that select nothing and names that redact nothing, unless they were
    /// given before. A filter may wait for a provider that has yet to appear, and a name for a
    /// field. So it is told early only if something known has nearly its name.
    fn news(&mut self, is_end: bool) -> Vec<Warning> {
        let mut warnings = self.session.warnings();
        let redacts = |warning: &Warning| matches!(warning, Warning::RedactsNothing { .. });
        if is_end && warnings.iter().any(redacts) {
            // What was not written yet may have the name.
            flush_within(&self.session, EXIT_PATIENCE);
            warnings = self.session.warnings();
        }
        warnings.retain(|warning| {
            let has_meant = warning.meant().is_some();
            match warning {
                Warning::UnknownProvider { filter, known } => {
                    let is_sure = (is_end && !known.is_empty()) || has_meant;
                    is_sure && is_new(filter, &mut self.told)
                }
                // A service that is well may have no error for a long time.
                Warning::NothingPasses { filter } => is_end && is_new(filter, &mut self.told),
                Warning::RedactsNothing { name, known } => {
                    let is_sure = (is_end && !known.is_empty()) || has_meant;
                    is_sure && is_new(name, &mut self.told_names)
                }
                _ => false,
            }
        });
        warnings
    }
}

/// Whether this was not told before. Notes it.
fn is_new<T: Clone + PartialEq>(what: &T, told: &mut Vec<T>) -> bool {
    let is_new = !told.contains(what);
    if is_new {
        told.push(what.clone());
    }
    is_new
}

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

/// Starts the session that the environment asks for, once in each process. Returns the path of its
/// trace.
pub(crate) fn start() -> Option<PathBuf> {
    let mut recording = lock(&RECORDING);
    // The child of a fork has its parent's value. That session does not exist there.
    if recording.as_ref().is_none_or(|recording| recording.pid != process::id()) {
        *recording = Some(begin());
    }
    recording.as_ref()?.session.as_ref().map(|recorded| recorded.path.clone())
}

/// Looks a few times whether filters or names fit nothing.
fn check_names() {
    for patience in LOOKS {
        sleep(patience);
        let (lines, is_done) = match lock(&RECORDING).as_mut() {
            Some(recording) => (recording.news(false), recording.session.is_none()),
            None => return,
        };
        // Nobody waits for the lock while nobody reads standard error.
        lines.iter().for_each(|line| say(format_args!("{line}")));
        if is_done {
            return;
        }
    }
}

fn begin() -> Recording {
    for name in ["NETTRACE_OUTPUT", "DOTNET_EnableEventPipe", "DOTNET_DiagnosticPorts"] {
        if ignores(name) {
            say(format_args!(
                "{name} is ignored, like all variables: this program has more rights than who has \
                 started it"
            ));
        }
    }
    let variables = Variables(&of_this_process);
    if let Some((idle, needed)) = without_effect(&variables) {
        say(format_args!("{}: no effect without {needed}", idle.join(", ")));
    }
    let names = all_variables().filter_map(|(name, _)| name.into_string().ok());
    for (name, meant) in misspelt(names.filter(|name| !ignores(name))) {
        complain(format_args!("{name}: no variable of NetTrace; is {meant} meant?"));
    }
    let session = begin_session(&variables);
    let has_idle_filters = has_idle_filters(&variables);
    if session.is_some() || has_idle_filters {
        // Without a thread it is told at the end.
        let _ = spawn(c"nettrace-check", check_names);
    }
    Recording { pid: process::id(), session, has_idle_filters }
}

fn begin_session(variables: &Variables<'_>) -> Option<EnvironmentSession> {
    let plan = match plan(variables) {
        Ok(plan) => plan?,
        Err(bad) => {
            complain(bad);
            return None;
        }
    };
    if plan.keeps_in_memory {
        say(format_args!(
            "DOTNET_EventPipeOutputStreaming=0: the trace is written while the process runs, \
             because only a written event survives a crash"
        ));
    }
    let mut started = record(&plan, 0);
    // A child has the variables of its parent, whose trace it must not replace.
    if let Some(in_use) = started.as_ref().err().filter(|error| is_in_use(error)) {
        let in_use = in_use.to_string();
        let mut attempts = (1..=OWN_NAMES).map(|attempt| record(&plan, attempt));
        let other = attempts.find(|result| !result.as_ref().is_err_and(is_in_use));
        if let Some(other) = other {
            if let Ok((_, path)) = &other {
                say(format_args!("this process records to {} instead: {in_use}", path.display()));
            }
            started = other;
        }
    }
    match started {
        Ok((session, path)) => {
            Some(EnvironmentSession { session, path, told: plan.untold(), told_names: Vec::new() })
        }
        Err(error) => {
            complain(format_args!(
                "the session that the environment asks for did not start: {error}"
            ));
            None
        }
    }
}

/// Starts the session in the file of the plan, or in one whose name is this process's own.
fn record(plan: &EnvironmentPlan, attempt: u32) -> Result<(Session, PathBuf), Error> {
    let mut builder = Session::builder()
        .providers(plan.providers.clone())
        .budget(plan.buffer_mb.saturating_mul(1 << 20))
        .on_sink_change(|change| {
            // The end of the session is told otherwise.
            if !matches!(change, SinkChange::Failed { .. }) {
                say(format_args!("{change}"));
            }
        })
        .finish_timeout(EXIT_PATIENCE);
    for (key, value) in &plan.key_values {
        builder = builder.key_value(key, value);
    }
    builder = redact_session(builder, plan.redacted.iter().cloned());
    if plan.command_line {
        builder = builder.command_line();
    }
    let (OutputPath::Template(path) | OutputPath::Literal(path)) = &plan.path;
    if let Some(rotation) = &plan.rotation {
        let sink = rotation.sink(path).map_err(Error::Sink)?;
        let folder = path.parent().map_or_else(PathBuf::new, ToOwned::to_owned);
        return Ok((builder.sink(sink).start()?, folder));
    }
    let path = own_name(path, attempt);
    let builder = match &plan.path {
        OutputPath::Template(_) => builder.file(&path).overwrite(true),
        OutputPath::Literal(_) => builder.sink(FileOptions::new(&path).overwrite(true).build()),
    };
    let session = builder.start()?;
    let path = session.path().map_or(path, ToOwned::to_owned);
    Ok((session, path))
}

/// `t.nettrace` at first, then `t-PID.nettrace`, then `t-PID-2.nettrace` and so on: processes of
/// two containers may have the same id.
fn own_name(path: &FilePath, attempt: u32) -> PathBuf {
    if attempt == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", process::id()));
    if attempt > 1 {
        name.push(format!("-{attempt}"));
    }
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Whether somebody else writes the file.
fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Sink(cause) if cause.kind() == ErrorKind::ResourceBusy)
}

/// Changes which events the session records. Returns which filters select nothing.
pub(crate) fn select(filters: &str) -> Result<String, Refusal> {
    let invalid = |words: String| Refusal::new(code::INVALID_ARGUMENT, words);
    let filters =
        ProviderFilter::parse_list(filters).map_err(|error| invalid(error.to_string()))?;
    let mut recording = lock(&RECORDING);
    let recording = recording.as_mut().filter(|recording| recording.pid == process::id());
    let Some(recorded) = recording.and_then(|recording| recording.session.as_mut()) else {
        let words = "the environment of this process asks for no session; attach one instead";
        return Err(invalid(words.to_owned()));
    };
    recorded.told.clear();
    let set = recorded.session.set_providers(filters);
    set.map_err(|error| Refusal::new(code::FAIL, error.to_string()))?;
    Ok(unmatched(&recorded.session))
}

/// Ends the session, so that its trace is complete.
pub(crate) fn at_exit() {
    // In the child of a fork, a thread that does not exist may hold the lock.
    let recording = match RECORDING.try_lock() {
        Ok(mut recording) => recording.take(),
        Err(TryLockError::Poisoned(recording)) => recording.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    // There is no such session in the child of a fork.
    let Some(mut recording) = recording.filter(|it| it.pid == process::id()) else { return };
    recording.news(true).iter().for_each(|line| say(format_args!("{line}")));
    let Some(EnvironmentSession { session, path, .. }) = recording.session else { return };
    if let Err(error) = session.finish() {
        say(format_args!("the trace {} may be incomplete: {error}", path.display()));
    }
}
