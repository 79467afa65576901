//! A process with a tail decision that is killed at a random moment leaves a complete file: a
//! beginning of what it let through, and nothing of what was held back but its end.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    collections::{BTreeMap, HashMap, hash_map::RandomState},
    fs::{self, File},
    hash::{BuildHasher, Hasher},
    io::{self, Write as _},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::{Reader, verify};
use nettrace_writer::{
    Emit, OnFull, Session, TraceEvent,
    sink::{Batch, FileSink, RotationOptions, Sink, StreamEnd, WriteError},
    tail::Tail,
    traced,
};
use testkit::{
    effort::left_out,
    process::{is_rerun, this_program},
    reference::judged,
};

const THREADS: u64 = 3;

/// A file in the folder of a process that writes one file after the other.
const ROTATES: &str = "rotates";

/// How many events a request has.
const EVENTS: usize = 6;

#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Killed")]
struct Step {
    thread: u64,
    number: u64,
}

/// An event outside of spans.
#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Killed")]
struct Tick {
    thread: u64,
    number: u64,
}

#[traced(
    provider = "Tail-Killed",
    key_values = [("nettrace.tail", "failed")],
    fields = [thread, number]
)]
fn request(thread: u64, number: u64) -> Result<(), String> {
    Step { thread, number }.emit();
    inner(thread, number);
    if number % 5 == 0 { Err("a fifth of them fail".to_owned()) } else { Ok(()) }
}

#[traced(provider = "Tail-Killed", fields = [thread, number])]
fn inner(thread: u64, number: u64) {
    Step { thread, number }.emit();
}

/// Writes down what the sink within has taken, after it has taken it.
struct Told<S> {
    sink: S,
    told: File,
}

impl<S: Sink> Sink for Told<S> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.sink.start(header, end)?;
        self.told.write_all(header)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.sink.write(batch)?;
        let bytes: Vec<u8> = batch.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        self.told.write_all(&bytes).map_err(WriteError::from)
    }

    fn room(&self) -> u64 {
        self.sink.room()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}

/// Records until it is killed.
#[test]
#[ignore = "run by `a_killed_process_leaves_a_complete_file` in a process of its own"]
fn records() {
    let Some(folder) = is_rerun() else { return };
    let folder = Path::new(&folder);
    let told = File::create(folder.join("told")).unwrap();
    const WINDOW: Duration = Duration::from_millis(20);
    let session = if folder.join(ROTATES).exists() {
        let files = RotationOptions::new(folder, "trace").file_size(16 << 10);
        let sink = Told { sink: files.build().unwrap(), told };
        Session::builder().sink(Tail::new(sink).window(WINDOW))
    } else {
        let sink = Told { sink: FileSink::new(folder.join("trace.nettrace")), told };
        Session::builder().sink(Tail::new(sink).window(WINDOW))
    };
    let session = session
        .provider("Tail-Killed")
        .flush_interval(Duration::from_millis(2))
        .on_full(OnFull::Block)
        .budget(1 << 20)
        .chunk_size(4_096)
        .prefault(0);
    let _session = session.start().unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 1.. {
                    let _ = request(thread, number);
                    Tick { thread, number }.emit();
                    if number % 8 == 0 {
                        thread::sleep(Duration::from_micros(200));
                    }
                }
            });
        }
    });
}

/// A process that does not outlive the test.
struct Victim(Child);

impl Victim {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        assert!(self.0.wait().unwrap().code().is_none(), "it ended before it was killed");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An event: its name, and the values of `thread` and `number`.
type Event = (String, u64, u64);

/// The events of the test's provider, up to the end or to where the bytes break off.
fn events(bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let Ok(mut reader) = Reader::new(bytes) else { return events };
    while let Ok(Some(event)) = reader.next_event() {
        let metadata = event.metadata();
        if metadata.provider == "Tail-Killed" {
            let word =
                |at: usize| u64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap());
            let ends = metadata.name.ends_with("Stop");
            // A Stop says nothing of what its Start had.
            let (thread, number) = if ends { (0, 0) } else { (word(0), word(8)) };
            events.push((metadata.name.to_string(), thread, number));
        }
    }
    events
}

