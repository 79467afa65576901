//! UTF-16 of a text, and its length.

/// Replaces a NUL: the reference reader shows UTF-16 of every kind only up to its first NUL, and a
/// NUL inside a terminated string would shift the fields after it. (UTF-8 is written unchanged.)
const REPLACEMENT: u16 = 0xFFFD;

/// Writes any text as little-endian UTF-16. `out` must have two bytes for each of [`utf16_len`].
pub(super) fn write_utf16(text: &str, out: &mut [u8]) {
    for (unit, to) in text.encode_utf16().zip(out.chunks_exact_mut(2)) {
        let unit = if unit == 0 { REPLACEMENT } else { unit };
        to.copy_from_slice(&unit.to_le_bytes());
    }
}

/// The number of UTF-16 code units in a text.
pub(super) fn utf16_len(text: &str) -> usize {
    // Count one unit for each byte that begins a character, and one more for characters of four
    // bytes.
    text.bytes().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0)).sum()
}

#[cfg(all(test, feature = "alloc"))]
pub(super) mod tests {
    use alloc::{string::String, vec::Vec};

    use super::*;
    use crate::payload::{TextBounds, VecBuffer, put_utf16};

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
