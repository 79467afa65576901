//! Text as UTF-16, at the speed of memory where it is ASCII.
//!
//! A NUL becomes U+FFFD: the reference reader shows UTF-16 of every kind up to its first NUL only,
//! and a NUL inside of a terminated string would shift the fields behind it. (UTF-8 is written as
//! it is.)
//!
//! Lengths of 4 bytes and more are covered by whole steps of 4, 8 or 16 bytes, the last of which
//! may overlap the one before it: no loop over single bytes, few branches, and one pass that checks and writes.

/// What a NUL becomes.
const REPLACEMENT: u16 = 0xFFFD;

/// Writes text as UTF-16, little endian, if it is all ASCII without a NUL, so that it is its own UTF-16 but for the width.
/// `false`: it is not, or `out` is not twice as long as `bytes`; what `out` holds then means nothing.
#[inline(always)]
pub(super) fn widen_plain(bytes: &[u8], out: &mut [u8]) -> bool {
    if out.len() != 2 * bytes.len() {
        return false;
    }
    if bytes.len() > 32 {
        return widen_long(bytes, out);
    }
    if bytes.len() >= 16 {
        let first = widen_first::<16, 32>(bytes, out);
        return first && (bytes.len() == 16 || widen_last::<16, 32>(bytes, out));
    }
    if bytes.len() >= 8 {
        return widen_first::<8, 16>(bytes, out) & widen_last::<8, 16>(bytes, out);
    }
    if bytes.len() >= 4 {
        return widen_first::<4, 8>(bytes, out) & widen_last::<4, 8>(bytes, out);
    }
    let mut plain = true;
    for (&byte, unit) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        plain &= is_plain(byte);
        unit.copy_from_slice(&u16::from(byte).to_le_bytes());
    }
    plain
}

/// [`widen_plain`] of more than 16 bytes.
#[inline(never)]
fn widen_long(bytes: &[u8], out: &mut [u8]) -> bool {
    let mut plain = true;
    for (from, to) in bytes.chunks_exact(16).zip(out.chunks_exact_mut(32)) {
        plain &= widen_first::<16, 32>(from, to);
    }
    plain && widen_last::<16, 32>(bytes, out)
}

/// Whether a byte is ASCII and not 0.
#[inline(always)]
fn is_plain(byte: u8) -> bool {
    (byte as i8) > 0
}

/// Widens `N` bytes (4 or a multiple of 8) to `W`, twice as many, and says whether all were plain. A loop from array to
/// array is what compilers turn into interleaving instructions.
#[inline(always)]
fn widen<const N: usize, const W: usize>(from: &[u8; N], to: &mut [u8; W]) -> bool {
    // By way of an array of its own, which cannot overlap with `from` as far as a compiler knows.
    let mut wide = [0; W];
    for (unit, &byte) in wide.chunks_exact_mut(2).zip(from) {
        unit.copy_from_slice(&u16::from(byte).to_le_bytes());
    }
    *to = wide;
    let mut marks = 0;
    for word in from.chunks(8) {
        let mut bytes = [1; 8];
        bytes[..word.len()].copy_from_slice(word);
        marks |= not_plain(u64::from_le_bytes(bytes));
    }
    marks & 0x8080_8080_8080_8080 == 0
}

/// The high bit of a byte is set if one of 8 bytes is 0 or not ASCII: subtracting 1 of each sets the high bit of the lowest
/// byte that is 0, and of no byte of 1 to 0x7F unless there is a 0 below it.
#[inline(always)]
fn not_plain(word: u64) -> u64 {
    word.wrapping_sub(0x0101_0101_0101_0101) | word
}

#[inline(always)]
fn widen_first<const N: usize, const W: usize>(bytes: &[u8], out: &mut [u8]) -> bool {
    match (bytes.first_chunk::<N>(), out.first_chunk_mut::<W>()) {
        (Some(from), Some(to)) => widen(from, to),
        _ => false,
    }
}

#[inline(always)]
fn widen_last<const N: usize, const W: usize>(bytes: &[u8], out: &mut [u8]) -> bool {
    match (bytes.last_chunk::<N>(), out.last_chunk_mut::<W>()) {
        (Some(from), Some(to)) => widen(from, to),
        _ => false,
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
        let mut out = vec![0xAA; expected.len()];
        write_utf16(text, &mut out);
        assert_eq!(out, expected, "{text:?}");
        let mut out = vec![0xAA; 2 * text.len()];
        assert_eq!(widen_plain(text.as_bytes(), &mut out), plain, "{text:?}");
        if plain {
            assert_eq!(out, expected, "{text:?}");
        }
        out.push(0);
        assert!(!widen_plain(text.as_bytes(), &mut out), "{text:?}");
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
