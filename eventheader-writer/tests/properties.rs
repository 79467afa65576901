//! Encodes random types and values, and compares what the decoder shows with the table in
//! `docs/shapes.md`, which this file implements independently of the encoder.

mod decoder;
mod generated;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use decoder::decode;
use eventheader_writer::{Context, Error, FieldFormat, Level, TraceEvent, encoded};
use generated::{Field, Ty, Val, encode, fields_and_values};
use nettrace_event::{
    ArrayLayout, EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, Place,
    ProviderSchema, check,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// An event of a random type.
struct MadeUp {
    ty: &'static EventType,
    fields: Vec<Field>,
    values: Vec<Val>,
}

impl TraceEvent for MadeUp {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encode(&self.fields, &self.values, encoder);
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    id: Option<u16>,
    version: u8,
    level: Level,
    opcode: Option<u8>,
    tag: u16,
    activity: Option<[u8; 16]>,
    related: Option<[u8; 16]>,
}

fn head() -> impl Strategy<Value = Head> {
    let level = any::<u8>().prop_map(Level::new);
    let id = proptest::option::of(1_u16..65_535);
    let numbers = (any::<u8>(), any::<Option<u8>>(), any::<u16>());
    let activities = (any::<Option<[u8; 16]>>(), any::<Option<[u8; 16]>>());
    (id, level, numbers, activities).prop_map(|(id, level, (version, opcode, tag), activities)| {
        let (activity, related) = activities;
        Head { id, version, level, opcode, tag, activity, related }
    })
}

fn schema(head: &Head, fields: &[Field]) -> EventSchema {
    let fields: Vec<FieldSchema> = fields.iter().map(|field| field.schema).collect();
    EventSchema {
        provider: ProviderSchema { name: "Made-Up", guid: None, group: None },
        name: "MadeUp",
        id: head.id.unwrap_or(9_999),
        place: Place::UNKNOWN,
        id_is_explicit: head.id.is_some(),
        version: head.version,
        level: head.level,
        keywords: 0,
        opcode: head.opcode,
        tag: head.tag,
        message: None,
        description: None,
        key_values: &[],
        fields: Box::leak(fields.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(512),
        ..Default::default()
    })]

    #[test]
    fn every_shape_and_value_is_shown(head in head(), (fields, values) in fields_and_values()) {
        let schema: &'static EventSchema = Box::leak(Box::new(schema(&head, &fields)));
        let ty: &'static EventType = Box::leak(Box::new(EventType::new(schema)));
        let event = MadeUp { ty, fields, values };
        let mut context = Context::new();
        if let Some(id) = &head.activity {
            context = context.activity(id);
        }
        if let Some(id) = &head.related {
            context = context.related(id);
        }
        let bytes = match encoded(&event, &context) {
            Ok(bytes) => bytes,
            Err(error) => {
                // A type that the compiler accepts can be described, if there is room for its
                // metadata.
                let expected = match error {
                    Error::TooDeep { .. } | Error::TooManyFields { .. } => {
                        !check::can_nest(schema.fields)
                    }
                    Error::TooLarge { .. } | Error::Metadata { .. } => true,
                    _ => false,
                };
                prop_assert!(expected, "{error}");
                return Ok(());
            }
        };
        prop_assert!(check::can_nest(schema.fields), "described though it nests too deep");
        let level = head.level.number().max(1);
        let decoded = decode(&format!("Made_Up_L{level:x}K0"), &bytes);
        prop_assert_eq!(decoded.id, head.id.unwrap_or(0));
        prop_assert_eq!((decoded.version, decoded.tag), (head.version, head.tag));
        prop_assert_eq!((decoded.level, decoded.opcode), (level, head.opcode.unwrap_or(0)));
        let related = head.related.filter(|_| head.activity.is_some());
        prop_assert_eq!((decoded.activity, decoded.related), (head.activity, related));
        let (shown, expected) = (Value::from(decoded.fields), object(&event.fields, &event.values));
        prop_assert_eq!(difference(&expected, &shown), None);
    }
}

