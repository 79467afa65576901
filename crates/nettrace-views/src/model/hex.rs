//! Bytes as hexadecimal digits, and GUIDs.

use std::fmt;

use nettrace_event::{
    guid::{self, GuidText},
    hex,
};

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    hex::push(bytes, &mut text);
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
        let mut padded = [0; Self::ROOM];
        padded[..bytes.len()].copy_from_slice(bytes);
        Self { digits: hex::digits(&padded), len: 2 * bytes.len() }
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &str {
        // They are ASCII.
        std::str::from_utf8(&self.digits[..self.len]).unwrap_or("")
    }
}

/// A GUID in its usual text form. In the bytes of the format the first three groups are
/// little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Guid<'a>(pub &'a [u8; 16]);

impl fmt::Display for Guid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GuidText(&guid::swapped(self.0)).fmt(f)
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
