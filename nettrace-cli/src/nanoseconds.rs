//! Lengths and points of time, as people write them in conditions.

use jiff::Timestamp;

/// The units of time, and how many nanoseconds they have. A unit comes before its own suffixes.
pub(crate) const UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds that are written with a unit, `1.5ms`, or as a time in RFC 3339.
pub(crate) fn nanoseconds(text: &str) -> Option<i128> {
    for (unit, nanos) in UNITS {
        let number = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
        if let Some(number) = number.filter(|number| number.is_finite()) {
            return Some((number * nanos as f64).round() as i128);
        }
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_nanosecond)
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
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ] {
            assert_eq!(nanoseconds(text), Some(nanos), "{text}");
        }
        for text in ["", "5", "s", "ms", "infs", "m", "5 d", "1970-01-01"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
