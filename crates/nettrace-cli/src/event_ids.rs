//! Event ids in a trace that is made from others.
//!
//! Readers tell the event types of a provider by their ids: they decode two types of one id with
//! the fields of one of them.

use std::collections::{HashMap, HashSet};

use nettrace_reader::Metadata;

/// The ids after this one replace those that several types of a provider state. Few types have
/// them, so few others must make room in turn.
const REPLACING: u32 = 1000;

/// No id that replaces another is higher, because readers take 16 bits.
const LAST: u32 = u16::MAX as u32;

/// The ids that the types of a trace have so far.
#[derive(Debug, Default)]
pub(crate) struct EventIds {
    holders: HashMap<(String, u32), IdHolder>,
    /// By provider: how many ids were tried that may replace another. Each is tried once.
    tried: HashMap<String, u32>,
    /// By provider, what types have in common, and their id: the one that such a type has instead.
    /// Its versions share it.
    given: HashMap<(String, String, u32), u32>,
}

/// The types that have an id.
#[derive(Debug)]
struct IdHolder {
    /// Name and fields, or what else they have in common.
    what: String,
    versions: HashSet<u8>,
}

/// A type that asks for an id.
#[derive(Clone, Debug)]
pub(crate) struct IdRequest<'a> {
    pub(crate) provider: &'a str,
    pub(crate) event_id: u32,
    pub(crate) version: u8,
    /// Name and fields, or the name alone if versions may have other fields.
    pub(crate) what: String,
}

impl<'a> From<&'a Metadata> for IdRequest<'a> {
    fn from(of: &'a Metadata) -> Self {
        let what = format!("{} {:?}", of.name, of.fields);
        Self { provider: &of.provider, event_id: of.event_id, version: of.version, what }
    }
}

/// The types that may have one id: those of one name with the same fields, and of them …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// … all, as in versions 4 and 5.
    Alike,
    /// … one of each version, as in version 6.
    Versions,
}

impl EventIds {
    /// The id of a type: its own, or another if readers would confuse the two types. 0 is no id,
    /// and stays.
    pub(crate) fn give<'a>(&mut self, of: impl Into<IdRequest<'a>>, sharing: Sharing) -> u32 {
        let of = of.into();
        let own = (of.provider.to_owned(), of.what.clone(), of.event_id);
        let known = self.given.get(&own).filter(|_| sharing == Sharing::Versions);
        let mut id = known.copied().unwrap_or(of.event_id);
        while id != 0 && !self.takes(&of, id, sharing) {
            let tried = self.tried.entry(of.provider.to_owned()).or_default();
            if *tried == LAST {
                // All are other types'.
                return of.event_id;
            }
            id = (REPLACING + *tried) % LAST + 1;
            *tried += 1;
        }
        if id != of.event_id {
            self.given.insert(own, id);
        }
        id
    }

    fn takes(&mut self, of: &IdRequest<'_>, id: u32, sharing: Sharing) -> bool {
        let holder = self.holders.entry((of.provider.to_owned(), id));
        let holder =
            holder.or_insert_with(|| IdHolder { what: of.what.clone(), versions: HashSet::new() });
        holder.what == of.what && (holder.versions.insert(of.version) || sharing == Sharing::Alike)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use nettrace_reader::{Field, Metadata, Type};

    use super::{EventIds, LAST, Sharing};

    fn ty(event_id: u32, name: &str, version: u8, fields: usize) -> Metadata {
        let field = Field { name: "f".into(), ty: Type::Int8 };
        let fields = vec![field; fields];
        Metadata { event_id, name: name.into(), version, fields, ..Metadata::default() }
    }

    #[test]
    fn only_types_that_are_alike_share_an_id() {
        let mut ids = EventIds::default();
        let mut give = |ty: Metadata| ids.give(&ty, Sharing::Alike);
        assert_eq!(give(ty(7, "A", 0, 1)), 7);
        assert_eq!(give(ty(7, "A", 0, 1)), 7);
        assert_eq!(give(ty(7, "A", 1, 1)), 7);
        assert_eq!(give(ty(7, "A", 1, 2)), 1001);
        assert_eq!(give(ty(7, "B", 0, 1)), 1002);
        assert_eq!(give(ty(1001, "C", 0, 1)), 1003);
        assert_eq!([give(ty(0, "D", 0, 1)), give(ty(0, "E", 0, 1))], [0, 0]);
        assert_eq!(give(ty(70_000, "F", 0, 1)), 70_000);
        let mut ids = EventIds::default();
        let mut give = |ty: Metadata| ids.give(&ty, Sharing::Versions);
        assert_eq!([give(ty(5, "A", 0, 1)), give(ty(5, "A", 1, 1))], [5, 5]);
        assert_eq!(give(ty(5, "A", 1, 1)), 1001);
        // The versions of a type that has another id.
        assert_eq!([give(ty(5, "B", 0, 1)), give(ty(5, "B", 1, 1))], [1002, 1002]);
    }

    #[test]
    fn many_types_of_one_id_are_told_apart_soon() {
        let mut ids = EventIds::default();
        let mut give = |name: &str| ids.give(&ty(1, name, 0, 0), Sharing::Alike);
        let given: HashSet<_> = (0..LAST).map(|number| give(&number.to_string())).collect();
        assert_eq!(given, (1..=LAST).collect());
        assert_eq!(give("one more"), 1);
    }
}
