//! The command `collect`: a trace of a live process, until it is stopped.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, IsTerminal as _, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::ValueHint;
use nettrace_diagnostics::client::{Target, Wanted};
use nettrace_reader as trace;

use super::{
    ProcessChoice, Profile, Provider,
    datagrams::{self, ReceiveOptions},
    find,
    launch::Launched,
    output_file::OutputFile,
    session::{Session, Signals},
    tell_unmatched,
};
use crate::{
    failure::Failure, file_name, nanoseconds::duration, read_options::ReadOptions, standard_error,
};

/// The number of bytes read at a time.
const CHUNK: usize = 64 << 10;
/// More bytes than a trace has before the end of its first block.
const LONGEST_HEAD: usize = 1 << 20;

/// What to collect, from which process, and where to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CollectOptions {
    #[command(flatten)]
    source: TraceSource,
    /// What to record: NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]], separated by commas. KEYWORDS is
    /// hexadecimal [default: everything]
    #[arg(long, alias = "provider", value_name = "LIST", value_delimiter = ',')]
    providers: Vec<Provider>,
    /// What to record of a process of .NET, separated by commas. Adds to --providers
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    profile: Vec<Profile>,
    /// Have a process of .NET record the stack of each event, and in the end the names of its
    /// methods
    #[arg(long)]
    stacks: bool,
    /// What the flight recorder of the process has kept of the last time, and what it records from
    /// then on
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        conflicts_with_all = ["providers", "profile", "stacks", "buffer", "udp", "command"]
    )]
    past: Option<Duration>,
    /// How long: seconds, or with a unit (500ms, 10s, 5m, 1h) [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// The file, or - for standard output [default: PROGRAM-PID.nettrace, or udp-PORT.heph]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Replace the file if it exists. A symbolic link is refused
    #[arg(long)]
    force: bool,
    /// The memory for events in the process, in MB
    #[arg(long, value_name = "MB", default_value_t = 256)]
    buffer: u32,
}

/// A process, or a program to start.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TraceSource {
    /// The id of the process
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// The name of the program, or a part of its command line
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Receive the packets of a Heph trace that a `DatagramSink` sends to this address, from the
    /// first sender. Receive inside a machine or network that you trust: nothing is encrypted
    #[arg(
        long,
        value_name = "ADDR:PORT",
        conflicts_with_all = ["providers", "profile", "stacks", "buffer"]
    )]
    udp: Option<SocketAddr>,
    /// A program to start, with its arguments. It is recorded from its first event on
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Collects a trace.
pub(crate) fn run(
    options: &CollectOptions,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let to_stdout = options.out.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let TraceSource { pid, name, udp, command } = &options.source;
    if let Some(address) = *udp {
        let CollectOptions { force, duration, .. } = *options;
        let wanted = ReceiveOptions { address, out: options.out.as_deref(), force, duration };
        return datagrams::run(&wanted, &signals, out);
    }
    let mut launched = match &command[..] {
        [] => None,
        command => Some(Launched::start(command, to_stdout, &signals)?),
    };
    let target = match &launched {
        Some(launched) => launched.target.clone(),
        None => find(&ProcessChoice { pid: *pid, name: name.clone() })?,
    };
    let path = match &options.out {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None => Some(default_path(&target)?),
    };
    let place = match &path {
        Some(path) => Some(OutputFile::find(path, options.force, options.out.is_some())?),
        None => None,
    };
    let wanted = wanted(options);
    let stacks = options.stacks || options.profile.contains(&Profile::SampledThreadTime);
    let live = target.collect_with(&wanted, options.buffer, stacks)?;
    match &mut launched {
        Some(launched) => launched.resume()?,
        // A program that has just begun knows none of its providers yet.
        None if !options.providers.is_empty() => tell_unmatched(&target, &wanted, &live)?,
        None => {}
    }
    let end = options.duration.map(|duration| Instant::now() + duration);
    if end.is_none() && io::stderr().is_terminal() {
        standard_error::say(Some(format_args!(
            "recording process {}; Ctrl-C ends it",
            target.pid
        )))?;
    }
    let held = Some(Vec::new());
    let mut copied = TraceCopy { held, place, path: path.as_deref(), file: None, out, limits };
    let mut session = Session::new(target, live, &signals, end)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match session.next(&mut chunk)? {
            0 => break,
            count => copied.take(&chunk[..count])?,
        }
    }
    copied.end()?;
    if let (Some(file), Some(path)) = (&copied.file, &path) {
        // What has gone to a device or a pipe cannot be read again.
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let has_names = wanted.iter().any(|one| one.name != "*");
            report(path, options.past.is_some(), has_names, limits)?;
        }
    }
    match launched {
        Some(launched) => launched.wait(&signals),
        None => Ok(()),
    }
}

/// The providers of the command line, with those of the profiles. All, if it has neither.
fn wanted(options: &CollectOptions) -> Vec<Wanted> {
    if let Some(past) = options.past {
        return vec![past_of(past)];
    }
    let mut wanted: Vec<_> = options.providers.iter().map(|one| one.0.clone()).collect();
    for profile in &options.profile {
        for (name, keywords, level) in profile.providers() {
            // What the command line says of a provider comes first. Profiles add up.
            if options.providers.iter().any(|one| one.0.name.eq_ignore_ascii_case(name)) {
                continue;
            }
            match wanted.iter_mut().find(|one| one.name == *name) {
                Some(one) => {
                    one.keywords |= keywords;
                    one.level = one.level.max(*level);
                }
                None => wanted.push(Wanted {
                    name: (*name).to_owned(),
                    keywords: *keywords,
                    level: *level,
                    arguments: String::new(),
                }),
            }
        }
    }
    if wanted.is_empty() {
        wanted.push(Provider::all_of("*").0);
    }
    wanted
}

