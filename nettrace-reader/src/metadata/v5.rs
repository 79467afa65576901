//! The parser of MetadataBlock objects of versions 4 and 5.
//!
//! Such a block has the header and the rows of an EventBlock. The payload of each row describes one
//! event type. Version 5 adds tags after the fields: one for the opcode, and `V2Params`, a second
//! list of fields that can have arrays. Producers lay out the fields of `V2Params` differently than
//! the specification. This parser follows the producers, as the reference reader does: a field is
//! its size in bytes (including the size itself), its name, its type.
//!
//! A field with an unknown type code has an unknown type. If fields do not state their sizes, the
//! fields after it are unknown, too.

use crate::{
    cursor::{Cursor, Read},
    error::Damage,
    framing::Format,
    metadata::{MAX_DEPTH, plain_type},
    rows::EventBlock,
    schema::{Field, Metadata, Type},
};

/// How fields are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Type, name.
    V1,
    /// Size, name, type; arrays.
    V2,
}

/// Calls `define` with the row offset and event type of each row.
pub(super) fn parse_metadata<E: From<Damage>>(
    body: &[u8],
    base: u64,
    mut define: impl FnMut(u64, Metadata) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = EventBlock::parse_head(Format::V5, body, base)?.rows;
    while rows.position < body.len() {
        let offset = base + rows.position as u64;
        let start = rows.next(body, base)?;
        let end = start + rows.header.payload_size as usize;
        define(offset, parse_blob(Cursor::new(&body[start..end], base + start as u64))?)?;
    }
    Ok(())
}

fn parse_blob(mut blob: Cursor<'_>) -> Read<Metadata> {
    let mut metadata = Metadata {
        id: blob.u32()?,
        provider: blob.utf16z()?,
        event_id: blob.u32()?,
        name: blob.utf16z()?,
        keywords: blob.u64()?,
        version: blob.u32()? as u8,
        level: blob.u32()? as u8,
        ..Metadata::default()
    };
    // The description of the fields may be absent.
    if blob.is_empty() {
        return Ok(metadata);
    }
    let is_whole = parse_fields(&mut blob, Layout::V1, 0, &mut metadata.fields)?;
    if !is_whole {
        // The start of what follows is unknown.
        return Ok(metadata);
    }
    while !blob.is_empty() {
        metadata.has_tags = true;
        let size = blob.u32()?;
        let kind = blob.u8()?;
        let mut tag = blob.sub(size as usize)?;
        match kind {
            1 => metadata.opcode = Some(tag.u8()?),
            2 => {
                metadata.fields.clear();
                parse_fields(&mut tag, Layout::V2, 0, &mut metadata.fields)?;
            }
            _ => {}
        }
    }
    Ok(metadata)
}

/// Returns whether the end of the fields was found. It cannot be found after a field of an unknown
/// type that does not state its size. Such a field is the last one, and has no name.
fn parse_fields(
    cursor: &mut Cursor<'_>,
    layout: Layout,
    depth: u32,
    fields: &mut Vec<Field>,
) -> Read<bool> {
    let count = cursor.u32()?;
    for _ in 0..count {
        match layout {
            Layout::V1 => {
                let (ty, is_whole) = parse_type(cursor, layout, depth)?;
                let name = if is_whole { cursor.utf16z()? } else { String::new() };
                fields.push(Field { name, ty });
                if !is_whole {
                    return Ok(false);
                }
            }
            Layout::V2 => {
                let at = *cursor;
                let size = cursor.u32()?.checked_sub(4);
                let size = size.ok_or_else(|| at.damage("a field is smaller than its size"))?;
                let mut field = cursor.sub(size as usize)?;
                let name = field.utf16z()?;
                fields.push(Field { name, ty: parse_type(&mut field, layout, depth)?.0 });
            }
        }
    }
    Ok(true)
}

/// Also returns whether the end of the type's description was found.
fn parse_type(cursor: &mut Cursor<'_>, layout: Layout, depth: u32) -> Read<(Type, bool)> {
    Ok(match cursor.u32()? {
        code @ (1 | 19) if depth > MAX_DEPTH => (Type::Unknown(code), false),
        1 => {
            let mut fields = Vec::new();
            let is_whole = parse_fields(cursor, layout, depth + 1, &mut fields)?;
            (Type::Object(fields), is_whole)
        }
        19 if layout == Layout::V2 => {
            let (element, is_whole) = parse_type(cursor, layout, depth + 1)?;
            match element.unknown_code() {
                Some(code) => (Type::Unknown(code), is_whole),
                None => (Type::Array(Box::new(element)), is_whole),
            }
        }
        code => match plain_type(code) {
            Some(ty) => (ty, true),
            None => (Type::Unknown(code), false),
        },
    })
}
