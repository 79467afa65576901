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

use alloc::{boxed::Box, vec::Vec};

use nettrace_event::{ArrayLayout, FieldSchema, FieldType, Storage, StrEncoding};

use crate::{
    error::FormatError,
    payload::MAX_PAYLOAD,
    v6::description::{FieldDescription, PlainType, TooLarge, TypeCode, put_fields},
};

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
    fields.iter().try_for_each(|field| check(field.name, &field.ty, false))?;
    let start = out.len();
    let result = put_fields(&codes(fields), out);
    result.map_err(|too_large| {
        out.truncate(start);
        match too_large {
            TooLarge::Fields(count) => FormatError::TooManyFields { count },
            TooLarge::Field(field, size) => FormatError::FieldDescriptionTooLarge { field, size },
        }
    })
}

/// Refuses what readers cannot handle.
fn check(field: &'static str, of: &FieldType, nested: bool) -> Result<(), FormatError> {
    match of.storage() {
        Storage::Object(_) if nested && of.fixed_size() == Some(0) => {
            Err(FormatError::EmptyObject { field })
        }
        Storage::Object(fields) => {
            fields.iter().try_for_each(|field| check(field.name, &field.ty, true))
        }
        Storage::Array(item, layout) => {
            let size = item.fixed_size();
            match layout {
                ArrayLayout::Fixed(0) => return Err(FormatError::EmptyFixedArray { field }),
                ArrayLayout::Fixed(count) => {
                    let size = size.map_or(0, |size| size.saturating_mul(count.into()));
                    if size > MAX_PAYLOAD {
                        return Err(FormatError::FixedArrayTooLarge { field, size });
                    }
                }
                ArrayLayout::RelLoc | ArrayLayout::DataLoc if size.is_none() => {
                    return Err(FormatError::LocationOfVariableSize { field });
                }
                _ => {}
            }
            check(field, item, true)
        }
        Storage::Option(item) => check(field, item, true),
        _ => Ok(()),
    }
}

/// The fields of 128-bit integers.
const U128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::U64)];
const I128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::I64)];

const fn part(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema::new(name, ty)
}

/// The fields by the type codes of version 6.
pub(crate) fn codes(fields: &[FieldSchema]) -> Vec<FieldDescription<'static>> {
    let code = |field: &FieldSchema| FieldDescription { name: field.name, ty: code(&field.ty) };
    fields.iter().map(code).collect()
}

fn code(of: &FieldType) -> TypeCode<'static> {
    let plain = |plain| Box::new(TypeCode::Plain(plain));
    TypeCode::Plain(match of.storage() {
        Storage::Bool => PlainType::Boolean,
        Storage::Bool8 => PlainType::Boolean8,
        Storage::U8 => PlainType::Byte,
        Storage::U16 => PlainType::UInt16,
        Storage::U32 => PlainType::UInt32,
        Storage::U64 => PlainType::UInt64,
        Storage::I8 => PlainType::SByte,
        Storage::I16 => PlainType::Int16,
        Storage::I32 => PlainType::Int32,
        Storage::I64 => PlainType::Int64,
        Storage::F32 => PlainType::Single,
        Storage::F64 => PlainType::Double,
        Storage::VarUInt => PlainType::VarUInt,
        Storage::VarInt => PlainType::VarInt,
        Storage::Utf16Unit => PlainType::Utf16CodeUnit,
        Storage::Guid => PlainType::Guid,
        Storage::DateTime => PlainType::DateTime,
        Storage::U128 => return TypeCode::Object(codes(U128_PARTS)),
        Storage::I128 => return TypeCode::Object(codes(I128_PARTS)),
        Storage::Text(encoding) => {
            let (wide, narrow) = (PlainType::Utf16CodeUnit, PlainType::Utf8CodeUnit);
            return match encoding {
                StrEncoding::Utf16 => TypeCode::Array(plain(wide)),
                StrEncoding::Utf16Nul => TypeCode::Plain(PlainType::NullTerminatedUtf16String),
                StrEncoding::Utf8 => TypeCode::Array(plain(narrow)),
                StrEncoding::Utf16RelLoc => TypeCode::RelLoc(plain(wide)),
                StrEncoding::Utf16DataLoc => TypeCode::DataLoc(plain(wide)),
                StrEncoding::Utf8RelLoc => TypeCode::RelLoc(plain(narrow)),
                StrEncoding::Utf8DataLoc => TypeCode::DataLoc(plain(narrow)),
            };
        }
        Storage::Object(fields) => return TypeCode::Object(codes(fields)),
        Storage::Option(item) => return TypeCode::Array(element(item, "value")),
        Storage::Array(item, layout) => {
            let item = element(item, "items");
            return match layout {
                ArrayLayout::Counted => TypeCode::Array(item),
                ArrayLayout::Fixed(count) => TypeCode::FixedArray(item, count),
                ArrayLayout::RelLoc => TypeCode::RelLoc(item),
                ArrayLayout::DataLoc => TypeCode::DataLoc(item),
            };
        }
    })
}

/// The type of an element. Readers fail on arrays of arrays, so an element that is an array becomes
/// an object with that array as its only field. The bytes of the payload are the same.
fn element(of: &FieldType, name: &'static str) -> Box<TypeCode<'static>> {
    let ty = code(of);
    Box::new(match of.storage() {
        Storage::Array(..) | Storage::Option(_) => {
            TypeCode::Object([FieldDescription { name, ty }].into())
        }
        _ => ty,
    })
}
