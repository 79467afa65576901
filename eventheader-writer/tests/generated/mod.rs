//! Random types and values, of every form that a derive can give a field.

use std::net::{IpAddr, SocketAddr};

use eventheader_writer::FieldFormat;
use nettrace_event::{ArrayLayout, FieldSchema, FieldType, PayloadEncoder, StrEncoding, check};
use proptest::{collection::vec, prelude::*};

/// A type of field, as a tree that can be dropped (a schema is static).
#[derive(Clone, Debug)]
pub(crate) enum Ty {
    Scalar(FieldType),
    Text(StrEncoding),
    /// The elements' type, and their number if the type states it.
    Array(Box<Ty>, Option<u16>),
    Object(Vec<Field>),
    Option(Box<Ty>),
}

/// A field of an event or of an object.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) ty: Ty,
    pub(crate) format: FieldFormat,
    pub(crate) tag: u16,
    /// Whether the field has a location, so that its data comes after the other fields.
    pub(crate) located: bool,
    pub(crate) schema: FieldSchema,
}

/// A value of such a type.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Bool(bool),
    /// An integer of up to 64 bits, by its bits.
    Bits(u64),
    Wide(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Text(String),
    Guid([u8; 16]),
    Ip(IpAddr),
    Socket(SocketAddr),
    List(Vec<Val>),
    Maybe(Option<Box<Val>>),
}

const SCALARS: &[FieldType] = &[
    FieldType::Bool,
    FieldType::Bool8,
    FieldType::U8,
    FieldType::U16,
    FieldType::U32,
    FieldType::U64,
    FieldType::U128,
    FieldType::I8,
    FieldType::I16,
    FieldType::I32,
    FieldType::I64,
    FieldType::I128,
    FieldType::F32,
    FieldType::F64,
    FieldType::VarUInt,
    FieldType::VarInt,
    FieldType::Char,
    FieldType::Utf16Unit,
    FieldType::Guid,
    FieldType::UnixNanos,
    FieldType::DateTime,
    FieldType::DurationNanos,
    FieldType::IpAddr,
    FieldType::SocketAddr,
];

const FORMATS: &[FieldFormat] = &[
    FieldFormat::Default,
    FieldFormat::Signed,
    FieldFormat::Unsigned,
    FieldFormat::Hex,
    FieldFormat::Boolean,
    FieldFormat::Errno,
    FieldFormat::Pid,
    FieldFormat::Time,
    FieldFormat::Port,
    FieldFormat::IpAddress,
    FieldFormat::Uuid,
    FieldFormat::Latin1,
    FieldFormat::Utf,
    FieldFormat::UtfBom,
    FieldFormat::Xml,
    FieldFormat::Json,
    FieldFormat::HexBytes,
];

/// The fields of an event, and their values.
pub(crate) fn fields_and_values() -> impl Strategy<Value = (Vec<Field>, Vec<Val>)> {
    vec(field(), 0..6).prop_map(|all| numbered(&all)).prop_flat_map(|fields| {
        let values: Vec<_> = fields.iter().map(|field| value(&field.ty, field.format)).collect();
        (Just(fields), values)
    })
}

/// Passes the fields of an event or an object to an encoder, as derived code does.
pub(crate) fn encode<E: PayloadEncoder>(fields: &[Field], values: &[Val], encoder: &mut E) {
    let mut data = Vec::new();
    for (field, value) in fields.iter().zip(values) {
        if field.format != FieldFormat::Default {
            encoder.begin_format(field.format);
        }
        let ty: &'static FieldType = leak(field.schema.ty);
        if field.located {
            data.push((encoder.begin_location(ty), ty, field, value));
        } else {
            encode_value(&field.ty, value, encoder);
        }
        if field.format != FieldFormat::Default {
            encoder.end_format();
        }
    }
    for (mark, ty, field, value) in data {
        encoder.begin_format(field.format);
        encoder.begin_location_data(mark, ty);
        match (&field.ty, ty, value) {
            (_, FieldType::Str(encoding), Val::Text(text)) => encoder.location_str(text, *encoding),
            (Ty::Array(element, _), _, Val::List(list)) => encode_elements(element, list, encoder),
            other => unreachable!("{other:?}"),
        }
        encoder.end_location_data(mark, ty);
        encoder.end_format();
    }
}

