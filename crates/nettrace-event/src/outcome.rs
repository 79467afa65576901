//! The outcome of a span.

use core::fmt;

use crate::{encode::PayloadEncoder, field::TraceField, schema::FieldType};

/// How a span ended. Recorded as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// `ok`: it returned, and not an error.
    Ok,
    /// `err`: it returned an error.
    Err,
    /// `cancelled`: its future was dropped before it was ready.
    Cancelled,
    /// `panicked`: it unwound.
    Panicked,
}

impl Outcome {
    /// The text that is recorded.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Err => "err",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
        }
    }

    /// The outcome that is recorded as this text, whatever its encoding.
    pub fn parse(text: impl Iterator<Item = char>) -> Option<Self> {
        let (mut bytes, mut size) = ([0; 16], 0);
        for char in text {
            *bytes.get_mut(size)? = u8::try_from(char).ok()?;
            size += 1;
        }
        let all = [Self::Ok, Self::Err, Self::Cancelled, Self::Panicked];
        all.into_iter().find(|outcome| *outcome.as_str().as_bytes() == bytes[..size])
    }

    /// Whether the span failed: by an error or a panic.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Err | Self::Panicked)
    }

    /// Whether the span has no result, not even an error.
    #[must_use]
    pub const fn has_no_result(self) -> bool {
        matches!(self, Self::Cancelled | Self::Panicked)
    }

    /// The outcome of a call that returned `result`.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Ok } else { Self::Err }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TraceField for Outcome {
    const TYPE: FieldType = <str as TraceField>::TYPE;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        match self {
            // The usual one as the bytes that it becomes: two stores.
            Self::Ok if E::TAKES_PAYLOADS => encoder.payload(b"\x02\0o\0k\0"),
            Self::Ok => <str as TraceField>::encode_field("ok", encoder),
            _ => self.encode_unusual(encoder),
        }
    }
}

impl Outcome {
    #[cold]
    #[inline(never)]
    fn encode_unusual<E: PayloadEncoder>(self, encoder: &mut E) {
        <str as TraceField>::encode_field(self.as_str(), encoder);
    }
}

#[cfg(test)]
mod tests {
    use crate::payload::{NetTraceEncoder, VecBuffer};

    use super::{Outcome, TraceField};

    #[test]
    fn an_outcome_is_encoded_as_its_text() {
        for outcome in [Outcome::Ok, Outcome::Err, Outcome::Cancelled, Outcome::Panicked] {
            let encoded = |field: &dyn Fn(&mut NetTraceEncoder<VecBuffer>)| {
                let mut encoder = NetTraceEncoder::new(VecBuffer::new());
                field(&mut encoder);
                encoder.into_buffer().bytes
            };
            let text = <str as TraceField>::encode_field::<NetTraceEncoder<VecBuffer>>;
            let text = encoded(&|encoder| text(outcome.as_str(), encoder));
            assert_eq!(encoded(&|encoder| outcome.encode_field(encoder)), text);
        }
    }
}
