//! What tests of the command share: the command on bytes, the reference reader, real .NET traces.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The command with `input` behind its standard input.
#[allow(clippy::disallowed_methods)] // a pipe has to be written and read at once
pub fn nettrace(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may stop reading before the end: what cannot be written does not matter.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The reference reader: `NETTRACE_JUDGE`, or beside the workspace. `None`, with a line that says
/// so, where it is absent.
pub fn judge() -> Option<PathBuf> {
    let path = match std::env::var_os("NETTRACE_JUDGE") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/judge/judge"),
    };
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no judge at {}", path.display());
    None
}

/// Real .NET traces: in `NETTRACE_DOTNET_DATA`, or beside the workspace. None, with a line that
/// says so, where they are absent.
pub fn dotnet_traces() -> Vec<PathBuf> {
    let dir = match std::env::var_os("NETTRACE_DOTNET_DATA") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/dotnet"),
    };
    let Ok(entries) = std::fs::read_dir(&dir) else {
        println!("skipped: no .NET traces in {}", dir.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut traces: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "nettrace")).collect();
    traces.sort();
    assert!(!traces.is_empty(), "no trace in {}", dir.display());
    traces
}
