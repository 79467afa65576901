//! Runs `nettrace dump` and its filters, and parses every line of standard output.

use std::process::{Command, Stdio};

use nettrace_event::{
    ArrayLayout, EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema,
};
use nettrace_format::v6;
use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
use serde_json::{Value, json};
use testkit::streams::{EventType, Row, Stream, samples, string, utf16z, v5_samples, varint};

use crate::program::{nettrace, stderr, stdout, strict_json};

/// The objects that `dump --json` prints. Fails if it prints anything else.
fn events(args: &[&str], trace: &[u8]) -> Vec<Value> {
    let output = nettrace(&[&["dump", "--json", "-"], args].concat(), trace);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output).lines().map(strict_json).collect()
}

const TRACE_ID: [u8; 16] = [0x4b, 0xf9, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xfa];

/// Six events on two threads and of two providers, with labels, stacks and messages. Event n is n *
/// 10 microseconds after the start.
fn trace() -> Vec<u8> {
    let sold = EventType::new(1, "Shop-Till", 7, "Sold")
        .optional_text(4, &["sold {count} {what}, {unknown}"])
        .optional_text(5, &["a sale"])
        .optional(&[8, 3])
        .field("count", &[9])
        .field("what", &[19, 4]);
    let idle = EventType::new(2, "Shop-Door", 1, "Idle").optional(&[8, 5]);
    let sum =
        EventType::new(3, "Shop-Till", 8, "SumStart").optional(&[8, 17]).field("list", &[19, 6]);
    let sale = |count: i32, what: &str| {
        let mut payload = count.to_le_bytes().to_vec();
        payload.extend((what.len() as u16).to_le_bytes());
        payload.extend(what.encode_utf16().flat_map(u16::to_le_bytes));
        payload
    };
    let text_label = |key: &str, value: &str| {
        let mut label = vec![5];
        string(&mut label, key);
        string(&mut label, value);
        label
    };
    let mut number = vec![6];
    string(&mut number, "shelf");
    varint(&mut number, -3);
    let lists: [&[Vec<u8>]; 2] = [
        &[
            [&[1][..], &[0xAB; 16]].concat(),
            [&[3][..], &TRACE_ID].concat(),
            [&[4][..], &0x8000_0000_0000_000A_u64.to_le_bytes()].concat(),
            text_label("region", "north"),
            text_label("region", "south"),
            number,
        ],
        &[vec![9, 2], vec![7, 1]],
    ];
    let mut rows = vec![
        Row::new(5, 1, 1010).payload(&sale(3, "tea")).labels(1),
        Row::new(5, 2, 1020).metadata(2),
        Row::new(5, 4, 1030).payload(&sale(-1, "a\n\"b\"")).labels(2),
    ];
    rows[0].stack = 1;
    rows[0].processor = 300;
    let others = [
        Row::new(6, 1, 1040).metadata(3).payload(&[2, 0, 7, 9]),
        Row::new(6, 2, 1050).metadata(2).sorted(),
        Row::new(6, 3, 1060).payload(&[1, 0]),
    ];
    let mut stream = Stream::new();
    stream.thread(5).thread(6).metadata(&sold).metadata(&idle).metadata(&sum);
    stream.stacks(1, &[&[0x1234, 0xFFFF_8000_0000_0001]]).label_lists(1, &lists);
    stream.events(&rows).events(&others).end()
}

