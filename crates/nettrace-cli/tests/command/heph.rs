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

const TOTALS: &str = "# events=2 shown=2 lost=2 ";

#[test]
fn events_as_text_and_columns() {
    assert_eq!(TRACE.len(), 182);
    let (code, text, said) = nettrace(&["dump"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    let expected = [
        "2021-01-08T13:48:54.118010200Z   0.000010200 s INFO  [0] heph/My event \
         [8000000000000001] started=2021-01-08T13:48:54.118010100Z duration=100ns outcome=\"\" \
         Test=123 Test2=[123.456, 789.0] {heph.substream=\"1\"}",
        "2021-01-08T13:48:54.120010000Z   0.002010000 s INFO  [0] heph/a\\tb x=-2 \
         x#2=\"\\\"quo\\\"\" {heph.substream=\"0\"}",
    ];
    assert_eq!(lines, expected);
    assert!(said.starts_with(TOTALS) && said.lines().count() == 1, "{said}");
    let (code, text, said) = nettrace(&["headers"], TRACE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(code, 0);
    let expected = [
        "heph\t1\t0\t4\t0x0\t0\t0\t-\t0.010200\t44\t33e882f0",
        "heph\t2\t0\t4\t0x0\t0\t0\t-\t2.010000\t20\tb49f311a",
    ];
    assert_eq!(lines, expected);
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
        "time": "2021-01-08T13:48:54.118010200Z", "since_start_ns": 10_200, "ticks": 10_200,
        "provider": "heph", "name": "My event", "id": 1, "version": 0, "level": "Informational",
        "keywords": 0, "opcode": 0, "process": null, "thread": 0, "thread_index": 0, "cpu": null,
        "payload_bytes": 44,
        "labels": {
            "SpanId": "8000000000000001", "heph.substream": "1",
            "ActivityId": "000000f0-f080-0001-0000-00001d8b9f59",
        },
        "fields": {
            "started": "2021-01-08T13:48:54.118010100Z", "duration": 100, "outcome": "",
            "Test": 123, "Test2": [123.456, 789.0],
        },
    });
    assert_eq!(lines[0], expected);
    let fields = serde_json::json!({ "x": -2, "x#2": "\"quo\"" });
    assert_eq!(lines[1]["fields"], fields);
    assert!(said.starts_with(TOTALS));
}

#[test]
fn filters() {
    let (first, second) = (&["My event"][..], &["a\tb"][..]);
    let both = &[first[0], second[0]];
    for (args, expected) in [
        (&["--event", "My event"][..], first),
        (&["--event", "a*"], second),
        (&["--provider", "heph"], both),
        (&["--thread", "0"], both),
        (&["--from", "10200ns"], both),
        (&["--from", "10201ns"], second),
        (&["--to", "2021-01-08T13:48:54.12Z"], first),
        (&["--where", "Test2>700"], first),
        (&["--where", "x=-2", "--where", "x#2~quo"], second),
        (&["--head", "1"], first),
        (&["--tail", "1"], second),
    ] {
        let (code, text, _) = nettrace(&[&["dump", "--json"], args].concat(), TRACE);
        let lines: Vec<_> = text.lines().map(strict_json).collect();
        let names: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
        assert_eq!((code, &*names), (0, expected), "{args:?}");
    }
    for (args, says) in [
        (["--event", "b"], "of 2 events, none is of event b; there are My event, a\\tb"),
        (["--thread", "7"], "of 2 events, none is of thread 7"),
        (["--where", "y=1"], "of 2 events, none has a field or label named y"),
        (["--level", "2"], "of 2 events, none has level Error"),
    ] {
        let (code, text, said) = nettrace(&[&["headers"][..], &args].concat(), TRACE);
        assert_eq!((code, &*text), (0, ""));
        assert!(said.contains(says), "{said}");
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
    for (name, id) in [
        ("@provider", "Shop"),
        ("@trace", trace_id),
        ("@span", "000000000000000a"),
        ("@activity", activity),
    ] {
        packet.attribute(name, Value::Str(id)).unwrap();
    }
    packet.finish().unwrap();
    for (condition, count) in [
        (format!("TraceId={trace_id}"), 1),
        (format!("TraceId={}", trace_id.to_uppercase()), 1),
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

/// A time of the trace in JSON. Its clock ticks once a nanosecond.
fn moment(time: &str, ticks: u64) -> serde_json::Value {
    serde_json::json!({ "time": time, "since_start_ns": ticks, "ticks": ticks })
}

/// Checks every number against a count by hand or from the dump.
#[test]
fn info_as_json() {
    let (code, text, _) = nettrace(&["info", "--json"], TRACE);
    let mut info = strict_json(text.trim_end());
    assert_eq!(code, 0);
    let rate = info["rate"].take();
    let ty = |id: u64, name: &str, bytes: u64| {
        serde_json::json!({
            "provider": "heph", "name": name, "id": id, "events": 1, "payload_bytes": bytes,
        })
    };
    let expected = serde_json::json!({
        "format": "Heph 0.1.0", "major_version": 0, "minor_version": 1,
        "start": "2021-01-08T13:48:54.1180000Z", "start_ticks": 0,
        "ticks_per_second": 1_000_000_000, "pointer_bytes": 8,
        "key_values": { "nettrace.source": "heph" },
        "first_event": moment("2021-01-08T13:48:54.118010200Z", 10_200),
        "last_event": moment("2021-01-08T13:48:54.120010000Z", 2_010_000),
        "events": 2, "lost": 2, "step_backs": 0, "payload_bytes": 64, "bytes": TRACE.len(),
        "blocks": 3, "sequence_points": 0, "padding_bytes": 0, "unknown_blocks": 0,
        "undefined_stacks": 0, "damaged_types": 0, "deep_types": 0, "spans": 1,
        "spans_without_end": 0, "spans_without_start": 0, "uncounted_spans": 0, "rate": null,
        "types": [ty(1, "My event", 44), ty(2, "a\tb", 20)],
        "threads": [{
            "index": 0, "process": null, "id": 0, "name": null, "events": 2, "lost": 2,
            "step_backs": 0,
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
    assert_eq!(filled, [(place(10_200), &1), (place(2_010_000), &1)]);
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
        "started          2021-01-08T13:48:54.1180000Z",
        "first event      0.000010200 s after the start, 2021-01-08T13:48:54.118010200Z",
        "last event       0.002010000 s after the start, 2021-01-08T13:48:54.120010000Z",
        "events           2",
        "lost events      2",
        "spans            1 (0 without an end, 0 without a start)",
        "bytes read       182 (59.00 an event beside payloads)",
        "packets          3",
        "           1             44   68.8%  heph/My event (id 1)",
        "           1             20   31.2%  heph/a\\tb (id 2)",
        "           2              2  tid 0",
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
        "           2              4  tid 0",
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
