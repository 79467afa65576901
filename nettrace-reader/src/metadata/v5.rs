//! The parser of MetadataBlock objects of versions 4 and 5.
//!
//! Such a block has the head and the rows of an EventBlock; the payload of each row describes one
//! event type. Version 5 adds tags behind the fields: one for the opcode, and one for fields as
//! version 5 describes them (`V2Params`), which knows arrays. The text of the format and what
//! producers write differ in how those fields are laid out: here the latter counts, which the
//! reference reader takes. A field has its size in bytes first, itself included, then its name,
//! then its type.
//!
//! Where a type code is unknown, the fields of that event type are not known, and nothing else is
//! lost: so the reference reader does it too.

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

/// Why the fields of an event type could not be read.
enum Stop {
    Damage(Damage),
    /// Of a type that nobody knows: the event type has no fields then.
    UnknownType,
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// Hands every (row offset, event type) of the block to `define`.
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
    match parse_fields(&mut blob, Layout::V1, 0) {
        Ok(fields) => metadata.fields = fields,
        // What is behind it cannot be found.
        Err(Stop::UnknownType) => return Ok(metadata),
        Err(Stop::Damage(damage)) => return Err(damage),
    }
    while !blob.is_empty() {
        metadata.has_tags = true;
        let size = blob.u32()?;
        let kind = blob.u8()?;
        let mut tag = blob.sub(size as usize)?;
        match kind {
            1 => metadata.opcode = Some(tag.u8()?),
            2 => {
                metadata.fields = match parse_fields(&mut tag, Layout::V2, 0) {
                    Ok(fields) => fields,
                    Err(Stop::UnknownType) => Vec::new(),
                    Err(Stop::Damage(damage)) => return Err(damage),
                }
            }
            _ => {}
        }
    }
    Ok(metadata)
}

fn parse_fields(cursor: &mut Cursor<'_>, layout: Layout, depth: u32) -> Result<Vec<Field>, Stop> {
    let count = cursor.u32()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push(match layout {
            Layout::V1 => {
                let ty = parse_type(cursor, layout, depth)?;
                Field { name: cursor.utf16z()?, ty }
            }
            Layout::V2 => {
                let at = *cursor;
                let size = cursor.u32()?.checked_sub(4);
                let size = size.ok_or_else(|| at.damage("a field is smaller than its size"))?;
                let mut field = cursor.sub(size as usize)?;
                Field { name: field.utf16z()?, ty: parse_type(&mut field, layout, depth)? }
            }
        });
    }
    Ok(fields)
}

fn parse_type(cursor: &mut Cursor<'_>, layout: Layout, depth: u32) -> Result<Type, Stop> {
    if depth > MAX_DEPTH {
        return Err(cursor.damage("a type nests too deep").into());
    }
    Ok(match cursor.u32()? {
        1 => Type::Object(parse_fields(cursor, layout, depth + 1)?),
        19 if layout == Layout::V2 => Type::Array(Box::new(parse_type(cursor, layout, depth + 1)?)),
        code => plain_type(code).ok_or(Stop::UnknownType)?,
    })
}
