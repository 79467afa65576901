//! Values and labels in the few forms that outputs tell apart. A type of fields or a kind of labels
//! that is new in the reader gets its form here, and then all outputs show it.

use std::fmt;

use nettrace_event::guid::GuidText;
use nettrace_reader::{Decimal, Label, Value, WallTime};

use crate::model::{FileTime, Guid, Hex};

/// A value as outputs show it.
#[derive(Clone, Debug)]
pub enum Plain<'v> {
    /// True or false.
    Bool(bool),
    /// A number that could be negative.
    Signed(i64),
    /// A number that could not.
    Unsigned(u64),
    /// A float of 32 bits. Its shortest digits are fewer than those of the same number in 64 bits.
    Single(f32),
    /// A float of 64 bits.
    Double(f64),
    /// A text.
    Text(&'v str),
    /// A code unit that is a character.
    Char(char),
    /// A code unit that is none by itself.
    CodeUnit(u16),
    /// A time, in the form of RFC 3339.
    Time(Spelled<'v>),
    /// An id: a GUID, or hexadecimal digits.
    Id(Spelled<'v>),
    /// A number whose digits all count.
    Decimal(Spelled<'v>),
    /// Bytes.
    Bytes(&'v [u8]),
    /// The elements of an array.
    Array(&'v [Value<'v>]),
    /// The names and values of an object's fields.
    Object(&'v [(&'v str, Value<'v>)]),
    /// In words, what has no other form.
    Words(Spelled<'v>),
}

impl<'v> Plain<'v> {
    /// The form of a value.
    #[must_use]
    pub fn of(value: &'v Value<'v>) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::I8(value) => Self::Signed((*value).into()),
            Value::U8(value) => Self::Unsigned((*value).into()),
            Value::I16(value) => Self::Signed((*value).into()),
            Value::U16(value) => Self::Unsigned((*value).into()),
            Value::I32(value) => Self::Signed((*value).into()),
            Value::U32(value) => Self::Unsigned((*value).into()),
            Value::I64(value) => Self::Signed(*value),
            Value::U64(value) => Self::Unsigned(*value),
            Value::F32(value) => Self::Single(*value),
            Value::F64(value) => Self::Double(*value),
            Value::Text(text) => Self::Text(text),
            Value::Utf16CodeUnit(unit) => match char::from_u32((*unit).into()) {
                Some(c) => Self::Char(c),
                None => Self::CodeUnit(*unit),
            },
            Value::Utf8CodeUnit(unit) if unit.is_ascii() => Self::Char(char::from(*unit)),
            Value::Utf8CodeUnit(unit) => Self::CodeUnit((*unit).into()),
            Value::DateTime(time) => Self::Time(Spelled::WallTime(time)),
            Value::FileTime(units) => Self::Time(Spelled::FileTime(FileTime(*units))),
            Value::Guid(bytes) => Self::Id(Spelled::Guid(Guid(bytes))),
            Value::Decimal(number) => Self::Decimal(Spelled::Decimal(number)),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Array(values) => Self::Array(values),
            Value::Object(fields) => Self::Object(fields),
            Value::More(count) => Self::Words(Spelled::More(*count)),
            other => Self::Words(Spelled::Other(other)),
        }
    }

    /// The form of a label's value.
    #[must_use]
    pub fn of_label(label: &'v Label) -> Self {
        match label {
            Label::ActivityId(id) | Label::RelatedActivityId(id) => {
                Self::Id(Spelled::Activity(GuidText(id)))
            }
            Label::TraceId(id) => Self::Id(Spelled::Digits(Hex::of(id))),
            Label::SpanId(id) => Self::Id(Spelled::Digits(Hex::of(&id.to_be_bytes()))),
            Label::Str(_, text) => Self::Text(text),
            Label::Int(_, number) => Self::Signed(*number),
            Label::OpCode(value) | Label::Level(value) | Label::Version(value) => {
                Self::Unsigned((*value).into())
            }
            Label::Keywords(value) => Self::Unsigned(*value),
        }
    }
}

/// What is shown as a text that the trace does not have. `Display` writes it.
#[derive(Clone, Copy)]
pub enum Spelled<'v> {
    /// A GUID.
    Guid(Guid<'v>),
    /// The id of an activity.
    Activity(GuidText<'v>),
    /// Hexadecimal digits.
    Digits(Hex),
    /// A time in units of 100 ns.
    FileTime(FileTime),
    /// A time in eight parts.
    WallTime(&'v WallTime),
    /// A decimal number.
    Decimal(&'v Decimal),
    /// So many more elements of an array.
    More(usize),
    /// What this crate does not know.
    Other(&'v dyn fmt::Debug),
}

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => guid.fmt(f),
            Self::Activity(id) => id.fmt(f),
            Self::Digits(hex) => f.write_str(hex.text()),
            Self::FileTime(time) => time.fmt(f),
            Self::WallTime(time) => time.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::More(count) => write!(f, "… and {count} more elements of no bytes"),
            Self::Other(other) => other.fmt(f),
        }
    }
}

impl fmt::Debug for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a label.
#[must_use]
pub fn label_name(label: &Label) -> &str {
    match label {
        Label::ActivityId(_) => "ActivityId",
        Label::RelatedActivityId(_) => "RelatedActivityId",
        Label::TraceId(_) => "TraceId",
        Label::SpanId(_) => "SpanId",
        Label::Str(key, _) | Label::Int(key, _) => key,
        Label::OpCode(_) => "OpCode",
        Label::Keywords(_) => "Keywords",
        Label::Level(_) => "Level",
        Label::Version(_) => "Version",
    }
}

/// What a label is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It says to which span or trace the event belongs.
    Id,
    /// It replaces a property of the event's type.
    Property,
    /// It says something more.
    Detail,
}

impl Purpose {
    /// What a label is for.
    #[must_use]
    pub fn of(label: &Label) -> Self {
        match label {
            Label::ActivityId(_)
            | Label::RelatedActivityId(_)
            | Label::TraceId(_)
            | Label::SpanId(_) => Self::Id,
            Label::Str(..) | Label::Int(..) => Self::Detail,
            Label::OpCode(_) | Label::Keywords(_) | Label::Level(_) | Label::Version(_) => {
                Self::Property
            }
        }
    }
}
