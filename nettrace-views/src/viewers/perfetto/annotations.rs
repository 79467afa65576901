//! Details as annotations of Perfetto's events.

use nettrace_reader::Value;

use crate::{
    model::{FileTime, Guid, hex},
    viewers::{
        proto::{self, close, open},
        values::Details,
    },
};

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
const ANNOTATIONS: u32 = 4;

/// Writes annotations.
#[derive(Debug)]
pub(crate) enum Annotations {}

impl Annotations {
    #[inline]
    fn one(out: &mut Vec<u8>, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let opened = open(out, ANNOTATIONS);
        out.extend_from_slice(key);
        write(out);
        close(out, opened);
    }
}

impl Details for Annotations {
    fn plain_key(name: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(name.len() + 3);
        proto::bytes(&mut bytes, annotation::NAME, name.as_bytes());
        bytes
    }

    fn text(out: &mut Vec<u8>, key: &[u8], value: &str) {
        Self::one(out, key, |out| text(out, value));
    }

    fn unsigned(out: &mut Vec<u8>, key: &[u8], value: u64) {
        Self::one(out, key, |out| proto::uint(out, annotation::UINT, value));
    }

    fn signed(out: &mut Vec<u8>, key: &[u8], value: i64) {
        Self::one(out, key, |out| proto::uint(out, annotation::INT, value as u64));
    }

    fn addresses(out: &mut Vec<u8>, key: &[u8], addresses: impl Iterator<Item = u64>) {
        Self::one(out, key, |out| {
            for address in addresses {
                let element = open(out, annotation::ARRAY);
                proto::uint(out, annotation::POINTER, address);
                close(out, element);
            }
        });
    }

    #[inline]
    fn value(out: &mut Vec<u8>, key: &[u8], value: &Value<'_>) {
        // Most values, compiled into the code that decodes them.
        let number = match value {
            Value::U64(value) => (annotation::UINT, *value),
            Value::U32(value) => (annotation::UINT, (*value).into()),
            Value::I64(value) => (annotation::INT, *value as u64),
            Value::I32(value) => (annotation::INT, i64::from(*value) as u64),
            value => return Self::one(out, key, |out| write(out, value)),
        };
        proto::with_number(out, ANNOTATIONS, number, key);
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
        Value::FileTime(units) => text(out, &FileTime(*units).to_string()),
        Value::Guid(bytes) => text(out, &Guid(bytes).to_string()),
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
