//! Processes that end without finishing their session, and what others may do to their files.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "ways to end a process")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs,
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _},
    os::unix::process::ExitStatusExt as _,
    panic,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::{Label, Reader, Value};
use nettrace_writer::{
    Emit, Error, Format, Session, TraceEvent, record_panics,
    sink::{Batch, FileSink, Sink, StreamEnd, WriteError},
    traced,
};
use testkit::process::{is_rerun, rerun, this_program};

use crate::trace_support::{
    modes::{Mode, folder, modes},
    read, sound,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Process-Exit")]
struct Step {
    value: u64,
}

const INTERVAL: Duration = Duration::from_millis(100);

/// Emits without finishing: on `threads` threads that stay alive, and on this one.
fn leave_events(path: &Path, mode: Mode, threads: u64) -> &'static Session {
    let session = Session::builder().file(path).provider("Process-Exit").flush_interval(INTERVAL);
    let session = mode.apply(session.budget(8 << 20), path.parent().unwrap());
    let session: &Session = Box::leak(Box::new(session.start().unwrap()));
    for thread in 0..threads {
        let (said, heard) = std::sync::mpsc::channel();
        thread::spawn(move || {
            (0..1_000).for_each(|at| Step { value: 1_000 * (thread + 1) + at }.emit());
            said.send(()).unwrap();
            thread::sleep(Duration::from_secs(1_000));
        });
        heard.recv().unwrap();
    }
    (0..1_000).for_each(|value| Step { value }.emit());
    session
}

