//! The parser of Metadata blocks.

use crate::{
    cursor::{Cursor, Read},
    error::Damage,
    framing::Format,
    schema::{Field, Metadata, Type},
};

mod v5;

/// How many levels deep types may be nested. Deeper types are [`Type::Deep`]. Real types have few
/// levels.
const MAX_DEPTH: u32 = 48;

/// What a row describes.
#[derive(Debug)]
pub(crate) struct Described {
    /// The offset of the row.
    pub(crate) offset: u64,
    /// The event type. If the row is damaged, it is what stands before the damage; `None` if not
    /// even its id does.
    pub(crate) metadata: Option<Metadata>,
    pub(crate) damage: Option<Damage>,
}

impl Described {
    /// Parses a row. `parse` writes what it finds to its second argument, and notes in its third
    /// what is damaged in parts whose end is known.
    fn parse<'a>(
        offset: u64,
        mut row: Cursor<'a>,
        id: impl FnOnce(&mut Cursor<'a>) -> Read<u32>,
        parse: impl FnOnce(&mut Cursor<'a>, &mut Metadata, &mut Option<Damage>) -> Read<()>,
    ) -> Self {
        let mut metadata = match id(&mut row) {
            Ok(id) => Metadata { id, ..Metadata::default() },
            Err(damage) => return Self { offset, metadata: None, damage: Some(damage) },
        };
        let mut damage = None;
        if let Err(end) = parse(&mut row, &mut metadata, &mut damage) {
            damage.get_or_insert(end);
        }
        metadata.is_damaged = damage.is_some();
        Self { offset, metadata: Some(metadata), damage }
    }
}

/// Calls `define` with each row in a Metadata block. `body` is the whole body of the block, which
/// begins at stream offset `base`.
pub(crate) fn parse_metadata<E: From<Damage>>(
    format: Format,
    body: &[u8],
    base: u64,
    mut define: impl FnMut(Described) -> Result<(), E>,
) -> Result<(), E> {
    if format == Format::V5 {
        return v5::parse_metadata(body, base, define);
    }
    let mut cursor = Cursor::new(body, base);
    let header = cursor.u16()?;
    cursor.bytes(header.into())?;
    while !cursor.is_empty() {
        let offset = cursor.offset();
        let size = cursor.u16()?;
        define(Described::parse(offset, cursor.sub(size.into())?, Cursor::varuint32, parse_row))?;
    }
    Ok(())
}

/// The fields from the damage on.
fn damaged_field() -> Field {
    Field { name: String::new(), ty: Type::Damaged }
}

fn parse_row(
    row: &mut Cursor<'_>,
    metadata: &mut Metadata,
    damage: &mut Option<Damage>,
) -> Read<()> {
    if let Err(end) = parse_head(row, metadata, damage) {
        metadata.fields.push(damaged_field());
        return Err(end);
    }
    let size = row.u16()?;
    let mut optional = row.sub(size.into())?;
    while !optional.is_empty() {
        match optional.u8()? {
            1 => metadata.opcode = Some(optional.u8()?),
            3 => metadata.keywords = optional.u64()?,
            4 => metadata.message_template = Some(optional.string()?),
            5 => metadata.description = Some(optional.string()?),
            6 => metadata.key_values.push((optional.string()?, optional.string()?)),
            7 => metadata.provider_guid = Some(optional.array()?),
            8 => metadata.level = optional.u8()?,
            9 => metadata.version = optional.u8()?,
            // The size of this part is unknown, but that of all optional parts is known.
            _ => {
                metadata.has_unknown_parts = true;
                break;
            }
        }
    }
    Ok(())
}

fn parse_head(
    row: &mut Cursor<'_>,
    metadata: &mut Metadata,
    damage: &mut Option<Damage>,
) -> Read<()> {
    metadata.provider = row.string()?;
    metadata.event_id = row.varuint32()?;
    metadata.name = row.string()?;
    parse_fields(row, 0, &mut metadata.fields, damage)
}

/// The end of each field is known, so damage in one of them is only noted.
fn parse_fields(
    cursor: &mut Cursor<'_>,
    depth: u32,
    fields: &mut Vec<Field>,
    damage: &mut Option<Damage>,
) -> Read<()> {
    let count = cursor.u16()?;
    for _ in 0..count {
        let size = cursor.u16()?;
        let mut field = cursor.sub(size.into())?;
        let mut parsed = damaged_field();
        if let Err(end) = parse_field(&mut field, depth, &mut parsed, damage) {
            damage.get_or_insert(end);
        }
        fields.push(parsed);
    }
    Ok(())
}

fn parse_field(
    cursor: &mut Cursor<'_>,
    depth: u32,
    field: &mut Field,
    damage: &mut Option<Damage>,
) -> Read<()> {
    field.name = cursor.string()?;
    field.ty = parse_type(cursor, depth, damage)?;
    Ok(())
}

/// A type that cannot be decoded is [`Type::Unknown`] or [`Type::Deep`]. The rest of the field's
/// description is then skipped, because its start is unknown.
fn parse_type(cursor: &mut Cursor<'_>, depth: u32, damage: &mut Option<Damage>) -> Read<Type> {
    let at = *cursor;
    let located = |ty: Type| match ty.fixed_size() {
        Some(_) => Ok(Box::new(ty)),
        None => Err(at.damage("a RelLoc or DataLoc has elements without a fixed size")),
    };
    Ok(match cursor.u8()? {
        1 | 19 | 22 | 24 | 25 if depth > MAX_DEPTH => Type::Deep,
        1 => {
            let mut fields = Vec::new();
            parse_fields(cursor, depth + 1, &mut fields, damage)?;
            Type::Object(fields)
        }
        code @ (19 | 22 | 24 | 25) => {
            let element = parse_type(cursor, depth + 1, damage)?;
            match (code, element.endless()) {
                (_, Some(endless)) => endless.clone(),
                (19, _) => Type::Array(Box::new(element)),
                (22, _) => Type::FixedArray(Box::new(element), cursor.u16()?),
                (24, _) => Type::RelLoc(located(element)?),
                _ => Type::DataLoc(located(element)?),
            }
        }
        20 => Type::VarInt,
        21 => Type::VarUInt,
        23 => Type::Utf8CodeUnit,
        26 => Type::Boolean8,
        code => plain_type(code.into()).unwrap_or(Type::Unknown(code.into())),
    })
}

/// Whether a type code is one of version 6.
pub(crate) fn is_type_code(code: u32) -> bool {
    matches!(code, 1 | 19..=26) || plain_type(code).is_some()
}

/// The types without parts that have the same code in all versions.
fn plain_type(code: u32) -> Option<Type> {
    Some(match code {
        3 => Type::Boolean,
        4 => Type::Utf16CodeUnit,
        5 => Type::Int8,
        6 => Type::UInt8,
        7 => Type::Int16,
        8 => Type::UInt16,
        9 => Type::Int32,
        10 => Type::UInt32,
        11 => Type::Int64,
        12 => Type::UInt64,
        13 => Type::Single,
        14 => Type::Double,
        15 => Type::Decimal,
        16 => Type::DateTime,
        17 => Type::Guid,
        18 => Type::Utf16String,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Format, Metadata, Type, parse_metadata};
    use crate::{error::Damage, schema::Field};

    fn parse(bytes: &[u8]) -> Result<Vec<Metadata>, Damage> {
        let mut out = Vec::new();
        parse_metadata(Format::V6, bytes, 0, |row| {
            out.extend(row.metadata);
            row.damage.map_or(Ok(()), Err)
        })?;
        Ok(out)
    }

    #[test]
    fn a_row_by_hand() {
        #[rustfmt::skip]
        let bytes = [
            2, 0, 0xAA, 0xBB, // header, not interpreted
            32, 0, // row size
            7, 1, b'P', 9, 1, b'E', // id, provider, event id, name
            2, 0, // two fields
            3, 0, 1, b'a', 11, // i64
            6, 0, 1, b'b', 22, 13, 3, 0, // [f32; 3]; the size covers the type's parts
            9, 0, // optional metadata
            1, 10, // opcode
            4, 2, b'h', b'i', // template
            8, 3, // level
            9, // version cut off by the size of the optional part
        ];
        assert_eq!(parse(&bytes).unwrap_err().what, "it ends inside a field");
        let mut bytes = bytes.to_vec();
        bytes.extend([5, 0xEE]); // version 5, then a byte of the future
        bytes[4] = 34;
        bytes[27] = 10;
        assert_eq!(
            parse(&bytes).unwrap(),
            [Metadata {
                id: 7,
                provider: "P".into(),
                event_id: 9,
                name: "E".into(),
                fields: vec![
                    Field { name: "a".into(), ty: Type::Int64 },
                    Field { name: "b".into(), ty: Type::FixedArray(Type::Single.into(), 3) },
                ],
                opcode: Some(10),
                level: 3,
                version: 5,
                message_template: Some("hi".into()),
                ..Metadata::default()
            }]
        );
    }

    #[test]
    fn deep_types_do_not_exhaust_the_stack() {
        let mut row = vec![1, 0, 1, 0, 1, 0];
        let field = vec![19; 60_000];
        row.extend((field.len() as u16 + 1).to_le_bytes());
        row.push(0);
        row.extend(field);
        row.extend([0, 0]);
        let mut bytes = vec![0, 0];
        bytes.extend((row.len() as u16).to_le_bytes());
        bytes.extend(row);
        let fields = &parse(&bytes).unwrap()[0].fields;
        assert_eq!(fields[..], [Field { name: String::new(), ty: Type::Deep }]);
    }

    #[test]
    fn located_elements_need_a_size() {
        for element in [18, 20, 21, 19] {
            let bytes = [0, 0, 14, 0, 1, 0, 1, 0, 1, 0, 4, 0, 1, b'x', 24, element, 0, 0, 0, 0_u8];
            assert!(parse(&bytes).is_err(), "{element}");
        }
    }
}
