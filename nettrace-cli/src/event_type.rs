//! What the command needs to know of an event type to show its events, worked out once for a type.

use nettrace_reader::Metadata;
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
