//! What the command needs to know of an event type to show its events, worked out once for a type.

use std::collections::HashMap;

use nettrace_reader::{Event, Metadata};
use nettrace_views::model::RustTypes;

use crate::{message::Template, unique_names::Names};

/// An event type.
#[derive(Debug, Default)]
pub(crate) struct EventType {
    /// The names of its fields, all different.
    pub(crate) names: Vec<String>,
    pub(crate) message: Option<Template>,
    pub(crate) rust_types: RustTypes,
}

impl EventType {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let mut unique = Names::default();
        let fields = metadata.fields.iter();
        let names: Vec<_> = fields.map(|it| unique.unique(&it.name).into_owned()).collect();
        let message = metadata.message_template.as_deref();
        let message = message.map(|template| Template::new(template, &names));
        Self { names, message, rust_types: RustTypes::of(metadata) }
    }
}

/// The event types of a trace that are valid at the moment.
#[derive(Debug, Default)]
pub(crate) struct EventTypes {
    epoch: u64,
    /// By metadata id.
    known: HashMap<u32, EventType>,
}

impl EventTypes {
    /// The type of an event.
    pub(crate) fn of(&mut self, event: &Event<'_>) -> &EventType {
        if self.epoch != event.epoch() {
            self.epoch = event.epoch();
            self.known.clear();
        }
        let known = self.known.entry(event.header.metadata_id);
        known.or_insert_with(|| EventType::of(event.metadata()))
    }
}
