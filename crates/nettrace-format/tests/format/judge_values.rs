//! Every type, as the reference reader shows it. This proves the mappings in
//! `nettrace_format::types` and, for versions 4 and 5, in `nettrace_format::v5`.

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, PayloadEncoder as _,
    StrEncoding as Text,
};
use nettrace_format::{
    payload::{MAX_PAYLOAD, NetTraceEncoder, VecBuffer},
    v5::Version,
};
use serde_json::{Value, json};

use crate::support::{dotnet_trace_opens, encode, field, file, judge_events, older_file, schema};

type Encoder = NetTraceEncoder<VecBuffer>;

/// A type, a value, and the text that readers show for it.
struct Case {
    name: &'static str,
    fields: &'static [FieldSchema],
    value: fn(&mut Encoder),
    /// Whether the value's data comes after the fields, found through a location.
    behind: bool,
    shown: Value,
}

macro_rules! case {
    ($name:literal, $ty:expr, $shown:tt, |$e:ident| $value:expr) => {
        case!($name, $ty, $shown, |$e| $value, false)
    };
    ($name:literal, $ty:expr, $shown:tt, |$e:ident| $value:expr, $behind:literal) => {{
        const FIELDS: &[FieldSchema] =
            &[field("before", Type::U8), field("v", $ty), field("after", Type::U32)];
        let value = |$e: &mut Encoder| {
            $value;
        };
        Case { name: $name, fields: FIELDS, value, behind: $behind, shown: json!($shown) }
    }};
}

macro_rules! location {
    ($name:literal, $ty:expr, $shown:tt, |$e:ident| $value:expr) => {
        case!($name, $ty, $shown, |$e| $value, true)
    };
}

const GUID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const GUID_TEXT: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
const UTF8: &str = "hé\u{FFFD}b";
const UTF8_AS_LATIN_1: &str = "h\u{C3}\u{A9}";
const MIXED: &str = "aé€🎈z";
const STR: Type = Type::Str(Text::Utf16);
const PAIR: Type = Type::Object(&[field("number", Type::I16), field("text", STR)]);

fn payload(case: &Case) -> Vec<u8> {
    encode(|e| {
        e.u8(1);
        if case.behind {
            let ty = &case.fields[1].ty;
            let mark = e.begin_location(ty);
            e.u32(7);
            e.begin_location_data(mark, ty);
            (case.value)(e);
            e.end_location_data(mark, ty);
        } else {
            (case.value)(e);
            e.u32(7);
        }
    })
    .unwrap()
}

/// Writes one file of all cases in each version and compares the values that the reader shows.
fn check(cases: &[Case], portable: bool) {
    let events: Vec<_> = cases
        .iter()
        .zip(1..)
        .map(|(case, id)| (schema(id, case.name, case.fields), payload(case)))
        .collect();
    let bytes = file(&events);
    let Some(verdict) = judge_events(&bytes) else { return };
    verdict.assert_clean();
    assert_eq!(verdict.events.len(), cases.len());
    for (case, event) in cases.iter().zip(&verdict.events) {
        let expected = json!({"before": 1, "v": case.shown, "after": 7});
        assert_eq!(event["name"], case.name);
        assert_eq!(event["fields"], expected, "{}", case.name);
    }
    if portable {
        dotnet_trace_opens(&bytes);
    }
    check_older(Version::V5, cases, &events, shown_by_v5);
    check_older(Version::V4, cases, &events, shown_by_v4);
}

fn check_older(
    version: Version,
    cases: &[Case],
    events: &[(EventSchema, Vec<u8>)],
    shown: fn(&Value) -> Value,
) {
    let bytes = older_file(version, events);
    let Some(verdict) = judge_events(&bytes) else { return };
    verdict.assert_clean();
    assert_eq!(verdict.events.len(), cases.len());
    for (case, event) in cases.iter().zip(&verdict.events) {
        let expected = json!({"before": 1, "v": shown(&case.shown), "after": 7});
        assert_eq!(event["name"], case.name);
        assert_eq!(event["fields"], expected, "{version:?} {}", case.name);
    }
    dotnet_trace_opens(&bytes);
}

/// Version 5 shows the values of version 6, and UTF-8 correctly.
fn shown_by_v5(v6: &Value) -> Value {
    if *v6 == json!(UTF8_AS_LATIN_1) { json!(UTF8) } else { v6.clone() }
}

