//! The service under load, recorded from outside.

#![cfg(unix)]

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::__client::{Target, Wanted};
use nettrace_reader::{Reader, verify};
use tempfile::tempdir;
use testkit::reference::{Trace, ask, tool};

#[test]
fn tools_attach_to_the_service() {
    let folder = tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--attach", "--seconds", "5", "--rate", "300"]).current_dir(folder.path());
    command.env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let service = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Target::all_in(folder.path()).unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the service listens");
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
    let live = target.collect(&wanted, 16).unwrap();
    let tool = tool("dotnet-trace").map(|tool| {
        let mut command = Command::new(tool);
        command.args(["collect", "-n", "service", "--duration", "00:00:01", "--providers"]);
        command.args(["Example-Service,NetTrace-Tower", "-o", "tool.nettrace"]);
        command.env("TMPDIR", folder.path()).env("HOME", folder.path());
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().unwrap()
    });
    thread::sleep(Duration::from_millis(1_500));
    if let Some(tool) = tool {
        let output = tool.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let path = folder.path().join("tool.nettrace");
        let report = verify(&fs::read(&path).unwrap()[..]).unwrap();
        assert!(report.is_sound() && report.events > 300 && report.lost == 0, "{report:?}");
        ask(&["summary"], Trace::File(&path)).unwrap().assert_holds(report.events, 0);
    }
    // This one ends with the service.
    let (mut stream, mut trace) = (live.stream, Vec::new());
    stream.read_to_end(&mut trace).unwrap();
    let output = service.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(numbers["events"], 0, "it records nothing itself");
    let requests = numbers["requests"].as_u64().unwrap();
    assert!((1_000..=1_520).contains(&requests), "5 s at 300 a second: {requests}");
    let report = verify(&trace[..]).unwrap();
    assert!(report.is_sound() && report.lost == 0, "{report:?}");
    // All of its time but the start, before the first client.
    let mut reader = Reader::new(&trace[..]).unwrap();
    let mut stops = 0;
    while let Some(event) = reader.next_event().unwrap() {
        stops += u64::from(event.metadata().name == "ClientRequestStop");
    }
    assert!(stops <= requests && stops + 600 > requests, "{stops} of {requests}");
    assert!(!target.path.exists());
}
