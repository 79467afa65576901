//! [`MissingCounters`]: names that no value has come for, and what the process has instead.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::CounterName;

/// The number of names that a message lists.
const MOST: usize = 20;

/// The state of each name of the command line, and the instruments of the process.
#[derive(Debug, Default)]
pub(super) struct MissingCounters {
    /// The names with values, by their index.
    seen: HashSet<usize>,
    /// By meter, as far as the process names them.
    instruments: BTreeMap<String, BTreeSet<String>>,
    has_told: bool,
}

impl MissingCounters {
    pub(super) fn see(&mut self, index: usize) {
        self.seen.insert(index);
    }

    pub(super) fn publish(&mut self, meter: String, instrument: String) {
        self.instruments.entry(meter).or_default().insert(instrument);
    }

    /// Messages about names without values. Says it once.
    pub(super) fn tell(&mut self, names: &[CounterName]) -> Vec<String> {
        if std::mem::replace(&mut self.has_told, true) {
            return Vec::new();
        }
        let missing = names.iter().enumerate().filter(|(index, _)| !self.seen.contains(index));
        missing.map(|(_, name)| self.message(name)).collect()
    }

    fn message(&self, name: &CounterName) -> String {
        let text = &name.name;
        let of_meter = || self.instruments.iter().filter(|(meter, _)| name.is_of(meter));
        let mut instruments =
            of_meter().flat_map(|(meter, all)| all.iter().map(move |one| (meter, one)));
        if instruments.any(|(meter, instrument)| name.selects(meter, instrument)) {
            return format!("{text} has had no values so far");
        }
        let mut others: Vec<_> = of_meter().flat_map(|(_, all)| all).collect();
        if !others.is_empty() {
            let wanted = name.instruments.join(", ");
            return format!("{text} has no {wanted} so far; it has {}", list(&mut others));
        }
        let mut meters: Vec<_> = self.instruments.keys().collect();
        let is_all = text == "*";
        match meters.is_empty() {
            true if is_all => {
                "the process names no meters so far; providers of EventCounters must be given by \
                 their names"
                    .to_owned()
            }
            true => format!("nothing has come of {text} so far"),
            false => format!(
                "nothing has come of {text} so far; the meters of the process: {}",
                list(&mut meters)
            ),
        }
    }
}

fn list(names: &mut Vec<&String>) -> String {
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let text = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_values_are_told_once_with_what_there_is() {
        let names = ["Shop", "Shpo", "Shop[ordrs,x]", "Stock*", "Seen"];
        let names: Vec<CounterName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let mut missing = MissingCounters::default();
        assert_eq!(missing.message(&names[1]), "nothing has come of Shpo so far");
        missing.publish("Shop".to_owned(), "orders".to_owned());
        missing.publish("Shop".to_owned(), "carts".to_owned());
        missing.see(4);
        assert_eq!(
            missing.tell(&names),
            [
                "Shop has had no values so far",
                "nothing has come of Shpo so far; the meters of the process: Shop",
                "Shop has no ordrs, x so far; it has carts, orders",
                "nothing has come of Stock* so far; the meters of the process: Shop",
            ]
        );
        assert!(missing.tell(&names).is_empty());
        let many: Vec<_> = (10..40).map(|number| number.to_string()).collect();
        assert!(list(&mut many.iter().collect()).ends_with("28, 29 and 10 more"));
    }
}
