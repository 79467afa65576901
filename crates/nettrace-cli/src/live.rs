//! Live processes: which ones can be asked, and traces of them.

mod collect;
mod counters;
mod datagrams;
mod launch;
mod open;
mod output_file;
mod providers;
mod session;
mod tail;
mod top;
mod watch;
mod whole_spans;

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    time::Duration,
};

use nettrace_diagnostics::client::{ClientError, Info, Live, Target, Wanted, temporary_folder};
use nettrace_views::text::VERBOSE;

pub(crate) use self::{
    collect::{CollectOptions, run as collect},
    counters::{CountersOptions, run as counters},
    open::run as open,
    providers::{Profile, Provider},
    tail::{TailOptions, run as tail},
    top::{TopOptions, run as top},
};

use crate::{failure::Failure, filter::EventFilter, spelling::OneLine, standard_error};

/// Time for all processes together to state their names.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which process to ask.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ProcessChoice {
    /// The id of the process
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// The name of the program, or a part of its command line
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
}

/// Lists the processes that can be asked.
pub(crate) fn ps(out: &mut impl Write) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let targets = all()?;
    for (target, info) in targets.iter().zip(Target::info_of_all(&targets, PATIENCE)) {
        let [program, version, command_line] = match info {
            Ok(info) => [name_of(&info), info.version, info.command_line],
            Err(error) if is_not_for_us(&error) => continue,
            Err(error @ ClientError::Foreign { .. }) => {
                standard_error::say(Some(format_args!("nettrace: left out: {error}")))?;
                continue;
            }
            Err(error) => ["?".to_owned(), String::new(), format!("({error})")],
        };
        let texts = [program, version, command_line].map(|text| OneLine(text).to_string());
        rows.push((target.pid, texts));
    }
    let width = |column: usize| rows.iter().map(|(_, row)| row[column].chars().count()).max();
    let [program, version] = [0, 1].map(|column| width(column).unwrap_or(0));
    let pid = rows.iter().map(|(pid, _)| pid.to_string().len()).max().unwrap_or(0);
    for (a, [b, c, command_line]) in &rows {
        writeln!(out, "{a:>pid$}  {b:program$}  {c:version$}  {command_line}")?;
    }
    Ok(())
}

/// Changes which events the session of a process's environment records.
pub(crate) fn select(which: &ProcessChoice, filters: &str) -> Result<(), Failure> {
    let unmatched = find(which)?.select(filters)?;
    Ok(unmatched.into_iter().try_for_each(|line| standard_error::say(Some(line)))?)
}

/// Says which of the filters of a trace select nothing that the process knows so far.
fn tell_unmatched(target: &Target, wanted: &[Wanted], live: &Live) -> io::Result<()> {
    unmatched(target, wanted, live).into_iter().try_for_each(|line| standard_error::say(Some(line)))
}

/// Messages about filters of a trace that select nothing. A process of .NET, or one that is older,
/// does not know the question; then it is left open.
///
/// Counters are no events, so nothing is said if some are wanted.
fn unmatched(target: &Target, wanted: &[Wanted], live: &Live) -> Vec<String> {
    if wanted.iter().any(|one| !one.arguments.is_empty()) {
        return Vec::new();
    }
    target.unmatched(live.id).unwrap_or_default()
}

/// The providers that the process is asked for. It sends nothing else.
fn wanted_by(filter: &EventFilter) -> Vec<Wanted> {
    let mut names: Vec<_> = filter.provider.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        names.push("*".to_owned());
    }
    let level = filter.level.map_or(VERBOSE, |level| level.most).into();
    names.iter().map(|name| Wanted { level, ..Provider::all_of(name).0 }).collect()
}

fn all() -> Result<Vec<Target>, Failure> {
    Target::all().map_err(|error| {
        let folder = temporary_folder();
        Failure::Process(format!("cannot list the sockets in {}: {error}", folder.display()))
    })
}

/// Whether nobody listens there any more, as a dead process has left its socket behind; or whether
/// the process is another user's.
fn is_not_for_us(error: &ClientError) -> bool {
    let ClientError::Io { cause, .. } = error else { return false };
    matches!(
        cause.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::UnexpectedEof
    )
}

/// The name of the program. Old versions of .NET do not state it.
fn name_of(info: &Info) -> String {
    if !info.program.is_empty() {
        return info.program.clone();
    }
    let program = info.command_line.split(' ').next().unwrap_or_default();
    Path::new(program).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Finds the process.
fn find(which: &ProcessChoice) -> Result<Target, Failure> {
    if let Some(pid) = which.pid {
        let mut refused = None;
        for target in all()?.into_iter().filter(|target| target.pid == pid) {
            match target.check() {
                Ok(()) => return Ok(target),
                Err(error) => refused = Some(error),
            }
        }
        return Err(match refused {
            Some(error) => error.into(),
            None => Failure::Process(format!(
                "process {pid} has no diagnostics socket; it must call \
                 `nettrace_diagnostics::listen` or be of .NET, and have the same TMPDIR and user"
            )),
        });
    }
    let name = which.name.as_deref().unwrap_or_default();
    let mut named = Vec::new();
    let mut mentioned = Vec::new();
    let mut silent = Vec::new();
    let targets = all()?;
    let infos = Target::info_of_all(&targets, PATIENCE);
    for (target, info) in targets.into_iter().zip(infos) {
        match info {
            Ok(info) if name_of(&info) == name => named.push(target),
            Ok(info) if info.command_line.contains(name) => mentioned.push(target),
            Err(error) if !is_not_for_us(&error) => silent.push(error.to_string()),
            Ok(_) | Err(_) => {}
        }
    }
    let mut found = if named.is_empty() { mentioned } else { named };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let mut words = format!(
                "no process with a diagnostics socket is named {name}; `nettrace ps` lists them"
            );
            for why in silent {
                words += &format!("; left out: {why}");
            }
            Err(Failure::Process(words))
        }
        _ => {
            let ids: Vec<_> = found.iter().map(|target| target.pid.to_string()).collect();
            Err(Failure::Process(format!(
                "several processes match {name}: {}; choose one with -p",
                ids.join(", ")
            )))
        }
    }
}
