//! The meaning of the events of a trace: one model for all that read traces.
//!
//! | question | answer |
//! |---|---|
//! | which span an event belongs to | [`Ids`], [`Key`] |
//! | what it says of that span | [`Role`], [`role_of`], [`SpanEdge`], [`EndFields`] |
//! | how a span or an event type is called | [`span_name`], [`event_name`] |
//! | which process it was, and how that is called | [`process_id`], [`Processes`] |
//! | what time it was | [`Clock`], [`Time`] |
//! | what the values of an event mean | [`walk`], [`RustTypes`] |
//! | in which form values and labels are shown | [`Plain`], [`label_name`] |
//! | what code an address is of | [`FrameNames`] |
//! | what a reader keeps of each event type | [`PerType`] |
//! | what tells spans of one name apart | `dimension`, `dimension_value` |
//! | which spans are under way, and what an event is to them | [`SpanTable`], [`Part`] |
//! | what the events of one span say together | [`SpanRecord`], [`OwnTime`], [`SpanWork`] |
//! | how many spans there are | [`SpanCounts`] |
//! | where most of a tree's time was spent | [`MostTime`] |
//! | how text from elsewhere is shown | [`OneLine`], [`FullName`], [`Json`] |

mod clock;
mod counts;
#[cfg(any(feature = "report", feature = "tables", feature = "viewers"))]
mod dimension;
mod fields;
mod frames;
mod hex;
mod ids;
#[cfg(any(feature = "report", feature = "viewers"))]
mod instruments;
mod most_time;
mod own_time;
mod per_type;
mod plain;
mod processes;
mod shown;
mod span_record;
mod span_table;
mod types;
mod work;

#[cfg(any(feature = "report", feature = "viewers"))]
pub(crate) use self::dimension::MOST_VALUES;
#[cfg(feature = "report")]
pub(crate) use self::dimension::clip;
#[cfg(any(feature = "report", feature = "tables", feature = "viewers"))]
pub(crate) use self::dimension::{dimension, dimension_value};
#[cfg(feature = "viewers")]
pub(crate) use self::frames::{Lesson, Place};
#[cfg(feature = "report")]
pub(crate) use self::instruments::interval;
#[cfg(any(feature = "report", feature = "viewers"))]
pub(crate) use self::instruments::{Instrument, InstrumentEvent, Measured, Reported, reported};
pub(crate) use self::types::{Observed, is_given_up};
pub use nettrace_event::role::{Role, span_name};

pub use self::{
    clock::{Clock, FileTime, Instant, Time, unix_nanos},
    counts::SpanCounts,
    fields::{Meant, RustTypes, Stated, walk},
    frames::FrameNames,
    hex::{Guid, Hex, hex},
    ids::{Ids, Key, Overrides, role_of},
    most_time::{MostTime, Worked},
    own_time::OwnTime,
    per_type::PerType,
    plain::{Plain, Purpose, Spelled, label_name},
    processes::{Processes, process_id, process_of, recording_and_key},
    shown::{FullName, Json, OneLine, is_hidden, json_escape, to_json},
    span_record::{SpanEdge, SpanRecord, SpanState},
    span_table::{Part, SpanRef, SpanTable},
    types::{
        EndFields, event_name, has_fields_of_single, is_failure, place, span_of_record,
        target_as_name,
    },
    work::{PollTimes, SpanWork},
};
