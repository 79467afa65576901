//! Bytes as hexadecimal digits, and GUIDs.

use std::fmt;

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for part in bytes.chunks(Hex::ROOM) {
        text.push_str(Hex::of(part).text());
    }
    text
}

/// The lower-case hexadecimal digits of at most 16 bytes, without a place of their own in memory.
#[derive(Clone, Copy, Debug)]
pub struct Hex {
    digits: [u8; 2 * Self::ROOM],
    len: usize,
}

impl Hex {
    const ROOM: usize = 16;

    /// The digits of the first 16 bytes, the high four bits of each byte first.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(Self::ROOM)];
        let mut digits = [0; 2 * Self::ROOM];
        for (to, from) in digits.chunks_exact_mut(8).zip(bytes.chunks(4)) {
            let mut four = [0; 4];
            four[..from.len()].copy_from_slice(from);
            to.copy_from_slice(&eight_digits(u32::from_be_bytes(four)));
        }
        Self { digits, len: 2 * bytes.len() }
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &str {
        // They are ASCII.
        std::str::from_utf8(&self.digits[..self.len]).unwrap_or("")
    }
}

/// The digits of a number of 32 bits, all at once in the bytes of one of 64 bits.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = u64::from(number);
    let spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF;
    let spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF;
    let spread = (spread | spread << 4) & (0x0F * ONES);
    // Six more than ten has the fifth bit.
    let letters = (spread + 6 * ONES) >> 4 & ONES;
    let to_letter = u64::from(b'a' - b'9' - 1);
    (spread + u64::from(b'0') * ONES + letters * to_letter).to_be_bytes()
}

/// A GUID in its usual text form. In the bytes of the format the first three groups are
/// little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Guid<'a>(pub &'a [u8; 16]);

impl fmt::Display for Guid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, rest @ ..] = *self.0;
        let first = u32::from_le_bytes([a, b, c, d]);
        let (second, third) = (u16::from_le_bytes([e, g]), u16::from_le_bytes([h, i]));
        let [fourth, last] = [&rest[..2], &rest[2..]].map(Hex::of);
        write!(f, "{first:08x}-{second:04x}-{third:04x}-{}-{}", fourth.text(), last.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex(&bytes), expected);
        for len in 0..=16 {
            assert_eq!(Hex::of(&bytes[170..170 + len]).text(), &expected[340..340 + 2 * len]);
        }
        let id = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(Guid(&id).to_string(), "04030201-0605-0807-090a-0b0c0d0e0f10");
        // More bytes than it has room for.
        assert_eq!(Hex::of(&bytes).text(), &expected[..32]);
    }
}
