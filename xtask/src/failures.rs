//! What failed tests printed, to be shown again at the end of a run.
//!
//! The lanes print a million lines, and those who read the result of a run often see the last ones
//! only.

use crate::error::{Error, Result};

/// How many lines to keep of one test program.
const LINES: usize = 60;

/// How many characters to keep of a line. A failed comparison of two traces prints them.
const WIDTH: usize = 400;

/// The failures in the output of test programs.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    lines: Vec<String>,
    /// How many lines of the current program were kept. `None` outside the list of failures.
    kept: Option<usize>,
}

impl Failures {
    /// Keeps a line of a test runner's output if it belongs to what failed.
    ///
    /// A program of the standard harness prints `failures:`, then what each failed test printed,
    /// then their names, and `test result: FAILED` last.
    pub(crate) fn read(&mut self, line: &str) {
        if line == "failures:" && self.kept.is_none() {
            self.kept = Some(0);
        }
        let Some(kept) = &mut self.kept else { return };
        let is_last = line.starts_with("test result: ");
        // The backtrace under a panic says less than its line, and is long.
        if (*kept < LINES || is_last) && !line.is_empty() && !is_of_backtrace(line) {
            self.lines.push(line.chars().take(WIDTH).collect());
            *kept += 1;
        }
        if is_last {
            self.kept = None;
        }
    }

    /// Adds the failures in a whole output.
    pub(crate) fn read_all(&mut self, text: &str) {
        text.lines().for_each(|line| self.read(line));
    }

    /// Adds what failed to an error.
    pub(crate) fn explain(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(source) if !self.lines.is_empty() => {
                Err(Error::Tests { failures: self, source: Box::new(source) })
            }
            other => other,
        }
    }

    /// The lines that were kept.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// Whether `line` is one of a backtrace: `  12: core::panicking::panic_fmt`, or the place below it.
fn is_of_backtrace(line: &str) -> bool {
    let text = line.trim_start();
    let number = text.split_once(": ").is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_indented = text.len() < line.len();
    is_indented && (number || text.starts_with("at ")) || text == "stack backtrace:"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_and_nothing_else() {
        let text = "\
running 2 tests
test good ... ok
test bad ... FAILED

failures:

---- bad stdout ----

thread 'bad' (7) panicked at src/lib.rs:3:5:
1 is not 2
stack backtrace:
   0: core::panicking::panic_fmt
             at ./src/lib.rs:3:5
note: Some details are omitted


failures:
    bad

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
     Running tests/other.rs
test result: ok. 3 passed; 0 failed
";
        let mut failures = Failures::default();
        failures.read_all(text);
        assert_eq!(
            failures.lines(),
            [
                "failures:",
                "---- bad stdout ----",
                "thread 'bad' (7) panicked at src/lib.rs:3:5:",
                "1 is not 2",
                "note: Some details are omitted",
                "failures:",
                "    bad",
                "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            ]
        );
    }

    #[test]
    fn a_failure_that_prints_much_is_cut() {
        let mut failures = Failures::default();
        failures.read("failures:");
        (0..1_000).for_each(|_| failures.read(&"x".repeat(1_000)));
        failures.read("test result: FAILED. 0 passed; 1 failed");
        assert_eq!(failures.lines().len(), LINES + 1);
        assert!(failures.lines().iter().all(|line| line.len() <= WIDTH));
        assert!(failures.lines()[LINES].starts_with("test result"));
    }
}
