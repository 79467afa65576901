//! What a field's type is in version 6.

use alloc::vec::Vec;

use trace_event::{ArrayLayout, FieldFormat, FieldRole, FieldSchema, FieldType, StrEncoding};

use crate::{error::FormatError, payload::MAX_PAYLOAD, primitive};

/// Appends FieldDescriptions: a count, then name and type of each field.
///
/// # Errors
/// [`FormatError::TooManyFields`], [`FormatError::FieldDescriptionTooLarge`], and types that readers cannot
/// follow: [`FormatError::LocationOfVariableSize`], [`FormatError::EmptyObject`],
/// [`FormatError::EmptyFixedArray`], [`FormatError::FixedArrayTooLarge`]. `out` is then as it was.
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

/// What 128-bit integers are.
const U128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::U64)];
const I128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::I64)];

const fn part(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema { name, ty, format: FieldFormat::Default, tag: 0, role: FieldRole::Value }
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

/// One field: the size of what follows, its name, its type.
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
    match *of {
        FieldType::Bool => out.push(code::BOOLEAN),
        FieldType::Bool8 => out.push(code::BOOLEAN8),
        FieldType::U8 => out.push(code::BYTE),
        FieldType::U16 => out.push(code::UINT16),
        FieldType::U32 => out.push(code::UINT32),
        FieldType::U64 | FieldType::DurationNanos => out.push(code::UINT64),
        FieldType::I8 => out.push(code::SBYTE),
        FieldType::I16 => out.push(code::INT16),
        FieldType::I32 => out.push(code::INT32),
        FieldType::I64 | FieldType::UnixNanos => out.push(code::INT64),
        FieldType::F32 => out.push(code::SINGLE),
        FieldType::F64 => out.push(code::DOUBLE),
        FieldType::VarUInt => out.push(code::VAR_UINT),
        FieldType::VarInt => out.push(code::VAR_INT),
        FieldType::Utf16Unit => out.push(code::UTF16_CODE_UNIT),
        FieldType::Guid => out.push(code::GUID),
        FieldType::DateTime => out.push(code::DATE_TIME),
        FieldType::U128 => object(U128_PARTS, out)?,
        FieldType::I128 => object(I128_PARTS, out)?,
        FieldType::Char | FieldType::IpAddr | FieldType::SocketAddr => {
            out.extend_from_slice(&[code::ARRAY, code::UTF16_CODE_UNIT]);
        }
        FieldType::Str(encoding) => {
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
        FieldType::Object(fields) => {
            if nested && fixed_size(of) == Some(0) {
                return Err(FormatError::EmptyObject { field });
            }
            object(fields, out)?;
        }
        FieldType::Option(item) => {
            out.push(code::ARRAY);
            element(field, item, "value", out)?;
        }
        FieldType::Array(item, ArrayLayout::Counted) => {
            out.push(code::ARRAY);
            element(field, item, "items", out)?;
        }
        FieldType::Array(item, ArrayLayout::Fixed(count)) => {
            if count == 0 {
                return Err(FormatError::EmptyFixedArray { field });
            }
            if let Some(item_size) = fixed_size(item) {
                let size = item_size.saturating_mul(count.into());
                if size > MAX_PAYLOAD {
                    return Err(FormatError::FixedArrayTooLarge { field, size });
                }
            }
            out.push(code::FIXED_LENGTH_ARRAY);
            element(field, item, "items", out)?;
            out.extend_from_slice(&count.to_le_bytes());
        }
        FieldType::Array(item, ArrayLayout::RelLoc | ArrayLayout::DataLoc) => {
            if fixed_size(item).is_none() {
                return Err(FormatError::LocationOfVariableSize { field });
            }
            let relative = matches!(*of, FieldType::Array(_, ArrayLayout::RelLoc));
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

/// The type of an element. Readers fail on arrays of arrays, so that an element which is an array
/// becomes an object with that array as its only field: the payload's bytes are the same.
fn element(
    field: &'static str,
    of: &FieldType,
    inner: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    if !matches!(of, FieldType::Array(..) | FieldType::Option(_)) {
        return ty(field, of, true, out);
    }
    out.push(code::OBJECT);
    out.extend_from_slice(&1_u16.to_le_bytes());
    description(inner, out, |out| ty(field, of, true, out))
}

/// Bytes that every value of the type takes, or `None` where they vary.
fn fixed_size(of: &FieldType) -> Option<usize> {
    match *of {
        FieldType::Bool8 | FieldType::U8 | FieldType::I8 => Some(1),
        FieldType::U16 | FieldType::I16 | FieldType::Utf16Unit => Some(2),
        FieldType::Bool | FieldType::U32 | FieldType::I32 | FieldType::F32 => Some(4),
        FieldType::U64
        | FieldType::I64
        | FieldType::F64
        | FieldType::UnixNanos
        | FieldType::DateTime
        | FieldType::DurationNanos => Some(8),
        FieldType::U128 | FieldType::I128 | FieldType::Guid => Some(16),
        FieldType::Object(fields) => fields
            .iter()
            .try_fold(0_usize, |sum, field| Some(sum.saturating_add(fixed_size(&field.ty)?))),
        FieldType::Array(item, ArrayLayout::Fixed(count)) => {
            Some(fixed_size(item)?.saturating_mul(count.into()))
        }
        FieldType::VarUInt
        | FieldType::VarInt
        | FieldType::Char
        | FieldType::Str(_)
        | FieldType::IpAddr
        | FieldType::SocketAddr
        | FieldType::Option(_)
        | FieldType::Array(..) => None,
    }
}
