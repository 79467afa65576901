//! Event types, converted from the reader's types to the writer's.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    hash::{BuildHasher, DefaultHasher, Hasher, RandomState},
    mem::size_of,
};

use nettrace_event::{
    ArrayLayout, EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema, StrEncoding,
    guid, keys,
};
use nettrace_format::{Format, FormatError, NumberedType, Stream, v6};
use nettrace_reader::{Field, Metadata, Type};
use nettrace_views::model::has_fields_of_single;

use crate::event_ids::{EventIds, Sharing};

/// What a description of an event type lacks because it has no room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    /// All fields, as this program does not know the types of some.
    pub(crate) has_unknown_fields: bool,
    /// Message, description and key-values.
    pub(crate) texts: bool,
    pub(crate) fields: bool,
}

/// Appends the description of an event type, with everything that the source says of it and that
/// has room. `is_older` says that the source is of version 4 or 5.
pub(crate) fn put_description(
    of: &Metadata,
    is_older: bool,
    rows: &mut Vec<u8>,
) -> Result<Cut, FormatError> {
    let mut all = described(of, is_older);
    let has_unknown_fields = all.fields.len() < of.fields.len();
    let mut cut = Cut { has_unknown_fields, ..Cut::default() };
    if v6::put_metadata_row(&all, rows).is_ok() {
        return Ok(cut);
    }
    cut.texts = true;
    (all.message_template, all.description) = (None, None);
    all.key_values.clear();
    if v6::put_metadata_row(&all, rows).is_ok() {
        return Ok(cut);
    }
    cut.fields = true;
    all.fields.clear();
    v6::put_metadata_row(&all, rows)?;
    Ok(cut)
}

/// A type as version 6 describes it; without fields if version 6 does not have the types of all.
fn described(of: &Metadata, is_older: bool) -> Metadata {
    let mut all = Metadata { opcode: opcode(of, is_older), ..of.clone() };
    if !of.fields.iter().all(|field| field.ty.is_of_v6()) {
        all.fields.clear();
    }
    let implied = implied(of, is_older).iter();
    all.key_values.extend(implied.map(|(key, value)| ((*key).into(), (*value).into())));
    all
}

/// The key-values that a type has in version 6, and that its fields imply in versions 4 and 5:
/// those of spans of one event.
fn implied(of: &Metadata, is_older: bool) -> &'static [(&'static str, &'static str)] {
    const IMPLIED: &[(&str, &str)] = &[keys::SINGLE, keys::STARTED, keys::DURATION];
    if is_older && is_single(of) { IMPLIED } else { &[] }
}

/// Whether the events of a type of version 4 or 5 each stand for a whole span.
fn is_single(of: &Metadata) -> bool {
    of.opcode.unwrap_or(0) == 0 && has_fields_of_single(of)
}

/// The opcode that a type has in a format that states opcodes. In versions 4 and 5 its name may
/// imply it.
fn opcode(of: &Metadata, is_older: bool) -> Option<u8> {
    let implied = of.implied_opcode().filter(|_| is_older && !is_single(of));
    of.opcode.or(implied)
}

/// Pairs of texts, borrowed.
pub(crate) fn pairs(of: &[(String, String)]) -> Vec<(&str, &str)> {
    of.iter().map(|(key, value)| (&**key, &**value)).collect()
}

/// The fields of an event whose payload is written as bytes, in formats where each value needs a
/// field: one counted array. See [`Known::opaque_id`].
const OPAQUE: &[FieldSchema] =
    &[FieldSchema::new("payload", FieldType::Array(&FieldType::U8, ArrayLayout::Counted))];

/// The event types of a result that is written by the encoder of sessions, as schemas.
///
/// A stream keeps references to its schemas for as long as the process lives. So each schema is
/// made once, however often the source describes the same type, and [`define`](Self::define) bounds
/// the memory of all of them.
#[derive(Debug)]
pub(super) struct Types {
    format: Format,
    /// Whether the source is of version 4 or 5.
    is_older: bool,
    /// Types by [`hash`](Self::hash).
    known: HashMap<u64, Vec<(Metadata, Known)>>,
    hasher: RandomState,
    last_id: u32,
    event_ids: EventIds,
    /// About how many bytes the schemas take, and how many they may take.
    cost: usize,
    limit: usize,
}

