//! Payloads of events of which some fields are replaced.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    Chosen, Fate, Values,
    parts::{Located, Parts, put_located},
};
use crate::{
    payload::{MAX_PAYLOAD, Refusal, walk::Text},
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

/// A payload that is made again.
pub(super) struct Again<'a, 'b> {
    source: Parts<'a>,
    /// The size of a date.
    date: usize,
    /// See [`Taken::has_times`].
    has_times: bool,
    out: Vec<u8>,
    located: Vec<Located>,
    /// Where the last located data of the payload ends.
    end: usize,
    /// The size of all located data so far.
    located_bytes: usize,
    /// Which names keys had.
    used: &'b mut Vec<usize>,
}

impl<'a, 'b> Again<'a, 'b> {
    /// `date` is the size of a date. The numbers of names that keys have are added to `used`.
    pub(super) fn new(payload: &'a [u8], date: usize, used: &'b mut Vec<usize>) -> Self {
        let (out, located) = (Vec::with_capacity(payload.len()), Vec::new());
        let source = Parts::new(payload);
        Self { source, date, has_times: true, out, located, end: 0, located_bytes: 0, used }
    }

    pub(super) fn fields(mut self, fields: &[Chosen]) -> Result<Taken, Refusal> {
        let mut is_whole = true;
        for field in fields {
            // An older version of the type has fewer fields.
            if self.source.rest.is_empty() {
                is_whole = false;
                break;
            }
            self.field(field)?;
        }
        is_whole &= self.source.position().max(self.end) == self.source.payload.len();
        put_located(&self.located, 0, &mut self.out)?;
        match self.out.len() > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(Taken { payload: self.out, is_whole, has_times: self.has_times }),
        }
    }

    fn field(&mut self, field: &Chosen) -> Result<(), Refusal> {
        self.value(&field.ty, &field.fate)
    }

    fn value(&mut self, ty: &Type, fate: &Fate) -> Result<(), Refusal> {
        match fate {
            Fate::Stays => self.copied(ty),
            Fate::Goes(values, kept) => {
                self.note_names(ty, kept);
                self.replaced(ty, *values)
            }
            Fate::Parts(parts) => self.parts(ty, parts),
            Fate::Tags(keys, separator) => {
                let mut used = Vec::new();
                let tags = |text: Text<'_>| keys.tags(&text.to_string(), *separator, &mut used);
                self.text(ty, tags)?;
                self.used.append(&mut used);
                Ok(())
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
            Some(values) => {
                self.note_names(ty, kept);
                self.replaced(ty, values)
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
        let source = self.source;
        let mut within = Again { source, ..Again::new(&[], self.date, self.used) };
        // What cannot be taken apart is refused afterwards.
        let _ = within.value(ty, kept);
    }

    /// The text that comes next, which stays there.
    fn next_text(&self, ty: &Type) -> Result<String, Refusal> {
        let mut source = self.source;
        let (unit, bytes) = match ty {
            Type::RelLoc(unit) | Type::DataLoc(unit) => {
                (&**unit, source.location(matches!(ty, Type::RelLoc(_)))?.1)
            }
            Type::Array(unit) => {
                let count = usize::from(source.count()?);
                (&**unit, source.take(count * unit_size(unit))?)
            }
            _ => (UTF16, source.plain(&Type::Utf16String)?),
        };
        // Readers show it up to there.
        let text = text(unit, bytes).to_string();
        Ok(text.split('\0').next().unwrap_or_default().into())
    }

    /// An object, or an array of objects, of which parts go.
    fn parts(&mut self, ty: &Type, parts: &[Chosen]) -> Result<(), Refusal> {
        match ty {
            Type::Object(_) => self.object(parts),
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
            Type::DateTime => {
                let date = self.source.take(self.date)?;
                self.has_times &= date.len() == 8 || can_be_time(date);
            }
            Type::Object(fields) => {
                fields.iter().try_for_each(|field| self.pass(&field.ty, out, start))?;
            }
            Type::Array(element) => {
                let count = self.source.count()?;
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
            plain => _ = self.source.plain(plain)?,
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
        self.end = self.end.max(end);
        // Locations may overlap. What they all have together is copied.
        self.located_bytes += data.len();
        match self.located_bytes > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(data),
        }
    }

    /// Puts another text in the place of one.
    fn text(&mut self, ty: &Type, new: impl FnOnce(Text<'_>) -> String) -> Result<(), Refusal> {
        match ty {
            Type::RelLoc(unit) | Type::DataLoc(unit) => {
                let (at, is_relative) = (self.out.len(), matches!(ty, Type::RelLoc(_)));
                let data = units(unit, new(text(unit, self.located(is_relative)?)));
                self.out.extend_from_slice(&[0; 4]);
                self.located.push(Located { at, is_relative, data });
            }
            Type::Array(unit) => {
                let value = self.skip(ty)?;
                let units = units(unit, new(text(unit, &value[2..])));
                let count = u16::try_from(units.len() / unit_size(unit));
                let count = count.map_err(|_| Refusal::TooManyElements)?;
                self.out.extend_from_slice(&count.to_le_bytes());
                self.out.extend_from_slice(&units);
            }
            _ => {
                let value = self.skip(ty)?;
                let value = &value[..value.len() - 2];
                self.out.extend_from_slice(&units(UTF16, new(text(UTF16, value))));
                self.out.extend_from_slice(&[0; 2]);
            }
        }
        Ok(())
    }

    /// Puts something else in the place of a value.
    fn replaced(&mut self, ty: &Type, values: Values) -> Result<(), Refusal> {
        match ty {
            ty if is_text(ty) => return self.text(ty, |text| values.text(text)),
            Type::Object(fields) => {
                return fields.iter().try_for_each(|field| self.replaced(&field.ty, values));
            }
            Type::FixedArray(element, count) => {
                return self.replaced_elements(element, *count, values);
            }
            // Of a hash, that each element is there is of use: an option has one.
            Type::Array(element) if values.key.is_some() => {
                let count = self.count()?;
                return self.replaced_elements(element, count, values);
            }
            Type::RelLoc(_) | Type::DataLoc(_) => {
                let (at, is_relative) = (self.out.len(), matches!(ty, Type::RelLoc(_)));
                self.located(is_relative)?;
                self.out.extend_from_slice(&[0; 4]);
                self.located.push(Located { at, is_relative, data: Vec::new() });
                return Ok(());
            }
            _ => {}
        }
        let located = self.located.len();
        let value = self.skip(ty)?;
        self.located.truncate(located);
        let mut put = |bytes: &[u8]| self.out.extend_from_slice(bytes);
        let hash = || values.number(number(ty, value).unwrap_or_default());
        match ty {
            Type::Array(_) => put(&[0; 2]),
            Type::VarInt | Type::VarUInt => primitive::varuint(hash(), &mut self.out),
            Type::Int16
            | Type::UInt16
            | Type::Int32
            | Type::UInt32
            | Type::Int64
            | Type::UInt64 => put(&hash().to_le_bytes()[..value.len()]),
            Type::Guid => {
                let hash = values.hash(&[value]).unwrap_or(0).to_le_bytes();
                put([hash, hash].as_flattened());
            }
            // So few values could be told from each other by their hashes.
            _ => self.out.resize(self.out.len() + value.len(), 0),
        }
        Ok(())
    }

    fn replaced_elements(
        &mut self,
        element: &Type,
        count: u16,
        values: Values,
    ) -> Result<(), Refusal> {
        for _ in 0..count_of(element, count) {
            self.source.spend()?;
            self.replaced(element, values)?;
        }
        Ok(())
    }

    /// Copies the count of an array.
    fn count(&mut self) -> Result<u16, Refusal> {
        let count = self.source.count()?;
        self.out.extend_from_slice(&count.to_le_bytes());
        Ok(count)
    }
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

/// Whether a date of sixteen bytes can be a time, or is zero throughout.
fn can_be_time(date: &[u8]) -> bool {
    let parts = date.chunks_exact(2).map(|part| u16::from_le_bytes([part[0], part[1]]));
    let ranges = [1601..=9999, 1..=12, 0..=6, 1..=31, 0..=23, 0..=59, 0..=60, 0..=999];
    parts.clone().all(|part| part == 0)
        || parts.zip(ranges).all(|(part, range)| range.contains(&part))
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Utf16CodeUnit | Type::Utf8CodeUnit)
}

fn unit_size(ty: &Type) -> usize {
    if matches!(ty, Type::Utf8CodeUnit) { 1 } else { 2 }
}

/// How many elements have bytes to look at.
fn count_of(element: &Type, count: u16) -> u16 {
    if has_no_bytes(element) { 0 } else { count }
}

fn has_no_bytes(ty: &Type) -> bool {
    match ty {
        Type::Object(fields) => fields.iter().all(|field| has_no_bytes(&field.ty)),
        Type::FixedArray(element, count) => *count == 0 || has_no_bytes(element),
        _ => false,
    }
}