fn encode_value<E: PayloadEncoder>(ty: &Ty, value: &Val, encoder: &mut E) {
    use FieldType as T;
    match (ty, value) {
        (Ty::Scalar(scalar), value) => match (scalar, value) {
            (T::Bool, Val::Bool(value)) => encoder.bool(*value),
            (T::Bool8, Val::Bool(value)) => encoder.bool8(*value),
            (T::U8, Val::Bits(bits)) => encoder.u8(*bits as u8),
            (T::U16, Val::Bits(bits)) => encoder.u16(*bits as u16),
            (T::U32, Val::Bits(bits)) => encoder.u32(*bits as u32),
            (T::U64, Val::Bits(bits)) => encoder.u64(*bits),
            (T::I8, Val::Bits(bits)) => encoder.i8(*bits as i8),
            (T::I16, Val::Bits(bits)) => encoder.i16(*bits as i16),
            (T::I32, Val::Bits(bits)) => encoder.i32(*bits as i32),
            (T::I64, Val::Bits(bits)) => encoder.i64(*bits as i64),
            (T::VarUInt, Val::Bits(bits)) => encoder.var_uint(*bits),
            (T::VarInt, Val::Bits(bits)) => encoder.var_int(*bits as i64),
            (T::Utf16Unit, Val::Bits(bits)) => encoder.utf16_unit(*bits as u16),
            (T::UnixNanos, Val::Bits(bits)) => encoder.unix_nanos(*bits as i64),
            (T::DateTime, Val::Bits(bits)) => encoder.date_time(*bits as i64),
            (T::DurationNanos, Val::Bits(bits)) => encoder.duration_nanos(*bits),
            (T::U128, Val::Wide(bits)) => encoder.u128(*bits),
            (T::I128, Val::Wide(bits)) => encoder.i128(*bits as i128),
            (T::F32, Val::F32(value)) => encoder.f32(*value),
            (T::F64, Val::F64(value)) => encoder.f64(*value),
            (T::Char, Val::Char(value)) => encoder.char(*value),
            (T::Guid, Val::Guid(value)) => encoder.guid(value),
            (T::IpAddr, Val::Ip(value)) => encoder.ip_addr(value),
            (T::SocketAddr, Val::Socket(value)) => encoder.socket_addr(value),
            other => unreachable!("{other:?}"),
        },
        (Ty::Text(encoding), Val::Text(text)) => encoder.str(text, *encoding),
        (Ty::Array(element, count), Val::List(list)) => {
            let mark = encoder.begin_array_of(list.len(), layout(*count), leak(plain(element)));
            encode_elements(element, list, encoder);
            encoder.end_array(mark);
        }
        (Ty::Object(fields), Val::List(values)) => encode(fields, values, encoder),
        (Ty::Option(inner), Val::Maybe(value)) => {
            let mark = encoder.begin_option(value.is_some(), leak(plain(inner)));
            if let Some(value) = value {
                encode_value(inner, value, encoder);
            }
            encoder.end_option(mark);
        }
        other => unreachable!("{other:?}"),
    }
}

fn encode_elements<E: PayloadEncoder>(ty: &Ty, list: &[Val], encoder: &mut E) {
    if let Ty::Scalar(FieldType::U8) = ty {
        let byte = |value: &Val| if let Val::Bits(bits) = value { *bits as u8 } else { 0 };
        return encoder.u8_elements(&list.iter().map(byte).collect::<Vec<_>>());
    }
    list.iter().for_each(|value| encode_value(ty, value, encoder));
}

/// The type of the schema, which is leaked.
fn plain(ty: &Ty) -> FieldType {
    match ty {
        Ty::Scalar(scalar) => *scalar,
        Ty::Text(encoding) => FieldType::Str(*encoding),
        Ty::Array(element, count) => FieldType::Array(leak(plain(element)), layout(*count)),
        Ty::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| field.schema).collect();
            FieldType::Object(Box::leak(fields.into()))
        }
        Ty::Option(inner) => FieldType::Option(leak(plain(inner))),
    }
}

