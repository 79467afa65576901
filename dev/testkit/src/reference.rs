//! Runs the reference reader and related tools, which are not part of this project.
//!
//! `NETTRACE_JUDGE` names the reference reader. Otherwise it is looked up next to the workspace. If
//! it is absent, a test prints a line that begins with `skipped:` and passes.

use std::{
    collections::HashMap,
    env, fs,
    ops::Index,
    panic::Location,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use parking_lot::Mutex;

use crate::agreed::Agreed;

/// The folder next to the workspace.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");

/// Finds the tool `name` next to the reference reader.
///
/// # Errors
/// A message that says where the tool should be, if it is not there.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let judge = match env::var_os("NETTRACE_JUDGE") {
        Some(path) => PathBuf::from(path),
        None => Path::new(SHARED).join("judge/judge"),
    };
    let path = if name == "judge" { judge } else { judge.with_file_name(name) };
    if path.exists() { Ok(path) } else { Err(format!("no {name} at {}", path.display())) }
}

/// Like [`find`]. If the tool is absent, prints a line and returns `None`.
pub fn tool(name: &str) -> Option<PathBuf> {
    find(name).inspect_err(|why| println!("skipped: {why}")).ok()
}

/// A command that runs `tool` so that SIGINT ends it. A program whose parent ignores the signal, as
/// that of a shell's job in the background does, ignores it too, and .NET leaves it at that.
pub fn interruptible(tool: &Path) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(tool);
    command
}

/// Finds the reference reader. If it is absent, prints a line and returns `None`.
pub fn judge() -> Option<PathBuf> {
    tool("judge")
}

/// Finds real .NET traces, in `NETTRACE_DOTNET_DATA` or next to the workspace. If the folder is
/// absent, prints a line and returns an empty list.
///
/// # Panics
/// If the folder exists but contains no trace.
pub fn dotnet_traces() -> Vec<PathBuf> {
    let folder = match env::var_os("NETTRACE_DOTNET_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(SHARED).join("data/dotnet"),
    };
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: no .NET traces in {}", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut traces: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "nettrace")).collect();
    traces.sort();
    assert!(!traces.is_empty(), "no trace in {}", folder.display());
    traces
}

/// Finds a trace of one-collect, the other producer of version 6, next to the workspace: one of
/// `vm-cpu-cswitch`, `user-events` and `dotnet`. If it is absent, prints a line and returns `None`.
pub fn one_collect_trace(name: &str) -> Option<PathBuf> {
    let path = Path::new(SHARED).join(format!("data/one-collect/{name}.nettrace"));
    if !path.exists() {
        println!("skipped: no trace at {}", path.display());
        return None;
    }
    Some(path)
}