/// Version 4 shows lists as text.
fn shown_by_v4(v6: &Value) -> Value {
    match v6 {
        Value::Array(_) => json!(notation(v6)),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), shown_by_v4(member))).collect()
        }
        _ => shown_by_v5(v6),
    }
}

fn notation(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", list(items.iter().map(notation).collect())),
        // The object around an inner array exists only in the description, not in the payload.
        Value::Object(members) if members.len() == 1 && members.values().all(Value::is_array) => {
            members.values().map(notation).collect()
        }
        Value::Object(members) if members.contains_key("low") => {
            let part = |name: &str| u128::from(members[name].as_u64().unwrap());
            (part("high") << 64 | part("low")).to_string()
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}: {}", notation(value));
            format!("{{{}}}", list(members.iter().map(member).collect()))
        }
        Value::String(text) if text == GUID_TEXT => text.clone(),
        Value::String(text) => format!("\"{text}\""),
        _ => value.to_string(),
    }
}

#[test]
fn numbers() {
    check(
        &[
            case!("bool", Type::Bool, true, |e| e.bool(true)),
            case!("u8", Type::U8, 255, |e| e.u8(255)),
            case!("u16", Type::U16, 65_535, |e| e.u16(u16::MAX)),
            case!("u32", Type::U32, (u32::MAX), |e| e.u32(u32::MAX)),
            case!("u64", Type::U64, (u64::MAX), |e| e.u64(u64::MAX)),
            case!("i8", Type::I8, (-128), |e| e.i8(i8::MIN)),
            case!("i16", Type::I16, (i16::MIN), |e| e.i16(i16::MIN)),
            case!("i32", Type::I32, (i32::MIN), |e| e.i32(i32::MIN)),
            case!("i64", Type::I64, (i64::MIN), |e| e.i64(i64::MIN)),
            case!("u128", Type::U128, {"low": 2, "high": 1}, |e| e.u128(1 << 64 | 2)),
            case!("i128", Type::I128, {"low": u64::MAX, "high": -1}, |e| e.i128(-1)),
            case!("f32", Type::F32, 1.5, |e| e.f32(1.5)),
            case!("f32 nan", Type::F32, "NaN", |e| e.f32(f32::NAN)),
            case!("f64", Type::F64, (-0.25), |e| e.f64(-0.25)),
            case!("f64 infinity", Type::F64, "Infinity", |e| e.f64(f64::INFINITY)),
            case!("varuint", Type::VarUInt, (u64::MAX), |e| e.var_uint(u64::MAX)),
            case!("varuint small", Type::VarUInt, 127, |e| e.var_uint(127)),
            case!("varint", Type::VarInt, (i64::MIN), |e| e.var_int(i64::MIN)),
            case!("varint small", Type::VarInt, (-1), |e| e.var_int(-1)),
            case!("guid", Type::Guid, GUID_TEXT, |e| e.guid(&GUID)),
            case!("unix nanos", Type::UnixNanos, (-5), |e| e.unix_nanos(-5)),
            case!("duration", Type::DurationNanos, 1_500, |e| e.duration_nanos(1_500)),
            case!("date time", Type::DateTime, "2024-02-29T12:34:56.7890000Z", |e| e
                .date_time(1_709_210_096_789)),
            case!("date time first", Type::DateTime, "1601-01-01T00:00:00.0000000Z", |e| e
                .date_time(i64::MIN)),
            case!("date time last", Type::DateTime, "9999-12-31T23:59:59.9990000Z", |e| e
                .date_time(i64::MAX)),
        ],
        true,
    );
}

