//! The schemas and encoder calls that `#[derive(TraceEvent)]` generates for structs and enums.

mod recorder;

use std::borrow::Cow;

use nettrace_event::{
    ArrayLayout, FieldFormat, FieldRole, FieldType, Level, StrEncoding, TraceEvent as _, derived_id,
};
use nettrace_macros::{TraceEvent, TraceField};

use crate::recorder::{record, schema_of};

/// A request came in
/// from outside.
///
/// Not part of the description.
#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = "Contoso-Checkout", id = 7, version = 2)]
#[trace_event(level = Warning, keywords = 0x1 | HTTP, opcode = Start, tag = 0x10)]
#[trace_event(message = "{Url} took {micros}", key_values = [("team", "checkout"), ("tier", "1")])]
#[trace_event(provider_guid = "{01234567-89AB-cdef-0123-456789abcdef}", group = "contoso")]
struct Request<'a> {
    #[trace_event(rename = "Url", encoding = utf8, tag = 3, key_values = [("unit", "path")])]
    url: &'a str,
    micros: u64,
    #[trace_event(format = hex)]
    flags: u32,
    #[trace_event(skip)]
    _secret: std::cell::Cell<u8>,
    r#type: Option<Cow<'a, str>>,
}

const HTTP: u64 = 0x100;
const CHATTY: u8 = 6;

#[test]
fn levels_are_names_or_numbers() {
    #[derive(TraceEvent)]
    #[trace_event(crate = nettrace_event, level = 255)]
    enum Levels {
        Highest,
        #[trace_event(level = 0)]
        Always,
        #[trace_event(level = { CHATTY })]
        Chatty,
        #[trace_event(level = Verbose)]
        Named,
    }
    let all = [Levels::Highest, Levels::Always, Levels::Chatty, Levels::Named];
    let levels = all.map(|event| event.event_type().schema().level);
    assert_eq!(levels, [Level::new(255), Level::LogAlways, Level::new(6), Level::Verbose]);
}

#[test]
fn a_struct_is_described_and_encoded() {
    let request = Request {
        url: "/é",
        micros: 12,
        flags: 0xff,
        _secret: std::cell::Cell::new(0),
        r#type: Some("x".into()),
    };
    let schema = schema_of::<Request<'_>>();
    assert_eq!(schema.provider.name, "Contoso-Checkout");
    assert_eq!(
        schema.provider.guid,
        Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes())
    );
    assert_eq!(schema.provider.group, Some("contoso"));
    assert_eq!(schema.name, "Request");
    assert_eq!((schema.id, schema.id_is_explicit, schema.version), (7, true, 2));
    assert_eq!((schema.level, schema.keywords), (Level::Warning, 0x101));
    assert_eq!((schema.opcode, schema.tag), (Some(1), 0x10));
    assert_eq!(schema.message, Some("{Url} took {micros}"));
    assert_eq!(schema.description, Some("A request came in from outside."));
    assert_eq!(schema.key_values, [("team", "checkout"), ("tier", "1")]);
    let names: Vec<_> = schema.fields.iter().map(|field| field.name).collect();
    assert_eq!(names, ["Url", "micros", "flags", "type"]);
    let key_values = schema.fields.iter().map(|field| field.key_values).collect::<Vec<_>>();
    assert_eq!(key_values, [&[("unit", "path")][..], &[], &[], &[]]);
    assert_eq!(schema.fields[0].ty, FieldType::Str(StrEncoding::Utf8));
    assert_eq!(schema.fields[0].tag, 3);
    assert_eq!(schema.fields[2].format, FieldFormat::Hex);
    assert_eq!(
        record(&request),
        ["str Utf8 /é", "U64 12", "U32 255", "some", "str Utf16 x", "end"]
    );
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Plain;

#[test]
fn defaults_are_those_of_the_docs() {
    let schema = schema_of::<Plain>();
    assert_eq!(schema.provider.name, "nettrace-macros");
    assert_eq!((schema.provider.guid, schema.provider.group), (None, None));
    assert_eq!((schema.name, schema.id), ("Plain", derived_id("Plain")));
    assert!(!schema.id_is_explicit);
    assert_eq!((schema.version, schema.level, schema.keywords), (0, Level::Informational, 0));
    assert_eq!((schema.opcode, schema.tag), (None, 0));
    assert_eq!((schema.message, schema.description), (None, None));
    assert!(schema.key_values.is_empty() && schema.fields.is_empty());
    assert!(record(&Plain).is_empty());
    assert!(Plain::is_any_enabled(), "registration is still to come");
}

