//! The table of spans: one row has what start and end say.

use std::{fs::File, path::Path};

use nettrace_event::trace_context::{ActivityId, SpanId};
use nettrace_reader::Reader;
use nettrace_views::tables::{Options, Tables, write};
use parquet::{
    basic::ConvertedType,
    file::reader::{FileReader as _, SerializedFileReader},
};
use testkit::{
    engines,
    streams::{EventType, Row, Stream, utf16z},
};

use crate::support::{Table, tables};

/// Types of the .NET format.
const I32: &[u8] = &[9];
const U32: &[u8] = &[10];
const U64: &[u8] = &[12];
const TEXT: &[u8] = &[18];

/// The labels of a span, and of its parent.
fn labels(span: u64, parent: u64) -> Vec<Vec<u8>> {
    let activity = |id| ActivityId::from_span_id(SpanId::from_u64(id).unwrap(), 77).to_bytes_le();
    let mut labels = vec![[&[1][..], &activity(span)].concat()];
    if parent != 0 {
        labels.push([&[2][..], &activity(parent)].concat());
    }
    labels
}

fn end_of(ty: EventType) -> EventType {
    ty.field("duration", U64).field("outcome", TEXT)
}

/// A trace whose ticks are microseconds.
struct Trace {
    stream: Stream,
    rows: Vec<Row>,
    lists: Vec<Vec<Vec<u8>>>,
}

impl Trace {
    fn new(types: &[EventType]) -> Self {
        let mut stream = Stream::with_keys(&[("ProcessId", "77"), ("service.name", "shop")]);
        types.iter().for_each(|ty| _ = stream.metadata(ty));
        stream.thread(5);
        Self { stream, rows: Vec::new(), lists: Vec::new() }
    }

    fn event(&mut self, at: u64, ty: u32, of: (u64, u64), payload: &[&[u8]]) {
        self.lists.push(labels(of.0, of.1));
        let number = self.rows.len() as u32 + 1;
        let row = Row::new(5, number, 1000 + at).metadata(ty).labels(number);
        self.rows.push(row.payload(&payload.concat()));
    }

    fn spans(mut self, folder: &Path) -> Table {
        let lists: Vec<&[Vec<u8>]> = self.lists.iter().map(|list| &**list).collect();
        self.stream.label_lists(1, &lists).events(&self.rows);
        let bytes = self.stream.end();
        let mut events = Reader::new(&bytes[..]).unwrap().sorted();
        let out = folder.join("out");
        write(Tables::Parquet, &mut events, &out, &Options::default()).unwrap().end.unwrap();
        tables(&out, Tables::Parquet).remove("spans").unwrap()
    }
}

fn types() -> [EventType; 6] {
    let ty = |id: u64, name, opcode| EventType::new(id, "Shop", id, name).optional(&[1, opcode]);
    let dimension = |ty: EventType| ty.optional_text(6, &["nettrace.dimension", "route"]);
    let single = ty(3, "pack", 0).field("started", U64);
    [
        dimension(ty(1, "getStart", 1).field("route", TEXT).field("id", I32).field("busy", U32)),
        end_of(ty(2, "getStop", 2))
            .field("polls", U32)
            .field("busy", U64)
            .field("status", U32)
            .field("id", TEXT)
            .field("stop.id", U32),
        end_of(single).optional_text(6, &["nettrace.span", "single"]).field("weight", U32),
        ty(4, "getResume", 7),
        ty(5, "getSuspend", 8),
        dimension(end_of(ty(6, "getStop", 2).field("route", TEXT))),
    ]
}

fn stop(micros: u64, outcome: &str) -> Vec<u8> {
    [&(micros * 1000).to_le_bytes()[..], &utf16z(outcome)].concat()
}

