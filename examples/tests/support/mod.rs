//! Runs the examples, and asks the reference reader and our own what their traces contain.
#![allow(dead_code, reason = "each test uses a part")]

mod own;

use std::{
    fs::File,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use testkit::reference::{self, Trace};

pub(crate) use own::{is_heph, own_events, read};

pub(crate) const DIRSCAN: &str = env!("CARGO_BIN_EXE_dirscan");
pub(crate) const ALL_TYPES: &str = env!("CARGO_BIN_EXE_all_types");
pub(crate) const STRESS: &str = env!("CARGO_BIN_EXE_stress");
pub(crate) const STREAM: &str = env!("CARGO_BIN_EXE_stream");
pub(crate) const KILLME: &str = env!("CARGO_BIN_EXE_killme");

/// The result of a program that has ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The JSON object on the last line.
    pub(crate) numbers: Value,
}

impl Ran {
    /// Asserts that the program succeeded.
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
        let given_up = self.numbers["given_up"].as_u64().unwrap_or(0);
        assert_eq!(attempted, written + given_up + dropped, "{}", self.numbers);
        self
    }
}

pub(crate) fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {object}"))
}

/// Runs a program with `args` and `--out FILE`.
pub(crate) fn run(program: &str, args: &[&str], out: &Path) -> Ran {
    let mut command = Command::new(program);
    command.args(args).arg("--out").arg(out);
    ran(command.output().unwrap())
}

/// The result of a program whose numbers are on the last line of standard output.
pub(crate) fn ran(output: Output) -> Ran {
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let numbers = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok());
    Ran { code: output.status.code(), numbers: numbers.unwrap_or_default(), stdout, stderr }
}

/// What the reference reader finds in a trace that it has read to its end, in order.
pub(crate) struct Verdict {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// In the mode `events`, one object for each event.
    pub(crate) lines: Vec<Value>,
}

impl Verdict {
    fn new(verdict: &reference::Verdict) -> Self {
        let (events, lost) = (verdict.number("events"), verdict.number("lost"));
        verdict.assert_holds(events, lost);
        let lines = verdict.lines.iter().filter_map(|line| serde_json::from_str(line).ok());
        Self { events, lost, lines: lines.collect() }
    }
}

/// Asserts that the reference reader reads the trace to its end, in order. Returns `None` if there
/// is no reference reader, or for a Heph trace.
pub(crate) fn judged(mode: &str, trace: &Path) -> Option<Verdict> {
    if is_heph(trace) {
        return None;
    }
    reference::ask(&[mode], Trace::File(trace)).map(|verdict| Verdict::new(&verdict))
}

/// Like [`judged`], for a trace that comes through a pipe.
pub(crate) fn judged_from(mode: &str, source: Stdio) -> Option<Verdict> {
    reference::ask(&[mode], Trace::Pipe(source)).map(|verdict| Verdict::new(&verdict))
}

/// Asserts that `dotnet-trace` opens the trace, unless it is a Heph trace.
pub(crate) fn dotnet_trace_opens(trace: &Path) {
    if !is_heph(trace) {
        reference::dotnet_trace_opens(&Trace::File(trace));
    }
}

/// Asserts that the trace is sound, and that both readers count `events` events and `lost` lost
/// ones.
pub(crate) fn assert_holds(trace: &Path, events: u64, lost: u64) {
    let own = read(trace);
    assert_eq!((own.events, own.lost), (events, lost), "our reader, {}", trace.display());
    if let Some(verdict) = judged("summary", trace) {
        assert_eq!((verdict.events, verdict.lost), (events, lost), "judge, {}", trace.display());
    }
}

/// Asserts that both readers show the same `events` events.
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