fn object(fields: &[Field], values: &[Val]) -> Value {
    let of = |(field, value): (&Field, &Val)| {
        let mut name = field.schema.name.to_owned();
        for (key, value) in field.schema.key_values {
            name.push_str(&format!(";{key}={}", value.replace(';', ";;")));
        }
        if field.tag != 0 {
            name.push_str(&format!(";tag=0x{:X}", field.tag));
        }
        (name, expected(&field.ty, value, field.format, false))
    };
    Value::from(fields.iter().zip(values).map(of).collect::<Map<_, _>>())
}

/// The text that a value is shown as. `element` states that it is one of several.
fn expected(ty: &Ty, value: &Val, format: FieldFormat, element: bool) -> Value {
    match (ty, value) {
        (Ty::Scalar(scalar), value) => expected_scalar(scalar, value, format),
        (Ty::Text(encoding), Val::Text(text)) => {
            use nettrace_event::StrEncoding::Utf16Nul;
            json!(if *encoding == Utf16Nul { text.replace('\0', "\u{FFFD}") } else { text.clone() })
        }
        (Ty::Array(inner, count), Val::List(list)) => {
            if let Some(one) = expected_bytes(inner, *count, list, format) {
                return one;
            }
            let list = list.iter().map(|value| expected(inner, value, format, true)).collect();
            if element { json!({ "items": Value::Array(list) }) } else { Value::Array(list) }
        }
        (Ty::Object(fields), Val::List(values)) => object(fields, values),
        (Ty::Option(inner), Val::Maybe(value)) => {
            let some = value.as_ref().map(|value| expected(inner, value, format, true));
            if let Some(null) = null(inner, format) {
                return some.unwrap_or(null);
            }
            let list = Value::Array(some.into_iter().collect());
            if element { json!({ "value": list }) } else { list }
        }
        other => unreachable!("{other:?}"),
    }
}

