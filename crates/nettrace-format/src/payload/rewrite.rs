//! Makes a payload of version 6 again, front to back, by the types of its fields.
//!
//! Such a payload can be of any trace, and hold anything: there is an error wherever it does not
//! fit its type, and a bound for arrays whose elements have no bytes.
//!
//! ```
//! use nettrace_format::{
//!     Type,
//!     payload::{
//!         Refusal,
//!         rewrite::{PayloadRewriter, Rewrite},
//!     },
//! };
//!
//! /// Doubles bytes, and leaves everything else as it is.
//! struct Doubled;
//!
//! impl Rewrite for Doubled {
//!     fn plain(&mut self, ty: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
//!         match ty {
//!             Type::UInt8 => out.push(value[0] * 2),
//!             _ => out.extend_from_slice(value),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! // A number, and a RelLoc whose data is the text behind it.
//! let mut payload = PayloadRewriter::new(b"\x05\0\0\x03\0Ada", 8);
//! payload.value(&Type::UInt8, &mut Doubled)?;
//! payload.value(&Type::RelLoc(Box::new(Type::Utf8CodeUnit)), &mut Doubled)?;
//! assert_eq!(payload.finish()?, b"\x0a\0\0\x03\0Ada");
//! # Ok::<(), Refusal>(())
//! ```

use alloc::vec::Vec;

use crate::{
    payload::{MAX_PAYLOAD, Refusal},
    schema::Type,
};

/// Decides what becomes of the values of a payload.
///
/// The [module](self) has an example.
pub trait Rewrite {
    /// Appends what a value of a type without others inside becomes.
    ///
    /// # Errors
    /// Any reason not to write the payload. So for all methods.
    fn plain(&mut self, ty: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal>;

    /// Rewrites the next value with all that is in it, and returns `true`. Otherwise the values in
    /// it are rewritten one by one.
    ///
    /// # Errors
    /// As [`plain`](Self::plain).
    fn whole(&mut self, _ty: &Type, _payload: &mut PayloadRewriter<'_>) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// What the data of a RelLoc or DataLoc becomes: by default it stays as it is.
    ///
    /// # Errors
    /// As [`plain`](Self::plain).
    fn located<'a>(
        &mut self,
        _element: &Type,
        data: &'a [u8],
        _payload: &mut PayloadRewriter<'a>,
    ) -> Result<Vec<u8>, Refusal> {
        Ok(data.to_vec())
    }
}

/// Leaves values as they are.
#[derive(Clone, Copy, Debug)]
pub struct Copied;

impl Rewrite for Copied {
    fn plain(&mut self, _: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn whole(&mut self, ty: &Type, payload: &mut PayloadRewriter<'_>) -> Result<bool, Refusal> {
        let (count, element) = match ty {
            Type::Array(element) => (None, element),
            Type::FixedArray(element, count) => (Some(*count), element),
            _ => return Ok(false),
        };
        let size = match **element {
            Type::Boolean | Type::DateTime | Type::Object(_) => None,
            ref plain if plain.element().is_none() => plain.fixed_size(),
            _ => None,
        };
        let Some(size) = size else { return Ok(false) };
        let count = match count {
            Some(count) => count,
            None => payload.count()?,
        };
        payload.spend(count.into())?;
        let elements = payload.take(usize::from(count) * size as usize)?;
        payload.put(elements);
        Ok(true)
    }
}

/// A payload that is taken apart from front to back, and what was made of it so far.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct PayloadRewriter<'a> {
    payload: &'a [u8],
    /// The bytes that come next.
    rest: &'a [u8],
    /// How many more elements of arrays there may be. Some take no bytes, and a few bytes could
    /// keep a conversion busy for ever.
    budget: usize,
    /// The size of a date.
    date: usize,
    has_times: bool,
    /// Where the last located data of the payload ends.
    end: usize,
    /// The size of all located data so far.
    located_bytes: usize,
    out: Vec<u8>,
    located: Vec<Located>,
}

/// A RelLoc or DataLoc of the result.
#[derive(Clone, Debug)]
struct Located {
    /// Where it is in the result.
    at: usize,
    is_relative: bool,
    data: Vec<u8>,
}

impl<'a> PayloadRewriter<'a> {
    /// Nothing is taken yet. Dates have `date` bytes: eight, or sixteen.
    #[must_use]
    pub fn new(payload: &'a [u8], date: usize) -> Self {
        Self {
            payload,
            rest: payload,
            budget: payload.len() * 8 + 1_024,
            date,
            has_times: true,
            end: 0,
            located_bytes: 0,
            out: Vec::with_capacity(payload.len()),
            located: Vec::new(),
        }
    }

