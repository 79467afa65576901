//! Payloads of events of which some fields are replaced.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Chosen, Fate, Values};
use crate::{
    payload::{
        Refusal,
        rewrite::{Copied, PayloadRewriter, Rewrite},
        walk::Text,
    },
    primitive,
    schema::Type,
};

/// A payload that was made again.
pub(super) struct Taken {
    pub(super) payload: Vec<u8>,
    /// Whether the fields take the whole of the old one.
    pub(super) is_whole: bool,
    /// Whether all dates of sixteen bytes in it can be times.
    pub(super) has_times: bool,
}

/// Rewrites a payload by what becomes of each field.
pub(super) struct PayloadRedaction<'a, 'b> {
    payload: PayloadRewriter<'a>,
    /// Which names keys had.
    used: &'b mut Vec<usize>,
}

impl<'a, 'b> PayloadRedaction<'a, 'b> {
    /// `date` is the size of a date. The numbers of names that keys have are added to `used`.
    pub(super) fn new(payload: &'a [u8], date: usize, used: &'b mut Vec<usize>) -> Self {
        Self { payload: PayloadRewriter::new(payload, date), used }
    }

    pub(super) fn fields(mut self, fields: &[Chosen]) -> Result<Taken, Refusal> {
        let mut is_whole = true;
        for field in fields {
            // An older version of the type has fewer fields.
            if self.payload.is_at_end() {
                is_whole = false;
                break;
            }
            self.field(field)?;
        }
        is_whole &= self.payload.is_whole();
        let has_times = self.payload.has_times();
        Ok(Taken { payload: self.payload.finish()?, is_whole, has_times })
    }

    fn field(&mut self, field: &Chosen) -> Result<(), Refusal> {
        self.value(&field.ty, &field.fate)
    }

    fn value(&mut self, ty: &Type, fate: &Fate) -> Result<(), Refusal> {
        match fate {
            Fate::Stays => self.payload.value(ty, &mut Copied),
            Fate::Goes(values, kept) => {
                self.note_names(ty, kept);
                self.payload.value(ty, &mut { *values })
            }
            Fate::Parts(parts) => self.parts(ty, parts),
            Fate::Tags(keys, separator) => {
                let used = &mut *self.used;
                replace_text(&mut self.payload, ty, |text| {
                    keys.tags(&text.to_string(), *separator, used)
                })
            }
            // Only an entry has it, and it knows the key.
            Fate::OfKey(..) => Err(Refusal::Malformed),
        }
    }

    /// The fields of an object.
    fn object(&mut self, fields: &[Chosen]) -> Result<(), Refusal> {
        let [key, Chosen { ty, fate: Fate::OfKey(keys, kept) }] = fields else {
            return fields.iter().try_for_each(|field| self.field(field));
        };
        let text = self.next_text(&key.ty)?;
        self.field(key)?;
        match keys.of(&text, self.used) {
            Some(mut values) => {
                self.note_names(ty, kept);
                self.payload.value(ty, &mut values)
            }
            None => self.value(ty, kept),
        }
    }

    /// Notes which names the keys have in a value that goes as a whole. It is taken apart as if it
    /// stayed.
    fn note_names(&mut self, ty: &Type, kept: &Fate) {
        if matches!(kept, Fate::Stays) {
            return;
        }
        let mut within = PayloadRedaction { payload: self.payload.ahead(), used: self.used };
        // What cannot be taken apart is refused afterwards.
        let _ = within.value(ty, kept);
    }

    /// The text that comes next, which stays there.
    fn next_text(&self, ty: &Type) -> Result<String, Refusal> {
        let mut found = String::new();
        replace_text(&mut self.payload.ahead(), ty, |text| {
            found = text.to_string();
            String::new()
        })?;
        // Readers show it up to there.
        Ok(found.split('\0').next().unwrap_or_default().into())
    }

    /// An object, or an array of objects, of which parts go.
    fn parts(&mut self, ty: &Type, parts: &[Chosen]) -> Result<(), Refusal> {
        let (element, count) = match ty {
            Type::Object(_) => return self.object(parts),
            Type::Array(element) => (element, self.payload.count()?),
            Type::FixedArray(element, count) => (element, *count),
            _ => return Err(Refusal::Malformed),
        };
        let count = if element.is_of_no_bytes() { 0 } else { count };
        for _ in 0..count {
            self.payload.spend(1)?;
            self.parts(element, parts)?;
        }
        Ok(())
    }
}

/// Replaces a value with all that is in it.
impl Rewrite for Values {
    fn whole(&mut self, ty: &Type, payload: &mut PayloadRewriter<'_>) -> Result<bool, Refusal> {
        match ty {
            ty if is_text(ty) => replace_text(payload, ty, |text| Values::text(*self, text))?,
            // Of a hash, that each element is there is of use: an option has one.
            Type::Array(_) if self.key.is_none() => {
                payload.skip(ty)?;
                payload.put(&[0; 2]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn plain(&mut self, ty: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let hash = || self.number(number(ty, value).unwrap_or_default());
        match ty {
            Type::VarInt | Type::VarUInt => primitive::varuint(hash(), out),
            Type::Int16
            | Type::UInt16
            | Type::Int32
            | Type::UInt32
            | Type::Int64
            | Type::UInt64 => out.extend_from_slice(&hash().to_le_bytes()[..value.len()]),
            Type::Guid => {
                let hash = self.hash(&[value]).unwrap_or(0).to_le_bytes();
                out.extend_from_slice([hash, hash].as_flattened());
            }
            // So few values could be told from each other by their hashes.
            _ => out.resize(out.len() + value.len(), 0),
        }
        Ok(())
    }

    fn located<'a>(
        &mut self,
        _element: &Type,
        _data: &'a [u8],
        _payload: &mut PayloadRewriter<'a>,
    ) -> Result<Vec<u8>, Refusal> {
        Ok(Vec::new())
    }
}

/// Puts another text in the place of the next one.
fn replace_text(
    payload: &mut PayloadRewriter<'_>,
    ty: &Type,
    new: impl FnOnce(Text<'_>) -> String,
) -> Result<(), Refusal> {
    match ty {
        Type::RelLoc(unit) | Type::DataLoc(unit) => {
            let is_relative = matches!(ty, Type::RelLoc(_));
            payload.location(is_relative, |data, _| Ok(units(unit, new(text(unit, data)))))?;
        }
        Type::Array(unit) => {
            let value = payload.skip(ty)?;
            let units = units(unit, new(text(unit, &value[2..])));
            let count = u16::try_from(units.len() / unit_size(unit));
            let count = count.map_err(|_| Refusal::TooManyElements)?;
            payload.put(&count.to_le_bytes());
            payload.put(&units);
        }
        _ => {
            let value = payload.skip(ty)?;
            payload.put(&units(UTF16, new(text(UTF16, &value[..value.len() - 2]))));
            payload.put(&[0; 2]);
        }
    }
    Ok(())
}

const UTF16: &Type = &Type::Utf16CodeUnit;

/// The text with these code units.
fn text<'a>(unit: &Type, units: &'a [u8]) -> Text<'a> {
    if unit_size(unit) == 2 { Text::Utf16(units) } else { Text::Utf8(units) }
}

/// The code units of a text.
fn units(unit: &Type, text: String) -> Vec<u8> {
    match unit_size(unit) {
        2 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => text.into_bytes(),
    }
}

/// Whether a value is a text of any length.
pub(super) fn is_text(ty: &Type) -> bool {
    match ty {
        Type::Utf16String => true,
        Type::Array(unit) | Type::RelLoc(unit) | Type::DataLoc(unit) => is_unit(unit),
        _ => false,
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