/// The text for an absent value, if the format has one.
fn null(ty: &Ty, format: FieldFormat) -> Option<Value> {
    let is_text_or_bytes = |scalar: &FieldType| {
        use FieldType::{Char, I128, U128, Utf16Unit};
        format == FieldFormat::HexBytes || matches!(scalar, Char | Utf16Unit | U128 | I128)
    };
    match ty {
        Ty::Scalar(FieldType::SocketAddr) => None,
        Ty::Scalar(scalar) if is_text_or_bytes(scalar) => Some(json!("")),
        Ty::Scalar(_) => Some(Value::Null),
        Ty::Array(element, Some(_)) if matches!(**element, Ty::Scalar(FieldType::U8)) => {
            match format {
                FieldFormat::HexBytes => Some(json!("")),
                FieldFormat::IpAddress | FieldFormat::Uuid => Some(Value::Null),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The text of a sequence that is a single value.
fn expected_bytes(ty: &Ty, count: Option<u16>, list: &[Val], format: FieldFormat) -> Option<Value> {
    use FieldFormat as F;
    let Ty::Scalar(scalar) = ty else { return None };
    let units = || {
        list.iter().map(|value| match value {
            Val::Bits(bits) => *bits as u32,
            Val::Char(c) => u32::from(*c),
            other => unreachable!("{other:?}"),
        })
    };
    let bytes = || units().map(|unit| unit as u8).collect::<Vec<u8>>();
    let text = match (scalar, format) {
        (FieldType::U8, F::HexBytes) => hex_bytes(&bytes()),
        (FieldType::U8, F::Latin1) => bytes().into_iter().map(char::from).collect(),
        (FieldType::U8, F::Utf | F::UtfBom | F::Xml | F::Json) => {
            String::from_utf8(bytes()).expect("made of text")
        }
        (FieldType::U16 | FieldType::Utf16Unit, F::Utf | F::UtfBom) => {
            let units: Vec<_> = units().map(|unit| unit as u16).collect();
            String::from_utf16(&units).expect("made of text")
        }
        (FieldType::U32 | FieldType::Char, F::Utf | F::UtfBom) => {
            units().map(|unit| char::from_u32(unit).expect("made of text")).collect()
        }
        (FieldType::U8, F::IpAddress) if count == Some(4) => {
            Ipv4Addr::from(<[u8; 4]>::try_from(bytes()).expect("four")).to_string()
        }
        (FieldType::U8, F::IpAddress) => {
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes()).expect("sixteen")).to_string()
        }
        (FieldType::U8, F::Uuid) => guid(&bytes().try_into().expect("sixteen")),
        _ => return None,
    };
    Some(json!(text))
}

fn expected_scalar(ty: &FieldType, value: &Val, format: FieldFormat) -> Value {
    use FieldType as T;
    match (ty, value) {
        (_, Val::Bool(value)) => json!(value),
        (_, Val::Wide(bits)) => json!(hex_bytes(&bits.to_be_bytes())),
        (_, Val::F32(value)) => float(f64::from(*value), value.to_string()),
        (_, Val::F64(value)) => float(*value, value.to_string()),
        (_, Val::Char(c)) => json!(c),
        (_, Val::Guid(bytes)) => json!(guid(bytes)),
        (_, Val::Ip(address)) => json!(address.to_string()),
        (_, Val::Socket(address)) => {
            json!({ "address": address.ip().to_string(), "port": address.port() })
        }
        (T::Utf16Unit, Val::Bits(bits)) => {
            json!(char::from_u32(u32::from(*bits as u16)).unwrap_or('\u{FFFD}'))
        }
        (T::UnixNanos, Val::Bits(bits)) if format == FieldFormat::Time => {
            json!(calendar((*bits as i64).div_euclid(1_000_000_000)))
        }
        (T::UnixNanos, Val::Bits(bits)) => json!(*bits as i64),
        (T::DurationNanos, Val::Bits(bits)) => json!(bits),
        (T::DateTime, Val::Bits(bits)) => json!(calendar((*bits as i64).div_euclid(1_000))),
        (T::U8, Val::Bits(bits)) => integer(&(*bits as u8).to_ne_bytes(), false, format),
        (T::U16, Val::Bits(bits)) => integer(&(*bits as u16).to_ne_bytes(), false, format),
        (T::U32, Val::Bits(bits)) => integer(&(*bits as u32).to_ne_bytes(), false, format),
        (T::U64 | T::VarUInt, Val::Bits(bits)) => integer(&bits.to_ne_bytes(), false, format),
        (T::I8, Val::Bits(bits)) => integer(&(*bits as u8).to_ne_bytes(), true, format),
        (T::I16, Val::Bits(bits)) => integer(&(*bits as u16).to_ne_bytes(), true, format),
        (T::I32, Val::Bits(bits)) => integer(&(*bits as u32).to_ne_bytes(), true, format),
        (T::I64 | T::VarInt, Val::Bits(bits)) => integer(&bits.to_ne_bytes(), true, format),
        other => unreachable!("{other:?}"),
    }
}

/// An integer with the given bytes, in native byte order.
fn integer(bytes: &[u8], is_signed: bool, format: FieldFormat) -> Value {
    let (unsigned, signed) = match *bytes {
        [a] => (u64::from(a), i64::from(a as i8)),
        [a, b] => {
            let bits = u16::from_ne_bytes([a, b]);
            (u64::from(bits), i64::from(bits as i16))
        }
        [a, b, c, d] => {
            let bits = u32::from_ne_bytes([a, b, c, d]);
            (u64::from(bits), i64::from(bits as i32))
        }
        _ => {
            let bits = u64::from_ne_bytes(bytes.try_into().expect("eight"));
            (bits, bits as i64)
        }
    };
    match format {
        FieldFormat::Signed | FieldFormat::Pid => json!(signed),
        FieldFormat::Unsigned | FieldFormat::Port => json!(unsigned),
        FieldFormat::Hex => json!(format!("0x{unsigned:X}")),
        FieldFormat::Boolean => match unsigned {
            0 => json!(false),
            1 => json!(true),
            other => json!(format!("BOOL({})", other as i32)),
        },
        FieldFormat::Errno => json!({ "errno": signed }),
        FieldFormat::Time => json!(calendar(signed)),
        FieldFormat::IpAddress => json!(IpAddr::from(Ipv4Addr::from(unsigned as u32)).to_string()),
        FieldFormat::HexBytes => json!(hex_bytes(bytes)),
        _ if is_signed => json!(signed),
        _ => json!(unsigned),
    }
}

fn float(value: f64, text: String) -> Value {
    if value.is_finite() {
        text.parse().map_or(Value::Null, |value: f64| json!(value))
    } else {
        json!(text)
    }
}

fn hex_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" ")
}

