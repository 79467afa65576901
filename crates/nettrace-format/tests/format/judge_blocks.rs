//! The reference reader accepts whole files with every kind of block.

use nettrace_event::{EventSchema, FieldSchema, FieldType as Type, Level, ProviderSchema};
use nettrace_format::v6::{
    self, BlockKind, Label, RowEncoder, RowHeader, SequencePointFlags, ThreadInfo, ThreadSequence,
};
use serde_json::json;

use crate::support::{
    OS_THREAD_ID, PROCESS_ID, THREAD, TICKS_PER_SECOND, dotnet_trace_opens, event_block, field,
    header, judge_events, raw_block, schema, start,
};

const ONE: &[FieldSchema] = &[field("v", Type::U32)];

fn metadata(schemas: &[EventSchema], out: &mut Vec<u8>) {
    let mut rows = Vec::new();
    for (schema, id) in schemas.iter().zip(1..) {
        v6::metadata_row(id, schema, &mut rows).unwrap();
    }
    v6::metadata_block(&rows, out).unwrap();
}

/// A file with one event type, metadata row 1.
fn one_type() -> Vec<u8> {
    let mut out = start();
    metadata(&[schema(1, "One", ONE)], &mut out);
    out
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn finish(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&v6::END_OF_STREAM);
    out
}

#[test]
fn empty_trace() {
    let file = finish(start());
    let Some(verdict) = judge_events(&file) else { return };
    assert!(verdict.assert_clean().summary.contains("events=0 "));
    assert!(verdict.summary.contains("ptr=8 cpus=2 "), "{}", verdict.summary);
    assert!(verdict.summary.contains("start=2024-02-29T12:34:56.789"), "{}", verdict.summary);
}

#[test]
fn optional_metadata() {
    const FULL: EventSchema = EventSchema {
        provider: ProviderSchema {
            name: "Test-Guid",
            guid: Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
            group: None,
        },
        version: 3,
        level: Level::Verbose,
        keywords: 0x8000_0000_0000_0001,
        opcode: Some(9),
        message: Some("value is {v}"),
        description: Some("Überall 🎈"),
        key_values: &[("team", "a"), ("schlüssel", "")],
        ..schema(7, "Full", ONE)
    };
    let mut out = start();
    let plain = EventSchema { opcode: None, ..schema(8, "WorkStart", ONE) };
    let zero = schema(9, "WorkStop", ONE);
    metadata(&[FULL, plain, zero], &mut out);
    let rows: Vec<_> =
        (1..=3).map(|number| (header(number, number, &value(5)), value(5))).collect();
    event_block(&rows, &mut out);
    let file = finish(out);
    let Some(verdict) = judge_events(&file) else { return };
    let event = &verdict.assert_clean().events[0];
    let shown = json!({
        "provider": "Test-Guid", "name": "Full/Transfer", "id": 7, "version": 3, "level": 5,
        "keywords": 0x8000_0000_0000_0001_u64, "opcode": 9, "process": PROCESS_ID,
        "thread": OS_THREAD_ID, "cpu": 0, "ticks": 1_010, "payload_bytes": 4, "fields": {"v": 5},
    });
    for (key, value) in shown.as_object().unwrap() {
        assert_eq!(event[key], *value, "{key}: {event}");
    }
    // Without an opcode the reader derives one from the name; with opcode 0 it does not.
    assert_eq!(verdict.events[1]["opcode"], 1);
    assert_eq!(verdict.events[1]["name"], "Work/Start");
    assert_eq!(verdict.events[2]["opcode"], 0);
    dotnet_trace_opens(&file);
}

