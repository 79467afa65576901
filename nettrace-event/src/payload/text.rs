//! Converts text to UTF-16.

use super::{
    MAX_ELEMENTS,
    buffer::{Buffer, Refusal, TextBounds},
};

/// Replaces a NUL: the reference reader shows UTF-16 of every kind only up to its first NUL, and a
/// NUL inside a terminated string would shift the fields after it. (UTF-8 is written unchanged.)
const REPLACEMENT: u16 = 0xFFFD;

/// Does what [`Buffer::put_utf16`] says, by the other methods of a buffer.
///
/// ```
/// use nettrace_event::payload::{TextBounds, VecBuffer, put_utf16};
///
/// let mut buffer = VecBuffer::new();
/// put_utf16(&mut buffer, "\u{e9}\0", TextBounds::Counted);
/// assert_eq!(buffer.bytes, [2, 0, 0xe9, 0, 0xfd, 0xff]);
/// ```
pub fn put_utf16(buffer: &mut (impl Buffer + ?Sized), text: &str, bounds: TextBounds) {
    // Compilers turn this into vector instructions, and not a search that may end early.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & (byte.is_ascii() && byte != 0));
    let units = if is_plain { text.len() } else { utf16_len(text) };
    if units > MAX_ELEMENTS {
        buffer.fail(Refusal::TooManyElements);
        return;
    }
    if bounds == TextBounds::Counted {
        buffer.put(&(units as u16).to_le_bytes());
    }
    if let Some(out) = buffer.space(2 * units) {
        if is_plain {
            text.bytes().zip(out.chunks_exact_mut(2)).for_each(|(byte, to)| {
                to.copy_from_slice(&u16::from(byte).to_le_bytes());
            });
        } else {
            write_utf16(text, out);
        }
    }
    if bounds == TextBounds::Terminated {
        buffer.put(&[0; 2]);
    }
}

/// Writes any text as little-endian UTF-16. `out` must have two bytes for each of [`utf16_len`].
fn write_utf16(text: &str, out: &mut [u8]) {
    for (unit, to) in text.encode_utf16().zip(out.chunks_exact_mut(2)) {
        let unit = if unit == 0 { REPLACEMENT } else { unit };
        to.copy_from_slice(&unit.to_le_bytes());
    }
}

/// The number of UTF-16 code units in a text.
fn utf16_len(text: &str) -> usize {
    // Count one unit for each byte that begins a character, and one more for characters of four
    // bytes.
    text.bytes().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0)).sum()
}

#[cfg(all(test, feature = "alloc"))]
pub(super) mod tests {
    use alloc::{string::String, vec::Vec};

    use super::*;
    use crate::payload::VecBuffer;

    fn check(text: &str) {
        let expected: Vec<u8> = text
            .encode_utf16()
            .map(|unit| if unit == 0 { 0xFFFD } else { unit })
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(2 * utf16_len(text), expected.len(), "{text:?}");
        let mut buffer = VecBuffer::new();
        put_utf16(&mut buffer, text, TextBounds::Elsewhere);
        assert_eq!(buffer.bytes, expected, "{text:?}");
    }

    /// Texts of every length, with something special at every place.
    pub(in crate::payload) fn for_each_text(check: impl Fn(&str)) {
        for len in 0..70 {
            let text: String = (0..len).map(|index| char::from(b'!' + index)).collect();
            check(&text);
            for at in 0..len as usize {
                for special in ["\0", "\u{1}", "\u{7f}", "é", "€", "🎈"] {
                    let mut text = text.clone();
                    text.replace_range(at..=at, special);
                    check(&text);
                }
            }
        }
    }

    #[test]
    fn every_length_and_every_place() {
        for_each_text(check);
    }
}
