//! Metadata for event types of another trace, which is being copied.
//!
//! [`metadata_row`](super::metadata_row) describes the types that a derive made, which every reader
//! can read. A copied trace has types of its own. No schema of this crate can express some of them:
//! arrays of arrays, levels beyond 5, event ids beyond 16 bits. [`description_row`] writes them
//! unchanged.

use alloc::{boxed::Box, vec::Vec};

use crate::{error::FormatError, primitive};

/// An event type, with everything that a row of a Metadata block holds.
///
/// [`description_row`] has an example.
#[derive(Clone, Debug, Default)]
pub struct TypeDescription<'a> {
    /// The metadata id, by which rows refer to the type.
    pub id: u32,
    /// The provider's name.
    pub provider: &'a str,
    /// The event's id within its provider. The reference reader keeps 16 bits of it.
    pub event_id: u32,
    /// The event's name, which may be empty.
    pub name: &'a str,
    /// The fields of the payload, in order. Empty if the payload is not described.
    pub fields: Vec<FieldDescription<'a>>,
    /// The opcode, if the type states one: see [`EventSchema`](nettrace_event::EventSchema).
    pub opcode: Option<u8>,
    /// The event's keywords: a bit set of the groups that it belongs to.
    pub keywords: u64,
    /// The event's level, its severity.
    pub level: u8,
    /// The version of the event's layout.
    pub version: u8,
    /// The message template.
    pub message: Option<&'a str>,
    /// A description of the event for people.
    pub description: Option<&'a str>,
    /// The provider's GUID in the byte order of RFC 4122.
    pub provider_guid: Option<[u8; 16]>,
    /// Further key-value pairs.
    pub key_values: Vec<(&'a str, &'a str)>,
}

/// A field of an event or of an object.
///
/// [`description_row`] has an example.
#[derive(Clone, Debug)]
pub struct FieldDescription<'a> {
    /// The field's name.
    pub name: &'a str,
    /// The field's type.
    pub ty: TypeCode<'a>,
}

/// The type of a field, by the format's type codes.
///
/// [`description_row`] has an example.
#[derive(Clone, Debug)]
pub enum TypeCode<'a> {
    /// A type that contains no other.
    Plain(PlainType),
    /// Object (1): its fields, one after the other.
    Object(Vec<FieldDescription<'a>>),
    /// Array (19): a 16-bit count, then the elements.
    Array(Box<TypeCode<'a>>),
    /// FixedLengthArray (22): the given number of elements, without a count.
    FixedArray(Box<TypeCode<'a>>, u16),
    /// RelLoc (24): the position of the elements, counted from the end of the location itself.
    RelLoc(Box<TypeCode<'a>>),
    /// DataLoc (25): the position of the elements, counted from the payload's start.
    DataLoc(Box<TypeCode<'a>>),
}

/// A type that contains no other, by its type code.
///
/// ```
/// use nettrace_format::v6::PlainType;
///
/// // The number is the type's code.
/// assert_eq!(PlainType::VarUInt as u8, 21);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the format")]
pub enum PlainType {
    Boolean = 3,
    Utf16CodeUnit = 4,
    SByte = 5,
    Byte = 6,
    Int16 = 7,
    UInt16 = 8,
    Int32 = 9,
    UInt32 = 10,
    Int64 = 11,
    UInt64 = 12,
    Single = 13,
    Double = 14,
    DateTime = 16,
    Guid = 17,
    NullTerminatedUtf16String = 18,
    VarInt = 20,
    VarUInt = 21,
    Utf8CodeUnit = 23,
    Boolean8 = 26,
}

/// Appends a row of a Metadata block, for [`metadata_block`](super::metadata_block).
///
/// It does not check whether readers can handle the types. Level and version are always written,
/// everything else only if it is present.
///
/// # Errors
/// [`FormatError::DescriptionTooLarge`] if a part exceeds its limit of 65,535 bytes. An error
/// leaves `out` unchanged.
///
/// ```
/// use nettrace_format::v6::{
///     FieldDescription, PlainType, TypeCode, TypeDescription, description_row, metadata_block,
/// };
///
/// // An array of arrays, which no schema of this crate has.
/// let rows_of_bytes =
///     TypeCode::Array(Box::new(TypeCode::Array(Box::new(TypeCode::Plain(PlainType::Byte)))));
/// let image = TypeDescription {
///     id: 1,
///     provider: "Shop",
///     name: "Image",
///     fields: vec![FieldDescription { name: "rows", ty: rows_of_bytes }],
///     level: 4,
///     ..TypeDescription::default()
/// };
/// let (mut rows, mut out) = (Vec::new(), Vec::new());
/// description_row(&image, &mut rows)?;
/// // The row's size, and then the row.
/// assert_eq!(usize::from(u16::from_le_bytes([rows[0], rows[1]])), rows.len() - 2);
/// metadata_block(&rows, &mut out)?;
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
pub fn description_row(of: &TypeDescription<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let start = out.len();
    let result = sized(out, |out| row(of, out));
    result.map_err(|size| {
        out.truncate(start);
        FormatError::DescriptionTooLarge { id: of.id, size }
    })
}

fn row(of: &TypeDescription<'_>, out: &mut Vec<u8>) -> Result<(), usize> {
    primitive::varuint(of.id.into(), out);
    primitive::string(of.provider, out);
    primitive::varuint(of.event_id.into(), out);
    primitive::string(of.name, out);
    put_fields(&of.fields, out)
        .map_err(|(TooLarge::Fields(size) | TooLarge::Field(_, size))| size)?;
    sized(out, |out| {
        optional(of, out);
        Ok(())
    })
}

fn optional(of: &TypeDescription<'_>, out: &mut Vec<u8>) {
    if let Some(opcode) = of.opcode {
        out.extend_from_slice(&[1, opcode]);
    }
    if of.keywords != 0 {
        out.push(3);
        out.extend_from_slice(&of.keywords.to_le_bytes());
    }
    for (kind, text) in [(4, of.message), (5, of.description)] {
        if let Some(text) = text {
            out.push(kind);
            primitive::string(text, out);
        }
    }
    for (key, value) in &of.key_values {
        out.push(6);
        primitive::string(key, out);
        primitive::string(value, out);
    }
    if let Some(guid) = &of.provider_guid {
        out.push(7);
        out.extend_from_slice(&primitive::guid(guid));
    }
    out.extend_from_slice(&[8, of.level, 9, of.version]);
}

/// What 16 bits do not hold.
pub(super) enum TooLarge<'a> {
    /// The number of fields.
    Fields(usize),
    /// The size of a field's description.
    Field(&'a str, usize),
}

/// Appends descriptions of fields. An error leaves some of them in `out`.
pub(super) fn put_fields<'a>(
    fields: &[FieldDescription<'a>],
    out: &mut Vec<u8>,
) -> Result<(), TooLarge<'a>> {
    let count = u16::try_from(fields.len()).map_err(|_| TooLarge::Fields(fields.len()))?;
    out.extend_from_slice(&count.to_le_bytes());
    for field in fields {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        primitive::string(field.name, out);
        ty(&field.ty, out)?;
        end_sized(start, out).map_err(|size| TooLarge::Field(field.name, size))?;
    }
    Ok(())
}

fn ty<'a>(of: &TypeCode<'a>, out: &mut Vec<u8>) -> Result<(), TooLarge<'a>> {
    match of {
        TypeCode::Plain(plain) => out.push(*plain as u8),
        TypeCode::Object(members) => {
            out.push(1);
            put_fields(members, out)?;
        }
        TypeCode::Array(element) => {
            out.push(19);
            ty(element, out)?;
        }
        TypeCode::FixedArray(element, count) => {
            out.push(22);
            ty(element, out)?;
            out.extend_from_slice(&count.to_le_bytes());
        }
        TypeCode::RelLoc(element) => {
            out.push(24);
            ty(element, out)?;
        }
        TypeCode::DataLoc(element) => {
            out.push(25);
            ty(element, out)?;
        }
    }
    Ok(())
}

/// Appends a 16-bit size and then what `body` appends. Returns `Err` with the size if it exceeds 16
/// bits.
fn sized(
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), usize>,
) -> Result<(), usize> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    body(out)?;
    end_sized(start, out)
}