#[test]
fn every_key() {
    let events =
        events(&["--show", "capture-thread,number,sorted,stack,description,payload"], &trace());
    let expected = json!({
        "time": "2026-03-04T05:06:07.089010000Z",
        "since_start_ns": 10_000,
        "ticks": 1010,
        "provider": "Shop-Till",
        "name": "Sold",
        "id": 7,
        "version": 0,
        "level": "Warning",
        "keywords": 0,
        "opcode": 0,
        "process": 77,
        "thread": 1005,
        "thread_index": 5,
        "thread_name": "worker 5",
        "cpu": 300,
        "payload_bytes": 12,
        "capture_thread": 1005,
        "capture_thread_index": 5,
        "number": 1,
        "is_sorted": false,
        "stack": ["0x1234", "0xffff800000000001"],
        "description": "a sale",
        "payload": "030000000300740065006100",
        "message": "sold 3 tea, {unknown}",
        "labels": {
            "ActivityId": "abababab-abab-abab-abab-abababababab",
            "TraceId": "4bf902030405060708090a0b0c0d0efa",
            "SpanId": "800000000000000a",
            "region": "north",
            "region#2": "south",
            "shelf": -3,
        },
        "fields": { "count": 3, "what": "tea" },
    });
    assert_eq!(events[0], expected);
    assert_eq!(events[0].as_object().unwrap().len(), expected.as_object().unwrap().len());
    assert_eq!(events.len(), 6);
    // A label overrides what the type states. The label is shown as well.
    assert_eq!((&events[2]["level"], &events[2]["opcode"]), (&json!("Error"), &json!(1)));
    assert_eq!(events[2]["labels"], json!({ "Level": 2, "OpCode": 1 }));
    assert_eq!(events[2]["number"], 4);
    assert_eq!(events[3]["level"], "17");
    assert_eq!(events[3]["fields"], json!({ "list": [7, 9] }));
    assert_eq!((&events[3]["stack"], &events[3]["description"]), (&Value::Null, &Value::Null));
    assert_eq!(events[4]["is_sorted"], true);
    // A payload ends within a field. The error says where.
    assert_eq!(events[5]["fields"], json!({ "count": null, "what": null }));
    assert_eq!(events[5]["message"], "sold {count} {what}, {unknown}");
    let error = events[5]["fields_error"].as_str().unwrap();
    assert!(error.starts_with("at byte ") && error.contains("payload"), "{error}");
}

#[test]
fn text() {
    let output = nettrace(&["dump", "-"], &trace());
    let lines: Vec<_> = stdout(&output).lines().collect();
    let expected = [
        "2026-03-04T05:06:07.089010000Z   0.000010000 s WARN  [worker 5 1005] \
         Shop-Till/Sold [800000000000000a]: sold 3 tea, {unknown} {region=\"north\"} \
         {region=\"south\"} {shelf=-3}",
        "2026-03-04T05:06:07.089020000Z   0.000020000 s DEBUG [worker 5 1005] \
         Shop-Door/Idle",
        "2026-03-04T05:06:07.089030000Z   0.000030000 s ERROR [worker 5 1005] \
         Shop-Till/Sold/Start: sold -1 a\\n\"b\", {unknown} \
         {Level=2} {OpCode=1}",
        "2026-03-04T05:06:07.089040000Z   0.000040000 s 17    [worker 6 1006] \
         Shop-Till/SumStart list=0x0709",
        "2026-03-04T05:06:07.089050000Z   0.000050000 s DEBUG [worker 6 1006] \
         Shop-Door/Idle",
    ];
    assert_eq!(lines[..5], expected);
    assert!(lines[5].contains("Shop-Till/Sold: sold {count} {what}, {unknown} (the next field "));
    assert_eq!(lines.len(), 6);
    let said = stderr(&output);
    let summary = "# events=6 shown=6 lost=1 payload_bytes=34 payload_errors=1 unsorted=0 \
        pointer_bytes=8 start=2026-03-04T05:06:07.0890000Z last_event_ns=60000 read_ms=";
    assert!(said.starts_with(summary) && said.lines().count() == 1, "{said}");
    let shown = "capture-thread,number,sorted,stack,description,payload";
    let output = nettrace(&["dump", "-", "--show", shown], &trace());
    let lines: Vec<_> = stdout(&output).lines().collect();
    let extras = " {shelf=-3} captured by [worker 5 1005] number 1 \
        stack: 0x1234 0xffff800000000001 description: a sale payload: 0x030000000300740065006100";
    assert!(lines[0].ends_with(extras), "{}", lines[0]);
    assert!(lines[4].ends_with("Idle captured by [worker 6 1006] number 2 sorted payload: 0x"));
    let output = nettrace(&["dump", "-", "--show", "ids", "--head", "1"], &trace());
    let ids = "[800000000000000a]: sold 3 tea, {unknown} \
        {ActivityId=abababab-abab-abab-abab-abababababab} \
        {TraceId=4bf902030405060708090a0b0c0d0efa} {SpanId=800000000000000a} {region=";
    assert!(stdout(&output).contains(ids), "{}", stdout(&output));
}

