//! The two byte orders of GUIDs, and their text.

use core::fmt;

use crate::hex;

/// Converts a GUID from the byte order of RFC 9562, which is that of its text, to that of NetTrace
/// and .NET, or back: an `Int32`, two `Int16` and eight bytes, the numbers little endian.
///
/// ```
/// let guid = std::array::from_fn(|at| at as u8);
/// let bytes = nettrace_event::guid::swapped(&guid);
/// assert_eq!(bytes[..10], [3, 2, 1, 0, 5, 4, 7, 6, 8, 9]);
/// ```
#[inline]
#[must_use]
pub const fn swapped(guid: &[u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *guid;
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

/// The text of a GUID, given in the byte order of RFC 9562.
///
/// ```
/// use nettrace_event::guid::GuidText;
///
/// let text = GuidText(b"0123456789abcdef").to_string();
/// assert_eq!(text, "30313233-3435-3637-3839-616263646566");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GuidText<'a>(pub &'a [u8; 16]);

impl fmt::Display for GuidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: [u8; 32] = hex::digits(self.0);
        let (mut text, mut to) = ([b'-'; 36], 0);
        for (at, digit) in digits.iter().enumerate() {
            to += usize::from(matches!(at, 8 | 12 | 16 | 20));
            text[to] = *digit;
            to += 1;
        }
        f.write_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}