fn layout(count: Option<u16>) -> ArrayLayout {
    count.map_or(ArrayLayout::Counted, ArrayLayout::Fixed)
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Any type; sometimes one of nearly the deepest nesting.
fn ty() -> impl Strategy<Value = Ty> {
    let around = prop_oneof![12 => Just(Vec::new()), 1 => vec(0_u8..4, 6..14)];
    (bushy(), around).prop_map(|(ty, around)| {
        around.into_iter().fold(ty, |ty, kind| match kind {
            0 => Ty::Array(Box::new(ty), None),
            1 => Ty::Option(Box::new(ty)),
            _ => Ty::Object(numbered(&[(ty, 0, 0, 0)])),
        })
    })
}

fn bushy() -> impl Strategy<Value = Ty> {
    use StrEncoding::{Utf8, Utf16, Utf16Nul};
    let bytes = || Box::new(Ty::Scalar(FieldType::U8));
    let counts = prop_oneof![Just(4_u16), Just(6), Just(16)];
    let leaf = prop_oneof![
        6 => proptest::sample::select(SCALARS).prop_map(Ty::Scalar),
        2 => proptest::sample::select(vec![Utf16, Utf16Nul, Utf8]).prop_map(Ty::Text),
        // Types with formats of their own.
        1 => counts.prop_map(move |count| Ty::Array(bytes(), Some(count))),
    ];
    leaf.prop_recursive(9, 32, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed.clone(), prop_oneof![Just(None), (1_u16..4).prop_map(Some)])
                .prop_map(|(element, count)| Ty::Array(element, count)),
            boxed.prop_map(Ty::Option),
            vec(field_of(inner), 1..5).prop_map(|fields| Ty::Object(numbered(&fields))),
        ]
    })
}

/// A type, and numbers that choose its format, its tag, and whether it has a location.
type Chosen = (Ty, usize, u16, u8);

fn field_of(ty: impl Strategy<Value = Ty>) -> impl Strategy<Value = Chosen> {
    let tag = prop_oneof![2 => Just(0_u16), 1 => any::<u16>()];
    // Without locations: only the fields of an event can have one.
    (ty, any::<usize>(), tag, Just(0))
}

fn field() -> impl Strategy<Value = Chosen> {
    (field_of(ty()), any::<u8>()).prop_map(|((ty, format, tag, _), at)| (ty, format, tag, at))
}

/// Fields with distinct names and with formats that fit.
fn numbered(all: &[Chosen]) -> Vec<Field> {
    let of = |(at, (ty, format, tag, place)): (usize, &Chosen)| {
        let mut described = plain(ty);
        let located = place % 4 == 1 && check::is_locatable(&described);
        if located {
            described = match described {
                FieldType::Array(element, _) if place & 4 == 0 => {
                    FieldType::Array(element, ArrayLayout::RelLoc)
                }
                FieldType::Array(element, _) => FieldType::Array(element, ArrayLayout::DataLoc),
                _ if place & 4 == 0 => FieldType::Str(StrEncoding::Utf8RelLoc),
                _ => FieldType::Str(StrEncoding::Utf16DataLoc),
            };
        }
        let fitting: Vec<_> =
            FORMATS.iter().filter(|one| check::format_fits(**one, &described)).collect();
        let format = *fitting[format % fitting.len()];
        let name: &'static str = Box::leak(format!("f{at}").into());
        // This decoder shows a field's attributes as a part of its name.
        let key_values: &[_] = if place & 8 == 0 { &[] } else { &[("unit", "a;b"), ("k", "")] };
        let plain = FieldSchema::new(name, described);
        let schema = FieldSchema { format, tag: *tag, key_values, ..plain };
        let ty = match ty {
            // With a location, the value decides the number of elements.
            Ty::Array(element, _) if located => Ty::Array(element.clone(), None),
            Ty::Text(_) if located => Ty::Text(StrEncoding::Utf8),
            ty => ty.clone(),
        };
        Field { ty, format, tag: *tag, located, schema }
    };
    all.iter().enumerate().map(of).collect()
}

