//! The machine that live tests run on (`cargo xtask vm`), and its `perf`.

#![allow(dead_code, reason = "each test uses a part")]

use std::{
    env,
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use eventheader_writer::{Availability, TraceEvent, doctor, register};
use testkit::process::copy_program;
pub(crate) use testkit::process::until as wait_until;
use tracepoint_decode::PerfEventHeaderType;
use tracepoint_perf::{PerfDataFileEventOrder, PerfDataFileReader};

/// Long enough for a busy host that emulates a processor.
const PATIENCE: Duration = Duration::from_secs(60);

const TRACEFS: &str = "/sys/kernel/tracing";

/// The variable with the role of a test program that another test started.
const ROLE: &str = "NETTRACE_LIVE_ROLE";

/// Whether this is the machine for live tests. If not, prints that the test is skipped.
///
/// Live tests unmount tracefs, and count the tracepoints of the whole machine. So they need a
/// machine of their own, not only a kernel with user_events and root's rights.
pub(crate) fn inside() -> bool {
    let inside = env::var_os("NETTRACE_LIVE").is_some();
    if !inside {
        println!("skipped: not in the machine of `cargo xtask vm`");
    }
    inside
}

/// One event as `perf` recorded it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The tracepoint's name, without `user_events:`.
    pub(crate) tracepoint: String,
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// The event's bytes, starting with its header. The kernel fills the record up to a multiple of
    /// 8 bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Sample {
    /// Whether these are the event's bytes, ignoring the filling.
    pub(crate) fn is(&self, event: &[u8]) -> bool {
        let (bytes, filling) = self.bytes.split_at(event.len().min(self.bytes.len()));
        bytes == event && filling.len() < 8
    }
}

/// A running `perf record` of the whole machine.
#[derive(Debug)]
pub(crate) struct Recording {
    perf: Child,
    data: PathBuf,
}

impl Recording {
    /// Starts a recording, and waits until it records all of `tracepoints` on every processor.
    /// These must be registered.
    #[track_caller]
    pub(crate) fn start(tracepoints: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            |end: &str| env::temp_dir().join(format!("live-{}-{number}.{end}", std::process::id()));
        let (data, control, answer) = (path("data"), path("control"), path("answer"));
        let made = Command::new("mkfifo").args([&control, &answer]).status();
        assert!(made.expect("it is installed").success());
        // perf opens one event after the other, and reports when all are turned on.
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

        // This process also opens both ends, so that neither opening nor reading waits for perf.
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

    /// Ends the recording. Returns the recorded events in the order of time.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Vec<Sample> {
        let id = self.perf.id().to_string();
        // `kill` is built into the shell; not every system has the program.
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
        // Both do nothing if perf has ended. If a test has failed, perf is still running.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// The events in a file of `perf`. There must be no records of losses, which would make every
/// comparison meaningless.
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

/// The listeners of a tracepoint of any process; `None` if there is no tracepoint of that name.
#[must_use]
pub(crate) fn listeners(name: &str) -> Option<Vec<String>> {
    let found = doctor();
    assert_eq!(found.not_listed, None, "the kernel's list can be read");
    found.tracepoints.into_iter().find(|one| one.name == name).map(|one| one.listeners)
}

/// Enables or disables tracefs' own listener of a tracepoint.
#[track_caller]
pub(crate) fn listen(name: &str, on: bool) {
    let switch = format!("{TRACEFS}/events/user_events/{name}/enable");
    fs::write(switch, if on { "1" } else { "0" }).expect("the tracepoint is there");
}

/// Registers the type and returns the name that its tracepoint must have.
#[track_caller]
pub(crate) fn registered<T: TraceEvent>() -> String {
    let status = register(&[T::event_types()]).expect("the type can be described");
    assert!(matches!(status.availability, Availability::Ready { .. }), "{status:?}");
    let schema = T::event_types()[0].schema();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let provider: String = schema.provider.name.chars().map(plain).collect();
    let level = schema.level.number().max(1);
    let group = schema.provider.group.map(|group| format!("G{group}")).unwrap_or_default();
    let name = format!("{provider}_L{level:x}K{:x}{group}", schema.keywords);
    assert!(listeners(&name).is_some(), "{name} is not in the kernel's list");
    name
}

/// Starts this program again, to run only the test `role` in the given role, optionally as another
/// user. Its standard output is piped to this process.
#[must_use]
pub(crate) fn start_role(test: &str, role: &str, user: Option<u32>) -> Child {
    use std::os::unix::process::CommandExt;

    // Another user cannot start a program in a folder that he may not access.
    let program = env::temp_dir().join(format!("live-{}-{role}", std::process::id()));
    copy_program(&env::current_exe().expect("the system knows what it runs"), &program);
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

/// Waits for the end of a program in a role, which must succeed. Returns its output.
#[track_caller]
pub(crate) fn finish_role(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// The role in which this program was started, if any.
#[must_use]
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}
