//! The event types of a trace, as it describes them.

use nettrace_event::{
    guid,
    lock::{Catalogue, Event, Field, Type},
};
use nettrace_reader::{self as reader, Metadata};

/// The types, as far as they have a name.
pub(super) fn catalogue(types: &[Metadata]) -> Catalogue {
    Catalogue::new(types.iter().map(event).collect())
}

fn event(metadata: &Metadata) -> Event {
    let mut keys = metadata.key_values.clone();
    let module = keys.iter().find(|(key, _)| key == "module").map(|(_, module)| module.clone());
    keys.retain(|(key, _)| !matches!(key.as_str(), "module" | "file" | "line"));
    Event {
        provider: metadata.provider.clone(),
        name: metadata.name.clone(),
        version: metadata.version.into(),
        module: module.unwrap_or_default(),
        id: metadata.event_id,
        guid: metadata.provider_guid.map(|guid| guid::swapped(&guid)),
        level: metadata.level,
        keywords: metadata.keywords,
        opcode: metadata.opcode,
        message: metadata.message_template.clone(),
        meaning: metadata.description.clone(),
        keys,
        fields: fields(&metadata.fields),
        ..Event::default()
    }
}

fn fields(fields: &[reader::Field]) -> Vec<Field> {
    let field = |field: &reader::Field| Field::new(field.name.clone(), ty(&field.ty));
    fields.iter().map(field).collect()
}

fn ty(of: &reader::Type) -> Type {
    let array = |element: &reader::Type, stored: Option<&str>, count: Option<u16>| {
        let word = stored.map(str::to_owned);
        let text = |unit: &str| match stored {
            Some(stored) => Type::Plain(format!("{unit}_{stored} text")),
            None if unit == "utf16" => Type::plain("text"),
            None => Type::Plain(format!("{unit} text")),
        };
        match element {
            reader::Type::Utf16CodeUnit if count.is_none() => text("utf16"),
            reader::Type::Utf8CodeUnit if count.is_none() => text("utf8"),
            element => Type::Array(Box::new(ty(element)), word, count),
        }
    };
    Type::plain(match of {
        reader::Type::Object(inner) => return Type::Object(fields(inner)),
        reader::Type::Array(element) | reader::Type::CountedArray(element, _) => {
            return array(element, None, None);
        }
        reader::Type::FixedArray(element, count) => return array(element, None, Some(*count)),
        reader::Type::RelLoc(element) => return array(element, Some("rel_loc"), None),
        reader::Type::DataLoc(element) => return array(element, Some("data_loc"), None),
        reader::Type::Boolean => "bool",
        reader::Type::Boolean8 => "bool8",
        reader::Type::Utf16CodeUnit => "utf16_unit",
        reader::Type::Utf8CodeUnit => "utf8_unit",
        reader::Type::Int8 => "i8",
        reader::Type::UInt8 => "u8",
        reader::Type::Int16 => "i16",
        reader::Type::UInt16 => "u16",
        reader::Type::Int32 => "i32",
        reader::Type::UInt32 => "u32",
        reader::Type::Int64 => "i64",
        reader::Type::UInt64 => "u64",
        reader::Type::Single => "f32",
        reader::Type::Double => "f64",
        reader::Type::Decimal => "decimal",
        reader::Type::DateTime => "date_time",
        reader::Type::Guid => "guid",
        reader::Type::Utf16String => "utf16_nul text",
        reader::Type::Utf8String => "utf8_nul text",
        reader::Type::VarInt => "var_int",
        reader::Type::VarUInt => "var_uint",
        reader::Type::Rest => "rest",
        reader::Type::Unknown(code) => return Type::Plain(format!("unknown-{code}")),
        reader::Type::Deep => "too-deep",
        _ => "damaged",
    })
}