    /// The same payload at the same place, with nothing made of it: to look at what comes.
    #[must_use]
    pub fn ahead(&self) -> Self {
        Self { out: Vec::new(), located: Vec::new(), ..*self }
    }

    /// Whether no bytes are left.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether the values so far take the whole payload.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.position().max(self.end) == self.payload.len()
    }

    /// Whether all dates of sixteen bytes so far can be times, or are zero throughout.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// How many bytes were taken.
    fn position(&self) -> usize {
        self.payload.len() - self.rest.len()
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: the payload ends before. So for all methods that take a value.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Appends bytes to the result.
    pub fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Rewrites the next value, of this type.
    ///
    /// # Errors
    /// As [`take`](Self::take). [`Refusal::PayloadTooLarge`] if the result becomes too large.
    pub fn value(&mut self, ty: &Type, how: &mut impl Rewrite) -> Result<(), Refusal> {
        if how.whole(ty, self)? {
            return self.check_size();
        }
        match ty {
            Type::Object(fields) => {
                fields.iter().try_for_each(|field| self.value(&field.ty, how))?;
            }
            Type::Array(element) => {
                let count = self.count()?;
                self.elements(element, count, how)?;
            }
            Type::FixedArray(element, count) => self.elements(element, *count, how)?,
            Type::RelLoc(element) | Type::DataLoc(element) => {
                let is_relative = matches!(ty, Type::RelLoc(_));
                self.location(is_relative, |data, payload| how.located(element, data, payload))?;
            }
            plain => {
                let value = self.plain(plain)?;
                how.plain(plain, value, &mut self.out)?;
            }
        }
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Refusal> {
        match self.out.len() + self.located_bytes > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(()),
        }
    }

    /// Passes over the next value, of this type. Returns its bytes, which have no located data.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn skip(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let start = self.rest;
        let (out, located) = (self.out.len(), self.located.len());
        self.value(ty, &mut Copied)?;
        self.out.truncate(out);
        self.located.truncate(located);
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// Copies the number of an array's elements.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn count(&mut self) -> Result<u16, Refusal> {
        let count = self.take(2)?;
        self.put(count);
        Ok(word(count))
    }

    /// Rewrites the elements of an array.
    ///
    /// # Errors
    /// As [`value`](Self::value), and [`Refusal::Malformed`]: there are too many.
    pub fn elements(
        &mut self,
        element: &Type,
        count: u16,
        how: &mut impl Rewrite,
    ) -> Result<(), Refusal> {
        // What has no bytes changes nothing.
        let count = if element.is_of_no_bytes() { 0 } else { count };
        for _ in 0..count {
            self.spend(1)?;
            self.value(element, how)?;
        }
        Ok(())
    }

