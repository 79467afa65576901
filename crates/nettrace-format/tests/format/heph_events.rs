//! Recorded events as Heph packets: every type of field and every part of an event.

use crate::heph_support::{EPOCH, field, payload, role, schema, shown, writer};
use nettrace_event::{ArrayLayout, FieldRole, FieldSchema, FieldType, PayloadEncoder, StrEncoding};
use nettrace_format::{
    FormatError,
    content::{Label, SystemTimeParts, TraceInfo},
    heph::{Clock, EventInfo, EventWriter, check},
};
use nettrace_reader::heph::Reader;

const HEAD: [&str; 4] = ["@provider: s Shop", "@event: s Sale", "@id: u 7", "@level: u 3"];

/// The attributes of an event's fields.
fn fields(fields: &'static [FieldSchema], payload: &[u8]) -> Vec<String> {
    let schema = schema("Sale", fields);
    check(&schema).unwrap();
    let mut out = Vec::new();
    writer().event(&schema, &EventInfo::default(), payload, &mut out).unwrap();
    let mut attributes = shown(&out).attributes;
    assert_eq!(attributes[..4], HEAD);
    attributes.drain(..4);
    attributes
}

#[test]
fn every_plain_type() {
    use FieldType as T;
    const FIELDS: &[FieldSchema] = &[
        field("bool", T::Bool),
        field("bool8", T::Bool8),
        field("u8", T::U8),
        field("u16", T::U16),
        field("u32", T::U32),
        field("u64", T::U64),
        field("u128", T::U128),
        field("i8", T::I8),
        field("i16", T::I16),
        field("i32", T::I32),
        field("i64", T::I64),
        field("i128", T::I128),
        field("f32", T::F32),
        field("f64", T::F64),
        field("var_uint", T::VarUInt),
        field("var_int", T::VarInt),
        field("char", T::Char),
        field("unit", T::Utf16Unit),
        field("utf16", T::Str(StrEncoding::Utf16)),
        field("nul", T::Str(StrEncoding::Utf16Nul)),
        field("utf8", T::Str(StrEncoding::Utf8)),
        field("guid", T::Guid),
        field("time", T::UnixNanos),
        field("date", T::DateTime),
        field("duration", T::DurationNanos),
        field("ip", T::IpAddr),
        field("socket", T::SocketAddr),
    ];
    let guid = std::array::from_fn(|index| 0x11 * index as u8);
    let payload = payload(|e| {
        e.bool(true);
        e.bool8(false);
        e.u8(u8::MAX);
        e.u16(u16::MAX);
        e.u32(u32::MAX);
        e.u64(u64::MAX);
        e.u128(u128::MAX);
        e.i8(i8::MIN);
        e.i16(i16::MIN);
        e.i32(i32::MIN);
        e.i64(i64::MIN);
        e.i128(i128::MIN);
        e.f32(0.5);
        e.f64(f64::MIN_POSITIVE);
        e.var_uint(u64::MAX);
        e.var_int(i64::MIN);
        e.char('🎈');
        e.utf16_unit(0xE9);
        e.str("grün \"🎈\"", StrEncoding::Utf16);
        e.str("plain", StrEncoding::Utf16Nul);
        e.str("a\0é", StrEncoding::Utf8);
        e.guid(&guid);
        e.unix_nanos(-5);
        e.date_time(1_709_210_096_789);
        e.duration_nanos(u64::MAX);
        e.ip_addr(&"2001:db8::1".parse().unwrap());
        e.socket_addr(&"10.0.0.1:80".parse().unwrap());
    });
    let expected = [
        "bool: u 1",
        "bool8: u 0",
        "u8: u 255",
        "u16: u 65535",
        "u32: u 4294967295",
        "u64: u 18446744073709551615",
        "u128: s 340282366920938463463374607431768211455",
        "i8: i -128",
        "i16: i -32768",
        "i32: i -2147483648",
        "i64: i -9223372036854775808",
        "i128: s -170141183460469231731687303715884105728",
        "f32: f 0.5",
        "f64: f 2.2250738585072014e-308",
        "var_uint: u 18446744073709551615",
        "var_int: i -9223372036854775808",
        "char: s 🎈",
        "unit: s é",
        "utf16: s grün \"🎈\"",
        "nul: s plain",
        "utf8: s a\0é",
        "guid: s 00112233-4455-6677-8899-aabbccddeeff",
        "time: i -5",
        "date: s 2024-02-29T12:34:56.7890000Z",
        "duration: u 18446744073709551615",
        "ip: s 2001:db8::1",
        "socket: s 10.0.0.1:80",
    ];
    assert_eq!(fields(FIELDS, &payload), expected);
}

