//! Floating-point numbers in the text form of .NET's JSON writer: the shortest that reads back as the
//! same number, with an exponent beyond seventeen digits (nine for 32 bits) or four leading zeros.

/// A finite 64-bit number. `None` for what JSON has no number for.
pub(crate) fn double(value: f64) -> Option<String> {
    value.is_finite().then(|| general(&format!("{value:e}"), 17))
}

/// A finite 32-bit number.
pub(crate) fn single(value: f32) -> Option<String> {
    value.is_finite().then(|| general(&format!("{value:e}"), 9))
}

/// The text that stands for a number that is not finite.
pub(crate) fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Rounds to four decimals, ties to even, as the reference does in its JSON.
pub(crate) fn four_decimals(value: f64) -> f64 {
    if value.abs() < 1e16 { (value * 1e4).round_ties_even() / 1e4 } else { value }
}

/// From the shortest scientific form, `-1.25e-7`.
fn general(scientific: &str, most_digits: i32) -> String {
    let (sign, rest) = match scientific.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", scientific),
    };
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let point = exponent + 1; // digits before the decimal point
    if point > most_digits || point < -3 {
        let (first, others) = digits.split_at(1);
        let dot = if others.is_empty() { "" } else { "." };
        let e = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{dot}{others}E{e}{:02}", exponent.abs());
    }
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        return if digits == "0" { format!("{sign}0") } else { format!("{sign}0.{zeros}{digits}") };
    }
    let point = point as usize;
    if digits.len() <= point {
        format!("{sign}{digits}{}", "0".repeat(point - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..point], &digits[point..])
    }
}

#[cfg(test)]
mod tests {
    use super::{double, four_decimals, single};

    #[test]
    fn doubles() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (1e-5, "1E-05"),
            (1.234e-5, "1.234E-05"),
            (1e16, "10000000000000000"),
            (1e17, "1E+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (999_999_999_999_999.9, "999999999999999.9"),
            (5e-324, "5E-324"),
            (f64::MAX, "1.7976931348623157E+308"),
        ] {
            assert_eq!(double(value).as_deref(), Some(text));
        }
        assert_eq!(double(f64::NAN), None);
    }

    #[test]
    fn singles() {
        for (value, text) in [
            (0.1, "0.1"),
            (826_428.2, "826428.2"),
            (1e14, "1E+14"),
            (9.007_199e15, "9.007199E+15"),
            (3.849_859_2e-37, "3.8498592E-37"),
        ] {
            assert_eq!(single(value).as_deref(), Some(text));
        }
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!(four_decimals(0.03125), 0.0312);
        assert_eq!(four_decimals(0.09375), 0.0938);
        assert_eq!(four_decimals(8_999_999_999_999.994), 8_999_999_999_999.994);
    }
}
