//! The first paragraph of a doc comment, in constants of derived code.
//!
//! The derive finds the paragraph itself, unless the comment is a macro as in
//! `#[doc = include_str!("answered.md")]`. Only the compiler knows the text of that.

/// The most bytes of a description, as in `nettrace_macros`.
const MAX_TEXT: usize = 8_192;

/// Returns the size of [`paragraph`] in bytes. 0: there is none, or it is longer than a description
/// can be.
#[must_use]
pub const fn paragraph_len(doc: &str) -> usize {
    let (_, len) = write::<0>(doc);
    if len > MAX_TEXT { 0 } else { len }
}

/// Returns the lines before the first empty one, without the white space around them, joined by
/// spaces. `N` is what [`paragraph_len`] says.
#[must_use]
pub const fn paragraph<const N: usize>(doc: &str) -> [u8; N] {
    write(doc).0
}

/// Returns a paragraph as text. `None` if a trace cannot have it: it is empty, or has a NUL.
#[must_use]
pub const fn text(paragraph: &'static [u8]) -> Option<&'static str> {
    let mut at = 0;
    while at < paragraph.len() {
        if paragraph[at] == 0 {
            return None;
        }
        at += 1;
    }
    match core::str::from_utf8(paragraph) {
        Ok(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The first `N` bytes of the paragraph, and its length, if that is at most [`MAX_TEXT`].
const fn write<const N: usize>(doc: &str) -> ([u8; N], usize) {
    let doc = doc.as_bytes();
    let (mut bytes, mut len) = ([0; N], 0);
    let mut next = 0;
    while next < doc.len() && len <= MAX_TEXT {
        let mut start = next;
        let mut end = next;
        while end < doc.len() && doc[end] != b'\n' && end - start <= MAX_TEXT {
            end += 1;
        }
        next = end + 1;
        while start < end && doc[start].is_ascii_whitespace() {
            start += 1;
        }
        while end > start && doc[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        if start == end && len > 0 {
            break;
        }
        let mut at = start;
        while at < end {
            if at == start && len > 0 {
                if len < N {
                    bytes[len] = b' ';
                }
                len += 1;
            }
            if len < N {
                bytes[len] = doc[at];
            }
            (at, len) = (at + 1, len + 1);
        }
    }
    (bytes, len)
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXT, paragraph, paragraph_len, text};

    #[test]
    fn the_first_paragraph_is_found() {
        const DOC: &str = "\n  \r\n  Ein größeres\r\n\tBild. \n \nNot this.";
        const PARAGRAPH: [u8; paragraph_len(DOC)] = paragraph(DOC);
        assert_eq!(text(&PARAGRAPH), Some("Ein größeres Bild."));
    }

    #[test]
    fn what_a_trace_cannot_have_is_left_out() {
        assert_eq!(paragraph_len(""), 0);
        assert_eq!(paragraph_len(" \n\n "), 0);
        assert_eq!(paragraph_len(&"x".repeat(MAX_TEXT)), MAX_TEXT);
        assert_eq!(paragraph_len(&"x".repeat(MAX_TEXT + 1)), 0);
        assert_eq!(paragraph_len(&"x\n".repeat(MAX_TEXT)), 0);
        assert_eq!(text(b""), None);
        assert_eq!(text(b"a\0b"), None);
    }
}
