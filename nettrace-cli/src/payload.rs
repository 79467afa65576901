//! The fields and labels of an event, as JSON and as text.
//!
//! `docs/json.md` documents the JSON of values.

use std::fmt;

use nettrace_reader::{Error, Event, Label, Type, Value};
use nettrace_views::model::{Meant, Plain, Purpose, RustTypes, Stated, hex, label_name, walk};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use crate::{
    event_type::EventType,
    spelling::{OneLine, not_finite},
    unique_names::{Names, all_differ},
};

/// The decoded fields of an event.
#[derive(Debug)]
pub(crate) struct Payload<'a> {
    /// Names, all different, and values. A value is `None` if the payload ends before the field, or
    /// after a field that cannot be decoded.
    pub(crate) fields: Vec<(&'a str, Option<Value<'a>>)>,
    /// The size of the payload.
    pub(crate) bytes: usize,
    /// Why a field could not be decoded.
    pub(crate) error: Option<Error>,
    pub(crate) types: &'a RustTypes,
}

impl<'a> Payload<'a> {
    pub(crate) fn of(event: &Event<'a>, ty: &'a EventType) -> Self {
        let types = &event.metadata().fields;
        let mut fields = Vec::with_capacity(types.len());
        let error = walk(event, |place, value| {
            fields.extend(ty.names.get(place).map(|name| (&**name, Some(value))));
        });
        let error = error.err();
        let absent = types.iter().zip(&ty.names).skip(fields.len());
        let shown = absent.filter(|(field, _)| error.is_some() || field.ty != Type::Rest);
        fields.extend(shown.map(|(_, name)| (&**name, None)));
        Self { fields, bytes: event.payload.len(), error, types: &ty.rust_types }
    }
}

/// Fields as a JSON object.
#[derive(Debug)]
pub(crate) struct JsonFields<'a>(pub(crate) &'a Payload<'a>);

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
pub(crate) struct JsonValue<'v, 'a>(pub(crate) Meant<'v, 'a>);

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
pub(crate) struct JsonFloat(pub(crate) f64);

impl Serialize for JsonFloat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(not_finite(self.0))
        }
    }
}

/// A value as text for people. Strings are quoted unless `bare`, as within a message.
#[derive(Debug)]
pub(crate) struct PlainValue<'v, 'a> {
    pub(crate) value: Meant<'v, 'a>,
    pub(crate) bare: bool,
}

/// A value as text for people, with quoted strings.
pub(crate) fn quoted<'v, 'a>(value: &'v Value<'v>, stated: Stated<'a>) -> PlainValue<'v, 'a> {
    PlainValue { value: stated.interpret(value), bare: false }
}

impl fmt::Display for PlainValue<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, stated) = match &self.value {
            Meant::Nothing => return f.write_str("none"),
            Meant::Duration(duration) => return write!(f, "{duration:?}"),
            Meant::Time(time) => return time.fmt(f),
            Meant::Array(values, stated) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    let value = PlainValue { value: stated.interpret_element(value), bare: false };
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                return f.write_str("]");
            }
            Meant::Value(value, stated) => (&**value, stated),
        };
        match Plain::of(value) {
            Plain::Bool(value) => value.fmt(f),
            Plain::Signed(value) => value.fmt(f),
            Plain::Unsigned(value) => value.fmt(f),
            Plain::Single(value) if value.is_finite() => write!(f, "{value:?}"),
            Plain::Single(value) => f.write_str(not_finite(value.into())),
            Plain::Double(value) => PlainFloat(value).fmt(f),
            Plain::Text(text) if self.bare => f.write_str(text),
            Plain::Text(text) => write!(f, "{text:?}"),
            Plain::Char(c) if self.bare => write!(f, "{c}"),
            Plain::Char(c) => write!(f, "{c:?}"),
            Plain::CodeUnit(unit) if matches!(value, Value::Utf8CodeUnit(_)) => {
                write!(f, "{unit:#04x}")
            }
            Plain::CodeUnit(unit) => write!(f, "{unit:#06x}"),
            Plain::Time(text) | Plain::Id(text) | Plain::Decimal(text) | Plain::Words(text) => {
                text.fmt(f)
            }
            Plain::Bytes(bytes) => write!(f, "0x{}", hex(bytes)),
            Plain::Object(fields) => {
                f.write_str("(")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let space = if i > 0 { " " } else { "" };
                    let value = quoted(value, stated.member(name));
                    write!(f, "{space}{}={value}", OneLine(name))?;
                }
                f.write_str(")")
            }
            Plain::Array(values) => write!(f, "{values:?}"),
        }
    }
}

/// A 64-bit float as text: the shortest digits that parse to the same number.
#[derive(Debug)]
pub(crate) struct PlainFloat(pub(crate) f64);

impl fmt::Display for PlainFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() { write!(f, "{:?}", self.0) } else { f.write_str(not_finite(self.0)) }
    }
}

/// Labels as a JSON object, by their names.
#[derive(Debug)]
pub(crate) struct JsonLabels<'a>(pub(crate) &'a [Label]);

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

/// Whether a label is one of the ids that say which span an event belongs to.
pub(crate) fn is_id(label: &Label) -> bool {
    Purpose::of(label) == Purpose::Id
}

/// The value of a label as text for people.
#[derive(Debug)]
pub(crate) struct LabelValue<'a>(pub(crate) &'a Label);

impl fmt::Display for LabelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Plain::of_label(self.0) {
            Plain::Unsigned(keywords) if matches!(self.0, Label::Keywords(_)) => {
                write!(f, "{keywords:#x}")
            }
            Plain::Unsigned(value) => value.fmt(f),
            Plain::Signed(number) => number.fmt(f),
            Plain::Text(text) => write!(f, "{text:?}"),
            Plain::Id(text) | Plain::Words(text) => text.fmt(f),
            other => write!(f, "{other:?}"),
        }
    }
}
