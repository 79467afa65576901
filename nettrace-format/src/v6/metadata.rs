//! Metadata: one row for each event type, with its names, the types of its fields and optional
//! parts.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use nettrace_event::{EventSchema, Place};

use crate::{
    blocks::BlockKind,
    error::FormatError,
    primitive,
    v6::{block::split, rust_types::rust_types, thread::sized_row_ends, types},
};

/// The largest metadata id: uncompressed rows use the high bit for something else.
const MAX_METADATA_ID: u32 = i32::MAX as u32;

/// Appends one row of a Metadata block: a size of 2 bytes, then at most 65,535 bytes.
///
/// The reference reader reads message templates, descriptions and key-values, but does not show
/// them. It identifies an event type by provider GUID and event id. If two rows have the same GUID
/// and id but other names or fields, it decodes the events of both with the first row, even after a
/// flush of the metadata.
///
/// Level and version are always written; the other optional parts only if the schema has them. An
/// opcode of 0 is written too: without an opcode, the reference reader derives opcode 1 or 2 from
/// names that end in `Start` or `Stop`, and cuts off that ending.
///
/// [Key-values](super::RUST_TYPE_KEY) state the Rust types of fields that version 6 cannot
/// describe, and others the [place](nettrace_event::Place) of the type: `module`, `file` and `line`,
/// unless its author gave it key-values of that name. They are left out of a row that would exceed
/// its limit with them.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::MetadataRowTooLarge`],
/// [`FormatError::OptionalMetadataTooLarge`], and those of [`types::field_descriptions`]. An error
/// leaves `out` unchanged.
///
/// [`metadata_block`] has an example.
pub fn metadata_row(id: u32, schema: &EventSchema, out: &mut Vec<u8>) -> Result<(), FormatError> {
    numbered_row(id, schema.id.into(), schema, out)
}

/// [`metadata_row`] with another event id.
pub(super) fn numbered_row(
    id: u32,
    event_id: u32,
    schema: &EventSchema,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let start = out.len();
    let mut more = place(schema);
    more.extend(rust_types(schema.fields));
    let mut result = row((id, event_id), schema, &more, start, out);
    if result.is_err() && !more.is_empty() {
        out.truncate(start);
        result = row((id, event_id), schema, &[], start, out);
    }
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Appends rows of [`metadata_row`]. Writes no Metadata block without rows, and several if one
/// block cannot hold them.
///
/// ```
/// use nettrace_format::v6::{metadata_block, metadata_row};
/// # use nettrace_format::example::SALE;
///
/// let (mut rows, mut out) = (Vec::new(), Vec::new());
/// metadata_row(1, &SALE, &mut rows)?;
/// metadata_block(&rows, &mut out)?;
/// assert!(out.ends_with(&rows));
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// None if `rows` consists of whole rows; otherwise possibly [`FormatError::BlockTooLarge`].
pub fn metadata_block(rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    // The size of an empty header. It does not count itself (that of an Event block does).
    const NO_HEADER: [u8; 2] = [0; 2];
    split(BlockKind::Metadata, rows, &sized_row_ends(rows), |_| NO_HEADER, out)
}

/// The key-values that tell where a type is.
fn place(schema: &EventSchema) -> Vec<(String, String)> {
    let Place { module, file, line, .. } = schema.place;
    let line = if line == 0 { String::new() } else { line.to_string() };
    let all = [("module", module), ("file", file), ("line", &line)];
    let is_new = |(key, value): &(&str, &str)| {
        !value.is_empty() && schema.key_values.iter().all(|(own, _)| own != key)
    };
    all.into_iter().filter(is_new).map(|(key, value)| (key.into(), value.into())).collect()
}

fn row(
    (id, event_id): (u32, u32),
    schema: &EventSchema,
    more: &[(String, String)],
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    match id {
        0 => return Err(FormatError::ZeroId { kind: BlockKind::Metadata }),
        1..=MAX_METADATA_ID => {}
        _ => return Err(FormatError::IdTooLarge { kind: BlockKind::Metadata, id: id.into() }),
    }
    out.extend_from_slice(&[0; 2]);
    primitive::varuint(id.into(), out);
    primitive::string(schema.provider.name, out);
    primitive::varuint(event_id.into(), out);
    primitive::string(schema.name, out);
    types::field_descriptions(schema.fields, out)?;
    optional_metadata(schema, more, out)?;

    let size = out.len() - start - 2;
    let row_size = u16::try_from(size)
        .map_err(|_| FormatError::MetadataRowTooLarge { event: schema.name, size })?;
    out[start..start + 2].copy_from_slice(&row_size.to_le_bytes());
    Ok(())
}

fn optional_metadata(
    schema: &EventSchema,
    more: &[(String, String)],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
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
    let more = more.iter().map(|(key, value)| (&**key, &**value));
    for (key, value) in schema.key_values.iter().copied().chain(more) {
        out.push(KEY_VALUE);
        primitive::string(key, out);
        primitive::string(value, out);
    }
    if let Some(guid) = &schema.provider.guid {
        out.push(PROVIDER_GUID);
        out.extend_from_slice(&primitive::guid(guid));
    }
    out.extend_from_slice(&[LEVEL, schema.level.number(), VERSION, schema.version]);

    let size = out.len() - start - 2;
    let optional_size = u16::try_from(size)
        .map_err(|_| FormatError::OptionalMetadataTooLarge { event: schema.name, size })?;
    out[start..start + 2].copy_from_slice(&optional_size.to_le_bytes());
    Ok(())
}