/// Writes the size of what follows the two bytes at `start`.
fn end_sized(start: usize, out: &mut [u8]) -> Result<(), usize> {
    let size = out.len() - start - 2;
    let short = u16::try_from(size).map_err(|_| size)?;
    out[start..start + 2].copy_from_slice(&short.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_row_by_hand() {
        let array = |of| TypeCode::Array(Box::new(of));
        let nested = vec![FieldDescription {
            name: "b",
            ty: TypeCode::FixedArray(Box::new(TypeCode::Plain(PlainType::Byte)), 3),
        }];
        let fields = vec![
            FieldDescription { name: "a", ty: array(array(TypeCode::Plain(PlainType::VarInt))) },
            FieldDescription { name: "o", ty: TypeCode::Object(nested) },
        ];
        let description = TypeDescription {
            id: 300,
            provider: "P",
            event_id: 70_000,
            name: "",
            fields,
            level: 200,
            version: 2,
            key_values: vec![("k", "v")],
            ..TypeDescription::default()
        };
        let mut out = vec![0xAA];
        description_row(&description, &mut out).unwrap();
        #[rustfmt::skip]
        let expected = [
            0xAA, 43, 0,
            0xAC, 2, 1, b'P', 0xF0, 0xA2, 4, 0,
            2, 0,
            5, 0, 1, b'a', 19, 19, 20,
            13, 0, 1, b'o', 1, 1, 0, 6, 0, 1, b'b', 22, 6, 3, 0,
            9, 0, 6, 1, b'k', 1, b'v', 8, 200, 9, 2,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn what_is_too_large_changes_nothing() {
        let name = "n".repeat(70_000);
        let description = TypeDescription { id: 7, name: &name, ..TypeDescription::default() };
        let mut out = vec![1, 2];
        let error = description_row(&description, &mut out).unwrap_err();
        assert!(matches!(error, FormatError::DescriptionTooLarge { id: 7, size: 70_000.. }));
        assert_eq!(out, [1, 2]);
    }
}
