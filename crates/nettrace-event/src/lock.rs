//! The schemas of a package's events, kept in its repository: what dashboards, alerts and queries
//! depend on.
//!
//! `schema_lock!` makes a test that compares the events of the code with the file
//! `nettrace.schema`, which lists every derived event, span and traced function. If they differ,
//! the test fails and says what the change does to those who read traces:
//!
//! | change | verdict |
//! |---|---|
//! | an event is added | compatible |
//! | a field is appended | compatible |
//! | `version` grows, and with it fields or the opcode change | compatible |
//! | level or keywords change | warning: filters select other events |
//! | the unit or another key-value changes | warning |
//! | the format or the role of a field changes | warning: the same value is shown as another |
//! | a field is removed or renamed, or gets another type or place | breaking |
//! | the opcode changes | breaking |
//! | an event is removed or renamed, in every version | breaking |
//! | the id or the provider changes, in every version | breaking |
//! | a secret is recorded as it is, in every version | breaking |
//! | `version` shrinks | breaking |
//! | a description, a message, the module or a tag changes | note: the test passes |
//!
//! `NETTRACE_SCHEMA=accept cargo test` writes the file, unless a change is breaking. Write
//! `version = 2` in the event's `#[trace_event(…)]` then: readers tell versions apart, and both may
//! be in one service and in one trace. `NETTRACE_SCHEMA=break cargo test` writes the file whatever
//! has changed.
//!
//! # Ids
//!
//! An event without `id = …` has an id that is a hash of its name. So a new name is a new id. To
//! keep it, write the old one into the attribute; the test says which. Two events of a provider can
//! want the same id. The one that is emitted first gets it, and the file says so at both: give one
//! of them another.

mod changes;
#[cfg(feature = "schema_lock")]
mod check;
#[cfg(feature = "schema_lock")]
#[doc(hidden)]
pub mod declared;
mod text;
mod ty;
mod words;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

#[cfg(feature = "schema_lock")]
pub use self::check::Lock;
pub use self::{
    changes::{Change, Verdict, changes},
    text::{FIRST_LINE, ParseError},
    ty::Type,
};

/// The schemas of events, in the order of their providers and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The events, sorted.
    pub events: Vec<Event>,
}

/// The catalogue's entry for an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The provider's name.
    pub provider: String,
    /// The event's name.
    pub name: String,
    /// The version of its fields.
    pub version: u32,
    /// The path of the module that has it. Empty if it is not known.
    pub module: String,
    /// The id that it wants, or has in a trace.
    pub id: u32,
    /// Whether the author gave the id. `None` if it is not known.
    pub id_is_given: Option<bool>,
    /// The provider's GUID in the byte order of RFC 4122, if it was given.
    pub guid: Option<[u8; 16]>,
    /// The provider group of tracepoints.
    pub group: Option<String>,
    /// The level, by its number.
    pub level: u8,
    /// The keywords.
    pub keywords: u64,
    /// The opcode, unless the name implies it.
    pub opcode: Option<u8>,
    /// The tag of tracepoints.
    pub tag: u16,
    /// The message template.
    pub message: Option<String>,
    /// The text of its doc comment or of `description = …`.
    pub meaning: Option<String>,
    /// Key-values, sorted.
    pub keys: Vec<(String, String)>,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// The catalogue's entry for a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether it is a [`Secret`](crate::Secret).
    pub is_secret: bool,
    /// The format in which tracepoints show it: what `format = …` says.
    pub format: Option<String>,
    /// Its tag in tracepoints.
    pub tag: u16,
    /// Its part in a span of Heph traces: `start`, `end` or `description`.
    pub role: Option<String>,
    /// The text of its doc comment.
    pub meaning: Option<String>,
    /// Key-values, sorted: a `unit`, for instance.
    pub keys: Vec<(String, String)>,
}

impl Field {
    /// A field of which no more is known.
    #[must_use]
    pub fn new(name: String, ty: Type) -> Self {
        let (format, role, meaning, keys) = (None, None, None, Vec::new());
        Self { name, ty, is_secret: false, format, tag: 0, role, meaning, keys }
    }

    fn stored(&self) -> Self {
        Self::new(self.name.clone(), self.ty.stored())
    }
}

impl Catalogue {
    /// A catalogue of these events, sorted.
    #[must_use]
    pub fn new(mut events: Vec<Event>) -> Self {
        events.iter_mut().for_each(|event| {
            event.keys.sort();
            event.fields.iter_mut().for_each(|field| field.keys.sort());
        });
        events.sort();
        events.dedup();
        Self { events }
    }

    /// The catalogue as far as a trace can state it: not which fields are secret, what they mean or
    /// how they are shown, or whether an id was given. An id that several events want is 0: who has
    /// it is not known.
    #[must_use]
    pub fn stored(&self) -> Self {
        let by_id = self.by_id();
        let is_shared =
            |event: &Event| by_id.get(&event.key_of_id()).is_some_and(|events| events.len() > 1);
        let stored = |event: &Event| Event {
            id: if is_shared(event) { 0 } else { event.id },
            id_is_given: None,
            group: None,
            tag: 0,
            // A trace states types of Rust that its own types do not tell.
            keys: event
                .keys
                .iter()
                .filter(|(key, _)| !key.starts_with(crate::keys::RUST_TYPE))
                .cloned()
                .collect(),
            fields: event.fields.iter().map(Field::stored).collect(),
            ..event.clone()
        };
        Self::new(self.events.iter().map(stored).collect())
    }

    /// Provider and name of each event.
    #[must_use]
    pub fn names(&self) -> BTreeSet<(&str, &str)> {
        self.events.iter().map(Event::full_name).collect()
    }

    /// The events that want an id that nobody gave. Who is emitted first gets it.
    fn by_id(&self) -> BTreeMap<(&str, u32), Vec<&Event>> {
        let mut by_id: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.id_is_given == Some(false)) {
            by_id.entry(event.key_of_id()).or_default().push(event);
        }
        by_id
    }
}

impl Event {
    /// Its provider and its name.
    #[must_use]
    pub fn full_name(&self) -> (&str, &str) {
        (&self.provider, &self.name)
    }

    fn key_of_id(&self) -> (&str, u32) {
        (&self.provider, self.id)
    }
}
