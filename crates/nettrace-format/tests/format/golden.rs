//! Compares one small file of each format, with every feature of the format, byte for byte with
//! `golden/`: `complete.nettrace` is version 6, `complete-v5.nettrace` and `complete-v4.nettrace`
//! are the older versions, `complete.heph` is Heph's format.
//!
//! A test run never rewrites the files. To change a format deliberately: delete its file, run
//! `cargo test -p nettrace-format --test format -- --ignored`, and read the difference.

use std::{io::Write, path::PathBuf};

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, Level, PayloadEncoder as _,
    ProviderSchema, StrEncoding as Text,
};
use nettrace_format::{
    content::{SystemTimeParts, TraceInfo},
    heph,
    v5::{self, Version},
    v6::{self, Label, RowHeader, SequencePointFlags, ThreadInfo, ThreadSequence},
};
use nettrace_reader::heph::{Options, Reader, Value, verify};
use serde_json::json;

use crate::support::{
    OS_THREAD_ID, THREAD, dotnet_trace_opens, encode, event_block, field, header, judge_events,
    older_event_block, older_row, older_start, schema, start,
};

const PAIR: &[FieldSchema] = &[field("number", Type::I16), field("text", Type::Str(Text::Utf16))];

/// Every type except `Boolean8`, which `dotnet-trace` refuses.
const FIELDS: &[FieldSchema] = &[
    field("bool", Type::Bool),
    field("u8", Type::U8),
    field("u16", Type::U16),
    field("u32", Type::U32),
    field("u64", Type::U64),
    field("u128", Type::U128),
    field("i8", Type::I8),
    field("i16", Type::I16),
    field("i32", Type::I32),
    field("i64", Type::I64),
    field("i128", Type::I128),
    field("f32", Type::F32),
    field("f64", Type::F64),
    field("varuint", Type::VarUInt),
    field("varint", Type::VarInt),
    field("char", Type::Char),
    field("unit", Type::Utf16Unit),
    field("utf16", Type::Str(Text::Utf16)),
    field("terminated", Type::Str(Text::Utf16Nul)),
    field("utf8", Type::Str(Text::Utf8)),
    field("rel", Type::Str(Text::Utf16RelLoc)),
    field("data", Type::Array(&Type::U16, Layout::DataLoc)),
    field("guid", Type::Guid),
    field("time", Type::DateTime),
    field("nanos", Type::UnixNanos),
    field("duration", Type::DurationNanos),
    field("address", Type::IpAddr),
    field("fixed", Type::Array(&Type::U8, Layout::Fixed(3))),
    field("nested", Type::Array(&Type::Array(&Type::U8, Layout::Counted), Layout::Counted)),
    field("objects", Type::Array(&Type::Object(PAIR), Layout::Counted)),
    field("option", Type::Option(&Type::U32)),
];

const EVERYTHING: EventSchema = EventSchema {
    provider: ProviderSchema {
        name: "Golden-Provider",
        guid: Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        group: None,
    },
    version: 1,
    level: Level::Warning,
    keywords: 0x11,
    opcode: Some(10),
    message: Some("{utf16} of {u8}"),
    description: Some("every type"),
    key_values: &[("owner", "nobody")],
    ..schema(500, "Everything", FIELDS)
};

const LABELS: [Label<'_>; 6] = [
    Label::ActivityId([1; 16]),
    Label::RelatedActivityId([2; 16]),
    Label::TraceId([3; 16]),
    Label::SpanId(4),
    Label::Str("key", "value"),
    Label::Int("number", -5),
];

const SMALL: EventSchema = schema(501, "Small", &[field("v", Type::U32)]);

