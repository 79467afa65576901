//! Metadata: one row for each event type, with its names, the types of its fields and optional
//! parts.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use nettrace_event::{EventSchema, Place, guid};

use crate::{
    blocks::BlockKind,
    cursor::{Cursor, Damage},
    error::FormatError,
    primitive,
    schema::{Field, Metadata},
    v6::{
        block::split,
        rust_types::rust_types,
        thread::sized_row_ends,
        types::{self, Undescribed, begin_sized, end_sized, put_fields, read_fields},
    },
};

// The kinds of optional parts.
const OPCODE: u8 = 1;
const KEYWORDS: u8 = 3;
const MESSAGE: u8 = 4;
const DESCRIPTION: u8 = 5;
const KEY_VALUE: u8 = 6;
const PROVIDER_GUID: u8 = 7;
const LEVEL: u8 = 8;
const VERSION: u8 = 9;

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
/// [Key-values](nettrace_event::keys::RUST_TYPE) state the Rust types of fields that version 6 cannot
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
    match id {
        0 => return Err(FormatError::ZeroId { kind: BlockKind::Metadata }),
        1..=MAX_METADATA_ID => {}
        _ => return Err(FormatError::IdTooLarge { kind: BlockKind::Metadata, id: id.into() }),
    }
    types::check_fields(schema.fields)?;
    let pair = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
    let mut metadata = Metadata {
        id,
        provider: schema.provider.name.into(),
        event_id: schema.id.into(),
        name: schema.name.into(),
        fields: types::described(schema.fields),
        opcode: schema.opcode,
        keywords: schema.keywords,
        level: schema.level.number(),
        version: schema.version,
        message_template: schema.message.map(String::from),
        description: schema.description.map(String::from),
        provider_guid: schema.provider.guid.as_ref().map(guid::swapped),
        key_values: schema.key_values.iter().map(pair).collect(),
        ..Metadata::default()
    };
    let own = metadata.key_values.len();
    metadata.key_values.extend(place(schema));
    metadata.key_values.extend(rust_types(schema.fields));
    let mut result = put_row(&metadata, out);
    if result.is_err() && metadata.key_values.len() > own {
        metadata.key_values.truncate(own);
        result = put_row(&metadata, out);
    }
    result.map_err(|refused| match refused {
        Refused::Fields(error) => types::refused(error, schema.fields),
        Refused::Optional(size) => {
            FormatError::OptionalMetadataTooLarge { event: schema.name, size }
        }
        Refused::Row(size) => FormatError::MetadataRowTooLarge { event: schema.name, size },
    })
}

/// Appends a row of a Metadata block for a type as another stream describes it.
///
/// It may be one that no derive makes and not every reader can handle: with arrays of arrays, a
/// level beyond 5, an event id beyond 16 bits. Level and version are always written, everything
/// else only if it is present.
///
/// # Errors
/// [`FormatError::DescriptionTooLarge`] if a part exceeds its limit of 65,535 bytes, and
/// [`FormatError::NoTypeCode`] if version 6 does not have the type of a field. An error leaves
/// `out` unchanged.
///
/// ```
/// use nettrace_format::{
///     Damage, Field, Metadata, Type,
///     v6::{put_metadata_row, read, read_metadata_rows, metadata_block},
/// };
///
/// // An array of arrays, which no schema of this crate has.
/// let rows = Type::Array(Box::new(Type::Array(Box::new(Type::UInt8))));
/// let image = Metadata {
///     id: 1,
///     provider: "Shop".into(),
///     name: "Image".into(),
///     fields: vec![Field::new("rows", rows)],
///     level: 4,
///     ..Metadata::default()
/// };
/// let (mut rows, mut out) = (Vec::new(), Vec::new());
/// put_metadata_row(&image, &mut rows)?;
/// metadata_block(&rows, &mut out)?;
///
/// let block = read::blocks(&out).next().expect("one block")?;
/// read_metadata_rows(block.body, 0, |row| {
///     assert_eq!(row.metadata.as_ref(), Some(&image));
///     Ok::<(), Damage>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn put_metadata_row(metadata: &Metadata, out: &mut Vec<u8>) -> Result<(), FormatError> {
    put_row(metadata, out).map_err(|refused| match refused {
        Refused::Fields(Undescribed::NoCode) => FormatError::NoTypeCode,
        Refused::Fields(Undescribed::Count(size) | Undescribed::TooLarge(_, size))
        | Refused::Optional(size)
        | Refused::Row(size) => FormatError::DescriptionTooLarge { id: metadata.id, size },
    })
}

