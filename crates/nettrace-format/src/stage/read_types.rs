//! Payloads of the types that a trace describes, made as sessions write them: dates of eight bytes
//! instead of sixteen, Booleans of four instead of one, and data of its own for each RelLoc and
//! DataLoc, which may overlap.

use alloc::{sync::Arc, vec::Vec};

use super::output::Output;
use crate::{
    content::RowHeader,
    payload::{
        Refusal,
        rewrite::{PayloadRewriter, Rewrite},
    },
    schema::{Field, Metadata, Type},
    trace::WallTime,
    writer::Row,
};

/// A type that a trace describes.
#[derive(Debug)]
pub(super) struct ReadType {
    of: Arc<Metadata>,
    pub(super) has_dates: bool,
}

impl ReadType {
    pub(super) fn new(of: Arc<Metadata>) -> Self {
        let has_dates = of.fields.iter().any(|field| field.ty.has_dates());
        Self { of, has_dates }
    }

    /// Appends a row: with its values, or as bytes if the payload does not fit the type and the
    /// format allows that.
    pub(super) fn write(
        &self,
        output: &mut Output,
        row: &Row<'_>,
        is_first: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let has_fields = !self.of.fields.is_empty();
        let needs_fields = output.format.definition().needs_fields;
        let mut result = Err(Refusal::Malformed);
        if has_fields || row.payload.is_empty() || !needs_fields {
            let has_long_dates = self.has_long_dates(row.payload);
            if !has_long_dates {
                result = output.row(row, is_first, out);
            }
            if has_fields && result == Err(Refusal::Malformed) {
                let normalized = self.normalized(row.payload, has_long_dates);
                result = normalized.and_then(|(payload, is_longer)| {
                    let header = RowHeader { payload_len: payload.len() as u32, ..row.header };
                    output.row(&Row { header, payload: &payload, ..*row }, is_first, out)?;
                    output.left_out.longer_events += u64::from(is_longer);
                    Ok(())
                });
            }
        }
        if result == Err(Refusal::Malformed) {
            result = output.writer.opaque_row(row, &mut output.left_out, out);
        }
        result
    }

    /// Whether the dates of a payload have sixteen bytes: only then it fits its type as a whole.
    fn has_long_dates(&self, payload: &[u8]) -> bool {
        let fits = |date| {
            let mut payload = PayloadRewriter::new(payload, date);
            let mut fields = self.of.fields.iter();
            fields.all(|field| payload.value(&field.ty, &mut Skipped).is_ok()) && payload.is_whole()
        };
        self.has_dates && !fits(8) && fits(16)
    }

    /// The payload as sessions write it, and whether bytes behind its last field are left out.
    fn normalized(&self, payload: &[u8], has_long_dates: bool) -> Result<(Vec<u8>, bool), Refusal> {
        let mut payload = PayloadRewriter::new(payload, if has_long_dates { 16 } else { 8 });
        let fields = self.of.fields.iter();
        let mut values = fields.map(|Field { ty, .. }| payload.value(ty, &mut Normalized));
        values.try_for_each(|value| value)?;
        let is_longer = !payload.is_whole();
        Ok((payload.finish()?, is_longer))
    }
}

/// Values as sessions write them.
struct Normalized;

impl Rewrite for Normalized {
    fn plain(&mut self, ty: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        match (ty, <[u8; 16]>::try_from(value)) {
            (Type::DateTime, Ok(parts)) => {
                let time = file_time(&parts).ok_or(Refusal::Malformed)?;
                out.extend_from_slice(&time.to_le_bytes());
            }
            _ => out.extend_from_slice(value),
        }
        if *ty == Type::Boolean {
            out.resize(out.len() + (4 - value.len()), 0);
        }
        Ok(())
    }

    fn located<'a>(
        &mut self,
        element: &Type,
        data: &'a [u8],
        payload: &mut PayloadRewriter<'a>,
    ) -> Result<Vec<u8>, Refusal> {
        payload.elements_in(element, data, self)
    }
}

/// Values that only need to fit.
struct Skipped;

impl Rewrite for Skipped {
    fn plain(&mut self, _: &Type, _: &[u8], _: &mut Vec<u8>) -> Result<(), Refusal> {
        Ok(())
    }

    fn located<'a>(
        &mut self,
        element: &Type,
        data: &'a [u8],
        payload: &mut PayloadRewriter<'a>,
    ) -> Result<Vec<u8>, Refusal> {
        payload.elements_in(element, data, self)
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