fn everything() -> Vec<u8> {
    let (rel, data) = (&FIELDS[20].ty, &FIELDS[21].ty);
    encode(|e| {
        e.bool(true);
        e.u8(1);
        e.u16(2);
        e.u32(3);
        e.u64(4);
        e.u128(5);
        e.i8(-1);
        e.i16(-2);
        e.i32(-3);
        e.i64(-4);
        e.i128(-5);
        e.f32(0.5);
        e.f64(-0.5);
        e.var_uint(300);
        e.var_int(-300);
        e.char('é');
        e.utf16_unit(0x41);
        e.str("aé€🎈\0z", Text::Utf16);
        e.str("end", Text::Utf16Nul);
        e.str("utf8", Text::Utf8);
        let rel_mark = e.begin_location(rel);
        let data_mark = e.begin_location(data);
        e.guid(&[7; 16]);
        e.date_time(1_709_210_096_789);
        e.unix_nanos(1);
        e.duration_nanos(2);
        e.ip_addr(&[192, 168, 0, 1].into());
        e.begin_array(3, Layout::Fixed(3));
        e.u8_elements(&[1, 2, 3]);
        e.begin_array(2, Layout::Counted);
        e.begin_array(0, Layout::Counted);
        e.begin_array(1, Layout::Counted);
        e.u8(9);
        e.begin_array(1, Layout::Counted);
        e.i16(-1);
        e.str("o", Text::Utf16);
        e.begin_option(true, &Type::U32);
        e.u32(77);
        e.begin_location_data(rel_mark, rel);
        e.location_str("behind", Text::Utf16RelLoc);
        e.end_location_data(rel_mark, rel);
        e.begin_location_data(data_mark, data);
        e.u16(1);
        e.u16(2);
        e.end_location_data(data_mark, data);
    })
    .unwrap()
}

fn complete() -> Vec<u8> {
    let mut out = start();
    let mut rows = Vec::new();
    v6::metadata_row(1, &EVERYTHING, &mut rows).unwrap();
    v6::metadata_row(2, &SMALL, &mut rows).unwrap();
    v6::metadata_block(&rows, &mut out).unwrap();
    rows.clear();
    let worker = ThreadInfo {
        index: THREAD + 1,
        name: Some("wörker"),
        process_id: Some(1),
        os_thread_id: Some(2),
        key_values: &[("role", "worker")],
    };
    v6::thread_row(&worker, &mut rows).unwrap();
    v6::thread_block(&rows, &mut out).unwrap();
    v6::stack_block(1, &[&[0x1000, 0x2000], &[0x3000]], 8, &mut out).unwrap();
    v6::label_list_block(1, &[&LABELS, &[Label::Int("one", 1)]], &mut out).unwrap();

    let payload = everything();
    let small = |value: u32| value.to_le_bytes().to_vec();
    let first = RowHeader { stack: 1, labels: 1, processor: 1, ..header(1, 1, &payload) };
    let second = RowHeader { labels: 2, ..header(2, 2, &small(0)) };
    let third = RowHeader { thread: THREAD + 1, stack: 2, ..header(2, 3, &small(0)) };
    event_block(&[(first, payload), (second, small(1)), (third, small(2))], &mut out);
    let threads = [
        ThreadSequence { thread: THREAD, sequence: 4 },
        ThreadSequence { thread: THREAD + 1, sequence: 0 },
    ];
    let none = SequencePointFlags::default();
    v6::sequence_point(2_000, none, &threads, &mut out).unwrap();

    let mut rows = Vec::new();
    let late = RowHeader { timestamp: 2_500, sorted: true, ..header(2, 5, &small(0)) };
    v6::uncompressed_row(&late, &small(3), &mut rows).unwrap();
    out.extend(v6::event_block_header(2_500, 2_500, false, rows.len()).unwrap());
    out.extend(rows);
    v6::remove_thread_block(&threads[1..], &mut out).unwrap();
    let flush = SequencePointFlags { flush_threads: true, flush_metadata: false };
    let last = [ThreadSequence { thread: THREAD, sequence: 5 }];
    v6::sequence_point(3_000, flush, &last, &mut out).unwrap();
    out.extend(v6::END_OF_STREAM);
    out
}

