//! Runs the command on Heph traces. Checks output and exit codes.

use std::process::Command;

use nettrace_format::heph::{EventHeader, EventPacket, Value};

use crate::program::{self, strict_json};

/// An epoch, the example event of the format's document, and an event after two lost ones.
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
    let output = program::nettrace(&[args, &["-"]].concat(), input);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), stdout, stderr)
}

const TOTALS: &str = "# events=2 shown=2 lost=2 packets=3 streams=1 bytes=182 \
    epoch=2021-01-08T13:48:54.1180100Z read_ms=";

#[test]
fn events_as_text_and_columns() {
    assert_eq!(TRACE.len(), 182);
    let (code, text, said) = nettrace(&["dump"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    let expected = [
        "2021-01-08T13:48:54.118010100Z   0.000000100 s [#0/1] \"My event\" (0.000000100 s) \
         Test=123 Test2=[123.456, 789.0]",
        "2021-01-08T13:48:54.120010000Z   0.002000000 s [#0] \"a\\tb\" x=-2 x=\"\\\"quo\\\"\"",
    ];
    assert_eq!(lines, expected);
    assert!(said.starts_with(TOTALS) && said.lines().count() == 1, "{said}");
    let (code, text, said) = nettrace(&["headers"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    assert_eq!(lines, ["0\t0\t1\t100\t200\tMy event", "0\t3\t0\t2000000\t2000000\ta\\tb"]);
    assert!(said.starts_with(TOTALS));
}

/// An epoch holds for all packets, wherever it stands. So every output is the same as with the
/// epoch in front, from a file and from a pipe.
#[test]
fn an_epoch_holds_for_what_is_before_it() {
    let (epoch, events) = TRACE.split_at(23);
    let late = [events, epoch].concat();
    let between = [&events[..91], epoch, &events[91..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late.heph");
    let shown = |args: &[&str], input: &[u8]| {
        let (code, text, said) = nettrace(args, input);
        std::fs::write(&file, input).unwrap();
        let output = program::nettrace(&[args, &[file.to_str().unwrap()]].concat(), b"");
        assert_eq!(output.stdout, text.as_bytes(), "{args:?} {said}");
        (code, text)
    };
    for args in [
        &["dump"][..],
        &["dump", "--json"],
        &["dump", "--from", "2021-01-08T13:48:54.12Z"],
        &["headers"],
        &["tree"],
        &["info", "--json"],
    ] {
        let expected = shown(args, TRACE);
        assert_eq!(expected.0, 0, "{args:?}");
        for trace in [&late, &between] {
            assert_eq!(shown(args, trace), expected, "{args:?}");
        }
    }
    for to in ["v6", "perfetto"] {
        let output =
            |trace: &[u8]| program::nettrace(&["convert", "-", "-", "--to", to], trace).stdout;
        assert_eq!(output(&late), output(TRACE), "{to}");
    }
}

#[test]
fn events_as_json() {
    let (code, text, said) = nettrace(&["dump", "--json"], TRACE);
    let lines: Vec<_> = text.lines().map(strict_json).collect();
    assert_eq!((code, lines.len()), (0, 2));
    let expected = serde_json::json!({
        "time": "2021-01-08T13:48:54.118010100Z", "start_ns": 100, "end_ns": 200,
        "description": "My event", "stream": 0, "counter": 0, "substream": 1,
        "attributes": { "Test": 123, "Test2": [123.456, 789.0] },
    });
    assert_eq!(lines[0], expected);
    let attributes = serde_json::json!({ "x": -2, "x#2": "\"quo\"" });
    assert_eq!(lines[1]["attributes"], attributes);
    assert!(said.starts_with(TOTALS));
}

#[test]
fn filters() {
    for (args, counters) in [
        (&["--event", "My event"][..], &[0][..]),
        (&["--event", "a*"], &[3]),
        (&["--thread", "0"], &[0, 3]),
        (&["--from", "100ns"], &[0, 3]),
        (&["--from", "101ns"], &[3]),
        (&["--to", "2021-01-08T13:48:54.12Z"], &[0]),
        (&["--where", "Test2>700"], &[0]),
        (&["--where", "x=-2", "--where", "x~quo"], &[3]),
        (&["--head", "1"], &[0]),
        (&["--tail", "1"], &[3]),
    ] {
        let (code, text, _) = nettrace(&[&["dump", "--json"], args].concat(), TRACE);
        let shown: Vec<_> =
            text.lines().map(|line| strict_json(line)["counter"].as_u64().unwrap()).collect();
        assert_eq!((code, &*shown), (0, counters), "{args:?}");
    }
    for (args, says) in [
        (["--event", "b"], "of 2 events, none is of event b; there are My event, a\\tb"),
        (["--thread", "7"], "of 2 events, none is of thread 7"),
        (["--where", "y=1"], "of 2 events, none has a field or label named y"),
    ] {
        let (code, text, said) = nettrace(&[&["headers"][..], &args].concat(), TRACE);
        assert_eq!((code, &*text), (0, ""));
        assert!(said.contains(says), "{said}");
    }
    for args in [["--provider", "x"], ["--level", "2"], ["--show", "stack"]] {
        let (code, text, said) = nettrace(&[&["dump"][..], &args].concat(), TRACE);
        assert_eq!((code, &*text), (2, ""), "{args:?}");
        assert!(said.contains("of a Heph trace"), "{said}");
    }
}

/// Ids are found by the names and in the spelling that NetTrace traces have.
#[test]
fn ids() {
    let mut trace = Vec::new();
    let header = EventHeader { stream: 1, counter: 1, substream: 10, start: 5, end: 6 };
    let mut packet = EventPacket::begin(&header, "query", &mut trace).unwrap();
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let activity = "000000f0-f000-000a-0000-0000ab9a9d59";
    for (name, id) in [("@trace", trace_id), ("@span", "000000000000000a"), ("@activity", activity)]
    {
        packet.attribute(name, Value::Str(id)).unwrap();
    }
    packet.finish().unwrap();
    for (condition, count) in [
        (format!("TraceId={trace_id}"), 1),
        (format!("TraceId={}", trace_id.to_uppercase()), 1),
        (format!("@trace={trace_id}"), 1),
        ("TraceId=4bf92f3577b34da6a3ce929d0e0e4737".into(), 0),
        ("SpanId=000000000000000A".into(), 1),
        ("SpanId=a".into(), 0),
        (format!("ActivityId={activity}"), 1),
        ("RelatedActivityId!=x".into(), 0),
    ] {
        let (code, text, _) = nettrace(&["dump", "--where", &condition], &trace);
        assert_eq!((code, text.lines().count()), (0, count), "{condition}");
    }
}

/// Checks every number against a count by hand or from the dump.
#[test]
fn info_as_json() {
    let (code, text, _) = nettrace(&["info", "--json"], TRACE);
    let mut info = strict_json(text.trim_end());
    assert_eq!(code, 0);
    let rate = info["rate"].take();
    let expected = serde_json::json!({
        "format": "Heph 0.1.0", "epoch": "2021-01-08T13:48:54.1180100Z", "first_start_ns": 100,
        "last_end_ns": 2_000_000, "events": 2, "lost": 2, "step_backs": 0, "spans": 1,
        "spans_without_end": 0, "spans_without_start": 0, "uncounted_spans": 0,
        "bytes": TRACE.len(), "packets": 3, "padding_bytes": 0, "unknown_options": 0, "rate": null,
        "types": [
            { "description": "My event", "events": 1 }, { "description": "a\tb", "events": 1 },
        ],
        "other_events": 0,
        "streams": [{
            "stream": 0, "events": 2, "lost": 2, "step_backs": 0, "first_counter": 0,
            "last_counter": 3,
        }],
        "damage": null,
    });
    assert_eq!(info, expected);
    let interval = rate["interval_ticks"].as_u64().unwrap();
    assert_eq!(rate["interval_seconds"].as_f64().unwrap(), interval as f64 / 1e9);
    let counts: Vec<_> =
        rate["events"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
    let place = |time: u64| (time - rate["first_ticks"].as_u64().unwrap()) / interval;
    let filled: Vec<_> = (0_u64..).zip(&counts).filter(|(_, count)| **count > 0).collect();
    assert_eq!(filled, [(place(100), &1), (place(2_000_000), &1)]);
    let (code, text, _) = nettrace(&["info", "--json"], &TRACE[..181]);
    let info = strict_json(text.trim_end());
    assert_eq!((code, &info["events"]), (1, &1.into()));
    assert!(info["damage"].as_str().unwrap().starts_with("at byte 114: "), "{info}");
}

#[test]
fn verify_as_json() {
    let (code, text, _) = nettrace(&["verify", "--json"], TRACE);
    let expected = serde_json::json!({
        "sound": true, "violations_count": 0, "format_violations_count": 0, "violations": [],
        "events": 2, "lost": 2, "spans": 1, "packets": 3, "bytes": 182,
    });
    assert_eq!((code, strict_json(text.trim_end())), (0, expected));
    let (code, text, _) = nettrace(&["verify", "--json"], &TRACE[..181]);
    let found = strict_json(text.trim_end());
    assert_eq!((code, &found["sound"], &found["violations_count"]), (1, &false.into(), &1.into()));
    assert_eq!(found["violations"][0]["offset"], 114);
}

#[test]
fn what_is_in_a_trace() {
    let (code, text, _) = nettrace(&["info"], TRACE);
    assert_eq!(code, 0);
    for line in [
        "format           Heph 0.1.0",
        "epoch            2021-01-08T13:48:54.1180100Z",
        "first start      0.000000100 s after the epoch",
        "last end         0.002000000 s after the epoch",
        "events           2",
        "lost events      2",
        "spans            1 (0 without an end, 0 without a start)",
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
    let sound = "# violations=0 events=2 lost=2 spans=1 packets=3 bytes=182 of_format=0\n";
    assert_eq!((code, &*text), (0, sound));
    // An attribute has an unknown type. Both events are shown nevertheless.
    let mut damaged = TRACE.to_vec();
    damaged[79] = 0x55;
    assert_eq!(TRACE[79], 1);
    let (code, text, errors) = nettrace(&["dump"], &damaged);
    assert_eq!((code, text.lines().count()), (1, 2));
    assert!(errors.contains("at byte 79: "), "{errors}");
    let (code, text, errors) = nettrace(&["verify", "--most", "1"], &damaged);
    assert_eq!(code, 1);
    assert!(text.starts_with("at byte 79: ") && errors.contains("breaks 1 rule"), "{text}");
    for command in [&["dump"][..], &["dump", "--json"], &["headers"], &["info"], &["verify"]] {
        let (code, text, errors) = nettrace(command, &TRACE[..181]);
        assert_eq!(code, 1, "{command:?}");
        assert!(format!("{text}{errors}").contains("at byte 114: "), "{text}{errors}");
    }
    // An input that is too short to tell is read as NetTrace.
    assert!(nettrace(&["info"], &TRACE[..3]).2.contains("at byte 0: "));
}

/// Options that NetTrace for Rust defines: losses that no counter shows, and unused room in a file.
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
    assert_eq!(
        (code, &*text),
        (0, "# violations=0 events=2 lost=4 spans=1 packets=6 bytes=257 of_format=0\n")
    );
    // A file gives the same result as a pipe.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &trace).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(["headers".as_ref(), file.path().as_os_str()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() == 2, "{text}");
    // A span that ends before it starts breaks no rule of the format.
    let mut reversed = TRACE.to_vec();
    reversed[23 + 24 + 7] = 0xFF;
    let (code, text, _) = nettrace(&["verify"], &reversed);
    assert_eq!(code, 0);
    assert!(text.starts_with("at byte 23: event 0 of stream 0 ends before it starts"), "{text}");
}
