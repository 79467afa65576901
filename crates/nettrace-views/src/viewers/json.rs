//! JSON for viewers, and details as members of objects.
//!
//! `serde_json` writes texts and integers. Numbers with a fraction have Rust's own form (`1e16`),
//! because that of `serde_json` changes with its releases (`1e+16`). Objects and lists are put
//! together from bytes that are JSON already, so that a detail is written once and then copied.

use std::{collections::HashMap, io::Write};

use nettrace_reader::Value;

use crate::{
    model::{Plain, hex, to_json},
    viewers::values::Details,
};

/// The largest integer up to which JavaScript has all integers. Larger ones are written as text.
const EXACT: u64 = 1 << 53;

/// Writes a text in quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    // A `Vec` takes everything, and any text can be JSON.
    let _ = to_json(out, text);
}

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text);
    out
}

/// Writes something by its `Display`.
pub(crate) fn show(out: &mut Vec<u8>, what: impl std::fmt::Display) {
    // A `Vec` takes everything.
    let _ = write!(out, "{what}");
}

/// Writes an integer in decimal digits.
#[inline]
pub(crate) fn decimal(out: &mut Vec<u8>, value: u64) {
    let _ = to_json(out, &value);
}

/// Writes an integer: as text if JavaScript cannot express it.
fn integer(out: &mut Vec<u8>, is_negative: bool, value: u64) {
    let is_text = value > EXACT;
    let parts = [(is_text, b'"'), (is_negative, b'-')];
    out.extend(parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, byte)| byte));
    decimal(out, value);
    if is_text {
        out.push(b'"');
    }
}

fn signed(out: &mut Vec<u8>, value: i64) {
    integer(out, value < 0, value.unsigned_abs());
}

/// Writes a number, as text if JSON has no such number.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        show(out, format_args!("{value:?}"));
    } else {
        show(out, format_args!("\"{value}\""));
    }
}

/// Writes nanoseconds as microseconds.
pub(crate) fn micros(out: &mut Vec<u8>, nanos: i64) {
    if nanos < 0 {
        out.push(b'-');
    }
    let nanos = nanos.unsigned_abs();
    decimal(out, nanos / 1000);
    let rest = nanos % 1000;
    if rest != 0 {
        let digit = |value: u64| b'0' + (value % 10) as u8;
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }
}

/// Details as members of objects. Each is a record: the size of the key, the key in quotes, the
/// size of the value, the value. [`write_members`] makes an object of them.
#[derive(Debug)]
pub(crate) enum Members {}

impl Members {
    fn one(out: &mut Vec<u8>, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
        let size_at = out.len();
        out.extend_from_slice(&[0; 4]);
        write(out);
        let size = (out.len() - size_at - 4) as u32;
        out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
    }
}

impl Details for Members {
    fn plain_key(name: &str) -> Vec<u8> {
        quoted(name)
    }

    fn text(out: &mut Vec<u8>, key: &[u8], value: &str) {
        Self::one(out, key, |out| string(out, value));
    }

    fn unsigned(out: &mut Vec<u8>, key: &[u8], value: u64) {
        Self::one(out, key, |out| integer(out, false, value));
    }

    fn signed(out: &mut Vec<u8>, key: &[u8], value: i64) {
        Self::one(out, key, |out| signed(out, value));
    }

    fn addresses(out: &mut Vec<u8>, key: &[u8], addresses: impl Iterator<Item = u64>) {
        Self::one(out, key, |out| {
            list(out, addresses, |out, address| show(out, format_args!("\"{address:#x}\"")));
        });
    }

    fn value(out: &mut Vec<u8>, key: &[u8], value: &Value<'_>) {
        Self::one(out, key, |out| write_value(out, value));
    }
}

/// Writes a list.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    elements: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, element) in elements.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, element);
    }
    out.push(b']');
}

fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match Plain::of(value) {
        Plain::Bool(value) => show(out, value),
        Plain::Signed(value) => signed(out, value),
        Plain::Unsigned(value) => integer(out, false, value),
        // The shortest digits that give the same number in 32 bits.
        Plain::Single(value) if value.is_finite() => show(out, format_args!("{value:?}")),
        Plain::Single(value) => float(out, value.into()),
        Plain::Double(value) => float(out, value),
        Plain::Text(value) => string(out, value),
        Plain::Char(c) => string(out, c.encode_utf8(&mut [0; 4])),
        Plain::CodeUnit(unit) => show(out, unit),
        Plain::Time(text) | Plain::Id(text) | Plain::Decimal(text) | Plain::Words(text) => {
            string(out, &text.to_string());
        }
        Plain::Bytes(bytes) => string(out, &format!("0x{}", hex(bytes))),
        Plain::Array(values) => list(out, values.iter(), write_value),
        Plain::Object(fields) => {
            let mut members = Vec::new();
            for (name, value) in fields {
                Members::value(&mut members, &quoted(name), value);
            }
            write_members(out, &[&members]);
        }
    }
}

/// A key and a value.
type Member<'d> = (&'d [u8], &'d [u8]);

/// The members of details, as pairs of key and value.
pub(crate) fn members<'d, 'p>(
    parts: &'p [&'d [u8]],
) -> impl Iterator<Item = Member<'d>> + use<'d, 'p> {
    fn take<'d>(rest: &mut &'d [u8]) -> Option<&'d [u8]> {
        let (size, behind) = rest.split_first_chunk()?;
        let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        *rest = behind;
        Some(part)
    }
    parts.iter().flat_map(|part| {
        let mut rest = *part;
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    })
}

/// Writes an object of the members in some details. The second `x` with another value is `x#2`; one
/// with the same value is left out.
pub(crate) fn write_members(out: &mut Vec<u8>, parts: &[&[u8]]) {
    /// So many names are compared with each other, which is faster than to look them up.
    const FEW: usize = 8;

    let mut keys = [&[][..]; FEW];
    let mut count = 0;
    let all_differ = members(parts).all(|(key, _)| {
        let is_new = count < FEW && !keys[..count].contains(&key);
        if is_new {
            keys[count] = key;
            count += 1;
        }
        is_new
    });
    if !all_differ {
        return write_unique(out, parts);
    }
    out.push(b'{');
    for (at, (key, value)) in members(parts).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
}

/// Writes an object whose members may have the same names.
fn write_unique(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(b'{');
    let mut known: HashMap<Vec<u8>, &[u8]> = HashMap::new();
    for (at, (key, value)) in members(parts).enumerate() {
        let mut unique = key.to_vec();
        let mut number = 1;
        while known.get(&unique).is_some_and(|other| *other != value) {
            number += 1;
            unique = [&key[..key.len() - 1], format!("#{number}\"").as_bytes()].concat();
        }
        if known.contains_key(&unique) {
            continue;
        }
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&unique);
        out.push(b':');
        out.extend_from_slice(value);
        known.insert(unique, value);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let text = |text| String::from_utf8(quoted(text)).unwrap();
        assert_eq!(text("a\"b\\c\n\0\u{7f}é"), "\"a\\\"b\\\\c\\n\\u0000\\u007fé\"");
        let hidden = "\u{85}é\u{202e}💡\u{e0041}\u{fe0f}";
        assert_eq!(text(hidden), "\"\\u0085é\\u202e💡\\udb40\\udc41\u{fe0f}\"");
    }

    #[test]
    fn times_are_exact() {
        for (nanos, text) in [(0, "0"), (1500, "1.500"), (-1, "-0.001"), (-2000, "-2")] {
            let mut out = Vec::new();
            micros(&mut out, nanos);
            assert_eq!(out, text.as_bytes());
        }
        let mut out = Vec::new();
        micros(&mut out, i64::MIN);
        assert_eq!(out, b"-9223372036854775.808");
    }

    #[test]
    fn members_have_different_names() {
        let mut details = Vec::new();
        for (key, value) in [("x", 1), ("x", 2), ("y", 3), ("x#2", 4), ("x", 1), ("x", u64::MAX)] {
            Members::unsigned(&mut details, &quoted(key), value);
        }
        Members::value(&mut details, b"\"f\"", &Value::F64(f64::NAN));
        let mut out = Vec::new();
        write_members(&mut out, &[&details, &[]]);
        let expected =
            r##"{"x":1,"x#2":2,"y":3,"x#2#2":4,"x#3":"18446744073709551615","f":"NaN"}"##;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