fn value(ty: &Ty, format: FieldFormat) -> BoxedStrategy<Val> {
    use FieldType as T;
    match ty {
        Ty::Scalar(T::Bool | T::Bool8) => any::<bool>().prop_map(Val::Bool).boxed(),
        Ty::Scalar(T::U128 | T::I128) => any::<u128>().prop_map(Val::Wide).boxed(),
        Ty::Scalar(T::F32) => any::<f32>().prop_map(Val::F32).boxed(),
        Ty::Scalar(T::F64) => any::<f64>().prop_map(Val::F64).boxed(),
        Ty::Scalar(T::Char) => {
            any::<char>().prop_filter("shown", |c| is_shown(*c)).prop_map(Val::Char).boxed()
        }
        Ty::Scalar(T::Utf16Unit) => any::<u16>()
            .prop_filter("shown", |unit| *unit != u16::from(b'\\'))
            .prop_map(|unit| Val::Bits(unit.into()))
            .boxed(),
        Ty::Scalar(T::Guid) => any::<[u8; 16]>().prop_map(Val::Guid).boxed(),
        Ty::Scalar(T::IpAddr) => any::<IpAddr>().prop_map(Val::Ip).boxed(),
        Ty::Scalar(T::SocketAddr) => {
            (any::<IpAddr>(), any::<u16>()).prop_map(|pair| Val::Socket(pair.into())).boxed()
        }
        // Times in the range of a calendar.
        Ty::Scalar(T::DateTime) => {
            (-62_000_000_000_000..250_000_000_000_000_i64).prop_map(signed).boxed()
        }
        Ty::Scalar(T::U64 | T::I64 | T::VarUInt | T::VarInt) if format == FieldFormat::Time => {
            (-62_000_000_000..250_000_000_000_i64).prop_map(signed).boxed()
        }
        Ty::Scalar(_) => {
            let small = (0_u64..150).prop_map(Val::Bits);
            prop_oneof![any::<u64>().prop_map(Val::Bits), small].boxed()
        }
        Ty::Text(_) => text().prop_map(Val::Text).boxed(),
        Ty::Array(element, count) => sequence(element, *count, format),
        Ty::Object(fields) => {
            let values: Vec<_> =
                fields.iter().map(|field| value(&field.ty, field.format)).collect();
            values.prop_map(Val::List).boxed()
        }
        Ty::Option(inner) => proptest::option::of(value(inner, format))
            .prop_map(|value| Val::Maybe(value.map(Box::new)))
            .boxed(),
    }
}

/// A sequence. If it is text in code units, it is valid text.
fn sequence(element: &Ty, count: Option<u16>, format: FieldFormat) -> BoxedStrategy<Val> {
    use FieldFormat as F;
    let sizes = count.map_or(0..=3, |count| usize::from(count)..=usize::from(count));
    let Ty::Scalar(scalar) = element else {
        return vec(value(element, format), sizes).prop_map(Val::List).boxed();
    };
    let is_text = check::is_one_value(scalar, format)
        && matches!(format, F::Utf | F::UtfBom | F::Xml | F::Json);
    if !is_text {
        return vec(value(element, format), sizes).prop_map(Val::List).boxed();
    }
    if count.is_some() {
        let make = if let FieldType::Char = scalar {
            |byte: u8| Val::Char(char::from(byte))
        } else {
            |byte: u8| Val::Bits(byte.into())
        };
        return vec((b'a'..=b'z').prop_map(make), sizes).prop_map(Val::List).boxed();
    }
    let scalar = *scalar;
    let units = move |text: String| {
        let bits = |unit: u32| Val::Bits(unit.into());
        Val::List(match scalar {
            FieldType::U8 => text.bytes().map(|byte| bits(byte.into())).collect(),
            FieldType::U16 | FieldType::Utf16Unit => {
                text.encode_utf16().map(|unit| bits(unit.into())).collect()
            }
            FieldType::U32 => shown(&text).map(|c| bits(c.into())).collect(),
            _ => shown(&text).map(Val::Char).collect(),
        })
    };
    text().prop_map(units).boxed()
}

fn shown(text: &str) -> impl Iterator<Item = char> {
    // The second character may be a byte order mark.
    text.chars().filter(|c| is_shown(*c)).skip_while(|c| *c == '\u{FEFF}')
}

/// Excludes characters that `tracepoint_decode` 0.5 does not escape in JSON: in UTF-32, those that
/// JSON requires to be escaped; in a single character, the backslash.
fn is_shown(c: char) -> bool {
    !c.is_control() && !matches!(c, '"' | '\\')
}

/// Text that no decoder takes for another encoding.
fn text() -> impl Strategy<Value = String> {
    ("[a-zA-Z<{\0é]{0,1}", vec(any::<char>(), 0..24)).prop_map(|(first, rest)| {
        let rest: String = rest.into_iter().filter(|_| !first.is_empty()).collect();
        first + &rest
    })
}

fn signed(value: i64) -> Val {
    Val::Bits(value as u64)
}
