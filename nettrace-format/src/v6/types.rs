//! How field types are described and encoded in version 6.
//!
//! | [`FieldType`] | type codes | payload |
//! |---|---|---|
//! | `Bool` | Boolean (3) | 4 bytes, 0 or 1 |
//! | `Bool8` | Boolean8 (26) | 1 byte, 0 or 1 |
//! | `U8` … `U64` | Byte (6), UInt16 (8), UInt32 (10), UInt64 (12) | 1, 2, 4, 8 bytes |
//! | `I8` … `I64` | SByte (5), Int16 (7), Int32 (9), Int64 (11) | 1, 2, 4, 8 bytes |
//! | `U128`, `I128` | Object (1) of `low` UInt64, `high` UInt64 or Int64 | 16 bytes |
//! | `F32`, `F64` | Single (13), Double (14) | 4, 8 bytes |
//! | `VarUInt`, `VarInt` | VarUInt (21), VarInt (20) | LEB128, zig-zag if signed: 1 to 10 bytes |
//! | `Char` | Array (19) of UTF16CodeUnit (4) | u16 1 or 2, then the units |
//! | `Utf16Unit` | UTF16CodeUnit (4) | 2 bytes |
//! | `Str(Utf16)` | Array of UTF16CodeUnit | u16 count of units, then the units |
//! | `IpAddr`, `SocketAddr` | as `Str(Utf16)` | as `Str(Utf16)` |
//! | `Str(Utf16Nul)` | NullTerminatedUTF16String (18) | units, then 2 bytes of 0 |
//! | `Str(Utf8)` | Array of UTF8CodeUnit (23) | u16 count of bytes, then the bytes |
//! | `Str(Utf16RelLoc)`, `Str(Utf8RelLoc)` | RelLoc (24) of UTF16- or UTF8CodeUnit | see below |
//! | `Str(Utf16DataLoc)`, `Str(Utf8DataLoc)` | DataLoc (25) of UTF16- or UTF8CodeUnit | see below |
//! | `Guid` | Guid (17) | 16 bytes, first three numbers little endian |
//! | `DateTime` | DateTime (16) | 8 bytes: 100 ns since 1601-01-01 UTC |
//! | `UnixNanos`, `DurationNanos` | Int64, UInt64 | 8 bytes |
//! | `Array(T, Counted)` | Array of T | u16 count, then the elements |
//! | `Array(T, Fixed(n))` | FixedLengthArray (22) of T, n | the elements |
//! | `Array(T, RelLoc)`, `Array(T, DataLoc)` | RelLoc or DataLoc of T | see below |
//! | `Object` | Object (1) | the fields, one after the other |
//! | `Option(T)` | Array of T | u16 0, or u16 1 and the value |
//!
//! Readers fail on arrays of arrays, except arrays of code units. So an element that is an array or
//! an option is described as an Object with a single field, named `items` (in an array) or `value`
//! (in an option). This changes the description only, not the payload.
//!
//! A location is 4 bytes: the position in the low 16 bits, the size in bytes in the high 16. Its
//! data comes after all fields. RelLoc counts the position from the end of its own 4 bytes, DataLoc
//! from the payload's start.
//!
//! # What readers do
//!
//! Seen with the reference reader 4.0.0 and 3.1.23 alike, unless noted:
//!
//! * DateTime is 8 bytes. The specification says 16, in eight parts; written that way, every field
//!   after it would be read from the wrong place.
//! * Text of any type is shown up to its first NUL. So UTF-16 never contains one: it becomes
//!   U+FFFD. UTF-8 is written unchanged (and shown as Latin-1).
//! * An array of `Utf16Unit` is shown as text.
//! * A FixedLengthArray of 65,515 bytes or more makes readers refuse the file. No payload can be
//!   that large ([`MAX_PAYLOAD`]).
//! * 3.1.23 reads counts and sizes of locations beyond 32,767 as negative.
//! * Objects without fields are shown if they are fields of the event. Nested, they break the
//!   values around them (in arrays with 4.0.0, at the end of an object with both).
//! * 3.1.23 refuses Boolean8, and with it the file.
//! * Locations also work inside objects and as elements of arrays.