/// A type of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The id that rows of the result have.
    pub(super) id: u32,
    /// The id for rows whose payload is written as bytes; only in formats where readers cannot
    /// confuse the two types.
    pub(super) opaque_id: Option<u32>,
    /// Whether fields are described.
    pub(super) has_fields: bool,
    /// Whether payloads may hold dates, which have two sizes, and are converted value by value.
    pub(super) has_dates: bool,
    /// Whether payloads are encoded again. Bytes that no field describes are then missing.
    pub(super) is_mapped: bool,
    /// Whether its events name code and processes, in a form that only readers of version 6 know.
    pub(super) names_code: bool,
}

/// A type that the result does not have yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub(super) known: Known,
    /// The schemas to define, with their ids.
    pub(super) schemas: [Option<NumberedType>; 2],
    /// Whether the fields could not be described.
    pub(super) lost_fields: bool,
    /// Whether the event id was another type's, and was changed.
    pub(super) lost_numbers: bool,
}

/// Why a type cannot be defined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    Format(FormatError),
    /// All types together would take more than this many bytes of memory.
    Limit(usize),
}

impl Types {
    /// An empty table for a source of version `from`. The schemas of its types may take `limit`
    /// bytes.
    pub(super) fn new(format: Format, from: u32, limit: usize) -> Self {
        Self {
            format,
            is_older: from < 6,
            known: HashMap::new(),
            hasher: RandomState::new(),
            last_id: 0,
            event_ids: EventIds::default(),
            cost: 0,
            limit,
        }
    }

    /// The type of the result that is the same as `of`, if there is one.
    pub(super) fn find(&self, of: &Metadata) -> Option<Known> {
        let alike = self.known.get(&self.hash(of))?;
        alike.iter().find(|(other, _)| is_same(other, of)).map(|(_, known)| *known)
    }

    /// Makes a type of the result for `source`, after [`find`](Self::find) found none.
    pub(super) fn define(&mut self, source: &Metadata) -> Result<Definition, Refused> {
        self.cost += size_of::<Metadata>() + size_of::<EventSchema>() + cost(source);
        if self.cost > self.limit {
            return Err(Refused::Limit(self.limit));
        }
        // Readers of Heph do not tell types by their ids.
        let event_id = match self.format {
            Format::Heph => source.event_id,
            _ => self.event_ids.give(source, Sharing::Alike),
        };
        let lost_numbers = event_id != source.event_id;
        // Readers of versions 4 and 5 take it from the name themselves.
        let is_implied = self.is_older && self.format == Format::Heph;
        let of = &Metadata { opcode: opcode(source, is_implied), ..source.clone() };
        let described = field_schemas(&of.fields).map(|fields| schema(of, fields, self.is_older));
        let described = described.filter(|schema| Stream::check(self.format, schema).is_ok());
        let lost_fields = described.is_none();
        let plain = match described {
            Some(schema) => schema,
            None => schema(of, &[], self.is_older),
        };
        Stream::check(self.format, plain).map_err(Refused::Format)?;
        let id = self.next_id();
        let numbered = |metadata_id, schema| Some(NumberedType { metadata_id, event_id, schema });
        let mut schemas = [numbered(id, plain), None];
        let mut opaque_id = None;
        if self.format.needs_fields() {
            // The other schema has the texts of the type already.
            let bare = Metadata {
                message_template: None,
                description: None,
                key_values: Vec::new(),
                provider_guid: None,
                ..of.clone()
            };
            let opaque = schema(&bare, OPAQUE, false);
            let id = self.next_id();
            schemas[1] = numbered(id, opaque);
            opaque_id = Some(id);
        }
        let has_fields = !plain.fields.is_empty();
        let has_dates = of.fields.iter().any(|field| has_dates(&field.ty));
        let is_mapped = has_fields && self.format.converts_payloads(plain);
        let has_dates = has_fields && has_dates;
        let names_code = !self.is_older && source.provider == "Universal.System";
        let known = Known { id, opaque_id, has_fields, has_dates, is_mapped, names_code };
        self.known.entry(self.hash(source)).or_default().push((source.clone(), known));
        Ok(Definition { known, schemas, lost_fields, lost_numbers })
    }