#[test]
fn text() {
    check(
        &[
            case!("utf16", STR, MIXED, |e| e.str(MIXED, Text::Utf16)),
            case!("utf16 nul", STR, "a\u{FFFD}b", |e| e.str("a\0b", Text::Utf16)),
            case!("utf16 empty", STR, "", |e| e.str("", Text::Utf16)),
            case!("terminated", Type::Str(Text::Utf16Nul), MIXED, |e| e.str(MIXED, Text::Utf16Nul)),
            case!("terminated nul", Type::Str(Text::Utf16Nul), "a\u{FFFD}b", |e| e
                .str("a\0b", Text::Utf16Nul)),
            case!("utf8 ascii", Type::Str(Text::Utf8), "abc", |e| e.str("abc", Text::Utf8)),
            // The reader shows UTF-8 as Latin-1, up to a NUL.
            case!("utf8", Type::Str(Text::Utf8), UTF8_AS_LATIN_1, |e| e.str("hé\0b", Text::Utf8)),
            case!("char", Type::Char, "🎈", |e| e.char('🎈')),
            case!("char nul", Type::Char, "\u{FFFD}", |e| e.char('\0')),
            case!("unit", Type::Utf16Unit, "é", |e| e.utf16_unit(0xE9)),
            case!("v4", Type::IpAddr, "127.0.0.1", |e| e.ip_addr(&[127, 0, 0, 1].into())),
            case!("v6", Type::IpAddr, "1:2:3:4:5:6:7:8", |e| e
                .ip_addr(&[1, 2, 3, 4, 5, 6, 7, 8].into())),
            case!("socket", Type::SocketAddr, "[::1]:65535", |e| e
                .socket_addr(&([0_u16, 0, 0, 0, 0, 0, 0, 1], u16::MAX).into())),
        ],
        true,
    );
}

#[test]
fn sequences() {
    const STRINGS: Type = Type::Array(&STR, Layout::Counted);
    const SHORTS: Type = Type::Array(&Type::U16, Layout::Counted);
    check(
        &[
            case!("u32s", Type::Array(&Type::U32, Layout::Counted), [1, 2], |e| {
                let mark = e.begin_array(2, Layout::Counted);
                e.u32(1);
                e.u32(2);
                e.end_array(mark);
            }),
            case!("bytes", Type::Array(&Type::U8, Layout::Counted), [0, 255], |e| {
                e.begin_array(2, Layout::Counted);
                e.u8_elements(&[0, 255]);
            }),
            case!("bools", Type::Array(&Type::Bool, Layout::Counted), [true, false], |e| {
                e.begin_array(2, Layout::Counted);
                e.bool(true);
                e.bool(false);
            }),
            case!("varints", Type::Array(&Type::VarInt, Layout::Counted), [-3, 300], |e| {
                e.begin_array(2, Layout::Counted);
                e.var_int(-3);
                e.var_int(300);
            }),
            case!("guids", Type::Array(&Type::Guid, Layout::Counted), [GUID_TEXT], |e| {
                e.begin_array(1, Layout::Counted);
                e.guid(&GUID);
            }),
            case!("strings", STRINGS, [MIXED, "", "b"], |e| {
                e.begin_array(3, Layout::Counted);
                e.str(MIXED, Text::Utf16);
                e.str("", Text::Utf16);
                e.str("b", Text::Utf16);
            }),
            case!("chars", Type::Array(&Type::Char, Layout::Counted), ["🎈", "b"], |e| {
                e.begin_array(2, Layout::Counted);
                e.char('🎈');
                e.char('b');
            }),
            // Readers show an array of code units as text.
            case!("units", Type::Array(&Type::Utf16Unit, Layout::Counted), "ab", |e| {
                e.begin_array(2, Layout::Counted);
                e.utf16_unit(0x61);
                e.utf16_unit(0x62);
            }),
            case!("fixed", Type::Array(&Type::U32, Layout::Fixed(3)), [1, 2, 3], |e| {
                e.begin_array(3, Layout::Fixed(3));
                e.u32(1);
                e.u32(2);
                e.u32(3);
            }),
            case!("fixed strings", Type::Array(&STR, Layout::Fixed(2)), ["a", MIXED], |e| {
                e.begin_array(2, Layout::Fixed(2));
                e.str("a", Text::Utf16);
                e.str(MIXED, Text::Utf16);
            }),
            case!(
                "nested",
                Type::Array(&SHORTS, Layout::Counted),
                [{"items": [1, 2]}, {"items": []}],
                |e| {
                    e.begin_array(2, Layout::Counted);
                    e.begin_array(2, Layout::Counted);
                    e.u16(1);
                    e.u16(2);
                    e.begin_array(0, Layout::Counted);
                }
            ),
            case!(
                "nested fixed",
                Type::Array(&Type::Array(&Type::U8, Layout::Fixed(2)), Layout::Fixed(2)),
                [{"items": [1, 2]}, {"items": [3, 4]}],
                |e| {
                    e.begin_array(2, Layout::Fixed(2));
                    e.u8_elements(&[1, 2, 3, 4]);
                }
            ),
            case!(
                "nested strings",
                Type::Array(&STRINGS, Layout::Counted),
                [{"items": ["a"]}, {"items": []}],
                |e| {
                    e.begin_array(2, Layout::Counted);
                    e.begin_array(1, Layout::Counted);
                    e.str("a", Text::Utf16);
                    e.begin_array(0, Layout::Counted);
                }
            ),
            case!("object", PAIR, {"number": -1, "text": MIXED}, |e| {
                e.i16(-1);
                e.str(MIXED, Text::Utf16);
            }),
            case!(
                "objects",
                Type::Array(&PAIR, Layout::Counted),
                [{"number": 1, "text": "a"}, {"number": 2, "text": ""}],
                |e| {
                    e.begin_array(2, Layout::Counted);
                    e.i16(1);
                    e.str("a", Text::Utf16);
                    e.i16(2);
                    e.str("", Text::Utf16);
                }
            ),
            case!("object in object", Type::Object(&[field("inner", PAIR)]),
                {"inner": {"number": 1, "text": "a"}}, |e| {
                e.i16(1);
                e.str("a", Text::Utf16);
            }),
            case!("unit", Type::Object(&[]), {}, |_e| {}),
        ],
        true,
    );
}

