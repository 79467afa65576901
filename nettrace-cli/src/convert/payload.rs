//! Payloads of version 6, made again in the form that sessions write: dates of eight bytes instead
//! of sixteen, and data of its own for each RelLoc and DataLoc, which may overlap.

use nettrace_format::payload::{MAX_PAYLOAD, Refusal};
use nettrace_reader::{Field, Type, WallTime};

/// Appends `payload`, whose fields are `fields`, to `out`. `has_long_dates` says that its dates
/// have sixteen bytes.
///
/// Fails if the payload does not fit its type, has a date that does not exist, or becomes too
/// large.
pub(super) fn again(
    fields: &[Field],
    payload: &[u8],
    has_long_dates: bool,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let start = out.len();
    let mut again =
        Again { payload, rest: payload, start, has_long_dates, located: Vec::new(), size: 0, out };
    fields.iter().try_for_each(|field| again.ty(&field.ty))?;
    again.put_located()
}

struct Again<'a> {
    payload: &'a [u8],
    /// The bytes that come next.
    rest: &'a [u8],
    /// Where the result begins in `out`.
    start: usize,
    has_long_dates: bool,
    located: Vec<Located>,
    /// The size of all located data.
    size: usize,
    out: &'a mut Vec<u8>,
}

/// A RelLoc or DataLoc.
struct Located {
    /// Where it is in `out`.
    at: usize,
    is_relative: bool,
    data: Vec<u8>,
}

impl<'a> Again<'a> {
    fn ty(&mut self, ty: &Type) -> Result<(), Refusal> {
        match ty {
            Type::DateTime if self.has_long_dates => {
                let parts: [u8; 16] = self.take(16)?.try_into().map_err(|_| Refusal::Malformed)?;
                let time = file_time(&parts).ok_or(Refusal::Malformed)?;
                self.out.extend_from_slice(&time.to_le_bytes());
            }
            Type::Object(fields) => fields.iter().try_for_each(|field| self.ty(&field.ty))?,
            Type::Array(element) => {
                let count = self.copy(2)?;
                self.elements(element, u16::from_le_bytes([count[0], count[1]]).into())?;
            }
            Type::FixedArray(element, count) => self.elements(element, (*count).into())?,
            Type::RelLoc(element) => self.location(element, true)?,
            Type::DataLoc(element) => self.location(element, false)?,
            Type::Utf16String => {
                let units = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                self.copy(2 * (units.ok_or(Refusal::Malformed)? + 1))?;
            }
            Type::VarInt | Type::VarUInt => {
                let last = self.rest.iter().position(|byte| byte & 0x80 == 0);
                self.copy(last.ok_or(Refusal::Malformed)? + 1)?;
            }
            other => _ = self.copy(other.fixed_size().ok_or(Refusal::Malformed)? as usize)?,
        }
        match self.out.len() - self.start + self.size > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(()),
        }
    }

    fn elements(&mut self, element: &Type, count: usize) -> Result<(), Refusal> {
        if element.fixed_size() == Some(0) {
            return Ok(());
        }
        (0..count).try_for_each(|_| self.ty(element))
    }

    fn location(&mut self, element: &Type, is_relative: bool) -> Result<(), Refusal> {
        let (start, at) = (self.payload.len() - self.rest.len() + 4, self.out.len());
        let word = self.copy(4)?;
        let position: usize = u16::from_le_bytes([word[0], word[1]]).into();
        let size: usize = u16::from_le_bytes([word[2], word[3]]).into();
        let start = if is_relative { start + position } else { position };
        let data = self.payload.get(start..).and_then(|rest| rest.get(..size));
        let data = data.ok_or(Refusal::Malformed)?;
        let mut out = Vec::new();
        let mut inner = Again {
            payload: self.payload,
            rest: data,
            start: 0,
            has_long_dates: self.has_long_dates,
            located: Vec::new(),
            size: 0,
            out: &mut out,
        };
        while !inner.rest.is_empty() {
            let before = inner.rest.len();
            inner.ty(element)?;
            // Nothing of no size has a place here, and nothing that is located itself.
            if inner.rest.len() == before || !inner.located.is_empty() {
                return Err(Refusal::Malformed);
            }
        }
        self.size += out.len();
        self.located.push(Located { at, is_relative, data: out });
        Ok(())
    }

    /// Appends the data of all locations, and says where it is.
    fn put_located(self) -> Result<(), Refusal> {
        for Located { at, is_relative, data } in &self.located {
            let origin = if *is_relative { at + 4 } else { self.start };
            let position = u16::try_from(self.out.len() - origin);
            let position = position.map_err(|_| Refusal::PayloadTooLarge)?;
            let size = u16::try_from(data.len()).map_err(|_| Refusal::PayloadTooLarge)?;
            self.out[*at..at + 2].copy_from_slice(&position.to_le_bytes());
            self.out[at + 2..at + 4].copy_from_slice(&size.to_le_bytes());
            self.out.extend_from_slice(data);
        }
        Ok(())
    }

    fn copy(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let bytes = self.take(len)?;
        self.out.extend_from_slice(bytes);
        Ok(bytes)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// A time in eight parts, as units of 100 ns since 1601. `None` if there is no such time.
fn file_time(bytes: &[u8; 16]) -> Option<u64> {
    let part = |at: usize| i16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
    let time = WallTime {
        year: part(0),
        month: part(1),
        day_of_week: part(2),
        day: part(3),
        hour: part(4),
        minute: part(5),
        second: part(6),
        millisecond: part(7),
    };
    time.to_file_time()
}
