//! Text as UTF-16, at the speed of memory where it is ASCII.
//!
//! A NUL becomes U+FFFD: the reference reader shows UTF-16 of every kind up to its first NUL only,
//! and a NUL inside of a terminated string would shift the fields behind it. (UTF-8 is written as
//! it is.)
//!
//! Lengths of 4 bytes and more are covered by whole steps of 4, 8 or 16 bytes, the last of which
//! overlaps the one before it: no loop over single bytes, few branches.

/// What a NUL becomes.
const REPLACEMENT: u16 = 0xFFFD;

/// Whether all bytes are ASCII and none is 0, so that the text is its own UTF-16 but for the width.
#[inline(always)]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    match bytes.len() {
        0..4 => bytes.iter().all(|byte| (1..0x80).contains(byte)),
        4..8 => marks32(first(bytes)) | marks32(last(bytes)) == 0,
        8..=16 => marks(first(bytes)) | marks(last(bytes)) == 0,
        _ => {
            let end = bytes.len() - 16;
            let mut found = marks(last(bytes)) | marks(first(&bytes[end..]));
            let mut at = 0;
            while at < end {
                found |= marks(first(&bytes[at..])) | marks(first(&bytes[at + 8..]));
                at += 16;
            }
            found == 0
        }
    }
}

/// Writes plain text (see [`is_plain`]) as UTF-16, little endian. `out` is twice as long as
/// `bytes`.
#[inline(always)]
pub(super) fn widen(bytes: &[u8], out: &mut [u8]) {
    match bytes.len() {
        0..4 => {
            for (&from, to) in bytes.iter().zip(out.chunks_exact_mut(2)) {
                to.copy_from_slice(&u16::from(from).to_le_bytes());
            }
        }
        len @ 4..8 => {
            widen4(bytes, out);
            widen4(&bytes[len - 4..], &mut out[2 * (len - 4)..]);
        }
        len @ 8..16 => {
            widen8(bytes, out);
            widen8(&bytes[len - 8..], &mut out[2 * (len - 8)..]);
        }
        len @ 16..=32 => {
            widen16(bytes, out);
            widen16(&bytes[len - 16..], &mut out[2 * (len - 16)..]);
        }
        len => {
            let mut at = 0;
            while at < len - 16 {
                widen16(&bytes[at..], &mut out[2 * at..]);
                at += 16;
            }
            widen16(&bytes[len - 16..], &mut out[2 * (len - 16)..]);
        }
    }
}

/// Writes any text as UTF-16, little endian. `out` has two bytes for each of [`utf16_len`].
#[inline(never)]
pub(super) fn write_utf16(text: &str, out: &mut [u8]) {
    for (unit, to) in text.encode_utf16().zip(out.chunks_exact_mut(2)) {
        let unit = if unit == 0 { REPLACEMENT } else { unit };
        to.copy_from_slice(&unit.to_le_bytes());
    }
}

/// How many UTF-16 code units a text has.
#[inline(never)]
pub(super) fn utf16_len(text: &str) -> usize {
    // One for each byte that begins a character, one more for those of four bytes.
    text.bytes().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0)).sum()
}

/// Not 0 if one of 8 bytes is 0 or not ASCII: subtracting 1 of each sets the high bit of the lowest
/// byte that is 0, and of no byte of 1 to 0x7F unless there is a 0 below it.
#[inline(always)]
fn marks(bytes: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(bytes);
    (word.wrapping_sub(0x0101_0101_0101_0101) | word) & 0x8080_8080_8080_8080
}

/// [`marks`] of 4 bytes.
#[inline(always)]
fn marks32(bytes: [u8; 4]) -> u32 {
    let word = u32::from_le_bytes(bytes);
    (word.wrapping_sub(0x0101_0101) | word) & 0x8080_8080
}

/// The first `N` bytes. There are at least that many.
#[inline(always)]
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// The last `N` bytes. There are at least that many.
#[inline(always)]
fn last<const N: usize>(bytes: &[u8]) -> [u8; N] {
    first(&bytes[bytes.len() - N..])
}

/// Functions that widen a number of bytes. Loads byte by byte into an array of units, which is then
/// stored at once, are what compilers turn into interleaving instructions; from an array that was
/// loaded at once they shift and mask.
macro_rules! wideners {
    ($($name:ident: $narrow:literal to $wide:literal;)*) => {
        $(
            #[inline(always)]
            fn $name(from: &[u8], to: &mut [u8]) {
                let mut wide = [0; $wide];
                for (unit, &byte) in wide.chunks_exact_mut(2).zip(&from[..$narrow]) {
                    unit.copy_from_slice(&u16::from(byte).to_le_bytes());
                }
                to[..$wide].copy_from_slice(&wide);
            }
        )*
    };
}

wideners! {
    widen4: 4 to 8;
    widen8: 8 to 16;
    widen16: 16 to 32;
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec, vec::Vec};

    use super::*;

    fn check(text: &str) {
        let expected: Vec<u8> = text
            .encode_utf16()
            .map(|unit| if unit == 0 { 0xFFFD } else { unit })
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(2 * utf16_len(text), expected.len(), "{text:?}");
        let plain = text.bytes().all(|byte| byte.is_ascii() && byte != 0);
        assert_eq!(is_plain(text.as_bytes()), plain, "{text:?}");
        let mut out = vec![0xAA; expected.len()];
        write_utf16(text, &mut out);
        assert_eq!(out, expected, "{text:?}");
        if plain {
            out.fill(0xAA);
            widen(text.as_bytes(), &mut out);
            assert_eq!(out, expected, "{text:?}");
        }
    }

    #[test]
    fn every_byte_is_judged() {
        for len in 1..40 {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = byte;
                    assert_eq!(is_plain(&bytes), (1..0x80).contains(&byte), "{byte} of {len}");
                }
            }
        }
    }

    #[test]
    fn every_length_and_every_place() {
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
}
