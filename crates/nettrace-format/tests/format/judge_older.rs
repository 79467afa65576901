//! The reference readers accept whole files of versions 4 and 5 with every kind of object.

use std::iter;

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, Level, ProviderSchema,
};
use nettrace_format::{
    payload::MAX_PAYLOAD,
    v5::{Row, Stream, Version},
};
use serde_json::{Value, json};
use testkit::effort::left_out;

use crate::support::{
    OS_THREAD_ID, PROCESS_ID, TICKS_PER_SECOND, Verdict, dotnet_trace_opens, field, judge_events,
    older_event_block, older_row, older_start, schema, trace_info,
};

const BOTH: [Version; 2] = [Version::V4, Version::V5];
const ONE: &[FieldSchema] = &[field("v", Type::U32)];
const ONE_TYPE: EventSchema = schema(1, "One", ONE);

/// A file with one event type, metadata id 1.
fn one_type(version: Version) -> (Stream, Vec<u8>) {
    let (mut stream, mut out) = older_start(version);
    stream.metadata(&[(1, &ONE_TYPE)], &mut out).unwrap();
    (stream, out)
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn row(sequence: u32) -> Row {
    older_row(1, sequence, &value(0))
}

fn judged(mut out: Vec<u8>) -> Option<Verdict> {
    out.extend_from_slice(&Stream::END_OF_STREAM);
    judge_events(&out)
}

fn all(verdict: &Verdict, key: &str) -> Vec<Value> {
    verdict.events.iter().map(|event| event[key].clone()).collect()
}

#[test]
fn empty_trace() {
    for version in BOTH {
        let Some(verdict) = judged(older_start(version).1) else { return };
        let summary = &verdict.assert_clean().summary;
        assert!(summary.contains("events=0 "), "{summary}");
        assert!(summary.contains("ptr=8 cpus=2 "), "{summary}");
        assert!(summary.contains("start=2024-02-29T12:34:56.789"), "{summary}");
    }
}

/// Readers refuse a stream without its end, and ignore bytes after the end.
#[test]
fn the_end() {
    for version in BOTH {
        let (mut stream, mut out) = one_type(version);
        older_event_block(&mut stream, &[(row(1), value(7))], &mut out);
        let Some(verdict) = judge_events(&out) else { return };
        assert!(!verdict.accepted, "{verdict:?}");
        out.extend_from_slice(&Stream::END_OF_STREAM);
        out.extend_from_slice(&[5, 5, 1, 9, 9, 9]);
        let verdict = judge_events(&out).unwrap();
        assert_eq!(verdict.assert_clean().events.len(), 1);
        dotnet_trace_opens(&out);
    }
}

#[test]
fn descriptions_of_types() {
    const GUID: [u8; 16] = [1; 16];
    const FULL: EventSchema = EventSchema {
        provider: ProviderSchema { name: "Test-Überall", guid: Some(GUID), group: None },
        version: 3,
        level: Level::Verbose,
        keywords: 0x8000_0000_0000_0001,
        opcode: Some(9),
        message: Some("value is {v}"),
        description: Some("never seen"),
        key_values: &[("team", "a")],
        ..schema(7, "Voll 🎈", ONE)
    };
    // With an array, the fields are described in a tag, after the tag of the opcode.
    const TAGGED: EventSchema = EventSchema {
        opcode: Some(10),
        ..schema(8, "Tagged", &[field("v", Type::Array(&Type::U16, Layout::Counted))])
    };
    const DERIVED: EventSchema = EventSchema { opcode: None, ..schema(9, "WorkStart", ONE) };
    const ZERO: EventSchema = schema(10, "WorkStop", ONE);
    const EMPTY: EventSchema = schema(11, "Empty", &[]);
    for version in BOTH {
        let (mut stream, mut out) = older_start(version);
        let types = [(1, &FULL), (2, &TAGGED), (3, &DERIVED), (4, &ZERO), (5, &EMPTY)];
        stream.metadata(&types, &mut out).unwrap();
        let list = match version {
            Version::V4 => "[5]\0".encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Version::V5 => vec![1, 0, 5, 0],
        };
        let payloads = [value(5), list, value(5), value(5), vec![]];
        let rows: Vec<_> = (1..)
            .zip(payloads)
            .map(|(id, payload)| (older_row(id, id, &payload), payload))
            .collect();
        older_event_block(&mut stream, &rows, &mut out);
        out.extend_from_slice(&Stream::END_OF_STREAM);
        let Some(verdict) = judge_events(&out) else { return };
        let event = &verdict.assert_clean().events[0];
        let shown = json!({
            "provider": "Test-Überall", "id": 7, "version": 3, "level": 5,
            "keywords": 0x8000_0000_0000_0001_u64, "process": PROCESS_ID, "thread": OS_THREAD_ID,
            "cpu": 0, "ticks": 1_010, "payload_bytes": 4, "fields": {"v": 5},
        });
        for (key, value) in shown.as_object().unwrap() {
            assert_eq!(event[key], *value, "{key}: {event}");
        }
        // Version 4 stores no opcode, so readers derive one from the name.
        let (opcodes, names, list) = match version {
            Version::V4 => {
                let names = ["Voll 🎈", "Tagged", "Work/Start", "Work/Stop", "Empty"];
                ([0, 0, 1, 2, 0], names, json!("[5]"))
            }
            Version::V5 => {
                let names = ["Voll 🎈/Transfer", "Tagged/10", "Work/Start", "WorkStop", "Empty"];
                ([9, 10, 1, 0, 0], names, json!([5]))
            }
        };
        assert_eq!(all(&verdict, "opcode"), opcodes, "{version:?}");
        assert_eq!(all(&verdict, "name"), names, "{version:?}");
        assert_eq!(verdict.events[1]["fields"]["v"], list);
        dotnet_trace_opens(&out);
    }
}

#[test]
fn activities_stacks_and_threads() {
    const ACTIVITY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const ACTIVITY_TEXT: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    for version in BOTH {
        let (mut stream, mut out) = one_type(version);
        stream.stack_block(1, &[&[0x1000, u64::MAX], &[0x2000]], 8, &mut out).unwrap();
        let rows = [
            Row { activity: Some(ACTIVITY), related: Some([16; 16]), stack: 1, ..row(1) },
            Row { activity: Some(ACTIVITY), thread: 1 << 31, processor: 3, ..row(2) },
            Row { related: Some([16; 16]), stack: 2, processor: u32::MAX, ..row(3) },
            Row { processor: 255, ..row(4) },
        ];
        let rows = rows.map(|row| (row, value(0)));
        older_event_block(&mut stream, &rows, &mut out);
        // After a sequence point, stack ids can be used again.
        stream.sequence_point(2_000, &[(OS_THREAD_ID, 4), (99, 0)], &mut out).unwrap();
        stream.stack_block(1, &[&[0x3000]], 8, &mut out).unwrap();
        let late = Row { timestamp: 3_000, stack: 1, ..row(5) };
        older_event_block(&mut stream, &[(late, value(0))], &mut out);
        out.extend_from_slice(&Stream::END_OF_STREAM);
        let Some(verdict) = judge_events(&out) else { return };
        let verdict = verdict.assert_clean();
        let none = Value::Null;
        let id = json!(ACTIVITY_TEXT);
        assert_eq!(
            all(verdict, "activity"),
            [id.clone(), id, none.clone(), none.clone(), none.clone()]
        );
        let other = json!("10101010-1010-1010-1010-101010101010");
        assert_eq!(
            all(verdict, "related"),
            [other.clone(), none.clone(), other, none.clone(), none]
        );
        // Readers show the processor only if the thread is the capturing one.
        assert_eq!(all(verdict, "cpu"), [0, 0, 0, 255, 0]);
        assert_eq!(verdict.events[1]["thread"], json!(i32::MIN));
        dotnet_trace_opens(&out);
    }
}

/// A thread that dropped events: the gap and the final number show the loss, also across the wrap.
#[test]
fn losses_and_the_wrap() {
    let check = |numbers: &[u32], last: &[u32], lost: &str| {
        let (mut stream, mut out) = one_type(Version::V5);
        for (&number, index) in numbers.iter().zip(1..) {
            let row = Row { sequence: number, sorted: true, ..row(index) };
            older_event_block(&mut stream, &[(row, value(0))], &mut out);
        }
        for (&last, index) in last.iter().zip(1..) {
            stream.sequence_point(9_000 + index, &[(OS_THREAD_ID, last)], &mut out).unwrap();
        }
        let Some(verdict) = judged(out) else { return };
        assert!(verdict.accepted, "{verdict:?}");
        let lost = format!(" lost={lost} ");
        assert!(verdict.summary.contains(&lost), "{numbers:?} {last:?}: {}", verdict.summary);
    };
    check(&[1, 2, 3], &[3], "0");
    check(&[1, 2, 5], &[5], "2");
    check(&[1, 2, 3], &[7], "4");
    check(&[u32::MAX - 1, u32::MAX, 0, 1], &[1], "0");
    // Readers never notice losses before a thread's first event.
    check(&[4, 5], &[5], "0");
    // A thread that reuses another's id must continue its sequence numbers.
    check(&[1, 2, 3, 4, 5], &[5], "0");
    check(&[1, 2, 3, 1, 2], &[2], "2147483647");
    check(&[1, 2, 3], &[3, 0], "2147483647");
}

/// Two threads that take turns in the order of their blocks.
#[test]
fn several_threads() {
    for version in BOTH {
        let (mut stream, mut out) = one_type(version);
        for (thread, first, ts) in
            [(7, 1, 1_500), (8, 1, 1_100), (7, 3, 1_600), (1 << 40, 1, 1_200)]
        {
            let rows: Vec<_> = (0..2)
                .map(|index| {
                    let row = Row {
                        capture_thread: thread,
                        thread,
                        timestamp: ts + u64::from(index),
                        sorted: false,
                        ..row(first + index)
                    };
                    (row, value(index))
                })
                .collect();
            older_event_block(&mut stream, &rows, &mut out);
        }
        let threads = [(7, 4), (8, 2), (1 << 40, 2)];
        stream.sequence_point(2_000, &threads, &mut out).unwrap();
        let Some(verdict) = judged(out) else { return };
        let ticks = [1_100, 1_101, 1_200, 1_201, 1_500, 1_501, 1_600, 1_601];
        assert_eq!(all(verdict.assert_clean(), "ticks"), ticks);
    }
}

/// Rows as producers write them after a full first row: no flag differs from version 6.
#[test]
fn rows_recorded_for_version_6() {
    use nettrace_format::v6::{RowEncoder, RowHeader};
    for version in BOTH {
        let (mut stream, mut out) = one_type(version);
        let first = row(1);
        let mut rows = Vec::new();
        nettrace_format::v5::RowEncoder::new().full_row(&first, &mut rows);
        rows.extend(value(1));
        let mut recorded = RowEncoder::new();
        let header = RowHeader {
            metadata_id: 1,
            sequence: 1,
            timestamp: first.timestamp,
            payload_len: 4,
            ..RowHeader::default()
        };
        recorded.full_row(&header, &mut Vec::new());
        for number in 2..=4 {
            let timestamp = first.timestamp + u64::from(number);
            recorded.row(&RowHeader { sequence: number, timestamp, ..header }, &mut rows);
            rows.extend(value(number));
        }
        let tail = stream.event_block(1_010, 1_014, rows.len(), &mut out).unwrap();
        out.extend(rows);
        out.extend(tail);
        let Some(verdict) = judged(out) else { return };
        let shown = all(verdict.assert_clean(), "fields");
        assert_eq!(shown, (1..=4).map(|v| json!({"v": v})).collect::<Vec<_>>());
        assert_eq!(all(&verdict, "thread"), [OS_THREAD_ID; 4]);
    }
}

/// The largest blocks, and content that must be split into several.
#[test]
fn large_blocks() {
    if left_out() {
        return;
    }
    let (mut stream, mut out) = older_start(Version::V5);
    let name: &'static str = "x".repeat(60_000).leak();
    let schemas: Vec<_> = (1..=150)
        .map(|id| EventSchema {
            fields: vec![field(name, Type::U32)].leak(),
            ..schema(id, "Large", ONE)
        })
        .collect();
    let types: Vec<_> = (1..).zip(&*schemas.leak()).collect();
    stream.metadata(&types, &mut out).unwrap();
    assert!(out.len() > 16 << 20, "more than one block");
    let stack = [0x1000; 8_000];
    stream.stack_block(1, &[&stack[..]; 300], 8, &mut out).unwrap();

    let payload = vec![0; 65_000];
    let rows: Vec<_> = (1..=255)
        .map(|number| {
            let row = Row { stack: 300, ..older_row(150, number, &payload) };
            (row, payload.clone())
        })
        .collect();
    older_event_block(&mut stream, &rows, &mut out);
    let threads: Vec<_> =
        (0..100_000).map(|thread| (1 << 20 | thread, 1)).chain([(OS_THREAD_ID, 255)]).collect();
    stream.sequence_point(1_000_000, &threads, &mut out).unwrap();
    out.extend_from_slice(&Stream::END_OF_STREAM);
    let Some(verdict) = judge_events(&out) else { return };
    let events = &verdict.assert_clean().events;
    assert_eq!(events.len(), rows.len());
    assert_eq!(events[0]["id"], 150);
    assert_eq!(events[0]["fields"][name], 0);
    dotnet_trace_opens(&out);
}

/// More threads than the reader keeps. It shows all events, but forgets the number of the thread
/// that was silent longest, and does not notice the losses of that thread.
#[test]
fn many_threads() {
    for (others, lost) in [(4_999, " lost=3 "), (5_000, " lost=0 ")] {
        let (mut stream, mut out) = one_type(Version::V5);
        let numbers = iter::once((1, 1)).chain((0..others).map(|other| (2 + other, 1)));
        for ((thread, sequence), index) in numbers.chain([(1, 5)]).zip(1..) {
            let ids = Row { capture_thread: thread, thread, sequence, sorted: false, ..row(index) };
            older_event_block(&mut stream, &[(ids, value(0))], &mut out);
        }
        let Some(verdict) = judged(out) else { return };
        assert_eq!(verdict.events.len() as u64, others + 2);
        assert!(verdict.summary.contains(lost), "{others}: {}", verdict.summary);
    }
}

/// The largest payload, in an event with every optional part, survives the tool's own format.
#[test]
fn largest_payload() {
    const BYTES: &[FieldSchema] = &[field("v", Type::Array(&Type::U16, Layout::Counted))];
    const TYPE: EventSchema = schema(1, "Largest", BYTES);
    let count = (MAX_PAYLOAD - 2) / 2;
    let payload = [&(count as u16).to_le_bytes()[..], &vec![1; 2 * count]].concat();
    let (mut stream, mut out) = older_start(Version::V5);
    stream.metadata(&[(1, &TYPE)], &mut out).unwrap();
    stream.stack_block(1, &[&[0x1000; 100]], 8, &mut out).unwrap();
    let plain = older_row(1, 1, &payload);
    let full = Row { activity: Some([1; 16]), related: Some([2; 16]), stack: 1, ..plain };
    let rows = [(plain, payload.clone()), (Row { sequence: 2, ..full }, payload)];
    older_event_block(&mut stream, &rows, &mut out);
    out.extend_from_slice(&Stream::END_OF_STREAM);
    let Some(verdict) = judge_events(&out) else { return };
    assert_eq!(verdict.assert_clean().events[1]["fields"]["v"], json!(vec![0x0101; count]));
    dotnet_trace_opens(&out);
}

/// The clock and the sampling rate.
#[test]
fn times() {
    let mut stream = Stream::new(Version::V5);
    let mut out = vec![];
    let info = nettrace_format::content::TraceInfo {
        key_values: &[("ExpectedCPUSamplingRate", "1000000"), ("lost", "here")],
        ..trace_info()
    };
    stream.begin(&info, 1, 64, &mut out).unwrap();
    stream.metadata(&[(1, &ONE_TYPE)], &mut out).unwrap();
    let late = Row { timestamp: 1_000 + 5 * TICKS_PER_SECOND, ..row(1) };
    older_event_block(&mut stream, &[(late, value(0))], &mut out);
    let Some(verdict) = judged(out) else { return };
    assert_eq!(verdict.assert_clean().events[0]["ms"], 5_000);
    assert!(verdict.summary.contains(" cpus=64 "), "{}", verdict.summary);
}
