//! Field types of version 6: their description and encoding.
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
    cursor::{Cursor, Damage},
    described::FieldDescription,
    error::FormatError,
    payload::MAX_PAYLOAD,
    primitive,
    schema::{Field, Type},
};

/// How many levels deep types may be nested. Deeper types are [`Type::Deep`]. Real types have few
/// levels.
pub const MAX_DEPTH: u32 = 48;

const OBJECT: u8 = 1;
const ARRAY: u8 = 19;
const FIXED_ARRAY: u8 = 22;
const REL_LOC: u8 = 24;
const DATA_LOC: u8 = 25;

/// Why fields cannot be described.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undescribed {
    /// There are more than 16 bits can count.
    Count(usize),
    /// The description of the field with this index, or of one within it, has this many bytes.
    TooLarge(usize, usize),
    /// A type has no code.
    NoCode,
}

/// Appends the descriptions of fields: a count, then name and type of each. An error leaves some of
/// them in `out`.
pub(super) fn put_fields(fields: &[Field], out: &mut Vec<u8>) -> Result<(), Undescribed> {
    let count = u16::try_from(fields.len()).map_err(|_| Undescribed::Count(fields.len()))?;
    out.extend_from_slice(&count.to_le_bytes());
    for (index, field) in fields.iter().enumerate() {
        let start = begin_sized(out);
        primitive::string(&field.name, out);
        put_type(&field.ty, out).map_err(|error| match error {
            Undescribed::TooLarge(_, size) => Undescribed::TooLarge(index, size),
            other => other,
        })?;
        end_sized(start, out).map_err(|size| Undescribed::TooLarge(index, size))?;
    }
    Ok(())
}

fn put_type(ty: &Type, out: &mut Vec<u8>) -> Result<(), Undescribed> {
    let mut array = |code, element| {
        out.push(code);
        put_type(element, out)
    };
    match ty {
        Type::Object(fields) => {
            out.push(OBJECT);
            put_fields(fields, out)?;
        }
        Type::Array(element) => array(ARRAY, element)?,
        Type::FixedArray(element, count) => {
            array(FIXED_ARRAY, element)?;
            out.extend_from_slice(&count.to_le_bytes());
        }
        Type::RelLoc(element) => array(REL_LOC, element)?,
        Type::DataLoc(element) => array(DATA_LOC, element)?,
        plain => out.push(plain.plain_code().ok_or(Undescribed::NoCode)?),
    }
    Ok(())
}

/// Makes room for the size of what follows: two bytes. Returns their place.
pub(super) fn begin_sized(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 2]);
    out.len() - 2
}

/// Fills in the size of what follows `start`. Fails with the size if it exceeds 16 bits.
pub(super) fn end_sized(start: usize, out: &mut [u8]) -> Result<(), usize> {
    let size = out.len() - start - 2;
    let short = u16::try_from(size).map_err(|_| size)?;
    out[start..start + 2].copy_from_slice(&short.to_le_bytes());
    Ok(())
}

/// Reads what [`put_fields`] writes. The end of each field is known, so damage in one of them is
/// only noted.
pub(super) fn read_fields(
    cursor: &mut Cursor<'_>,
    depth: u32,
    fields: &mut Vec<Field>,
    damage: &mut Option<Damage>,
) -> Result<(), Damage> {
    let count = cursor.u16()?;
    for _ in 0..count {
        let size = cursor.u16()?;
        let mut field = cursor.sub(size.into())?;
        let mut read = Field::damaged();
        if let Err(end) = read_field(&mut field, depth, &mut read, damage) {
            damage.get_or_insert(end);
        }
        fields.push(read);
    }
    Ok(())
}

fn read_field(
    cursor: &mut Cursor<'_>,
    depth: u32,
    field: &mut Field,
    damage: &mut Option<Damage>,
) -> Result<(), Damage> {
    field.name = cursor.string()?;
    field.ty = read_type(cursor, depth, damage)?;
    Ok(())
}

/// A type that cannot be decoded is [`Type::Unknown`] or [`Type::Deep`]. The rest of the field's
/// description is then skipped, because its start is unknown.
fn read_type(
    cursor: &mut Cursor<'_>,
    depth: u32,
    damage: &mut Option<Damage>,
) -> Result<Type, Damage> {
    let at = *cursor;
    let located = |ty: Type| match ty.fixed_size() {
        Some(_) => Ok(Box::new(ty)),
        None => Err(at.damage("a RelLoc or DataLoc has elements without a fixed size")),
    };
    Ok(match cursor.u8()? {
        OBJECT | ARRAY | FIXED_ARRAY | REL_LOC | DATA_LOC if depth > MAX_DEPTH => Type::Deep,
        OBJECT => {
            let mut fields = Vec::new();
            read_fields(cursor, depth + 1, &mut fields, damage)?;
            Type::Object(fields)
        }
        code @ (ARRAY | FIXED_ARRAY | REL_LOC | DATA_LOC) => {
            let element = read_type(cursor, depth + 1, damage)?;
            match (code, element.endless()) {
                (_, Some(endless)) => endless.clone(),
                (ARRAY, _) => Type::Array(Box::new(element)),
                (FIXED_ARRAY, _) => Type::FixedArray(Box::new(element), cursor.u16()?),
                (REL_LOC, _) => Type::RelLoc(located(element)?),
                _ => Type::DataLoc(located(element)?),
            }
        }
        code => Type::from_plain_code(code.into()).unwrap_or(Type::Unknown(code.into())),
    })
}

