//! Tells event types apart that have the same provider and name: by their places in the source
//! code.

use std::collections::HashMap;

use nettrace_reader::Metadata;
use nettrace_views::__shared::place;

/// The types that were met.
#[derive(Debug, Default)]
pub(crate) struct Namesakes {
    /// By provider and name.
    types: HashMap<Box<str>, HashMap<Box<str>, Places>>,
}

/// The places of the types with one name.
#[derive(Debug, Default)]
struct Places {
    by_id: HashMap<u32, Option<Box<str>>>,
    /// Whether they are not all the same.
    differ: bool,
}

impl Namesakes {
    /// The place of a type, from when on a type with its name and another place is known.
    pub(crate) fn place(&mut self, metadata: &Metadata) -> Option<&str> {
        if !self.types.contains_key(&*metadata.provider) {
            self.types.insert((&*metadata.provider).into(), HashMap::new());
        }
        let of_provider = self.types.get_mut(&*metadata.provider)?;
        if !of_provider.contains_key(&*metadata.name) {
            of_provider.insert((&*metadata.name).into(), Places::default());
        }
        let Places { by_id, differ } = of_provider.get_mut(&*metadata.name)?;
        if !by_id.contains_key(&metadata.event_id) {
            let place = place(metadata).map(Into::into);
            *differ |= by_id.values().any(|other| *other != place);
            by_id.insert(metadata.event_id, place);
        }
        by_id.get(&metadata.event_id).filter(|_| *differ)?.as_deref()
    }
}