const POINT: FieldType =
    FieldType::Object(&[field("x", FieldType::I8), field("y", FieldType::Str(StrEncoding::Utf16))]);
const INNER: FieldType = FieldType::Object(&[field("deep", POINT), field("n", FieldType::U8)]);

#[test]
fn objects_and_options_become_names() {
    const FIELDS: &[FieldSchema] = &[
        field("outer", INNER),
        field("some", FieldType::Option(&FieldType::U8)),
        field("none", FieldType::Option(&FieldType::U8)),
        field("point", FieldType::Option(&POINT)),
        field("nothing", FieldType::Option(&INNER)),
        field("twice", FieldType::Option(&FieldType::Option(&FieldType::I8))),
        field("empty", FieldType::Object(&[])),
        field("last", FieldType::U8),
    ];
    let payload = payload(|e| {
        e.i8(-1);
        e.str("a", StrEncoding::Utf16);
        e.u8(2);
        let mark = e.begin_option(true, &FieldType::U8);
        e.u8(3);
        e.end_option(mark);
        e.begin_option(false, &FieldType::U8);
        e.begin_option(true, &POINT);
        e.i8(4);
        e.str("b", StrEncoding::Utf16);
        e.begin_option(false, &INNER);
        e.begin_option(true, &FieldType::U8);
        e.begin_option(true, &FieldType::U8);
        e.i8(5);
        e.u8(6);
    });
    let expected = [
        "outer.deep.x: i -1",
        "outer.deep.y: s a",
        "outer.n: u 2",
        "some: u 3",
        "point.x: i 4",
        "point.y: s b",
        "twice: i 5",
        "last: u 6",
    ];
    assert_eq!(fields(FIELDS, &payload), expected);
}

