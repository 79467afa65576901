//! Starts the other process and steps its threads.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use testkit::process::{is_rerun, skipped_in_emulator, this_program};

use crate::{
    files::{self, DONE, NOT_PERMITTED},
    judge::Judge,
    ptrace::{self, Stepped},
    script::{self, Script},
};

/// No script takes so long on a machine that does twenty other things, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The process, which ends with its test.
struct Process {
    child: Child,
    /// The thread of the script, and the flusher's.
    threads: Vec<Stepped>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.threads.clear();
        let _ = self.child.wait();
    }
}

/// Steps the thread of a script, while the flusher does nothing. Returns how many events are
/// recorded and how many are lost. `None`: it is skipped.
pub(crate) fn alone(test: &str, script: &Script) -> Option<(usize, usize)> {
    run(test, script, Turns::Alone)
}

/// Steps the thread of a script and the flusher, in an order that depends on `seed`.
pub(crate) fn together(test: &str, seed: u64, script: &Script) {
    run(test, script, Turns::AtRandom(seed, 1));
}

/// Steps one of the two until it waits for the other.
pub(crate) fn in_turn(test: &str, script: &Script) {
    run(test, script, Turns::OfWaiting);
}

fn run(test: &str, script: &Script, mut turns: Turns) -> Option<(usize, usize)> {
    if let Some(folder) = is_rerun() {
        script::run(script, Path::new(&folder));
    }
    if skipped_in_emulator("steps of another process") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, len) in [(files::PROGRESS, files::EVENTS + 1024), (files::SPANS, 0)] {
        File::create(folder.path().join(name)).unwrap().set_len(len).unwrap();
    }
    ptrace::stay_on_processor();
    let process = this_program()
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("NETTRACE_RERUN", folder.path())
        // An instruction that copies a text would be stepped byte by byte.
        .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1073741824")
        .stdout(Stdio::null())
        .spawn();
    let mut process = Process { child: process.unwrap(), threads: Vec::new() };
    if !begin(&mut process, folder.path()) {
        println!("skipped: this process may not trace another one");
        return None;
    }
    let start = Instant::now();
    let mut judge = Judge::new(script, folder.path());
    judge.look(true);
    let is_alone = matches!(turns, Turns::Alone);
    let mut flusher_steps = 0_u64;
    let mut at = 0;
    loop {
        if is_alone {
            process.threads[0].step_through().unwrap();
        } else if !process.threads[at].step().unwrap() {
            assert!(start.elapsed() < PATIENCE, "they hang");
            at = 1 - at;
        } else if turns.turn() {
            at = 1 - at;
        }
        flusher_steps += at as u64;
        if judge.look(!is_alone) == DONE {
            break;
        }
    }
    drop(process);
    judge.look(true);
    assert!(!script.keeps || judge.given_up() > 0, "nothing is given up");
    let outcome = judge.outcome();
    println!(
        "{test}: {:?}, {flusher_steps} of the flusher, {outcome:?}, {:?}",
        judge.counts,
        start.elapsed()
    );
    Some(outcome)
}

/// Which of the threads is stepped when.
enum Turns {
    /// That of the script alone.
    Alone,
    /// One until it waits.
    OfWaiting,
    AtRandom(u64, u64),
}

impl Turns {
    /// Whether it is the other one's turn: at times after each step, at times after hundreds.
    fn turn(&mut self) -> bool {
        let Self::AtRandom(state, after) = self else { return false };
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        if *state >> 54 == 0 {
            *after = 1 << (*state >> 40 & 15);
        }
        (*state >> 33) % *after == 0
    }
}

/// Waits until the process stops. Returns `false` if it may not be stepped.
fn begin(process: &mut Process, folder: &Path) -> bool {
    let progress = File::open(folder.join(files::PROGRESS)).unwrap();
    let tasks = format!("/proc/{}/task", process.child.id());
    loop {
        assert_eq!(process.child.try_wait().unwrap(), None, "it has ended");
        thread::sleep(Duration::from_millis(1));
        let mut bytes = [0; files::EVENTS as usize];
        progress.read_exact_at(&mut bytes, 0).unwrap();
        if bytes[files::PHASE as usize] == NOT_PERMITTED {
            return false;
        }
        let id = i32::from_le_bytes(*bytes.first_chunk().unwrap());
        if id == 0 || ptrace::state(id) != Some('t') {
            continue;
        }
        process.threads.push(Stepped::stopped(id).unwrap());
        // A new thread names itself. On a busy machine it may not have come to that.
        let flusher = loop {
            if let Some(flusher) = named(&tasks, "nettrace-flush") {
                break flusher;
            }
            thread::sleep(Duration::from_millis(1));
        };
        while ptrace::state(flusher) != Some('S') {
            thread::sleep(Duration::from_millis(1));
        }
        process.threads.push(Stepped::seize(flusher).unwrap());
        return true;
    }
}

/// The id of the thread, among the tasks of a process, whose name begins with `name`.
fn named(tasks: &str, name: &str) -> Option<i32> {
    fs::read_dir(tasks).unwrap().find_map(|task| {
        let path = task.unwrap().path();
        let is_named = fs::read_to_string(path.join("comm")).unwrap().starts_with(name);
        is_named.then(|| path.file_name().unwrap().to_str().unwrap().parse().unwrap())
    })
}
