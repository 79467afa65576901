//! Payloads of events of which some fields are replaced.

use std::borrow::Cow;

use nettrace_format::payload::{MAX_PAYLOAD, Refusal};
use nettrace_reader::Type;

use super::{Chosen, Fate, Redaction};
use crate::convert::payload::{Located, Source, count_of, put_located, word};

/// A payload that is made again.
pub(super) struct Again<'a> {
    redaction: &'a Redaction,
    source: Source<'a>,
    /// The size of a date.
    date: usize,
    out: Vec<u8>,
    located: Vec<Located>,
    /// Where the last located data of the payload ends.
    used: usize,
    /// The size of all located data so far.
    located_bytes: usize,
}

impl<'a> Again<'a> {
    /// `date` is the size of a date.
    pub(super) fn new(redaction: &'a Redaction, payload: &'a [u8], date: usize) -> Self {
        let (out, located) = (Vec::with_capacity(payload.len()), Vec::new());
        let source = Source::new(payload);
        Self { redaction, source, date, out, located, used: 0, located_bytes: 0 }
    }

    /// The new payload, and whether the fields take the whole of the old one.
    pub(super) fn fields(mut self, fields: &[Chosen]) -> Result<(bool, Vec<u8>), Refusal> {
        let mut is_whole = true;
        for field in fields {
            // An older version of the type has fewer fields.
            if self.source.rest.is_empty() {
                is_whole = false;
                break;
            }
            self.field(field)?;
        }
        let fits = is_whole && self.source.position().max(self.used) == self.source.payload.len();
        put_located(&self.located, 0, &mut self.out)?;
        match self.out.len() > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok((fits, self.out)),
        }
    }

    fn field(&mut self, field: &Chosen) -> Result<(), Refusal> {
        match &field.fate {
            Fate::Stays => self.copied(&field.ty),
            Fate::Goes => self.replaced(&field.ty),
            Fate::Parts(parts) => self.parts(&field.ty, parts),
        }
    }

    /// An object, or an array of objects, of which parts go.
    fn parts(&mut self, ty: &Type, parts: &[Chosen]) -> Result<(), Refusal> {
        match ty {
            Type::Object(_) => parts.iter().try_for_each(|part| self.field(part)),
            Type::Array(element) => {
                let count = self.count()?;
                self.parts_of_elements(element, count, parts)
            }
            Type::FixedArray(element, count) => self.parts_of_elements(element, *count, parts),
            _ => Err(Refusal::Malformed),
        }
    }

    fn parts_of_elements(
        &mut self,
        element: &Type,
        count: u16,
        parts: &[Chosen],
    ) -> Result<(), Refusal> {
        for _ in 0..count_of(element, count) {
            self.source.spend()?;
            self.parts(element, parts)?;
        }
        Ok(())
    }

    fn copied(&mut self, ty: &Type) -> Result<(), Refusal> {
        let bytes = self.skip(ty)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Passes over a value. Returns its bytes. Data that is located elsewhere is copied.
    fn skip(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let start = self.source.rest;
        let out = self.out.len();
        self.pass(ty, out, start)?;
        Ok(&start[..start.len() - self.source.rest.len()])
    }

    /// `out` is where the bytes from `start` on will be.
    fn pass(&mut self, ty: &Type, out: usize, start: &'a [u8]) -> Result<(), Refusal> {
        match ty {
            Type::DateTime => _ = self.source.take(self.date)?,
            Type::Object(fields) => {
                fields.iter().try_for_each(|field| self.pass(&field.ty, out, start))?;
            }
            Type::Array(element) => {
                let count = word(self.source.take(2)?);
                self.pass_elements(element, count, out, start)?;
            }
            Type::FixedArray(element, count) => {
                self.pass_elements(element, *count, out, start)?;
            }
            Type::RelLoc(_) | Type::DataLoc(_) => {
                let is_relative = matches!(ty, Type::RelLoc(_));
                let at = out + (start.len() - self.source.rest.len());
                let data = self.located(is_relative)?.to_vec();
                self.located.push(Located { at, is_relative, data });
            }
            other => _ = self.source.plain(other)?,
        }
        Ok(())
    }

    fn pass_elements(
        &mut self,
        element: &Type,
        count: u16,
        out: usize,
        start: &'a [u8],
    ) -> Result<(), Refusal> {
        for _ in 0..count_of(element, count) {
            self.source.spend()?;
            self.pass(element, out, start)?;
        }
        Ok(())
    }

    /// The data of a location.
    fn located(&mut self, is_relative: bool) -> Result<&'a [u8], Refusal> {
        let (_, data, end) = self.source.location(is_relative)?;
        self.used = self.used.max(end);
        // Locations may overlap. What they all have together is copied.
        self.located_bytes += data.len();
        match self.located_bytes > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(data),
        }
    }

    /// Puts something else in the place of a value.
    fn replaced(&mut self, ty: &Type) -> Result<(), Refusal> {
        match ty {
            Type::Object(fields) => {
                return fields.iter().try_for_each(|field| self.replaced(&field.ty));
            }
            Type::FixedArray(element, count) => {
                return self.replaced_elements(element, *count);
            }
            // Of a hash, that each element is there is of use: an option has one.
            Type::Array(element) if !is_unit(element) && self.redaction.key.is_some() => {
                let count = self.count()?;
                return self.replaced_elements(element, count);
            }
            Type::RelLoc(element) | Type::DataLoc(element) => {
                let (at, is_relative) = (self.out.len(), matches!(ty, Type::RelLoc(_)));
                let value = self.located(is_relative)?;
                let data = match is_unit(element) {
                    true => self.units(element, value),
                    false => Vec::new(),
                };
                self.out.extend_from_slice(&[0; 4]);
                self.located.push(Located { at, is_relative, data });
                return Ok(());
            }
            _ => {}
        }
        let located = self.located.len();
        let value = self.skip(ty)?;
        self.located.truncate(located);
        let hash = || self.redaction.hash_of_number(number(ty, value).unwrap_or_default());
        match ty {
            Type::Array(element) if is_unit(element) => {
                let units = self.units(element, &value[2..]);
                let count = units.len() / unit_size(element);
                self.out.extend_from_slice(&(count as u16).to_le_bytes());
                self.out.extend_from_slice(&units);
            }
            Type::Array(_) => self.out.extend_from_slice(&[0; 2]),
            Type::Utf16String => {
                let units = self.units(&Type::Utf16CodeUnit, &value[..value.len() - 2]);
                self.out.extend_from_slice(&units);
                self.out.extend_from_slice(&[0; 2]);
            }
            Type::VarInt | Type::VarUInt => {
                let mut number = hash();
                while number >= 0x80 {
                    self.out.push(number as u8 | 0x80);
                    number >>= 7;
                }
                self.out.push(number as u8);
            }
            Type::Int16
            | Type::UInt16
            | Type::Int32
            | Type::UInt32
            | Type::Int64
            | Type::UInt64 => self.out.extend_from_slice(&hash().to_le_bytes()[..value.len()]),
            Type::Guid => {
                let hash = self.redaction.hash(value).unwrap_or(0).to_le_bytes();
                self.out.extend_from_slice([hash, hash].as_flattened());
            }
            // So few values could be told from each other by their hashes.
            _ => self.out.resize(self.out.len() + value.len(), 0),
        }
        Ok(())
    }

    fn replaced_elements(&mut self, element: &Type, count: u16) -> Result<(), Refusal> {
        for _ in 0..count_of(element, count) {
            self.source.spend()?;
            self.replaced(element)?;
        }
        Ok(())
    }

    /// The code units that replace those of a text.
    fn units(&self, unit: &Type, value: &[u8]) -> Vec<u8> {
        let value: Cow<'_, str> = match unit_size(unit) {
            1 => String::from_utf8_lossy(value),
            _ => {
                let units = value.chunks_exact(2);
                let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
                let text = char::decode_utf16(units).map(|it| it.unwrap_or('\u{fffd}'));
                text.collect::<String>().into()
            }
        };
        let text = self.redaction.replaced_text(&value);
        match unit_size(unit) {
            1 => text.into_bytes(),
            _ => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        }
    }

    /// Copies the count of an array.
    fn count(&mut self) -> Result<u16, Refusal> {
        let count = self.source.take(2)?;
        self.out.extend_from_slice(count);
        Ok(word(count))
    }
}

/// The integer with these bytes.
fn number(ty: &Type, bytes: &[u8]) -> Option<i128> {
    let unsigned = |bytes: &[u8]| {
        bytes.iter().rev().fold(0_u128, |number, byte| number << 8 | u128::from(*byte)) as i128
    };
    let bits = 8 * bytes.len() as u32;
    Some(match ty {
        Type::UInt16 | Type::UInt32 | Type::UInt64 => unsigned(bytes),
        Type::Int16 | Type::Int32 | Type::Int64 => unsigned(bytes) << (128 - bits) >> (128 - bits),
        Type::VarUInt | Type::VarInt => {
            let seven = |number: u128, byte: &u8| number << 7 | u128::from(byte & 0x7F);
            let number = bytes.iter().rev().fold(0, seven) as i128;
            match ty {
                Type::VarInt => number >> 1 ^ -(number & 1),
                _ => number,
            }
        }
        _ => return None,
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Utf16CodeUnit | Type::Utf8CodeUnit)
}

fn unit_size(ty: &Type) -> usize {
    if matches!(ty, Type::Utf8CodeUnit) { 1 } else { 2 }
}
