//! A program that `collect` starts itself, so that its trace begins with its first event.

use std::{
    ffi::OsString,
    io,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::Target;

use super::session::Signals;
use crate::{failure::Failure, standard_error};

/// The variable by which a process waits at its own socket until a tool resumes it.
const SUSPEND: &str = "DOTNET_DefaultDiagnosticPortSuspend";
/// Interval at which this command looks for the socket.
const PAUSE: Duration = Duration::from_millis(5);
/// Time after which it says what it waits for.
const SILENCE: Duration = Duration::from_secs(5);

/// A program that was started, and where it listens.
pub(super) struct Launched {
    program: ChildProgram,
    pub(super) target: Target,
}

struct ChildProgram {
    child: Child,
    name: String,
    goes_on: bool,
}

impl Drop for ChildProgram {
    /// A program that nobody resumes would wait for ever.
    fn drop(&mut self) {
        if !self.goes_on {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Launched {
    /// Starts a program, and waits until it listens. It goes on when it is [resumed](Self::resume).
    /// Its output goes to standard error if the trace goes to standard output.
    pub(super) fn start(
        command: &[OsString],
        keeps_stdout: bool,
        signals: &Signals,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::Process("no program is named".to_owned()));
        };
        let name = program.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments).env(SUSPEND, "1");
        if keeps_stdout {
            command.stdout(Stdio::from(io::stderr()));
        }
        let child = command
            .spawn()
            .map_err(|error| Failure::Process(format!("cannot start {name}: {error}")))?;
        let pid = child.id();
        let mut program = ChildProgram { child, name, goes_on: false };
        let begun = Instant::now();
        let mut is_silent = true;
        loop {
            if let Some(target) = Target::of(pid).map_err(Failure::Output)? {
                // The file appears a moment before the process listens at it.
                if target.info().is_ok() {
                    return Ok(Self { program, target });
                }
            }
            let name = &program.name;
            if let Some(status) = program.child.try_wait().map_err(Failure::Output)? {
                return Err(Failure::Process(format!(
                    "{name} has ended ({status}) and never listened; it must call \
                     `nettrace_diagnostics::listen` or be of .NET, and have the same TMPDIR"
                )));
            }
            if is_silent && begun.elapsed() > SILENCE {
                is_silent = false;
                standard_error::say(Some(format_args!(
                    "{name} does not listen yet; waiting for it"
                )))?;
            }
            if signals.wait(PAUSE)? {
                return Err(Failure::Process(format!("{name} has not listened so far")));
            }
        }
    }

    /// Lets the program go on.
    pub(super) fn resume(&mut self) -> Result<(), Failure> {
        self.target.resume()?;
        self.program.goes_on = true;
        Ok(())
    }

    /// Waits for the program's end, or for a signal. A status other than success is a failure.
    pub(super) fn wait(self, signals: &Signals) -> Result<(), Failure> {
        let Self { mut program, .. } = self;
        loop {
            match program.child.try_wait().map_err(Failure::Output)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let name = program.name.clone();
                    return Err(Failure::Program(name, code(status), status));
                }
                None if signals.wait(PAUSE)? => return Ok(()),
                None => {}
            }
        }
    }
}

/// The exit code of a program, as a shell has it.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
