//! What the code of `#[traced]` calls.

use std::fmt;

use nettrace_event::{
    EventType, FieldType, NOT_REGISTERED, PayloadEncoder, TextField, TraceField, encoding,
};

use super::Outcome;
use crate::sessions;

/// Whether anybody listens to a span whose Start has this type.
#[inline(always)]
#[must_use]
pub fn is_wanted(start: &'static EventType) -> bool {
    match start.enabled() {
        0 => false,
        NOT_REGISTERED => is_wanted_at_first(start),
        _ => true,
    }
}

/// [`is_wanted`] before the first event of the type.
#[cold]
#[inline(never)]
fn is_wanted_at_first(start: &'static EventType) -> bool {
    (start.is_registered() || sessions::register(start)) && start.enabled() != 0
}

/// Calls the body of a function. The bound makes the closure one that is called once, so that it
/// can return references into what it captures.
#[inline(always)]
pub fn call<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The value that a call returned. Its method `outcome` is this type's for a `Result`, and
/// [`AnyReturned`]'s for every other type.
#[derive(Debug)]
pub struct Returned<'a, T>(pub &'a T);

impl<T, E> Returned<'_, Result<T, E>> {
    /// By the variant.
    #[inline]
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.0)
    }
}

/// The outcome of a call that did not return a `Result`.
pub trait AnyReturned {
    /// It returned.
    #[inline]
    #[must_use]
    fn outcome(&self) -> Outcome {
        Outcome::Ok
    }
}

impl<T> AnyReturned for Returned<'_, T> {}

/// A returned value or an error, recorded as text.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// By its `Debug`.
    Debug(&'a dyn fmt::Debug),
    /// By its `Display`.
    Display(&'a dyn fmt::Display),
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debug(value) => value.fmt(f),
            Self::Display(value) => value.fmt(f),
        }
    }
}

impl TraceField for Shown<'_> {
    const TYPE: FieldType = <str as TraceField>::TYPE;

    #[inline(never)]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        <Self as TextField<encoding::Debug>>::encode_text(self, encoder);
    }
}