/// Why a row cannot be written: a part of it, or this many bytes.
enum Refused {
    Fields(Undescribed),
    Optional(usize),
    Row(usize),
}

fn put_row(metadata: &Metadata, out: &mut Vec<u8>) -> Result<(), Refused> {
    let start = begin_sized(out);
    primitive::varuint(metadata.id.into(), out);
    primitive::string(&metadata.provider, out);
    primitive::varuint(metadata.event_id.into(), out);
    primitive::string(&metadata.name, out);
    let result = put_fields(&metadata.fields, out)
        .map_err(Refused::Fields)
        .and_then(|()| put_optional(metadata, out).map_err(Refused::Optional))
        .and_then(|()| end_sized(start, out).map_err(Refused::Row));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn put_optional(metadata: &Metadata, out: &mut Vec<u8>) -> Result<(), usize> {
    let start = begin_sized(out);
    if let Some(opcode) = metadata.opcode {
        out.extend_from_slice(&[OPCODE, opcode]);
    }
    if metadata.keywords != 0 {
        out.push(KEYWORDS);
        out.extend_from_slice(&metadata.keywords.to_le_bytes());
    }
    let texts = [(MESSAGE, &metadata.message_template), (DESCRIPTION, &metadata.description)];
    for (kind, text) in texts {
        if let Some(text) = text {
            out.push(kind);
            primitive::string(text, out);
        }
    }
    for (key, value) in &metadata.key_values {
        out.push(KEY_VALUE);
        primitive::string(key, out);
        primitive::string(value, out);
    }
    if let Some(guid) = &metadata.provider_guid {
        out.push(PROVIDER_GUID);
        out.extend_from_slice(guid);
    }
    out.extend_from_slice(&[LEVEL, metadata.level, VERSION, metadata.version]);
    end_sized(start, out)
}

/// A row of a Metadata block.
#[derive(Clone, Debug)]
pub struct MetadataRow {
    /// Where it begins, in bytes from the start of the stream.
    pub offset: u64,
    /// The event type. If the row is damaged, it is what stands before the damage; `None` if not
    /// even its id does.
    pub metadata: Option<Metadata>,
    /// The first damage in it.
    pub damage: Option<Damage>,
}

/// The result of reading a part of a row.
type ReadResult = Result<(), Damage>;

impl MetadataRow {
    /// Reads a row in the layout of any version. `parse` writes what it finds to its second
    /// argument, and notes in its third what is damaged in parts whose end is known.
    pub fn read<'a>(
        offset: u64,
        mut row: Cursor<'a>,
        id: impl FnOnce(&mut Cursor<'a>) -> Result<u32, Damage>,
        parse: impl FnOnce(&mut Cursor<'a>, &mut Metadata, &mut Option<Damage>) -> ReadResult,
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
/// begins at offset `base` of the stream.
///
/// # Errors
/// [`Damage`] if a row is cut, and what `define` returns. Damage within a row is in the row.
///
/// [`put_metadata_row`] has an example.
pub fn read_metadata_rows<E: From<Damage>>(
    body: &[u8],
    base: u64,
    mut define: impl FnMut(MetadataRow) -> Result<(), E>,
) -> Result<(), E> {
    let mut cursor = Cursor::new(body, base);
    let header = cursor.u16()?;
    cursor.bytes(header.into())?;
    while !cursor.is_empty() {
        let offset = cursor.offset();
        let size = cursor.u16()?;
        let row = cursor.sub(size.into())?;
        define(MetadataRow::read(offset, row, Cursor::varuint32, read_row))?;
    }
    Ok(())
}

fn read_row(
    row: &mut Cursor<'_>,
    metadata: &mut Metadata,
    damage: &mut Option<Damage>,
) -> Result<(), Damage> {
    if let Err(end) = read_head(row, metadata, damage) {
        metadata.fields.push(Field::damaged());
        return Err(end);
    }
    let size = row.u16()?;
    let mut optional = row.sub(size.into())?;
    while !optional.is_empty() {
        match optional.u8()? {
            OPCODE => metadata.opcode = Some(optional.u8()?),
            KEYWORDS => metadata.keywords = optional.u64()?,
            MESSAGE => metadata.message_template = Some(optional.string()?),
            DESCRIPTION => metadata.description = Some(optional.string()?),
            KEY_VALUE => metadata.key_values.push((optional.string()?, optional.string()?)),
            PROVIDER_GUID => metadata.provider_guid = Some(optional.array()?),
            LEVEL => metadata.level = optional.u8()?,
            VERSION => metadata.version = optional.u8()?,
            // The size of this part is unknown, but that of all optional parts is known.
            _ => {
                metadata.has_unknown_parts = true;
                break;
            }
        }
    }
    Ok(())
}

fn read_head(
    row: &mut Cursor<'_>,
    metadata: &mut Metadata,
    damage: &mut Option<Damage>,
) -> Result<(), Damage> {
    metadata.provider = row.string()?;
    metadata.event_id = row.varuint32()?;
    metadata.name = row.string()?;
    read_fields(row, 0, &mut metadata.fields, damage)
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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::schema::Type;

    fn parse(bytes: &[u8]) -> Result<Vec<Metadata>, Damage> {
        let mut out = Vec::new();
        read_metadata_rows(bytes, 0, |row| {
            out.extend(row.metadata);
            row.damage.map_or(Ok(()), Err)
        })?;
        Ok(out)
    }

    #[test]
    fn a_row_by_hand_is_read() {
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
                    Field::new("a", Type::Int64),
                    Field::new("b", Type::FixedArray(Type::Single.into(), 3)),
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
        assert_eq!(fields[..], [Field::new("", Type::Deep)]);
    }

    #[test]
    fn located_elements_need_a_size() {
        for element in [18, 20, 21, 19] {
            let bytes = [0, 0, 14, 0, 1, 0, 1, 0, 1, 0, 4, 0, 1, b'x', 24, element, 0, 0, 0, 0_u8];
            assert!(parse(&bytes).is_err(), "{element}");
        }
    }

    #[test]
    fn a_row_by_hand_is_written_and_read() {
        let array = Type::Array;
        let nested = vec![Field::new("b", Type::FixedArray(Type::UInt8.into(), 3))];
        let metadata = Metadata {
            id: 300,
            provider: "P".into(),
            event_id: 70_000,
            fields: vec![
                Field::new("a", array(array(Type::VarInt.into()).into())),
                Field::new("o", Type::Object(nested)),
            ],
            level: 200,
            version: 2,
            key_values: vec![("k".into(), "v".into())],
            ..Metadata::default()
        };
        let mut out = vec![0, 0];
        put_metadata_row(&metadata, &mut out).unwrap();
        #[rustfmt::skip]
        let expected = [
            0, 0, 43, 0,
            0xAC, 2, 1, b'P', 0xF0, 0xA2, 4, 0,
            2, 0,
            5, 0, 1, b'a', 19, 19, 20,
            13, 0, 1, b'o', 1, 1, 0, 6, 0, 1, b'b', 22, 6, 3, 0,
            9, 0, 6, 1, b'k', 1, b'v', 8, 200, 9, 2,
        ];
        assert_eq!(out, expected);
        assert_eq!(parse(&out).unwrap(), [metadata]);
    }

    #[test]
    fn what_cannot_be_written_changes_nothing() {
        let mut metadata = Metadata { id: 7, name: "n".repeat(70_000), ..Metadata::default() };
        let mut out = vec![1, 2];
        let error = put_metadata_row(&metadata, &mut out).unwrap_err();
        assert!(matches!(error, FormatError::DescriptionTooLarge { id: 7, size: 70_000.. }));
        metadata.name.clear();
        for ty in [Type::Decimal, Type::Rest, Type::Array(Type::Unknown(99).into())] {
            metadata.fields = vec![Field::new("f", ty)];
            let error = put_metadata_row(&metadata, &mut out).unwrap_err();
            assert_eq!(error, FormatError::NoTypeCode);
        }
        assert_eq!(out, [1, 2]);
    }
}
