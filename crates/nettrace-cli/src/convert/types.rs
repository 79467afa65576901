//! Event types, converted from the reader's types to the writer's.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    hash::{BuildHasher, DefaultHasher, Hasher, RandomState},
    mem::size_of,
};

use nettrace_event::keys;
use nettrace_format::{Format, FormatError, v6};
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

/// The event types of a result of another format than version 6.
///
/// Each is defined once, however often the source describes the same type. So ids follow one
/// another, and [`define`](Self::define) bounds the memory of all of them.
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
    /// About how many bytes the types take, and how many they may take.
    cost: usize,
    limit: usize,
}

/// A type of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The id that rows of the result have.
    pub(super) id: u32,
    /// Whether its events name code and processes, in a form that only readers of version 6 know.
    pub(super) names_code: bool,
}

/// A type that the result does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) known: Known,
    /// The type, as the result describes it.
    pub(super) ty: Metadata,
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
    /// An empty table for a source of version `from`. Its types may take `limit` bytes.
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
        self.cost += 2 * size_of::<Metadata>() + cost(source);
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
        let id = self.last_id + 1;
        let opcode = opcode(source, is_implied);
        let mut ty = Metadata { id, event_id, opcode, ..source.clone() };
        let implied = implied(&ty, self.is_older).iter();
        let implied = implied.map(|(key, value)| ((*key).into(), (*value).into()));
        // No session of these formats says where a type is, so it is no omission to tell.
        let has_place = has_place(&ty);
        ty.key_values.retain(|(key, _)| !(has_place && PLACE.contains(&&**key)));
        ty.key_values.extend(implied);
        let lost_fields = self.format.check_type(&ty).is_err();
        if lost_fields {
            ty.fields.clear();
            self.format.check_type(&ty).map_err(Refused::Format)?;
        }
        self.last_id = id;
        let names_code = !self.is_older && source.provider == "Universal.System";
        let known = Known { id, names_code };
        self.known.entry(self.hash(source)).or_default().push((source.clone(), known));
        Ok(Definition { known, ty, lost_fields, lost_numbers })
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

/// The key-values by which a type of version 6 says where it is.
pub(crate) const PLACE: [&str; 3] = ["module", "file", "line"];

/// Whether the trace says where a type is in the source code.
fn has_place(of: &Metadata) -> bool {
    let line = of.value("line").and_then(|line| line.parse::<u32>().ok());
    of.value("file").is_some() && line.is_some()
}

/// About how many bytes a type takes, in the table and in the stage.
fn cost(of: &Metadata) -> usize {
    let texts =
        of.key_values.iter().map(|(key, value)| key.len() + value.len() + 64).sum::<usize>()
            + of.provider.len()
            + of.name.len()
            + of.message_template.as_ref().map_or(0, String::len)
            + of.description.as_ref().map_or(0, String::len);
    // Texts are in the table, and twice in the stage.
    4 * texts + 2 * of.fields.iter().map(cost_of_field).sum::<usize>()
}

fn cost_of_field(field: &Field) -> usize {
    field.name.len() + size_of::<Field>() + cost_of_type(&field.ty)
}

fn cost_of_type(of: &Type) -> usize {
    match of {
        Type::Object(fields) => fields.iter().map(cost_of_field).sum(),
        _ => of.element().map_or(0, |element| size_of::<Type>() + cost_of_type(element)),
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