/// Whether a type code is one of version 6.
#[must_use]
pub fn is_type_code(code: u32) -> bool {
    [OBJECT, ARRAY, FIXED_ARRAY, REL_LOC, DATA_LOC].map(u32::from).contains(&code)
        || Type::from_plain_code(code).is_some()
}

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
    check_fields(fields)?;
    let start = out.len();
    let result = put_fields(&described(fields), out);
    result.map_err(|error| {
        out.truncate(start);
        refused(error, fields)
    })
}

/// Checks the fields of a type that a trace describes.
///
/// # Errors
/// Those of [`field_descriptions`], without the name of the field; and [`FormatError::NoTypeCode`].
#[cfg(feature = "v5")]
pub(crate) fn check_described(fields: &[Field]) -> Result<(), FormatError> {
    if !fields.iter().all(|field| field.ty.is_of_v6()) {
        return Err(FormatError::NoTypeCode);
    }
    check_fields(fields)?;
    put_fields(fields, &mut Vec::new()).map_err(|error| match error {
        Undescribed::Count(count) => FormatError::TooManyFields { count },
        Undescribed::TooLarge(_, size) => FormatError::FieldDescriptionTooLarge { field: "", size },
        Undescribed::NoCode => FormatError::NoTypeCode,
    })
}

/// An error of [`put_fields`] for the descriptions of these fields.
pub(super) fn refused(error: Undescribed, fields: &[FieldSchema]) -> FormatError {
    match error {
        Undescribed::Count(count) => FormatError::TooManyFields { count },
        Undescribed::TooLarge(field, size) => {
            FormatError::FieldDescriptionTooLarge { field: fields[field].name, size }
        }
        Undescribed::NoCode => FormatError::NoTypeCode,
    }
}

/// Refuses what readers cannot handle.
pub(super) fn check_fields<F: FieldDescription>(fields: &[F]) -> Result<(), FormatError> {
    fields.iter().try_for_each(|field| check::<F>(field.static_name(), field.ty(), false))
}

fn check<F: FieldDescription>(
    field: &'static str,
    of: &F::Type,
    nested: bool,
) -> Result<(), FormatError> {
    match F::storage(of) {
        Storage::Object(_) if nested && F::fixed_size(of) == Some(0) => {
            Err(FormatError::EmptyObject { field })
        }
        Storage::Object(fields) => {
            fields.iter().try_for_each(|field| check::<F>(field.static_name(), field.ty(), true))
        }
        Storage::Array(item, layout) => {
            let size = F::fixed_size(item);
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
            check::<F>(field, item, true)
        }
        Storage::Option(item) => check::<F>(field, item, true),
        _ => Ok(()),
    }
}

/// The fields of 128-bit integers.
const U128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::U64)];
const I128_PARTS: &[FieldSchema] = &[part("low", FieldType::U64), part("high", FieldType::I64)];

const fn part(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema::new(name, ty)
}

/// Fields as version 6 describes them.
pub(crate) fn described(fields: &[FieldSchema]) -> Vec<Field> {
    fields.iter().map(|field| Field::new(field.name, described_type(&field.ty))).collect()
}

fn described_type(of: &FieldType) -> Type {
    let (wide, narrow) = (|| Box::new(Type::Utf16CodeUnit), || Box::new(Type::Utf8CodeUnit));
    match of.storage() {
        Storage::Bool => Type::Boolean,
        Storage::Bool8 => Type::Boolean8,
        Storage::U8 => Type::UInt8,
        Storage::U16 => Type::UInt16,
        Storage::U32 => Type::UInt32,
        Storage::U64 => Type::UInt64,
        Storage::I8 => Type::Int8,
        Storage::I16 => Type::Int16,
        Storage::I32 => Type::Int32,
        Storage::I64 => Type::Int64,
        Storage::F32 => Type::Single,
        Storage::F64 => Type::Double,
        Storage::VarUInt => Type::VarUInt,
        Storage::VarInt => Type::VarInt,
        Storage::Utf16Unit => Type::Utf16CodeUnit,
        Storage::Guid => Type::Guid,
        Storage::DateTime => Type::DateTime,
        Storage::U128 => Type::Object(described(U128_PARTS)),
        Storage::I128 => Type::Object(described(I128_PARTS)),
        Storage::Text(encoding) => match encoding {
            StrEncoding::Utf16 => Type::Array(wide()),
            StrEncoding::Utf16Nul => Type::Utf16String,
            StrEncoding::Utf8 => Type::Array(narrow()),
            StrEncoding::Utf16RelLoc => Type::RelLoc(wide()),
            StrEncoding::Utf16DataLoc => Type::DataLoc(wide()),
            StrEncoding::Utf8RelLoc => Type::RelLoc(narrow()),
            StrEncoding::Utf8DataLoc => Type::DataLoc(narrow()),
        },
        Storage::Object(fields) => Type::Object(described(fields)),
        Storage::Option(item) => Type::Array(element(item, "value")),
        Storage::Array(item, layout) => {
            let item = element(item, "items");
            match layout {
                ArrayLayout::Counted => Type::Array(item),
                ArrayLayout::Fixed(count) => Type::FixedArray(item, count),
                ArrayLayout::RelLoc => Type::RelLoc(item),
                ArrayLayout::DataLoc => Type::DataLoc(item),
            }
        }
    }
}

/// The type of an element. Readers fail on arrays of arrays, so an element that is an array becomes
/// an object with that array as its only field. The bytes of the payload are the same.
fn element(of: &FieldType, name: &str) -> Box<Type> {
    let ty = described_type(of);
    Box::new(match of.storage() {
        Storage::Array(..) | Storage::Option(_) => Type::Object([Field::new(name, ty)].into()),
        _ => ty,
    })
}
