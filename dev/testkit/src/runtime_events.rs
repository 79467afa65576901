//! Events of the .NET runtime as TraceEvent decodes them, and the reader's table of them as the
//! script that makes it does.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{activities, reference::tool};

/// The folder of the scripts, and of what they read.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/runtime-events");

/// The events of a trace, in the order of time: `provider`, `id` and `version`, and for those of
/// the runtime `name`, `fields` and `values` (arrays, and what the fields show wrongly). If the
/// reference reader or its Python library is absent, prints a line and returns `None`.
///
/// # Panics
/// If the script fails.
pub fn of(trace: &Path) -> Option<Vec<Value>> {
    let text = print(script(trace)?.args([Path::new("events"), trace]));
    Some(text.lines().map(|line| serde_json::from_str(line).expect(line)).collect())
}

/// The list of the names that TraceEvent shows. `trace` is any trace of .NET. Returns `None` as
/// [`of`] does.
pub fn names(trace: &Path) -> Option<String> {
    Some(print(script(trace)?.arg("names")))
}

/// Writes the manifests that the runtime gives of its event sources into a folder. `trace` is any
/// trace of .NET. Returns `None` as [`of`] does.
pub fn manifests(trace: &Path, folder: &Path) -> Option<()> {
    print(script(trace)?.args([Path::new("manifests"), folder]));
    Some(())
}

/// The table that the script makes of the manifests in [`FOLDER`] and of `others`. If Python is
/// absent, prints a line and returns `None`.
///
/// # Panics
/// If the script fails.
pub fn table(others: &[PathBuf]) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return None;
    }
    let own = ["ClrEtwAll-excerpt.man", "sample-profiler.man"];
    let own = own.map(|name| Path::new(FOLDER).join(name));
    let script = Path::new(FOLDER).join("table.py");
    Some(print(Command::new("python3").arg(script).args(own).args(others)))
}

fn print(command: &mut Command) -> String {
    let output = command.output().expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the script failed: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A process of .NET that collects, throws, waits and compiles, until it is dropped.
#[derive(Debug)]
pub struct Exercise {
    child: Child,
    /// Its OS id.
    pub id: u32,
}

impl Exercise {
    /// Starts it. `trace` is any trace of .NET. Returns `None` as [`of`] does.
    ///
    /// # Panics
    /// If the process ends at once.
    pub fn start(trace: &Path) -> Option<Self> {
        let mut command = script(trace)?;
        let command = command.arg("exercise").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a pipe");
        let id = line.trim().parse().expect("an id");
        Some(Self { child, id })
    }
}

impl Drop for Exercise {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The script. It needs a library that the tool `activities` installs, for any trace.
fn script(trace: &Path) -> Option<Command> {
    let judge = tool("judge")?;
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(Into::into)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    let python = cache.join("nettrace-judge-python/bin/python");
    if !python.exists() {
        // It installs the library where this script wants it.
        activities::of(trace)?;
    }
    let mut command = Command::new(python);
    command.arg(Path::new(FOLDER).join("reference.py")).env("NETTRACE_JUDGE", judge);
    Some(command)
}