/// The same in versions 4 and 5, as far as these can store it.
fn complete_older(version: Version) -> Vec<u8> {
    let (mut stream, mut out) = older_start(version);
    stream.metadata(&[(1, &EVERYTHING), (2, &SMALL)], &mut out).unwrap();
    stream.stack_block(1, &[&[0x1000, 0x2000], &[0x3000]], 8, &mut out).unwrap();

    let mut payload = Vec::new();
    v5::map_payload(version, &EVERYTHING, &everything(), &mut payload).unwrap();
    let small = |value: u32| value.to_le_bytes().to_vec();
    let (activity, related) = (Some([1; 16]), Some([2; 16]));
    let first = v5::Row { stack: 1, processor: 1, activity, related, ..older_row(1, 1, &payload) };
    let second = v5::Row { activity, ..older_row(2, 2, &small(0)) };
    let third = v5::Row { thread: OS_THREAD_ID + 1, stack: 2, ..older_row(2, 3, &small(0)) };
    let rows = [(first, payload), (second, small(1)), (third, small(2))];
    older_event_block(&mut stream, &rows, &mut out);
    let threads = [(OS_THREAD_ID, 4), (OS_THREAD_ID + 1, 0)];
    stream.sequence_point(2_000, &threads, &mut out).unwrap();

    let late = v5::Row { timestamp: 2_500, sorted: true, ..older_row(2, 5, &small(0)) };
    older_event_block(&mut stream, &[(late, small(3))], &mut out);
    stream.sequence_point(3_000, &[(OS_THREAD_ID, 5)], &mut out).unwrap();
    out.extend(v5::Stream::END_OF_STREAM);
    out
}

/// The same in Heph's format, and the example of its document.
fn complete_heph() -> Vec<u8> {
    static EVERYTHING: EventSchema = self::EVERYTHING;
    static SMALL: EventSchema = self::SMALL;
    let info = TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_610_113_734_118),
        sync_ticks: 1_000,
        ticks_per_second: 10_000_000,
        pointer_size: 8,
        key_values: &[],
    };
    let (mut stream, mut out) = (heph::Stream::new(), Vec::new());
    stream.begin(&info, &mut out).unwrap();
    stream.define(&[(1, &EVERYTHING), (2, &SMALL)]).unwrap();
    let worker = ThreadInfo { index: 2, name: Some("wörker"), ..ThreadInfo::default() };
    stream.thread(&worker);
    let row = |metadata_id, sequence| RowHeader {
        metadata_id,
        sequence,
        capture_thread: 2,
        thread: 2,
        processor: u32::MAX,
        timestamp: 1_000 + 5 * u64::from(sequence),
        ..RowHeader::default()
    };
    let small = |value: u32| value.to_le_bytes().to_vec();
    // Missing are the first two events, one between the rows, and one after the last.
    let first = RowHeader { processor: 1, ..row(1, 3) };
    stream.row(&first, &LABELS, &[0x1000, 0x2000], &everything(), &mut out).unwrap();
    let about = RowHeader { thread: 3, ..row(2, 5) };
    stream.row(&about, &[Label::Int("one", 1)], &[], &small(1), &mut out).unwrap();
    stream.remove_threads([(2, 6)], &mut out).unwrap();
    let size = heph::PADDING as u32 + 2;
    out.extend(heph::padding(size));
    out.extend([0xAA; 2]);
    let header = heph::EventHeader { substream: 1, start: 100, end: 200, ..Default::default() };
    let mut packet = heph::EventPacket::begin(&header, "My event", &mut out).unwrap();
    packet.attribute("Test", heph::Value::U64(123)).unwrap();
    packet.attribute("Test2", heph::Value::F64Array(&[123.456, 789.0])).unwrap();
    packet.finish().unwrap();
    out
}

