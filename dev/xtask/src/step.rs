//! Runs one command: shows it first, gives it no terminal, and counts its tests.

use std::{
    ffi::OsStr,
    fmt,
    io::{BufRead, BufReader, Write},
    ops::AddAssign,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail};

/// A command to run.
#[derive(Debug)]
#[must_use]
pub struct Step {
    command: Command,
    shown: String,
}

impl Step {
    /// A step that runs `program`, which is looked up on the PATH unless it is a path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let name = Path::new(program.as_ref()).file_name().unwrap_or(program.as_ref());
        let shown = name.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Self { command, shown }
    }

    /// A step that runs the same cargo that runs this program.
    pub fn cargo() -> Self {
        Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.shown.push(' ');
        self.shown.push_str(&argument.as_ref().to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<T: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = T>) -> Self {
        arguments.into_iter().fold(self, |step, argument| step.arg(argument))
    }

    /// Sets an environment variable. It is shown with the command.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown = format!("{name}={:?} {}", value.as_ref().to_string_lossy(), self.shown);
        self.command.env(name, value);
        self
    }

    /// Removes environment variables.
    pub fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    /// Runs the command in `folder` instead of the current one.
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Hides standard error.
    pub fn quiet(mut self) -> Self {
        self.command.stderr(Stdio::null());
        self
    }

    /// Runs the command to the end. Its output goes where ours goes.
    pub fn run(mut self) -> Result<()> {
        self.announce();
        let status = self.command.status().with_context(|| self.not_started())?;
        self.judge(status)
    }

    /// Runs the command without showing it, and returns its standard output. Errors still show.
    pub fn read(mut self) -> Result<String> {
        self.command.stdout(Stdio::piped());
        let child = self.command.spawn().with_context(|| self.not_started())?;
        let output = child.wait_with_output().with_context(|| self.not_started())?;
        self.judge(output.status)?;
        String::from_utf8(output.stdout).with_context(|| format!("the output of `{}`", self.shown))
    }

    /// Runs a search or a comparison, and returns what it finds. Code 1 is no failure: it says
    /// whether there is anything.
    pub fn find(mut self) -> Result<String> {
        self.command.stderr(Stdio::inherit());
        let output = self.command.output().with_context(|| self.not_started())?;
        if output.status.code() != Some(1) {
            self.judge(output.status)?;
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the command to the end, passes on standard output line by line, and calls `each` with
    /// each line.
    pub fn watch(mut self, mut each: impl FnMut(&str)) -> Result<()> {
        self.announce();
        self.command.stdout(Stdio::piped());
        let mut child = self.command.spawn().with_context(|| self.not_started())?;
        if let Some(output) = child.stdout.take() {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = reader.read_until(b'\n', &mut line) {
                // A test may print anything, so replace what is not UTF-8.
                let text = String::from_utf8_lossy(&line);
                print!("{text}");
                each(text.trim_end());
                line.clear();
            }
        }
        let status = child.wait().with_context(|| self.not_started())?;
        self.judge(status)
    }

    /// Runs tests and adds how many ran, including failures, to `tally`.
    ///
    /// This happens before a failure is returned, so that the tally can still be shown.
    pub fn test(self, tally: &mut Tally) -> Result<()> {
        self.watch(|line| tally.read(line))
    }

    /// Runs tests for at most `seconds`, and returns whether one of them failed. Passes on their
    /// output if none did: a failure that is expected must not look like one that is not.
    pub fn fails(self, seconds: u32) -> Result<bool> {
        self.announce();
        // It ends cargo's children, too.
        let mut command = Command::new("timeout");
        command.arg(seconds.to_string()).arg(self.command.get_program());
        command.args(self.command.get_args());
        let set = self.command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| self.not_started())?;
        let text = String::from_utf8_lossy(&output.stdout);
        if text.lines().any(|line| line.starts_with("test ") && line.ends_with(" ... FAILED")) {
            return Ok(true);
        }
        print!("{text}");
        if output.status.code() != Some(OUT_OF_TIME) {
            self.judge(output.status)?;
        }
        Ok(false)
    }

    fn announce(&self) {
        println!("$ {}", self.shown);
        // The command writes standard error to the same place, so flush first to keep the order.
        let _ = std::io::stdout().flush();
    }

    fn not_started(&self) -> String {
        format!("could not start `{}`; is it installed and on the PATH?", self.shown)
    }

    fn judge(&self, status: ExitStatus) -> Result<()> {
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => {
                bail!("`{}` failed with code {code}; its output above says why", self.shown)
            }
            None => bail!("`{}` was ended by a signal; see its output above", self.shown),
        }
    }
}