#[test]
fn every_label() {
    const GUID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const OTHER: [u8; 16] = [16; 16];
    let all = [
        Label::ActivityId(GUID),
        Label::RelatedActivityId(OTHER),
        Label::TraceId(GUID),
        Label::SpanId(0x0102_0304_0506_0708),
        Label::Str("schlüssel", "🎈"),
        Label::Int("number", i64::MIN),
        Label::OpCode(5),
        Label::Keywords(1 << 63),
        Label::Level(2),
        Label::Version(8),
    ];
    let mut out = one_type();
    v6::label_list_block(1, &[&all, &[Label::Int("only", -1)]], &mut out).unwrap();
    let rows: Vec<_> = [1, 2, 0]
        .into_iter()
        .zip(1..)
        .map(|(labels, number)| (RowHeader { labels, ..header(1, number, &value(0)) }, value(0)))
        .collect();
    event_block(&rows, &mut out);
    let file = finish(out);
    let Some(verdict) = judge_events(&file) else { return };
    let [first, second, third] = &verdict.assert_clean().events[..] else { panic!("{verdict:?}") };
    assert_eq!(first["activity"], "00010203-0405-0607-0809-0a0b0c0d0e0f");
    assert_eq!(first["related"], "10101010-1010-1010-1010-101010101010");
    assert_eq!(first["opcode"], 5);
    assert_eq!(first["keywords"], 1_u64 << 63);
    assert_eq!(first["level"], 2);
    assert_eq!(first["version"], 8);
    let labels = first["labels"].to_string();
    for part in [r#"["schlüssel","🎈"]"#, r#"["number",-9223372036854775808]"#] {
        assert!(labels.contains(part), "{part} in {labels}");
    }
    assert!(
        labels.contains("72623859790382856") || labels.contains("0102030405060708"),
        "{labels}"
    );
    assert_eq!(second["labels"], json!([["only", -1]]));
    assert_eq!(second["level"], 4);
    assert!(third.get("labels").is_none(), "{third}");
}

/// The labels that `dotnet-trace` accepts. It refuses a file with any of the four overrides.
#[test]
fn portable_labels() {
    let mut out = one_type();
    let labels = [
        Label::ActivityId([1; 16]),
        Label::RelatedActivityId([2; 16]),
        Label::TraceId([3; 16]),
        Label::SpanId(4),
        Label::Str("k", "v"),
        Label::Int("n", 5),
    ];
    v6::label_list_block(7, &[&labels], &mut out).unwrap();
    let row = RowHeader { labels: 7, ..header(1, 1, &value(0)) };
    event_block(&[(row, value(0))], &mut out);
    dotnet_trace_opens(&finish(out));
}

#[test]
fn stacks_and_threads() {
    let mut out = one_type();
    let mut rows = Vec::new();
    let other = ThreadInfo {
        index: 900_001,
        name: Some("arbeiter 🎈"),
        process_id: Some(PROCESS_ID),
        os_thread_id: Some(5_000),
        key_values: &[("role", "worker"), ("", "")],
    };
    let bare = ThreadInfo { index: u64::MAX, ..ThreadInfo::default() };
    v6::thread_row(&other, &mut rows).unwrap();
    v6::thread_row(&bare, &mut rows).unwrap();
    v6::thread_block(&rows, &mut out).unwrap();
    v6::stack_block(1, &[&[0x1000, u64::MAX], &[]], 8, &mut out).unwrap();
    let row = |number, thread, stack, processor| {
        (RowHeader { thread, stack, processor, ..header(1, number, &value(0)) }, value(0))
    };
    event_block(&[row(1, THREAD, 1, 3), row(2, 900_001, 2, 3), row(3, u64::MAX, 0, 255)], &mut out);
    // After a sequence point that flushes threads, all ids can be used again.
    let threads = [
        ThreadSequence { thread: THREAD, sequence: 3 },
        ThreadSequence { thread: 900_001, sequence: 0 },
    ];
    let flags = SequencePointFlags { flush_threads: true, flush_metadata: true };
    v6::sequence_point(2_000, flags, &threads, &mut out).unwrap();
    metadata(&[schema(2, "Other", ONE)], &mut out);
    rows.clear();
    v6::thread_row(&ThreadInfo { index: THREAD, ..other }, &mut rows).unwrap();
    v6::thread_block(&rows, &mut out).unwrap();
    v6::stack_block(1, &[&[0x2000]], 8, &mut out).unwrap();
    let late = RowHeader { timestamp: 3_000, stack: 1, ..header(1, 1, &value(1)) };
    event_block(&[(late, value(1))], &mut out);
    let file = finish(out);
    let Some(verdict) = judge_events(&file) else { return };
    let events = &verdict.assert_clean().events;
    let field = |key: &str| events.iter().map(|event| event[key].clone()).collect::<Vec<_>>();
    assert_eq!(field("thread"), [json!(OS_THREAD_ID), json!(5_000), json!(-1), json!(5_000)]);
    assert_eq!(events[0]["cpu"], 3);
    assert_eq!(events[3]["name"], "Other");
}

