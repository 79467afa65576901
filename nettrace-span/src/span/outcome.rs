//! How a span ended.

use std::fmt;

use nettrace_event::{FieldType, PayloadEncoder, TraceField};

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

    #[inline(always)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        // The compiler knows each text, and makes a few stores of it. The usual one comes first.
        if let Self::Ok = self {
            return <str as TraceField>::encode_field("ok", encoder);
        }
        unusual();
        match self {
            Self::Cancelled => <str as TraceField>::encode_field("cancelled", encoder),
            Self::Panicked => <str as TraceField>::encode_field("panicked", encoder),
            _ => <str as TraceField>::encode_field("err", encoder),
        }
    }
}

/// Keeps the compiler from making one table of a usual case and of those that come after this.
#[cold]
#[inline(never)]
fn unusual() {}
