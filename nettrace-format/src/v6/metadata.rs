//! Metadata: one row for each event type, with its names, the types of its fields, and the rest.

use alloc::vec::Vec;

use trace_event::EventSchema;

use crate::{
    error::FormatError,
    primitive,
    v6::{
        block::{BlockKind, split},
        thread::sized_row_ends,
        types,
    },
};

/// The largest metadata id: the high bit is taken in uncompressed rows.
const MAX_METADATA_ID: u32 = i32::MAX as u32;

/// Appends one row of a Metadata block: at most 65,535 bytes behind its 2 bytes of size.
///
/// The reference reader reads message templates, descriptions and key-values, and shows none of
/// them. It knows an event type by provider GUID and event id: of two rows with the same of both,
/// and other names or fields, the first decodes the events of both, even behind a flush of the
/// metadata.
///
/// Of the optional metadata, level and version are always written, the rest where the schema has
/// it. An opcode of 0 is written too: without one the reference reader derives opcode 1 or 2 from
/// names that end in `Start` or `Stop`, and cuts that ending off.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::MetadataRowTooLarge`],
/// [`FormatError::OptionalMetadataTooLarge`], and what [`types::field_descriptions`] returns. `out`
/// is then as it was.
pub fn metadata_row(id: u32, schema: &EventSchema, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let start = out.len();
    let result = row(id, schema, start, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Appends rows of [`metadata_row`], one behind the other, as one Metadata block, or as several
/// where they exceed a block, or as none where there are none.
///
/// # Errors
/// None where `rows` consists of whole rows. [`FormatError::BlockTooLarge`] otherwise, at worst.
pub fn metadata_block(rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    // The header's size, which excludes the size itself (an Event block's includes it).
    const NO_HEADER: [u8; 2] = [0; 2];
    split(BlockKind::Metadata, rows, &sized_row_ends(rows), |_| NO_HEADER, out)
}

fn row(id: u32, schema: &EventSchema, start: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    match id {
        0 => return Err(FormatError::ZeroId { kind: BlockKind::Metadata }),
        1..=MAX_METADATA_ID => {}
        _ => return Err(FormatError::IdTooLarge { kind: BlockKind::Metadata, id: id.into() }),
    }
    out.extend_from_slice(&[0; 2]);
    primitive::varuint(id.into(), out);
    primitive::string(schema.provider.name, out);
    primitive::varuint(schema.id.into(), out);
    primitive::string(schema.name, out);
    types::field_descriptions(schema.fields, out)?;
    optional_metadata(schema, out)?;

    let size = out.len() - start - 2;
    let row_size = u16::try_from(size)
        .map_err(|_| FormatError::MetadataRowTooLarge { event: schema.name, size })?;
    out[start..start + 2].copy_from_slice(&row_size.to_le_bytes());
    Ok(())
}

fn optional_metadata(schema: &EventSchema, out: &mut Vec<u8>) -> Result<(), FormatError> {
    const OPCODE: u8 = 1;
    const KEYWORDS: u8 = 3;
    const MESSAGE: u8 = 4;
    const DESCRIPTION: u8 = 5;
    const KEY_VALUE: u8 = 6;
    const PROVIDER_GUID: u8 = 7;
    const LEVEL: u8 = 8;
    const VERSION: u8 = 9;

    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    if let Some(opcode) = schema.opcode {
        out.extend_from_slice(&[OPCODE, opcode]);
    }
    if schema.keywords != 0 {
        out.push(KEYWORDS);
        out.extend_from_slice(&schema.keywords.to_le_bytes());
    }
    if let Some(message) = schema.message {
        out.push(MESSAGE);
        primitive::string(message, out);
    }
    if let Some(description) = schema.description {
        out.push(DESCRIPTION);
        primitive::string(description, out);
    }
    for (key, value) in schema.key_values {
        out.push(KEY_VALUE);
        primitive::string(key, out);
        primitive::string(value, out);
    }
    if let Some(guid) = &schema.provider.guid {
        out.push(PROVIDER_GUID);
        out.extend_from_slice(&primitive::guid(guid));
    }
    out.extend_from_slice(&[LEVEL, schema.level as u8, VERSION, schema.version]);

    let size = out.len() - start - 2;
    let optional_size = u16::try_from(size)
        .map_err(|_| FormatError::OptionalMetadataTooLarge { event: schema.name, size })?;
    out[start..start + 2].copy_from_slice(&optional_size.to_le_bytes());
    Ok(())
}
