//! Lengths and points of time, as people write them in conditions and options.

#[cfg(unix)]
use std::time::Duration;

use jiff::Timestamp;
use nettrace_format::spelling::time_unit;

/// Nanoseconds that are written with a unit, `1.5ms`, or as a time in RFC 3339.
pub(crate) fn nanoseconds(text: &str) -> Option<i128> {
    length(text).or_else(|| text.parse::<Timestamp>().ok().map(Timestamp::as_nanosecond))
}

/// Nanoseconds that are written with a unit.
fn length(text: &str) -> Option<i128> {
    let (number, nanos) = time_unit(text)?;
    let number = number.trim_end().parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((number * nanos as f64).round() as i128)
}

/// Reads a time: seconds, or a number with a unit.
#[cfg(unix)]
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 =
        digits.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    let nanos = match &text[digits.len()..] {
        "" => 1_000_000_000,
        unit => match time_unit(text) {
            Some((_, nanos)) => nanos,
            None => return Err(format!("`{unit}` is not a unit; write ms, s, m or h")),
        },
    };
    Duration::try_from_secs_f64(number * (nanos as f64 / 1e9)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, nanos) in [
            ("5ns", 5),
            ("1.5ms", 1_500_000),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("-3s", -3_000_000_000),
            ("2m", 120_000_000_000),
            ("0.5h", 1_800_000_000_000),
            ("1.5 ms", 1_500_000),
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ] {
            assert_eq!(nanoseconds(text), Some(nanos), "{text}");
        }
        for text in ["", "5", "s", "ms", "infs", "m", "5 d", "1970-01-01"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn times_have_units() {
        for (text, millis) in
            [("10", 10_000), ("0.5s", 500), ("250ms", 250), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1", "1d", "1e400", "ten"] {
            duration(text).unwrap_err();
        }
    }
}
