//! Payloads of version 6, made again in the form that sessions write: dates of eight bytes instead
//! of sixteen, and data of its own for each RelLoc and DataLoc, which may overlap.
//!
//! Whoever makes payloads again takes them apart with a [`Source`].

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
    let source = Source::new(payload);
    let mut again = Again { source, start, has_long_dates, located: Vec::new(), size: 0, out };
    fields.iter().try_for_each(|field| again.ty(&field.ty))?;
    put_located(&again.located, start, again.out)
}

/// A payload that is taken apart from front to back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) payload: &'a [u8],
    /// The bytes that come next.
    pub(super) rest: &'a [u8],
    /// How many more elements of arrays there may be. Some take no bytes, and a few bytes could
    /// keep a conversion busy for ever.
    budget: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { payload, rest: payload, budget: payload.len() * 8 + 1_024 }
    }

    /// How many bytes were taken.
    pub(super) fn position(&self) -> usize {
        self.payload.len() - self.rest.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A value without parts.
    pub(super) fn plain(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let len = match ty {
            Type::Utf16String => {
                let units = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                2 * (units.ok_or(Refusal::Malformed)? + 1)
            }
            Type::VarInt | Type::VarUInt => {
                let last = self.rest.iter().position(|byte| byte & 0x80 == 0);
                last.ok_or(Refusal::Malformed)? + 1
            }
            other => other.fixed_size().ok_or(Refusal::Malformed)? as usize,
        };
        self.take(len)
    }

    /// A location: its four bytes, its data, and where that ends.
    pub(super) fn location(
        &mut self,
        is_relative: bool,
    ) -> Result<(&'a [u8], &'a [u8], usize), Refusal> {
        let location = self.take(4)?;
        let (position, size) = (word(location).into(), usize::from(word(&location[2..])));
        let start = if is_relative { self.position() + position } else { position };
        let data = self.payload.get(start..).and_then(|rest| rest.get(..size));
        Ok((location, data.ok_or(Refusal::Malformed)?, start + size))
    }

    /// Notes an element of an array.
    pub(super) fn spend(&mut self) -> Result<(), Refusal> {
        self.budget = self.budget.checked_sub(1).ok_or(Refusal::Malformed)?;
        Ok(())
    }
}

/// The first two bytes as a number.
pub(super) fn word(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// How many elements have bytes to look at.
pub(super) fn count_of(element: &Type, count: u16) -> u16 {
    if element.fixed_size() == Some(0) { 0 } else { count }
}

struct Again<'a> {
    source: Source<'a>,
    /// Where the result begins in `out`.
    start: usize,
    has_long_dates: bool,
    located: Vec<Located>,
    /// The size of all located data.
    size: usize,
    out: &'a mut Vec<u8>,
}

/// A RelLoc or DataLoc.
pub(super) struct Located {
    /// Where it is in the result.
    pub(super) at: usize,
    pub(super) is_relative: bool,
    pub(super) data: Vec<u8>,
}

/// Appends the data of all locations to a payload that begins at `start`, and says where it is.
pub(super) fn put_located(
    located: &[Located],
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
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

impl Again<'_> {
    fn ty(&mut self, ty: &Type) -> Result<(), Refusal> {
        match ty {
            Type::DateTime if self.has_long_dates => {
                let parts: [u8; 16] =
                    self.source.take(16)?.try_into().map_err(|_| Refusal::Malformed)?;
                let time = file_time(&parts).ok_or(Refusal::Malformed)?;
                self.out.extend_from_slice(&time.to_le_bytes());
            }
            Type::Object(fields) => fields.iter().try_for_each(|field| self.ty(&field.ty))?,
            Type::Array(element) => {
                let count = self.source.take(2)?;
                self.out.extend_from_slice(count);
                self.elements(element, word(count))?;
            }
            Type::FixedArray(element, count) => self.elements(element, *count)?,
            Type::RelLoc(element) => self.location(element, true)?,
            Type::DataLoc(element) => self.location(element, false)?,
            other => self.out.extend_from_slice(self.source.plain(other)?),
        }
        match self.out.len() - self.start + self.size > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(()),
        }
    }

    fn elements(&mut self, element: &Type, count: u16) -> Result<(), Refusal> {
        for _ in 0..count_of(element, count) {
            self.source.spend()?;
            self.ty(element)?;
        }
        Ok(())
    }

    fn location(&mut self, element: &Type, is_relative: bool) -> Result<(), Refusal> {
        let at = self.out.len();
        let (location, data, _) = self.source.location(is_relative)?;
        self.out.extend_from_slice(location);
        let mut out = Vec::new();
        let mut inner = Again {
            source: Source { rest: data, ..self.source },
            start: 0,
            has_long_dates: self.has_long_dates,
            located: Vec::new(),
            size: 0,
            out: &mut out,
        };
        while !inner.source.rest.is_empty() {
            let before = inner.source.rest.len();
            inner.ty(element)?;
            // Nothing of no size has a place here, and nothing that is located itself.
            if inner.source.rest.len() == before || !inner.located.is_empty() {
                return Err(Refusal::Malformed);
            }
        }
        self.source.budget = inner.source.budget;
        self.size += out.len();
        self.located.push(Located { at, is_relative, data: out });
        Ok(())
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
