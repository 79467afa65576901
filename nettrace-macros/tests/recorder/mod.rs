//! An encoder that records its calls and compares them with the schema.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::{IpAddr, SocketAddr};

use nettrace_event::{
    ArrayLayout, EventSchema, FieldSchema, FieldType, PayloadEncoder, StrEncoding, TraceEvent,
};

/// The calls for one event, a line for each: `u32 7`.
pub(crate) fn record(event: &(impl TraceEvent + ?Sized)) -> Vec<String> {
    let mut recorder = Recorder::default();
    event.encode(&mut recorder);
    let schema = event.event_type().schema();
    let mut calls = Calls(recorder.calls.iter());
    expect_fields(schema.fields, &mut calls, true);
    for field in schema.fields.iter().filter(|field| is_located(&field.ty)) {
        expect_data(&field.ty, &mut calls);
    }
    assert_eq!(calls.next(), None, "calls that the schema does not announce");
    recorder.calls
}

/// The schema of a Rust type with a single event type.
pub(crate) fn schema_of<T: TraceEvent>() -> &'static EventSchema {
    let [ty] = T::event_types() else { panic!("not one event type") };
    ty.schema()
}

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) calls: Vec<String>,
}

/// The calls that are not compared yet.
struct Calls<'a>(std::slice::Iter<'a, String>);

impl<'a> Calls<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(String::as_str)
    }
}

fn expect_fields(fields: &[FieldSchema], calls: &mut Calls<'_>, top: bool) {
    for field in fields {
        if is_located(&field.ty) {
            assert!(top, "a location within an object");
            assert_eq!(calls.next(), Some("location"));
        } else {
            expect(&field.ty, calls);
        }
    }
}

fn expect(ty: &FieldType, calls: &mut Calls<'_>) {
    match ty {
        FieldType::Object(fields) => return expect_fields(fields, calls, false),
        FieldType::Array(element, layout) => {
            let begin = calls.next().expect("an array");
            let count = begin.strip_prefix(&format!("[ {layout:?} ")).expect(begin);
            let count: usize = count.parse().unwrap();
            assert!(!matches!(layout, ArrayLayout::Fixed(n) if usize::from(*n) != count));
            (0..count).for_each(|_| expect(element, calls));
            assert_eq!(calls.next(), Some("]"));
            return;
        }
        FieldType::Option(element) => {
            match calls.next() {
                Some("some") => expect(element, calls),
                other => assert_eq!(other, Some("none")),
            }
            assert_eq!(calls.next(), Some("end"));
            return;
        }
        _ => {}
    }
    let word = match ty {
        FieldType::Str(encoding) => format!("str {encoding:?}"),
        other => format!("{other:?}"),
    };
    let call = calls.next().unwrap_or("nothing");
    assert!(call.starts_with(&format!("{word} ")), "the schema says {word}, the call is {call}");
}

fn expect_data(ty: &FieldType, calls: &mut Calls<'_>) {
    assert_eq!(calls.next(), Some("data"));
    match ty {
        FieldType::Str(encoding) => {
            let call = calls.next().unwrap();
            assert!(call.starts_with(&format!("data str {encoding:?} ")), "{call}");
        }
        FieldType::Array(element, _) => {
            while calls.0.clone().next().map(String::as_str) != Some("end data") {
                expect(element, calls);
            }
        }
        other => panic!("{other:?} behind the fields"),
    }
    assert_eq!(calls.next(), Some("end data"));
}

const fn is_located(ty: &FieldType) -> bool {
    matches!(
        ty,
        FieldType::Array(_, ArrayLayout::RelLoc | ArrayLayout::DataLoc)
            | FieldType::Str(
                StrEncoding::Utf16RelLoc
                    | StrEncoding::Utf16DataLoc
                    | StrEncoding::Utf8RelLoc
                    | StrEncoding::Utf8DataLoc
            )
    )
}

macro_rules! scalars {
    ($($method:ident $word:literal $ty:ty;)+) => {
        $(fn $method(&mut self, value: $ty) {
            self.calls.push(format!(concat!($word, " {:?}"), value));
        })+
    };
}

impl PayloadEncoder for Recorder {
    type Mark = usize;

    scalars! {
        bool "Bool" bool;
        bool8 "Bool8" bool;
        u8 "U8" u8;
        u16 "U16" u16;
        u32 "U32" u32;
        u64 "U64" u64;
        u128 "U128" u128;
        i8 "I8" i8;
        i16 "I16" i16;
        i32 "I32" i32;
        i64 "I64" i64;
        i128 "I128" i128;
        f32 "F32" f32;
        f64 "F64" f64;
        var_uint "VarUInt" u64;
        var_int "VarInt" i64;
        char "Char" char;
        utf16_unit "Utf16Unit" u16;
        guid "Guid" &[u8; 16];
        unix_nanos "UnixNanos" i64;
        date_time "DateTime" i64;
        duration_nanos "DurationNanos" u64;
        ip_addr "IpAddr" &IpAddr;
        socket_addr "SocketAddr" &SocketAddr;
    }

    fn str(&mut self, value: &str, encoding: StrEncoding) {
        self.calls.push(format!("str {encoding:?} {value}"));
    }

    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> usize {
        self.calls.push(format!("[ {layout:?} {len}"));
        1
    }

    fn end_array(&mut self, mark: usize) {
        assert_eq!(mark, 1);
        self.calls.push("]".to_owned());
    }

    fn begin_option(&mut self, present: bool, _: &'static FieldType) -> usize {
        self.calls.push(if present { "some" } else { "none" }.to_owned());
        2
    }

    fn end_option(&mut self, mark: usize) {
        assert_eq!(mark, 2);
        self.calls.push("end".to_owned());
    }

    fn begin_location(&mut self, ty: &'static FieldType) -> usize {
        assert!(is_located(ty));
        self.calls.push("location".to_owned());
        3
    }

    fn begin_location_data(&mut self, mark: usize, ty: &'static FieldType) {
        assert!(is_located(ty) && mark == 3);
        self.calls.push("data".to_owned());
    }

    fn location_str(&mut self, value: &str, encoding: StrEncoding) {
        self.calls.push(format!("data str {encoding:?} {value}"));
    }

    fn end_location_data(&mut self, mark: usize, ty: &'static FieldType) {
        assert!(is_located(ty) && mark == 3);
        self.calls.push("end data".to_owned());
    }
}
