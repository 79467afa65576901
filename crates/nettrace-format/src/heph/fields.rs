//! Writes the fields of an event: fields with a role go into the packet's header, all others become
//! attributes.

use alloc::{string::String, vec::Vec};

use nettrace_event::{FieldRole, Storage, calendar};

use crate::{
    described::FieldDescription,
    error::FormatError,
    heph::{
        clock::Clock,
        packet::{self, code},
        spelling::{Json, finish_pair, join, plain, spelled},
    },
    payload::walk::{Value, Visitor},
};

/// A start or end time, as its field states it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    /// Nanoseconds since 1970-01-01 UTC.
    Unix(i128),
    /// Nanoseconds before or after a reference time.
    Distance(u64),
}

impl Time {
    /// Returns the time in nanoseconds since the epoch, and whether it had to be changed to fit. A
    /// distance is counted from `from`, backwards if `before` is set.
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

/// Finds the values of the fields with the roles start, end and description.
#[derive(Debug)]
pub(super) struct Roles<'a> {
    pub(super) start: Option<Time>,
    pub(super) end: Option<Time>,
    /// Whether a description was found.
    pub(super) is_described: bool,
    description: &'a mut Vec<u8>,
    json: Json,
    /// The top-level field that the walk is in.
    field: Option<(FieldRole, &'static str)>,
    /// Whether that field is a duration.
    is_distance: bool,
    /// The number of open fields.
    depth: usize,
}

impl<'a> Roles<'a> {
    /// Writes the description, if there is one, to `description`.
    pub(super) fn new(description: &'a mut Vec<u8>) -> Self {
        Self {
            start: None,
            end: None,
            is_described: false,
            description,
            json: Json::default(),
            field: None,
            is_distance: false,
            depth: 0,
        }
    }

    fn time(&self, value: Value<'_>, field: &'static str) -> Result<Time, FormatError> {
        match value {
            Value::U64(nanos) if self.is_distance => Ok(Time::Distance(nanos)),
            value => time(value, field),
        }
    }

    fn is_description(&self) -> bool {
        matches!(self.field, Some((FieldRole::Description, _)))
    }
}

impl<F: FieldDescription> Visitor<F> for Roles<'_> {
    type Error = FormatError;

    fn begin_field(&mut self, field: &F) -> Result<(), FormatError> {
        self.depth += 1;
        if self.depth == 1 {
            self.field = Some((field.role(), field.static_name()));
            self.is_distance = is_distance(field);
        } else if self.is_description() {
            self.json.key(field.name(), self.description);
        }
        Ok(())
    }

