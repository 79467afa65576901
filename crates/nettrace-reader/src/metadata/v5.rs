//! The parser of MetadataBlock objects of versions 4 and 5.
//!
//! Such a block has the header and the rows of an EventBlock. The payload of each row describes one
//! event type. Version 5 adds tags after the fields: one for the opcode, and `V2Params`, a second
//! list of fields that can have arrays. Producers lay out the fields of `V2Params` differently than
//! the specification. This parser follows the producers, as the reference reader does: a field is
//! its size in bytes (including the size itself), its name, its type.
//!
//! A field with an unknown type code has an unknown type. If fields do not state their sizes, the
//! fields after it are unknown, too. The end of a type that is nested too deep is found without
//! recursion.

use nettrace_format::{Cursor, Damage, Field, Metadata, Type, types::MAX_DEPTH, v6::MetadataRow};

use crate::{error::Read, framing::Format, rows::EventBlock};

/// How fields are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Type, name.
    V1,
    /// Size, name, type; arrays.
    V2,
}

/// Calls `define` with each row.
pub(super) fn parse_metadata<E: From<Damage>>(
    body: &[u8],
    base: u64,
    mut define: impl FnMut(MetadataRow) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = EventBlock::parse_head(Format::V5, body, base)?.rows;
    while rows.position < body.len() {
        let offset = base + rows.position as u64;
        let start = rows.next(body, base)?;
        let end = start + rows.header.payload_size as usize;
        let row = Cursor::new(&body[start..end], base + start as u64);
        define(MetadataRow::read(offset, row, Cursor::u32, parse_blob))?;
    }
    Ok(())
}

fn parse_blob(
    blob: &mut Cursor<'_>,
    metadata: &mut Metadata,
    damage: &mut Option<Damage>,
) -> Read<()> {
    let is_whole = match parse_head(blob, metadata) {
        Ok(is_whole) => is_whole,
        Err(end) => {
            metadata.fields.push(Field::damaged());
            return Err(end);
        }
    };
    // Otherwise the start of what follows is unknown.
    while is_whole && !blob.is_empty() {
        metadata.has_tags = true;
        let size = blob.u32()?;
        let kind = blob.u8()?;
        let mut tag = blob.sub(size as usize)?;
        let result = match kind {
            1 => tag.u8().map(|opcode| metadata.opcode = Some(opcode)),
            2 => {
                metadata.fields.clear();
                let whole = parse_fields(&mut tag, Layout::V2, 0, &mut metadata.fields);
                if whole.is_err() {
                    metadata.fields.push(Field::damaged());
                }
                whole.map(drop)
            }
            _ => Ok(()),
        };
        if let Err(end) = result {
            damage.get_or_insert(end);
        }
    }
    Ok(())
}

/// Returns whether the end of the fields was found.
fn parse_head(blob: &mut Cursor<'_>, metadata: &mut Metadata) -> Read<bool> {
    metadata.provider = blob.utf16z()?;
    metadata.event_id = blob.u32()?;
    metadata.name = blob.utf16z()?;
    metadata.keywords = blob.u64()?;
    metadata.version = blob.u32()? as u8;
    metadata.level = blob.u32()? as u8;
    // The description of the fields may be absent.
    if blob.is_empty() {
        return Ok(true);
    }
    parse_fields(blob, Layout::V1, 0, &mut metadata.fields)
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
        1 if depth > MAX_DEPTH && layout == Layout::V1 => (Type::Deep, skip_object(cursor)?),
        1 | 19 if depth > MAX_DEPTH && layout == Layout::V2 => (Type::Deep, true),
        1 => {
            let mut fields = Vec::new();
            let is_whole = parse_fields(cursor, layout, depth + 1, &mut fields)?;
            (Type::Object(fields), is_whole)
        }
        19 if layout == Layout::V2 => {
            let (element, is_whole) = parse_type(cursor, layout, depth + 1)?;
            match element.endless() {
                Some(endless) => (endless.clone(), is_whole),
                None => (Type::Array(Box::new(element)), is_whole),
            }
        }
        code => match plain_type(code) {
            Some(ty) => (ty, true),
            None => (Type::Unknown(code), false),
        },
    })
}

/// Skips the description of an object in [`Layout::V1`], after its type code. Returns whether its
/// end was found.
fn skip_object(cursor: &mut Cursor<'_>) -> Read<bool> {
    // How many fields each object still has that has begun.
    let mut open = vec![cursor.u32()?];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
        } else {
            *left -= 1;
            match cursor.u32()? {
                1 => {
                    open.push(cursor.u32()?);
                    continue;
                }
                code if plain_type(code).is_none() => return Ok(false),
                _ => {}
            }
        }
        // The name comes after the type.
        if !open.is_empty() {
            cursor.utf16z()?;
        }
    }
    Ok(true)
}

/// The types without others inside that versions 4 and 5 have.
fn plain_type(code: u32) -> Option<Type> {
    Type::from_plain_code(code).filter(|_| code <= 18)
}
