//! The fields and labels of an event, as JSON and as text.
//!
//! `docs/json.md` documents the JSON of values.

use std::fmt;

use nettrace_reader::{Error, Event, Label, Type, Value};
use nettrace_views::model::{Guid, Hex, Meant, RustTypes, Stated, hex, walk};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use crate::{
    event_types::EventType,
    spelling::{FileTime, OneLine, not_finite},
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
        match value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I8(value) => serializer.serialize_i8(*value),
            Value::U8(value) => serializer.serialize_u8(*value),
            Value::I16(value) => serializer.serialize_i16(*value),
            Value::U16(value) => serializer.serialize_u16(*value),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::U32(value) => serializer.serialize_u32(*value),
            Value::I64(value) => serializer.serialize_i64(*value),
            Value::U64(value) => serializer.serialize_u64(*value),
            Value::F32(value) if value.is_finite() => serializer.serialize_f32(*value),
            Value::F32(value) => serializer.serialize_str(not_finite((*value).into())),
            Value::F64(value) => JsonFloat(*value).serialize(serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Utf16CodeUnit(unit) => match char::from_u32((*unit).into()) {
                Some(c) => serializer.serialize_char(c),
                None => serializer.serialize_u16(*unit),
            },
            Value::Utf8CodeUnit(unit) if unit.is_ascii() => {
                serializer.serialize_char(char::from(*unit))
            }
            Value::Utf8CodeUnit(unit) => serializer.serialize_u8(*unit),
            Value::DateTime(time) => serializer.collect_str(time),
            Value::FileTime(units) => serializer.collect_str(&FileTime(*units)),
            Value::Guid(bytes) => serializer.collect_str(&Guid(bytes)),
            // A JSON number could lose digits.
            Value::Decimal(number) => serializer.collect_str(number),
            Value::Bytes(bytes) => serializer.collect_seq(*bytes),
            Value::More(count) => serializer.collect_str(&More(*count)),
            Value::Object(fields) => {
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
            // A kind of value that this program does not know.
            other => serializer.collect_str(&format_args!("{other:?}")),
        }
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
        match value {
            Value::Bool(value) => value.fmt(f),
            Value::I8(value) => value.fmt(f),
            Value::U8(value) => value.fmt(f),
            Value::I16(value) => value.fmt(f),
            Value::U16(value) => value.fmt(f),
            Value::I32(value) => value.fmt(f),
            Value::U32(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F32(value) if value.is_finite() => write!(f, "{value:?}"),
            Value::F32(value) => f.write_str(not_finite((*value).into())),
            Value::F64(value) => PlainFloat(*value).fmt(f),
            Value::Text(text) if self.bare => f.write_str(text),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Utf16CodeUnit(unit) => match char::from_u32((*unit).into()) {
                Some(c) if self.bare => write!(f, "{c}"),
                Some(c) => write!(f, "{c:?}"),
                None => write!(f, "{unit:#06x}"),
            },
            Value::Utf8CodeUnit(unit) if unit.is_ascii() && self.bare => {
                write!(f, "{}", char::from(*unit))
            }
            Value::Utf8CodeUnit(unit) if unit.is_ascii() => write!(f, "{:?}", char::from(*unit)),
            Value::Utf8CodeUnit(unit) => write!(f, "{unit:#04x}"),
            Value::DateTime(time) => time.fmt(f),
            Value::FileTime(units) => FileTime(*units).fmt(f),
            Value::Guid(bytes) => Guid(bytes).fmt(f),
            Value::Decimal(number) => number.fmt(f),
            Value::Bytes(bytes) => write!(f, "0x{}", hex(bytes)),
            Value::More(count) => More(*count).fmt(f),
            Value::Object(fields) => {
                f.write_str("(")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let space = if i > 0 { " " } else { "" };
                    let value = quoted(value, stated.member(name));
                    write!(f, "{space}{}={value}", OneLine(name))?;
                }
                f.write_str(")")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// So many more elements of an array.
struct More(usize);

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… and {} more elements of no bytes", self.0)
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

/// Labels as a JSON object, with the names of [`label_name`].
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
        match self.0 {
            Label::Text(_, text) => serializer.serialize_str(text),
            Label::Number(_, number) => serializer.serialize_i64(*number),
            Label::OpCode(value) | Label::Level(value) | Label::Version(value) => {
                serializer.serialize_u8(*value)
            }
            Label::Keywords(value) => serializer.serialize_u64(*value),
            label => serializer.collect_str(&LabelValue(label)),
        }
    }
}

/// The name of a label: in text, in JSON, and in filters.
pub(crate) fn label_name(label: &Label) -> &str {
    match label {
        Label::ActivityId(_) => "ActivityId",
        Label::RelatedActivityId(_) => "RelatedActivityId",
        Label::TraceId(_) => "TraceId",
        Label::SpanId(_) => "SpanId",
        Label::Text(key, _) | Label::Number(key, _) => key,
        Label::OpCode(_) => "OpCode",
        Label::Keywords(_) => "Keywords",
        Label::Level(_) => "Level",
        Label::Version(_) => "Version",
        _ => "label",
    }
}

/// Whether a label is one of the ids that say which span an event belongs to.
pub(crate) fn is_id(label: &Label) -> bool {
    use Label::{ActivityId, RelatedActivityId, SpanId, TraceId};
    matches!(label, ActivityId(_) | RelatedActivityId(_) | TraceId(_) | SpanId(_))
}

/// The value of a label.
#[derive(Debug)]
pub(crate) struct LabelValue<'a>(pub(crate) &'a Label);

impl fmt::Display for LabelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Label::ActivityId(id) | Label::RelatedActivityId(id) => Guid(id).fmt(f),
            Label::TraceId(id) => f.write_str(Hex::of(id).text()),
            Label::SpanId(id) => f.write_str(Hex::of(&id.to_be_bytes()).text()),
            Label::Text(_, text) => write!(f, "{text:?}"),
            Label::Number(_, number) => number.fmt(f),
            Label::OpCode(value) | Label::Level(value) | Label::Version(value) => value.fmt(f),
            Label::Keywords(value) => write!(f, "{value:#x}"),
            // A kind of label that this program does not know.
            other => write!(f, "{other:?}"),
        }
    }
}
