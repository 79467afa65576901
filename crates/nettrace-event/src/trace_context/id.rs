//! Ids of traces and spans.

use core::{
    fmt,
    num::{NonZeroU64, NonZeroU128},
    str::FromStr,
};

use crate::hex::{self, NoDigit};

/// Why a text is not a valid id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdError {
    /// It has another number of digits: 32 for a trace, 16 for a span.
    Length {
        /// The right number of digits.
        digits: usize,
    },
    /// It has a character that is not a lowercase hexadecimal digit.
    Digit,
    /// All digits are zero.
    Zero,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { digits } => write!(f, "an id has {digits} hexadecimal digits"),
            Self::Digit => f.write_str("an id consists of lowercase hexadecimal digits"),
            Self::Zero => f.write_str("an id of zeros stands for no id"),
        }
    }
}

impl core::error::Error for IdError {}

/// The id of a trace: 16 bytes that are not all zero.
///
/// ```
/// use nettrace_event::trace_context::{IdError, TraceId};
///
/// let id: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse()?;
/// assert_eq!(id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(id.to_bytes()[..2], [0x4b, 0xf9]);
/// assert_eq!("4BF92F3577B34DA6A3CE929D0E0E4736".parse::<TraceId>(), Err(IdError::Digit));
/// # Ok::<(), IdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// The id with these bytes, in the order of its digits. `None` if all are zero.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceId;
    ///
    /// assert_eq!(TraceId::from_bytes([0; 16]), None);
    /// assert!(TraceId::from_bytes([1; 16]).is_some());
    /// ```
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        match NonZeroU128::new(u128::from_be_bytes(bytes)) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The bytes, in the order of the digits. A label of kind TraceId in a NetTrace file has them
    /// in the same order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    /// The id with these digits. `None` if all are zero.
    #[inline]
    pub(crate) fn read(digits: &[u8; 32]) -> Result<Option<Self>, NoDigit> {
        hex::read(digits).map(Self::from_bytes)
    }
}

/// The id of a span: 8 bytes that are not all zero.
///
/// ```
/// use nettrace_event::trace_context::{IdError, SpanId};
///
/// let id: SpanId = "00f067aa0ba902b7".parse()?;
/// assert_eq!((id.to_u64(), id.to_string()), (0x00f0_67aa_0ba9_02b7, "00f067aa0ba902b7".into()));
/// assert_eq!("f067aa0ba902b7".parse::<SpanId>(), Err(IdError::Length { digits: 16 }));
/// # Ok::<(), IdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// The id with these bytes, in the order of its digits. `None` if all are zero.
    ///
    /// ```
    /// use nettrace_event::trace_context::SpanId;
    ///
    /// assert_eq!(SpanId::from_bytes([0; 8]), None);
    /// assert_eq!(SpanId::from_bytes([0, 0, 0, 0, 0, 0, 0, 7]), SpanId::from_u64(7));
    /// ```
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        Self::from_u64(u64::from_be_bytes(bytes))
    }

    /// The bytes, in the order of the digits.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }

    /// The id whose digits, read as a hexadecimal number, are this number. `None` for 0. A label of
    /// kind SpanId in a NetTrace file is this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The id as a number.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        self.0.get()
    }

    /// The id with these digits. `None` if all are zero.
    #[inline]
    pub(crate) fn read(digits: &[u8; 16]) -> Result<Option<Self>, NoDigit> {
        hex::read(digits).map(Self::from_bytes)
    }
}

impl FromStr for TraceId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.as_bytes().try_into().map_err(|_| IdError::Length { digits: 32 })?;
        Self::read(digits)?.ok_or(IdError::Zero)
    }
}

impl FromStr for SpanId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.as_bytes().try_into().map_err(|_| IdError::Length { digits: 16 })?;
        Self::read(digits)?.ok_or(IdError::Zero)
    }
}

impl From<NoDigit> for IdError {
    fn from(_: NoDigit) -> Self {
        Self::Digit
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}
