//! The fields and labels of an event, as JSON. `docs/json.md` of the command documents it.

use std::borrow::Cow;

use nettrace_reader::{Label, Value};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use crate::{
    model::{Meant, Plain, label_name, to_json},
    text::{Names, Payload, all_differ, not_finite},
};

/// Fields as a JSON object.
#[derive(Debug)]
pub struct JsonFields<'a>(pub &'a Payload<'a>);

impl Serialize for JsonFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Payload { fields, types, .. } = self.0;
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            let value = value.as_ref().map(|value| JsonValue(types.field(name).interpret(value)));
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

/// A value as JSON.
#[derive(Debug)]
pub struct JsonValue<'v, 'a>(pub Meant<'v, 'a>);

impl Serialize for JsonValue<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (value, stated) = match &self.0 {
            Meant::Nothing => return serializer.serialize_none(),
            Meant::Duration(duration) => return serializer.serialize_u128(duration.as_nanos()),
            Meant::Time(time) => return serializer.collect_str(time),
            Meant::Array(values, stated) => {
                let mut seq = serializer.serialize_seq(Some(values.len()))?;
                for value in *values {
                    seq.serialize_element(&JsonValue(stated.interpret_element(value)))?;
                }
                return seq.end();
            }
            Meant::Value(value, stated) => (&**value, stated),
        };
        match Plain::of(value) {
            Plain::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                let mut names = Names::default();
                let is_plain = all_differ(fields.iter().map(|(name, _)| *name));
                for (name, value) in fields {
                    let value = JsonValue(stated.member(name).interpret(value));
                    if is_plain {
                        map.serialize_entry(name, &value)?;
                    } else {
                        map.serialize_entry(&*names.unique(name), &value)?;
                    }
                }
                map.end()
            }
            plain => json(&plain, serializer),
        }
    }
}

/// A value that is no object as JSON.
fn json<S: Serializer>(value: &Plain<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Plain::Bool(value) => serializer.serialize_bool(*value),
        Plain::Signed(value) => serializer.serialize_i64(*value),
        Plain::Unsigned(value) => serializer.serialize_u64(*value),
        Plain::Single(value) if value.is_finite() => serializer.serialize_f32(*value),
        Plain::Single(value) => serializer.serialize_str(not_finite((*value).into())),
        Plain::Double(value) => JsonFloat(*value).serialize(serializer),
        Plain::Text(text) => serializer.serialize_str(text),
        Plain::Char(c) => serializer.serialize_char(*c),
        Plain::CodeUnit(unit) => serializer.serialize_u16(*unit),
        // A JSON number could lose digits of a decimal one.
        Plain::Time(text) | Plain::Id(text) | Plain::Decimal(text) | Plain::Words(text) => {
            serializer.collect_str(text)
        }
        Plain::Bytes(bytes) => serializer.collect_seq(*bytes),
        Plain::Array(_) | Plain::Object(_) => serializer.collect_str(&format_args!("{value:?}")),
    }
}

/// A 64-bit float as JSON: text if it is infinite or not a number.
#[derive(Debug)]
struct JsonFloat(f64);

impl Serialize for JsonFloat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(not_finite(self.0))
        }
    }
}

/// Labels as a JSON object, by their names.
#[derive(Debug)]
pub struct JsonLabels<'a>(pub &'a [Label]);

impl Serialize for JsonLabels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        let mut names = Names::default();
        for label in self.0 {
            map.serialize_entry(&*names.unique(label_name(label)), &JsonLabel(label))?;
        }
        map.end()
    }
}

struct JsonLabel<'a>(&'a Label);

impl Serialize for JsonLabel<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(&Plain::of_label(self.0), serializer)
    }
}

/// A value as one text, for columns of texts: a text as it is, all else as JSON writes it, without
/// the quotes of what JSON has no form of its own for. `None` for an option without a value.
#[must_use]
pub fn plain_text<'v>(value: Meant<'v, '_>) -> Option<Cow<'v, str>> {
    match value {
        Meant::Nothing => return None,
        Meant::Value(Cow::Borrowed(Value::Text(text)), _) => return Some(Cow::Borrowed(text)),
        _ => {}
    }
    let mut json = Vec::new();
    to_json(&mut json, &JsonValue(value)).ok()?;
    let text = match json.first() {
        Some(b'"') => serde_json::from_slice(&json).ok()?,
        _ => String::from_utf8(json).ok()?,
    };
    Some(Cow::Owned(text))
}
