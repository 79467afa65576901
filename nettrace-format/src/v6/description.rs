//! Metadata of event types that are not ours: as another trace describes them, whatever that is.
//!
//! [`metadata_row`](super::metadata_row) writes what a derive made, in types that every reader
//! follows. A trace that is written again has types of its own, some of which no schema of ours has
//! (arrays of arrays, levels beyond 5, event ids beyond 16 bits): they are said here as they are.

use alloc::{boxed::Box, vec::Vec};

use crate::{error::FormatError, primitive};

/// An event type, as a row of a Metadata block has it.
#[derive(Clone, Debug, Default)]
pub struct TypeDescription<'a> {
    /// The number by which rows refer to it.
    pub id: u32,
    /// The provider's name.
    pub provider: &'a str,
    /// The event's number within its provider. The reference reader keeps 16 bits of it.
    pub event_id: u32,
    /// The event's name; may be empty.
    pub name: &'a str,
    /// The payload, in order; none where it is not described.
    pub fields: Vec<FieldDescription<'a>>,
    /// What the event says of an activity, if the type says it: see
    /// [`EventSchema`](trace_event::EventSchema).
    pub opcode: Option<u8>,
    /// Bit set of the groups that the event belongs to.
    pub keywords: u64,
    /// Severity.
    pub level: u8,
    /// Version of the event's layout.
    pub version: u8,
    /// Message template.
    pub message: Option<&'a str>,
    /// What the event means, for a person.
    pub description: Option<&'a str>,
    /// The provider's GUID in the byte order of RFC 4122.
    pub provider_guid: Option<[u8; 16]>,
    /// Further key-value pairs.
    pub key_values: Vec<(&'a str, &'a str)>,
}

/// A field of an event or of an object in it.
#[derive(Clone, Debug)]
pub struct FieldDescription<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it is encoded.
    pub ty: TypeCode<'a>,
}

/// How a value is encoded: the type codes of the format, one by one.
#[derive(Clone, Debug)]
pub enum TypeCode<'a> {
    /// A type that has no other in it.
    Plain(PlainType),
    /// Object (1): fields, one behind the other.
    Object(Vec<FieldDescription<'a>>),
    /// Array (19): a 16-bit count, then the elements.
    Array(Box<TypeCode<'a>>),
    /// FixedLengthArray (22): that many elements.
    FixedArray(Box<TypeCode<'a>>, u16),
    /// RelLoc (24): where the elements are, from behind itself.
    RelLoc(Box<TypeCode<'a>>),
    /// DataLoc (25): where the elements are, from the payload's start.
    DataLoc(Box<TypeCode<'a>>),
}

/// A type that has no other in it, by its code.
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
/// Nothing is judged: what readers make of the types is up to who described them first. Level and
/// version are always written, the rest where it is there.
///
/// # Errors
/// [`FormatError::DescriptionTooLarge`] where a part exceeds the 65,535 bytes that it can have;
/// `out` is then as it was.
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
    fields(&of.fields, out)?;
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

fn fields(fields: &[FieldDescription<'_>], out: &mut Vec<u8>) -> Result<(), usize> {
    let count = u16::try_from(fields.len()).map_err(|_| fields.len())?;
    out.extend_from_slice(&count.to_le_bytes());
    for field in fields {
        sized(out, |out| {
            primitive::string(field.name, out);
            ty(&field.ty, out)
        })?;
    }
    Ok(())
}

fn ty(of: &TypeCode<'_>, out: &mut Vec<u8>) -> Result<(), usize> {
    match of {
        TypeCode::Plain(plain) => out.push(*plain as u8),
        TypeCode::Object(members) => {
            out.push(1);
            fields(members, out)?;
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

/// What `body` appends, behind its size in 16 bits; `Err` with a size that exceeds them.
fn sized(
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), usize>,
) -> Result<(), usize> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    body(out)?;
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
