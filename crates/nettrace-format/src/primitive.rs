//! The primitives of all blocks: little-endian numbers, LEB128, counted text, GUIDs.

use alloc::vec::Vec;

pub(crate) use nettrace_event::payload::primitive::{
    MAX_VARUINT32, MAX_VARUINT64, put_varuint, read_varuint, read_varuint32,
};

/// `value` as LEB128, in a word whose first bytes count, and how many do.
#[inline]
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
}
