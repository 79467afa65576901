//! Why a type is refused, and the message that says so.

use core::{error, fmt};

use super::MAX_TYPES;
use crate::schema::EventSchema;

/// Why a type was refused. Its events are never recorded, except after [`Busy`](Self::Busy).
/// Sessions that want them count them as lost.
///
/// ```
/// use nettrace_event::{
///     EventSchema, EventType,
///     registry::{self, RegisterError},
/// };
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// static SALE: EventType = EventType::new(&SCHEMA);
/// // Another event with the same id, which its author gave it.
/// static REFUND: EventType = EventType::new(&EventSchema { name: "Refund", ..SCHEMA });
///
/// registry::register(&SALE)?;
/// let error = registry::register(&REFUND).unwrap_err();
/// assert!(matches!(error, RegisterError::IdClash { holder, .. } if holder.name == "Sale"));
/// assert_eq!(
///     error.to_string(),
///     "event `Refund` of provider `Shop` (at an unknown place) is given the id 1, which event \
///      `Sale` (at an unknown place) is given, too; give it another with \
///      `#[trace_event(id = ...)]`, or none"
/// );
/// # Ok::<(), RegisterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The author gave another event of the provider the same id.
    IdClash {
        /// The type that was refused.
        refused: &'static EventSchema,
        /// The type that has the id.
        holder: &'static EventSchema,
    },
    /// The process already has [`MAX_TYPES`] event types.
    TooManyTypes {
        /// The type that was refused.
        refused: &'static EventSchema,
    },
    /// A signal handler interrupted a registration of the same thread. The type can still be
    /// registered later.
    Busy {
        /// The type that was not registered.
        refused: &'static EventSchema,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::IdClash { refused, .. }
        | Self::TooManyTypes { refused }
        | Self::Busy { refused }) = self;
        let EventSchema { name, provider, place, id, .. } = refused;
        write!(f, "event `{name}` of provider `{}` ", provider.name)?;
        match self {
            Self::IdClash { holder, .. } => write!(
                f,
                "(at {place}) is given the id {id}, which event `{}` (at {}) is given, too; give \
                 it another with `#[trace_event(id = ...)]`, or none",
                holder.name, holder.place,
            ),
            Self::TooManyTypes { .. } => write!(
                f,
                "(at {place}) exceeds the {MAX_TYPES} event types that a process can have"
            ),
            Self::Busy { .. } => f.write_str(
                "cannot be registered in the middle of another registration; register it before a \
                 signal handler emits it",
            ),
        }
    }
}

impl error::Error for RegisterError {}