#[test]
fn filters() {
    let trace = trace();
    for (args, shown) in [
        (&["--provider", "Shop-Door"][..], &[2, 5][..]),
        (&["--provider", "Shop-*"], &[1, 2, 3, 4, 5, 6]),
        (&["--provider", "shop-door"], &[2, 5]),
        (&["--provider", "Shop-D*", "--provider", "Shop-Till"], &[1, 2, 3, 4, 5, 6]),
        (&["--event", "Sold"], &[1, 3, 6]),
        (&["--event", "S*", "--provider", "Shop-*"], &[1, 3, 4, 6]),
        (&["--thread", "1006"], &[4, 5, 6]),
        (&["--thread", "#5"], &[1, 2, 3]),
        (&["--thread", "worker 6", "--event", "Idle"], &[5]),
        (&["--thread", "worker*"], &[1, 2, 3, 4, 5, 6]),
        (&["--from", "0.00003"], &[3, 4, 5, 6]),
        (&["--from", "20us", "--to", "0.04ms"], &[2, 3, 4]),
        (&["--to", "2026-03-04T06:06:07.08903+01:00"], &[1, 2, 3]),
        (&["--from", "2026-03-04T05:06:07.089030001Z"], &[4, 5, 6]),
        (&["--level", "warning"], &[1, 3, 6]),
        (&["--level", "2"], &[3]),
        (&["--level", "verbose"], &[1, 2, 3, 5, 6]),
        (&["--where", "count=3"], &[1]),
        (&["--where", "count!=3"], &[3]),
        (&["--where", "count<0"], &[3]),
        (&["--where", "count < 0"], &[3]),
        (&["--where", "what~e"], &[1]),
        (&["--where", "list=9"], &[4]),
        (&["--where", "region=south"], &[1]),
        (&["--where", "region#2=south"], &[1]),
        (&["--where", "region#2=north"], &[]),
        (&["--where", "region=north", "--where", "count>=3"], &[1]),
        (&["--where", "region=north", "--where", "count>3"], &[]),
        (&["--where", "TraceId=4bf902030405060708090a0b0c0d0efa"], &[1]),
        (&["--where", "SpanId=800000000000000A"], &[1]),
        (&["--where", "ActivityId=abababab-abab-abab-abab-abababababab"], &[1]),
        (&["--where", "shelf<=-3"], &[1]),
        (&["--where", "Level=2"], &[3]),
        (&["--head", "2"], &[1, 2]),
        (&["--head", "0"], &[]),
        (&["--head", "9"], &[1, 2, 3, 4, 5, 6]),
        (&["--tail", "2"], &[5, 6]),
        (&["--tail", "0"], &[]),
        (&["--tail", "9"], &[1, 2, 3, 4, 5, 6]),
        (&["--event", "Sold", "--head", "2"], &[1, 3]),
        (&["--event", "Sold", "--tail", "2"], &[3, 6]),
    ] {
        let expected: Vec<_> = shown.iter().map(|event| 1000 + event * 10).collect();
        let found: Vec<_> =
            events(args, &trace).iter().map(|event| event["ticks"].as_u64().unwrap()).collect();
        assert_eq!(found, expected, "{args:?}");
        let output = nettrace(&[&["headers", "-"], args].concat(), &trace);
        assert_eq!(stdout(&output).lines().count(), expected.len(), "{args:?}");
        let summary = format!(" shown={} ", expected.len());
        assert!(stderr(&output).contains(&summary), "{args:?}: {}", stderr(&output));
    }
    // What `--tail` leaves out is said.
    for (args, says) in [
        (&["--tail", "2"][..], " (the last 2 of 6: --tail)\n"),
        (&["--event", "Sold", "--tail", "0"], " (the last 0 of 3: --tail)\n"),
    ] {
        for command in ["dump", "headers"] {
            let output = nettrace(&[&[command, "-"], args].concat(), &trace);
            assert!(stderr(&output).ends_with(says), "{}", stderr(&output));
        }
    }
    let output = nettrace(&["dump", "-", "--tail", "6"], &trace);
    assert!(!stderr(&output).contains("--tail"), "{}", stderr(&output));
}

