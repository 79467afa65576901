//! Points in time and durations.

use core::time::Duration;
#[cfg(feature = "std")]
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{encode::PayloadEncoder, field::TraceField, schema::FieldType};

impl TraceField for Duration {
    const TYPE: FieldType = FieldType::DurationNanos;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.duration_nanos(u64::try_from(self.as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(feature = "std")]
impl TraceField for SystemTime {
    const TYPE: FieldType = FieldType::UnixNanos;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.unix_nanos(unix(*self, 1));
    }
}

#[cfg(feature = "std")]
impl TraceField<crate::encoding::DateTime> for SystemTime {
    const TYPE: FieldType = FieldType::DateTime;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.date_time(unix(*self, 1_000_000));
    }
}

/// The time since 1970-01-01 UTC in units of `unit` nanoseconds. Negative before 1970, rounded to
/// the earlier unit, saturating.
#[cfg(feature = "std")]
fn unix(time: SystemTime, unit: u128) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos() / unit).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(unit))
            .map_or(i64::MIN, |distance| -distance),
    }
}
