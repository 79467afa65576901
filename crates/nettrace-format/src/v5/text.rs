//! Writes lists as text for version 4, which has no arrays: `[1, 2, 3]`, `[{a: 1, b: "two"}]`.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use nettrace_event::calendar::FILE_TIME_OF_1970;

use crate::{
    content::SystemTimeParts,
    payload::walk::{Text, Value},
};

/// The state of a list that is being written as UTF-16, from its first bracket to its last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notation {
    /// The number of open lists.
    lists: usize,
    /// Whether the next value needs no comma: it is the first of a list or object, or a field's
    /// value.
    first: bool,
    /// Whether the innermost list consists of code units, which together are text.
    units: bool,
}

impl Notation {
    /// Begins a list. With `units`, its elements are the code units of a text, which has quotes
    /// only if it is nested in another list.
    pub(super) fn begin_list(&mut self, units: bool, out: &mut Vec<u8>) {
        self.comma(out);
        self.units = units;
        self.lists += 1;
        if !units {
            put('[', out);
        } else if self.lists > 1 {
            put('"', out);
        }
        self.first = true;
    }

    /// Ends a list. Returns whether it was the outermost.
    pub(super) fn end_list(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.units {
            put(']', out);
        } else if self.lists > 1 {
            put('"', out);
        }
        self.units = false;
        self.lists -= 1;
        self.first = false;
        self.lists == 0
    }

    pub(super) fn begin_object(&mut self, out: &mut Vec<u8>) {
        self.comma(out);
        put('{', out);
        self.first = true;
    }

    pub(super) fn end_object(&mut self, out: &mut Vec<u8>) {
        put('}', out);
        self.first = false;
    }

    /// Writes the name of a field; its value follows.
    pub(super) fn name(&mut self, name: &str, out: &mut Vec<u8>) {
        self.comma(out);
        name.chars().for_each(|c| put(c, out));
        put(':', out);
        put(' ', out);
        self.first = true;
    }

    pub(super) fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        if let (true, Value::Utf16Unit(unit)) = (self.units, value) {
            return put_unit(unit, self.lists > 1, out);
        }
        self.comma(out);
        // Writing to a vector does not fail.
        let _ = show(value, out);
    }

    fn comma(&mut self, out: &mut Vec<u8>) {
        if self.lists > 0 && !self.first {
            put(',', out);
            put(' ', out);
        }
        self.first = false;
    }
}

fn show(value: Value<'_>, out: &mut Vec<u8>) -> fmt::Result {
    let mut to = Utf16(out);
    match value {
        Value::FileTime(v) => file_time(v, &mut to),
        Value::Utf16Unit(unit) => {
            put('"', out);
            put_unit(unit, true, out);
            put('"', out);
            Ok(())
        }
        Value::Text(text) => {
            put('"', out);
            match text {
                Text::Utf16(bytes) => bytes.chunks_exact(2).for_each(|unit| {
                    put_unit(u16::from_le_bytes([unit[0], unit[1]]), true, out);
                }),
                Text::Utf8(_) => text.chars().for_each(|c| {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| put_unit(unit, true, out));
                }),
            }
            put('"', out);
            Ok(())
        }
        value => value.write_plain(&mut to).unwrap_or(Ok(())),
    }
}

/// Writes a count of 100 ns units since 1601 as an ISO 8601 date.
fn file_time(ticks: i64, to: &mut Utf16<'_>) -> fmt::Result {
    const UNIX_EPOCH_MILLIS: i64 = (FILE_TIME_OF_1970 / 10_000) as i64;
    let t = SystemTimeParts::from_unix_millis(ticks.div_euclid(10_000) - UNIX_EPOCH_MILLIS);
    let (year, month, day) = (t.year, t.month, t.day);
    write!(to, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", t.hour, t.minute, t.second)?;
    write!(to, ".{:07}Z", ticks.rem_euclid(10_000_000))
}

/// Appends everything written to it as UTF-16.
struct Utf16<'a>(&'a mut Vec<u8>);

impl Write for Utf16<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().for_each(|c| put(c, self.0));
        Ok(())
    }
}

fn put(c: char, out: &mut Vec<u8>) {
    c.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| put_unit(unit, false, out));
}

/// Appends one code unit. A NUL, which would end the text, becomes U+FFFD. Inside quotes, a
/// backslash goes before quotes and backslashes.
fn put_unit(unit: u16, quoted: bool, out: &mut Vec<u8>) {
    const QUOTE: u16 = b'"' as u16;
    const BACKSLASH: u16 = b'\\' as u16;
    if quoted && matches!(unit, QUOTE | BACKSLASH) {
        out.extend_from_slice(&BACKSLASH.to_le_bytes());
    }
    let unit = if unit == 0 { 0xFFFD } else { unit };
    out.extend_from_slice(&unit.to_le_bytes());
}
