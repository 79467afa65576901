//! Values of payloads and labels as annotations of Perfetto's events.

use std::fmt::Write;

use nettrace_reader::{Label, Metadata, Value};

use crate::{
    clock,
    proto::{self, close, open},
};

/// Begins the key of a key-value that states the Rust type of a field, as the writer of this
/// project states it. The name of the field follows.
const RUST_TYPE: &str = "nettrace.type.";

/// The fields of `DebugAnnotation`.
mod annotation {
    pub(super) const BOOL: u32 = 2;
    pub(super) const UINT: u32 = 3;
    pub(super) const INT: u32 = 4;
    pub(super) const DOUBLE: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const POINTER: u32 = 7;
    pub(super) const NAME: u32 = 10;
    pub(super) const DICT: u32 = 11;
    pub(super) const ARRAY: u32 = 12;
}

/// The field of `TrackEvent` for annotations.
pub(crate) const ANNOTATIONS: u32 = 4;

/// A field of an event type: how its annotation begins, and what is stated of its type.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The name, or a reference to it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) meaning: Meaning,
}

/// What a type states of a field beside the type of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    is_option: bool,
    is_time: bool,
}

impl Meaning {
    pub(crate) fn of(metadata: &Metadata, field: &str) -> Self {
        let key_values = &metadata.key_values;
        let stated = |(key, _): &&(String, String)| key.strip_prefix(RUST_TYPE) == Some(field);
        let stated = key_values.iter().find(stated).map_or("", |(_, ty)| &**ty);
        let inner = stated.strip_prefix("Option<").and_then(|ty| ty.strip_suffix('>'));
        Self { is_option: inner.is_some(), is_time: inner.unwrap_or(stated) == "SystemTime" }
    }
}

/// Writes the key of an annotation with the name itself.
pub(crate) fn plain_key(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 3);
    proto::bytes(&mut bytes, annotation::NAME, name.as_bytes());
    bytes
}

/// Writes one annotation. A value that is absent gets none.
#[inline]
pub(crate) fn field(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    if key.meaning.is_option {
        return optional(out, key, value);
    }
    let opened = open(out, ANNOTATIONS);
    out.extend_from_slice(&key.bytes);
    meant(out, value, key.meaning);
    close(out, opened);
}

/// An option is an array with at most one element.
fn optional(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    let inner = match value {
        Value::Array(values) => match &**values {
            [] => return,
            [Value::Object(fields)] => match &**fields {
                [("value", value)] => value,
                _ => value,
            },
            [value] => value,
            _ => value,
        },
        Value::Bytes([]) => return,
        Value::Bytes([byte]) => &Value::U8(*byte),
        Value::Text(text) if text.is_empty() => return,
        value => value,
    };
    let opened = open(out, ANNOTATIONS);
    out.extend_from_slice(&key.bytes);
    meant(out, inner, key.meaning);
    close(out, opened);
}

#[inline]
fn meant(out: &mut Vec<u8>, value: &Value<'_>, meaning: Meaning) {
    match value {
        Value::I64(nanos) if meaning.is_time => text(out, &clock::unix_time(*nanos)),
        value => write(out, value),
    }
}

/// Writes a text as an annotation.
pub(crate) fn text_field(out: &mut Vec<u8>, key: &[u8], value: &str) {
    let opened = open(out, ANNOTATIONS);
    out.extend_from_slice(key);
    text(out, value);
    close(out, opened);
}

/// Writes a number as an annotation.
pub(crate) fn number_field(out: &mut Vec<u8>, key: &[u8], value: u64) {
    let opened = open(out, ANNOTATIONS);
    out.extend_from_slice(key);
    proto::uint(out, annotation::UINT, value);
    close(out, opened);
}

/// Writes addresses as an annotation.
pub(crate) fn addresses(out: &mut Vec<u8>, key: &[u8], addresses: impl Iterator<Item = u64>) {
    let opened = open(out, ANNOTATIONS);
    out.extend_from_slice(key);
    for address in addresses {
        let element = open(out, annotation::ARRAY);
        proto::uint(out, annotation::POINTER, address);
        close(out, element);
    }
    close(out, opened);
}

