//! The service under load, recorded from outside.

#![cfg(unix)]

#[cfg(target_os = "linux")]
mod recipes;

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nettrace_diagnostics::client::{Target, Wanted};
use nettrace_reader::{Reader, verify};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;
use testkit::reference::{Trace, ask, tool};

/// How many requests are in progress at once, unless `--at-once` says another number.
const AT_ONCE: u64 = 16;

/// A service that ends with the test, also with one that fails.
struct Service(Child);

impl Service {
    /// Tells it to end, as Ctrl-C does, and returns what it printed.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        text
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that listens in a folder, when it does.
fn target(folder: &Path) -> Target {
    loop {
        // The socket's file is there a moment before it answers.
        match Target::all_in(folder).unwrap().pop() {
            Some(target) if target.info().is_ok() => return target,
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[test]
fn tools_attach_to_the_service() {
    let folder = tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--attach", "--seconds", "3600", "--rate", "300"]).current_dir(folder.path());
    command.env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let service = Service(command.spawn().unwrap());
    let target = target(folder.path());
    assert_eq!(target.info().unwrap().program, "service");

    let wanted = ["Example-Service", "NetTrace-Tower"].map(|name| Wanted {
        name: name.to_owned(),
        keywords: 0,
        level: 4,
        arguments: String::new(),
    });
    // This one ends with the service.
    let mut stream = target.collect(&wanted, 16).unwrap().stream;
    let live = thread::spawn(move || {
        let mut trace = Vec::new();
        stream.read_to_end(&mut trace).unwrap();
        trace
    });
    match tool("dotnet-trace") {
        Some(tool) => {
            let mut command = Command::new(tool);
            // Other tests have processes of this name, too.
            command.args(["collect", "-p", &service.0.id().to_string()]);
            command.args(["--duration", "00:00:01", "--providers"]);
            command.args(["Example-Service,NetTrace-Tower", "-o", "tool.nettrace"]);
            command.env("TMPDIR", folder.path()).env("HOME", folder.path());
            command.current_dir(folder.path()).stdin(Stdio::null());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            let path = folder.path().join("tool.nettrace");
            let report = verify(&fs::read(&path).unwrap()[..]).unwrap();
            assert!(report.is_sound() && report.events > 0 && report.lost == 0, "{report:?}");
            ask(&["summary"], Trace::File(&path)).unwrap().assert_holds(report.events, 0);
        }
        None => thread::sleep(Duration::from_secs(1)),
    }
    let text = service.end();
    let trace = live.join().unwrap();
    let numbers: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(numbers["events"], 0, "it records nothing itself");
    let requests = numbers["requests"].as_u64().unwrap();
    let report = verify(&trace[..]).unwrap();
    assert!(report.is_sound() && report.lost == 0, "{report:?}");
    let mut reader = Reader::new(&trace[..]).unwrap();
    let (mut starts, mut stops) = (0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        starts += u64::from(event.metadata().name == "ClientRequestStart");
        stops += u64::from(event.metadata().name == "ClientRequestStop");
    }
    assert!((1..=requests).contains(&stops), "{stops} of {requests}");
    assert!(starts.abs_diff(stops) <= AT_ONCE, "{starts} began, {stops} ended");
    assert!(!target.path.exists());
}

/// A service that keeps the past, and is asked for it by a signal and by a client.
#[test]
fn a_black_box_is_asked_for_its_past() {
    let folder = tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--attach", "--seconds", "3600", "--rate", "300", "--black-box"]).arg(&dumps);
    command.env("TMPDIR", folder.path()).current_dir(folder.path()).stdout(Stdio::piped());
    let service = Service(command.spawn().unwrap());
    let target = target(folder.path());
    let wanted = Wanted {
        name: "NetTrace-FlightRecorder".to_owned(),
        keywords: 0,
        level: 5,
        arguments: "Past=30".to_owned(),
    };
    // The process listens before its session begins.
    let mut live = loop {
        match target.collect(std::slice::from_ref(&wanted), 1) {
            Ok(live) => break live,
            Err(error) => assert!(error.to_string().contains("is a flight recorder"), "{error}"),
        }
    };
    kill_process(Pid::from_child(&service.0), Signal::USR1).unwrap();
    let mut bytes = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| live.stream.read_to_end(&mut bytes).unwrap());
        thread::sleep(Duration::from_secs(1));
        target.stop(live.id).unwrap();
    });
    holds(&bytes);
    // The tools of .NET can ask for it, too.
    if let Some(tool) = tool("dotnet-trace") {
        let mut command = Command::new(tool);
        command.args(["collect", "-p", &service.0.id().to_string(), "-o", "tool.nettrace"]);
        command.args(["--duration", "00:00:01"]);
        command.args(["--providers", "NetTrace-FlightRecorder:0:5:Past=30"]);
        command.env("TMPDIR", folder.path()).env("HOME", folder.path());
        command.current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        holds(&fs::read(folder.path().join("tool.nettrace")).unwrap());
    }
    // Two seconds after the signal.
    let dump = dumps.join(format!("service-{}-SIGUSR1-1.nettrace", service.0.id()));
    while !dump.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    service.end();
    let (events, lost) = holds(&fs::read(&dump).unwrap());
    if let Some(verdict) = ask(&["summary"], Trace::File(&dump)) {
        verdict.assert_holds(events, lost);
    }
}

/// Checks a trace of a flight recorder. How many events it has, and how many are missing.
fn holds(trace: &[u8]) -> (u64, u64) {
    let report = verify(trace).unwrap();
    assert!(report.is_sound() && report.events > 100, "{report:?}");
    // On a machine that is busy otherwise, the first events can be too old.
    let reader = Reader::new(trace).unwrap();
    let given_up = reader.trace().value("nettrace.given_up").unwrap().parse().unwrap();
    assert!(report.lost <= given_up, "{report:?}");
    (report.events, report.lost)
}
