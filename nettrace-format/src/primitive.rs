//! The primitives of all blocks: little-endian numbers, LEB128, counted text, GUIDs.

use alloc::vec::Vec;

pub(crate) use nettrace_event::payload::primitive::{MAX_VARUINT64, guid, put_varuint, zigzag};

/// The longest LEB128 form of a `u32`, in bytes.
pub(crate) const MAX_VARUINT32: usize = 5;

/// `value` as LEB128, in a word whose first bytes count, and how many do.
#[inline(always)]
pub(crate) const fn varuint32_word(value: u32) -> (u64, usize) {
    let value = value as u64;
    let groups = value & 0x7F | (value & 0x3F80) << 1 | (value & 0x1F_C000) << 2;
    match value {
        0..0x80 => (value, 1),
        0x80..0x4000 => (groups | 0x80, 2),
        0x4000..0x20_0000 => (groups | 0x8080, 3),
        0x20_0000..0x1000_0000 => (groups | (value & 0xFE0_0000) << 3 | 0x80_8080, 4),
        _ => (groups | (value & 0xFE0_0000) << 3 | (value >> 28) << 32 | 0x8080_8080, 5),
    }
}

/// Appends `value` as LEB128: 1 to 10 bytes.
pub(crate) fn varuint(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_VARUINT64];
    let len = put_varuint(&mut bytes, 0, value);
    out.extend_from_slice(&bytes[..len]);
}

/// Appends text as the format's `string`: LEB128 byte count, then UTF-8.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    varuint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Reads a LEB128 number of at most `max_len` bytes, which may be padded (`80 00` is 0), and moves
/// `at` past it. Returns `None` if the bytes end early, or if the number is longer or exceeds 64
/// bits.
#[inline(always)]
pub(crate) fn read_varuint(bytes: &[u8], at: &mut usize, max_len: usize) -> Option<u64> {
    let rest = bytes.get(*at..)?;
    match *rest {
        [first @ 0..0x80, ..] => {
            *at += 1;
            Some(first.into())
        }
        [first, second @ 0..0x80, ..] => {
            *at += 2;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => read_long_varuint(rest, at, max_len),
    }
}

fn read_long_varuint(rest: &[u8], at: &mut usize, max_len: usize) -> Option<u64> {
    let mut value = 0;
    for (&byte, index) in rest.iter().zip(0..max_len) {
        let part = u64::from(byte & 0x7f);
        if index == MAX_VARUINT64 - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return Some(value);
        }
    }
    None
}

/// [`read_varuint`] for a number that must fit in 32 bits (at most 5 bytes).
#[inline(always)]
pub(crate) fn read_varuint32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    u32::try_from(read_varuint(bytes, at, MAX_VARUINT32)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varuint_bytes() {
        let check = |value: u64, expected: &[u8]| {
            let mut out = Vec::new();
            varuint(value, &mut out);
            assert_eq!(out, expected, "{value}");
            let mut at = 0;
            assert_eq!(read_varuint(&out, &mut at, MAX_VARUINT64), Some(value));
            assert_eq!(at, out.len());
            if let Ok(value) = value.try_into() {
                let (word, len) = varuint32_word(value);
                assert_eq!(word.to_le_bytes()[..len], *expected);
                assert!(word.to_le_bytes()[len..].iter().all(|&byte| byte == 0));
            }
        };
        check(0, &[0]);
        check(0x7f, &[0x7f]);
        check(0x80, &[0x80, 1]);
        check(300, &[0xac, 2]);
        check(0x3fff, &[0xff, 0x7f]);
        check(0x4000, &[0x80, 0x80, 1]);
        check(0x1f_ffff, &[0xff, 0xff, 0x7f]);
        check(0x20_0001, &[0x81, 0x80, 0x80, 1]);
        check(0xfff_ffff, &[0xff, 0xff, 0xff, 0x7f]);
        check(0x1234_5678, &[0xf8, 0xac, 0xd1, 0x91, 1]);
        check(u64::from(u32::MAX), &[0xff, 0xff, 0xff, 0xff, 0x0f]);
        check(u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn varuint_reads_padding_and_refuses_what_is_too_long() {
        let read = |bytes: &[u8], max| {
            let mut at = 0;
            read_varuint(bytes, &mut at, max).map(|value| (value, at))
        };
        assert_eq!(read(&[0x80, 0x80, 0], 5), Some((0, 3)));
        assert_eq!(read(&[0x85, 0x80, 0x80, 0x80, 0], 5), Some((5, 5)));
        assert_eq!(read(&[0x85, 0x80, 0x80, 0x80, 0x80, 0], 5), None);
        assert_eq!(read(&[], 5), None);
        assert_eq!(read(&[0x80], 5), None);
        let mut long = [0xff; 10];
        long[9] = 2;
        assert_eq!(read(&long, 10), None);
        assert_eq!(read_varuint32(&[0xff, 0xff, 0xff, 0xff, 0x1f], &mut 0), None);
        assert_eq!(read_varuint32(&[0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0), Some(u32::MAX));
    }

    #[test]
    fn zigzag_of_the_ends() {
        let pairs = [(0, 0), (-1, 1), (1, 2), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)];
        for (value, expected) in pairs {
            assert_eq!(zigzag(value), expected);
        }
    }

    #[test]
    fn guid_swaps_the_three_numbers() {
        let rfc = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        assert_eq!(guid(&rfc), [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
    }
}
