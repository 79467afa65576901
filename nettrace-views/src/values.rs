//! Values of payloads and labels as details of what a target draws: annotations of Perfetto,
//! members of JSON objects.

use nettrace_reader::{Label, Metadata, Value};

use crate::model::Time;

/// Begins the key of a key-value that states the Rust type of a field, as the writer of this
/// project states it. The name of the field follows.
const RUST_TYPE: &str = "nettrace.type.";

/// Writes details in the form of a target, each with its key.
pub(crate) trait Details {
    /// Whether it writes anything.
    const IS_ANY: bool = true;

    /// A key with the name itself, for details that are rare.
    fn plain_key(name: &str) -> Vec<u8>;
    fn text(out: &mut Vec<u8>, key: &[u8], value: &str);
    fn unsigned(out: &mut Vec<u8>, key: &[u8], value: u64);
    fn signed(out: &mut Vec<u8>, key: &[u8], value: i64);
    fn addresses(out: &mut Vec<u8>, key: &[u8], addresses: impl Iterator<Item = u64>);
    fn value(out: &mut Vec<u8>, key: &[u8], value: &Value<'_>);
}

/// A field of an event type: the key of its details, and what is stated of its type.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The name in the form of the target, or a reference to it.
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

/// Writes one field. A value that is absent gets no detail.
#[inline]
pub(crate) fn field<D: Details>(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    if key.meaning.is_option {
        if let Some(value) = present(value) {
            meant::<D>(out, key, value);
        }
        return;
    }
    meant::<D>(out, key, value);
}

/// The value of an option, which is an array with at most one element.
fn present<'v, 'a>(value: &'v Value<'a>) -> Option<&'v Value<'a>> {
    Some(match value {
        Value::Array(values) => match &**values {
            [] => return None,
            [Value::Object(fields)] => match &**fields {
                [("value", value)] => value,
                _ => value,
            },
            [value] => value,
            _ => value,
        },
        Value::Bytes([]) => return None,
        Value::Text(text) if text.is_empty() => return None,
        value => value,
    })
}

#[inline]
fn meant<D: Details>(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    match value {
        Value::I64(nanos) if key.meaning.is_time => {
            // All times of 64 bits are in the calendar.
            let time = Time::of_unix((*nanos).into());
            D::text(out, &key.bytes, &time.map_or(String::new(), |time| time.to_string()));
        }
        Value::Bytes([byte]) if key.meaning.is_option => {
            D::unsigned(out, &key.bytes, (*byte).into());
        }
        value => D::value(out, &key.bytes, value),
    }
}

/// Writes a label. Labels that replace properties of the type are not written.
pub(crate) fn label<D: Details>(out: &mut Vec<u8>, label: &Label) {
    let mut name = |name: &str, value: &str| D::text(out, &D::plain_key(name), value);
    match label {
        Label::ActivityId(id) => name("ActivityId", &guid(id)),
        Label::RelatedActivityId(id) => name("RelatedActivityId", &guid(id)),
        Label::TraceId(id) => name("TraceId", Hex::of(id).text()),
        Label::SpanId(id) => name("SpanId", Hex::of(&id.to_be_bytes()).text()),
        Label::Text(key, text) => name(key, text),
        Label::Number(key, number) => D::signed(out, &D::plain_key(key), *number),
        _ => {}
    }
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for part in bytes.chunks(Hex::ROOM) {
        text.push_str(Hex::of(part).text());
    }
    text
}

/// The lower-case hexadecimal digits of at most 16 bytes, without a place of their own in memory.
#[derive(Clone, Copy, Debug)]
pub struct Hex {
    digits: [u8; 2 * Self::ROOM],
    len: usize,
}

impl Hex {
    const ROOM: usize = 16;

    /// The digits of the first 16 bytes, the high four bits of each byte first.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(Self::ROOM)];
        let mut digits = [0; 2 * Self::ROOM];
        for (to, from) in digits.chunks_exact_mut(8).zip(bytes.chunks(4)) {
            let mut four = [0; 4];
            four[..from.len()].copy_from_slice(from);
            to.copy_from_slice(&eight_digits(u32::from_be_bytes(four)));
        }
        Self { digits, len: 2 * bytes.len() }
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &str {
        // They are ASCII.
        std::str::from_utf8(&self.digits[..self.len]).unwrap_or("")
    }
}

/// The digits of a number of 32 bits, all at once in the bytes of one of 64 bits.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = u64::from(number);
    let spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF;
    let spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF;
    let spread = (spread | spread << 4) & (0x0F * ONES);
    // Six more than ten has the fifth bit.
    let letters = (spread + 6 * ONES) >> 4 & ONES;
    let to_letter = u64::from(b'a' - b'9' - 1);
    (spread + u64::from(b'0') * ONES + letters * to_letter).to_be_bytes()
}

/// A GUID in the byte order of the format, as text.
#[must_use]
pub fn guid(bytes: &[u8; 16]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex(&bytes), expected);
        for len in 0..=16 {
            assert_eq!(Hex::of(&bytes[170..170 + len]).text(), &expected[340..340 + 2 * len]);
        }
        // More bytes than it has room for.
        assert_eq!(Hex::of(&bytes).text(), &expected[..32]);
    }
}
