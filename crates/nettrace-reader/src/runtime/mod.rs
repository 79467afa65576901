//! The events of the .NET runtime, which a trace names only by provider, event id and version.
//!
//! `events.txt` is a table of their names and fields. `dev/testkit/runtime-events/table.py` makes
//! it from the manifests of the runtime, and documents its form. Its lines are sorted, so that it
//! is searched as it is, when a stream defines an event type without fields. Event types that state
//! their fields, and all rows, cost nothing.

use std::str::SplitAsciiWhitespace;

use nettrace_format::{Field, Metadata, Type};

/// The name of the field after those of the table: bytes that no field describes.
const REST: &str = "rest";

/// The name of bytes between the fields of a structure.
const PADDING: &str = "padding";

static TABLE: &str = include_str!("events.txt");

/// Describes an event type that states no fields, if the table has it. An older version than those
/// of the table has the first fields of the next one, a newer version begins with those of the
/// last one.
pub(crate) fn describe(metadata: &mut Metadata, pointer_size: u32) {
    if !metadata.fields.is_empty() {
        return;
    }
    let found = entry(&metadata.provider, metadata.event_id, metadata.version);
    let Some((name, fields)) = found.and_then(|line| parse(line, pointer_size)) else { return };
    if metadata.name.is_empty() {
        name.clone_into(&mut metadata.name);
        // Versions 4 and 5 take names that end in Start and Stop for activities of their own. The
        // runtime's are not: they have the id of the activity during which they happened.
        metadata.opcode = metadata.opcode.or(Some(0));
    }
    metadata.fields = fields;
    metadata.is_from_table = true;
}

/// Corrects what the only other producer of version 6 declares: the texts of `Universal.System` as
/// one code unit of UTF-8 (type code 23). They are arrays of them.
pub(crate) fn correct(metadata: &mut Metadata) {
    if metadata.provider != "Universal.System" {
        return;
    }
    for field in metadata.fields.iter_mut().filter(|field| field.ty == Type::Utf8CodeUnit) {
        field.ty = Type::Array(Box::new(Type::Utf8CodeUnit));
    }
}

/// What the table has of an event, after provider, event id and version: that version, else the
/// next one, else the last one.
fn entry(provider: &str, event_id: u32, version: u8) -> Option<&'static str> {
    let key = format!("{provider} {event_id:05} ");
    let start = lower_bound(&format!("{key}{version:03} "));
    let wanted = line_at(start).strip_prefix(&*key);
    let found = wanted.or_else(|| line_before(start).strip_prefix(&*key));
    found?.split_once(' ').map(|(_, entry)| entry)
}

/// The start of the first line that is not less than `key`.
fn lower_bound(key: &str) -> usize {
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        // Lines are ASCII, so that every position is a boundary of characters.
        let middle = low + (high - low) / 2;
        let start = TABLE[..middle].rfind('\n').map_or(0, |end| end + 1);
        let line = line_at(start);
        if line < key {
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    low
}

fn line_at(start: usize) -> &'static str {
    TABLE[start..].lines().next().unwrap_or_default()
}

fn line_before(start: usize) -> &'static str {
    TABLE[..start].lines().next_back().unwrap_or_default()
}

/// The name and the fields of an entry.
fn parse(entry: &str, pointer_size: u32) -> Option<(&str, Vec<Field>)> {
    let mut words = entry.split_ascii_whitespace();
    let name = words.next()?;
    let mut fields = parse_fields(&mut words, pointer_size)?;
    fields.push(Field { name: REST.to_owned(), ty: Type::Rest });
    Some((name, fields))
}