#[test]
fn arrays_of_everything() {
    use ArrayLayout::{Counted, DataLoc, Fixed, RelLoc};
    use FieldType as T;
    const BYTES: T = T::Array(&T::U8, Counted);
    const FIELDS: &[FieldSchema] = &[
        field("bytes", BYTES),
        field("none", T::Array(&T::I64, Counted)),
        field("fixed", T::Array(&T::F32, Fixed(2))),
        field("rel", T::Array(&T::I16, RelLoc)),
        field("texts", T::Array(&T::Str(StrEncoding::Utf8), Counted)),
        field("bools", T::Array(&T::Bool, Counted)),
        field("big", T::Array(&T::U128, Counted)),
        field("units", T::Array(&T::Utf16Unit, Counted)),
        field("points", T::Array(&POINT, Counted)),
        field("nested", T::Array(&BYTES, Counted)),
        field("options", T::Array(&T::Option(&T::Str(StrEncoding::Utf16)), Counted)),
        field("maybe", T::Option(&BYTES)),
        field("rel_text", T::Str(StrEncoding::Utf16RelLoc)),
        field("data_text", T::Str(StrEncoding::Utf8DataLoc)),
        field("data", T::Array(&T::U32, DataLoc)),
        field("last", T::I8),
    ];
    let payload = payload(|e| {
        e.begin_array(3, Counted);
        e.u8_elements(&[1, 2, 255]);
        e.begin_array(0, Counted);
        e.begin_array(2, Fixed(2));
        e.f32(1.0);
        e.f32(f32::INFINITY);
        let rel = e.begin_location(&FIELDS[3].ty);
        e.begin_array(2, Counted);
        e.str("a", StrEncoding::Utf8);
        e.str("", StrEncoding::Utf8);
        e.begin_array(2, Counted);
        e.bool(true);
        e.bool(false);
        e.begin_array(1, Counted);
        e.u128(1 << 100);
        e.begin_array(5, Counted);
        for unit in [0x41, 0xD83C, 0xDF88, 0xD83C, 0x42] {
            e.utf16_unit(unit);
        }
        e.begin_array(2, Counted);
        for (x, y) in [(1, "a\"\n"), (-2, "")] {
            e.i8(x);
            e.str(y, StrEncoding::Utf16);
        }
        e.begin_array(3, Counted);
        e.begin_array(2, Counted);
        e.u8_elements(&[1, 2]);
        e.begin_array(0, Counted);
        e.begin_array(1, Counted);
        e.u8(3);
        e.begin_array(2, Counted);
        e.begin_option(true, &T::U8);
        e.str("x", StrEncoding::Utf16);
        e.begin_option(false, &T::U8);
        e.begin_option(true, &BYTES);
        e.begin_array(1, Counted);
        e.u8(9);
        let rel_text = e.begin_location(&FIELDS[12].ty);
        let data_text = e.begin_location(&FIELDS[13].ty);
        let data = e.begin_location(&FIELDS[14].ty);
        e.i8(-9);
        e.begin_location_data(rel, &FIELDS[3].ty);
        e.i16(-3);
        e.i16(4);
        e.end_location_data(rel, &FIELDS[3].ty);
        e.begin_location_data(rel_text, &FIELDS[12].ty);
        e.location_str("über", StrEncoding::Utf16RelLoc);
        e.end_location_data(rel_text, &FIELDS[12].ty);
        e.begin_location_data(data_text, &FIELDS[13].ty);
        e.location_str("€", StrEncoding::Utf8DataLoc);
        e.end_location_data(data_text, &FIELDS[13].ty);
        e.begin_location_data(data, &FIELDS[14].ty);
        e.u32(77);
        e.end_location_data(data, &FIELDS[14].ty);
    });
    let expected = [
        "bytes: [u 1; u 2; u 255]",
        "none: []",
        "fixed: [f 1.0; f inf]",
        "rel: [i -3; i 4]",
        "texts: [s a; s ]",
        "bools: [u 1; u 0]",
        "big: [s 1267650600228229401496703205376]",
        "units: s A🎈\u{FFFD}B",
        "points: [s {\"x\":1,\"y\":\"a\\\"\\u000a\"}; s {\"x\":-2,\"y\":\"\"}]",
        "nested: [s [1,2]; s []; s [3]]",
        "options: [s \"x\"; s null]",
        "maybe: [u 9]",
        "rel_text: s über",
        "data_text: s €",
        "data: [u 77]",
        "last: i -9",
    ];
    assert_eq!(fields(FIELDS, &payload), expected);
}

