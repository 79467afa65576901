//! The command line of the programs that criterion has no part in.

use std::env;

/// What `cargo bench` and `cargo test` pass on.
///
/// Criterion's options are passed to every benchmark alike; they are ignored here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Measure. If not (`cargo test`), only a little of everything is run, to see that it does.
    pub measure: bool,
    /// There is nothing to list, so nothing to do.
    list: bool,
    /// Parts of the names of scenarios; none for all of them.
    filter: Vec<String>,
}

impl Options {
    /// The options of this process.
    #[must_use]
    pub fn from_env() -> Self {
        Self::new(env::args().skip(1))
    }

    fn new(arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--bench" => options.measure = true,
                "--list" => options.list = true,
                option if option.starts_with('-') => {}
                _ => options.filter.push(argument),
            }
        }
        options
    }

    /// Whether the scenario with this name is asked for.
    #[must_use]
    pub fn wants(&self, scenario: &str) -> bool {
        !self.list
            && (self.filter.is_empty() || self.filter.iter().any(|part| scenario.contains(part)))
    }

    /// `full` where it is measured, else `little`.
    pub fn amount<T>(&self, full: T, little: T) -> T {
        if self.measure { full } else { little }
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn options(arguments: &[&str]) -> Options {
        Options::new(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn criterions_options_are_ignored() {
        let options = options(&["--warm-up-time=1", "--noplot", "--bench"]);
        assert!(options.measure && options.wants("anything"));
    }

    #[test]
    fn a_filter_chooses_by_a_part_of_the_name() {
        let options = options(&["file", "threads"]);
        assert!(!options.measure);
        assert!(options.wants("file_tmpfs") && options.wants("threads_1000"));
        assert!(!options.wants("dev_null"));
    }

    #[test]
    fn a_listing_runs_nothing() {
        assert!(!options(&["--list"]).wants("dev_null"));
    }
}
