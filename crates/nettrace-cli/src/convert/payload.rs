//! Payloads of version 6, made again in the form that sessions write: dates of eight bytes instead
//! of sixteen, Booleans of four instead of one, and data of its own for each RelLoc and DataLoc,
//! which may overlap.

use nettrace_format::payload::{
    Refusal,
    rewrite::{PayloadRewriter, Rewrite},
};
use nettrace_reader::{Field, Type, WallTime};

/// Appends `payload`, whose fields are `fields`, to `out`. `has_long_dates` says that its dates
/// have sixteen bytes.
///
/// Fails if the payload does not fit its type, has a date that does not exist, or becomes too
/// large.
pub(super) fn normalize_payload(
    fields: &[Field],
    payload: &[u8],
    has_long_dates: bool,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut payload = PayloadRewriter::new(payload, if has_long_dates { 16 } else { 8 });
    fields.iter().try_for_each(|field| payload.value(&field.ty, &mut Normalized))?;
    out.extend(payload.finish()?);
    Ok(())
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
