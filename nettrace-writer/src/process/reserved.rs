//! Keys of a trace that only the session gives.

use std::borrow::Cow;

/// The prefix of a key that only the session may state, and that the application has given.
const GIVEN: &str = "given.";

/// The key by which a trace has a key-value that the program gives.
///
/// Readers take the last of equal keys, and by some of them tell files of a recording from copies,
/// processes from each other, and how many events are missing. So a given value never replaces that
/// of the session, but stands beside it: `given.ProcessId`.
pub(crate) fn given_key(key: &str) -> Cow<'_, str> {
    // A merged trace has the number of a recording before the keys of each.
    let own = key.trim_start_matches(|c: char| c.is_ascii_digit() || c == '/');
    let is_reserved =
        matches!(own, "ProcessId" | "HardwareThreadCount") || own.starts_with("nettrace.");
    if is_reserved { format!("{GIVEN}{key}").into() } else { key.into() }
}

/// The same of several key-values.
pub(crate) fn given_keys<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(Cow<'a, str>, &'a str)> {
    pairs.iter().map(|(key, value)| (given_key(key), *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::given_key;

    #[test]
    fn keys_of_the_session_are_moved_aside() {
        for key in ["ProcessId", "HardwareThreadCount", "nettrace.file", "1/2/ProcessId"] {
            assert_eq!(given_key(key), format!("given.{key}"));
        }
        for key in ["", "service.name", "process.id", "nettrace", "2", "1/customer", "processid"] {
            assert_eq!(given_key(key), key);
        }
    }
}
