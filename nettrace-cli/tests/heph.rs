//! The command on Heph traces: what it prints, and with which exit code.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// An epoch, the document's example of an event, and one that lost 2 before it.
const TRACE: &[u8] = b"\x75\xD1\x1D\x4D\0\0\0\x17\0\x05epoch\x16\x58\x45\xE9\x12\x14\xEC\x90\
    \xC1\xFC\x1F\xB7\0\0\0\x5B\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xC8\0\x08My event\
    \0\x04Test\x01\0\0\0\0\0\0\0\x7B\
    \0\x05Test2\x83\0\x02\x40\x5E\xDD\x2F\x1A\x9F\xBE\x77\x40\x88\xA8\0\0\0\0\0\
    \xC1\xFC\x1F\xB7\0\0\0\x44\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\x1E\x84\x80\0\0\0\0\0\x1E\x84\x80\0\x03a\tb\
    \0\x01x\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE\
    \0\x01x\x04\0\x05\"quo\"";

fn nettrace(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(args)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It fits the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code().unwrap(), stdout, stderr)
}

const TOTALS: &str = "# events=2 lost=2 packets=3 streams=1 bytes=182 \
    epoch=2021-01-08T13:48:54.1180100Z read_ms=";

#[test]
fn events_as_text_and_columns() {
    assert_eq!(TRACE.len(), 182);
    let (code, text, _) = nettrace(&["dump"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    let first = "      0.000100 [#0/1] \"My event\" (100 ns) Test=123 Test2=[123.456, 789]";
    assert_eq!(lines[0], first);
    assert_eq!(lines[1], "      2.000000 [#0] \"a\\tb\" x=-2 x=\"\\\"quo\\\"\"");
    assert!(lines[2].starts_with(TOTALS), "{}", lines[2]);
    assert_eq!(lines.len(), 3);
    let (code, text, _) = nettrace(&["headers"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    assert_eq!(lines[0], "0\t0\t1\t100\t200\tMy event");
    assert_eq!(lines[1], "0\t3\t0\t2000000\t2000000\ta\\tb");
    assert!(lines[2].starts_with(TOTALS));
}

#[test]
fn events_as_json() {
    let (code, text, _) = nettrace(&["dump", "--json"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    let first: Value = serde_json::from_str(lines[0]).unwrap();
    let expected = serde_json::json!({
        "description": "My event", "stream": 0, "counter": 0, "substream": 1, "start": 100,
        "end": 200, "attributes": { "Test": 123, "Test2": [123.456, 789] },
    });
    assert_eq!(first.to_string().replace("789.0", "789"), expected.to_string());
    let second: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(second["attributes"], serde_json::json!({ "x": -2, "x#2": "\"quo\"" }));
    assert!(lines[2].starts_with(TOTALS));
}

#[test]
fn what_is_in_a_trace() {
    let (code, text, _) = nettrace(&["info"], TRACE);
    assert_eq!(code, 0);
    for line in [
        "format           Heph 0.1.0",
        "epoch            2021-01-08T13:48:54.1180100Z",
        "first start      0.000100 ms after the epoch",
        "last end         2.000000 ms after the epoch",
        "events           2",
        "lost events      2",
        "bytes read       182",
        "           1  My event",
        "           1  a\\tb",
        "           2              2  #0 (0 to 3)",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn sound_and_damaged_traces() {
    let (code, text, _) = nettrace(&["verify"], TRACE);
    let sound = "# violations=0 events=2 lost=2 packets=3 bytes=182\n";
    assert_eq!((code, &*text), (0, sound));
    // An attribute of an unknown type: both events are shown all the same.
    let mut damaged = TRACE.to_vec();
    damaged[79] = 0x55;
    assert_eq!(TRACE[79], 1);
    let (code, text, errors) = nettrace(&["dump"], &damaged);
    assert_eq!((code, text.lines().count()), (1, 3));
    assert!(errors.contains("at byte 79: "), "{errors}");
    let (code, text, errors) = nettrace(&["verify", "--most", "1"], &damaged);
    assert_eq!(code, 1);
    assert!(text.starts_with("at byte 79: ") && errors.contains("breaks 1 promise"), "{text}");
    for command in [&["dump"][..], &["dump", "--json"], &["headers"], &["info"], &["verify"]] {
        let (code, text, errors) = nettrace(command, &TRACE[..181]);
        assert_eq!(code, 1, "{command:?}");
        assert!(format!("{text}{errors}").contains("at byte 114: "), "{text}{errors}");
    }
    // What is too short to tell is taken for NetTrace.
    assert!(nettrace(&["info"], &TRACE[..3]).2.contains("at byte 0: "));
}

/// What NetTrace for Rust says by options of its own: events that are missing where no counter shows
/// it, and room that is not used.
#[test]
fn options_of_our_own() {
    let lost = b"\x75\xD1\x1D\x4D\0\0\0\x27\0\x0Dnettrace.lost\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x02";
    let pad = b"\x75\xD1\x1D\x4D\0\0\0\x18\0\x0Cnettrace.pad??";
    let unknown = b"\x75\xD1\x1D\x4D\0\0\0\x0C\0\x01x!";
    let trace = [TRACE, lost, pad, unknown].concat();
    let (code, text, _) = nettrace(&["info"], &trace);
    assert_eq!(code, 0);
    for line in [
        "lost events      4",
        "padding          24 bytes",
        "unknown options  1",
        "           2              4  #0 (0 to 5)",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    let (code, text, _) = nettrace(&["verify"], &trace);
    assert_eq!((code, &*text), (0, "# violations=0 events=2 lost=4 packets=6 bytes=257\n"));
    // From a file as from a pipe.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &trace).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(["headers".as_ref(), file.path().as_os_str()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() == 3, "{text}");
    // A span that ends before it starts breaks a promise.
    let mut reversed = TRACE.to_vec();
    reversed[23 + 24 + 7] = 0xFF;
    let (code, text, _) = nettrace(&["verify"], &reversed);
    assert_eq!(code, 1);
    assert!(text.starts_with("at byte 23: event 0 of stream 0 ends before it starts"), "{text}");
}