/// What the flight recorder of a process has kept of so long a time, and what it records then.
pub(super) fn past_of(past: Duration) -> Wanted {
    let arguments = format!("Past={}", past.as_secs_f64());
    let name = "NetTrace-FlightRecorder".to_owned();
    Wanted { name, keywords: u64::MAX, level: 5, arguments }
}

/// A name in the current folder: what the process calls itself leads to no other.
fn default_path(target: &Target) -> Result<PathBuf, Failure> {
    let name = file_name::part(&super::name_of(&target.info()?));
    Ok(PathBuf::from(format!("{name}-{}.nettrace", target.pid)))
}

/// Where the bytes go that a process sends. Until they are known to be a trace, nowhere: a process
/// that refuses, or sends something else, leaves an old file as it is, and no empty one.
struct TraceCopy<'a, W: Write> {
    /// The bytes so far. `None`: it is a trace.
    held: Option<Vec<u8>>,
    /// `None`: standard output, or the file is made.
    place: Option<OutputFile<'a>>,
    path: Option<&'a Path>,
    file: Option<File>,
    out: &'a mut W,
    limits: ReadOptions,
}

impl<W: Write> TraceCopy<'_, W> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(mut held) = self.held.take() else { return self.write(bytes) };
        held.extend_from_slice(bytes);
        match self.limits.options().open(&held[..]) {
            Ok(_) => {
                self.file = self.place.take().map(OutputFile::create).transpose()?;
                self.write(&held)
            }
            Err(error) => {
                // A piece may also end where the first block or object would begin.
                let is_short = matches!(
                    error.kind(),
                    trace::ErrorKind::Truncated { .. } | trace::ErrorKind::NoEndOfStream
                );
                if !is_short || held.len() > LONGEST_HEAD {
                    return Err(no_trace(&error));
                }
                self.held = Some(held);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match (&mut self.file, self.path) {
            (Some(file), Some(path)) => {
                let failed = |error| Failure::Destination(path.display().to_string(), error);
                file.write_all(bytes).map_err(failed)
            }
            _ => {
                self.out.write_all(bytes)?;
                Ok(self.out.flush()?)
            }
        }
    }

    /// Nothing follows.
    fn end(&self) -> Result<(), Failure> {
        match self.held.as_ref().map(|held| self.limits.options().open(&held[..])) {
            Some(Err(error)) => Err(no_trace(&error)),
            _ => Ok(()),
        }
    }
}

fn no_trace(error: &trace::Error) -> Failure {
    Failure::Process(format!("what the process sends is no trace: {error}"))
}

/// Says what is in the file. It is an error if the trace breaks off, or if the past was asked for
/// and the process does not know what that is.
fn report(
    path: &Path,
    has_past: bool,
    has_names: bool,
    limits: ReadOptions,
) -> Result<(), Failure> {
    let name = path.display();
    let open = File::open(path);
    let file = open.map_err(|error| Failure::Open(name.to_string(), error))?;
    let mut reader = limits.options().open(file)?;
    reader.read_to_end()?;
    let (events, lost) = (reader.totals().events, reader.totals().lost);
    if !has_names && has_runtime_alone(reader.metadata()) {
        standard_error::say(Some(
            "no source of the program's own has an event: a runtime of .NET can leave those out of \
             a session of all providers that the program makes when it has begun; name them by \
             --providers",
        ))?;
    }
    if !has_past {
        return Ok(standard_error::say(Some(format_args!(
            "{name}: {events} events, {lost} lost"
        )))?);
    }
    if reader.trace().events_before().is_none() {
        let words = "the process knows of no flight recorder, and has sent nothing of the past";
        return Err(Failure::Process(words.to_owned()));
    }
    Ok(standard_error::say(Some(format_args!(
        "{name}: {events} events, {lost} lost or before these"
    )))?)
}

/// Whether a trace is of a runtime of .NET, and has only event types of that.
fn has_runtime_alone(types: &[trace::Metadata]) -> bool {
    const OF_SESSION: &str = "Microsoft-DotNETCore-EventPipe";
    let is_of_runtime = |of: &trace::Metadata| {
        of.provider.starts_with("Microsoft-") || of.provider.starts_with("System.")
    };
    types.iter().any(|of| of.provider == OF_SESSION) && types.iter().all(is_of_runtime)
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn a_head_comes_in_pieces() {
        let defaults =
            ReadOptions::augment_args(Command::new("collect")).get_matches_from(["collect"]);
        let limits = ReadOptions::from_arg_matches(&defaults).unwrap();
        let trace = nettrace_reader::example();
        // What a runtime of .NET writes before its first object, which follows by itself.
        let head = b"Nettrace\x14\0\0\0!FastSerialization.1";
        for (bytes, is_whole) in [(&trace[..], true), (head, false)] {
            let (mut out, held) = (Vec::new(), Some(Vec::new()));
            let mut copied =
                TraceCopy { held, place: None, path: None, file: None, out: &mut out, limits };
            for (at, byte) in bytes.iter().enumerate() {
                let taken = copied.take(std::slice::from_ref(byte));
                taken.unwrap_or_else(|failure| panic!("byte {at}: {failure}"));
            }
            assert_eq!(copied.end().is_ok(), is_whole);
            assert_eq!(out, if is_whole { bytes } else { b"" });
        }
    }
}
