//! Writes values as text: those that the format has no type for, and elements of nested arrays.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use nettrace_event::calendar::FILE_TIME_OF_1970;

use crate::{
    content::SystemTimeParts,
    payload::walk::{Text, Value},
};

/// Writes values as JSON within a string.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Json {
    /// Whether the next value needs a comma before it.
    follows: bool,
    open: usize,
}

impl Json {
    pub(super) fn is_open(&self) -> bool {
        self.open > 0
    }

    pub(super) fn open(&mut self, bracket: char, out: &mut Vec<u8>) {
        self.separate(out);
        push(bracket, out);
        self.follows = false;
        self.open += 1;
    }

    pub(super) fn close(&mut self, bracket: char, out: &mut Vec<u8>) {
        push(bracket, out);
        self.follows = true;
        self.open = self.open.saturating_sub(1);
    }

    pub(super) fn key(&mut self, name: &str, out: &mut Vec<u8>) {
        self.separate(out);
        quoted(name.chars(), out);
        out.push(b':');
        self.follows = false;
    }

    pub(super) fn null(&mut self, out: &mut Vec<u8>) {
        self.separate(out);
        out.extend_from_slice(b"null");
    }

    pub(super) fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        self.separate(out);
        match value {
            Value::Text(text) => quoted(text.chars(), out),
            Value::Utf16Unit(_) | Value::Guid(_) | Value::FileTime(_) if !self.is_open() => {
                spelled(value, out);
            }
            Value::Utf16Unit(unit) => quoted(Text::Utf16(&unit.to_le_bytes()).chars(), out),
            Value::Guid(_) | Value::FileTime(_) => {
                out.push(b'"');
                spelled(value, out);
                out.push(b'"');
            }
            Value::F32(value) if !value.is_finite() => print(out, format_args!("\"{value}\"")),
            Value::F64(value) if !value.is_finite() => print(out, format_args!("\"{value}\"")),
            value => spelled(value, out),
        }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if self.follows {
            out.push(b',');
        }
        self.follows = true;
    }
}

/// Appends any value as text, without quotes.
pub(super) fn spelled(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Utf16Unit(unit) => plain(Text::Utf16(&unit.to_le_bytes()), out),
        Value::Text(text) => plain(text, out),
        Value::FileTime(units) => date(units, out),
        // Writing to a vector does not fail.
        value => _ = value.write_plain(&mut Output(out)),
    }
}

/// Appends a date in the form of RFC 3339, to 100 ns. Years after 9999 are shown as 9999.
fn date(file_time: i64, out: &mut Vec<u8>) {
    let units = file_time.saturating_sub(FILE_TIME_OF_1970 as i64);
    let time = SystemTimeParts::from_unix_millis(units.div_euclid(10_000));
    let below = units.rem_euclid(10_000);
    let SystemTimeParts { year, month, day, hour, minute, second, millisecond, .. } = time;
    print(
        out,
        format_args!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}\
             {below:04}Z"
        ),
    );
}

pub(super) fn plain(text: Text<'_>, out: &mut Vec<u8>) {
    text.chars().for_each(|c| push(c, out));
}

fn quoted(text: impl Iterator<Item = char>, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\0'..='\x1f' => print(out, format_args!("\\u{:04x}", u32::from(c))),
            c => push(c, out),
        }
    }
    out.push(b'"');
}

/// Appends a unit of UTF-16. Holds back the first half of a surrogate pair until the second comes.
pub(super) fn join(high: &mut Option<u16>, unit: u16, out: &mut Vec<u8>) {
    match (*high, unit) {
        (Some(first), 0xDC00..=0xDFFF) => {
            let pair = (u32::from(first) - 0xD800) << 10 | (u32::from(unit) - 0xDC00);
            let c = char::from_u32(0x1_0000 + pair);
            push(c.unwrap_or(char::REPLACEMENT_CHARACTER), out);
            *high = None;
        }
        (before, unit) => {
            finish_pair(before, out);
            *high = (0xD800..=0xDBFF).contains(&unit).then_some(unit);
            if high.is_none() {
                plain(Text::Utf16(&unit.to_le_bytes()), out);
            }
        }
    }
}

/// Ends a text: replaces the first half of a surrogate pair without a second by U+FFFD.
pub(super) fn finish_pair(high: Option<u16>, out: &mut Vec<u8>) {
    if high.is_some() {
        push(char::REPLACEMENT_CHARACTER, out);
    }
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn print(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = Output(out).write_fmt(text);
}

struct Output<'a>(&'a mut Vec<u8>);

impl Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