#[test]
fn options() {
    const OPTIONAL: Type = Type::Option(&STR);
    check(
        &[
            case!("some", Type::Option(&Type::U32), [5], |e| {
                let mark = e.begin_option(true, &Type::U32);
                e.u32(5);
                e.end_option(mark);
            }),
            case!("none", Type::Option(&Type::U32), [], |e| e.begin_option(false, &Type::U32)),
            case!("some string", OPTIONAL, [MIXED], |e| {
                e.begin_option(true, &STR);
                e.str(MIXED, Text::Utf16);
            }),
            case!("no string", OPTIONAL, [], |e| e.begin_option(false, &STR)),
            case!("some object", Type::Option(&PAIR), [{"number": 1, "text": "a"}], |e| {
                e.begin_option(true, &PAIR);
                e.i16(1);
                e.str("a", Text::Utf16);
            }),
            case!("some none", Type::Option(&OPTIONAL), [{"value": []}], |e| {
                e.begin_option(true, &OPTIONAL);
                e.begin_option(false, &STR);
            }),
            case!(
                "some array",
                Type::Option(&Type::Array(&Type::U8, Layout::Counted)),
                [{"value": [1, 2]}],
                |e| {
                    e.begin_option(true, &Type::U8);
                    e.begin_array(2, Layout::Counted);
                    e.u8_elements(&[1, 2]);
                }
            ),
            case!("options", Type::Array(&OPTIONAL, Layout::Counted),
                [{"items": ["a"]}, {"items": []}], |e| {
                e.begin_array(2, Layout::Counted);
                e.begin_option(true, &STR);
                e.str("a", Text::Utf16);
                e.begin_option(false, &STR);
            }),
        ],
        true,
    );
}

#[test]
fn locations() {
    check(
        &[
            location!("utf16 rel", Type::Str(Text::Utf16RelLoc), MIXED, |e| e
                .location_str(MIXED, Text::Utf16RelLoc)),
            location!("utf16 data", Type::Str(Text::Utf16DataLoc), "a\u{FFFD}b", |e| e
                .location_str("a\0b", Text::Utf16DataLoc)),
            location!("utf16 empty", Type::Str(Text::Utf16DataLoc), "", |e| e
                .location_str("", Text::Utf16DataLoc)),
            location!("utf8 rel", Type::Str(Text::Utf8RelLoc), "abc", |e| e
                .location_str("abc", Text::Utf8RelLoc)),
            location!("utf8 data", Type::Str(Text::Utf8DataLoc), "abc", |e| e
                .location_str("abc", Text::Utf8DataLoc)),
            location!("u32s rel", Type::Array(&Type::U32, Layout::RelLoc), [1, 2], |e| {
                e.u32(1);
                e.u32(2)
            }),
            location!("u32s data", Type::Array(&Type::U32, Layout::DataLoc), [1, 2], |e| {
                e.u32(1);
                e.u32(2)
            }),
            location!("bytes", Type::Array(&Type::U8, Layout::RelLoc), [1, 2], |e| e
                .u8_elements(&[1, 2])),
            location!("none", Type::Array(&Type::U8, Layout::RelLoc), [], |_e| {}),
            location!("u128s", Type::Array(&Type::U128, Layout::DataLoc),
                [{"low": 1, "high": 0}], |e| e.u128(1)),
            location!(
                "fixed arrays",
                Type::Array(&Type::Array(&Type::U8, Layout::Fixed(2)), Layout::DataLoc),
                [{"items": [1, 2]}, {"items": [3, 4]}],
                |e| e.u8_elements(&[1, 2, 3, 4])
            ),
        ],
        true,
    );
}

