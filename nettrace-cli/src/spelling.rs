//! The spelling of ids, levels and other simple values, in text, JSON and filters.

use std::{borrow::Cow, fmt};

use nettrace_event::Level;

pub(crate) use nettrace_views::model::{FileTime, OneLine, event_name, to_json};

/// The name of a level, or its number if it has no name.
pub(crate) fn level(level: u8) -> Cow<'static, str> {
    match Level::new(level).name() {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(level.to_string()),
    }
}

/// The names of opcodes 1 to 9 in .NET.
const OPCODES: [&str; 9] = [
    "Start",
    "Stop",
    "DataCollectionStart",
    "DataCollectionStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Transfer",
];

/// The suffix of an opcode after an event's name: `/Start`. Empty if the name already ends so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opcode<'a> {
    pub(crate) opcode: u8,
    pub(crate) name: &'a str,
}

impl fmt::Display for Opcode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(index) = usize::from(self.opcode).checked_sub(1) else { return Ok(()) };
        match OPCODES.get(index) {
            Some(word) if ends_with(self.name, word) => Ok(()),
            Some(word) => write!(f, "/{word}"),
            None => write!(f, "/{}", self.opcode),
        }
    }
}

fn ends_with(name: &str, word: &str) -> bool {
    let at = name.len().checked_sub(word.len());
    at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

/// Bytes in lowercase hexadecimal digits, the W3C spelling of trace ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A span id in sixteen hexadecimal digits, the W3C spelling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanId(pub(crate) u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A GUID in its usual text form. In the bytes of the format the first three groups are
/// little-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guid<'a>(pub(crate) &'a [u8; 16]);

impl fmt::Display for Guid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, rest @ ..] = *self.0;
        let first = u32::from_le_bytes([a, b, c, d]);
        let (second, third) = (u16::from_le_bytes([e, g]), u16::from_le_bytes([h, i]));
        write!(f, "{first:08x}-{second:04x}-{third:04x}-{}-{}", Hex(&rest[..2]), Hex(&rest[2..]))
    }
}

/// The text for an infinite number, or for a value that is not a number. JSON has no number for it.
pub(crate) fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

#[cfg(test)]
mod tests {
    use super::{Guid, Opcode, SpanId, level};

    #[test]
    fn ids() {
        let bytes = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(Guid(&bytes).to_string(), "04030201-0605-0807-090a-0b0c0d0e0f10");
        assert_eq!(SpanId(u64::MAX - 15).to_string(), "fffffffffffffff0");
        assert_eq!(SpanId(16).to_string(), "0000000000000010");
    }

    #[test]
    fn levels_and_opcodes() {
        assert_eq!((&*level(2), &*level(17)), ("Error", "17"));
        let shown = |name, opcode| Opcode { opcode, name }.to_string();
        assert_eq!(shown("Work", 0), "");
        assert_eq!(shown("Work", 1), "/Start");
        assert_eq!(shown("WORKSTART", 1), "");
        assert_eq!(shown("WorkStart", 2), "/Stop");
        assert_eq!(shown("é", 24), "/24");
        assert_eq!(shown("éa", 7), "/Resume");
    }
}