    /// A hash of everything that [`is_same`] compares: a trace can have any number of types that
    /// differ in one thing alone.
    fn hash(&self, of: &Metadata) -> u64 {
        let names = (&of.provider, of.event_id, &of.name, &of.fields);
        let numbers = (of.opcode, of.keywords, of.level, of.version);
        let texts = (&of.message_template, &of.description, of.provider_guid, &of.key_values);
        let mut hashed = Hashed(self.hasher.build_hasher());
        // A hash takes everything.
        let _ = write!(hashed, "{names:?} {numbers:?} {texts:?}");
        hashed.0.finish()
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }
}

/// Hashes what is written to it.
struct Hashed(DefaultHasher);

impl fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Whether two types are the same but for their metadata ids.
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (&a.provider, a.event_id, &a.name) == (&b.provider, b.event_id, &b.name)
        && a.fields == b.fields
        && (a.opcode, a.keywords, a.level, a.version) == (b.opcode, b.keywords, b.level, b.version)
        && (&a.message_template, &a.description) == (&b.message_template, &b.description)
        && (&a.provider_guid, &a.key_values) == (&b.provider_guid, &b.key_values)
}

fn schema(of: &Metadata, fields: &'static [FieldSchema], is_older: bool) -> &'static EventSchema {
    let place = place(of);
    let is_of_place = |key: &str| place != Place::UNKNOWN && PLACE.contains(&key);
    let own = of.key_values.iter().filter(|(key, _)| !is_of_place(key));
    let own = own.map(|(key, value)| (leaked(key), leaked(value)));
    let key_values: Vec<_> = own.chain(implied(of, is_older).iter().copied()).collect();
    Box::leak(Box::new(EventSchema {
        provider: ProviderSchema {
            name: leaked(&of.provider),
            guid: of.provider_guid.map(|guid| guid::swapped(&guid)),
            group: None,
        },
        name: leaked(&of.name),
        // The stream is told the id, which may be a larger one.
        id: 0,
        place,
        id_is_explicit: true,
        version: of.version,
        level: Level::new(of.level),
        keywords: of.keywords,
        opcode: of.opcode,
        tag: 0,
        message: of.message_template.as_deref().map(leaked),
        description: of.description.as_deref().map(leaked),
        key_values: key_values.leak(),
        fields,
    }))
}

/// The key-values by which a type of version 6 says where it is.
pub(crate) const PLACE: [&str; 3] = ["module", "file", "line"];

/// Where a type is in the source code, if the trace has file and line. Nearly every type of this
/// project has a place, and no session of the other formats says it: it is no omission to tell.
fn place(of: &Metadata) -> Place {
    let [module, file, line] = PLACE.map(|key| of.value(key));
    match (file, line.and_then(|line| line.parse().ok())) {
        (Some(file), Some(line)) => {
            let (module, file) = (leaked(module.unwrap_or_default()), leaked(file));
            Place { module, file, line, column: 0 }
        }
        _ => Place::UNKNOWN,
    }
}

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}

/// Fields of a schema; `None` if this program does not know a type.
fn field_schemas(of: &[Field]) -> Option<&'static [FieldSchema]> {
    let fields: Option<Vec<_>> = of
        .iter()
        .map(|field| Some(FieldSchema::new(leaked(&field.name), field_type(&field.ty)?)))
        .collect();
    Some(fields?.leak())
}

