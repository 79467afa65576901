//! Payloads of version 6, made again in the form that sessions write: dates of eight bytes instead
//! of sixteen, Booleans of four instead of one, and data of its own for each RelLoc and DataLoc,
//! which may overlap.

use nettrace_format::{
    payload::{MAX_PAYLOAD, Refusal},
    redact::parts::{Located, Parts, put_located},
};
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
    let source = Parts::new(payload);
    let mut again = Again { source, start, has_long_dates, located: Vec::new(), size: 0, out };
    fields.iter().try_for_each(|field| again.ty(&field.ty))?;
    put_located(&again.located, start, again.out)
}

/// How many elements have bytes to look at.
fn count_of(element: &Type, count: u16) -> u16 {
    if element.fixed_size() == Some(0) { 0 } else { count }
}

struct Again<'a> {
    source: Parts<'a>,
    /// Where the result begins in `out`.
    start: usize,
    has_long_dates: bool,
    located: Vec<Located>,
    /// The size of all located data.
    size: usize,
    out: &'a mut Vec<u8>,
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
                let count = self.source.count()?;
                self.out.extend_from_slice(&count.to_le_bytes());
                self.elements(element, count)?;
            }
            Type::FixedArray(element, count) => self.elements(element, *count)?,
            Type::RelLoc(element) => self.location(element, true)?,
            Type::DataLoc(element) => self.location(element, false)?,
            plain => {
                let value = self.source.plain(plain)?;
                self.out.extend_from_slice(value);
                if *plain == Type::Boolean {
                    self.out.resize(self.out.len() + (4 - value.len()), 0);
                }
            }
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
            source: Parts { rest: data, ..self.source },
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
