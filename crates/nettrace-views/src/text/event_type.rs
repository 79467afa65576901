//! The facts needed to show an event of a type, worked out once for a type.

use nettrace_reader::Metadata;

use crate::{
    model::RustTypes,
    text::{message::Template, names::Names},
};

/// An event type. [`PerType`](crate::model::PerType) has those of a trace.
#[derive(Debug, Default)]
pub struct EventType {
    /// The names of its fields, all different.
    pub names: Vec<String>,
    /// Its message template.
    pub message: Option<Template>,
    /// What it states of the Rust types of its fields.
    pub rust_types: RustTypes,
}

impl EventType {
    /// The type that this metadata describes.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let mut unique = Names::default();
        let fields = metadata.fields.iter();
        let names: Vec<_> = fields.map(|it| unique.unique(&it.name).into_owned()).collect();
        let message = metadata.message_template.as_deref();
        let message = message.map(|template| Template::new(template, &names));
        Self { names, message, rust_types: RustTypes::of(metadata) }
    }
}
