//! Converts text to UTF-16, with a fast path for ASCII.
//!
//! A NUL becomes U+FFFD: the reference reader shows UTF-16 of every kind only up to its first NUL,
//! and a NUL inside a terminated string would shift the fields after it. (UTF-8 is written
//! unchanged.)
//!
//! Lengths of 4 bytes and more are covered by whole steps of 4, 8 or 16 bytes, the last of which
//! may overlap the one before it: no loop over single bytes, few branches, and one pass that checks
//! and writes.

/// Replaces a NUL.
const REPLACEMENT: u16 = 0xFFFD;

/// Writes text as little-endian UTF-16 if it is all ASCII without a NUL. Returns `false` if it is
/// not, or if `out` is not twice as long as `bytes`; the content of `out` is then unspecified.
#[inline(always)]
pub(super) fn widen_plain(bytes: &[u8], out: &mut [u8]) -> bool {
    widen_by(bytes, out, widen_long)
}

/// [`widen_plain`] without a call.
#[inline(always)]
pub(super) fn widen_plain_here(bytes: &[u8], out: &mut [u8]) -> bool {
    widen_by(bytes, out, widen_steps)
}

#[inline(always)]
fn widen_by(bytes: &[u8], out: &mut [u8], long: impl FnOnce(&[u8], &mut [u8]) -> bool) -> bool {
    if out.len() != 2 * bytes.len() {
        return false;
    }
    if bytes.len() > 32 {
        return long(bytes, out);
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

/// [`widen_plain`] for more than 16 bytes.
#[inline(never)]
fn widen_long(bytes: &[u8], out: &mut [u8]) -> bool {
    widen_steps(bytes, out)
}

#[inline(always)]
fn widen_steps(bytes: &[u8], out: &mut [u8]) -> bool {
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

/// Widens `N` bytes (4 or a multiple of 8) to `W`, twice as many, and returns whether all are
/// plain. Compilers turn a loop from array to array into interleaving instructions.
#[inline(always)]
fn widen<const N: usize, const W: usize>(from: &[u8; N], to: &mut [u8; W]) -> bool {
    // The compiler knows that this local array does not overlap `from`.
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

/// Returns a word with some byte's high bit set if any of the 8 bytes is 0 or not ASCII.
/// Subtracting 1 from each byte sets the high bit of the lowest byte that is 0. It sets the high
/// bit of a byte of 1 to 0x7F only if a lower byte is 0.
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

/// Writes any text as little-endian UTF-16. `out` must have two bytes for each of [`utf16_len`].
#[inline(never)]
pub(super) fn write_utf16(text: &str, out: &mut [u8]) {
    for (unit, to) in text.encode_utf16().zip(out.chunks_exact_mut(2)) {
        let unit = if unit == 0 { REPLACEMENT } else { unit };
        to.copy_from_slice(&unit.to_le_bytes());
    }
}

/// The number of UTF-16 code units in a text.
#[inline(never)]
pub(super) fn utf16_len(text: &str) -> usize {
    // Count one unit for each byte that begins a character, and one more for characters of four
    // bytes.
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
        let mut again = vec![0xAA; 2 * text.len()];
        assert_eq!(widen_plain_here(text.as_bytes(), &mut again), plain, "{text:?}");
        if plain {
            assert_eq!(again, expected, "{text:?}");
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