#[test]
fn everything_else_of_an_event() {
    let mut schema = schema("Sale", &[]);
    schema.keywords = 0x30;
    schema.version = 2;
    schema.opcode = Some(9);
    let labels = [
        Label::ActivityId([1; 16]),
        Label::RelatedActivityId([0xAB; 16]),
        Label::TraceId([2; 16]),
        Label::SpanId(0x1F),
        Label::Str("user", "ada"),
        Label::Int("retry", -1),
        Label::Level(5),
    ];
    let info = EventInfo {
        stream: 3,
        counter: u32::MAX,
        timestamp: 1_050,
        thread_name: Some("worker"),
        subject: Some(8),
        subject_name: Some("idler"),
        processor: Some(2),
        labels: &labels,
        stack: &[0x10, u64::MAX],
    };
    let mut out = Vec::new();
    writer().event(&schema, &info, &[], &mut out).unwrap();
    let expected = [
        "@provider: s Shop",
        "@event: s Sale",
        "@id: u 7",
        "@level: u 5",
        "@keywords: u 48",
        "@opcode: u 9",
        "@version: u 2",
        "@thread: s worker",
        "@subject: u 8",
        "@subject_thread: s idler",
        "@processor: u 2",
        "@stack: [u 16; u 18446744073709551615]",
        "@activity: s 01010101-0101-0101-0101-010101010101",
        "@related: s abababab-abab-abab-abab-abababababab",
        "@trace: s 02020202020202020202020202020202",
        "@span: s 000000000000001f",
        "@label.user: s ada",
        "@label.retry: i -1",
    ];
    let event = shown(&out);
    assert_eq!(event.attributes, expected);
    assert_eq!(
        (event.stream, event.counter, event.substream),
        (3, u32::MAX, 0x0202_0202_0202_0202)
    );
    assert_eq!((event.start, event.end, &*event.description), (500, 500, "Sale"));

    // Without a trace id, the activity gives the substream.
    let mut activity = [0; 16];
    (activity[7], activity[15]) = (0xF0, 0x0F);
    let labels = [Label::ActivityId(activity)];
    out.clear();
    let info = EventInfo { labels: &labels, ..EventInfo::default() };
    writer().event(&schema, &info, &[], &mut out).unwrap();
    assert_eq!(shown(&out).substream, 0xFF);
}

/// Start, end, description and the names of further attributes of an event at 500 ns.
fn span(fields: &'static [FieldSchema], payload: &[u8]) -> (u64, u64, String, Vec<String>) {
    let schema = schema("Sale", fields);
    check(&schema).unwrap();
    let mut out = Vec::new();
    let info = EventInfo { timestamp: 1_050, ..EventInfo::default() };
    writer().event(&schema, &info, payload, &mut out).unwrap();
    let event = shown(&out);
    (event.start, event.end, event.description, event.attributes[4..].to_vec())
}

