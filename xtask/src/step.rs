//! Runs one command: shows it first, gives it no terminal, and counts its tests.

use std::{
    ffi::OsStr,
    fmt,
    io::{self, BufRead, BufReader, Write},
    ops::AddAssign,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    failures::Failures,
};

/// A command to run.
#[derive(Debug)]
pub(crate) struct Step {
    command: Command,
    shown: String,
}

impl Step {
    /// A step that runs `program`, which is looked up on the PATH unless it is a path.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let name = Path::new(program.as_ref()).file_name().unwrap_or(program.as_ref());
        let shown = name.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Self { command, shown }
    }

    /// A step that runs the same cargo that runs this program.
    pub(crate) fn cargo() -> Self {
        Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.shown.push(' ');
        self.shown.push_str(&argument.as_ref().to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<T: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = T>) -> Self {
        arguments.into_iter().fold(self, |step, argument| step.arg(argument))
    }

    /// Sets an environment variable. It is shown with the command.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown = format!("{name}={:?} {}", value.as_ref().to_string_lossy(), self.shown);
        self.command.env(name, value);
        self
    }

    /// Removes environment variables.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    /// Runs the command in `folder` instead of the current one.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Hides standard error.
    pub(crate) fn quiet(mut self) -> Self {
        self.command.stderr(Stdio::null());
        self
    }

    /// Runs the command to the end. Its output goes where ours goes.
    pub(crate) fn run(mut self) -> Result<()> {
        self.announce();
        let status = self.command.status().map_err(|source| self.start_error(source))?;
        self.judge(status)
    }

    /// Runs the command without showing it, and returns its standard output. Errors still show.
    pub(crate) fn read(mut self) -> Result<String> {
        self.command.stdout(Stdio::piped());
        let child = self.command.spawn().map_err(|source| self.start_error(source))?;
        let output = child.wait_with_output().map_err(|source| self.start_error(source))?;
        self.judge(output.status)?;
        String::from_utf8(output.stdout)
            .map_err(|source| Error::Output { command: self.shown, source: source.into() })
    }

    /// Runs the command to the end, passes on standard output line by line, and calls `each` with
    /// each line.
    pub(crate) fn watch(mut self, mut each: impl FnMut(&str)) -> Result<()> {
        self.announce();
        self.command.stdout(Stdio::piped());
        let mut child = self.command.spawn().map_err(|source| self.start_error(source))?;
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
        let status = child.wait().map_err(|source| self.start_error(source))?;
        self.judge(status)
    }

    /// Runs tests and adds how many ran, including failures, to `tally`.
    ///
    /// This happens before a failure is returned, so that the tally can still be shown.
    pub(crate) fn test(self, tally: &mut Tally) -> Result<()> {
        let mut failures = Failures::default();
        let outcome = self.watch(|line| {
            tally.read(line);
            failures.read(line);
        });
        failures.explain(outcome)
    }

    /// Runs tests until one of them fails or the time is over. Ends the others then. Returns
    /// whether one failed. Passes on their output if none did: a failure that is expected must
    /// not look like one that is not.
    pub(crate) fn fails(mut self, limit: Duration) -> Result<bool> {
        self.announce();
        self.command.stdout(Stdio::piped());
        // The command leads a process group, so that cargo's children end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        let mut child = self.command.spawn().map_err(|source| self.start_error(source))?;
        let output = child.stdout.take().map(|output| BufReader::new(output).lines());
        let (sender, receiver) = mpsc::channel();
        // Ends when the group has ended, because the pipe is closed then.
        thread::spawn(move || {
            for line in output.into_iter().flatten().map_while(io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + limit;
        let mut lines = Vec::new();
        let is_failed = loop {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("test ") && line.ends_with(" ... FAILED") => {
                    break true;
                }
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    lines.push(format!("ended after {} s", limit.as_secs_f64()));
                    println!("{}", lines.join("\n"));
                    break false;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    println!("{}", lines.join("\n"));
                    let status = child.wait().map_err(|source| self.start_error(source))?;
                    return self.judge(status).map(|()| false);
                }
            }
        };
        end_group(&mut child);
        child.wait().map_err(|source| self.start_error(source))?;
        Ok(is_failed)
    }

    fn announce(&self) {
        println!("$ {}", self.shown);
        // The command writes standard error to the same place, so flush first to keep the order.
        let _ = std::io::stdout().flush();
    }

    fn start_error(&self, source: io::Error) -> Error {
        Error::Start { command: self.shown.clone(), source }
    }

    fn judge(&self, status: std::process::ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        Err(Error::Failed { command: self.shown.clone(), code: status.code() })
    }
}

/// Kills a process that leads a group, and the whole group.
pub(crate) fn end_group(leader: &mut Child) {
    if cfg!(unix) {
        // `kill` is a command of every shell, but not every machine has a program of that name.
        let kill = format!("kill -KILL -{}", leader.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
    }
    // For systems without groups. It is no error if the process has just ended by itself.
    let _ = leader.kill();
}

/// How many tests ran.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests marked as ignored, and tests that printed that they have nothing to run against.
    pub(crate) skipped: u64,
}

impl Tally {
    /// How many tests ran, passed or failed.
    pub(crate) fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Parses a tally in the form in which it is displayed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
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
    pub(crate) fn read(&mut self, line: &str) {
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
        let failed = Step::new("sh").args(["-c", line]).test(&mut tally);
        let Err(Error::Failed { code, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(code, Some(101));
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Step::new("no-such-program-here").read().unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }
}
