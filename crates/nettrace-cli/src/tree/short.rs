//! Lengths of time as the text of trees has them.

use std::{fmt, time::Duration};

/// Nanoseconds with the nearest unit and three decimals.
pub(crate) struct ShortDuration(pub(crate) i64);

impl fmt::Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let duration = Duration::from_nanos(self.0.unsigned_abs());
        match duration.as_nanos() < 1000 {
            true => write!(f, "{sign}{duration:?}"),
            false => write!(f, "{sign}{duration:.3?}"),
        }
    }
}
