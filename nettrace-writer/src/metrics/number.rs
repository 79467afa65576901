//! Values of counters: integers or floating-point numbers, and their text.

use std::fmt;

/// A value that an observable instrument reports: an integer of up to 64 bits, or an `f64`.
///
/// ```
/// use nettrace_writer::metrics::Number;
///
/// assert_eq!(Number::from(7_u32).to_string(), "7");
/// assert_eq!(Number::from(-0.5).to_string(), "-0.5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// An integer without a sign.
    Unsigned(u64),
    /// An integer with a sign.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
}

macro_rules! from {
    ($($variant:ident: $($ty:ty)*;)*) => {
        $($(impl From<$ty> for Number {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        })*)*
    };
}

from! {
    Unsigned: u8 u16 u32 u64;
    Signed: i8 i16 i32 i64;
    Float: f32 f64;
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::Unsigned(value as u64)
    }
}

impl Number {
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Unsigned(value) => value as f64,
            Self::Signed(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// The difference from `before`.
    pub(crate) fn minus(self, before: Self) -> Self {
        match (self, before) {
            // A counter that went back (it was reset, for example) has a negative rate.
            (Self::Unsigned(now), Self::Unsigned(before)) if now >= before => {
                Self::Unsigned(now - before)
            }
            (Self::Unsigned(now), Self::Unsigned(before)) => {
                Self::Signed(now.wrapping_sub(before) as i64)
            }
            (Self::Signed(now), Self::Signed(before)) => Self::Signed(now.wrapping_sub(before)),
            (now, before) => Self::Float(now.to_f64() - before.to_f64()),
        }
    }

    /// A zero of the same kind.
    pub(crate) fn zero(self) -> Self {
        match self {
            Self::Unsigned(_) => Self::Unsigned(0),
            Self::Signed(_) => Self::Signed(0),
            Self::Float(_) => Self::Float(0.0),
        }
    }
}

/// As .NET writes numbers without a culture: a point before the fraction, no separators.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
            Self::Float(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            // Long numbers have an exponent, which .NET reads.
            Self::Float(value) if *value != 0.0 && !(1e-5..1e17).contains(&value.abs()) => {
                write!(f, "{value:E}")
            }
            Self::Float(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_a_culture() {
        for (value, text) in [
            (0.0, "0"),
            (21.5, "21.5"),
            (-3.0, "-3"),
            (1e17, "1E17"),
            (1.5e-9, "1.5E-9"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Number::Float(value).to_string(), text);
        }
        assert_eq!(Number::from(u64::MAX).to_string(), "18446744073709551615");
    }

    #[test]
    fn differences_are_exact() {
        let difference = |now: Number, before: Number| now.minus(before).to_string();
        assert_eq!(difference(u64::MAX.into(), 1_u64.into()), "18446744073709551614");
        assert_eq!(difference(3_u64.into(), 5_u64.into()), "-2");
        assert_eq!(difference((-3_i64).into(), 5_i64.into()), "-8");
        assert_eq!(difference(0.5.into(), 2_u64.into()), "-1.5");
        assert_eq!(Number::from(5_i64).zero(), Number::Signed(0));
    }
}
