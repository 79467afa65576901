//! [`Cursor`]: a checked position in the bytes of a block. A read succeeds, or states where it
//! failed.

use crate::error::Damage;

pub(crate) type Read<T> = Result<T, Damage>;

/// A position in `bytes`, whose first byte stands at stream offset `base`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, pos: 0, base }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    pub(crate) fn position(&self) -> usize {
        self.pos
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    pub(crate) fn damage(&self, what: &'static str) -> Damage {
        Damage { offset: self.offset(), what }
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.pos..];
        let taken = rest.get(..len).ok_or_else(|| self.damage("it ends inside a field"))?;
        self.pos += len;
        Ok(taken)
    }

    /// Returns a cursor over the next `len` bytes and skips them.
    pub(crate) fn sub(&mut self, len: usize) -> Read<Cursor<'a>> {
        let base = self.offset();
        Ok(Cursor::new(self.bytes(len)?, base))
    }

    /// The next bytes, if there are so many.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += N;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn i16(&mut self) -> Read<i16> {
        Ok(i16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a `varuint64` of the format: seven bits per byte, low bits first, at most ten bytes.
    pub(crate) fn varuint64(&mut self) -> Read<u64> {
        let start = *self;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8().map_err(|_| start.damage("it ends inside a number"))?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(start.damage("a variable-length number does not fit 64 bits"))
    }

    /// Reads a `varuint32` of the format: at most five bytes.
    pub(crate) fn varuint32(&mut self) -> Read<u32> {
        let start = *self;
        let value = self.varuint64()?;
        if self.pos - start.pos > 5 {
            return Err(start.damage("a variable-length number does not fit 32 bits"));
        }
        u32::try_from(value)
            .map_err(|_| start.damage("a variable-length number does not fit 32 bits"))
    }

    /// Reads a `varint64` of the format: zig-zag.
    pub(crate) fn varint64(&mut self) -> Read<i64> {
        let raw = self.varuint64()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads a `string` of versions 4 and 5: UTF-16 up to a NUL. Invalid Unicode becomes U+FFFD.
    pub(crate) fn utf16z(&mut self) -> Read<String> {
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
    pub(crate) fn string(&mut self) -> Read<String> {
        let len = self.varuint32()? as usize;
        Ok(String::from_utf8_lossy(self.bytes(len)?).into_owned())
    }

    /// Reads a `string` of version 6, but makes nothing of it.
    #[inline]
    pub(crate) fn skip_string(&mut self) -> Read<()> {
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