#[test]
fn a_row_has_what_start_and_stop_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new(&types());
    let [one, two, three, nine] = [1_u32, 2, 3, 9].map(u32::to_le_bytes);
    let get = |trace: &mut Trace, at, span| {
        let route = utf16z("/cart");
        trace.event(at, 1, span, &[&route, &(-7_i32).to_le_bytes(), &nine]);
    };
    get(&mut trace, 100, (1, 0));
    for (at, ty) in [(101, 4), (103, 5), (110, 4), (140, 5)] {
        trace.event(at, ty, (1, 0), &[]);
    }
    // A child of a span that becomes known at its end.
    get(&mut trace, 150, (4, 3));
    trace.event(155, 6, (4, 3), &[&utf16z("/other"), &stop(5, "ok")]);
    trace.event(170, 3, (3, 1), &[&[0; 8], &stop(25, "ok"), &two]);
    let (polls, busy) = (three, 33_000_u64.to_le_bytes());
    let fields: [&[u8]; 6] = [&stop(100, "err"), &polls, &busy, &one, &utf16z("x"), &two];
    trace.event(200, 2, (1, 0), &fields);
    // An end without a start, and a start without an end.
    trace.event(300, 2, (5, 0), &fields);
    get(&mut trace, 400, (6, 0));
    trace.event(401, 4, (6, 0), &[]);
    trace.event(411, 5, (6, 0), &[]);
    let table = trace.spans(folder.path());

    let column = |name: &str| table.column(name).join(" ");
    assert_eq!(column("name"), r#""get" "pack" "get" "get" "get""#);
    assert_eq!(column("duration_ns"), "5000 25000 100000 100000 null");
    // A span's own time is without that of its children, whenever these become known.
    assert_eq!(column("own_ns"), "5000 20000 75000 100000 null");
    assert_eq!(column("busy_ns"), "null null 33000 33000 10000");
    assert_eq!(column("polls"), "null null 3 3 1");
    assert_eq!(column("longest_poll_ns"), "null null 30000 null 10000");
    assert_eq!(column("service"), [r#""shop""#; 5].join(" "));
    // The end knows better.
    assert_eq!(column("dimension"), r#""/other" null "/cart" null "/cart""#);
    assert_eq!(column("outcome"), r#""ok" "ok" "err" "err" null"#);
    let entry = |key: &str, value: &str| format!("{{key: {key:?}, value: {value:?}}}");
    let map = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|(key, value)| entry(key, value));
        format!("[{}]", entries.collect::<Vec<_>>().join(", "))
    };
    let start = [("route", "/cart"), ("id", "-7"), ("busy", "9")];
    let expected = [
        map(&[&start[..], &[("stop.route", "/other")]].concat()),
        map(&[("started", "0"), ("weight", "2")]),
        // What has a column is not among them, and no two keys are the same.
        map(&[&start[..], &[("status", "1"), ("stop.stop.id", "x"), ("stop.id", "2")]].concat()),
        map(&[("status", "1"), ("id", "x"), ("stop.id", "2")]),
        map(&start),
    ];
    assert_eq!(table.column("fields"), expected);

    let Some(python) = engines::python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/spans.py");
    let said = engines::run(&python, &script, &[folder.path().join("out").to_str().unwrap()]);
    assert_eq!(said, "/cart -7 1\n".repeat(2));
}

/// Spark reads no timestamps in nanoseconds, and no engine needs more than these.
#[test]
fn timestamps_are_of_microseconds() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new(&types());
    trace.event(100, 1, (1, 0), &[&utf16z("/"), &[0; 8]]);
    trace.spans(folder.path());
    for (file, expected) in [
        ("spans", vec!["start", "end"]),
        ("events", vec!["time"]),
        ("types/Shop.getStart", vec!["time"]),
    ] {
        let path = folder.path().join(format!("out/{file}.parquet"));
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let timestamps = schema.columns().iter().filter(|column| {
            let ty = format!("{:?}", column.logical_type_ref());
            assert!(!ty.to_lowercase().contains("nanos"), "{ty}");
            column.converted_type() == ConvertedType::TIMESTAMP_MICROS
        });
        assert_eq!(timestamps.map(|column| column.name()).collect::<Vec<_>>(), expected, "{file}");
    }
}
