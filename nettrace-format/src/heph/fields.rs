//! The fields of an event: first those with a role, then all others as attributes.

use alloc::{string::String, vec::Vec};

use trace_event::{FieldRole, FieldSchema, FieldType};

use crate::{
    error::FormatError,
    heph::{
        clock::Clock,
        event::Kept,
        packet::{self, code},
        spelling::{FILE_TIME_OF_1970, Json, finish_pair, join, plain, spelled},
    },
    payload::walk::{Value, Visitor},
};

/// A start or end, as a field gives it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    /// Nanoseconds since 1970-01-01 UTC.
    Unix(i128),
    /// Nanoseconds before or after something.
    Distance(u64),
}

impl Time {
    /// Nanoseconds since the epoch, and whether they are not what the field says. Distances are
    /// taken from `from`.
    pub(super) fn resolve(self, clock: &Clock, from: u64, before: bool) -> (u64, bool) {
        let time = match self {
            Self::Unix(nanos) => clock.since_epoch(nanos),
            Self::Distance(nanos) if before => from.checked_sub(nanos).ok_or(0),
            Self::Distance(nanos) => from.checked_add(nanos).ok_or(u64::MAX),
        };
        match time {
            Ok(time) => (time, false),
            Err(nearest) => (nearest, true),
        }
    }
}

/// Looks for the fields that are start, end and description.
#[derive(Debug)]
pub(super) struct Roles<'a> {
    pub(super) start: Option<Time>,
    pub(super) end: Option<Time>,
    /// Whether there is a description.
    pub(super) is_described: bool,
    description: &'a mut Vec<u8>,
    json: Json,
    /// The field of the event that is being told.
    field: Option<(FieldRole, &'static str)>,
    /// How many fields are open.
    depth: usize,
}

impl<'a> Roles<'a> {
    /// `description` is where a description is written.
    pub(super) fn new(description: &'a mut Vec<u8>) -> Self {
        Self {
            start: None,
            end: None,
            is_described: false,
            description,
            json: Json::default(),
            field: None,
            depth: 0,
        }
    }

    fn is_description(&self) -> bool {
        matches!(self.field, Some((FieldRole::Description, _)))
    }
}