/// The fields up to the end of the line or of the structure.
fn parse_fields(words: &mut SplitAsciiWhitespace<'_>, pointer_size: u32) -> Option<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    while let Some(word) = words.next().filter(|word| *word != "}") {
        let end = word.find(['[', ':'])?;
        let (name, form) = word.split_at(end);
        let ty = match form.strip_prefix('[') {
            None => plain_type(&form[1..], pointer_size)?,
            Some(form) => {
                let (count, element) = form.split_once(']')?;
                let element = match element {
                    "{" => Type::Object(parse_fields(words, pointer_size)?),
                    ":aligned{" => Type::Object(aligned(parse_fields(words, pointer_size)?)?),
                    ty => plain_type(ty.strip_prefix(':')?, pointer_size)?,
                };
                match count.parse() {
                    Ok(count) => Type::FixedArray(Box::new(element), count),
                    Err(_) => {
                        let field = fields.iter().position(|field| field.name == count)?;
                        Type::CountedArray(Box::new(element), u16::try_from(field).ok()?)
                    }
                }
            }
        };
        fields.push(Field { name: name.to_owned(), ty });
    }
    Some(fields)
}

/// Adds the padding that a structure has in memory.
fn aligned(fields: Vec<Field>) -> Option<Vec<Field>> {
    let mut padded = Vec::new();
    let (mut offset, mut widest) = (0_u32, 1);
    let pad = |padded: &mut Vec<Field>, offset: &mut u32, align: u32| {
        let missing = offset.next_multiple_of(align) - *offset;
        if missing > 0 {
            let ty = Type::FixedArray(Box::new(Type::UInt8), missing as u16);
            padded.push(Field { name: PADDING.to_owned(), ty });
            *offset += missing;
        }
    };
    for field in fields {
        let size = field.ty.fixed_size().filter(|size| size.is_power_of_two() && *size <= 8)?;
        pad(&mut padded, &mut offset, size);
        padded.push(field);
        offset += size;
        widest = widest.max(size);
    }
    pad(&mut padded, &mut offset, widest);
    Some(padded)
}

