//! Processes that end without finishing their session.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "ways to end a process")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs, io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_writer::{
    Emit, Session, TraceEvent,
    sink::{Batch, FileSink, Sink, StreamEnd, WriteError},
};
use testkit::process::{is_rerun, rerun};

use crate::trace_support::{read, sound};

#[derive(TraceEvent)]
#[trace_event(provider = "Process-Exit")]
struct Step {
    value: u64,
}

const INTERVAL: Duration = Duration::from_millis(100);

/// Emits without finishing: on `threads` threads that stay alive, and on this one.
fn leave_events(path: &Path, threads: u64) -> &'static Session {
    let session = Session::builder().file(path).provider("Process-Exit").flush_interval(INTERVAL);
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

/// The values that a process leaves in its trace if it emits 4,000 events and then ends by `end`.
fn left_by(test: &str, end: impl FnOnce(&Session)) -> Option<(std::process::Output, Vec<u64>)> {
    if let Some(path) = is_rerun() {
        end(leave_events(Path::new(&path), 3));
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.nettrace");
    let output = rerun(test, path.to_str().unwrap());
    let bytes = fs::read(&path).unwrap();
    assert_eq!(sound(&bytes, &[]).1, 0, "what is missing at the end is no gap");
    let mut values: Vec<_> = read(&bytes).iter().map(|event| event.value()).collect();
    values.sort_unstable();
    Some((output, values))
}

#[test]
fn exit_loses_nothing() {
    let Some((output, values)) = left_by("exit_loses_nothing", |_| std::process::exit(17)) else {
        return;
    };
    assert_eq!(output.status.code(), Some(17));
    assert_eq!(values, (0..4_000).collect::<Vec<_>>());
}

#[test]
fn a_return_from_main_loses_nothing() {
    let left = left_by("a_return_from_main_loses_nothing", |_| ());
    let Some((output, values)) = left else { return };
    assert!(output.status.success());
    assert_eq!(values, (0..4_000).collect::<Vec<_>>());
}

#[test]
fn an_exit_without_handlers_loses_only_recent_events() {
    let left = left_by("an_exit_without_handlers_loses_only_recent_events", |session| {
        grow_old(session, 5, 4_000);
        (0..500).for_each(|at| Step { value: 10_000 + at }.emit());
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(18) };
    });
    let Some((output, values)) = left else { return };
    assert_eq!(output.status.code(), Some(18));
    // The others were five intervals old.
    assert_eq!(values[..4_000], (0..4_000).collect::<Vec<_>>());
}

#[test]
fn an_abort_loses_only_recent_events() {
    let left = left_by("an_abort_loses_only_recent_events", |session| {
        grow_old(session, 5, 4_000);
        (0..500).for_each(|at| Step { value: 10_000 + at }.emit());
        std::process::abort();
    });
    let Some((output, values)) = left else { return };
    assert_eq!(output.status.code(), None);
    assert_eq!(values[..4_000], (0..4_000).collect::<Vec<_>>());
}

#[test]
fn killed_while_all_threads_emit() {
    if let Some(path) = is_rerun() {
        let session = leave_events(Path::new(&path), 0);
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
