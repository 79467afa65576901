//! Tells event types apart that have the same provider and name: by their places in the source
//! code.

use std::collections::HashMap;

use nettrace_reader::Metadata;
use nettrace_views::model::place;

/// About how many bytes of memory the types may take. Types beyond have no place.
const MOST_BYTES: usize = 32 << 20;

/// About how many bytes an entry of a table takes beside its texts.
const ENTRY: usize = 128;

/// The types that were met.
#[derive(Debug, Default)]
pub(crate) struct DuplicateTypeNames {
    /// By provider and name.
    types: HashMap<Box<str>, HashMap<Box<str>, Places>>,
    /// About how many bytes they take.
    size: usize,
}

/// The places of the types with one name.
#[derive(Debug, Default)]
struct Places {
    by_id: HashMap<u32, Option<Box<str>>>,
    /// Whether they are not all the same.
    differ: bool,
}

impl DuplicateTypeNames {
    /// The place of a type, from when on a type with its name and another place is known.
    pub(crate) fn place(&mut self, metadata: &Metadata) -> Option<&str> {
        let is_full = self.size >= MOST_BYTES;
        if !self.types.contains_key(&*metadata.provider) {
            if is_full {
                return None;
            }
            self.size += metadata.provider.len() + ENTRY;
            self.types.insert((&*metadata.provider).into(), HashMap::new());
        }
        let of_provider = self.types.get_mut(&*metadata.provider)?;
        if !of_provider.contains_key(&*metadata.name) {
            if is_full {
                return None;
            }
            self.size += metadata.name.len() + ENTRY;
            of_provider.insert((&*metadata.name).into(), Places::default());
        }
        let Places { by_id, differ } = of_provider.get_mut(&*metadata.name)?;
        if !by_id.contains_key(&metadata.event_id) {
            if is_full {
                return None;
            }
            let place = place(metadata).map(Box::<str>::from);
            self.size += place.as_ref().map_or(0, |place| place.len()) + ENTRY;
            // As long as none differs, one stands for all.
            *differ = *differ || by_id.values().next().is_some_and(|other| *other != place);
            by_id.insert(metadata.event_id, place);
        }
        by_id.get(&metadata.event_id).filter(|_| *differ)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::{DuplicateTypeNames, ENTRY, MOST_BYTES, Metadata};

    #[test]
    fn types_without_end_take_bounded_memory() {
        let mut namesakes = DuplicateTypeNames::default();
        let mut ty = Metadata::default();
        for id in 0..1_000 {
            ty.name = format!("{id}{}", "x".repeat(60_000));
            ty.event_id = id;
            namesakes.place(&ty);
        }
        let known = namesakes.types.values().flat_map(|of| of.keys());
        let names: usize = known.map(|name| name.len()).sum();
        assert!(names < MOST_BYTES + 2 * 60_000, "{names}");
        assert!(namesakes.size > names + ENTRY);
    }
}