fn guid(bytes: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*bytes).to_string()
}

/// Seconds since 1970 as a calendar date, computed by counting days in units of four centuries.
fn calendar(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970 + 400 * days.div_euclid(146_097);
    let mut days = days.rem_euclid(146_097);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", month + 1, days + 1, second % 60)
}

/// The first difference between the two. Ignores the last digit of a float, and the names of
/// errors, which are the decoder's.
fn difference(expected: &Value, shown: &Value) -> Option<String> {
    let is_same = match (expected, shown) {
        (Value::Object(expected), Value::String(shown)) => {
            expected.get("errno").is_some_and(|number| shown.ends_with(&format!("({number})")))
        }
        (Value::Object(expected), Value::Object(shown)) if expected.len() == shown.len() => {
            return expected.iter().find_map(|(key, value)| {
                let found = difference(value, shown.get(key).unwrap_or(&Value::Null));
                found.map(|rest| format!("{key}/{rest}"))
            });
        }
        (Value::Array(expected), Value::Array(shown)) if expected.len() == shown.len() => {
            return expected.iter().zip(shown).enumerate().find_map(|(at, (expected, shown))| {
                difference(expected, shown).map(|rest| format!("{at}/{rest}"))
            });
        }
        (Value::Number(expected), Value::Number(shown)) if expected.is_f64() => {
            let pair = expected.as_f64().zip(shown.as_f64());
            pair.is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-14 || a == b)
        }
        _ => expected == shown,
    };
    (!is_same).then(|| format!(": expected {expected:?}, shown {shown:?}"))
}

/// Not covered by the properties: the sizes of the schema's arrays are those of their values.
#[test]
fn an_array_of_another_length_is_refused() {
    static SCHEMA: EventSchema = EventSchema {
        provider: ProviderSchema { name: "Made-Up", guid: None, group: None },
        name: "Wrong",
        id: 1,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: None,
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields: &[FieldSchema::new(
            "pair",
            FieldType::Array(&FieldType::U16, ArrayLayout::Fixed(2)),
        )],
    };
    static TYPE: EventType = EventType::new(&SCHEMA);
    struct Wrong(usize);
    impl TraceEvent for Wrong {
        fn event_types() -> &'static [&'static EventType] {
            static TYPES: [&EventType; 1] = [&TYPE];
            &TYPES
        }

        fn event_type(&self) -> &'static EventType {
            &TYPE
        }

        fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
            let mark =
                encoder.begin_array_of(self.0, ArrayLayout::Fixed(2), const { &FieldType::U16 });
            (0..self.0).for_each(|_| encoder.u16(7));
            encoder.end_array(mark);
        }
    }
    assert!(encoded(&Wrong(2), &Context::new()).is_ok());
    assert!(matches!(encoded(&Wrong(3), &Context::new()), Err(Error::TooLarge { .. })));
}