/// Sleeps for some intervals, and until so many events are written on a busy machine, too.
fn grow_old(session: &Session, intervals: u32, events: u64) {
    thread::sleep(intervals * INTERVAL);
    let end = Instant::now() + Duration::from_secs(240);
    while session.stats().written < events && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The values that a process leaves if it emits 4,000 events and then ends by `end`, in each mode
/// in which it leaves any. A recorder file has what the trace lacks.
fn left_by(
    test: &str,
    end: impl FnOnce(&Session),
) -> impl Iterator<Item = (Mode, ExitStatus, Vec<u64>)> {
    if let Some(argument) = is_rerun() {
        let (mode, path) = argument.split_once(' ').unwrap();
        let mode = modes().nth(mode.parse().unwrap()).unwrap();
        end(leave_events(Path::new(path), mode, 3));
        // Here the program may return.
        return Vec::new().into_iter();
    }
    let some = modes().enumerate().filter(|(_, mode)| mode.persists || !mode.keeps);
    let left = some.map(|(number, mode)| {
        let folder = folder();
        let path = folder.path().join("left.nettrace");
        let output = rerun(test, &format!("{number} {}", path.to_str().unwrap()));
        let own = (!mode.keeps).then(|| fs::read(&path).unwrap());
        let rest = if mode.persists { mode.left(folder.path()) } else { None };
        let mut values = Vec::new();
        for bytes in own.iter().chain(&rest) {
            assert_eq!(sound(bytes, &[]).1, 0, "{mode:?}: what is missing at the end is no gap");
            values.extend(read(bytes).iter().map(|event| event.value()));
        }
        values.sort_unstable();
        (mode, output.status, values)
    });
    left.collect::<Vec<_>>().into_iter()
}

#[test]
fn exit_loses_nothing() {
    for (mode, status, values) in left_by("exit_loses_nothing", |_| std::process::exit(17)) {
        assert_eq!(status.code(), Some(17));
        assert_eq!(values, (0..4_000).collect::<Vec<_>>(), "{mode:?}");
    }
}

#[test]
fn a_return_from_main_loses_nothing() {
    for (mode, status, values) in left_by("a_return_from_main_loses_nothing", |_| ()) {
        assert!(status.success());
        assert_eq!(values, (0..4_000).collect::<Vec<_>>(), "{mode:?}");
    }
}

/// Emits 500 more events, and ends the process.
fn emit_and(end: impl FnOnce()) -> impl FnOnce(&Session) {
    |session| {
        grow_old(session, 5, 4_000);
        (0..500).for_each(|at| Step { value: 10_000 + at }.emit());
        end();
    }
}

/// Checks that the first events are there, which were five intervals old, and with a recorder file
/// all.
fn has_old_or_all(mode: Mode, values: &[u64]) {
    let expected: Vec<_> = (0..4_000).chain(10_000..10_500).collect();
    let len = if mode.persists { expected.len() } else { 4_000 };
    assert!(values.len() >= len, "{mode:?}: {} events", values.len());
    assert_eq!(values[..len], expected[..len], "{mode:?}");
}

#[test]
fn an_exit_without_handlers_loses_only_recent_events() {
    // SAFETY: takes a number and does not return.
    let end = emit_and(|| unsafe { libc::_exit(18) });
    for (mode, status, values) in left_by("an_exit_without_handlers_loses_only_recent_events", end)
    {
        assert_eq!(status.code(), Some(18));
        has_old_or_all(mode, &values);
    }
}

#[test]
fn an_abort_loses_only_recent_events() {
    let end = emit_and(|| std::process::abort());
    for (mode, status, values) in left_by("an_abort_loses_only_recent_events", end) {
        assert_eq!(status.code(), None);
        has_old_or_all(mode, &values);
    }
}

/// What a process leaves that records panics: those that are caught, and the one that aborts it.
#[test]
fn a_panic_is_an_event_of_its_span_also_if_it_aborts() {
    #[traced(provider = "Process-Exit")]
    fn fails(text: &str) {
        panic!("{text}");
    }

    extern "C" fn cannot_unwind() {
        fails("in a function of C");
    }

    let test = "a_panic_is_an_event_of_its_span_also_if_it_aborts";
    if let Some(path) = is_rerun() {
        panic::set_hook(Box::new(|_| eprintln!("the hook before")));
        record_panics();
        record_panics();
        let session = Session::builder().file(path).flush_interval(Duration::from_secs(3_600));
        let _session = session.start().unwrap();
        panic::catch_unwind(|| fails(&"long ".repeat(2_000))).unwrap_err();
        panic::catch_unwind(|| panic::panic_any(7)).unwrap_err();
        cannot_unwind();
        unreachable!("it aborts");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.nettrace");
    let output = rerun(test, path.to_str().unwrap());
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("the hook before").count(), 4, "{said}");

    let bytes = fs::read(&path).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap().sorted();
    let mut seen = Vec::new();
    let mut starts = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let span = event.labels().iter().find_map(|label| match label {
            Label::SpanId(id) => Some(*id),
            _ => None,
        });
        if event.metadata().name == "failsStart" {
            starts.push(span);
        }
        if event.metadata().name == "Panic" {
            let field = |name| event.fields().map(Result::unwrap).find(|(it, _)| *it == name);
            let text = |name| match field(name) {
                Some((_, Value::Text(text))) => text.into_owned(),
                other => panic!("{other:?}"),
            };
            let (message, file) = (text("message"), text("file"));
            assert!(file.ends_with("process_exit.rs") || file.contains("core"), "{file}");
            assert_eq!((&*event.metadata().provider, event.level()), ("NetTrace-Panics", 2));
            seen.push((message, span));
        }
    }
    assert_eq!(starts.len(), 2);
    let [(cut, within), (other, outside), (last, in_c), (abort, _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert!(cut.len() <= 4_096 && cut.ends_with("lon…"), "{cut}");
    assert_eq!((*within, other.as_str(), *outside), (starts[0], "(no text)", None));
    assert_eq!((last.as_str(), *in_c), ("in a function of C", starts[1]));
    assert_eq!(abort, "panic in a function that cannot unwind");
}

#[test]
fn killed_while_all_threads_emit() {
    if let Some(path) = is_rerun() {
        let plain = Mode { keeps: false, persists: false };
        let session = leave_events(Path::new(&path), plain, 0);
        let emitted: &[AtomicU64; 2] = Box::leak(Box::default());
        for thread in 0..2 {
            thread::spawn(move || {
                for at in 0.. {
                    emitted[thread as usize].store(at, Ordering::SeqCst);
                    Step { value: (thread + 1) << 32 | at }.emit();
                    if at % 100 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        }
        while emitted.iter().any(|count| count.load(Ordering::SeqCst) < 1_000) {
            thread::sleep(Duration::from_millis(1));
        }
        // What has been emitted until now.
        grow_old(session, 3, session.stats().attempted);
        // SAFETY: takes a number. The process that is killed is this one.
        unsafe { libc::raise(libc::SIGKILL) };
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.nettrace");
    let output = rerun("killed_while_all_threads_emit", path.to_str().unwrap());
    assert_eq!(output.status.code(), None);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(sound(&bytes, &[]).1, 0);
    let values: Vec<_> = read(&bytes).iter().map(|event| event.value()).collect();
    for thread in 0..3_u64 {
        let own = values.iter().filter(|&&value| value >> 32 == thread).map(|value| *value as u32);
        let own: Vec<_> = own.collect();
        assert!(own.len() >= 1_000, "{} of thread {thread}", own.len());
        assert!(own.iter().enumerate().all(|(at, &value)| at as u32 == value), "a prefix");
    }
}

/// A file on a slow disk.
struct Slow(FileSink);

impl Sink for Slow {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.0.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        thread::sleep(INTERVAL);
        self.0.write(batch)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

#[test]
fn exit_waits_for_a_session_that_another_thread_finishes() {
    const TEST: &str = "exit_waits_for_a_session_that_another_thread_finishes";
    if let Some(path) = is_rerun() {
        let session = Session::builder().sink(Slow(FileSink::new(path))).provider("Process-Exit");
        let session = session.flush_interval(10 * INTERVAL).start().unwrap();
        (0..1_000).for_each(|value| Step { value }.emit());
        thread::spawn(move || session.finish());
        // The session has stopped listening.
        while Step::is_any_enabled() {
            thread::sleep(Duration::from_millis(1));
        }
        std::process::exit(19);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.nettrace");
    let output = rerun(TEST, path.to_str().unwrap());
    assert_eq!(output.status.code(), Some(19));
    let bytes = fs::read(&path).unwrap();
    assert_eq!(sound(&bytes, &[]), (1_000, 0));
}

/// Another process of this program, which does what a test's second process does. It ends when its
/// standard input does.
struct Other {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    /// Returns when it has said how its start went.
    fn start(test: &str, path: &Path) -> (Self, String) {
        let mut process = this_program()
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("NETTRACE_RERUN", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut other = Self { process, stdin, stdout: BufReader::new(stdout) };
        let said = other.line();
        (other, said)
    }

    /// The next line that it has said.
    fn line(&mut self) -> String {
        let mut line = String::new();
        while !line.contains("said: ") {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it says nothing");
        }
        line.trim_end().split_once("said: ").unwrap().1.to_owned()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn say(what: &str) {
    println!("said: {what}");
}

fn wait_for_the_end_of_input() {
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Begins a session that may replace the file.
fn replacing(path: &Path, format: Format) -> Result<Session, Error> {
    let builder = Session::builder().file(path).overwrite(true).format(format);
    builder.provider("Process-Exit").start()
}

/// A session's error if the file is being written. Returns its text.
#[track_caller]
fn in_use(result: Result<Session, Error>) -> String {
    match result {
        Err(Error::Sink(cause)) if cause.kind() == ErrorKind::ResourceBusy => cause.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The name that the system knows this program by.
fn name() -> String {
    fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned()
}

#[test]
fn a_file_that_a_process_writes_is_not_replaced() {
    const TEST: &str = "a_file_that_a_process_writes_is_not_replaced";
    if let Some(path) = is_rerun() {
        match replacing(Path::new(&path), Format::V6) {
            Ok(session) => {
                Step { value: 1 }.emit();
                session.flush().unwrap();
                say("started");
                wait_for_the_end_of_input();
                Step { value: 2 }.emit();
                session.finish().unwrap();
            }
            Err(error) => say(&error.to_string()),
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.nettrace");
    let values = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        assert_eq!(sound(&bytes, &[]).1, 0);
        read(&bytes).iter().map(|event| event.value()).collect::<Vec<_>>()
    };

    // The other one has it. It is read meanwhile, also by the process that wants to replace it.
    let (other, said) = Other::start(TEST, &path);
    assert_eq!(said, "started");
    assert_eq!(values(&path), [1]);
    let refusal = in_use(replacing(&path, Format::V6));
    let expected = format!(
        "cannot create the trace {}: process {} (`{}`) is writing it; choose another name",
        path.display(),
        other.process.id(),
        name(),
    );
    assert_eq!(refusal, expected);
    // Its other names are as good, and it is no other file for having moved.
    let [linked, moved] = ["linked", "moved"].map(|name| directory.path().join(name));
    fs::hard_link(&path, &linked).unwrap();
    in_use(replacing(&linked, Format::V6));
    fs::remove_file(&linked).unwrap();
    fs::rename(&path, &moved).unwrap();
    in_use(replacing(&moved, Format::V6));
    let session = replacing(&path, Format::V6).unwrap();
    other.end();
    assert_eq!(values(&moved), [1, 2]);
    session.finish().unwrap();
    assert_eq!(values(&path), [0; 0]);

    // This one has it, in each way in which a file grows.
    for format in [Format::V6, Format::Heph] {
        let session = replacing(&path, format).unwrap();
        let (other, said) = Other::start(TEST, &path);
        let owner = format!("process {} (`{}`) is writing it", std::process::id(), name());
        assert!(said.contains(&owner), "{said}");
        other.end();
        let second = in_use(replacing(&path, format));
        assert!(second.contains("another session of this process is writing it"), "{second}");
        // The name is free, so the session is not asked.
        fs::remove_file(&path).unwrap();
        let second = replacing(&path, format).unwrap();
        session.finish().unwrap();
        in_use(replacing(&path, format));
        second.finish().unwrap();
    }

    // A process that is killed has nothing any more.
    let (mut other, said) = Other::start(TEST, &path);
    assert_eq!(said, "started");
    other.kill();
    assert_eq!(values(&path), [1]);
    replacing(&path, Format::V6).unwrap().finish().unwrap();
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name != "moved").collect();
    assert_eq!(names, ["t.nettrace"]);
}

#[test]
fn the_child_of_a_fork_does_not_hold_its_parents_file() {
    const TEST: &str = "the_child_of_a_fork_does_not_hold_its_parents_file";
    if let Some(path) = is_rerun() {
        let session = replacing(Path::new(&path), Format::V6).unwrap();
        let mut sink = FileSink::new(Path::new(&path).with_extension("sink"));
        sink.start(b"header", StreamEnd::new(b"end")).unwrap();
        // SAFETY: the child only waits, writes to its sink, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // What it does with the copy of a sink does not reach the parent's file.
            let pieces = [io::IoSlice::new(b"block")];
            let written = sink.write(&Batch::new(&pieces, &[5]));
            drop(sink);
            drop(session);
            say(if written.is_err() { "child" } else { "child that writes" });
            wait_for_the_end_of_input();
            // SAFETY: takes a number and does not return.
            unsafe { libc::_exit(0) };
        }
        wait_for_the_end_of_input();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.nettrace");
    let (mut other, said) = Other::start(TEST, &path);
    assert_eq!(said, "child");
    let in_force = in_use(replacing(&path, Format::V6));
    assert!(in_force.contains(&format!("process {} ", other.process.id())), "{in_force}");
    assert_eq!(fs::read(path.with_extension("sink")).unwrap(), b"headerend");
    other.kill();
    // The child lives until its input ends.
    for path in [path.clone(), path.with_extension("sink")] {
        replacing(&path, Format::V6).unwrap().finish().unwrap();
    }
}

/// A lock that whoever may read a file can have says nothing.
#[test]
fn a_lock_of_a_reader_keeps_nobody_from_replacing_a_file() {
    use std::os::fd::AsRawFd as _;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.nettrace");
    fs::write(&path, "an old one").unwrap();
    let reader = fs::File::open(&path).unwrap();
    let all = libc::flock {
        l_type: libc::F_RDLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the operation takes a pointer to a live struct.
    let locked = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_OFD_SETLK, &raw const all) };
    assert_eq!(locked, 0, "{}", io::Error::last_os_error());
    let session = replacing(&path, Format::V6).unwrap();
    in_use(replacing(&path, Format::V6));
    session.finish().unwrap();
}

/// Whoever comes second has not the name, but an error: nobody has lost a file.
#[test]
fn of_many_that_begin_at_once_one_has_the_file() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let path = directory.path().join("t.nettrace");
        if round % 2 == 0 {
            let _ = fs::remove_file(&path);
        }
        let start = std::sync::Barrier::new(4);
        let started = thread::scope(|scope| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        replacing(&path, Format::V6)
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(started.iter().filter(|one| one.is_ok()).count(), 1, "{started:?}");
        for one in started {
            match one {
                Ok(session) => drop(session.finish().unwrap()),
                refused => drop(in_use(refused)),
            }
        }
    }
}