use alloc::vec::Vec;

use nettrace_event::{ArrayLayout, FieldSchema, FieldType, Storage, StrEncoding};

use crate::{error::FormatError, payload::MAX_PAYLOAD, primitive};

/// Appends FieldDescriptions: a count, then name and type of each field.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType};
/// use nettrace_format::types::field_descriptions;
///
/// let mut out = Vec::new();
/// field_descriptions(&[FieldSchema::new("cents", FieldType::U32)], &mut out)?;
/// // A count of 2 bytes comes first.
/// assert_eq!(out[..2], [1, 0]);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::TooManyFields`], [`FormatError::FieldDescriptionTooLarge`], and for types that
/// readers cannot handle [`FormatError::LocationOfVariableSize`], [`FormatError::EmptyObject`],
/// [`FormatError::EmptyFixedArray`] or [`FormatError::FixedArrayTooLarge`]. An error leaves `out`
/// unchanged.
pub fn field_descriptions(fields: &[FieldSchema], out: &mut Vec<u8>) -> Result<(), FormatError> {
    let start = out.len();
    let result = descriptions(fields, false, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// The type codes of version 6.
mod code {
    pub(super) const OBJECT: u8 = 1;
    pub(super) const BOOLEAN: u8 = 3;
    pub(super) const UTF16_CODE_UNIT: u8 = 4;
    pub(super) const SBYTE: u8 = 5;
    pub(super) const BYTE: u8 = 6;
    pub(super) const INT16: u8 = 7;
    pub(super) const UINT16: u8 = 8;
    pub(super) const INT32: u8 = 9;
    pub(super) const UINT32: u8 = 10;
    pub(super) const INT64: u8 = 11;
    pub(super) const UINT64: u8 = 12;
    pub(super) const SINGLE: u8 = 13;
    pub(super) const DOUBLE: u8 = 14;
    pub(super) const DATE_TIME: u8 = 16;
    pub(super) const GUID: u8 = 17;
    pub(super) const NUL_TERMINATED_UTF16_STRING: u8 = 18;
    pub(super) const ARRAY: u8 = 19;
    pub(super) const VAR_INT: u8 = 20;
    pub(super) const VAR_UINT: u8 = 21;
    pub(super) const FIXED_LENGTH_ARRAY: u8 = 22;
    pub(super) const UTF8_CODE_UNIT: u8 = 23;
    pub(super) const REL_LOC: u8 = 24;
    pub(super) const DATA_LOC: u8 = 25;
    pub(super) const BOOLEAN8: u8 = 26;
}

/// The fields of 128-bit integers.
const U128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::U64)];
const I128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::I64)];

const fn part(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema::new(name, ty)
}

fn descriptions(
    fields: &[FieldSchema],
    nested: bool,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let count = u16::try_from(fields.len())
        .map_err(|_| FormatError::TooManyFields { count: fields.len() })?;
    out.extend_from_slice(&count.to_le_bytes());
    for field in fields {
        description(field.name, out, |out| ty(field.name, &field.ty, nested, out))?;
    }
    Ok(())
}

/// Appends one field: the size of the rest, its name, its type.
fn description(
    name: &'static str,
    out: &mut Vec<u8>,
    ty: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    primitive::string(name, out);
    ty(out)?;
    let size = out.len() - start - 2;
    let field_size = u16::try_from(size)
        .map_err(|_| FormatError::FieldDescriptionTooLarge { field: name, size })?;
    out[start..start + 2].copy_from_slice(&field_size.to_le_bytes());
    Ok(())
}

