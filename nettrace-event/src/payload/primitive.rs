//! Numbers and GUIDs, as NetTrace stores them in payloads and elsewhere.

/// The longest LEB128 form of a `u64`, in bytes.
pub const MAX_VARUINT64: usize = 10;

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
#[inline(always)]
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
#[inline(always)]
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Converts a GUID from the byte order of RFC 4122 to that of NetTrace: an `Int32`, two `Int16` and
/// eight bytes, the numbers little endian.
///
/// ```
/// let guid = std::array::from_fn(|at| at as u8);
/// let bytes = nettrace_event::payload::primitive::guid(&guid);
/// assert_eq!(bytes[..10], [3, 2, 1, 0, 5, 4, 7, 6, 8, 9]);
/// ```
#[inline(always)]
#[must_use]
pub const fn guid(rfc: &[u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *rfc;
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}