/// Types that make `dotnet-trace` refuse the file.
#[test]
fn newest_reader_only() {
    check(
        &[
            case!("bool8", Type::Bool8, true, |e| e.bool8(true)),
            case!("bool8s", Type::Array(&Type::Bool8, Layout::Counted), [true, false], |e| {
                e.begin_array(2, Layout::Counted);
                e.bool8(true);
                e.bool8(false);
            }),
        ],
        false,
    );
}

/// Two locations in one event, one of them in an object, before and after other fields.
#[test]
fn two_locations() {
    const REL: Type = Type::Str(Text::Utf16RelLoc);
    const DATA: Type = Type::Array(&Type::U16, Layout::DataLoc);
    const FIELDS: &[FieldSchema] =
        &[field("o", Type::Object(&[field("x", REL), field("y", Type::U8)])), field("d", DATA)];
    let payload = encode(|e| {
        let first = e.begin_location(&REL);
        e.u8(9);
        let second = e.begin_location(&DATA);
        e.begin_location_data(first, &REL);
        e.location_str(MIXED, Text::Utf16RelLoc);
        e.end_location_data(first, &REL);
        e.begin_location_data(second, &DATA);
        e.u16(1);
        e.u16(2);
        e.end_location_data(second, &DATA);
    })
    .unwrap();
    let bytes = file(&[(schema(1, "Two", FIELDS), payload)]);
    let Some(verdict) = judge_events(&bytes) else { return };
    let shown = json!({"o": {"x": MIXED, "y": 9}, "d": [1, 2]});
    assert_eq!(verdict.assert_clean().events[0]["fields"], shown);
}

/// The largest values that the encoder accepts are shown in full.
#[test]
fn largest_values() {
    const TEXT: &[FieldSchema] = &[field("v", STR)];
    const BYTES: &[FieldSchema] = &[field("v", Type::Array(&Type::U8, Layout::Counted))];
    const FIXED: &[FieldSchema] =
        &[field("v", Type::Array(&Type::U8, Layout::Fixed(MAX_PAYLOAD as u16)))];
    const LOCATION: &[FieldSchema] = &[field("v", Type::Array(&Type::U8, Layout::RelLoc))];
    let long = "x".repeat((MAX_PAYLOAD - 2) / 2);
    let bytes = vec![1; 32_767];
    let events = [
        (schema(1, "text", TEXT), encode(|e| e.str(&long, Text::Utf16)).unwrap()),
        (
            schema(2, "bytes", BYTES),
            encode(|e| {
                e.begin_array(bytes.len(), Layout::Counted);
                e.u8_elements(&bytes);
            })
            .unwrap(),
        ),
        (schema(3, "fixed", FIXED), vec![1; MAX_PAYLOAD]),
        (
            schema(4, "location", LOCATION),
            encode(|e| {
                let mark = e.begin_location(&LOCATION[0].ty);
                e.begin_location_data(mark, &LOCATION[0].ty);
                e.u8_elements(&bytes);
                e.end_location_data(mark, &LOCATION[0].ty);
            })
            .unwrap(),
        ),
    ];
    let file = file(&events);
    let Some(verdict) = judge_events(&file) else { return };
    verdict.assert_clean();
    let shown = |index: usize| &verdict.events[index]["fields"]["v"];
    assert_eq!(*shown(0), json!(long));
    assert_eq!(*shown(1), json!(bytes));
    assert_eq!(*shown(2), json!(vec![1; MAX_PAYLOAD]));
    assert_eq!(*shown(3), json!(bytes));
    dotnet_trace_opens(&file);
}