    /// Puts a location in the place of the next one. Its data is what `new` makes of the old.
    ///
    /// # Errors
    /// Those of `new`, and [`Refusal::Malformed`]: the data is not within the payload.
    pub fn location(
        &mut self,
        is_relative: bool,
        new: impl FnOnce(&'a [u8], &mut Self) -> Result<Vec<u8>, Refusal>,
    ) -> Result<(), Refusal> {
        let at = self.out.len();
        let location = self.take(4)?;
        let (position, size) = (word(location).into(), usize::from(word(&location[2..])));
        let start = if is_relative { self.position() + position } else { position };
        let data = self.payload.get(start..).and_then(|rest| rest.get(..size));
        let data = data.ok_or(Refusal::Malformed)?;
        self.end = self.end.max(start + size);
        // Locations may overlap. What they all have together is copied.
        self.located_bytes += size;
        if self.located_bytes > MAX_PAYLOAD {
            return Err(Refusal::PayloadTooLarge);
        }
        let data = new(data, self)?;
        self.put(location);
        self.located.push(Located { at, is_relative, data });
        Ok(())
    }

    /// Rewrites the elements that `data`, a part of the payload, consists of.
    ///
    /// # Errors
    /// As [`value`](Self::value), and [`Refusal::Malformed`]: the elements have no bytes, or
    /// located data of their own.
    pub fn elements_in(
        &mut self,
        element: &Type,
        data: &'a [u8],
        how: &mut impl Rewrite,
    ) -> Result<Vec<u8>, Refusal> {
        let mut inner = Self { rest: data, ..self.ahead() };
        while !inner.rest.is_empty() {
            let before = inner.rest.len();
            inner.value(element, how)?;
            if inner.rest.len() == before || !inner.located.is_empty() {
                return Err(Refusal::Malformed);
            }
        }
        (self.budget, self.has_times) = (inner.budget, inner.has_times);
        Ok(inner.out)
    }

    /// The result: what was made of the values, and behind it the data of all locations.
    ///
    /// # Errors
    /// [`Refusal::PayloadTooLarge`]
    pub fn finish(mut self) -> Result<Vec<u8>, Refusal> {
        for Located { at, is_relative, data } in &self.located {
            let origin = if *is_relative { at + 4 } else { 0 };
            let position = u16::try_from(self.out.len() - origin);
            let position = position.map_err(|_| Refusal::PayloadTooLarge)?;
            let size = u16::try_from(data.len()).map_err(|_| Refusal::PayloadTooLarge)?;
            self.out[*at..at + 2].copy_from_slice(&position.to_le_bytes());
            self.out[at + 2..at + 4].copy_from_slice(&size.to_le_bytes());
            self.out.extend_from_slice(data);
        }
        match self.out.len() > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(self.out),
        }
    }

    /// Takes a value of a type without others inside. A Boolean has four bytes, or one at the end
    /// of the payload, as profilers of .NET write it.
    fn plain(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let len = match ty {
            Type::Boolean if self.rest.len() == 1 => 1,
            Type::DateTime => self.date,
            Type::Utf16String => {
                let units = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                2 * (units.ok_or(Refusal::Malformed)? + 1)
            }
            Type::VarInt | Type::VarUInt => {
                let last = self.rest.iter().position(|byte| byte & 0x80 == 0);
                last.ok_or(Refusal::Malformed)? + 1
            }
            _ if ty.plain_code().is_none() => return Err(Refusal::Malformed),
            _ => ty.fixed_size().ok_or(Refusal::Malformed)? as usize,
        };
        let value = self.take(len)?;
        if *ty == Type::DateTime && len == 16 {
            self.has_times &= can_be_time(value);
        }
        Ok(value)
    }

    /// Notes elements of an array.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: there are too many.
    pub(crate) fn spend(&mut self, elements: usize) -> Result<(), Refusal> {
        self.budget = self.budget.checked_sub(elements).ok_or(Refusal::Malformed)?;
        Ok(())
    }
}

/// The first two bytes as a number.
fn word(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Whether a date of sixteen bytes can be a time, or is zero throughout.
fn can_be_time(date: &[u8]) -> bool {
    let parts = date.chunks_exact(2).map(|part| u16::from_le_bytes([part[0], part[1]]));
    let ranges = [1601..=9999, 1..=12, 0..=6, 1..=31, 0..=23, 0..=59, 0..=60, 0..=999];
    parts.clone().all(|part| part == 0)
        || parts.zip(ranges).all(|(part, range)| range.contains(&part))
}