/// An id from a log or a header finds the events: by a filter, and by a search in any output.
#[test]
fn ids_have_one_spelling() {
    let trace = trace();
    let (trace_id, span_id) = ("4bf902030405060708090a0b0c0d0efa", "800000000000000a");
    let header = format!("00-{trace_id}-{span_id}-01");
    let of_header: Vec<_> = header.split('-').collect();
    for args in [&["dump", "-", "--show", "ids"][..], &["dump", "-", "--json"]] {
        let all = nettrace(args, &trace);
        for (label, id) in [("TraceId", of_header[1]), ("SpanId", of_header[2])] {
            let lines: Vec<_> = stdout(&all).lines().filter(|line| line.contains(id)).collect();
            assert_eq!(lines.len(), 1, "{id}: {}", stdout(&all));
            for id in [id.to_owned(), id.to_uppercase()] {
                let condition = format!("{label}={id}");
                let found = nettrace(&[args, &["--where", &condition]].concat(), &trace);
                assert_eq!(stdout(&found).lines().collect::<Vec<_>>(), lines, "{condition}");
            }
        }
    }
}

#[test]
fn what_matched_nothing_is_said() {
    for (args, says) in [
        (
            &["--provider", "Shop"][..],
            "of 6 events, none is of provider Shop (is `Shop-Door` meant?); there are Shop-Door, \
             Shop-Till",
        ),
        (&["--provider", "Shop-Tlil"], "none is of provider Shop-Tlil (is `Shop-Till` meant?); "),
        (
            &["--provider", "Shop-Door", "--event", "Sold"],
            "of 2 events that the other filters let through, none is of event Sold; there are Idle",
        ),
        (&["--thread", "5"], "none is of thread 5: give an id, #INDEX or a name"),
        (&["--from", "1"], "none is between --from and --to"),
        (&["--event", "Idle", "--level", "4"], "none has level Informational or a more severe one"),
        (
            &["--where", "cuont=3"],
            "of 6 events, none has a field or label named cuont (is `count` meant?); there are ",
        ),
        (&["--where", "nothing=3"], " label named nothing; there are "),
        (&["--where", "cout=3", "--thread", "#5"], " count, "),
        (&["--where", "cout=3", "--thread", "#5"], " shelf, "),
        (&["--where", "cout=3", "--event", "SumStart"], " named cout; there are list"),
        (&["--level", "debug", "--event", "Sdol"], "none is of event Sdol; there are "),
        (&["--where", "count=4"], "of 6 events, none has count=4"),
    ] {
        for command in [&["dump"][..], &["dump", "--json"], &["headers"]] {
            let output = nettrace(&[command, args, &["-"]].concat(), &trace());
            assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""), "{args:?}");
            let said = stderr(&output);
            let last = said.lines().last().unwrap();
            assert!(last.starts_with("no event was shown: ") && last.contains(says), "{said}");
        }
    }
    // The filter is not to blame if the trace has no events.
    let output = nettrace(&["dump", "-", "--event", "x"], &Stream::new().end());
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn wrong_filters_are_explained() {
    for (args, says) in [
        (["--where", "count"], "character 6: an operator is missing; write FIELD=VALUE"),
        (["--where", "duration>"], "character 10: a value is missing behind `>`"),
        (["--grep", ""], "every event contains an empty text"),
        (["--from", "yesterday"], "write seconds since the start of the trace (1.5)"),
        (["--level", "loud"], "write critical (crit), error, warning (warn), informational (info)"),
        (["--level", "debgu"], "verbose (debug, trace)"),
        (["--thread", "#x"], "write a number behind #"),
        (["--provider", "*Till"], "a * can only stand at the end"),
        (["--show", "frames"], "stack"),
    ] {
        let output = nettrace(&[&["dump", "-"], &args[..]].concat(), &trace());
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{args:?}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    let output = nettrace(&["dump", "-", "--head", "1", "--tail", "1"], &trace());
    assert_eq!(output.status.code(), Some(2));
    let help = nettrace(&["dump", "--help"], b"");
    for option in ["--where", "--head", "--tail", "--from", "--to", "--level", "--show"] {
        assert!(stdout(&help).contains(option), "{option}");
    }
}

/// The first events are shown before the trace is complete.
#[test]
fn head_does_not_read_on() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let rows: Vec<_> = (1..100).map(|i| Row::new(5, i, 1000 + u64::from(i)).sorted()).collect();
    stream.events(&rows);
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(["headers", "-", "--head", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Neither the stream nor the pipe has ended.
    std::io::Write::write_all(&mut stdin, &stream.bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).lines().count(), 3);
    assert!(stderr(&output).contains("shown=3 ") && stderr(&output).contains("--head"));
    drop(stdin);
}

/// Values that JSON or the reference cannot express.
#[test]
fn values_at_the_edge() {
    let shown = EventType::new(1, "Test", 1, "E")
        .field("utf8", &[19, 23])
        .field("time", &[16])
        .field("unit", &[23])
        .field("half", &[4])
        .field("f", &[13])
        .field("g", &[14])
        .field("u", &[12])
        .field("i", &[11])
        .field("twice", &[6])
        .field("twice", &[6]);
    let mut payload = vec![3, 0, b'h', 0xC3, 0xA9];
    payload.extend([2026_u16, 11, 6, 21, 1, 2, 3, 4].iter().flat_map(|part| part.to_le_bytes()));
    payload.extend([0xE9, 0x00, 0xD8]);
    payload.extend(f32::NEG_INFINITY.to_le_bytes());
    payload.extend(f64::NAN.to_le_bytes());
    payload.extend(u64::MAX.to_le_bytes());
    payload.extend(i64::MIN.to_le_bytes());
    payload.extend([1, 2]);
    let rows = [Row::new(5, 1, 1000).payload(&payload)];
    let trace = Stream::new().thread(5).metadata(&shown).events(&rows).end();
    let output = nettrace(&["dump", "--json", "-"], &trace);
    assert_eq!(
        strict_json(stdout(&output).trim_end())["fields"],
        json!({
            "utf8": "hé", "time": "2026-11-21T01:02:03.0040000Z", "unit": 0xE9, "half": 0xD800,
            "f": "-Infinity", "g": "NaN", "u": u64::MAX, "i": i64::MIN, "twice": 1, "twice#2": 2,
        })
    );
    let output = nettrace(&["dump", "-"], &trace);
    let fields = "utf8=\"hé\" time=2026-11-21T01:02:03.0040000Z unit=0xe9 half=0xd800 f=-Infinity \
        g=NaN u=18446744073709551615 i=-9223372036854775808 twice=1 twice#2=2\n";
    assert!(stdout(&output).ends_with(fields), "{}", stdout(&output));
}

/// A payload of an older version of the type ends before the last fields.
#[test]
fn absent_fields_are_null() {
    let short = EventType::new(1, "Test", 2, "Short")
        .field("whole", &[6])
        .field("short", &[12])
        .field("absent", &[12]);
    let rows = [Row::new(5, 1, 1000).payload(&[7]), Row::new(5, 2, 1001).payload(&[7, 1])];
    let trace = Stream::new().thread(5).metadata(&short).events(&rows).end();
    let events = events(&[], &trace);
    let fields = json!({ "whole": 7, "short": null, "absent": null });
    assert_eq!((&events[0]["fields"], &events[1]["fields"]), (&fields, &fields));
    assert!(events[0].get("fields_error").is_none() && events[1].get("fields_error").is_some());
}

#[test]
fn messages_are_filled_in() {
    let events = events(&[], &samples::messages());
    let messages: Vec<_> = events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    let expected = ["n is 42, text is hällo, f is 0.1", "n is %1, text is %2 %3 %4", "nothing", ""];
    assert_eq!(messages, expected);
}

/// Losses, ids and processors keep all their bits.
#[test]
fn numbers_do_not_wrap() {
    let output = nettrace(&["dump", "--json", "-"], &samples::losses());
    assert!(stderr(&output).contains(" lost=4294967400 "), "{}", stderr(&output));
    let info = nettrace(&["info", "--json", "-"], &samples::losses());
    assert_eq!(strict_json(stdout(&info).trim_end())["lost"], 4_294_967_400_u64);
    let mut row = Row::new(5, 1, u64::MAX);
    row.processor = u32::MAX - 1;
    let trace =
        Stream::new().thread(5).simple_metadata(70_000).events(&[row.metadata(70_000)]).end();
    let event = &events(&[], &trace)[0];
    assert_eq!(event["ticks"], u64::MAX);
    assert_eq!(event["cpu"], u32::MAX - 1);
    assert_eq!(event["id"], 70_000);
    // The time is 18446744073709550615 microseconds, which no calendar date can express.
    assert_eq!(event["time"], Value::Null);
    let text = nettrace(&["dump", "--json", "-"], &trace);
    assert!(stdout(&text).contains("\"since_start_ns\":18446744073709550615000,"));
}

/// The same filter finds an activity in every version of the format.
#[test]
fn activities_of_version_4() {
    let trace = v5_samples::activities();
    let all = events(&[], &trace);
    let with: Vec<_> =
        all.iter().filter(|event| event["labels"]["ActivityId"].is_string()).collect();
    assert!(!with.is_empty());
    let id = with[0]["labels"]["ActivityId"].as_str().unwrap();
    let found = events(&["--where", &format!("ActivityId={id}")], &trace);
    let expected: Vec<_> =
        all.iter().filter(|event| event["labels"]["ActivityId"] == id).cloned().collect();
    assert_eq!(found, expected);
    let upper = events(&["--where", &format!("ActivityId={}", id.to_uppercase())], &trace);
    assert_eq!(upper, expected);
}

/// The values of an object, by the names of object and member.
#[test]
fn conditions_lead_into_objects() {
    // An object with two fields: a number and a text.
    let mut fields = vec![1, 2, 0];
    for (name, code) in [("n", 6), ("t", 18)] {
        let mut field = Vec::new();
        string(&mut field, name);
        field.push(code);
        fields.extend((field.len() as u16).to_le_bytes());
        fields.extend(field);
    }
    let event = EventType::new(1, "Test", 1, "E").field("o", &fields);
    let payload = |n: u8, t: &str| [&[n][..], &utf16z(t)].concat();
    let rows = [
        Row::new(5, 1, 1000).payload(&payload(1, "one")),
        Row::new(5, 2, 1001).payload(&payload(2, "two")),
    ];
    let trace = Stream::new().thread(5).metadata(&event).events(&rows).end();
    let found = events(&["--where", "o.t=two"], &trace);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["fields"], json!({ "o": { "n": 2, "t": "two" } }));
    assert_eq!(events(&["--where", "o.n<2"], &trace).len(), 1);
}

