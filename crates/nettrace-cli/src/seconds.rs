//! Lengths of time, as text.

use std::fmt::{self, Write};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds, shown as seconds with nine decimals and the unit: `0.000010000 s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) i128);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let per_second = u128::from(NANOS_PER_SECOND);
        if self.0 < 0 {
            f.write_char('-')?;
        }
        match u64::try_from(nanos) {
            Ok(nanos) => {
                write!(f, "{}.{:09} s", nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND)
            }
            Err(_) => write!(f, "{}.{:09} s", nanos / per_second, nanos % per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Seconds;

    #[test]
    fn seconds() {
        assert_eq!(Seconds(1).to_string(), "0.000000001 s");
        assert_eq!(Seconds(-1_500_000_000).to_string(), "-1.500000000 s");
        assert_eq!(Seconds(i128::from(u64::MAX) + 1).to_string(), "18446744073.709551616 s");
    }
}
