//! Runs this test program again, waits, and helps tests on machines that are slow or emulated.

use std::{
    env,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

/// Time that a test waits for what is sure to come. A slow machine with other work takes long.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until something holds.
///
/// # Panics
/// If that takes longer than [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Makes other tests of this program wait if they also take one.
pub type Alone = MutexGuard<'static, ()>;

/// Waits until no other test of this program holds an [`Alone`]. Not for tests that fork, because
/// the child may inherit a lock of parking_lot that nobody unlocks.
pub fn one_at_a_time() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// The variable in which [`rerun`] passes its argument.
const RERUN: &str = "NETTRACE_RERUN";

/// The time limit for a test in a process of its own. Only a test that hangs takes longer.
const RERUN_PATIENCE: Duration = Duration::from_secs(600);

/// The emulator that runs this program, if the lane `aarch64` has set it.
pub fn emulator() -> Option<String> {
    env::var("NETTRACE_EMULATOR").ok()
}

/// Whether this program runs in an emulator. If so, prints that `what` is skipped.
pub fn skipped_in_emulator(what: &str) -> bool {
    let emulator = emulator();
    if let Some(emulator) = &emulator {
        println!("skipped: in {emulator}: {what}");
    }
    emulator.is_some()
}

/// A command that runs this program again. An emulated program must be started by the emulator,
/// because the kernel cannot run it.
pub fn this_program() -> Command {
    let program = env::current_exe().expect("this program");
    let Some(emulator) = emulator() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.arg(program);
    command
}

/// Copies a program or a script to a file that can be started at once, also while other tests of
/// this program start processes.
///
/// The system does not start a file that is open for writing (`ETXTBSY`). Had this process written
/// it, then a process that it starts meanwhile would have it open as well, until it is another
/// program. So `cp` writes it.
///
/// # Panics
/// If the file cannot be written.
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status().expect("cp is there");
    assert!(status.success(), "{} can be written", to.display());
}

/// Runs one test of this program in a process of its own, where [`is_rerun`] returns `argument`.
///
/// # Panics
/// If the test hangs. It is killed then.
pub fn rerun(test: &str, argument: &str) -> Output {
    rerun_within(RERUN_PATIENCE, test, argument)
}

/// Like [`rerun`], with a time limit.
///
/// # Panics
/// If the test hangs. It is killed then.
pub fn rerun_within(patience: Duration, test: &str, argument: &str) -> Output {
    let mut child = this_program()
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(RERUN, argument)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let deadline = Instant::now() + patience;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("a child");
            let output = child.wait_with_output().expect("a child");
            panic!("{test} hung: {}", String::from_utf8_lossy(&output.stderr));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

/// The argument of [`rerun`], if it started this process.
pub fn is_rerun() -> Option<String> {
    env::var(RERUN).ok()
}

/// Whether this process must do the work of the test `test`. If not, runs the test in a process of
/// its own.
///
/// # Panics
/// If the test fails there.
pub fn alone(test: &str) -> bool {
    if is_rerun().is_some() {
        return true;
    }
    let output = rerun(test, "alone");
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// Runs the tests of this program whose names contain `filter`, all beside each other, so many
/// times.
///
/// # Panics
/// If one of them fails.
pub fn repeat(times: usize, filter: &str) {
    for time in 1..=times {
        let output = this_program().args([filter, "--test-threads=30"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "at time {time}: {text}");
    }
}

/// Passes if one of three tries passes: see [`once_in`].
///
/// # Panics
/// If all three tries fail. The message has the error of each.
pub fn once_in_three(one: impl Fn() -> Result<(), String>) {
    once_in(3, one);
}

/// Passes if one of so many tries passes.
///
/// This is for tests that depend on when the scheduler runs a thread. A busy machine may fail one
/// try, but a wrong program fails all of them.
///
/// # Panics
/// If all tries fail. The message has the error of each.
pub fn once_in(tries: usize, one: impl Fn() -> Result<(), String>) {
    let failed: Vec<_> = (0..tries).map_while(|_| one().err()).collect();
    assert!(failed.len() < tries, "{failed:#?}");
}