#[test]
fn a_killed_process_leaves_a_complete_file() {
    if left_out() {
        return;
    }
    const KILLS: usize = 8;
    let (mut kept, mut undecided) = (0, 0);
    for kill in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let rotates = kill % 2 == 1;
        if rotates {
            fs::write(folder.path().join(ROTATES), "").unwrap();
        }
        let told = folder.path().join("told");
        let mut command = this_program();
        command
            .args(["--exact", "killed::records", "--ignored", "--nocapture", "--test-threads=1"])
            .env("NETTRACE_RERUN", folder.path())
            .stdout(Stdio::null());
        let mut child = Victim(command.spawn().unwrap());
        // There is something that was let through, so something is held back since.
        let patience = Instant::now();
        while fs::metadata(&told).map_or(0, |told| told.len()) < 40_000 {
            assert!(patience.elapsed() < Duration::from_secs(300), "nothing is let through");
            assert!(child.0.try_wait().unwrap().is_none(), "it ended by itself");
            thread::sleep(Duration::from_millis(1));
        }
        let random = RandomState::new().build_hasher().finish();
        thread::sleep(Duration::from_micros(random % 50_000));
        child.kill();

        let paths = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|name| name == "nettrace")).collect();
        paths.sort();
        assert_eq!(paths.len() > 1, rotates);
        let mut all = Vec::new();
        for path in paths {
            let bytes = fs::read(path).unwrap();
            let report = verify(&bytes[..]).unwrap();
            assert!(report.is_sound(), "{kill}: {report:?}");
            // Threads that emit wait for room, so there is nothing to lose.
            assert_eq!(report.lost, 0, "{kill}");
            if let Some(verdict) = judged(&bytes) {
                verdict.assert_holds(report.events, 0);
            }
            all.extend(events(&bytes));
        }
        if !rotates {
            let told = events(&fs::read(&told).unwrap());
            assert!(!told.is_empty());
            assert_eq!(all[..told.len().min(all.len())], told, "{kill}: what was let through");
        }
        (kept, undecided) = {
            let (failed, others) = complete(&all);
            (kept + failed, undecided + others)
        };
    }
    assert!(kept > 0, "no request was kept");
    println!("{KILLS} kills: {kept} failed requests, {undecided} that were too long");
}

/// Asserts that events are a beginning of what each thread emitted, but for requests that did not
/// fail. Returns how many requests failed, and how many others are there: their thread stood still
/// for longer than the window.
fn complete(events: &[Event]) -> (u64, u64) {
    let mut ticks = HashMap::<u64, u64>::new();
    let mut requests = BTreeMap::<(u64, u64), Vec<&str>>::new();
    for (name, thread, number) in events {
        match &**name {
            "Tick" => {
                let last = ticks.entry(*thread).or_default();
                assert_eq!(*number, *last + 1, "thread {thread}");
                *last = *number;
            }
            "requestStop" | "innerStop" => {}
            name => requests.entry((*thread, *number)).or_default().push(name),
        }
    }
    let (mut failed, mut others) = (0, 0);
    for thread in 0..THREADS {
        let last = ticks.get(&thread).copied().unwrap_or(0);
        let of_thread = requests.range((thread, 0)..=(thread, u64::MAX));
        // Before its tick, a request is over.
        for (number, names) in of_thread.map(|((_, number), names)| (*number, names)) {
            assert!(number <= last + 1, "request {number} of thread {thread}, tick {last}");
            if number <= last {
                assert_eq!(*names, ["requestStart", "Step", "innerStart", "Step"], "{number}");
                *(if number % 5 == 0 { &mut failed } else { &mut others }) += 1;
            }
        }
        let expected = last / 5;
        let found = (1..=expected).filter(|at| requests.contains_key(&(thread, at * 5))).count();
        assert_eq!(found as u64, expected, "failed requests of thread {thread} up to {last}");
    }
    let stops = events.iter().filter(|(name, ..)| name.ends_with("Stop")).count();
    assert!(stops >= (failed + others) as usize * (EVENTS - 4), "{stops} stops");
    (failed, others)
}