#[test]
fn fields_with_a_role_make_a_span() {
    use FieldType as T;
    const SPAN: &[FieldSchema] = &[
        field("before", T::U8),
        role("from", T::UnixNanos, FieldRole::Start),
        role("to", T::Option(&T::U64), FieldRole::End),
        role("what", T::Str(StrEncoding::Utf16), FieldRole::Description),
        field("after", T::U8),
    ];
    let span_payload = |from: i64, to: Option<u64>| {
        payload(|e| {
            e.u8(1);
            e.unix_nanos(from);
            e.begin_option(to.is_some(), &T::U64);
            to.iter().for_each(|to| e.u64(*to));
            e.str("sold ü", StrEncoding::Utf16);
            e.u8(2);
        })
    };
    let rest = || vec!["before: u 1".to_owned(), "after: u 2".to_owned()];
    let start = EPOCH as i64;
    let check = |from, to, expected: (u64, u64)| {
        let (start, end, description, attributes) = span(SPAN, &span_payload(from, to));
        assert_eq!((start, end), expected);
        assert_eq!((&*description, attributes), ("sold ü", rest()));
    };
    check(start + 100, Some(EPOCH + 300), (100, 300));
    check(start + 100, None, (100, 500));
    // A start in the future gives a span of length 0. So does an end before the start, which is
    // also an attribute.
    check(start + 600, None, (600, 600));
    let (from, to, _, attributes) = span(SPAN, &span_payload(start + 300, Some(EPOCH + 100)));
    assert_eq!((from, to), (300, 300));
    assert_eq!(attributes[1], format!("to: u {}", EPOCH + 100));
    // A start before the trace's epoch is also an attribute.
    let (from, _, _, attributes) = span(SPAN, &span_payload(start - 1, None));
    assert_eq!(from, 0);
    assert_eq!(attributes[1], format!("from: i {}", start - 1));

    const DISTANCES: &[FieldSchema] = &[
        role("ago", T::DurationNanos, FieldRole::Start),
        role("took", T::DurationNanos, FieldRole::End),
    ];
    let distances = |ago, took| {
        payload(|e| {
            e.duration_nanos(ago);
            e.duration_nanos(took);
        })
    };
    let none = Vec::<String>::new();
    assert_eq!(span(DISTANCES, &distances(200, 50)), (300, 350, "Sale".into(), none));
    // The trace is 500 ns old: the start does not fit, and the end counts from the adjusted start.
    let (start, end, _, attributes) = span(DISTANCES, &distances(501, u64::MAX));
    assert_eq!((start, end), (0, u64::MAX));
    assert_eq!(attributes, ["ago: u 501"]);

    const DATE: &[FieldSchema] = &[role("at", T::DateTime, FieldRole::Start)];
    let at = payload(|e| e.date_time(EPOCH as i64 / 1_000_000 + 2));
    assert_eq!(span(DATE, &at).0, 2_000_000);

    const OBJECT: &[FieldSchema] =
        &[role("what", INNER, FieldRole::Description), role("end", T::I128, FieldRole::End)];
    let object = payload(|e| {
        e.i8(1);
        e.str("a", StrEncoding::Utf16);
        e.u8(2);
        e.i128(i128::from(EPOCH) + 7);
    });
    let (start, end, description, attributes) = span(OBJECT, &object);
    assert_eq!((start, end), (500, 500));
    assert_eq!(attributes, [format!("end: s {}", EPOCH + 7)]);
    assert_eq!(description, r#"{"deep":{"x":1,"y":"a"},"n":2}"#);

    const MAYBE: &[FieldSchema] = &[role("what", T::Option(&T::U8), FieldRole::Description)];
    assert_eq!(span(MAYBE, &payload(|e| _ = e.begin_option(false, &T::U8))).2, "Sale");
    let some = payload(|e| {
        e.begin_option(true, &T::U8);
        e.u8(5);
    });
    assert_eq!(span(MAYBE, &some).2, "5");
}

#[test]
fn types_that_cannot_be_are_refused_by_name() {
    const TEXT: &[FieldSchema] =
        &[role("at", FieldType::Str(StrEncoding::Utf16), FieldRole::Start)];
    let text = schema("Sale", TEXT);
    assert_eq!(check(&text), Err(FormatError::HephTime { field: "at" }));
    let mut out = vec![1];
    let payload = payload(|e| e.str("now", StrEncoding::Utf16));
    let error = writer().event(&text, &EventInfo::default(), &payload, &mut out).unwrap_err();
    assert_eq!((error, out), (FormatError::HephTime { field: "at" }, vec![1]));
    const LOCATED: &[FieldSchema] =
        &[field("at", FieldType::Array(&FieldType::VarInt, ArrayLayout::RelLoc))];
    let error = check(&schema("Sale", LOCATED)).unwrap_err();
    assert_eq!(error, FormatError::LocationOfVariableSize { field: "at" });
}

/// The name of the outer field is before that of each inner one: a few bytes of payload must not
/// become a packet of many megabytes.
#[test]
fn names_that_repeat_are_bounded() {
    let outer: &'static str = "x".repeat(30_000).leak();
    let of = |count: usize| {
        let inner: &'static [FieldSchema] = vec![field("", FieldType::U8); count].leak();
        schema("Sale", vec![field(outer, FieldType::Object(inner))].leak())
    };
    assert_eq!(check(&of(33)), Ok(()));
    let error = check(&of(6_000)).unwrap_err();
    assert_eq!(error, FormatError::HephAttributeNamesTooLong { size: 30_000 + 6_000 * 30_001 });
}

#[test]
fn text_that_grows_too_long_is_refused() {
    const TEXT: &[FieldSchema] = &[
        field("text", FieldType::Str(StrEncoding::Utf16)),
        role("what", FieldType::Str(StrEncoding::Utf16), FieldRole::Description),
    ];
    let texts = |text: &str, what: &str| {
        payload(|e| {
            e.str(text, StrEncoding::Utf16);
            e.str(what, StrEncoding::Utf16);
        })
    };
    let schema = schema("Sale", TEXT);
    let mut out = Vec::new();
    let longest = "€".repeat(21_845);
    let longer = "€".repeat(21_846);
    let mut write = |payload: &[u8]| {
        out.clear();
        let result = writer().event(&schema, &EventInfo::default(), payload, &mut out);
        assert_eq!(result.is_err(), out.is_empty());
        result
    };
    write(&texts(&longest, "")).unwrap();
    write(&texts("", &longest)).unwrap();
    let error = write(&texts(&longer, "")).unwrap_err();
    assert_eq!(error, FormatError::HephStringTooLong { size: 65_538 });
    let error = write(&texts("", &longer)).unwrap_err();
    assert_eq!(error, FormatError::HephDescriptionTooLong { size: 65_538 });
    let payload = texts("abc", "def");
    for len in 0..payload.len() {
        let error = write(&payload[..len]).unwrap_err();
        assert!(matches!(error, FormatError::PayloadMismatch { offset } if offset <= len));
    }
}

/// A trace of one event, byte for byte.
#[test]
fn a_whole_trace() {
    const FIELDS: &[FieldSchema] = &[
        field("n", FieldType::U8),
        role("took", FieldType::DurationNanos, FieldRole::End),
        field("tags", FieldType::Array(&FieldType::Str(StrEncoding::Utf16), ArrayLayout::Counted)),
    ];
    let payload = payload(|e| {
        e.u8(200);
        e.duration_nanos(16);
        e.begin_array(2, ArrayLayout::Counted);
        e.str("é", StrEncoding::Utf16);
        e.str("", StrEncoding::Utf16);
    });
    let info = EventInfo { stream: 258, counter: 1, timestamp: 1_003, ..EventInfo::default() };
    let mut out = Vec::new();
    let mut writer = writer();
    writer.begin(&mut out);
    writer.event(&schema("Sale", FIELDS), &info, &payload, &mut out).unwrap();
    let mut expected = Vec::new();
    for part in [
        &b"\x75\xD1\x1D\x4D\0\0\0\x17\0\x05epoch\x17\x97\x9C\xFE\x36\x2A\x00\x00"[..],
        b"\xC1\xFC\x1F\xB7\0\0\0\x89\0\0\x01\x02\0\0\0\x01", // size, stream, counter
        b"\0\0\0\0\0\0\0\0",                                 // substream
        b"\0\0\0\0\0\0\0\x1E\0\0\0\0\0\0\0\x2E",             // 30 to 46 ns
        b"\0\x04Sale",
        b"\0\x09@provider\x04\0\x04Shop",
        b"\0\x06@event\x04\0\x04Sale",
        b"\0\x03@id\x01\0\0\0\0\0\0\0\x07",
        b"\0\x06@level\x01\0\0\0\0\0\0\0\x03",
        b"\0\x01n\x01\0\0\0\0\0\0\0\xC8",
        b"\0\x04tags\x84\0\x02\0\x02\xC3\xA9\0\0",
    ] {
        expected.extend_from_slice(part);
    }
    assert_eq!(out, expected);
    assert_eq!(out.len(), 23 + 0x89);
}

#[test]
fn the_clock_is_the_traces() {
    let info = TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_709_210_096_789),
        sync_ticks: 5,
        ticks_per_second: 10,
        pointer_size: 8,
        key_values: &[],
    };
    let clock = Clock::of(&info).unwrap();
    assert_eq!(clock.epoch(), 1_709_210_096_789_000_000);
    assert_eq!(clock.nanos(6), 100_000_000);
    let mut out = Vec::new();
    EventWriter::new(clock).begin(&mut out);
    let mut reader = Reader::new(&*out);
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.epoch(), Some(1_709_210_096_789_000_000));
    let old = TraceInfo { sync_utc: SystemTimeParts::from_unix_millis(-1), ..info };
    assert_eq!(Clock::of(&old).unwrap().epoch(), 0);
}