/// The exit code of `timeout` for a command that it has ended.
const OUT_OF_TIME: i32 = 124;

/// The number of tests that ran.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests marked as ignored, and tests that printed that they have nothing to run against.
    pub skipped: u64,
}

impl Tally {
    /// The number of tests that ran, passed or failed.
    pub fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Parses a tally in the form in which it is displayed.
    pub fn parse(line: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut parts = line.split(", ");
        for (number, word) in numbers.iter_mut().zip([" passed", " failed", " skipped"]) {
            *number = parts.next()?.strip_suffix(word)?.parse().ok()?;
        }
        let [passed, failed, skipped] = numbers;
        parts.next().is_none().then_some(Self { passed, failed, skipped })
    }

    /// Adds what one line of a test runner's output says.
    ///
    /// It counts the summary that the standard harness prints for each binary (`test result: ok. 3
    /// passed; 0 failed; 1 ignored; …`). It also counts the line `skipped: …`, which our tests
    /// print when what they need is absent. The harness counts such a test as passed.
    pub fn read(&mut self, line: &str) {
        // With `--nocapture` the line may follow `test name ... `.
        if line.starts_with("skipped: ") || line.contains(" ... skipped: ") {
            self.skipped += 1;
        }
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let Some(Ok(count)) = words.next().map(str::parse::<u64>) else { continue };
            match words.next() {
                Some("passed") => self.passed += count,
                Some("failed") => self.failed += count,
                Some("ignored") => self.skipped += count,
                _ => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Step {
        Step::new("sh").args(["-c", line])
    }

    #[test]
    fn summaries_are_added_up() {
        let mut tally = Tally::default();
        for line in [
            "running 4 tests",
            "test a ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 12 filtered out; \
             finished in 0.01s",
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.01s",
        ] {
            tally.read(line);
        }
        assert_eq!(tally, Tally { passed: 8, failed: 2, skipped: 1 });
        assert_eq!(tally.to_string(), "8 passed, 2 failed, 1 skipped");
        assert_eq!(Tally::parse(&tally.to_string()), Some(tally));
    }

    #[test]
    fn a_test_that_finds_nothing_to_run_against_is_counted() {
        let mut tally = Tally::default();
        tally.read("skipped: no judge at ../elsewhere");
        tally.read("test reads_in_judge ... skipped: no judge at ../elsewhere");
        tally.read("nothing was skipped: all is well");
        assert_eq!(tally.skipped, 2);
    }

    #[test]
    fn prose_is_not_a_summary() {
        let mut tally = Tally::default();
        for line in ["test result: ", "3 passed; 0 failed", "test result: ok. many passed"] {
            tally.read(line);
            assert_eq!(Tally::parse(line), None);
        }
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn the_output_of_a_failed_command_is_still_seen() {
        let mut tally = Tally::default();
        let line = "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101";
        let error = shell(line).test(&mut tally).unwrap_err();
        assert!(error.to_string().contains("failed with code 101"), "{error}");
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Step::new("no-such-program-here").read().unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }

    #[test]
    fn only_a_failed_test_catches() {
        assert!(
            shell("echo 'test a ... FAILED'; sleep 100").fails(1).unwrap(),
            "another one hangs"
        );
        let hangs = shell("echo 'test a has been running for over 60 seconds'; sleep 100");
        assert!(!hangs.fails(1).unwrap(), "a test that hangs");
        assert!(!shell("echo 'test a ... ok'").fails(60).unwrap());
        assert!(shell("exit 101").fails(60).is_err(), "a build that fails catches nothing");
    }
}
