//! What can go wrong. Writing an event never returns an error: it counts
//! ([`Counters`](crate::Counters)).

use std::{error, fmt};

use trace_event::registry::RegisterError;

/// Why a type of event, or an event made at run time, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The registry of types refused it.
    Register(RegisterError),
    /// A name that a tracepoint or its metadata cannot spell.
    Name {
        /// What has the name: "provider", "group", "event", "field", "attribute".
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A struct without fields within the event: the format has no spelling for it.
    EmptyStruct {
        /// The field that holds it.
        field: String,
    },
    /// A struct with more than 127 fields.
    TooManyFields {
        /// The field that holds it.
        field: String,
        /// How many there are.
        count: usize,
    },
    /// Structs more than 8 deep.
    TooDeep {
        /// The field at which the ninth begins.
        field: String,
    },
    /// A format that does not suit the type of its field.
    Format {
        /// The field.
        field: String,
    },
    /// The names and types of the fields leave no room for a payload: every event carries them.
    Metadata {
        /// The event.
        event: String,
        /// Bytes of the header and the metadata.
        size: usize,
        /// Bytes that there may be.
        limit: usize,
    },
    /// The event exceeds [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
    TooLarge {
        /// The event.
        event: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(_) => f.write_str("the event type is refused; see the cause"),
            Self::Name { what, name, problem } => {
                write!(f, "the {what} name {name:?} {problem}; give it another")
            }
            Self::EmptyStruct { field } => write!(
                f,
                "field `{field}` holds a struct without fields, which no tracepoint can describe; \
                 leave it out with `#[trace_event(skip)]`"
            ),
            Self::TooManyFields { field, count } => write!(
                f,
                "the struct in field `{field}` has {count} fields, and 127 are the most; group \
                 some of them in a struct of their own"
            ),
            Self::TooDeep { field } => write!(
                f,
                "field `{field}` begins a ninth struct within the others, and decoders follow 8; \
                 flatten the event (sequences and options within each other count as structs)"
            ),
            Self::Format { field } => write!(
                f,
                "the format of field `{field}` does not suit its type; leave it at the default or \
                 choose another"
            ),
            Self::Metadata { event, size, limit } => write!(
                f,
                "event `{event}` spends {size} bytes on its header, names and types, of {limit} \
                 that the kernel delivers in all; shorten names or split the event"
            ),
            Self::TooLarge { event } => write!(
                f,
                "event `{event}` is larger than the {} bytes that the kernel delivers; record \
                 less, or split it",
                crate::MAX_EVENT_BYTES
            ),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Register(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}