fn field_type(of: &Type) -> Option<FieldType> {
    let element = |of| Some::<&'static FieldType>(Box::leak(Box::new(field_type(of)?)));
    Some(match of {
        Type::Object(fields) => FieldType::Object(field_schemas(fields)?),
        Type::Boolean => FieldType::Bool,
        Type::Boolean8 => FieldType::Bool8,
        Type::Utf16CodeUnit => FieldType::Utf16Unit,
        Type::Int8 => FieldType::I8,
        Type::UInt8 | Type::Utf8CodeUnit => FieldType::U8,
        Type::Int16 => FieldType::I16,
        Type::UInt16 => FieldType::U16,
        Type::Int32 => FieldType::I32,
        Type::UInt32 => FieldType::U32,
        Type::Int64 => FieldType::I64,
        Type::UInt64 => FieldType::U64,
        Type::Single => FieldType::F32,
        Type::Double => FieldType::F64,
        Type::DateTime => FieldType::DateTime,
        Type::Guid => FieldType::Guid,
        Type::Utf16String => FieldType::Str(StrEncoding::Utf16Nul),
        Type::VarInt => FieldType::VarInt,
        Type::VarUInt => FieldType::VarUInt,
        Type::Array(of) => match **of {
            Type::Utf16CodeUnit => FieldType::Str(StrEncoding::Utf16),
            Type::Utf8CodeUnit => FieldType::Str(StrEncoding::Utf8),
            _ => FieldType::Array(element(of)?, ArrayLayout::Counted),
        },
        Type::FixedArray(of, count) => FieldType::Array(element(of)?, ArrayLayout::Fixed(*count)),
        Type::RelLoc(of) => match **of {
            Type::Utf16CodeUnit => FieldType::Str(StrEncoding::Utf16RelLoc),
            Type::Utf8CodeUnit => FieldType::Str(StrEncoding::Utf8RelLoc),
            _ => FieldType::Array(element(of)?, ArrayLayout::RelLoc),
        },
        Type::DataLoc(of) => match **of {
            Type::Utf16CodeUnit => FieldType::Str(StrEncoding::Utf16DataLoc),
            Type::Utf8CodeUnit => FieldType::Str(StrEncoding::Utf8DataLoc),
            _ => FieldType::Array(element(of)?, ArrayLayout::DataLoc),
        },
        _ => return None,
    })
}

/// Whether a type has dates in it.
fn has_dates(of: &Type) -> bool {
    match of {
        Type::DateTime => true,
        Type::Object(fields) => fields.iter().any(|field| has_dates(&field.ty)),
        _ => of.element().is_some_and(has_dates),
    }
}

/// About how many bytes a type takes, in the table and as a schema.
fn cost(of: &Metadata) -> usize {
    let texts =
        of.key_values.iter().map(|(key, value)| key.len() + value.len() + 64).sum::<usize>()
            + of.provider.len()
            + of.name.len()
            + of.message_template.as_ref().map_or(0, String::len)
            + of.description.as_ref().map_or(0, String::len);
    // Texts are in the table, and in up to three schemas.
    4 * texts + 2 * of.fields.iter().map(cost_of_field).sum::<usize>()
}

fn cost_of_field(field: &Field) -> usize {
    field.name.len() + size_of::<Field>() + size_of::<FieldSchema>() + cost_of_type(&field.ty)
}

fn cost_of_type(of: &Type) -> usize {
    match of {
        Type::Object(fields) => fields.iter().map(cost_of_field).sum(),
        _ => of.element().map_or(0, |element| {
            size_of::<Type>() + size_of::<FieldType>() + cost_of_type(element)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the time to find one grows with the number of all.
    #[test]
    fn types_that_differ_in_one_thing_are_found_at_once() {
        let mut types = Types::new(Format::V5, 6, 1 << 20);
        let mut all = Vec::new();
        for number in 0..50 {
            let ty = Metadata { provider: "P".into(), ..Metadata::default() };
            let fields = vec![Field { name: format!("f{number}"), ty: Type::Int8 }];
            all.push(Metadata { fields, ..ty.clone() });
            all.push(Metadata { keywords: number, ..ty.clone() });
            all.push(Metadata { description: Some(number.to_string()), ..ty });
        }
        for ty in &all {
            assert!(types.find(ty).is_none());
            types.define(ty).unwrap();
        }
        let ids: Vec<_> = all.iter().map(|ty| types.find(ty).unwrap().id).collect();
        assert_eq!(ids, (1..=150).collect::<Vec<_>>());
        assert_eq!(types.known.len(), 150);
    }
}
