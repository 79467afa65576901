//! The parser of Metadata blocks.

use crate::{
    cursor::{Cursor, Read},
    error::Damage,
    framing::Format,
    schema::{Field, Metadata, Type},
};

mod v5;

/// Types may nest this deep; deeper ones are taken for damage. Nothing real comes near.
const MAX_DEPTH: u32 = 48;

/// Hands every (row offset, event type) of a Metadata block to `define`. `body` is the whole body
/// of the block, which stands at stream offset `base`.
pub(crate) fn parse_metadata<E: From<Damage>>(
    format: Format,
    body: &[u8],
    base: u64,
    mut define: impl FnMut(u64, Metadata) -> Result<(), E>,
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
        define(offset, parse_row(cursor.sub(size.into())?)?)?;
    }
    Ok(())
}

fn parse_row(mut row: Cursor<'_>) -> Read<Metadata> {
    let mut metadata = Metadata {
        id: row.varuint32()?,
        provider: row.string()?,
        event_id: row.varuint32()?,
        name: row.string()?,
        fields: parse_fields(&mut row, 0)?,
        ..Metadata::default()
    };
    let size = row.u16()?;
    let mut optional = row.sub(size.into())?;
    while !optional.is_empty() {
        let at = optional;
        match optional.u8()? {
            1 => metadata.opcode = Some(optional.u8()?),
            3 => metadata.keywords = optional.u64()?,
            4 => metadata.message_template = Some(optional.string()?),
            5 => metadata.description = Some(optional.string()?),
            6 => metadata.key_values.push((optional.string()?, optional.string()?)),
            7 => metadata.provider_guid = Some(optional.array()?),
            8 => metadata.level = optional.u8()?,
            9 => metadata.version = optional.u8()?,
            _ => return Err(at.damage("optional metadata is of an unknown kind")),
        }
    }
    Ok(metadata)
}

fn parse_fields(cursor: &mut Cursor<'_>, depth: u32) -> Read<Vec<Field>> {
    let count = cursor.u16()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let size = cursor.u16()?;
        let mut field = cursor.sub(size.into())?;
        fields.push(Field { name: field.string()?, ty: parse_type(&mut field, depth)? });
    }
    Ok(fields)
}

fn parse_type(cursor: &mut Cursor<'_>, depth: u32) -> Read<Type> {
    let at = *cursor;
    if depth > MAX_DEPTH {
        return Err(at.damage("a type nests too deep"));
    }
    let element = |cursor: &mut Cursor<'_>| Ok(Box::new(parse_type(cursor, depth + 1)?));
    let fixed = |cursor: &mut Cursor<'_>| {
        let ty = element(cursor)?;
        match ty.fixed_size() {
            Some(1..) => Ok(ty),
            _ => Err(at.damage("a RelLoc or DataLoc has elements without a fixed size")),
        }
    };
    Ok(match cursor.u8()? {
        1 => Type::Object(parse_fields(cursor, depth + 1)?),
        19 => Type::Array(element(cursor)?),
        20 => Type::VarInt,
        21 => Type::VarUInt,
        22 => Type::FixedArray(element(cursor)?, cursor.u16()?),
        23 => Type::Utf8CodeUnit,
        24 => Type::RelLoc(fixed(cursor)?),
        25 => Type::DataLoc(fixed(cursor)?),
        26 => Type::Boolean8,
        code => {
            plain_type(code.into()).ok_or_else(|| at.damage("a field has an unknown type code"))?
        }
    })
}

/// The types that every version has under the same code and that have no parts.
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
        parse_metadata(Format::V6, bytes, 0, |_, metadata| {
            out.push(metadata);
            Ok::<_, Damage>(())
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
        let mut bytes = vec![0, 0];
        bytes.extend((row.len() as u16).to_le_bytes());
        bytes.extend(row);
        assert_eq!(parse(&bytes).unwrap_err().what, "a type nests too deep");
    }

    #[test]
    fn located_elements_need_a_size() {
        for element in [18, 20, 21, 19] {
            let bytes = [0, 0, 14, 0, 1, 0, 1, 0, 1, 0, 4, 0, 1, b'x', 24, element, 0, 0, 0, 0_u8];
            assert!(parse(&bytes).is_err(), "{element}");
        }
    }
}
