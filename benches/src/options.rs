//! The command line of the benchmarks that do not use criterion.

use std::env;

/// The arguments that `cargo bench` and `cargo test` pass on.
///
/// `cargo bench` gives every benchmark the same options, so those of criterion are ignored here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to measure. If not (`cargo test`), each scenario only runs briefly, to show that it
    /// works.
    pub measure: bool,
    /// `--list` was given. These programs have nothing to list, so they do nothing.
    list: bool,
    /// Parts of the names of the scenarios to run. Empty: all of them.
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

    /// Whether the scenario `name` is to run.
    #[must_use]
    pub fn wants(&self, scenario: &str) -> bool {
        !self.list
            && (self.filter.is_empty() || self.filter.iter().any(|part| scenario.contains(part)))
    }

    /// `full` if the program measures, otherwise `little`.
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
