//! The two descriptions by which payloads are taken apart: the schemas of this program's types,
//! and the types that a trace describes.
//!
//! A schema says more than any trace: that an array is an option, that a number is a duration, that
//! a text describes the event. Whatever converts payloads takes both, and is compiled for each.

use alloc::sync::Arc;

use nettrace_event::{
    ArrayLayout, EventSchema, FieldRole, FieldSchema, FieldType, Storage, StrEncoding,
};

use crate::schema::{Field, Metadata, Type};

/// A field, as a schema or a trace describes it.
pub trait FieldDescription: Sized {
    /// The type of its values.
    type Type;

    /// Its name.
    fn name(&self) -> &str;

    /// The name for errors, which hold static texts; empty if it is a trace's.
    fn static_name(&self) -> &'static str {
        ""
    }

    /// The type of its values.
    fn ty(&self) -> &Self::Type;

    /// What it says of the event.
    fn role(&self) -> FieldRole {
        FieldRole::Value
    }

    /// How values of a type are stored.
    fn storage(of: &Self::Type) -> Storage<&Self::Type, &[Self]>;

    /// The size of a value in bytes, if all values of the type have the same size.
    fn fixed_size(of: &Self::Type) -> Option<usize>;

    /// Whether values of a type are nanoseconds between two times.
    fn is_duration(_of: &Self::Type) -> bool {
        false
    }
}

impl FieldDescription for FieldSchema {
    type Type = FieldType;

    fn name(&self) -> &str {
        self.name
    }

    fn static_name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn ty(&self) -> &FieldType {
        &self.ty
    }

    fn role(&self) -> FieldRole {
        self.role
    }

    #[inline]
    fn storage(of: &FieldType) -> Storage<&FieldType, &[Self]> {
        of.storage()
    }

    fn fixed_size(of: &FieldType) -> Option<usize> {
        of.fixed_size()
    }

    fn is_duration(of: &FieldType) -> bool {
        *of == FieldType::DurationNanos
    }
}

impl FieldDescription for Field {
    type Type = Type;

    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn ty(&self) -> &Type {
        &self.ty
    }

    /// Only of a type that version 6 [has](Type::is_of_v6).
    #[inline]
    fn storage(of: &Type) -> Storage<&Type, &[Self]> {
        let array = |element, layout| match (element, layout) {
            (&Type::Utf16CodeUnit, ArrayLayout::Counted) => Storage::Text(StrEncoding::Utf16),
            (&Type::Utf8CodeUnit, ArrayLayout::Counted) => Storage::Text(StrEncoding::Utf8),
            (&Type::Utf16CodeUnit, ArrayLayout::RelLoc) => Storage::Text(StrEncoding::Utf16RelLoc),
            (&Type::Utf8CodeUnit, ArrayLayout::RelLoc) => Storage::Text(StrEncoding::Utf8RelLoc),
            (&Type::Utf16CodeUnit, ArrayLayout::DataLoc) => {
                Storage::Text(StrEncoding::Utf16DataLoc)
            }
            (&Type::Utf8CodeUnit, ArrayLayout::DataLoc) => Storage::Text(StrEncoding::Utf8DataLoc),
            (element, layout) => Storage::Array(element, layout),
        };
        match of {
            Type::Object(fields) => Storage::Object(fields),
            Type::Boolean => Storage::Bool,
            Type::Boolean8 => Storage::Bool8,
            Type::Utf16CodeUnit => Storage::Utf16Unit,
            Type::Int8 => Storage::I8,
            Type::UInt8 | Type::Utf8CodeUnit => Storage::U8,
            Type::Int16 => Storage::I16,
            Type::UInt16 => Storage::U16,
            Type::Int32 => Storage::I32,
            Type::UInt32 => Storage::U32,
            Type::Int64 => Storage::I64,
            Type::UInt64 => Storage::U64,
            Type::Single => Storage::F32,
            Type::Double => Storage::F64,
            Type::DateTime => Storage::DateTime,
            Type::Guid => Storage::Guid,
            Type::Utf16String => Storage::Text(StrEncoding::Utf16Nul),
            Type::VarInt => Storage::VarInt,
            Type::VarUInt => Storage::VarUInt,
            Type::Array(element) => array(element, ArrayLayout::Counted),
            Type::FixedArray(element, count) => array(element, ArrayLayout::Fixed(*count)),
            Type::RelLoc(element) => array(element, ArrayLayout::RelLoc),
            Type::DataLoc(element) => array(element, ArrayLayout::DataLoc),
            Type::Decimal
            | Type::Utf8String
            | Type::CountedArray(..)
            | Type::Rest
            | Type::Unknown(_)
            | Type::Deep
            | Type::Damaged => Storage::Object(&[]),
        }
    }

    fn fixed_size(of: &Type) -> Option<usize> {
        of.fixed_size().map(|size| size as usize)
    }
}

/// An event type, as a schema or a trace describes it.
pub trait EventDescription {
    /// Its fields.
    type Field: FieldDescription;

    /// What all its events share.
    fn facts(&self) -> EventFacts<'_>;

    /// The name for errors, which hold static texts; empty if it is a trace's.
    fn static_name(&self) -> &'static str {
        ""
    }

    /// Whether it has a key-value that passes a test.
    fn has(&self, test: impl Fn(&str, &str) -> bool) -> bool;

    /// Its fields.
    fn fields(&self) -> &[Self::Field];
}

/// What all events of a type share.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EventFacts<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The event's name.
    pub name: &'a str,
    /// The event id. In traces of other producers it can exceed 16 bits.
    pub event_id: u32,
    /// The number of the level.
    pub level: u8,
    /// The keywords.
    pub keywords: u64,
    /// The opcode, if it is stated.
    pub opcode: Option<u8>,
    /// The version of the fields.
    pub version: u8,
    /// Whether the type has descriptive parts that none of its events contains.
    pub is_descriptive: bool,
}

impl EventDescription for EventSchema {
    type Field = FieldSchema;

    fn facts(&self) -> EventFacts<'_> {
        EventFacts {
            provider: self.provider.name,
            name: self.name,
            event_id: self.id.into(),
            level: self.level.number(),
            keywords: self.keywords,
            opcode: self.opcode,
            version: self.version,
            is_descriptive: self.message.is_some()
                || self.description.is_some()
                || !self.key_values.is_empty()
                || self.provider.guid.is_some(),
        }
    }

    fn static_name(&self) -> &'static str {
        self.name
    }

    fn has(&self, test: impl Fn(&str, &str) -> bool) -> bool {
        self.key_values.iter().any(|(key, value)| test(key, value))
    }

    fn fields(&self) -> &[FieldSchema] {
        self.fields
    }
}

impl EventDescription for Metadata {
    type Field = Field;

    fn facts(&self) -> EventFacts<'_> {
        EventFacts {
            provider: &self.provider,
            name: &self.name,
            event_id: self.event_id,
            level: self.level,
            keywords: self.keywords,
            opcode: self.opcode,
            version: self.version,
            is_descriptive: self.message_template.is_some()
                || self.description.is_some()
                || !self.key_values.is_empty()
                || self.provider_guid.is_some(),
        }
    }

    fn has(&self, test: impl Fn(&str, &str) -> bool) -> bool {
        self.key_values.iter().any(|(key, value)| test(key, value))
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// An event type that a stage remembers.
#[derive(Clone, Debug)]
pub(crate) enum EventType {
    /// One of this program.
    Own(&'static EventSchema),
    /// One of a trace.
    Read(Arc<Metadata>),
}
