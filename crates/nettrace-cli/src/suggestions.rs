//! Names that nothing has, and what was probably meant.

use std::collections::BTreeSet;

use nettrace_format::spelling::nearest_field;
use nettrace_reader::{Metadata, TypeTotals};

use crate::spelling::OneLine;

/// Asks behind a name whether the one that was found is meant.
pub(crate) fn hint(found: Option<&str>) -> String {
    found.map_or_else(String::new, |name| format!(" (is `{}` meant?)", OneLine(name)))
}

/// Some of the names that there are, as a list.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 10;

    let more = if names.len() > MOST { " and others" } else { "" };
    let names: Vec<_> = names.take(MOST).map(|name| OneLine(name).to_string()).collect();
    names.join(", ") + more
}

/// A message if the field by which an option tells spans apart is one of no event, or of none that
/// `tells` them. `tellers` says which those are.
pub(crate) fn unknown_field(
    option: &str,
    name: &str,
    types: impl Iterator<Item = TypeTotals>,
    (tells, tellers): (impl Fn(&Metadata) -> bool, &str),
) -> Option<String> {
    let (mut known, mut telling) = (BTreeSet::new(), false);
    for ty in types.filter(|ty| ty.events > 0) {
        let tells = tells(&ty.metadata);
        for field in ty.metadata.fields {
            telling |= tells && field.name == name;
            known.insert(field.name);
        }
    }
    let name = OneLine(name);
    match known.contains(name.0) {
        _ if telling => None,
        true => Some(format!("{option} has no effect: no {tellers} has a field named {name}")),
        false => {
            let hint = hint(nearest_field(name.0, known.iter().map(|it| &**it)));
            Some(format!("{option} has no effect: no event has a field named {name}{hint}"))
        }
    }
}
