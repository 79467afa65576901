//! Names that are unique in one JSON object.
//!
//! In a trace, two fields of an object can have the same name. In JSON they cannot. The first keeps
//! its name `x`, the second becomes `x#2`, the third `x#3`. If the trace has a field with that
//! name, too, the next free number is used.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// Up to this number, names are compared with each other, which is faster than a table.
const FEW: usize = 16;

/// The names that are in use in an object.
#[derive(Debug, Default)]
pub struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
    /// The last number that each name got that is there more than once.
    numbers: HashMap<&'a str, u64>,
}

impl<'a> Names<'a> {
    /// Returns `name`, or its unique replacement.
    pub fn unique(&mut self, name: &'a str) -> Cow<'a, str> {
        let mut unique = Cow::Borrowed(name);
        if self.contains(name) {
            let mut number = self.numbers.get(name).copied().unwrap_or(1);
            while self.contains(&unique) {
                number += 1;
                unique = Cow::Owned(format!("{name}#{number}"));
            }
            self.numbers.insert(name, number);
        }
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push(unique.clone());
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(unique.clone());
        }
        unique
    }

    fn contains(&self, name: &str) -> bool {
        self.few.iter().any(|other| other == name) || self.many.contains(name)
    }
}

/// Whether all names differ, so that none must be replaced. Fast for objects with few fields.
#[must_use]
pub fn all_differ<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> bool {
    if names.len() <= FEW {
        let mut rest = names;
        while let Some(name) = rest.next() {
            if rest.clone().any(|other| other == name) {
                return false;
            }
        }
        return true;
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.into_iter().all(|name| seen.insert(name))
}

#[cfg(test)]
mod tests {
    use super::{Names, all_differ};

    fn unique(names: &[&str]) -> Vec<String> {
        let mut taken = Names::default();
        names.iter().map(|name| taken.unique(name).into_owned()).collect()
    }

    #[test]
    fn equal_names_are_numbered() {
        assert_eq!(unique(&["x", "y", "x", "x"]), ["x", "y", "x#2", "x#3"]);
        assert_eq!(unique(&["x", "x#2", "x"]), ["x", "x#2", "x#3"]);
        assert_eq!(unique(&["x", "x", "x#2"]), ["x", "x#2", "x#2#2"]);
    }

    #[test]
    fn many_names() {
        let names: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
        assert_eq!(unique(&names), names);
        assert!(all_differ(names.iter().copied()));
        assert!(all_differ(names[..5].iter().copied()));
        names.push("7");
        assert_eq!(unique(&names)[100], "7#2");
        assert!(!all_differ(names.iter().copied()));
        assert!(!all_differ(["a", "b", "a"].into_iter()));
    }
}
