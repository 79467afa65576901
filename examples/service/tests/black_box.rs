//! The service dies, in each way in which a process can: `nettrace recover` makes a trace of what
//! it leaves, which has its last requests.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::{
    fs::{self, File},
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use nettrace_reader::{Reader, verify};
use rustix::process::{Pid, Signal, kill_process};
use testkit::reference::{self, Trace};

const SERVICE: &str = env!("CARGO_BIN_EXE_service");

/// How the service records.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// A flight recorder.
    Keeps,
    /// A trace file.
    Writes,
}

/// The folders of a service.
struct Folders {
    traces: tempfile::TempDir,
    /// In memory, if the system has one.
    memory: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let in_memory = Path::new("/dev/shm");
        let memory = if in_memory.is_dir() { in_memory } else { &std::env::temp_dir() };
        let memory = tempfile::tempdir_in(memory).unwrap();
        Self { traces: tempfile::tempdir().unwrap(), memory }
    }

    fn trace(&self, name: &str) -> PathBuf {
        self.traces.path().join(name)
    }

    fn recorder(&self) -> PathBuf {
        self.memory.path().join("service.recorder")
    }

    /// The arguments of the service.
    fn arguments(&self, mode: Mode, more: &[&str]) -> Vec<String> {
        let (option, path) = match mode {
            Mode::Keeps => ("--black-box", self.trace("dumps")),
            Mode::Writes => ("--out", self.trace("service.nettrace")),
        };
        let (path, recorder) = (path.to_str().unwrap(), self.recorder());
        let own = [option, path, "--persistent", recorder.to_str().unwrap()];
        let all = own.iter().chain(more).map(|argument| (*argument).to_owned());
        all.chain(["--load".to_owned(), "100000000".to_owned()]).collect()
    }
}