/// A trace of one event. The writer makes its metadata, and the caller gives the payload.
fn described(fields: &'static [FieldSchema], payload: &[u8]) -> Vec<u8> {
    let schema = EventSchema {
        provider: ProviderSchema { name: "Shop", guid: None, group: None },
        name: "E",
        id: 7,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: None,
        tag: 0,
        message: Some("{took} {none}"),
        description: None,
        key_values: &[("other", "key")],
        fields,
    };
    let mut row = Vec::new();
    v6::metadata_row(1, &schema, &mut row).unwrap();
    let mut trace = Stream::new();
    trace.thread(5).block(testkit::streams::METADATA, &[&[0, 0][..], &row].concat());
    trace.events(&[Row::new(5, 1, 1000).payload(payload)]).end()
}

/// Options, durations and times are shown as such at every place.
#[test]
fn rust_types() {
    const SPAN: FieldType = FieldType::Object(&[
        FieldSchema::new("at", FieldType::UnixNanos),
        FieldSchema::new("maybe", FieldType::Option(&FieldType::DurationNanos)),
    ]);
    const BYTES: FieldType = FieldType::Array(&FieldType::U8, ArrayLayout::Counted);
    const OPTION: FieldType = FieldType::Option(&FieldType::U16);
    const FIELDS: &[FieldSchema] = &[
        FieldSchema::new("took", FieldType::DurationNanos),
        FieldSchema::new("nanos", FieldType::U64),
        FieldSchema::new("some", FieldType::Option(&FieldType::U32)),
        FieldSchema::new("none", FieldType::Option(&FieldType::U32)),
        FieldSchema::new("byte", FieldType::Option(&FieldType::U8)),
        FieldSchema::new("list", FieldType::Option(&BYTES)),
        FieldSchema::new("spans", FieldType::Array(&SPAN, ArrayLayout::Counted)),
        FieldSchema::new("nested", FieldType::Option(&OPTION)),
        FieldSchema::new("options", FieldType::Array(&OPTION, ArrayLayout::Counted)),
        FieldSchema::new("plain", FieldType::Array(&FieldType::U16, ArrayLayout::Counted)),
    ];
    let mut payload = Vec::new();
    payload.extend(1_500_000_u64.to_le_bytes());
    payload.extend(1_500_000_u64.to_le_bytes());
    payload.extend([1, 0, 3, 0, 0, 0]);
    payload.extend([0, 0]);
    payload.extend([1, 0, 9]);
    payload.extend([1, 0, 2, 0, 7, 8]);
    payload.extend([2, 0]);
    payload.extend(1_000_000_001_i64.to_le_bytes());
    payload.extend([1, 0]);
    payload.extend(2_u64.to_le_bytes());
    payload.extend((-1_i64).to_le_bytes());
    payload.extend([0, 0]);
    payload.extend([1, 0, 1, 0, 5, 0]);
    payload.extend([2, 0, 0, 0, 1, 0, 6, 0]);
    payload.extend([1, 0, 4, 0]);
    let trace = described(FIELDS, &payload);

    let output = nettrace(&["dump", "-"], &trace);
    let line = stdout(&output).to_owned();
    for shown in [
        "E: 1.5ms none nanos=1500000 some=3 byte=9 list=0x0708 ",
        " spans=[(at=1970-01-01T00:00:01.000000001Z maybe=2ns), \
            (at=1969-12-31T23:59:59.999999999Z maybe=none)]",
        " nested=[5] options=[none, 6] plain=[4]\n",
    ] {
        assert!(line.contains(shown), "{shown}\n{line}");
    }
    let shown = &events(&[], &trace)[0];
    assert_eq!(
        shown["fields"],
        json!({
            "took": 1_500_000,
            "nanos": 1_500_000,
            "some": 3,
            "none": null,
            "byte": 9,
            "list": [7, 8],
            "spans": [
                { "at": "1970-01-01T00:00:01.000000001Z", "maybe": 2 },
                { "at": "1969-12-31T23:59:59.999999999Z", "maybe": null },
            ],
            "nested": [5],
            "options": [null, 6],
            "plain": [4],
        })
    );
    assert_eq!(shown["message"], "1.5ms none");
    for (condition, found) in [
        ("took=1.5ms", 1),
        ("took<1ms", 0),
        ("some=3", 1),
        ("spans.at>1970-01-01T00:00:01Z", 1),
        ("spans.at>1970-01-01T00:00:02Z", 0),
    ] {
        assert_eq!(events(&["--where", condition], &trace).len(), found, "{condition}");
    }
}

