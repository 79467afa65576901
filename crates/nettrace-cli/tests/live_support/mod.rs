//! Commands that watch a process, and a process of .NET.

#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test waits")]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::{Info, Target};
use nettrace_reader::{Event, Reader};
use tempfile::{TempDir, tempdir};
use testkit::reference::tool;

pub(crate) use testkit::process::{PATIENCE, until};

pub(crate) fn nettrace(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    command.args(arguments).env("TMPDIR", folder).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The standard output of a command that succeeds.
#[track_caller]
pub(crate) fn succeeded(output: &Output) -> String {
    let [text, errors] = [&output.stdout, &output.stderr].map(|one| String::from_utf8_lossy(one));
    assert!(output.status.success(), "{}: {text}\n{errors}", output.status);
    text.into_owned()
}

/// Sends SIGINT.
pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Runs a command, and `work` again and again, until the lines that the command has printed are
/// enough. Then interrupts it. Returns all that it printed.
#[track_caller]
pub(crate) fn until_enough(
    mut command: Command,
    mut work: impl FnMut(),
    enough: impl Fn(&[String]) -> bool,
) -> String {
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in out.lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    let (mut lines, mut is_over) = (Vec::<String>::new(), false);
    let deadline = Instant::now() + PATIENCE;
    loop {
        work();
        match receiver.recv_timeout(Duration::from_millis(1)) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if !is_over && enough(&lines) {
            is_over = true;
            interrupt(&child);
        }
        assert!(Instant::now() < deadline, "{lines:#?}");
    }
    reader.join().unwrap();
    succeeded(&child.wait_with_output().unwrap());
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Whether a trace that may be growing has such an event.
pub(crate) fn has_event(path: &Path, is_such: impl Fn(&Event<'_>) -> bool) -> bool {
    // There may be no header yet.
    let reader = File::open(path).ok().and_then(|file| Reader::new(BufReader::new(file)).ok());
    let Some(mut reader) = reader else { return false };
    while let Ok(Some(event)) = reader.next_event() {
        if is_such(&event) {
            return true;
        }
    }
    false
}

/// Collects into `path` until the trace has such an event. Returns what the command says.
#[track_caller]
pub(crate) fn collect_until(
    mut command: Command,
    path: &Path,
    is_such: impl Fn(&Event<'_>) -> bool,
) -> String {
    let child = command.arg("-o").arg(path).spawn().unwrap();
    until("it has the event", || has_event(path, &is_such));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    succeeded(&output);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process of .NET that emits as fast as it can once somebody listens, until this is dropped.
pub(crate) struct Dotnet {
    pub(crate) folder: TempDir,
    child: Child,
    pub(crate) target: Target,
}

impl Dotnet {
    pub(crate) fn start() -> Option<Self> {
        let folder = tempdir().unwrap();
        let mut command = Command::new(tool("eventpipe-bench")?);
        // The seconds are more than any test takes.
        command.args(["disabled", "1", "3600", "64", "unused"]).current_dir(folder.path());
        command.env("TMPDIR", folder.path()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let find = || Target::all_in(folder.path()).unwrap().pop();
        until("the runtime listens", || find().is_some());
        let target = find().unwrap();
        // It listens before it has loaded the program, which it names then.
        let is_loaded = |info: Info| info.program == "eventpipe-bench";
        until("the program runs", || target.info().is_ok_and(is_loaded));
        Some(Self { folder, child, target })
    }

    pub(crate) fn nettrace(&self, arguments: &[&str]) -> Command {
        let pid = self.target.pid.to_string();
        let mut command = nettrace(self.folder.path(), &arguments[..1]);
        command.args(["-p", &pid]).args(&arguments[1..]);
        command
    }
}

impl Drop for Dotnet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
