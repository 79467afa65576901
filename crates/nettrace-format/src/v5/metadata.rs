//! Metadata: one row for each event type, with its names and the types of its fields.

use alloc::vec::Vec;

use nettrace_event::{ArrayLayout, EventSchema, Storage, StrEncoding};

use crate::{
    described::{EventDescription, FieldDescription},
    error::FormatError,
    payload::MAX_ELEMENTS,
    primitive, types,
    v5::Version,
    v6::BlockKind,
};

/// Checks whether a version can describe an event type.
///
/// ```
/// use nettrace_format::v5::{Version, check};
/// # use nettrace_format::example::SALE;
///
/// assert_eq!(check(Version::V4, &SALE), Ok(()));
/// ```
///
/// # Errors
/// Those of [`types::field_descriptions`], because events are recorded in the types of version 6.
/// [`FormatError::FixedArrayTooLong`] in version 5. [`FormatError::MetadataRowTooLarge`] beyond
/// [`MAX_METADATA_ROW`].
pub fn check(version: Version, schema: &EventSchema) -> Result<(), FormatError> {
    types::field_descriptions(schema.fields, &mut Vec::new())?;
    row(version, 1, schema, &mut Vec::new())
}

/// The most bytes that the description of an event type may take in versions 4 and 5: 1 MiB. The
/// format has 31 bits for the size. A type that version 6 can describe stays below 1 MiB, even with
/// its names in UTF-16.
pub const MAX_METADATA_ROW: usize = 1 << 20;

/// The largest metadata id: it has 31 bits.
const MAX_METADATA_ID: u32 = i32::MAX as u32;

/// Appends one row of a metadata block: a compressed header, then the description.
pub(super) fn row(
    version: Version,
    id: u32,
    schema: &impl EventDescription,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    /// The header flag that only the payload size follows. The metadata id, sequence number and
    /// threads are then 0, their values at the start of a block.
    const PAYLOAD_LEN: u8 = 128;
    match id {
        0 => return Err(FormatError::ZeroId { kind: BlockKind::Metadata }),
        1..=MAX_METADATA_ID => {}
        _ => return Err(FormatError::IdTooLarge { kind: BlockKind::Metadata, id: id.into() }),
    }
    let mut description = Vec::new();
    describe(id, version, schema, &mut description)?;
    let size = description.len();
    if size > MAX_METADATA_ROW {
        return Err(FormatError::MetadataRowTooLarge { event: schema.static_name(), size });
    }
    // The difference to the previous timestamp, 0, is 0.
    out.extend_from_slice(&[PAYLOAD_LEN, 0]);
    primitive::varuint(size as u64, out);
    out.extend_from_slice(&description);
    Ok(())
}

fn describe(
    id: u32,
    version: Version,
    schema: &impl EventDescription,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    const OPCODE: u8 = 1;
    const FIELDS: u8 = 2;

    let facts = schema.facts();
    number(id, out);
    name(facts.provider, out);
    number(facts.event_id, out);
    name(facts.name, out);
    out.extend_from_slice(&facts.keywords.to_le_bytes());
    number(facts.version.into(), out);
    number(facts.level.into(), out);
    if version == Version::V4 {
        return fields(version, Layout::Plain, schema.fields(), out);
    }
    let tagged = schema.fields().iter().any(has_array);
    let plain = if tagged { &[] } else { schema.fields() };
    fields(version, Layout::Plain, plain, out)?;
    if let Some(opcode) = facts.opcode {
        number(1, out);
        out.extend_from_slice(&[OPCODE, opcode]);
    }
    if tagged {
        // The size counts neither its own bytes nor the kind.
        let start = out.len();
        number(0, out);
        out.push(FIELDS);
        fields(version, Layout::Tagged, schema.fields(), out)?;
        patch(start, out.len() - start - 5, out);
    }
    Ok(())
}

/// How a list of fields is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Type, then name.
    Plain,
    /// In a tag of version 5: size (including its own 4 bytes), name, type. Only this layout has
    /// arrays.
    Tagged,
}

fn fields<F: FieldDescription>(
    version: Version,
    layout: Layout,
    fields: &[F],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    // The check for version 6 allows at most 65,535 fields.
    number(fields.len() as u32, out);
    fields.iter().try_for_each(|of| {
        field(layout, of.name(), out, |out| ty(version, layout, of, of.ty(), out))
    })
}

/// Appends a field whose type `ty` writes.
fn field(
    layout: Layout,
    called: &str,
    out: &mut Vec<u8>,
    ty: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let start = out.len();
    match layout {
        Layout::Plain => {
            ty(out)?;
            name(called, out);
        }
        Layout::Tagged => {
            number(0, out);
            name(called, out);
            ty(out)?;
            patch(start, out.len() - start, out);
        }
    }
    Ok(())
}

