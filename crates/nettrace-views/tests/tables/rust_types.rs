//! Rust's types as columns: durations, times, options, maps, wide numbers.

use std::{
    collections::BTreeMap,
    fs::File,
    time::{Duration, SystemTime},
};

use nettrace_reader::Reader;
use nettrace_views::tables::{Options, Tables, write};
use nettrace_writer::{Emit, Session, TraceEvent, TraceField, sink::MemorySink};
use parquet::{
    basic::Type,
    file::reader::{FileReader as _, SerializedFileReader},
};

use crate::support::tables;

#[derive(TraceField)]
struct Point {
    x: f64,
    took: Duration,
    label: Option<&'static str>,
    seen: Option<SystemTime>,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Tables.Test", id = 1)]
struct Everything {
    thread: u64,
    took: Duration,
    at: SystemTime,
    times: Vec<SystemTime>,
    some: Option<u32>,
    none: Option<u32>,
    text: Option<&'static str>,
    maybe_took: Option<Duration>,
    byte: Option<u8>,
    numbers: [i16; 3],
    options: Vec<Option<u8>>,
    lists: Vec<Vec<u32>>,
    bytes: Vec<u8>,
    wide: u128,
    negative: i128,
    point: Point,
    points: Vec<Point>,
    maybe_point: Option<Point>,
    twice: Option<Option<u8>>,
    once: Option<Option<u8>>,
    never: Option<Option<u8>>,
    map: BTreeMap<&'static str, u64>,
    nan: f32,
    infinite: f64,
    letter: char,
    is_done: bool,
}

fn is_any_float(ty: Type) -> bool {
    matches!(ty, Type::FLOAT | Type::DOUBLE)
}

fn at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(1005)
}

fn point(x: f64, label: Option<&'static str>) -> Point {
    Point { x, took: Duration::from_micros(7), label, seen: label.map(|_| at()) }
}

#[test]
fn every_type_is_a_column() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Tables.Test").start().unwrap();
    for number in 0..3 {
        Everything {
            thread: number,
            took: Duration::from_millis(1500),
            at: at(),
            times: vec![at()],
            some: Some(3),
            none: None,
            text: Some("aé\0\"\n"),
            maybe_took: Some(Duration::from_nanos(1)),
            byte: Some(0),
            numbers: [-1, 0, 1],
            options: vec![Some(1), None],
            lists: vec![vec![1, 2], vec![]],
            bytes: vec![0, 255],
            wide: (1 << 64) + 2,
            negative: -1,
            point: point(0.5, None),
            points: vec![point(1.0, Some("a")), point(2.0, None)],
            maybe_point: None,
            twice: Some(Some(1)),
            once: Some(None),
            never: None,
            map: [("one", 1), ("two", 2)].into(),
            nan: f32::NAN,
            infinite: f64::NEG_INFINITY,
            letter: '🦀',
            is_done: true,
        }
        .emit();
    }
    session.finish().unwrap();
    let trace = memory.bytes();
    let folder = tempfile::tempdir().unwrap();
    for format in Tables::ALL {
        let out = folder.path().join(format.name());
        let mut events = Reader::new(&trace[..]).unwrap().sorted();
        write(*format, &mut events, &out, &Options::default()).unwrap();
        let tables = tables(&out, *format);
        let table = &tables["types/Tables.Test.Everything"];
        assert_eq!(table.rows.len(), 3);
        for (name, value) in [
            ("thread_2", "1"),
            ("took", "1500000000"),
            ("at", "t1"),
            ("at_ns", "1005"),
            ("times", "[1005]"),
            ("some", "3"),
            ("none", "null"),
            ("text", "\"aé\u{fffd}\\\"\\n\""),
            ("maybe_took", "1"),
            ("byte", "0"),
            ("numbers", "[-1, 0, 1]"),
            ("options", "[1, null]"),
            ("lists", "[{items: [1, 2]}, {items: []}]"),
            ("bytes", "[00, ff]"),
            ("wide", "{low: 2, high: 1}"),
            ("negative", "{low: 18446744073709551615, high: -1}"),
            (
                "point",
                "{x: 0x3fe0000000000000, took: 7000, label: null, seen: null, seen_ns: null}",
            ),
            (
                "points",
                "[{x: 0x3ff0000000000000, took: 7000, label: \"a\", seen: t1, seen_ns: 1005}, \
                 {x: 0x4000000000000000, took: 7000, label: null, seen: null, seen_ns: null}]",
            ),
            ("maybe_point", "null"),
            ("twice", "[1]"),
            ("once", "[null]"),
            ("never", "null"),
            ("map", "[{Key: \"one\", Value: 1}, {Key: \"two\", Value: 2}]"),
            ("nan", "0x7fc00000"),
            ("infinite", "0xfff0000000000000"),
            ("letter", "\"🦀\""),
            ("is_done", "true"),
        ] {
            assert_eq!(table.column(name)[1], value, "{name}");
        }
        let took = table.schema.field_with_name("took").unwrap();
        assert_eq!(took.metadata()["unit"], "ns");
    }
    let file = File::open(folder.path().join("parquet/types/Tables.Test.Everything.parquet"));
    let read = SerializedFileReader::new(file.unwrap()).unwrap();
    let columns = read.metadata().row_group(0).columns();
    let with_statistics = |is_float: bool| {
        let all = columns.iter().filter(|it| is_float == is_any_float(it.column_type()));
        all.map(|column| column.statistics().is_some()).collect::<Vec<_>>()
    };
    // Engines that order NaN above all numbers would skip rows by them.
    assert_eq!(with_statistics(true), [false; 5]);
    assert!(with_statistics(false).into_iter().all(|has| has));
}
