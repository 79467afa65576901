//! Every type that a field can have, in every encoding, with known values. Also every kind of
//! label, and everything that an event type can state about itself. `all_types` emits these tables,
//! and its test expects readers to show them.

mod containers;
mod descriptions;
mod numbers;
mod text;

use std::thread;

use nettrace_writer::ThreadRef;
use serde_json::{Map, Value, json};

pub use descriptions::ADDRESSES;

/// The provider of all events.
pub const PROVIDER: &str = "Example-AllTypes";

/// Text with characters of one to four bytes in UTF-8, some of them combined.
pub const MIXED: &str = "aé€🦀 Ελλάδα 漢字 עברית e\u{301} 👩‍🚀";

/// One event with known values.
#[derive(Debug)]
pub struct Sample {
    /// The event's name as readers show it, unless [`more`](Self::more) has another. The reference
    /// reader appends the opcode if the type has one.
    pub name: &'static str,
    /// Only the newest readers know it, so `--portable` leaves it out.
    pub newest_only: bool,
    /// Emits it.
    pub emit: fn(),
    /// The fields, as they were written.
    pub fields: Value,
    /// The fields as the reference reader shows them. They differ for UTF-8.
    pub reference: Value,
    /// What else the reference reader shows of the event, under its own names.
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

/// Emits all samples. Returns how many, and the OS id of the thread that [`RELATED`] is about.
///
/// # Panics
///
/// If emitting an event panics.
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

/// The name of the event that one thread emits about another. It comes last and has no fields.
pub const RELATED: &str = "Related";

/// Declares an event type by its fields, each with a value and what readers show for it.
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

/// The members of a JSON object.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => [("value".to_owned(), json!(other))].into_iter().collect(),
    }
}
