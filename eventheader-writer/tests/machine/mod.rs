//! The machine that live tests run in (`cargo xtask vm`), and `perf` in it.

#![allow(dead_code, reason = "each test uses a part")]

use std::{
    env,
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use eventheader_writer::{Availability, TraceEvent, doctor, register};
use tracepoint_decode::PerfEventHeaderType;
use tracepoint_perf::{PerfDataFileEventOrder, PerfDataFileReader};

/// Long enough for a busy host that emulates a processor.
const PATIENCE: Duration = Duration::from_secs(60);

const TRACEFS: &str = "/sys/kernel/tracing";

/// The variable that says what a test program that a test has started is to do.
const ROLE: &str = "NETTRACE_LIVE_ROLE";

/// Whether this is the machine; if not, says so.
///
/// Live tests unmount, and count what the whole machine holds: a kernel with user_events and root's
/// rights are not enough to run them.
pub(crate) fn inside() -> bool {
    let inside = env::var_os("NETTRACE_LIVE").is_some();
    if !inside {
        println!("skipped: not in the machine of `cargo xtask vm`");
    }
    inside
}

/// One event as `perf` has recorded it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The tracepoint's name, without `user_events:`.
    pub(crate) tracepoint: String,
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// From the header on. The kernel fills the record up to a multiple of 8 bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Sample {
    /// Whether these are the event's bytes, but for the filling.
    pub(crate) fn is(&self, event: &[u8]) -> bool {
        let (bytes, filling) = self.bytes.split_at(event.len().min(self.bytes.len()));
        bytes == event && filling.len() < 8
    }
}

/// A `perf record` of the whole machine, while it lasts.
#[derive(Debug)]
pub(crate) struct Recording {
    perf: Child,
    data: PathBuf,
}

impl Recording {
    /// Starts one, and waits until it records all of `tracepoints`, which must be registered, on every
    /// processor.
    #[track_caller]
    pub(crate) fn start(tracepoints: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            |end: &str| env::temp_dir().join(format!("live-{}-{number}.{end}", std::process::id()));
        let (data, control, answer) = (path("data"), path("control"), path("answer"));
        let made = Command::new("mkfifo").args([&control, &answer]).status();
        assert!(made.expect("it is installed").success());
        // perf opens one event after the other, and says when it has turned on all of them.
        let mut fifos = format!("--control=fifo:{}", control.display());
        fifos.push_str(&format!(",{}", answer.display()));
        let mut command = Command::new("perf");
        command.args(["record", "--quiet", "--no-buildid", "--all-cpus", "--mmap-pages", "2048"]);
        command.args(["--delay=-1", &fifos]);
        for name in tracepoints {
            command.arg("--event").arg(format!("user_events:{name}"));
        }
        command.arg("--output").arg(&data).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let perf = command.spawn().expect("perf starts");
        let recording = Self { perf, data };

        // Both ends are ours too, so that neither opening nor reading waits for perf.
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            options.open(path).expect("it was made above")
        };
        let (mut commands, mut answers) = (open(&control), open(&answer));
        commands.write_all(b"enable\n").expect("there is room");
        let mut said = Vec::new();
        wait_until("perf listens", || {
            let _ = answers.read_to_end(&mut said);
            said.starts_with(b"ack\n")
        });
        for name in tracepoints {
            assert!(listeners(name).is_some_and(|all| all.iter().any(|one| one == "perf")));
        }
        for path in [control, answer] {
            fs::remove_file(path).expect("it is ours");
        }
        recording
    }

    /// Ends it; returns what was recorded, in the order of time.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Vec<Sample> {
        let id = self.perf.id().to_string();
        // A shell has it; the program of that name is not everywhere.
        let status = Command::new("sh").args(["-c", "kill -INT $0", &id]).status();
        assert!(status.expect("there is a shell").success());
        self.perf.wait().expect("perf ends");
        let samples = read(&self.data);
        fs::remove_file(&self.data).expect("perf has written a file");
        samples
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Both do nothing where it has ended; where a test has failed, it goes on.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// The events in a file of `perf`. Records of a loss are none: with them, no comparison holds.
#[track_caller]
fn read(data: &Path) -> Vec<Sample> {
    let mut reader = PerfDataFileReader::new();
    let path = data.to_str().expect("a name of ours");
    reader.open_file(path, PerfDataFileEventOrder::Time).expect("perf writes readable files");
    let mut samples = Vec::new();
    while reader.move_next_event().expect("perf writes readable files") {
        let event = reader.current_event();
        assert_ne!(event.header.ty, PerfEventHeaderType::Lost, "perf was too slow");
        if event.header.ty != PerfEventHeaderType::Sample {
            continue;
        }
        let info = reader.get_sample_event_info(&event).expect("perf describes its events");
        let name = info.name();
        samples.push(Sample {
            tracepoint: name.strip_prefix("user_events:").unwrap_or(name).to_owned(),
            pid: info.pid,
            bytes: info.user_data().to_vec(),
        });
    }
    samples
}

/// Who listens to a tracepoint of any process; `None`: there is none of that name.
#[must_use]
pub(crate) fn listeners(name: &str) -> Option<Vec<String>> {
    let found = doctor();
    assert_eq!(found.not_listed, None, "the kernel's list can be read");
    found.tracepoints.into_iter().find(|one| one.name == name).map(|one| one.listeners)
}

/// Turns tracefs' own listening to a tracepoint on or off.
#[track_caller]
pub(crate) fn listen(name: &str, on: bool) {
    let switch = format!("{TRACEFS}/events/user_events/{name}/enable");
    fs::write(switch, if on { "1" } else { "0" }).expect("the tracepoint is there");
}

/// Registers the type; returns the name that its tracepoint must have.
#[track_caller]
pub(crate) fn registered<T: TraceEvent>() -> String {
    let status = register(&[T::TYPES]).expect("the type can be described");
    assert!(matches!(status.availability, Availability::Ready { .. }), "{status:?}");
    let schema = T::TYPES[0].schema();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let provider: String = schema.provider.name.chars().map(plain).collect();
    let level = (schema.level as u8).max(1);
    let group = schema.provider.group.map(|group| format!("G{group}")).unwrap_or_default();
    let name = format!("{provider}_L{level:x}K{:x}{group}", schema.keywords);
    assert!(listeners(&name).is_some(), "{name} is not in the kernel's list");
    name
}

/// Starts this program once more, to run the test `role` alone in the given role, as another user if
/// one is given. Its standard output is ours to read.
#[must_use]
pub(crate) fn start_role(test: &str, role: &str, user: Option<u32>) -> Child {
    use std::os::unix::process::CommandExt;

    // Where another user may not look, he cannot start it.
    let program = env::temp_dir().join(format!("live-{}-{role}", std::process::id()));
    fs::copy(env::current_exe().expect("the system knows what it runs"), &program)
        .expect("there is room for the program");
    let mut command = Command::new(&program);
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let child = command.spawn().expect("a program that runs can be started");
    fs::remove_file(&program).expect("it is ours");
    child
}

/// Waits for the end of a program in a role; it must have ended well. Returns its output.
#[track_caller]
pub(crate) fn finish_role(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// The role in which this program was started.
#[must_use]
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// Waits for what must come.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
