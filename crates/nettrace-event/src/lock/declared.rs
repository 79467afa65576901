//! The event types of a program, by what the derives declare.

use alloc::{boxed::Box, string::ToString, vec::Vec};

pub use linkme;

use crate::{
    event::EventType,
    lock::{Catalogue, Event, Field, Type},
    schema::{ArrayLayout, FieldFormat, FieldRole, FieldSchema, FieldType},
};

/// A derived event type.
#[derive(Debug)]
pub struct Declared {
    /// The type itself.
    pub ty: &'static EventType,
    /// The package that has it.
    pub package: &'static str,
    /// The texts of its fields' doc comments, in the order of the fields. Empty: nothing.
    pub meanings: &'static [&'static str],
}

/// All derived event types of the program.
#[linkme::distributed_slice]
pub static DECLARED: [Declared];

impl Catalogue {
    /// The derived events of these packages, as far as they are linked into this program.
    #[must_use]
    pub fn of_packages(packages: &[&str]) -> Self {
        let declared = DECLARED.iter().filter(|declared| packages.contains(&declared.package));
        Self::new(declared.map(Declared::event).collect())
    }
}

impl Declared {
    fn event(&self) -> Event {
        let schema = self.ty.schema();
        let owned = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let fields = schema.fields.iter().enumerate().map(|(at, field)| {
            let meaning = self.meanings.get(at).filter(|meaning| !meaning.is_empty());
            Field {
                name: field.name.to_string(),
                ty: described(&field.ty),
                is_secret: field.is_secret,
                format: format(field.format).map(ToString::to_string),
                tag: field.tag,
                role: match field.role {
                    FieldRole::Value => None,
                    FieldRole::Start => Some("start".to_string()),
                    FieldRole::End => Some("end".to_string()),
                    FieldRole::Description => Some("description".to_string()),
                },
                meaning: meaning.map(ToString::to_string),
                keys: owned(field.key_values),
            }
        });
        Event {
            provider: schema.provider.name.to_string(),
            name: schema.name.to_string(),
            version: schema.version.into(),
            module: schema.place.module.to_string(),
            id: schema.id.into(),
            id_is_given: Some(schema.id_is_explicit),
            guid: schema.provider.guid,
            group: schema.provider.group.map(ToString::to_string),
            level: schema.level.number(),
            keywords: schema.keywords,
            opcode: schema.opcode,
            tag: schema.tag,
            message: schema.message.map(ToString::to_string),
            meaning: schema.description.map(ToString::to_string),
            keys: owned(schema.key_values),
            fields: fields.collect(),
        }
    }
}

/// The word of an attribute `format = …`.
fn format(format: FieldFormat) -> Option<&'static str> {
    Some(match format {
        FieldFormat::Default => return None,
        FieldFormat::Signed => "signed",
        FieldFormat::Unsigned => "unsigned",
        FieldFormat::Hex => "hex",
        FieldFormat::Boolean => "boolean",
        FieldFormat::Errno => "errno",
        FieldFormat::Pid => "pid",
        FieldFormat::Time => "time",
        FieldFormat::Port => "port",
        FieldFormat::IpAddress => "ip_address",
        FieldFormat::Uuid => "uuid",
        FieldFormat::Latin1 => "latin1",
        FieldFormat::Utf => "utf",
        FieldFormat::UtfBom => "utf_bom",
        FieldFormat::Xml => "xml",
        FieldFormat::Json => "json",
        FieldFormat::HexBytes => "hex_bytes",
    })
}

/// The type of a schema.
fn described(ty: &FieldType) -> Type {
    match *ty {
        FieldType::Array(element, layout) => {
            let (stored, count) = match layout {
                ArrayLayout::Counted => (None, None),
                ArrayLayout::Fixed(count) => (None, Some(count)),
                ArrayLayout::RelLoc => (Some("rel_loc".to_string()), None),
                ArrayLayout::DataLoc => (Some("data_loc".to_string()), None),
            };
            Type::Array(Box::new(described(element)), stored, count)
        }
        FieldType::Option(value) => Type::Option(Box::new(described(value))),
        FieldType::Object(fields) => {
            let field = |field: &FieldSchema| {
                Field::of_object(field.name, described(&field.ty), field.is_secret)
            };
            Type::Object(fields.iter().map(field).collect())
        }
        _ => Type::plain(ty.name()),
    }
}