    fn end_field(&mut self, _: &F) -> Result<(), FormatError> {
        self.depth -= 1;
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), FormatError> {
        match self.field {
            Some((FieldRole::Start, name)) => self.start = Some(self.time(value, name)?),
            Some((FieldRole::End, name)) => self.end = Some(self.time(value, name)?),
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

    fn begin_array(&mut self, _: &F::Type, _: usize) -> Result<(), FormatError> {
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

    fn begin_option(&mut self, _: &F::Type, present: bool) -> Result<(), FormatError> {
        if self.is_description() && self.json.is_open() && !present {
            self.json.null(self.description);
        }
        Ok(())
    }

    fn begin_object(&mut self, _: &[F]) -> Result<(), FormatError> {
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

/// Which of the fields with the roles start and end are also written as attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeAttributes {
    pub(super) start: bool,
    pub(super) end: bool,
}

/// Writes fields as attributes.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: &'a mut String,
    kept: TimeAttributes,
    out: &'a mut Vec<u8>,
    json: Json,
    mode: Mode,
    depth: usize,
}

/// What the next value becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// An attribute of its own.
    Attributes,
    /// An element of an array whose elements all have one type.
    Elements,
    /// A code unit of a text: where the text begins, and the first half of a surrogate pair.
    Units { start: usize, high: Option<u16> },
    /// An element of an array of strings, to be written as JSON.
    Items,
    /// A part of such an element: where the element begins, and how many levels in it are open.
    Item { start: usize, open: usize },
    /// Nothing: the packet contains the field already.
    Skip,
}

impl<'a> Fields<'a> {
    /// `path` must be empty. It holds the name of the current attribute.
    pub(super) fn new(path: &'a mut String, kept: TimeAttributes, out: &'a mut Vec<u8>) -> Self {
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

    /// Opens an element that is not a plain value, or a part of such an element.
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

    /// Closes what [`open`](Self::open) opened.
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
            Value::U64(value) => value,
            Value::I8(value) => i64::from(value) as u64,
            Value::I16(value) => i64::from(value) as u64,
            Value::I32(value) => i64::from(value) as u64,
            Value::I64(value) => value as u64,
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

impl<F: FieldDescription> Visitor<F> for Fields<'_> {
    type Error = FormatError;

    fn begin_field(&mut self, field: &F) -> Result<(), FormatError> {
        self.depth += 1;
        match self.mode {
            Mode::Attributes if self.depth == 1 && self.is_in_header(field.role()) => {
                self.mode = Mode::Skip;
            }
            Mode::Attributes => {
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(field.name());
            }
            Mode::Item { .. } => self.json.key(field.name(), self.out),
            _ => {}
        }
        Ok(())
    }

    fn end_field(&mut self, field: &F) -> Result<(), FormatError> {
        self.depth -= 1;
        match self.mode {
            Mode::Attributes => {
                let outer = self.path.len() - field.name().len();
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

    fn begin_array(&mut self, element: &F::Type, len: usize) -> Result<(), FormatError> {
        match self.mode {
            Mode::Attributes => {
                packet::attribute_name(self.path, self.out)?;
                if matches!(F::storage(element), Storage::Utf16Unit) {
                    self.out.push(code::STRING);
                    let start = packet::begin_string(self.out);
                    self.mode = Mode::Units { start, high: None };
                    return Ok(());
                }
                let (element, mode) = match element_code::<F>(element) {
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

    fn begin_option(&mut self, _: &F::Type, present: bool) -> Result<(), FormatError> {
        self.open();
        if matches!(self.mode, Mode::Item { .. }) && !present {
            self.json.null(self.out);
        }
        Ok(())
    }

    fn end_option(&mut self) -> Result<(), FormatError> {
        self.close()
    }

    fn begin_object(&mut self, _: &[F]) -> Result<(), FormatError> {
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

fn is_distance<F: FieldDescription>(field: &F) -> bool {
    let mut ty = field.ty();
    while let Storage::Option(inner) = F::storage(ty) {
        ty = inner;
    }
    F::is_duration(ty)
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
        Value::I64(value) => Time::Unix(value.into()),
        Value::I128(value) => Time::Unix(value),
        Value::FileTime(units) => Time::Unix(calendar::unix_nanos_of_file_time(units.into())),
        _ => return Err(FormatError::HephTime { field }),
    })
}

/// The attribute type for a field of type `ty`; `None` for types that hold other values.
fn element_code<F: FieldDescription>(ty: &F::Type) -> Option<u8> {
    Some(match F::storage(ty) {
        Storage::Bool
        | Storage::Bool8
        | Storage::U8
        | Storage::U16
        | Storage::U32
        | Storage::U64
        | Storage::VarUInt => code::U64,
        Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64 | Storage::VarInt => code::I64,
        Storage::F32 | Storage::F64 => code::F64,
        Storage::U128
        | Storage::I128
        | Storage::Utf16Unit
        | Storage::Text(_)
        | Storage::Guid
        | Storage::DateTime => code::STRING,
        Storage::Array(..) | Storage::Object(_) | Storage::Option(_) => return None,
    })
}

/// The attribute type for a value.
fn value_code(value: &Value<'_>) -> u8 {
    match value {
        Value::Bool(_) | Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => code::U64,
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => code::I64,
        Value::F32(_) | Value::F64(_) => code::F64,
        Value::U128(_)
        | Value::I128(_)
        | Value::Utf16Unit(_)
        | Value::Text(_)
        | Value::Guid(_)
        | Value::FileTime(_) => code::STRING,
    }
}