/// Writes a label as an annotation. Labels that replace properties of the type are not written.
pub(crate) fn label(out: &mut Vec<u8>, label: &Label) {
    let mut name = |name: &str, value: &str| text_field(out, &plain_key(name), value);
    match label {
        Label::ActivityId(id) => name("ActivityId", &guid(id)),
        Label::RelatedActivityId(id) => name("RelatedActivityId", &guid(id)),
        Label::TraceId(id) => name("TraceId", &hex(id)),
        Label::SpanId(id) => name("SpanId", &format!("{id:016x}")),
        Label::Text(key, text) => name(key, text),
        Label::Number(key, number) => {
            let opened = open(out, ANNOTATIONS);
            proto::bytes(out, annotation::NAME, key.as_bytes());
            proto::uint(out, annotation::INT, *number as u64);
            close(out, opened);
        }
        _ => {}
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    proto::bytes(out, annotation::STRING, text.as_bytes());
}

fn write(out: &mut Vec<u8>, value: &Value<'_>) {
    use annotation::{BOOL, DICT, DOUBLE, INT, UINT};
    match value {
        Value::Bool(value) => proto::uint(out, BOOL, (*value).into()),
        Value::I8(value) => proto::uint(out, INT, i64::from(*value) as u64),
        Value::U8(value) => proto::uint(out, UINT, (*value).into()),
        Value::I16(value) => proto::uint(out, INT, i64::from(*value) as u64),
        Value::U16(value) => proto::uint(out, UINT, (*value).into()),
        Value::I32(value) => proto::uint(out, INT, i64::from(*value) as u64),
        Value::U32(value) => proto::uint(out, UINT, (*value).into()),
        Value::I64(value) => proto::uint(out, INT, *value as u64),
        Value::U64(value) => proto::uint(out, UINT, *value),
        Value::F32(value) => proto::double(out, DOUBLE, (*value).into()),
        Value::F64(value) => proto::double(out, DOUBLE, *value),
        Value::Text(value) => text(out, value),
        Value::Utf16CodeUnit(unit) => match char::from_u32((*unit).into()) {
            Some(c) => text(out, c.encode_utf8(&mut [0; 4])),
            None => proto::uint(out, UINT, (*unit).into()),
        },
        Value::Utf8CodeUnit(unit) if unit.is_ascii() => {
            text(out, char::from(*unit).encode_utf8(&mut [0; 4]));
        }
        Value::Utf8CodeUnit(unit) => proto::uint(out, UINT, (*unit).into()),
        Value::DateTime(time) => text(out, &time.to_string()),
        Value::FileTime(units) => text(out, &clock::file_time(*units)),
        Value::Guid(bytes) => text(out, &guid(bytes)),
        Value::Decimal(number) => text(out, &number.to_string()),
        Value::Bytes(bytes) => text(out, &format!("0x{}", hex(bytes))),
        Value::Array(values) => {
            for value in values {
                element(out, value);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let member = open(out, DICT);
                proto::bytes(out, annotation::NAME, name.as_bytes());
                write(out, value);
                close(out, member);
            }
        }
        // A kind of value that this crate does not know.
        other => text(out, &format!("{other:?}")),
    }
}

fn element(out: &mut Vec<u8>, value: &Value<'_>) {
    let opened = open(out, annotation::ARRAY);
    write(out, value);
    close(out, opened);
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A `String` takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A GUID in the byte order of the format, as text.
pub(crate) fn guid(bytes: &[u8; 16]) -> String {
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
    };
    format!(
        "{:08x}-{:04x}-{:04x}-{}-{}",
        number(0..4),
        number(4..6),
        number(6..8),
        hex(&bytes[8..10]),
        hex(&bytes[10..])
    )
}
