//! Names and quoted texts in a file of schemas.

use alloc::string::{String, ToString as _};
use core::fmt;

/// A name in the form of the file: in quotes, unless it is a word.
pub(super) struct Name<'a>(pub(super) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = !self.0.is_empty() && self.0.bytes().all(is_of_word);
        if is_word { f.write_str(self.0) } else { write!(f, "{:?}", self.0) }
    }
}

pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'%')
}

/// Reads a text in quotes, with the escapes of `Debug`. Returns it and the rest.
pub(super) fn quoted(text: &str) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut rest = text.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return Some((read, rest.as_str())),
            '\\' => read.push(match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let (digits, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                    rest = after.chars();
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                }
                other => other,
            }),
            other => read.push(other),
        }
    }
}

/// Reads a name. Returns it and the rest.
pub(super) fn name(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        let (name, rest) = quoted(text)?;
        return Some((name, rest.trim_start()));
    }
    let len = text.bytes().take_while(|byte| is_of_word(*byte)).count();
    let (name, rest) = text.split_at(len);
    (len > 0).then(|| (name.to_string(), rest.trim_start()))
}
