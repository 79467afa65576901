//! Checked reading of the primitives of all blocks: a read succeeds, or states where it failed.

use alloc::string::String;

use crate::primitive::{self, MAX_VARUINT64};

/// A place in a block that violates the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {what}")]
pub struct Damage {
    /// Where the field that cannot be read begins, in bytes from the start of the stream.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// A position in the bytes of a block. Its methods return [`Damage`] if the bytes end too early, or
/// have not the form of what is read.
///
/// ```
/// use nettrace_format::Cursor;
///
/// // The bytes begin at offset 100 of a stream: a number, and a text whose end is missing.
/// let mut cursor = Cursor::new(b"\x07\x02a", 100);
/// assert_eq!(cursor.varuint32()?, 7);
/// assert_eq!(cursor.string().unwrap_err().offset, 102);
/// # Ok::<(), nettrace_format::Damage>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: u64,
}

type Read<T> = Result<T, Damage>;

#[allow(clippy::missing_errors_doc, reason = "the type says it")]
impl<'a> Cursor<'a> {
    /// The start of `bytes`, which begin at offset `base` of the stream.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, pos: 0, base }
    }

    /// The offset in the stream.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// How many bytes were read.
    #[must_use]
    #[inline]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// How many bytes are left.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// The bytes that are left.
    #[must_use]
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.pos..]
    }

    /// Whether no bytes are left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Damage at this position.
    #[must_use]
    #[inline]
    pub fn damage(&self, what: &'static str) -> Damage {
        Damage { offset: self.offset(), what }
    }

    /// Reads the next `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.pos..];
        let taken = rest.get(..len).ok_or_else(|| self.damage("it ends inside a field"))?;
        self.pos += len;
        Ok(taken)
    }

    /// Returns a cursor over the next `len` bytes and skips them.
    #[inline]
    pub fn sub(&mut self, len: usize) -> Read<Cursor<'a>> {
        let base = self.offset();
        Ok(Cursor::new(self.bytes(len)?, base))
    }

    /// Reads the next `N` bytes, if there are as many. Says nothing of the place if not.
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += N;
        Some(taken)
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number of two bytes, little-endian like all numbers of a fixed size.
    #[inline]
    pub fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a signed number of two bytes.
    #[inline]
    pub fn i16(&mut self) -> Read<i16> {
        Ok(i16::from_le_bytes(self.array()?))
    }

    /// Reads a number of four bytes.
    #[inline]
    pub fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a number of eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a signed number of eight bytes.
    #[inline]
    pub fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a `varuint64` of the format: seven bits per byte, low bits first, at most ten bytes.
    #[inline]
    pub fn varuint64(&mut self) -> Read<u64> {
        let start = *self;
        primitive::read_varuint(self.bytes, &mut self.pos, MAX_VARUINT64).ok_or_else(|| {
            let is_cut = start.bytes.len() - start.pos < MAX_VARUINT64;
            start.damage(match is_cut {
                true => "it ends inside a number",
                false => "a variable-length number does not fit 64 bits",
            })
        })
    }

    /// Reads a `varuint32` of the format: at most five bytes.
    #[inline]
    pub fn varuint32(&mut self) -> Read<u32> {
        let start = *self;
        let value = self.varuint64()?;
        if self.pos - start.pos > 5 {
            return Err(start.damage("a variable-length number does not fit 32 bits"));
        }
        u32::try_from(value)
            .map_err(|_| start.damage("a variable-length number does not fit 32 bits"))
    }

    /// Reads a `varint64` of the format: zig-zag.
    #[inline]
    pub fn varint64(&mut self) -> Read<i64> {
        let raw = self.varuint64()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads a `string` of versions 4 and 5: UTF-16 up to a NUL. Invalid Unicode becomes U+FFFD.
    pub fn utf16z(&mut self) -> Read<String> {
        let units = self.bytes[self.pos..].chunks_exact(2);
        let Some(len) = units.clone().position(|unit| unit == [0, 0]) else {
            return Err(self.damage("a text has no end"));
        };
        let units = units.take(len).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        let text = text.collect();
        self.bytes(2 * len + 2)?;
        Ok(text)
    }

    /// Reads a `string` of version 6: a varuint32 length in bytes, then UTF-8. Invalid UTF-8
    /// becomes U+FFFD.
    pub fn string(&mut self) -> Read<String> {
        let len = self.varuint32()? as usize;
        Ok(String::from_utf8_lossy(self.bytes(len)?).into_owned())
    }

    /// Skips a `string` of version 6.
    #[inline]
    pub fn skip_string(&mut self) -> Read<()> {
        let len = match self.bytes.get(self.pos) {
            Some(&len) if len < 0x80 => {
                self.pos += 1;
                len.into()
            }
            _ => self.varuint32()? as usize,
        };
        self.bytes(len).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn numbers_of_variable_length() {
        let check = |bytes: &[u8], value| {
            let mut cursor = Cursor::new(bytes, 0);
            assert_eq!(cursor.varuint64().ok(), value, "{bytes:x?}");
        };
        check(&[0], Some(0));
        check(&[0x7F], Some(127));
        check(&[0x80, 1], Some(128));
        check(&[0xFF; 9], None);
        let mut max = [0xFF; 10];
        max[9] = 1;
        check(&max, Some(u64::MAX));
        max[9] = 2;
        check(&max, None);
        check(&[0x80; 11], None);
        assert_eq!(Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 0).varuint32(), Ok(u32::MAX));
        assert!(Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F], 0).varuint32().is_err());
        assert!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0], 0).varuint32().is_err());
        assert_eq!(Cursor::new(&[3], 0).varint64(), Ok(-2));
        let mut min = [0xFF; 10];
        min[9] = 1;
        assert_eq!(Cursor::new(&min, 0).varint64(), Ok(i64::MIN));
    }

    #[test]
    fn damage_names_the_offset_of_the_field() {
        let mut cursor = Cursor::new(&[1, 2, 0x80], 100);
        assert_eq!(cursor.u16(), Ok(0x0201));
        assert_eq!(cursor.varuint32().unwrap_err().offset, 102);
        assert_eq!(Cursor::new(&[5, b'a'], 7).string().unwrap_err().offset, 8);
    }
}
