//! Converts payloads from the types of version 6, in which events are recorded, to those of version
//! 4 or 5.

use alloc::vec::Vec;

use nettrace_event::{ArrayLayout, Storage, StrEncoding, guid};

use crate::{
    described::{EventDescription, FieldDescription},
    payload::{
        MAX_ELEMENTS, MAX_PAYLOAD, Refusal,
        walk::{self, Text, Value, Visitor},
    },
    v5::{Version, text::Notation},
};

/// Whether the payloads of a type have other bytes in `version` than in version 6. They must then
/// go through [`map_payload`].
///
/// ```
/// use nettrace_format::v5::{Version, needs_mapping};
/// # use nettrace_event::{EventSchema, FieldSchema, FieldType};
/// # static SALE: EventSchema = EventSchema {
/// #     fields: &[FieldSchema::new("cents", FieldType::VarUInt)],
/// #     ..nettrace_format::example::SALE
/// # };
///
/// // `SALE` has a field of the type `VarUInt`, which only version 6 has.
/// assert!(needs_mapping(Version::V5, &SALE));
/// ```
#[must_use]
pub fn needs_mapping(version: Version, schema: &impl EventDescription) -> bool {
    schema.fields().iter().any(|field| differs_in(version, field))
}

/// Appends the payload of an event in the layout of `version`. `payload` is as
/// [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it. Returns how many of its bytes the
/// fields take.
///
/// ```
/// use nettrace_format::v5::{Version, map_payload};
/// # use nettrace_event::{EventSchema, FieldSchema, FieldType};
/// # static SALE: EventSchema = EventSchema {
/// #     fields: &[FieldSchema::new("cents", FieldType::VarUInt)],
/// #     ..nettrace_format::example::SALE
/// # };
///
/// // `SALE` has a field of the type `VarUInt`, which becomes a `UInt64`.
/// let mut payload = Vec::new();
/// map_payload(Version::V5, &SALE, &[0xE2, 0x09], &mut payload)?;
/// assert_eq!(payload, 1_250_u64.to_le_bytes());
/// # Ok::<(), nettrace_format::payload::Refusal>(())
/// ```
///
/// # Errors
/// * [`Refusal::PayloadTooLarge`] if the result exceeds [`MAX_PAYLOAD`]. Varints and UTF-8 get
///   wider, and so do lists in version 4, which become text.
/// * [`Refusal::TooManyElements`] if a text or an array has more elements than can be counted.
/// * [`Refusal::Malformed`] if `payload` does not match `schema`.
///
/// An error leaves `out` unchanged.
pub fn map_payload(
    version: Version,
    schema: &impl EventDescription,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<usize, Refusal> {
    let start = out.len();
    let mut mapper = Mapper { version, start, has_nul: false, notation: None, out };
    let result = walk::walk(schema.fields(), payload, &mut mapper);
    let result = result.and_then(|used| mapper.check_size().map(|()| used));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn differs_in<F: FieldDescription>(version: Version, field: &F) -> bool {
    differs::<F>(version, field.ty())
}

fn differs<F: FieldDescription>(version: Version, ty: &F::Type) -> bool {
    let is_v4 = version == Version::V4;
    match F::storage(ty) {
        Storage::Bool8 | Storage::VarUInt | Storage::VarInt => true,
        Storage::Text(StrEncoding::Utf16Nul) => false,
        Storage::Text(StrEncoding::Utf16) => is_v4,
        Storage::Text(_) => true,
        Storage::Array(item, ArrayLayout::Counted) | Storage::Option(item) => {
            is_v4 || differs::<F>(version, item)
        }
        Storage::Array(..) => true,
        Storage::Object(fields) => fields.iter().any(|field| differs_in(version, field)),
        _ => false,
    }
}

/// Writes the values that the walk passes to it.
struct Mapper<'a> {
    version: Version,
    /// The start of the payload in `out`.
    start: usize,
    /// Whether the next value, if it is a text, ends with a NUL.
    has_nul: bool,
    /// Version 4: the list that is being written as text, if any.
    notation: Option<Notation>,
    out: &'a mut Vec<u8>,
}

impl Mapper<'_> {
    /// Notes the type of the next value.
    fn expect<F: FieldDescription>(&mut self, ty: &F::Type) {
        self.has_nul = matches!(F::storage(ty), Storage::Text(StrEncoding::Utf16Nul));
    }

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

    /// Writes a text as its field is described: with a count or a NUL.
    fn text(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        let terminated = self.version == Version::V4 || self.has_nul;
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

    /// Ends a list that is written as text.
    fn end_list(&mut self) {
        if let Some(notation) = &mut self.notation {
            if notation.end_list(self.out) {
                self.notation = None;
                self.put(&[0; 2]);
            }
        }
    }
}

impl<F: FieldDescription> Visitor<F> for Mapper<'_> {
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
            Value::U64(v) => self.put(&v.to_le_bytes()),
            Value::U128(v) => self.put(&v.to_le_bytes()),
            Value::I8(v) => self.put(&v.to_le_bytes()),
            Value::I16(v) => self.put(&v.to_le_bytes()),
            Value::I32(v) => self.put(&v.to_le_bytes()),
            Value::I64(v) | Value::FileTime(v) => {
                self.put(&v.to_le_bytes());
            }
            Value::I128(v) => self.put(&v.to_le_bytes()),
            Value::F32(v) => self.put(&v.to_le_bytes()),
            Value::F64(v) => self.put(&v.to_le_bytes()),
            Value::Guid(v) => self.put(&guid::swapped(&v)),
            Value::Text(v) => self.text(v)?,
        }
        self.check_size()
    }

    fn begin_field(&mut self, field: &F) -> Result<(), Refusal> {
        self.expect::<F>(field.ty());
        if let Some(notation) = &mut self.notation {
            notation.name(field.name(), self.out);
        }
        Ok(())
    }

    fn begin_array(&mut self, element: &F::Type, len: usize) -> Result<(), Refusal> {
        self.expect::<F>(element);
        match self.version {
            Version::V4 => {
                let notation = self.notation.get_or_insert_default();
                let is_of_units = matches!(F::storage(element), Storage::Utf16Unit);
                notation.begin_list(is_of_units, self.out);
                self.check_size()
            }
            Version::V5 => self.count(len),
        }
    }

    fn end_array(&mut self) -> Result<(), Refusal> {
        self.end_list();
        Ok(())
    }

    fn begin_option(&mut self, ty: &F::Type, present: bool) -> Result<(), Refusal> {
        self.expect::<F>(ty);
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

    fn begin_object(&mut self, _: &[F]) -> Result<(), Refusal> {
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

/// Appends a text as UTF-16. A NUL becomes U+FFFD, because readers show text only up to a NUL.
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