#[derive(TraceEvent)]
#[trace_event(crate = ::nettrace_event, message = "{0} and {1}")]
struct Pair(u8, #[trace_event(encoding = varint)] Vec<Option<i16>>);

#[test]
fn tuple_structs_name_their_fields_by_position() {
    let names: Vec<_> = schema_of::<Pair>().fields.iter().map(|field| field.name).collect();
    assert_eq!(names, ["0", "1"]);
    assert_eq!(
        record(&Pair(1, vec![Some(-2), None])),
        ["U8 1", "[ Counted 2", "some", "VarInt -2", "end", "none", "end", "]"]
    );
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = PROVIDER, level = Verbose, keywords = 0x2)]
#[trace_event(name = "Req", key_values = [("a", "1"), ("b", "2")], version = 9)]
enum Step<'a> {
    /// It begins.
    Start { path: &'a str, size: usize },
    #[trace_event(name = "Over", id = ids::OVER, level = Error, keywords = 0x4)]
    #[trace_event(opcode = { OPCODE })]
    #[trace_event(key_values = [("b", "3")], version = 1)]
    Stop(
        i32,
        #[trace_event(skip)]
        #[allow(dead_code)]
        f64,
        bool,
    ),
    #[trace_event(description = "nothing", opcode = 10)]
    Idle,
}

const PROVIDER: &str = "Steps";
const OPCODE: u8 = 44;
mod ids {
    pub(crate) const OVER: u16 = 12;
}

#[test]
fn each_variant_is_an_event() {
    let [start, stop, idle] = Step::event_types() else { panic!("three variants") };
    assert!(std::ptr::eq(*stop, Step::Stop(0, 0.0, true).event_type()));
    assert!(std::ptr::eq(*idle, Step::Idle.event_type()));
    let (start, stop, idle) = (start.schema(), stop.schema(), idle.schema());
    assert_eq!((start.name, stop.name, idle.name), ("ReqStart", "Over", "ReqIdle"));
    assert_eq!((start.id, stop.id), (derived_id("ReqStart"), 12));
    assert!(stop.id_is_explicit && !start.id_is_explicit);
    assert_eq!((start.level, stop.level), (Level::Verbose, Level::Error));
    assert_eq!((start.keywords, stop.keywords), (2, 4));
    assert_eq!((start.version, stop.version), (9, 1));
    assert_eq!((start.opcode, stop.opcode, idle.opcode), (None, Some(44), Some(10)));
    assert_eq!((start.description, idle.description), (Some("It begins."), Some("nothing")));
    assert_eq!(start.key_values, [("a", "1"), ("b", "2")]);
    assert_eq!(stop.key_values, [("a", "1"), ("b", "3")]);
    assert_eq!(start.provider.name, "Steps");
    assert_eq!(record(&Step::Start { path: "p", size: 3 }), ["str Utf16 p", "U64 3"]);
    assert_eq!(record(&Step::Stop(-1, 0.0, true)), ["I32 -1", "Bool true"]);
    assert_eq!(stop.fields[1].name, "2");
    assert!(record(&Step::Idle).is_empty());
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Located<'a> {
    #[trace_event(encoding = rel_loc)]
    text: String,
    plain: u8,
    #[trace_event(encoding = data_loc)]
    numbers: &'a [u32],
    #[trace_event(encoding = utf8_rel_loc)]
    small: &'a str,
    #[trace_event(encoding = utf8_data_loc)]
    boxed: Box<str>,
    #[trace_event(encoding = rel_loc)]
    pairs: Vec<(u8, [i16; 2])>,
    #[trace_event(encoding = data_loc)]
    wide: Cow<'a, str>,
}

