//! The service under load, recorded from outside.

#![cfg(unix)]

#[cfg(target_os = "linux")]
mod recipes;

use std::{
    fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nettrace_diagnostics::__client::{Target, Wanted};
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

#[test]
fn tools_attach_to_the_service() {
    let folder = tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--attach", "--seconds", "3600", "--rate", "300"]).current_dir(folder.path());
    command.env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let service = Service(command.spawn().unwrap());
    // The socket's file is there a moment before it answers.
    let answers = |target: Target| target.info().is_ok();
    while !Target::all_in(folder.path()).unwrap().pop().is_some_and(answers) {
        thread::sleep(Duration::from_millis(10));
    }
    let target = Target::all_in(folder.path()).unwrap().remove(0);
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
            command.args(["collect", "-n", "service", "--duration", "00:00:01", "--providers"]);
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
