//! Runs the examples, and asks the reference reader and our own what is in their traces.
#![allow(dead_code, reason = "each test uses a part")]

mod own;

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

pub(crate) use own::{is_heph, own_events, read};

pub(crate) const DIRSCAN: &str = env!("CARGO_BIN_EXE_dirscan");
pub(crate) const ALL_TYPES: &str = env!("CARGO_BIN_EXE_all_types");
pub(crate) const STRESS: &str = env!("CARGO_BIN_EXE_stress");
pub(crate) const STREAM: &str = env!("CARGO_BIN_EXE_stream");
pub(crate) const KILLME: &str = env!("CARGO_BIN_EXE_killme");

/// A program that has run to its end.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The JSON object on the last line.
    pub(crate) numbers: Value,
}

impl Ran {
    /// Asserts that all went well.
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        number(&self.numbers, key)
    }

    /// Asserts that every event is accounted for.
    pub(crate) fn balanced(self) -> Self {
        let [attempted, written, dropped] =
            ["attempted", "written", "dropped"].map(|key| self.number(key));
        assert_eq!(attempted, written + dropped, "{}", self.numbers);
        self
    }
}

pub(crate) fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {object}"))
}

/// Runs a program with arguments and `--out FILE`.
pub(crate) fn run(program: &str, args: &[&str], out: &Path) -> Ran {
    let mut command = Command::new(program);
    command.args(args).arg("--out").arg(out);
    ran(command.output().unwrap())
}

/// What a program has left; its numbers are on the last line of standard output.
pub(crate) fn ran(output: Output) -> Ran {
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let numbers = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok());
    Ran { code: output.status.code(), numbers: numbers.unwrap_or_default(), stdout, stderr }
}

/// What the reference reader says of a trace that it has read to its end.
pub(crate) struct Verdict {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// In the mode `events`: one object for each.
    pub(crate) lines: Vec<Value>,
}

impl Verdict {
    fn new(output: Output) -> Self {
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let (lines, summary): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| !line.starts_with("# "));
        let summary = summary.concat();
        let part = |name: &str| -> u64 {
            let found = summary.split(' ').find_map(|part| part.strip_prefix(name));
            found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{summary}"))
        };
        assert_eq!(part("unsorted="), 0, "{summary}");
        Self {
            events: part("events="),
            lost: part("lost="),
            lines: lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        }
    }
}

/// Where the reference reader is, or `None` and a printed line.
pub(crate) fn judge() -> Option<PathBuf> {
    tool("judge")
}

fn tool(name: &str) -> Option<PathBuf> {
    let judge = match std::env::var_os("NETTRACE_JUDGE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/judge/judge")),
    };
    let tool = judge.with_file_name(name);
    let path = if name == "judge" { judge } else { tool };
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no {name} at {}", path.display());
    None
}

/// Asserts that the reference reader reads the trace to its end, in order; `None` also for a Heph
/// trace.
pub(crate) fn judged(mode: &str, trace: &Path) -> Option<Verdict> {
    if is_heph(trace) {
        return None;
    }
    judge().map(|judge| Verdict::new(Command::new(judge).arg(mode).arg(trace).output().unwrap()))
}

/// The same for a trace that comes through a pipe.
pub(crate) fn judged_from(mode: &str, source: Stdio) -> Option<Verdict> {
    let mut command = Command::new(judge()?);
    Some(Verdict::new(command.args([mode, "-"]).stdin(source).output().unwrap()))
}

/// Asserts that `dotnet-trace` opens the trace, unless it is a Heph trace.
pub(crate) fn dotnet_trace_opens(trace: &Path) {
    if is_heph(trace) {
        return;
    }
    let Some(tool) = tool("dotnet-trace") else { return };
    let args =
        [OsStr::new("report"), trace.as_os_str(), "topN".as_ref(), "-n".as_ref(), "3".as_ref()];
    let output = Command::new(tool).args(args).output().unwrap();
    let [text, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && !text.contains("[ERROR]"), "{text}\n{errors}");
}

/// Asserts that both readers find the same in a trace that is sound: so many events, so many lost.
pub(crate) fn assert_holds(trace: &Path, events: u64, lost: u64) {
    let own = read(trace);
    assert_eq!((own.events, own.lost), (events, lost), "our reader, {}", trace.display());
    if let Some(verdict) = judged("summary", trace) {
        assert_eq!((verdict.events, verdict.lost), (events, lost), "judge, {}", trace.display());
    }
}

/// Asserts that both readers show the same of each event, and that it is so many.
pub(crate) fn assert_same_events(trace: &Path, events: u64) {
    let own = own_events(trace);
    assert_eq!(own.len() as u64, events);
    let Some(verdict) = judged("events", trace) else { return };
    assert_eq!(verdict.lines.len(), own.len());
    for (shown, own) in verdict.lines.iter().zip(&own) {
        for (key, value) in own.as_object().unwrap() {
            if key != "metadata_name" {
                assert_eq!(&shown[key], value, "{key} of {shown}");
            }
        }
    }
}

/// An empty directory.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