/// A thread that dropped events: the gap and the final number show the loss, also across the wrap.
#[test]
fn losses_and_the_wrap() {
    let check = |numbers: &[u32], last: u32, removed: bool, lost: &str| {
        let mut out = one_type();
        let rows: Vec<_> = numbers
            .iter()
            .zip(1_u32..)
            .map(|(&sequence, index)| {
                (RowHeader { sequence, ..header(1, index, &value(0)) }, value(0))
            })
            .collect();
        event_block(&rows, &mut out);
        let last = [ThreadSequence { thread: THREAD, sequence: last }];
        if removed {
            v6::remove_thread_block(&last, &mut out).unwrap();
        } else {
            v6::sequence_point(9_000, SequencePointFlags::default(), &last, &mut out).unwrap();
        }
        let Some(verdict) = judge_events(&finish(out)) else { return };
        assert!(verdict.accepted, "{verdict:?}");
        let lost = format!(" lost={lost} ");
        assert!(verdict.summary.contains(&lost), "{numbers:?}: {}", verdict.summary);
    };
    for removed in [false, true] {
        check(&[1, 2, 3], 3, removed, "0");
        check(&[1, 2, 5], 5, removed, "2");
        check(&[1, 2, 3], 7, removed, "4");
        check(&[4, 5], 5, removed, "3");
    }
    // Steps of less than 2^31 up to the wrap, then across it.
    let high = u32::MAX;
    let mut out = one_type();
    let steps = [1, 1 << 30, 1 << 31, 3 << 30, high - 1, high, 0, 1, 2];
    let rows: Vec<_> = steps
        .into_iter()
        .zip(1_u32..)
        .map(|(sequence, index)| (RowHeader { sequence, ..header(1, index, &value(0)) }, value(0)))
        .collect();
    event_block(&rows, &mut out);
    let Some(verdict) = judge_events(&finish(out)) else { return };
    // All numbers up to the wrap and after it, except those of the rows.
    let lost = (1_u64 << 32) + 2 - steps.len() as u64;
    assert_eq!(verdict.events.len(), steps.len());
    // The reader's sum is an i32.
    let lost = lost as i32;
    assert!(verdict.summary.contains(&format!(" lost={lost} ")), "{lost}: {}", verdict.summary);
}

/// Numbers padded to their full width, as a producer may reserve room for them.
#[test]
fn padded_numbers() {
    let mut out = one_type();
    let fixed = |value: u64, width: usize, out: &mut Vec<u8>| {
        for index in 0..width {
            let more = if index + 1 < width { 0x80 } else { 0 };
            out.push((value >> (7 * index)) as u8 & 0x7f | more);
        }
    };
    let mut row = vec![1 | 2 | 4 | 8 | 16 | 64 | 128];
    fixed(1, 5, &mut row);
    fixed(0, 5, &mut row);
    fixed(THREAD, 10, &mut row);
    fixed(1, 5, &mut row);
    fixed(THREAD, 10, &mut row);
    fixed(0, 5, &mut row);
    fixed(1_010, 10, &mut row);
    fixed(0, 5, &mut row);
    fixed(4, 5, &mut row);
    row.extend_from_slice(&value(77));
    out.extend_from_slice(&v6::event_block_header(1_010, 1_010, true, row.len()).unwrap());
    out.extend_from_slice(&row);
    let Some(verdict) = judge_events(&finish(out)) else { return };
    let event = &verdict.assert_clean().events[0];
    assert_eq!((&event["ticks"], &event["cpu"]), (&json!(1_010), &json!(1)));
    assert_eq!(event["fields"], json!({"v": 77}));
}

#[test]
fn uncompressed_rows() {
    let mut out = one_type();
    v6::label_list_block(1, &[&[Label::Str("k", "v")]], &mut out).unwrap();
    let mut rows = Vec::new();
    for number in 1..=3 {
        let row = RowHeader { labels: 1, processor: 2, ..header(1, number, &value(number)) };
        v6::uncompressed_row(&row, &value(number), &mut rows).unwrap();
    }
    let size = 3 * (v6::UNCOMPRESSED_ROW_HEADER + 4);
    assert_eq!(rows.len(), size);
    out.extend_from_slice(&v6::event_block_header(1_010, 1_030, false, size).unwrap());
    out.extend_from_slice(&rows);
    let file = finish(out);
    let Some(verdict) = judge_events(&file) else { return };
    let events = &verdict.assert_clean().events;
    assert_eq!(events.len(), 3);
    for (event, number) in events.iter().zip(1_u64..) {
        assert_eq!(event["fields"], json!({"v": number}));
        assert_eq!(event["ticks"], 1_000 + 10 * number);
        assert_eq!(event["labels"], json!([["k", "v"]]));
        assert_eq!(event["cpu"], 2);
    }
    dotnet_trace_opens(&file);
}

