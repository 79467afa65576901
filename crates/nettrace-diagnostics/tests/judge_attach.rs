//! The tools of .NET attach to a process of ours: the reference's own client, and `dotnet-trace`.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads that emit")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{self, Command, Output, Stdio},
};

use testkit::{
    process::one_at_a_time,
    reference::{Trace, ask, interruptible, tool},
};

use nettrace_writer::Emit as _;

use crate::support::{Load, Server, Tick, all_of, counts, interrupt_once_it_records, stop};

/// A tool that looks for sockets where the server has its own.
fn look_in(server: &Server, tool: &Path) -> Command {
    let mut command = interruptible(tool);
    command.env("TMPDIR", server.folder.path()).env("HOME", server.folder.path());
    command.stdin(Stdio::null()).current_dir(server.folder.path());
    command
}

/// The output of a tool that has succeeded.
#[track_caller]
fn succeeds(output: &Output) -> String {
    let [text, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}: {text}\n{errors}", output.status);
    text
}

#[test]
fn the_reference_attaches_and_sees_every_event() {
    let Some(judge) = tool("judge") else { return };
    let server = Server::start();
    let _alone = one_at_a_time();
    let load = Load::start(2);
    let mut command = look_in(&server, &judge);
    let pid = process::id().to_string();
    command.args(["attach", &pid, "2", "Contoso-Attach:1:4", "Fabrikam-Attach"]);
    let text = succeeds(&command.output().unwrap());
    drop(load);
    let totals = text.lines().last().unwrap();
    let number = |name: &str| -> u64 {
        let found = totals.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{totals}")).parse().unwrap()
    };
    assert!(number("events") > 0, "{totals}");
    assert_eq!(number("lost"), 0, "{totals}");
    assert_eq!(text.lines().count() as u64, number("events") + 1);
}

#[test]
fn what_a_slow_client_loses_is_what_the_program_counts() {
    const NAME: &str = "what_a_slow_client_loses_is_what_the_program_counts";
    if !testkit::process::alone(NAME) {
        return;
    }
    const EVENTS: u64 = 300_000;
    let server = Server::start();
    let live = server.target().collect(&[all_of("Contoso-Attach")], 1).unwrap();
    // The client reads nothing meanwhile, and 1 MB of memory has no room for so many.
    for number in 0..EVENTS {
        Tick { number }.emit();
    }
    let trace = stop(&server.target(), live);
    let (events, lost) = counts(&trace);
    assert!(lost > 0, "{events} events");
    assert_eq!(events + lost, EVENTS);
    if let Some(verdict) = ask(&["summary"], Trace::Bytes(&trace)) {
        verdict.assert_holds(events, lost);
    }
}

#[test]
fn dotnet_trace_lists_the_process() {
    let Some(tool) = tool("dotnet-trace") else { return };
    let server = Server::start();
    // The tool fails if any process of the machine ends while it looks at them.
    let has_met_an_end = |output: &Output| {
        String::from_utf8_lossy(&output.stderr).contains("Process has exited")
            || String::from_utf8_lossy(&output.stdout).contains("Process has exited")
    };
    let output = loop {
        let output = look_in(&server, &tool).arg("ps").output().unwrap();
        if output.status.success() || !has_met_an_end(&output) {
            break output;
        }
    };
    let text = succeeds(&output);
    let pid = process::id().to_string();
    let line = text.lines().find(|line| line.trim_start().starts_with(&pid));
    let line = line.unwrap_or_else(|| panic!("{pid} is not in {text}"));
    assert!(line.contains("judge_attach"), "{line}");
}

/// Asserts that a file is a complete trace for us and for the reference. Returns its events.
#[track_caller]
fn complete(path: &Path) -> u64 {
    let (events, lost) = counts(&fs::read(path).unwrap());
    ask(&["summary"], Trace::File(path)).unwrap().assert_holds(events, lost);
    events
}

#[test]
fn dotnet_trace_collects_for_a_duration() {
    let Some(tool) = tool("dotnet-trace") else { return };
    let server = Server::start();
    let _alone = one_at_a_time();
    let load = Load::start(2);
    let pid = process::id().to_string();
    // With providers, with a profile, with neither, and into another format.
    let rows: [(&str, &[&str], bool); 4] = [
        ("own", &["--providers", "Contoso-Attach::Verbose,Fabrikam-Attach"], true),
        ("profile", &["--profile", "dotnet-common", "--providers", "Contoso-*:1:4"], true),
        ("default", &[], false),
        ("speedscope", &["--format", "speedscope", "--providers", "Contoso-Attach"], true),
    ];
    for (name, options, has_events) in rows {
        let path = server.folder.path().join(name).with_extension("nettrace");
        let mut command = look_in(&server, &tool);
        command.args(["collect", "-p", &pid, "--duration", "00:00:00:01", "-o"]).arg(&path);
        let text = succeeds(&command.args(options).output().unwrap());
        assert!(!text.contains("ERROR"), "{name}: {text}");
        let events = complete(&path);
        assert_eq!(events > 0, has_events, "{name}: {events}\n{text}");
    }
    drop(load);
    assert!(server.folder.path().join("speedscope.speedscope.json").exists());
}

#[test]
fn dotnet_trace_collects_until_ctrl_c() {
    let Some(tool) = tool("dotnet-trace") else { return };
    let server = Server::start();
    let _alone = one_at_a_time();
    let load = Load::start(2);
    let path = server.folder.path().join("stopped.nettrace");
    let mut command = look_in(&server, &tool);
    command.args(["collect", "-p", &process::id().to_string(), "--providers", "Contoso-Attach"]);
    command.arg("-o").arg(&path).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It says when it records, and then waits for the signal.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.find(|line| line.as_ref().unwrap().contains("Output File"));
    assert!(begun.is_some());
    interrupt_once_it_records(&child, &path);
    let text: Vec<_> = lines.map(Result::unwrap).collect();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {text:?}");
    drop(load);
    assert!(complete(&path) > 100, "{text:?}");
}