/// Finds odd traces that were made by hand from the specifications, next to the workspace, by their
/// names. If the folder is absent, prints a line and returns an empty list.
///
/// # Panics
/// If the folder cannot be read.
pub fn format_cases() -> Vec<PathBuf> {
    let folder = Path::new(SHARED).join("cases/format");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: no cases in {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

/// A trace, as input for the reference reader.
#[derive(Debug)]
pub enum Trace<'a> {
    /// In memory.
    Bytes(&'a [u8]),
    /// A file.
    File(&'a Path),
    /// The read end of a pipe.
    Pipe(Stdio),
}

/// The result of the reference reader for a trace. Totals are looked up by name:
/// `verdict["events"]`.
#[derive(Debug)]
pub struct Verdict {
    /// Its standard output without the last line.
    pub lines: Vec<String>,
    /// The last line of its standard output: totals, as `name=value`.
    pub totals: String,
    /// Its standard error.
    pub errors: String,
    /// Whether it read to the end.
    pub accepted: bool,
}

impl Verdict {
    fn new(output: Output) -> Self {
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        Self {
            totals: lines.pop().unwrap_or_default(),
            lines,
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            accepted: output.status.success(),
        }
    }

    /// The total `name`.
    ///
    /// # Panics
    /// If there is no such total, or if it is negative.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        self[name].parse().unwrap_or_else(|error| panic!("{name}: {error}: {}", self.totals))
    }

    /// Asserts that the trace was read to its end.
    ///
    /// # Panics
    /// If it was not. The message has the output of the reference reader.
    #[track_caller]
    pub fn assert_accepted(&self) -> &Self {
        assert!(self.accepted, "the reference reader: {}\n{}", self.errors, self.totals);
        self
    }

    /// Asserts that the trace was read to its end, in order, and has `events` events and `lost`
    /// lost ones.
    ///
    /// # Panics
    /// If not. The message has the output of the reference reader.
    #[track_caller]
    pub fn assert_holds(&self, events: u64, lost: u64) -> &Self {
        self.assert_accepted();
        let found = ["events", "lost", "unsorted"].map(|name| self[name].to_owned());
        let wanted = [events, lost, 0].map(|number| number.to_string());
        assert_eq!(found, wanted, "the reference reader: {}", self.totals);
        self
    }
}

impl Index<&str> for Verdict {
    type Output = str;

    #[track_caller]
    fn index(&self, name: &str) -> &str {
        let pairs = self.totals.split(' ').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(of, _)| *of == name).map(|(_, value)| value);
        values.next().unwrap_or_else(|| panic!("no {name}: {}\n{}", self.totals, self.errors))
    }
}

/// Runs the reference reader. `arguments` are a command, then options to put after the trace.
pub fn ask(arguments: &[&str], trace: Trace<'_>) -> Option<Verdict> {
    let mut command = Command::new(judge()?);
    let (name, options) = arguments.split_first().expect("a command");
    command.arg(name);
    let file = match trace {
        Trace::Bytes(bytes) => Some(File::new(bytes)),
        _ => None,
    };
    match (&file, trace) {
        (Some(file), _) => command.arg(&file.0),
        (None, Trace::File(path)) => command.arg(path),
        (None, Trace::Pipe(pipe)) => command.arg("-").stdin(pipe),
        (None, Trace::Bytes(_)) => unreachable!("bytes are in a file"),
    };
    let output = command.args(options).output().expect("the reference reader runs");
    Some(Verdict::new(output))
}

/// The totals of a trace in memory.
///
/// # Panics
/// If the reference reader does not read the trace to its end.
#[track_caller]
pub fn judged(bytes: &[u8]) -> Option<Verdict> {
    let verdict = ask(&["summary"], Trace::Bytes(bytes))?;
    verdict.assert_accepted();
    Some(verdict)
}

/// Like [`judged`], for a test that makes many traces in the same way: the reference reader reads
/// the first four of each place in a test and version of the format, and then every eighth. It
/// takes a tenth of a second to start.
///
/// # Panics
/// If the reference reader does not read the trace to its end.
#[track_caller]
pub fn judged_of_many(bytes: &[u8]) -> Option<Verdict> {
    type Places = HashMap<(&'static Location<'static>, Vec<u8>), u32>;
    static PLACES: Mutex<Option<Places>> = Mutex::new(None);
    // What the versions begin with is the same up to there.
    let is_newest = bytes.get(8..12) == Some(&[0; 4]);
    let version = bytes[..bytes.len().min(if is_newest { 20 } else { 44 })].to_vec();
    let number = {
        let mut places = PLACES.lock();
        let places = places.get_or_insert_default();
        let number = places.entry((Location::caller(), version)).or_default();
        *number += 1;
        *number
    };
    if number <= 4 || number % 8 == 0 { judged(bytes) } else { None }
}

/// Traces that `dotnet-trace` has opened before.
const OPENED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dotnet-trace.agreed");

/// Asserts that `dotnet-trace`, which contains an older reader, opens a trace. It is not asked
/// again about a trace in memory that it has opened before.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn dotnet_trace_opens(trace: &Trace<'_>) {
    match trace {
        Trace::Bytes(bytes) => Agreed::open(OPENED).or_ask(&[bytes], || opens(&File::new(bytes).0)),
        Trace::File(path) => drop(opens(path)),
        Trace::Pipe(_) => panic!("it takes files only"),
    }
}

/// `false`: there is no `dotnet-trace`.
#[track_caller]
fn opens(path: &Path) -> bool {
    let Some(tool) = tool("dotnet-trace") else { return false };
    let mut command = Command::new(tool);
    let output = command.arg("report").arg(path).args(["topN", "-n", "3"]).output();
    let output = output.expect("dotnet-trace runs");
    let [text, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && !text.contains("[ERROR]"), "{text}\n{errors}");
    true
}

/// A file with a trace from memory. It is removed on drop.
struct File(PathBuf);

impl File {
    fn new(bytes: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("testkit-{}-{number}.nettrace", process::id());
        let path = env::temp_dir().join(name);
        fs::write(&path, bytes).expect("room for a trace");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