/// A block of an unknown kind is skipped.
#[test]
fn blocks_behind_each_other() {
    let mut out = one_type();
    event_block(&[(header(1, 1, &value(1)), value(1))], &mut out);
    let mut unknown = raw_block(BlockKind::LabelList, &[1, 2, 3]);
    unknown[3] = 99;
    out.extend_from_slice(&unknown);
    let second = RowHeader { sorted: true, ..header(1, 2, &value(2)) };
    event_block(&[(second, value(2))], &mut out);
    let Some(verdict) = judge_events(&finish(out)) else { return };
    assert_eq!(verdict.assert_clean().events.len(), 2);
}

/// The largest block, and content that must be split into several.
#[test]
fn large_blocks() {
    let mut out = start();
    // 300 rows of some 60,000 bytes exceed one Metadata block.
    let text: &'static str = "x".repeat(60_000).leak();
    let mut rows = Vec::new();
    for id in 1..=300 {
        let schema = EventSchema { description: Some(text), ..schema(id, "Large", ONE) };
        v6::metadata_row(id.into(), &schema, &mut rows).unwrap();
    }
    v6::metadata_block(&rows, &mut out).unwrap();
    // So do threads and label lists of that size.
    rows.clear();
    for index in 1..=300 {
        let thread = ThreadInfo { index, name: Some(text), ..ThreadInfo::default() };
        v6::thread_row(&thread, &mut rows).unwrap();
    }
    v6::thread_block(&rows, &mut out).unwrap();
    let label = [Label::Str("k", text)];
    v6::label_list_block(1, &[&label[..]; 300], &mut out).unwrap();
    let stack = [0x1000; 8_000];
    v6::stack_block(1, &[&stack[..]; 300], 8, &mut out).unwrap();

    // One event block of exactly the largest size.
    let mut encoder = RowEncoder::new();
    let mut bytes = Vec::new();
    let mut number = 0;
    let payload = vec![0; 65_000];
    let largest = v6::MAX_BLOCK_SIZE - v6::EVENT_BLOCK_HEADER;
    while bytes.len() + 3 * payload.len() < largest {
        number += 1;
        let ids = RowHeader {
            metadata_id: 300,
            thread: 300,
            labels: 300,
            stack: 300,
            ..header(1, number, &payload)
        };
        encoder.row(&ids, &mut bytes);
        bytes.extend_from_slice(&payload);
    }
    while bytes.len() < largest {
        number += 1;
        let ids = header(1, number, &payload);
        let mut row = Vec::new();
        encoder.clone().row(&ids, &mut row);
        let left = largest - bytes.len();
        let len = if left > 70_000 { 60_000 } else { left - row.len() };
        encoder.row(&RowHeader { payload_len: len as u32, ..ids }, &mut bytes);
        bytes.extend_from_slice(&payload[..len]);
    }
    assert_eq!(bytes.len(), largest);
    out.extend_from_slice(&v6::event_block_header(1_010, u64::MAX, true, largest).unwrap());
    out.extend_from_slice(&bytes);
    let Some(verdict) = judge_events(&finish(out)) else { return };
    let events = &verdict.assert_clean().events;
    assert_eq!(events.len(), number as usize);
    assert_eq!(events[0]["id"], 300);
    assert_eq!(events[0]["labels"][0][1].as_str().map(str::len), Some(60_000));
}

/// The clock: readers show an event's time relative to the trace's start.
#[test]
fn times() {
    let mut out = one_type();
    let row = RowHeader { timestamp: 1_000 + 5 * TICKS_PER_SECOND, ..header(1, 1, &value(0)) };
    event_block(&[(row, value(0))], &mut out);
    let Some(verdict) = judge_events(&finish(out)) else { return };
    assert_eq!(verdict.assert_clean().events[0]["ms"], 5_000);
}
