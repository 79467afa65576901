//! Payloads: from the types of version 6, in which events are recorded, to those of a version.

use alloc::vec::Vec;

use trace_event::{ArrayLayout, EventSchema, FieldSchema, FieldType, StrEncoding};

use crate::{
    payload::{
        MAX_ELEMENTS, MAX_PAYLOAD, Refusal,
        walk::{self, Text, Value, Visitor},
    },
    primitive,
    v5::{Version, text::Notation},
};

/// Whether payloads of a type are other bytes in `version` than in version 6, so that they must go
/// through [`map_payload`].
#[must_use]
pub fn needs_mapping(version: Version, schema: &EventSchema) -> bool {
    schema.fields.iter().any(|field| differs(version, &field.ty))
}

/// Appends the payload of an event as `version` has it. `payload` is as
/// [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it.
///
/// # Errors
/// [`Refusal::PayloadTooLarge`] where the result exceeds [`MAX_PAYLOAD`] (what was compact becomes
/// wider: varints, UTF-8, and in version 4 lists, which become text),
/// [`Refusal::TooManyElements`] where text or an array has more elements than can be counted, and
/// [`Refusal::Malformed`] where `payload` is not one of `schema`. `out` is then as it was.
pub fn map_payload(
    version: Version,
    schema: &EventSchema,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let start = out.len();
    let mut mapper = Mapper { version, start, current: FieldType::U8, notation: None, out };
    let result = walk::walk(schema.fields, payload, &mut mapper);
    let result = result.and_then(|()| mapper.check_size());
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn differs(version: Version, ty: &FieldType) -> bool {
    let is_v4 = version == Version::V4;
    match *ty {
        FieldType::Bool8 | FieldType::VarUInt | FieldType::VarInt => true,
        FieldType::Str(StrEncoding::Utf16Nul) => false,
        FieldType::Char
        | FieldType::IpAddr
        | FieldType::SocketAddr
        | FieldType::Str(StrEncoding::Utf16) => is_v4,
        FieldType::Str(_) => true,
        FieldType::Array(item, ArrayLayout::Counted) | FieldType::Option(item) => {
            is_v4 || differs(version, item)
        }
        FieldType::Array(..) => true,
        FieldType::Object(fields) => fields.iter().any(|field| differs(version, &field.ty)),
        _ => false,
    }
}

/// Writes what the walk finds.
struct Mapper<'a> {
    version: Version,
    /// Where the payload begins in `out`.
    start: usize,
    /// The type of the next value, if it is one that holds no others.
    current: FieldType,
    /// Version 4: the list that is being written as text.
    notation: Option<Notation>,
    out: &'a mut Vec<u8>,
}

impl Mapper<'_> {
    fn check_size(&self) -> Result<(), Refusal> {
        if self.out.len() - self.start > MAX_PAYLOAD {
            return Err(Refusal::PayloadTooLarge);
        }
        Ok(())
    }

    fn count(&mut self, count: usize) -> Result<(), Refusal> {
        if count > MAX_ELEMENTS {
            return Err(Refusal::TooManyElements);
        }
        self.put(&(count as u16).to_le_bytes());
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Text as the field is described: counted, or up to a NUL.
    fn text(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        let terminated =
            self.version == Version::V4 || self.current == FieldType::Str(StrEncoding::Utf16Nul);
        let count_at = self.out.len();
        if !terminated {
            self.put(&[0; 2]);
        }
        let first = self.out.len();
        put_utf16(text, self.out);
        let units = (self.out.len() - first) / 2;
        if units > MAX_ELEMENTS {
            return Err(Refusal::TooManyElements);
        }
        if terminated {
            self.put(&[0; 2]);
        } else {
            self.out[count_at..first].copy_from_slice(&(units as u16).to_le_bytes());
        }
        Ok(())
    }

    /// Ends a list that was text.
    fn end_list(&mut self) {
        if let Some(notation) = &mut self.notation {
            if notation.end_list(self.out) {
                self.notation = None;
                self.put(&[0; 2]);
            }
        }
    }
}

impl Visitor for Mapper<'_> {
    type Error = Refusal;

    fn value(&mut self, value: Value<'_>) -> Result<(), Refusal> {
        if let Some(notation) = &mut self.notation {
            notation.value(value, self.out);
            return self.check_size();
        }
        match value {
            Value::Bool(v) => self.put(&u32::from(v).to_le_bytes()),
            Value::U8(v) => self.put(&[v]),
            Value::U16(v) | Value::Utf16Unit(v) => self.put(&v.to_le_bytes()),
            Value::U32(v) => self.put(&v.to_le_bytes()),
            Value::U64(v) | Value::DurationNanos(v) => self.put(&v.to_le_bytes()),
            Value::U128(v) => self.put(&v.to_le_bytes()),
            Value::I8(v) => self.put(&v.to_le_bytes()),
            Value::I16(v) => self.put(&v.to_le_bytes()),
            Value::I32(v) => self.put(&v.to_le_bytes()),
            Value::I64(v) | Value::UnixNanos(v) | Value::FileTime(v) => {
                self.put(&v.to_le_bytes());
            }
            Value::I128(v) => self.put(&v.to_le_bytes()),
            Value::F32(v) => self.put(&v.to_le_bytes()),
            Value::F64(v) => self.put(&v.to_le_bytes()),
            Value::Guid(v) => self.put(&primitive::guid(&v)),
            Value::Text(v) => self.text(v)?,
        }
        self.check_size()
    }

    fn begin_field(&mut self, field: &FieldSchema) -> Result<(), Refusal> {
        self.current = field.ty;
        if let Some(notation) = &mut self.notation {
            notation.name(field.name, self.out);
        }
        Ok(())
    }

    fn begin_array(&mut self, element: &FieldType, len: usize) -> Result<(), Refusal> {
        self.current = *element;
        match self.version {
            Version::V4 => {
                let notation = self.notation.get_or_insert_default();
                notation.begin_list(*element == FieldType::Utf16Unit, self.out);
                self.check_size()
            }
            Version::V5 => self.count(len),
        }
    }

    fn end_array(&mut self) -> Result<(), Refusal> {
        self.end_list();
        Ok(())
    }

    fn begin_option(&mut self, ty: &FieldType, present: bool) -> Result<(), Refusal> {
        self.current = *ty;
        match self.version {
            Version::V4 => {
                self.notation.get_or_insert_default().begin_list(false, self.out);
                self.check_size()
            }
            Version::V5 => self.count(present.into()),
        }
    }

    fn end_option(&mut self) -> Result<(), Refusal> {
        self.end_list();
        Ok(())
    }

    fn begin_object(&mut self, _: &[FieldSchema]) -> Result<(), Refusal> {
        if let Some(notation) = &mut self.notation {
            notation.begin_object(self.out);
        }
        self.check_size()
    }

    fn end_object(&mut self) -> Result<(), Refusal> {
        if let Some(notation) = &mut self.notation {
            notation.end_object(self.out);
        }
        Ok(())
    }
}

/// UTF-16 of a text. A NUL, up to which readers show it, becomes U+FFFD.
fn put_utf16(text: Text<'_>, out: &mut Vec<u8>) {
    let first = out.len();
    match text {
        Text::Utf16(bytes) => out.extend_from_slice(bytes),
        Text::Utf8(_) => {
            for c in text.chars() {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.extend_from_slice(&unit.to_le_bytes());
                }
            }
        }
    }
    for unit in out[first..].chunks_exact_mut(2) {
        if *unit == [0; 2] {
            unit.copy_from_slice(&0xFFFD_u16.to_le_bytes());
        }
    }
}