/// The type codes of versions 4 and 5.
mod code {
    pub(super) const OBJECT: u32 = 1;
    pub(super) const BOOLEAN: u32 = 3;
    pub(super) const CHAR: u32 = 4;
    pub(super) const SBYTE: u32 = 5;
    pub(super) const BYTE: u32 = 6;
    pub(super) const INT16: u32 = 7;
    pub(super) const UINT16: u32 = 8;
    pub(super) const INT32: u32 = 9;
    pub(super) const UINT32: u32 = 10;
    pub(super) const INT64: u32 = 11;
    pub(super) const UINT64: u32 = 12;
    pub(super) const SINGLE: u32 = 13;
    pub(super) const DOUBLE: u32 = 14;
    pub(super) const DATE_TIME: u32 = 16;
    pub(super) const GUID: u32 = 17;
    pub(super) const STRING: u32 = 18;
    pub(super) const ARRAY: u32 = 19;
}

fn ty<F: FieldDescription>(
    version: Version,
    layout: Layout,
    of_field: &F,
    of: &F::Type,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    if let Some(code) = simple::<F>(of) {
        number(code, out);
        return Ok(());
    }
    match F::storage(of) {
        Storage::Object(members) => {
            number(code::OBJECT, out);
            fields(version, layout, members, out)
        }
        wide @ (Storage::U128 | Storage::I128) => {
            let is_unsigned = matches!(wide, Storage::U128);
            let high = if is_unsigned { code::UINT64 } else { code::INT64 };
            number(code::OBJECT, out);
            number(2, out);
            [("low", code::UINT64), ("high", high)].into_iter().try_for_each(|(name, code)| {
                field(layout, name, out, |out| {
                    number(code, out);
                    Ok(())
                })
            })
        }
        // Version 4 stores every other type as text.
        _ if version == Version::V4 => {
            number(code::STRING, out);
            Ok(())
        }
        Storage::Array(item, array_layout) => {
            if let ArrayLayout::Fixed(count) = array_layout {
                if usize::from(count) > MAX_ELEMENTS {
                    let field = of_field.static_name();
                    return Err(FormatError::FixedArrayTooLong { field, count });
                }
            }
            number(code::ARRAY, out);
            element(version, layout, of_field, item, "items", out)
        }
        Storage::Option(item) => {
            number(code::ARRAY, out);
            element(version, layout, of_field, item, "value", out)
        }
        _ => {
            number(code::ARRAY, out);
            number(code::CHAR, out);
            Ok(())
        }
    }
}

/// Appends the type of an element. Readers fail on arrays of arrays, so an element that is an array
/// becomes an object with that array as its only field, as in version 6.
fn element<F: FieldDescription>(
    version: Version,
    layout: Layout,
    of_field: &F,
    of: &F::Type,
    inner: &str,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    if !matches!(F::storage(of), Storage::Array(..) | Storage::Option(_)) {
        return ty(version, layout, of_field, of, out);
    }
    number(code::OBJECT, out);
    number(1, out);
    field(layout, inner, out, |out| ty(version, layout, of_field, of, out))
}

/// The code of a type that both versions store in the same way.
fn simple<F: FieldDescription>(of: &F::Type) -> Option<u32> {
    Some(match F::storage(of) {
        Storage::Bool | Storage::Bool8 => code::BOOLEAN,
        Storage::U8 => code::BYTE,
        Storage::U16 => code::UINT16,
        Storage::U32 => code::UINT32,
        Storage::U64 | Storage::VarUInt => code::UINT64,
        Storage::I8 => code::SBYTE,
        Storage::I16 => code::INT16,
        Storage::I32 => code::INT32,
        Storage::I64 | Storage::VarInt => code::INT64,
        Storage::F32 => code::SINGLE,
        Storage::F64 => code::DOUBLE,
        Storage::Utf16Unit => code::CHAR,
        Storage::Guid => code::GUID,
        Storage::DateTime => code::DATE_TIME,
        Storage::Text(StrEncoding::Utf16Nul) => code::STRING,
        _ => return None,
    })
}

/// Whether version 5 needs an array for the field.
fn has_array<F: FieldDescription>(of: &F) -> bool {
    match F::storage(of.ty()) {
        Storage::Object(fields) => fields.iter().any(has_array),
        Storage::U128 | Storage::I128 => false,
        _ => simple::<F>(of.ty()).is_none(),
    }
}

fn number(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Fills in a size at `at`, where room was left for it. It fits: see [`MAX_METADATA_ROW`].
fn patch(at: usize, size: usize, out: &mut [u8]) {
    out[at..at + 4].copy_from_slice(&(size as u32).to_le_bytes());
}

/// Appends a name as UTF-16 with a NUL at its end. A NUL inside the name becomes U+FFFD.
fn name(text: &str, out: &mut Vec<u8>) {
    for unit in text.encode_utf16() {
        let unit = if unit == 0 { 0xFFFD } else { unit };
        out.extend_from_slice(&unit.to_le_bytes());
    }
    out.extend_from_slice(&[0; 2]);
}