impl Visitor for Roles<'_> {
    type Error = FormatError;

    fn begin_field(&mut self, field: &FieldSchema) -> Result<(), FormatError> {
        self.depth += 1;
        if self.depth == 1 {
            self.field = Some((field.role, field.name));
        } else if self.is_description() {
            self.json.key(field.name, self.description);
        }
        Ok(())
    }

    fn end_field(&mut self, _: &FieldSchema) -> Result<(), FormatError> {
        self.depth -= 1;
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), FormatError> {
        match self.field {
            Some((FieldRole::Start, name)) => self.start = Some(time(value, name)?),
            Some((FieldRole::End, name)) => self.end = Some(time(value, name)?),
            Some((FieldRole::Description, _)) => {
                self.is_described = true;
                match value {
                    Value::Text(text) if !self.json.is_open() => plain(text, self.description),
                    value => self.json.value(value, self.description),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_array(&mut self, _: &FieldType, _: usize) -> Result<(), FormatError> {
        if self.is_description() {
            self.is_described = true;
            self.json.open('[', self.description);
        }
        Ok(())
    }

    fn end_array(&mut self) -> Result<(), FormatError> {
        if self.is_description() {
            self.json.close(']', self.description);
        }
        Ok(())
    }

    fn begin_option(&mut self, _: &FieldType, present: bool) -> Result<(), FormatError> {
        if self.is_description() && self.json.is_open() && !present {
            self.json.null(self.description);
        }
        Ok(())
    }

    fn begin_object(&mut self, _: &[FieldSchema]) -> Result<(), FormatError> {
        if self.is_description() {
            self.is_described = true;
            self.json.open('{', self.description);
        }
        Ok(())
    }

    fn end_object(&mut self) -> Result<(), FormatError> {
        if self.is_description() {
            self.json.close('}', self.description);
        }
        Ok(())
    }
}

/// Writes fields as attributes.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: &'a mut String,
    kept: Kept,
    out: &'a mut Vec<u8>,
    json: Json,
    mode: Mode,
    depth: usize,
}

/// What is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Attributes: a value is one.
    Attributes,
    /// An array's elements, all of one type.
    Elements,
    /// The text that an array of code units is: where it begins, and the first half of a pair.
    Units { start: usize, high: Option<u16> },
    /// An array of strings, each the JSON of an element.
    Items,
    /// Such an element: where it begins, and how much in it is open.
    Item { start: usize, open: usize },
    /// A field that is in the packet already.
    Skip,
}

impl<'a> Fields<'a> {
    /// `path` is empty, and is used for names.
    pub(super) fn new(path: &'a mut String, kept: Kept, out: &'a mut Vec<u8>) -> Self {
        Self { path, kept, out, json: Json::default(), mode: Mode::Attributes, depth: 0 }
    }

    fn is_in_header(&self, role: FieldRole) -> bool {
        match role {
            FieldRole::Value => false,
            FieldRole::Start => !self.kept.start,
            FieldRole::End => !self.kept.end,
            FieldRole::Description => true,
        }
    }

    /// The start of an array's element which is no plain value, or of something within it.
    fn open(&mut self) {
        match &mut self.mode {
            Mode::Items => {
                self.json = Json::default();
                let start = packet::begin_string(self.out);
                self.mode = Mode::Item { start, open: 1 };
            }
            Mode::Item { open, .. } => *open += 1,
            _ => {}
        }
    }

    /// The end of what [`open`](Self::open) opened.
    fn close(&mut self) -> Result<(), FormatError> {
        if let Mode::Item { start, open } = &mut self.mode {
            *open -= 1;
            if *open == 0 {
                packet::end_string(*start, self.out)?;
                self.mode = Mode::Items;
            }
        }
        Ok(())
    }

    fn element(&mut self, value: Value<'_>) -> Result<(), FormatError> {
        let number = match value {
            Value::Bool(value) => u64::from(value),
            Value::U8(value) => value.into(),
            Value::U16(value) => value.into(),
            Value::U32(value) => value.into(),
            Value::U64(value) | Value::DurationNanos(value) => value,
            Value::I8(value) => i64::from(value) as u64,
            Value::I16(value) => i64::from(value) as u64,
            Value::I32(value) => i64::from(value) as u64,
            Value::I64(value) | Value::UnixNanos(value) => value as u64,
            Value::F32(value) => f64::from(value).to_bits(),
            Value::F64(value) => value.to_bits(),
            value => {
                let start = packet::begin_string(self.out);
                match value {
                    Value::Text(text) => plain(text, self.out),
                    value => spelled(value, self.out),
                }
                return packet::end_string(start, self.out);
            }
        };
        self.out.extend_from_slice(&number.to_be_bytes());
        Ok(())
    }
}

impl Visitor for Fields<'_> {
    type Error = FormatError;

    fn begin_field(&mut self, field: &FieldSchema) -> Result<(), FormatError> {
        self.depth += 1;
        match self.mode {
            Mode::Attributes if self.depth == 1 && self.is_in_header(field.role) => {
                self.mode = Mode::Skip;
            }
            Mode::Attributes => {
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(field.name);
            }
            Mode::Item { .. } => self.json.key(field.name, self.out),
            _ => {}
        }
        Ok(())
    }

    fn end_field(&mut self, field: &FieldSchema) -> Result<(), FormatError> {
        self.depth -= 1;
        match self.mode {
            Mode::Attributes => {
                let outer = self.path.len() - field.name.len();
                self.path.truncate(outer.saturating_sub(1));
            }
            Mode::Skip if self.depth == 0 => self.mode = Mode::Attributes,
            _ => {}
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), FormatError> {
        match &mut self.mode {
            Mode::Attributes => {
                packet::attribute_name(self.path, self.out)?;
                self.out.push(value_code(&value));
                self.element(value)
            }
            Mode::Elements => self.element(value),
            Mode::Units { high, .. } => {
                if let Value::Utf16Unit(unit) = value {
                    join(high, unit, self.out);
                }
                Ok(())
            }
            Mode::Item { .. } => {
                self.json.value(value, self.out);
                Ok(())
            }
            Mode::Items | Mode::Skip => Ok(()),
        }
    }

    fn begin_array(&mut self, element: &FieldType, len: usize) -> Result<(), FormatError> {
        match self.mode {
            Mode::Attributes => {
                packet::attribute_name(self.path, self.out)?;
                if matches!(element, FieldType::Utf16Unit) {
                    self.out.push(code::STRING);
                    let start = packet::begin_string(self.out);
                    self.mode = Mode::Units { start, high: None };
                    return Ok(());
                }
                let (element, mode) = match element_code(element) {
                    Some(element) => (element, Mode::Elements),
                    None => (code::STRING, Mode::Items),
                };
                packet::array(element, len, self.out)?;
                self.mode = mode;
            }
            Mode::Items | Mode::Item { .. } => {
                self.open();
                self.json.open('[', self.out);
            }
            _ => {}
        }
        Ok(())
    }

    fn end_array(&mut self) -> Result<(), FormatError> {
        match self.mode {
            Mode::Elements | Mode::Items => self.mode = Mode::Attributes,
            Mode::Units { start, high } => {
                finish_pair(high, self.out);
                packet::end_string(start, self.out)?;
                self.mode = Mode::Attributes;
            }
            Mode::Item { .. } => {
                self.json.close(']', self.out);
                self.close()?;
            }
            Mode::Attributes | Mode::Skip => {}
        }
        Ok(())
    }

    fn begin_option(&mut self, _: &FieldType, present: bool) -> Result<(), FormatError> {
        self.open();
        if matches!(self.mode, Mode::Item { .. }) && !present {
            self.json.null(self.out);
        }
        Ok(())
    }

    fn end_option(&mut self) -> Result<(), FormatError> {
        self.close()
    }

    fn begin_object(&mut self, _: &[FieldSchema]) -> Result<(), FormatError> {
        self.open();
        if matches!(self.mode, Mode::Item { .. }) {
            self.json.open('{', self.out);
        }
        Ok(())
    }

    fn end_object(&mut self) -> Result<(), FormatError> {
        if matches!(self.mode, Mode::Item { .. }) {
            self.json.close('}', self.out);
        }
        self.close()
    }
}

fn time(value: Value<'_>, field: &'static str) -> Result<Time, FormatError> {
    Ok(match value {
        Value::U8(value) => Time::Unix(value.into()),
        Value::U16(value) => Time::Unix(value.into()),
        Value::U32(value) => Time::Unix(value.into()),
        Value::U64(value) => Time::Unix(value.into()),
        Value::U128(value) => Time::Unix(i128::try_from(value).unwrap_or(i128::MAX)),
        Value::I8(value) => Time::Unix(value.into()),
        Value::I16(value) => Time::Unix(value.into()),
        Value::I32(value) => Time::Unix(value.into()),
        Value::I64(value) | Value::UnixNanos(value) => Time::Unix(value.into()),
        Value::I128(value) => Time::Unix(value),
        Value::FileTime(units) => {
            Time::Unix((i128::from(units) - i128::from(FILE_TIME_OF_1970)) * 100)
        }
        Value::DurationNanos(nanos) => Time::Distance(nanos),
        _ => return Err(FormatError::HephTime { field }),
    })
}

/// The type of the attribute that a field of a type becomes; `None` for what holds other values.
fn element_code(ty: &FieldType) -> Option<u8> {
    Some(match ty {
        FieldType::Bool
        | FieldType::Bool8
        | FieldType::U8
        | FieldType::U16
        | FieldType::U32
        | FieldType::U64
        | FieldType::VarUInt
        | FieldType::DurationNanos => code::U64,
        FieldType::I8
        | FieldType::I16
        | FieldType::I32
        | FieldType::I64
        | FieldType::VarInt
        | FieldType::UnixNanos => code::I64,
        FieldType::F32 | FieldType::F64 => code::F64,
        FieldType::U128
        | FieldType::I128
        | FieldType::Char
        | FieldType::Utf16Unit
        | FieldType::Str(_)
        | FieldType::Guid
        | FieldType::DateTime
        | FieldType::IpAddr
        | FieldType::SocketAddr => code::STRING,
        FieldType::Array(..) | FieldType::Object(_) | FieldType::Option(_) => return None,
    })
}

/// The same of a value.
fn value_code(value: &Value<'_>) -> u8 {
    match value {
        Value::Bool(_)
        | Value::U8(_)
        | Value::U16(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::DurationNanos(_) => code::U64,
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) | Value::UnixNanos(_) => {
            code::I64
        }
        Value::F32(_) | Value::F64(_) => code::F64,
        Value::U128(_)
        | Value::I128(_)
        | Value::Utf16Unit(_)
        | Value::Text(_)
        | Value::Guid(_)
        | Value::FileTime(_) => code::STRING,
    }
}