fn plain_type(name: &str, pointer_size: u32) -> Option<Type> {
    Some(match name {
        "i8" => Type::Int8,
        "u8" => Type::UInt8,
        "i16" => Type::Int16,
        "u16" => Type::UInt16,
        "i32" => Type::Int32,
        "u32" => Type::UInt32,
        "i64" => Type::Int64,
        "u64" => Type::UInt64,
        "f32" => Type::Single,
        "f64" => Type::Double,
        "bool" => Type::Boolean,
        "ptr" if pointer_size == 4 => Type::UInt32,
        "ptr" => Type::UInt64,
        "guid" => Type::Guid,
        "filetime" => Type::DateTime,
        "utf16" => Type::Utf16String,
        "utf8" => Type::Utf8String,
        "char16" => Type::Utf16CodeUnit,
        "char8" => Type::Utf8CodeUnit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

    fn described(provider: &str, event_id: u32, version: u8) -> Metadata {
        let mut metadata =
            Metadata { provider: provider.into(), event_id, version, ..Metadata::default() };
        describe(&mut metadata, 8);
        metadata
    }

    fn names(fields: &[Field]) -> Vec<&str> {
        fields.iter().map(|field| &*field.name).collect()
    }

    #[test]
    fn every_line_is_found_and_describes_an_event() {
        assert!(TABLE.is_ascii() && TABLE.lines().is_sorted());
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let mut count = 0;
        for line in lines {
            let mut words = line.splitn(4, ' ');
            let mut word = || words.next().unwrap();
            let (provider, id, version, found) = (word(), word(), word(), word());
            let (id, version) = (id.parse().unwrap(), version.parse().unwrap());
            assert_eq!(entry(provider, id, version), Some(found), "{line}");
            for pointer_size in [4, 8] {
                let (name, fields) = parse(found, pointer_size).expect(line);
                assert!(found.starts_with(name) && !fields.is_empty(), "{line}");
            }
            // Each word of the line is a field, the name of the event or the end of a structure.
            // The field after those of the table takes the place of the name.
            let words = found.split(' ').filter(|word| *word != "}").count();
            assert_eq!(count_fields(&described(provider, id, version).fields), words, "{line}");
            count += 1;
        }
        assert!(count > 200, "{count}");
    }

    fn count_fields(fields: &[Field]) -> usize {
        let within = |ty: &Type| match ty {
            Type::FixedArray(element, _) | Type::CountedArray(element, _) => match &**element {
                Type::Object(fields) => count_fields(fields),
                _ => 0,
            },
            _ => 0,
        };
        let named = fields.iter().filter(|field| field.name != PADDING);
        named.map(|field| 1 + within(&field.ty)).sum()
    }

    #[test]
    fn other_versions_have_the_fields_of_the_nearest() {
        let start = ["Count", "Depth", "Reason", "Type", "ClrInstanceID", "ClientSequenceNumber"];
        for version in [1, 2, 3, 255] {
            let metadata = described(RUNTIME, 1, version);
            assert_eq!((&*metadata.name, metadata.opcode), ("GC/Start", Some(0)));
            assert_eq!(names(&metadata.fields), [&start[..], &[REST]].concat(), "{version}");
        }
        assert_eq!(names(&described(RUNTIME, 1, 0).fields), ["Count", "Reason", REST]);
    }

    #[test]
    fn what_the_table_does_not_have_stays_as_it_is() {
        for (provider, id) in
            [(RUNTIME, 65_000), (RUNTIME, 1 << 20), ("", 1), ("Microsoft-Windows", 1), ("~", 1)]
        {
            let metadata = described(provider, id, 1);
            assert!(metadata.fields.is_empty() && metadata.name.is_empty(), "{provider} {id}");
            assert!(!metadata.is_from_table);
        }
        // What the stream states counts.
        let own = Field { name: "own".into(), ty: Type::Int8 };
        let mut metadata = Metadata { fields: vec![own], ..described("", 1, 0) };
        metadata.provider = RUNTIME.into();
        let before = metadata.clone();
        describe(&mut metadata, 8);
        assert_eq!(metadata, before);
        let mut metadata = Metadata { name: "Own".into(), ..described("", 1, 0) };
        metadata.provider = RUNTIME.into();
        describe(&mut metadata, 8);
        assert_eq!((&*metadata.name, metadata.fields.len()), ("Own", 3));
    }

    #[test]
    fn structures_have_the_padding_of_c() {
        let sizes = |text: &str, size| {
            let fields = parse(text, size).unwrap().1;
            let Type::FixedArray(element, 3) = &fields[0].ty else { panic!("{fields:?}") };
            let Type::Object(fields) = &**element else { panic!("{fields:?}") };
            let sized = fields.iter().map(|field| (field.name.clone(), field.ty.fixed_size()));
            sized.map(|(name, size)| (name, size.unwrap())).collect::<Vec<_>>()
        };
        let named = |list: &[(&str, u32)]| {
            list.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect::<Vec<_>>()
        };
        let text = "E a[3]:aligned{ x:u16 y:u32 z:ptr w:u8 }";
        let padding = (PADDING, 2);
        let expected = named(&[("x", 2), padding, ("y", 4), ("z", 8), ("w", 1), (PADDING, 7)]);
        assert_eq!(sizes(text, 8), expected);
        let expected = named(&[("x", 2), padding, ("y", 4), ("z", 4), ("w", 1), (PADDING, 3)]);
        assert_eq!(sizes(text, 4), expected);
    }

    #[test]
    fn pointers_have_the_size_of_the_trace() {
        let text = "Thread/Creating ID:ptr Stack[2]:ptr";
        let types = |size| parse(text, size).unwrap().1.into_iter().map(|field| field.ty);
        let fixed = |ty| Type::FixedArray(Box::new(ty), 2);
        assert!(types(4).eq([Type::UInt32, fixed(Type::UInt32), Type::Rest]));
        assert!(types(8).eq([Type::UInt64, fixed(Type::UInt64), Type::Rest]));
    }
}
