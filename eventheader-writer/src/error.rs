//! The errors of this crate. Writing an event never returns an error: failures are counted in
//! [`Counters`](crate::Counters).

use std::fmt;

use nettrace_event::registry::RegisterError;

use crate::MAX_EVENT_BYTES;

/// Why an event type, or an event built at run time, is refused.
///
/// [`Display`](fmt::Display) writes one message that includes the cause, and
/// [`source`](std::error::Error::source) is always `None`. [`Debug`](fmt::Debug) writes the same
/// message, because `fn main() -> Result<(), Error>` prints an error by its `Debug`.
///
/// ```
/// use eventheader_writer::{DynamicProvider, Error};
///
/// match DynamicProvider::new("Contoso Plugins") {
///     Err(Error::Name { what, name, .. }) => {
///         assert_eq!((what, &*name), ("provider", "Contoso Plugins"));
///     }
///     other => panic!("the name has a space: {other:?}"),
/// }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The registry of types refused it.
    #[error("{0}")]
    Register(RegisterError),
    /// A tracepoint or its metadata cannot contain this name.
    #[error("the {what} name {name:?} {problem}; give it another")]
    Name {
        /// The kind of name: "provider", "group", "event", "field", "attribute".
        what: &'static str,
        /// The name.
        name: String,
        /// The reason for the refusal.
        problem: &'static str,
    },
    /// The event has a struct without fields, which the format cannot describe.
    #[error(
        "field `{field}` holds a struct without fields, which no tracepoint can describe; leave it \
         out with `#[trace_event(skip)]`"
    )]
    EmptyStruct {
        /// The field with that struct.
        field: String,
    },
    /// A struct has more than 127 fields.
    #[error(
        "the struct in field `{field}` has {count} fields, and the limit is 127; group some of \
         them in a struct of their own"
    )]
    TooManyFields {
        /// The field with that struct.
        field: String,
        /// The number of fields.
        count: usize,
    },
    /// Structs are nested more than 8 deep.
    #[error(
        "field `{field}` nests a ninth struct, and decoders follow 8; flatten the event (nested \
         sequences and options count as structs)"
    )]
    TooDeep {
        /// The field with the ninth struct.
        field: String,
    },
    /// A field's format does not fit its type.
    #[error(
        "the format of field `{field}` does not fit its type; leave it at the default or choose \
         another"
    )]
    Format {
        /// The field.
        field: String,
    },
    /// The header and metadata, which every event carries, leave no room for a payload.
    #[error(
        "the header, names and types of event `{event}` take {size} of the {limit} bytes that the \
         kernel delivers; shorten names or split the event"
    )]
    Metadata {
        /// The event's name.
        event: String,
        /// Size in bytes of header and metadata.
        size: usize,
        /// The limit in bytes for the whole event.
        limit: usize,
    },
    /// The event exceeds [`MAX_EVENT_BYTES`].
    #[error(
        "event `{event}` is larger than the {limit} bytes that the kernel delivers; record less, \
         or split it",
        limit = MAX_EVENT_BYTES
    )]
    TooLarge {
        /// The event's name.
        event: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}
