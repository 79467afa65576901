//! Text from elsewhere: from a trace, or from another process. It may contain what a terminal obeys
//! (escape sequences), and what makes a line look like another one (bidirectional controls).
//!
//! All that is printed of it goes through [`OneLine`], and all JSON through [`Json`].

use std::{
    fmt::{self, Write as _},
    io,
};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Whether a character is not shown as itself: controls (C0, DEL, C1), separators of lines, and
/// characters that only steer how others are shown. These are Unicode's general category Cf: the
/// bidirectional controls, joiners, marks of zero width, soft hyphens and tags. The rest of the
/// plane of tags is among them.
///
/// Selectors of variants and combining marks are not: they belong to the character before them.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1F}'
            | '\u{7F}'..='\u{9F}'
            | '\u{AD}'
            | '\u{600}'..='\u{605}'
            | '\u{61C}'
            | '\u{6DD}'
            | '\u{70F}'
            | '\u{890}'..='\u{891}'
            | '\u{8E2}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{110BD}'
            | '\u{110CD}'
            | '\u{13430}'..='\u{1343F}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

/// Whether a text has nothing that needs a look at its characters. Most have not.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The parts of a text: what is shown as it is, and the hidden character behind it.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if is_plain(rest) { None } else { rest.find(is_hidden) };
        let (before, from) = rest.split_at(end.unwrap_or(rest.len()));
        let mut behind = from.chars();
        let hidden = behind.next();
        rest = behind.as_str();
        Some((before, hidden))
    })
}

/// Shows a text in one line: [hidden](is_hidden) characters as Rust writes them, `\n`, `\u{1b}`.
/// What is escaped already stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() {
            return write!(Escaping(f), "{}", self.0);
        }
        // Padded to the width of what is shown.
        let mut text = String::new();
        write!(Escaping(&mut text), "{}", self.0)?;
        f.pad(&text)
    }
}

/// The name of an event type or a span as people read it: `PROVIDER/NAME`, in one line.
#[derive(Clone, Copy, Debug)]
pub struct FullName<'a>(pub &'a str, pub &'a str);

impl fmt::Display for FullName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", OneLine(self.0), OneLine(self.1))
    }
}

struct Escaping<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        parts(text).try_for_each(|(before, hidden)| {
            self.0.write_str(before)?;
            // No hidden character is a quote, which this would escape too.
            hidden.map_or(Ok(()), |c| write!(self.0, "{}", c.escape_debug()))
        })
    }
}

/// JSON in which hidden characters are escapes, so that it can be printed. Its readers get the same
/// texts.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Formatter for Json {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        parts(fragment).try_for_each(|(before, hidden)| {
            out.write_all(before.as_bytes())?;
            hidden.map_or(Ok(()), |c| json_escape(out, c))
        })
    }
}

/// Writes a character as JSON escapes it: `\u202e`, beyond 16 bits as two surrogates.
///
/// # Errors
/// Those of the writer.
pub fn json_escape(out: &mut (impl io::Write + ?Sized), c: char) -> io::Result<()> {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// Writes a value as [`Json`], in one line.
///
/// # Errors
/// The writer fails, or the value cannot be JSON.
pub fn to_json(out: impl io::Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_and_says_what_is_hidden() {
        let shown = |text: &str| OneLine(text).to_string();
        assert_eq!(shown("a\nb\u{2028}é💡\t"), "a\\nb\\u{2028}é💡\\t");
        assert_eq!(shown("\u{1b}[31m\u{9b}x\u{7f}"), "\\u{1b}[31m\\u{9b}x\\u{7f}");
        assert_eq!(shown("C:\\x \"y\" 'z'"), "C:\\x \"y\" 'z'");
        assert_eq!(shown("e\u{301} ❤\u{fe0f} 👩\u{200d}💻"), "e\u{301} ❤\u{fe0f} 👩\\u{200d}💻");
        assert_eq!(shown(&shown("\u{202e}")), "\\u{202e}");
        assert_eq!(format!("{:>10}|{:2}", OneLine("\u{85}"), OneLine("\0ab")), "    \\u{85}|\\0ab");
    }

    #[test]
    fn json_says_the_same() {
        for text in ["\u{1b}\u{7f}\u{85}\u{202e}\u{2028} é💡\"\\", "\u{e0041}\u{200d}", "plain"]
        {
            let mut out = Vec::new();
            to_json(&mut out, text).unwrap();
            let json = String::from_utf8(out).unwrap();
            assert!(!json.contains(is_hidden), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    /// Rust's own list of what is not printed is longer. So a text that `{:?}` has written has
    /// nothing hidden, apart from the plane of tags.
    #[test]
    fn nothing_is_hidden_that_rust_prints() {
        let hidden = ('\0'..=char::MAX).filter(|c| is_hidden(*c) && *c < '\u{E0000}');
        let (mut count, mut printed) = (0, Vec::new());
        for c in hidden {
            count += 1;
            if format!("{:?}", format!("a{c}")).contains(c) {
                printed.push(c);
            }
        }
        assert!(count > 130 && printed.is_empty(), "{count} {printed:?}");
    }
}
