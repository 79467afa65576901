//! What the events of a trace mean: one model for all that read traces.
//!
//! | question | answer |
//! |---|---|
//! | which span an event belongs to | [`Ids`], [`Key`] |
//! | what it says of that span | [`Role`], [`Part`], [`EndFields`] |
//! | how a span, an event type or a process is called | [`span_name`], [`event_name`], [`process_of`] |
//! | what time it was | [`Clock`], [`Time`] |
//! | what code an address is of | [`FrameNames`] |
//! | how many spans there are | [`SpanCounts`] |
//! | how text from elsewhere is shown | [`OneLine`], [`Json`] |

mod clock;
mod counts;
mod frames;
mod hex;
mod ids;
mod shown;
#[cfg(any(feature = "report", feature = "tables", feature = "viewers"))]
mod spans;
mod symbols;
mod types;

#[cfg(any(feature = "report", feature = "tables", feature = "viewers"))]
pub(crate) use self::spans::{KnownSpans, SpanRef};
pub use self::{
    clock::{Clock, FileTime, Instant, Time, unix_nanos},
    counts::SpanCounts,
    frames::FrameNames,
    hex::{Hex, guid, hex},
    ids::{Ids, Key, Known, Overrides, Part, Role, SINGLE},
    shown::{Json, OneLine, is_hidden, json_escape, to_json},
    types::{
        EndFields, event_name, has_fields_of_single, place, process_id, process_of, span_name,
    },
};
#[cfg(feature = "viewers")]
pub(crate) use self::{
    frames::{EXTERNAL, Observed, is_external},
    symbols::{Lesson, Place, Symbols},
};
