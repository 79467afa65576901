//! Numbers and GUIDs, as NetTrace stores them in payloads and elsewhere.

/// The longest LEB128 form of a `u64`, in bytes.
pub const MAX_VARUINT64: usize = 10;

/// The longest LEB128 form of a `u32`, in bytes.
pub const MAX_VARUINT32: usize = 5;

/// Writes `value` as LEB128 at `at` and returns the position after it.
///
/// ```
/// use nettrace_event::payload::primitive::{MAX_VARUINT64, put_varuint};
///
/// let mut bytes = [0; MAX_VARUINT64];
/// assert_eq!(put_varuint(&mut bytes, 0, 300), 2);
/// assert_eq!(bytes[..2], [0xac, 2]);
/// ```
///
/// # Panics
/// If `bytes` is too short: up to [`MAX_VARUINT64`] bytes are written.
#[inline]
pub fn put_varuint(bytes: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}

/// Maps a signed number to an unsigned one, so that numbers of small magnitude stay small.
///
/// ```
/// assert_eq!([0, -1, 1, -2].map(nettrace_event::payload::primitive::zigzag), [0, 1, 2, 3]);
/// ```
#[inline]
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reads a LEB128 number of at most `max_len` bytes, which may be padded (`80 00` is 0), and moves
/// `at` past it. Returns `None` if the bytes end early, or if the number is longer or exceeds 64
/// bits.
///
/// ```
/// use nettrace_event::payload::primitive::{MAX_VARUINT64, read_varuint};
///
/// let mut at = 0;
/// assert_eq!(read_varuint(&[0xac, 2], &mut at, MAX_VARUINT64), Some(300));
/// assert_eq!(at, 2);
/// ```
#[inline(always)]
pub fn read_varuint(bytes: &[u8], at: &mut usize, max_len: usize) -> Option<u64> {
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
///
/// ```
/// use nettrace_event::payload::primitive::read_varuint32;
///
/// assert_eq!(read_varuint32(&[0xff, 0xff, 0xff, 0xff, 0x1f], &mut 0), None);
/// ```
#[inline(always)]
pub fn read_varuint32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    u32::try_from(read_varuint(bytes, at, MAX_VARUINT32)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
