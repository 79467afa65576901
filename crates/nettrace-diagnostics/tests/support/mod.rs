//! A process that listens in a folder of its own, and events for it.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::{
    io::Read as _,
    os::unix::net::UnixStream,
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nettrace_diagnostics::{
    Diagnostics, Options,
    client::{Live, Target, Wanted},
};
use nettrace_reader::verify;
use nettrace_writer::{Emit as _, TraceEvent};
use tempfile::TempDir;
pub(crate) use testkit::process::{PATIENCE, until};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Attach", id = 7, level = Informational, keywords = 1)]
pub(crate) struct Tick {
    pub(crate) number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Attach", id = 8, level = Verbose, keywords = 2)]
pub(crate) struct Detail<'a> {
    pub(crate) text: &'a str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fabrikam-Attach", id = 9)]
pub(crate) struct Other;

/// A listener in a folder of its own, which is removed on drop.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) diagnostics: Diagnostics,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(Options::new())
    }

    pub(crate) fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let diagnostics = options.directory(folder.path()).listen().unwrap();
        Self { folder, diagnostics }
    }

    pub(crate) fn target(&self) -> Target {
        Target { pid: process::id(), path: self.diagnostics.path().to_owned() }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        connect(self.diagnostics.path())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.diagnostics.stop();
    }
}

pub(crate) fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All events of a provider.
pub(crate) fn all_of(name: &str) -> Wanted {
    Wanted { name: name.to_owned(), keywords: u64::MAX, level: 5, arguments: String::new() }
}

/// Threads that emit until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    emitted: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(threads: usize) -> Self {
        let (stop, emitted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let one = |_| {
            let (stop, emitted) = (Arc::clone(&stop), Arc::clone(&emitted));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..50 {
                        Tick { number: emitted.fetch_add(1, Ordering::Relaxed) }.emit();
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        let threads = (0..threads).map(one).collect();
        Self { stop, emitted, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Ends a trace, and returns it.
pub(crate) fn stop(target: &Target, mut live: Live) -> Vec<u8> {
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        live.stream.read_to_end(&mut bytes).map(|_| bytes)
    });
    target.stop(live.id).unwrap();
    reader.join().unwrap().unwrap()
}

/// Reads a trace to its end. Returns it as [`JoinHandle::join`] does, once this has waited for
/// more of it than a stream has before its first event.
#[track_caller]
pub(crate) fn reads(mut stream: UnixStream) -> JoinHandle<std::io::Result<Vec<u8>>> {
    let mut bytes = vec![0; SOME];
    stream.read_exact(&mut bytes).unwrap();
    thread::spawn(move || stream.read_to_end(&mut bytes).map(|_| bytes))
}

/// A trace of so many bytes has more than 100 events of a [`Load`].
pub(crate) const SOME: usize = 20_000;

/// Interrupts a tool as soon as it has recorded events into `path`.
pub(crate) fn interrupt_once_it_records(tool: &process::Child, path: &Path) {
    let records = || std::fs::metadata(path).is_ok_and(|file| file.len() >= SOME as u64);
    until("the tool records", records);
    let pid = rustix::process::Pid::from_child(tool);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// How many events a complete trace has, and how many it lacks.
#[track_caller]
pub(crate) fn counts(trace: &[u8]) -> (u64, u64) {
    let report = verify(trace).unwrap();
    assert!(report.is_sound(), "{report:?}");
    (report.events, report.lost)
}

/// A text as the protocol has it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let count = u32::try_from(units.len()).unwrap().to_le_bytes();
    [count.to_vec(), units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat()
}
