//! Names that nothing has, and what was probably meant.

use std::collections::BTreeSet;

use nettrace_format::spelling::nearest_field;
use nettrace_reader::TypeTotals;

use crate::spelling::OneLine;

/// Asks behind a name whether the one that was found is meant.
pub(crate) fn hint(found: Option<&str>) -> String {
    found.map_or_else(String::new, |name| format!(" (is `{}` meant?)", OneLine(name)))
}

/// That no event has the field by which an option tells spans apart, if that is so.
pub(crate) fn unknown_field(
    option: &str,
    name: &str,
    types: impl Iterator<Item = TypeTotals>,
) -> Option<String> {
    let types = types.filter(|ty| ty.events > 0);
    let known: BTreeSet<_> = types.flat_map(|ty| ty.metadata.fields).map(|it| it.name).collect();
    if known.contains(name) {
        return None;
    }
    let hint = hint(nearest_field(name, known.iter().map(|it| &**it)));
    Some(format!("{option} has no effect: no event has a field named {name}{hint}"))
}
