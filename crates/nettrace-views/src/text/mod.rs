//! Events as text for people: names, messages, fields and labels, as the command's `dump` and
//! `tree` show them, and [`Lines`] for those who look on while a program runs.

mod color;
mod event_type;
mod json;
mod level;
mod lines;
mod message;
mod names;
mod payload;
mod values;
mod write;

#[cfg(feature = "report")]
pub(crate) use self::write::short_target;
use self::write::write_key_of;
pub use self::{
    color::{Style, wants_colors},
    event_type::EventType,
    json::{JsonFields, JsonLabels, JsonValue, plain_text},
    level::{Severity, VERBOSE, is_trace_level, level},
    lines::{Lines, Look},
    message::{Message, Template},
    names::{Names, all_differ},
    payload::Payload,
    values::{LabelValue, PlainFloat, PlainValue, is_id, not_finite, quoted},
    write::{
        Detail, EventLook, ShownEvent, write_end, write_event, write_fields, write_key,
        write_label, write_name, write_said, write_what,
    },
};
