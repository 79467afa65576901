//! A small event type for the examples in the documentation.

use crate::schema::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};

/// The event `Sale` of the provider `Shop`, with the id 1 and the field `cents`.
pub const SALE: EventSchema = EventSchema {
    provider: ProviderSchema { name: "Shop", guid: None, group: None },
    name: "Sale",
    place: Place::UNKNOWN,
    id: 1,
    id_is_explicit: true,
    version: 0,
    level: Level::Informational,
    keywords: 0,
    opcode: None,
    tag: 0,
    message: None,
    description: None,
    key_values: &[],
    fields: &[FieldSchema::new("cents", FieldType::U32)],
};