fn ty(
    field: &'static str,
    of: &FieldType,
    nested: bool,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    match of.storage() {
        Storage::Bool => out.push(code::BOOLEAN),
        Storage::Bool8 => out.push(code::BOOLEAN8),
        Storage::U8 => out.push(code::BYTE),
        Storage::U16 => out.push(code::UINT16),
        Storage::U32 => out.push(code::UINT32),
        Storage::U64 => out.push(code::UINT64),
        Storage::I8 => out.push(code::SBYTE),
        Storage::I16 => out.push(code::INT16),
        Storage::I32 => out.push(code::INT32),
        Storage::I64 => out.push(code::INT64),
        Storage::F32 => out.push(code::SINGLE),
        Storage::F64 => out.push(code::DOUBLE),
        Storage::VarUInt => out.push(code::VAR_UINT),
        Storage::VarInt => out.push(code::VAR_INT),
        Storage::Utf16Unit => out.push(code::UTF16_CODE_UNIT),
        Storage::Guid => out.push(code::GUID),
        Storage::DateTime => out.push(code::DATE_TIME),
        Storage::U128 => object(U128_PARTS, out)?,
        Storage::I128 => object(I128_PARTS, out)?,
        Storage::Text(encoding) => {
            out.extend_from_slice(match encoding {
                StrEncoding::Utf16 => &[code::ARRAY, code::UTF16_CODE_UNIT],
                StrEncoding::Utf16Nul => &[code::NUL_TERMINATED_UTF16_STRING],
                StrEncoding::Utf8 => &[code::ARRAY, code::UTF8_CODE_UNIT],
                StrEncoding::Utf16RelLoc => &[code::REL_LOC, code::UTF16_CODE_UNIT],
                StrEncoding::Utf16DataLoc => &[code::DATA_LOC, code::UTF16_CODE_UNIT],
                StrEncoding::Utf8RelLoc => &[code::REL_LOC, code::UTF8_CODE_UNIT],
                StrEncoding::Utf8DataLoc => &[code::DATA_LOC, code::UTF8_CODE_UNIT],
            });
        }
        Storage::Object(fields) => {
            if nested && of.fixed_size() == Some(0) {
                return Err(FormatError::EmptyObject { field });
            }
            object(fields, out)?;
        }
        Storage::Option(item) => {
            out.push(code::ARRAY);
            element(field, item, "value", out)?;
        }
        Storage::Array(item, ArrayLayout::Counted) => {
            out.push(code::ARRAY);
            element(field, item, "items", out)?;
        }
        Storage::Array(item, ArrayLayout::Fixed(count)) => {
            if count == 0 {
                return Err(FormatError::EmptyFixedArray { field });
            }
            if let Some(item_size) = item.fixed_size() {
                let size = item_size.saturating_mul(count.into());
                if size > MAX_PAYLOAD {
                    return Err(FormatError::FixedArrayTooLarge { field, size });
                }
            }
            out.push(code::FIXED_LENGTH_ARRAY);
            element(field, item, "items", out)?;
            out.extend_from_slice(&count.to_le_bytes());
        }
        Storage::Array(item, ArrayLayout::RelLoc | ArrayLayout::DataLoc) => {
            if item.fixed_size().is_none() {
                return Err(FormatError::LocationOfVariableSize { field });
            }
            let relative = matches!(of.storage(), Storage::Array(_, ArrayLayout::RelLoc));
            out.push(if relative { code::REL_LOC } else { code::DATA_LOC });
            element(field, item, "items", out)?;
        }
    }
    Ok(())
}

fn object(fields: &[FieldSchema], out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(code::OBJECT);
    descriptions(fields, true, out)
}

/// Appends the type of an element. Readers fail on arrays of arrays, so an element that is an array
/// becomes an object with that array as its only field. The bytes of the payload are the same.
fn element(
    field: &'static str,
    of: &FieldType,
    inner: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    if !matches!(of.storage(), Storage::Array(..) | Storage::Option(_)) {
        return ty(field, of, true, out);
    }
    out.push(code::OBJECT);
    out.extend_from_slice(&1_u16.to_le_bytes());
    description(inner, out, |out| ty(field, of, true, out))
}
