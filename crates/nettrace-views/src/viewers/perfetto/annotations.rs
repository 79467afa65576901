//! Details as annotations of Perfetto's events.

use nettrace_reader::Value;

use crate::{
    model::{Plain, hex},
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
    match Plain::of(value) {
        Plain::Bool(value) => proto::uint(out, BOOL, value.into()),
        Plain::Signed(value) => proto::uint(out, INT, value as u64),
        Plain::Unsigned(value) => proto::uint(out, UINT, value),
        Plain::Single(value) => proto::double(out, DOUBLE, value.into()),
        Plain::Double(value) => proto::double(out, DOUBLE, value),
        Plain::Text(value) => text(out, value),
        Plain::Char(c) => text(out, c.encode_utf8(&mut [0; 4])),
        Plain::CodeUnit(unit) => proto::uint(out, UINT, unit.into()),
        Plain::Time(value) | Plain::Id(value) | Plain::Decimal(value) | Plain::Words(value) => {
            text(out, &value.to_string());
        }
        Plain::Bytes(bytes) => text(out, &format!("0x{}", hex(bytes))),
        Plain::Array(values) => {
            for value in values {
                element(out, value);
            }
        }
        Plain::Object(fields) => {
            for (name, value) in fields {
                let member = open(out, DICT);
                proto::bytes(out, annotation::NAME, name.as_bytes());
                write(out, value);
                close(out, member);
            }
        }
    }
}

fn element(out: &mut Vec<u8>, value: &Value<'_>) {
    let opened = open(out, annotation::ARRAY);
    write(out, value);
    close(out, opened);
}
