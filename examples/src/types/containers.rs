//! Sequences, options, tuples, nested structs and enums.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use nettrace_writer::TraceField;

use super::{MIXED, Sample, table};

#[derive(TraceField)]
struct Point {
    x: i32,
    #[trace_event(rename = "Y", encoding = varint)]
    y: u32,
    #[trace_event(skip)]
    _cached: f64,
}

#[derive(TraceField)]
struct Labelled<'a, T> {
    label: &'a str,
    value: T,
    points: Vec<Point>,
}

#[derive(TraceField)]
#[trace_event(transparent)]
struct Meters(f64);

#[derive(TraceField)]
struct Pair(u8, bool);

#[derive(Clone, Copy, TraceField)]
enum Color {
    Red,
    #[trace_event(rename = "Grün")]
    Green = 5,
    Blue = -70_000,
}

#[derive(Clone, Copy, TraceField)]
#[trace_event(encoding = number)]
#[repr(u8)]
enum Code {
    Low = 1,
    High = 255,
}

fn point(x: i32, y: u32) -> Point {
    Point { x, y, _cached: 0.0 }
}

pub(super) fn samples() -> Vec<Sample> {
    vec![sequences(), nested_sequences(), options(), objects(), enums()]
}

fn sequences() -> Sample {
    table! {
        Sequences;
        slice: &'a [u16] = &[1, 2, 65_535] => ([1, 2, 65_535]);
        bytes: &'a [u8] = b"\x00\xff" => ([0, 255]);
        signed_bytes: &'a [i8] = &[-1, 1] => ([-1, 1]);
        empty: &'a [u64] = &[] => ([]);
        list: Vec<i64> = vec![i64::MIN, 0] => ([i64::MIN, 0]);
        fixed: [f32; 3] = [0.5, 1.5, -2.5] => ([0.5, 1.5, -2.5]);
        fixed_one: [u32; 1] = [7] => ([7]);
        fixed_none: [u32; 0] = [] => ([]);
        booleans: Vec<bool> = vec![true, false] => ([true, false]);
        strings: &'a [&'a str] = &["", MIXED, "z"] => (["", MIXED, "z"]);
        string_list: Vec<String> = vec!["é".into()] => (["é"]);
        fixed_strings: [&'a str; 2] = ["a", MIXED] => (["a", MIXED]);
        #[trace_event(encoding = utf16_nul)]
        terminated_strings: Vec<&'a str> = vec!["a", "", "é"] => (["a", "", "é"]);
        chars: Vec<char> = vec!['a', '🦀'] => (["a", "🦀"]);
        boxed: Box<[u8]> = Box::new([3]) => ([3]);
        cow: Cow<'a, [u8]> = Cow::Borrowed(&[4]) => ([4]);
        shared: Arc<[u8]> = Arc::new([5]) => ([5]);
        counted: Rc<Vec<u16>> = Rc::new(vec![6]) => ([6]);
        mutable: &'a mut [u8] = &mut [7] => ([7]);
        #[trace_event(encoding = varint)]
        variable: Vec<u64> = vec![0, 300, u64::MAX] => ([0, 300, u64::MAX]);
        wide: Vec<u128> = vec![1] => ([{ "low": 1, "high": 0 }]);
        #[trace_event(encoding = utf16_unit)]
        units: Vec<u16> = vec![0x41, 0x20ac] => ("A€");
        last: u8 = 1 => (1);
    }
}

fn nested_sequences() -> Sample {
    table! {
        NestedSequences;
        lists: Vec<Vec<u8>> = vec![vec![1, 2], vec![]] => ([{ "items": [1, 2] }, { "items": [] }]);
        matrix: [[i16; 2]; 2] = [[1, 2], [3, 4]] => ([{ "items": [1, 2] }, { "items": [3, 4] }]);
        texts: Vec<Vec<&'a str>> = vec![vec!["a", MIXED]] => ([{ "items": ["a", MIXED] }]);
        tuples: Vec<(u8, &'a str)> = vec![(1, "a"), (2, MIXED)]
            => ([{ "0": 1, "1": "a" }, { "0": 2, "1": MIXED }]);
        options: Vec<Option<u8>> = vec![Some(1), None] => ([{ "items": [1] }, { "items": [] }]);
        last: u8 = 1 => (1);
    }
}

fn options() -> Sample {
    table! {
        Options;
        some: Option<u32> = Some(5) => ([5]);
        none: Option<u32> = None => ([]);
        some_text: Option<&'a str> = Some(MIXED) => ([MIXED]);
        no_text: Option<String> = None => ([]);
        some_object: Option<Point> = Some(point(1, 2)) => ([{ "x": 1, "Y": 2 }]);
        some_none: Option<Option<u8>> = Some(None) => ([{ "value": [] }]);
        some_list: Option<Vec<u8>> = Some(vec![1, 2]) => ([{ "value": [1, 2] }]);
        last: u8 = 1 => (1);
    }
}

fn objects() -> Sample {
    table! {
        Objects;
        object: Point = point(-1, 300) => ({ "x": -1, "Y": 300 });
        reference: &'a Point = &point(3, 4) => ({ "x": 3, "Y": 4 });
        objects: Vec<Point> = vec![point(1, 2), point(3, 4)]
            => ([{ "x": 1, "Y": 2 }, { "x": 3, "Y": 4 }]);
        fixed: [Point; 1] = [point(5, 6)] => ([{ "x": 5, "Y": 6 }]);
        generic: Labelled<'a, u64> = Labelled { label: MIXED, value: 9, points: vec![point(7, 8)] }
            => ({ "label": MIXED, "value": 9, "points": [{ "x": 7, "Y": 8 }] });
        tuple: (u8, &'a str, (bool, f64)) = (1, "é", (true, 0.25))
            => ({ "0": 1, "1": "é", "2": { "0": true, "1": 0.25 } });
        tuple_struct: Pair = Pair(1, true) => ({ "0": 1, "1": true });
        transparent: Meters = Meters(1.5) => (1.5);
        last: u8 = 1 => (1);
    }
}

fn enums() -> Sample {
    table! {
        Enums;
        by_name: Color = Color::Red => ("Red");
        renamed: Color = Color::Green => ("Grün");
        #[trace_event(encoding = number)]
        numbers: [Color; 3] = [Color::Red, Color::Green, Color::Blue] => ([0, 5, -70_000]);
        by_number: Code = Code::High => (255);
        #[trace_event(encoding = name)]
        names: &'a [Code] = &[Code::Low, Code::High] => (["Low", "High"]);
        last: u8 = 1 => (1);
    }
}
