//! Every type that a field can have, in every encoding, with known values; every kind of label, and
//! everything that an event type can say about itself. The tables here are both what `all_types` emits
//! and what its test expects readers to show.

mod containers;
mod descriptions;
mod numbers;
mod text;

use std::thread;

use nettrace_writer::ThreadRef;
use serde_json::{Map, Value, json};

pub use descriptions::ADDRESSES;

/// The provider of all of them.
pub const PROVIDER: &str = "Example-AllTypes";

/// Text with letters of one, two and three bytes in UTF-8, one beyond 16 bits, and combining ones.
pub const MIXED: &str = "aé€🦀 Ελλάδα 漢字 עברית e\u{301} 👩‍🚀";

/// One event with known values.
#[derive(Debug)]
pub struct Sample {
    /// The event's name as readers show it, unless [`more`](Self::more) says otherwise: where a type
    /// gives its opcode, the reference reader adds that.
    pub name: &'static str,
    /// Only the newest readers know it: left out by `--portable`.
    pub newest_only: bool,
    /// Emits it.
    pub emit: fn(),
    /// The fields, as they were written.
    pub fields: Value,
    /// The fields as the reference reader shows them, which is different for UTF-8.
    pub reference: Value,
    /// What else the reference reader is to show of the event, by the names that it uses.
    pub more: Map<String, Value>,
}

/// All events in the order in which [`emit_all`] emits them.
#[must_use]
pub fn samples(portable: bool) -> Vec<Sample> {
    let groups =
        [numbers::samples(), text::samples(), containers::samples(), descriptions::samples()];
    let known = |sample: &Sample| !(portable && sample.newest_only);
    groups.into_iter().flatten().filter(known).collect()
}

/// Emits all samples; says how many, and the system's id of the thread that [`RELATED`] is about.
#[must_use]
pub fn emit_all(portable: bool) -> (u64, u64) {
    let samples = samples(portable);
    samples.iter().for_each(|sample| (sample.emit)());
    let here = ThreadRef::current();
    let about = here.clone();
    thread::scope(|scope| scope.spawn(move || descriptions::emit_related(&about)).join())
        .expect("emitting does not panic");
    (samples.len() as u64 + 1, here.os_id())
}

/// The name of the event that one thread emits about another; it comes last, and has no fields.
pub const RELATED: &str = "Related";

/// Declares an event type by its fields, each with a value and what readers show of it.
macro_rules! table {
    (
        $(#[$meta:meta])* $event:ident;
        $($(#[$attr:meta])* $field:ident: $ty:ty = $value:expr
            => ($($shown:tt)+) $(, reference ($($reference:tt)+))?;)+
    ) => {{
        $(#[$meta])*
        #[derive(nettrace_writer::TraceEvent)]
        #[trace_event(provider = crate::types::PROVIDER)]
        struct $event<'a> {
            $($(#[$attr])* $field: $ty,)+
            #[trace_event(skip)]
            lifetime: std::marker::PhantomData<&'a ()>,
        }
        let fields = serde_json::json!({ $(stringify!($field): $($shown)+),+ });
        #[allow(unused_mut)]
        let mut reference = fields.clone();
        $($(reference[stringify!($field)] = serde_json::json!($($reference)+);)?)+
        crate::types::Sample {
            name: stringify!($event),
            newest_only: false,
            emit: || {
                let lifetime = std::marker::PhantomData;
                nettrace_writer::Emit::emit(&$event { $($field: $value,)+ lifetime });
            },
            fields,
            reference,
            more: serde_json::Map::new(),
        }
    }};
}
use table;

/// An object's members.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => [("value".to_owned(), json!(other))].into_iter().collect(),
    }
}
