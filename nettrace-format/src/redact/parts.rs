//! Takes a payload of version 6 apart, front to back, by the type codes of its fields.
//!
//! For those who make payloads of another trace again. Such payloads can be anything: there is an
//! error wherever one does not fit its type, and a bound for arrays whose elements have no bytes.
//!
//! ```
//! use nettrace_format::{
//!     Type,
//!     redact::parts::{Located, Parts, put_located},
//! };
//!
//! // A number, and a RelLoc whose data is the text behind it.
//! let payload = b"\x05\0\0\x03\0Ada";
//! let mut parts = Parts::new(payload);
//! let mut again = parts.plain(&Type::UInt8)?.to_vec();
//! let (location, data, end) = parts.location(true)?;
//! assert_eq!((data, end), (&b"Ada"[..], 8));
//!
//! let located = Located { at: again.len(), is_relative: true, data: b"***".to_vec() };
//! again.extend_from_slice(location);
//! put_located(&[located], 0, &mut again)?;
//! assert_eq!(again, b"\x05\0\0\x03\0***");
//! # Ok::<(), nettrace_format::payload::Refusal>(())
//! ```

use alloc::vec::Vec;

use crate::{payload::Refusal, schema::Type};

/// A payload that is taken apart from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// All of it.
    pub payload: &'a [u8],
    /// The bytes that come next.
    pub rest: &'a [u8],
    /// How many more elements of arrays there may be. Some take no bytes, and a few bytes could
    /// keep a conversion busy for ever.
    pub budget: usize,
}

impl<'a> Parts<'a> {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, rest: payload, budget: payload.len() * 8 + 1_024 }
    }

    /// How many bytes were taken.
    #[must_use]
    pub fn position(&self) -> usize {
        self.payload.len() - self.rest.len()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: the payload ends before. So for all methods.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A value of a type without others inside. A date has eight bytes. A Boolean has four, or one
    /// at the end of the payload, as profilers of .NET write it.
    ///
    /// # Errors
    /// As [`take`](Self::take), and for types that have others inside or that version 6 does not
    /// have.
    pub fn plain(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let len = match ty {
            Type::Int8 | Type::UInt8 | Type::Utf8CodeUnit | Type::Boolean8 => 1,
            Type::Boolean if self.rest.len() == 1 => 1,
            Type::Int16 | Type::UInt16 | Type::Utf16CodeUnit => 2,
            Type::Boolean | Type::Int32 | Type::UInt32 | Type::Single => 4,
            Type::Int64 | Type::UInt64 | Type::Double | Type::DateTime => 8,
            Type::Guid => 16,
            Type::Utf16String => {
                let units = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                2 * (units.ok_or(Refusal::Malformed)? + 1)
            }
            Type::VarInt | Type::VarUInt => {
                let last = self.rest.iter().position(|byte| byte & 0x80 == 0);
                last.ok_or(Refusal::Malformed)? + 1
            }
            _ => return Err(Refusal::Malformed),
        };
        self.take(len)
    }

    /// The number of an array's elements.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn count(&mut self) -> Result<u16, Refusal> {
        Ok(word(self.take(2)?))
    }

    /// A location: its four bytes, its data, and where that ends.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: the data is not within the payload.
    pub fn location(&mut self, is_relative: bool) -> Result<(&'a [u8], &'a [u8], usize), Refusal> {
        let location = self.take(4)?;
        let (position, size) = (word(location).into(), usize::from(word(&location[2..])));
        let start = if is_relative { self.position() + position } else { position };
        let data = self.payload.get(start..).and_then(|rest| rest.get(..size));
        Ok((location, data.ok_or(Refusal::Malformed)?, start + size))
    }

    /// Notes an element of an array.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: there were too many.
    pub fn spend(&mut self) -> Result<(), Refusal> {
        self.budget = self.budget.checked_sub(1).ok_or(Refusal::Malformed)?;
        Ok(())
    }
}

/// The first two bytes as a number.
fn word(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// A RelLoc or DataLoc of a payload that is made.
#[derive(Clone, Debug)]
pub struct Located {
    /// Where it is in the result.
    pub at: usize,
    /// Whether it is a RelLoc.
    pub is_relative: bool,
    /// Its data.
    pub data: Vec<u8>,
}

/// Appends the data of all locations to a payload that begins at `start`, and says where it is.
///
/// # Errors
/// [`Refusal::PayloadTooLarge`]: 16 bits do not hold where some data is, or its size.
pub fn put_located(located: &[Located], start: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    for Located { at, is_relative, data } in located {
        let origin = if *is_relative { at + 4 } else { start };
        let position = u16::try_from(out.len() - origin);
        let position = position.map_err(|_| Refusal::PayloadTooLarge)?;
        let size = u16::try_from(data.len()).map_err(|_| Refusal::PayloadTooLarge)?;
        out[*at..at + 2].copy_from_slice(&position.to_le_bytes());
        out[at + 2..at + 4].copy_from_slice(&size.to_le_bytes());
        out.extend_from_slice(data);
    }
    Ok(())
}