#[test]
fn located_data_follows_all_fields_in_order() {
    let event = Located {
        text: "t".into(),
        plain: 1,
        numbers: &[5, 6],
        small: "s",
        boxed: "b".into(),
        pairs: vec![(1, [2, 3])],
        wide: "w".into(),
    };
    assert_eq!(
        schema_of::<Located<'_>>().fields[2].ty,
        FieldType::Array(&FieldType::U32, ArrayLayout::DataLoc)
    );
    let calls = record(&event);
    let (fields, data) = calls.split_at(7);
    assert_eq!(fields[1], "U8 1");
    assert_eq!(data[..3], ["data", "data str Utf16RelLoc t", "end data"]);
    assert_eq!(data[3..7], ["data", "U32 5", "U32 6", "end data"]);
    assert_eq!(data[7..9], ["data", "data str Utf8RelLoc s"]);
    assert_eq!(data[11], "data str Utf8DataLoc b");
    assert_eq!(data[13..16], ["data", "U8 1", "[ Fixed(2) 2"]);
    assert_eq!(data[data.len() - 2], "data str Utf16DataLoc w");
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Span {
    #[trace_event(start)]
    from: std::time::SystemTime,
    #[trace_event(end)]
    to: std::time::SystemTime,
    #[trace_event(description)]
    what: &'static str,
    #[trace_event(format = port)]
    ports: [u16; 2],
    #[trace_event(format = errno)]
    error: Option<i32>,
}

#[test]
fn roles_and_formats_are_in_the_schema() {
    let fields = schema_of::<Span>().fields;
    let roles: Vec<_> = fields.iter().map(|field| field.role).collect();
    use FieldRole::*;
    assert_eq!(roles, [Start, End, Description, Value, Value]);
    assert_eq!(fields[3].format, FieldFormat::Port);
    assert_eq!(fields[4].format, FieldFormat::Errno);
    let epoch = std::time::UNIX_EPOCH;
    let span = Span { from: epoch, to: epoch, what: "w", ports: [1, 2], error: None };
    assert_eq!(record(&span).len(), 9);
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
#[repr(C, packed)]
struct Packed {
    a: u8,
    b: u64,
    c: [u16; 2],
}

#[test]
fn packed_structs_are_read_by_copy() {
    let packed = Packed { a: 1, b: 2, c: [3, 4] };
    assert_eq!(record(&packed), ["U8 1", "U64 2", "[ Fixed(2) 2", "U16 3", "U16 4", "]"]);
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Point {
    x: i32,
    #[trace_event(rename = "Y", encoding = varint)]
    y: u32,
    #[trace_event(skip)]
    _z: u8,
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Wrapper<'a, T, const N: usize> {
    inner: &'a T,
    list: [T; N],
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, transparent)]
struct Meters(f64, #[trace_event(skip)] ());

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, transparent)]
struct Text(String);

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
#[allow(dead_code)]
enum Color {
    Red,
    #[trace_event(rename = "Grün")]
    Green = 5,
    Blue = -70_000,
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, encoding = number)]
#[repr(u8)]
#[allow(dead_code)]
enum Code {
    Low = 1,
    High = 255,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Nested<'a> {
    points: Vec<Point>,
    wrapper: Wrapper<'a, u16, 2>,
    meters: Meters,
    #[trace_event(encoding = utf8)]
    text: Option<Text>,
    color: Color,
    #[trace_event(encoding = number)]
    colors: [Color; 2],
    code: Code,
    #[trace_event(encoding = name)]
    codes: &'a [Code],
}

#[test]
fn nested_values_follow_their_own_derive() {
    let event = Nested {
        points: vec![Point { x: -1, y: 2, _z: 0 }],
        wrapper: Wrapper { inner: &7, list: [8, 9] },
        meters: Meters(1.5, ()),
        text: Some(Text("ü".into())),
        color: Color::Green,
        colors: [Color::Blue, Color::Red],
        code: Code::High,
        codes: &[Code::Low],
    };
    let fields = schema_of::<Nested<'_>>().fields;
    let FieldType::Array(FieldType::Object(point), ArrayLayout::Counted) = fields[0].ty else {
        panic!("{:?}", fields[0].ty)
    };
    assert_eq!((point[1].name, point[1].ty), ("Y", FieldType::VarUInt));
    assert_eq!(fields[2].ty, FieldType::F64);
    assert_eq!(fields[6].ty, FieldType::U8);
    assert_eq!(
        record(&event).join(", "),
        "[ Counted 1, I32 -1, VarUInt 2, ], U16 7, [ Fixed(2) 2, U16 8, U16 9, ], F64 1.5, \
         some, str Utf8 ü, end, str Utf16 Grün, [ Fixed(2) 2, I32 -70000, I32 0, ], U8 255, \
         [ Counted 1, str Utf16 Low, ]"
    );
}

#[doc = include_str!("events_doc.md")]
#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Included {
    #[doc = concat!("Of ", "parts.")]
    _part: u8,
}

/// A literal,
#[doc = concat!("and a ", "macro.\n\nNot this.")]
#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Mixed;

/// A literal.
///
#[doc = include_str!("events_doc.md")]
#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Variants {
    /// Before.
    ///
    #[doc = include_str!("events_doc.md")]
    Over,
    #[doc = ""]
    #[doc = concat!("\n", "  Of a macro.  \n")]
    Macro,
    #[allow(clippy::empty_docs, reason = "the point of the test")]
    #[doc = concat!("\n", "\n")]
    Empty,
}

macro_rules! described {
    ($name:ident, $doc:expr) => {
        #[doc = $doc]
        #[derive(TraceEvent)]
        #[trace_event(crate = nettrace_event)]
        struct $name;
    };
}
described!(ByLiteral, "By a literal.");
described!(ByMacro, concat!("By a ", "macro."));

#[test]
fn a_description_may_be_a_macro() {
    let described = schema_of::<Included>().description;
    assert_eq!(described, Some("An answer, the größte of all."));
    assert_eq!(schema_of::<Mixed>().description, Some("A literal, and a macro."));
    let variants = Variants::event_types().iter().map(|ty| ty.schema().description);
    assert!(variants.eq([Some("Before."), Some("Of a macro."), None]));
    assert_eq!(schema_of::<ByLiteral>().description, Some("By a literal."));
    assert_eq!(schema_of::<ByMacro>().description, Some("By a macro."));
    let _ = (Included { _part: 1 }, Variants::Over, Variants::Macro, Variants::Empty);
    let _ = (Mixed, ByLiteral, ByMacro);
}