/// A key-value that does not fit its field's type is ignored.
#[test]
fn wrong_rust_types() {
    let mut event = EventType::new(1, "Test", 1, "E").field("a", &[10]).field("b", &[19, 8]);
    for (key, value) in [("a", "Duration"), ("b", "Option<[Option<_>]>"), ("b", "SystemTime")] {
        event = event.optional_text(6, &[&format!("nettrace.type.{key}"), value]);
    }
    let rows = [Row::new(5, 1, 1000).payload(&[1, 0, 0, 0, 2, 0, 3, 0, 4, 0])];
    let trace = Stream::new().thread(5).metadata(&event).events(&rows).end();
    assert_eq!(events(&[], &trace)[0]["fields"], json!({ "a": 1, "b": [3, 4] }));
}

/// An option whose value is an option without one is not none.
#[test]
fn options_of_options() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Dump-Options")]
    struct Limits {
        none: Option<Option<u8>>,
        unlimited: Option<Option<u8>>,
        seven: Option<Option<u8>>,
        all: Vec<Option<Option<u8>>>,
    }
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Dump-Options").start().unwrap();
    let all = vec![None, Some(None), Some(Some(7))];
    Limits { none: None, unlimited: Some(None), seven: Some(Some(7)), all }.emit();
    session.finish().unwrap();
    let fields = &events(&[], &memory.bytes())[0]["fields"];
    let all = json!([null, [null], [7]]);
    assert_eq!(fields, &json!({"none": null, "unlimited": [null], "seven": [7], "all": all}));
    let text = nettrace(&["dump", "-"], &memory.bytes());
    let fields = "unlimited=[none] seven=[7] all=[none, [none], [7]]";
    assert!(stdout(&text).contains(fields), "{}", stdout(&text));
}
