//! Values and labels as text for people.

use std::fmt;

use nettrace_reader::{Label, Value};

use crate::model::{Meant, OneLine, Plain, Purpose, Stated, hex};

/// A value as text for people. Strings are quoted unless `bare`, as within a message.
#[derive(Debug)]
pub struct PlainValue<'v, 'a> {
    /// The value, as its type means it.
    pub value: Meant<'v, 'a>,
    /// Whether texts have no quotes.
    pub bare: bool,
}

/// A value as text for people, with quoted strings.
#[must_use]
pub fn quoted<'v, 'a>(value: &'v Value<'v>, stated: Stated<'a>) -> PlainValue<'v, 'a> {
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
pub struct PlainFloat(pub f64);

impl fmt::Display for PlainFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() { write!(f, "{:?}", self.0) } else { f.write_str(not_finite(self.0)) }
    }
}

/// Whether a label is one of the ids that say which span an event belongs to.
#[must_use]
pub fn is_id(label: &Label) -> bool {
    Purpose::of(label) == Purpose::Id
}

/// The value of a label as text for people.
#[derive(Debug)]
pub struct LabelValue<'a>(pub &'a Label);

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

/// The text for an infinite number, or for a value that is not a number. JSON has no number for it.
#[must_use]
pub fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}