/// Each golden file, and the bytes that are written now.
fn files() -> [(&'static str, Vec<u8>); 4] {
    [
        ("complete.heph", complete_heph()),
        ("complete.nettrace", complete()),
        ("complete-v5.nettrace", complete_older(Version::V5)),
        ("complete-v4.nettrace", complete_older(Version::V4)),
    ]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

#[test]
fn complete_files() {
    for (name, written) in files() {
        let golden = std::fs::read(path(name)).unwrap();
        let same = golden.iter().zip(&written).take_while(|(golden, written)| golden == written);
        let same = same.count();
        assert!(
            same == golden.len() && same == written.len(),
            "{name} differs from byte {same} on ({} bytes written, {} in the golden file)",
            written.len(),
            golden.len()
        );
    }
}

#[test]
fn judges_take_the_golden_files() {
    for (name, _) in files().iter().filter(|(name, _)| name.ends_with(".nettrace")) {
        let golden = std::fs::read(path(name)).unwrap();
        dotnet_trace_opens(&golden);
        let Some(verdict) = judge_events(&golden) else { return };
        assert!(verdict.accepted, "{name}: {}", verdict.errors);
        assert!(verdict.summary.starts_with("# events=4 lost=1 "), "{name}: {}", verdict.summary);
        let fields = &verdict.events[0]["fields"];
        assert_eq!(fields["utf16"], "aé€🎈\u{FFFD}z", "{name}");
        assert_eq!(fields["rel"], "behind", "{name}");
        let (option, nested, objects) = match *name {
            "complete-v4.nettrace" => {
                (json!("[77]"), json!("[[], [9]]"), json!("[{number: -1, text: \"o\"}]"))
            }
            _ => (
                json!([77]),
                json!([{"items": []}, {"items": [9]}]),
                json!([{"number": -1, "text": "o"}]),
            ),
        };
        assert_eq!(fields["option"], option, "{name}");
        assert_eq!(fields["nested"], nested, "{name}");
        assert_eq!(fields["objects"], objects, "{name}");
        assert_eq!(verdict.events[3]["fields"]["v"], 3, "{name}");
    }
}

#[test]
fn our_reader_takes_the_golden_heph_file() {
    let golden = std::fs::read(path("complete.heph")).unwrap();
    let report = verify(&*golden, Options::default(), 5).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!((report.events, report.lost, report.packets), (3, 4, 7));
    let mut reader = Reader::new(&*golden);
    let first = reader.next_event().unwrap().unwrap();
    assert_eq!((first.stream, first.counter, first.substream), (2, 3, 0x0303_0303_0303_0303));
    assert_eq!((first.start, first.end, first.description), (1_500, 1_500, "Everything"));
    let attributes: Vec<_> = first.attributes().map(Result::unwrap).collect();
    let attribute = |name| attributes.iter().find(|(found, _)| *found == name).unwrap().1.clone();
    assert_eq!(attribute("@thread"), Value::Text("wörker"));
    assert_eq!(attribute("@trace"), Value::Text(&"03".repeat(16)));
    assert_eq!(attribute("u128"), Value::Text("5"));
    assert_eq!(attribute("varint"), Value::I64(-300));
    assert_eq!(attribute("rel"), Value::Text("behind"));
    assert_eq!(attribute("option"), Value::U64(77));
    assert_eq!(attributes.len(), 16 + FIELDS.len());
    let second = reader.next_event().unwrap().unwrap();
    assert_eq!((second.counter, second.attributes().last().unwrap().unwrap().0), (5, "v"));
    // The document's example, byte for byte.
    let example = b"\xC1\xFC\x1F\xB7\0\0\0\x5B\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
        \0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xC8\0\x08My event\
        \0\x04Test\x01\0\0\0\0\0\0\0\x7B\
        \0\x05Test2\x83\0\x02\x40\x5E\xDD\x2F\x1A\x9F\xBE\x77\x40\x88\xA8\0\0\0\0\0";
    assert_eq!(example.len(), 91);
    assert!(golden.ends_with(example));
}

#[test]
#[ignore = "writes golden files that do not exist"]
fn write_golden_files() {
    for (name, written) in files() {
        if let Ok(mut file) = std::fs::File::create_new(path(name)) {
            file.write_all(&written).unwrap();
        }
    }
}