/// Waits until the service has begun to record.
fn wait_for(path: &Path, service: &mut Child) {
    while !path.exists() {
        assert_eq!(service.try_wait().unwrap(), None);
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal until it dies. Returns when it was still alive.
fn kill(service: &mut Child, signal: Signal) -> (SystemTime, ExitStatus) {
    // The standard library's handler lets the first SIGSEGV pass that is no fault of memory.
    loop {
        let now = SystemTime::now();
        kill_process(Pid::from_child(service), signal).unwrap();
        for _ in 0..50 {
            if let Some(status) = service.try_wait().unwrap() {
                return (now, status);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Checks that a trace is sound and has the requests up to a time.
fn has_last_requests(trace: &Path, time: SystemTime) {
    let report = verify(File::open(trace).unwrap()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.violations);
    if let Some(verdict) = reference::ask(&["summary"], Trace::File(trace)) {
        verdict.assert_holds(report.events, report.lost);
    }
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    // On a machine that is busy otherwise, the first events can be too old.
    let given_up = reader.trace().value("nettrace.given_up").map(|count| count.parse().unwrap());
    assert!(report.lost <= given_up.unwrap_or(0), "{report:?}, given up {given_up:?}");
    let (mut requests, mut last) = (0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        if event.metadata().provider == "NetTrace-Tower" {
            requests += 1;
            last = last.max(event.header.timestamp);
        }
    }
    assert!(requests > 50, "{requests} events of requests");
    let of = reader.trace();
    // Units of 100 ns since 1601.
    let begins = of.sync_time.to_file_time().unwrap() / 10_000 - 11_644_473_600_000;
    let last = begins as f64 + of.milliseconds(last);
    let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() * 1e3;
    assert!(time - last < 5_000.0, "the last request is {} ms old", time - last);
}

/// The command `nettrace`, if it was built together with the service.
fn command() -> Option<PathBuf> {
    let command = Path::new(SERVICE).with_file_name("nettrace");
    if !command.exists() {
        println!("skipped: no command at {}", command.display());
        return None;
    }
    Some(command)
}

/// Recovers what the service has left.
fn recover(command: &Path, folders: &Folders) -> PathBuf {
    let all = folders.trace("all.nettrace");
    let mut command = Command::new(command);
    command.arg("recover").arg(folders.recorder()).arg("-o").arg(&all);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    all
}

#[test]
fn a_service_that_crashes_or_is_killed_leaves_its_last_requests() {
    let Some(command) = command() else { return };
    // Each service mostly waits.
    thread::scope(|scope| {
        for signal in [Signal::SEGV, Signal::ABORT, Signal::KILL] {
            for mode in [Mode::Keeps, Mode::Writes] {
                let command = &command;
                scope.spawn(move || leaves_its_last_requests(command, signal, mode));
            }
        }
    });
}

fn leaves_its_last_requests(command: &Path, signal: Signal, mode: Mode) {
    let folders = Folders::new();
    let mut service = Command::new(SERVICE)
        .args(folders.arguments(mode, &["--rate", "500"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&folders.recorder(), &mut service);
    thread::sleep(Duration::from_millis(2_000));
    let (time, status) = kill(&mut service, signal);
    assert_eq!(status.signal(), Some(signal.as_raw()));
    has_last_requests(&recover(command, &folders), time);
}

#[test]
fn a_panic_in_main_leaves_a_dump_with_the_last_requests() {
    let folders = Folders::new();
    let arguments = folders.arguments(Mode::Keeps, &["--rate", "500", "--panic-after", "2"]);
    let output = Command::new(SERVICE).args(arguments).output().unwrap();
    let time = SystemTime::now();
    assert_eq!(output.status.code(), Some(101));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--panic-after"), "{said}");
    let mut dumps = fs::read_dir(folders.trace("dumps")).unwrap().map(|file| file.unwrap().path());
    // A dump that is owed for a slow request is the same one.
    let is_of_panic = |path: &PathBuf| {
        let reader = Reader::new(File::open(path).unwrap()).unwrap();
        reader.trace().value("panic.message").is_some_and(|it| it.contains("--panic-after"))
    };
    has_last_requests(&dumps.find(is_of_panic).expect("a dump"), time);
    // The session has ended, and all that was owed is written.
    assert!(!folders.recorder().exists());
}

/// A control group of this test, for memory. It goes with the test.
struct Group {
    folder: PathBuf,
    is_first_version: bool,
}

impl Group {
    /// `None`: this process may make none.
    fn new() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let is_first_version = root.join("memory/memory.limit_in_bytes").exists();
        let parent = if is_first_version { root.join("memory") } else { root.to_owned() };
        let folder = parent.join(format!("nettrace-black-box-{}", std::process::id()));
        let has_memory = || {
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
            folder.join("memory.max").exists()
        };
        let made = fs::create_dir(&folder).is_ok();
        let group = Self { folder: folder.clone(), is_first_version };
        if made && (is_first_version || has_memory()) {
            return Some(group);
        }
        println!("skipped: no control group at {}", folder.display());
        None
    }

    /// A file of the group. Its name depends on the version.
    fn file(&self, first: &str, second: &str) -> PathBuf {
        self.folder.join(if self.is_first_version { first } else { second })
    }

    /// The value of a line.
    fn value(&self, [first, second]: [&str; 2], keys: &[&str]) -> u64 {
        let text = fs::read_to_string(self.file(first, second)).unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let values = pairs.filter(|(key, _)| keys.contains(key)).map(|(_, value)| value);
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    }

    /// What cannot be given back: the processes' own memory, and files in memory.
    fn memory(&self) -> u64 {
        self.value(["memory.stat"; 2], &["rss", "anon", "shmem"])
    }

    fn kills(&self) -> u64 {
        self.value(["memory.oom_control", "memory.events"], &["oom_kill"])
    }

    /// Leaves almost no room for more than there is.
    fn limit(&self) {
        let file = self.file("memory.limit_in_bytes", "memory.max");
        let _ = fs::write(self.file("memory.swappiness", "memory.swap.max"), "0");
        let mut limit = self.memory();
        while fs::write(&file, limit.to_string()).is_err() {
            limit += 1 << 20;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes are gone.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_service_without_memory_leaves_its_last_requests() {
    let (Some(command), Some(group)) = (command(), Group::new()) else { return };
    for mode in [Mode::Keeps, Mode::Writes] {
        let folders = Folders::new();
        // What is known of each request takes memory.
        let known = folders.trace("known");
        let arguments = folders.arguments(mode, &["--known", known.to_str().unwrap()]);
        let kills = group.kills();
        let mut service = Command::new("sh")
            .args(["-c", r#"echo $$ > "$0"; exec "$@""#])
            .arg(group.folder.join("cgroup.procs"))
            .arg(SERVICE)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&folders.recorder(), &mut service);
        thread::sleep(Duration::from_millis(2_000));
        group.limit();
        let (time, status) = loop {
            let time = SystemTime::now();
            if let Some(status) = service.try_wait().unwrap() {
                break (time, status);
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(group.kills(), kills + 1);
        // The file is memory of the group, also when its process is gone.
        let file = fs::metadata(folders.recorder()).unwrap();
        let taken = file.blocks() * 512;
        assert!(taken > 16 << 20);
        if folders.memory.path().starts_with("/dev/shm") {
            let memory = group.memory();
            assert!(memory >= taken && memory < taken + (4 << 20), "{memory} bytes, not {taken}");
        }
        has_last_requests(&recover(&command, &folders), time);
    }
}
