//! Sessions with a tail decision in trouble: a disk that is full, roots that never end, and files
//! that begin after a pause.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind},
    mem, process,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nettrace_event::trace_context::TraceContext;
use nettrace_reader::{Reader, verify};
use nettrace_writer::{
    Context, Emit, Error, OnFull, Session, Stats, TraceEvent, TraceSpan,
    sink::{
        Batch, FileSink, MemorySink, RotatingFiles, RotationOptions, Sink, StreamEnd, WriteError,
    },
    tail::Tail,
    traced,
};
use testkit::{
    effort::left_out,
    process::{is_rerun, one_at_a_time, rerun, until},
    reference::judged,
    small_disk::SmallDisk,
};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Trouble")]
struct Step {
    number: u64,
}

#[traced(provider = "Tail-Trouble", key_values = [("nettrace.tail", "failed")], fields = [number])]
fn request(number: u64) -> Result<(), String> {
    Step { number }.emit();
    if number % 10 == 0 { Err("a tenth of them fail".to_owned()) } else { Ok(()) }
}

/// How many events a request has.
const EVENTS: u64 = 3;

/// A root that never ends, unless it is ended.
#[derive(TraceSpan)]
#[trace_event(provider = "Tail-Trouble", key_values = [("nettrace.tail", "failed")])]
struct Endless {
    number: u64,
}

/// How many events of the test's provider a trace has, and how many are missing. Asserts that the
/// trace is sound, and that the reference reader says the same.
fn events(bytes: &[u8]) -> (u64, u64) {
    let report = verify(bytes).unwrap();
    assert!(report.is_sound(), "{report:?}");
    if let Some(verdict) = judged(bytes) {
        verdict.assert_holds(report.events, report.lost);
    }
    (so_far(bytes), report.lost)
}

/// How many events of the test's provider are in a trace that may be growing.
fn so_far(bytes: &[u8]) -> u64 {
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    let mut own = 0;
    while let Ok(Some(event)) = reader.next_event() {
        own += u64::from(event.metadata().provider == "Tail-Trouble");
    }
    own
}

/// What a disk has no room for waits, and is written when there is room again. What comes
/// meanwhile is counted as lost.
#[test]
fn what_is_held_back_waits_for_room_on_a_full_disk() {
    let _alone = one_at_a_time();
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("full.nettrace");
    let tail = Tail::new(FileSink::new(&path)).window(Duration::from_millis(1));
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble");
    let session = session.flush_interval(Duration::from_millis(5)).chunk_size(4_096).prefault(0);
    let session = session.start().unwrap();
    let mut number = 0;
    let mut some = || {
        for _ in 0..100 {
            number += 1;
            let _ = request(number);
            Step { number }.emit();
        }
    };
    until("the disk is full", || {
        some();
        session.flush().is_err()
    });
    assert_eq!(session.stats().last_sink_error.unwrap().kind, ErrorKind::StorageFull);
    for _ in 0..3 {
        some();
        session.flush().unwrap_err();
    }
    assert!(counter.memory() > 0, "something waits");
    let (full, _) = events(&fs::read(&path).unwrap());
    disk.resize(4 << 10);
    until("there is room", || session.flush().is_ok());
    some();
    let stats = session.finish().unwrap();
    assert!(stats.lost_in_sink > 0, "{stats:?}");
    let (there, lost) = events(&fs::read(&path).unwrap());
    assert!(there > full, "{there} events, {full} before");
    let counts = counter.get();
    assert_eq!(lost, stats.dropped());
    assert_eq!(there + lost + counts.left_out_events, stats.attempted, "{counts:?} {stats:?}");
    assert_eq!((counts.lost_events, counter.memory()), (0, 0));
}

/// A session that ends while the disk is full says so, and its file is complete.
#[test]
fn a_session_that_ends_on_a_full_disk_leaves_a_complete_file() {
    let _alone = one_at_a_time();
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("full.nettrace");
    let tail = Tail::new(FileSink::new(&path)).window(HOUR);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble").start().unwrap();
    for number in 1..=5_000 {
        let _ = request(number);
        Step { number }.emit();
    }
    session.flush().unwrap();
    assert_eq!(events(&fs::read(&path).unwrap()), (0, 0), "all is held back");
    assert!(counter.memory() > 64 << 10);
    let (stats, result) = session.finish_with_stats();
    match result.unwrap_err() {
        Error::Sink(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
        other => panic!("{other}"),
    }
    let (there, lost) = events(&fs::read(&path).unwrap());
    // Whole blocks of one thread, up to where the disk ended.
    assert!((1..5_000).contains(&there) && lost == 0, "{there} events, {lost} lost");
    assert_eq!(stats.attempted, 5_000 * (EVENTS + 1));
    let counts = counter.get();
    assert!(counts.left_out_events > 0 && counts.lost_events > 0, "{counts:?}");
    assert_eq!(there + counts.left_out_events + counts.lost_events, stats.written, "{counts:?}");
}

/// A process that exits without `finish` leaves what was held back, of all threads.
#[test]
#[cfg(unix)]
fn an_exit_writes_what_is_held_back() {
    if let Some(path) = is_rerun() {
        let tail = Tail::new(FileSink::new(path)).window(HOUR);
        let session = Session::builder().sink(tail).provider("Tail-Trouble").start().unwrap();
        mem::forget(session);
        let (said, heard) = mpsc::channel();
        for thread in 0..2 {
            let said = said.clone();
            thread::spawn(move || {
                (1..=500).for_each(|number| drop(request(thread * 1_000 + number)));
                said.send(()).unwrap();
                thread::sleep(HOUR);
            });
        }
        (0..2).for_each(|_| heard.recv().unwrap());
        // Others emit meanwhile.
        thread::spawn(|| {
            for number in 0.. {
                Step { number }.emit();
                thread::sleep(Duration::from_micros(100));
            }
        });
        thread::spawn(|| process::exit(17)).join().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit.nettrace");
    let output = rerun("faults::an_exit_writes_what_is_held_back", path.to_str().unwrap());
    assert_eq!(output.status.code(), Some(17), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(&path).unwrap();
    assert_eq!(events(&bytes).1, 0);
    let mut kept = BTreeSet::new();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        if event.metadata().name == "requestStart" {
            kept.insert(u64::from_le_bytes(event.payload[..8].try_into().unwrap()));
        }
    }
    let failed = (0..2).flat_map(|thread| (1..=500).map(move |number| thread * 1_000 + number));
    assert_eq!(kept, failed.filter(|number| number % 10 == 0).collect());
}

/// `finish` writes what is held back of threads that emit on.
#[test]
fn a_session_ends_while_threads_emit() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(HOUR);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble");
    let session = session.flush_interval(Duration::from_millis(5)).on_full(OnFull::Block);
    let session = session.finish_timeout(Duration::from_secs(300)).start().unwrap();
    let is_over = AtomicBool::new(false);
    let stats: Stats = thread::scope(|scope| {
        for thread in 0..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                for number in 1.. {
                    let _ = request(number + thread);
                    // So that what waits for the session's thread stays small on a busy machine.
                    if number % 20 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        until("much is held back", || counter.memory() > 256 << 10);
        let stats = session.finish();
        is_over.store(true, Ordering::Relaxed);
        stats.unwrap()
    });
    let (there, lost) = events(&memory.bytes());
    let counts = counter.get();
    assert_eq!((there + counts.left_out_events, lost), (stats.written, 0), "{counts:?}");
    // At most what each thread had begun is undecided.
    assert!(counts.undecided_spans <= 3 && counts.left_out_events > there, "{counts:?}");
    assert_eq!(counter.memory(), 0);
}

/// Memory stays within its bound, and what leaves it early is kept as a whole.
#[test]
fn a_thousand_roots_that_never_end_take_bounded_memory() {
    let _alone = one_at_a_time();
    const BOUND: usize = 64 << 10;
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(HOUR).memory(BOUND);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble").start().unwrap();
    let mut most = 0;
    for number in 0..1_000 {
        let root = Endless { number }.start();
        let inside = root.context().enter();
        for _ in 0..20 {
            Step { number }.emit();
        }
        drop(inside);
        mem::forget(root);
        if number % 10 == 9 {
            session.flush().unwrap();
            most = most.max(counter.memory());
        }
    }
    assert!(most > BOUND as u64 / 2 && most <= BOUND as u64, "{most} bytes");
    let stats = session.finish().unwrap();
    let counts = counter.get();
    assert_eq!((counts.kept_spans, counts.undecided_spans), (1_000, 1_000), "{counts:?}");
    assert_eq!(events(&memory.bytes()), (stats.written, 0));
    assert_eq!((stats.written, counter.memory()), (21_000, 0));
}

/// So does what is known of one trace in which many begin.
#[test]
fn roots_of_one_trace_that_never_end_are_counted() {
    let _alone = one_at_a_time();
    const ROOTS: u64 = 20_000;
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(HOUR);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble");
    let session = session.on_full(OnFull::Block).start().unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let caller = Context::from(TraceContext::from_traceparent(parent).unwrap());
    let inside = caller.enter();
    for number in 0..ROOTS {
        mem::forget(Endless { number }.start());
    }
    drop(inside);
    session.flush().unwrap();
    let (held, written) = (counter.memory(), session.stats().bytes);
    // A root without an end, and a list of labels.
    assert!(held > written + ROOTS * 64, "{held} bytes are held, of {written} bytes of events");
    assert!(held < written + ROOTS * 256, "{held} bytes are held, of {written} bytes of events");
    let stats = session.finish().unwrap();
    let counts = counter.get();
    assert_eq!((counts.kept_spans, counts.undecided_spans), (ROOTS, ROOTS), "{counts:?}");
    assert_eq!(events(&memory.bytes()), (stats.written, 0));
    assert_eq!(counter.memory(), 0);
}

/// What is held back comes into its file although nobody emits, and what comes after a pause that
/// is longer than a file's age begins another file.
#[test]
fn a_file_has_what_was_held_back_before_a_pause() {
    let _alone = one_at_a_time();
    const AGE: Duration = Duration::from_millis(100);
    let folder = tempfile::tempdir().unwrap();
    let files = RotationOptions::new(folder.path(), "idle").file_age(AGE);
    let tail = Tail::new(files.build().unwrap()).window(Duration::from_millis(100));
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Trouble");
    let session = session.flush_interval(Duration::from_millis(10)).start().unwrap();
    let files = || -> Vec<_> {
        let paths = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| fs::read(path).unwrap()).collect()
    };
    let mut emitted = 0;
    for round in 1..=3 {
        for number in 1..=20 {
            let _ = request(number);
            emitted += EVENTS;
        }
        until("all is written or left out", || {
            let written: u64 = files().iter().map(|file| so_far(file)).sum();
            written + counter.get().left_out_events == emitted
        });
        assert!(files().len() >= round);
        thread::sleep(AGE * 2);
    }
    session.finish().unwrap();
    let counts = counter.get();
    assert!(counts.kept_spans >= 6 && counts.lost_events == 0, "{counts:?}");
    let files: Vec<_> = files().iter().map(|file| events(file)).collect();
    assert!(files.iter().all(|(_, lost)| *lost == 0), "{files:?}");
    let there: u64 = files.iter().map(|(events, _)| events).sum();
    assert_eq!(there + counts.left_out_events, emitted, "{counts:?}");
}

/// Fails now and then: a write after its first block, or the beginning of a file. Breaks then, or
/// goes on.
struct Failing {
    files: RotatingFiles,
    calls: u32,
    breaks: bool,
    is_broken: bool,
}

impl Failing {
    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.calls % 7 == 3
    }
}

impl Sink for Failing {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        if self.fails() {
            return Err(ErrorKind::StorageFull.into());
        }
        self.is_broken = false;
        self.files.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if batch.block_ends.is_empty() || !self.fails() {
            return self.files.write(batch);
        }
        self.is_broken = self.breaks;
        let bytes: Vec<u8> = batch.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        let first = batch.block_ends[0];
        let pieces = [io::IoSlice::new(&bytes[..first as usize])];
        self.files.write(&Batch::new(&pieces, &[first]))?;
        Err(WriteError::new(ErrorKind::StorageFull.into(), first))
    }

    fn room(&self) -> u64 {
        self.files.room()
    }

    fn wants_restart(&mut self) -> bool {
        self.is_broken || self.files.wants_restart()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.files.finish()
    }
}

/// Two sessions at once, each with a tail decision of its own in front of files that fail again and
/// again: each event is in a file, left out, missing in a file as a gap, or counted as lost on the
/// way.
#[test]
fn two_sessions_account_for_every_event_while_their_sinks_fail() {
    if left_out() {
        return;
    }
    let _alone = one_at_a_time();
    let sessions = [false, true].map(|breaks| {
        let folder = tempfile::tempdir().unwrap();
        let files = RotationOptions::new(folder.path(), "failing").file_size(32 << 10);
        let files = files.build().unwrap();
        let sink = Failing { files, calls: 4, breaks, is_broken: false };
        let window = Duration::from_millis(if breaks { 5 } else { 1 });
        let tail = Tail::new(sink).window(window).memory(256 << 10);
        let counter = tail.counter();
        let session = Session::builder().sink(tail).provider("Tail-Trouble");
        let session = session.flush_interval(Duration::from_millis(1)).chunk_size(4_096);
        (folder, counter, session.prefault(0).start().unwrap(), breaks)
    });
    for round in 0..60 {
        thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    (0..50).for_each(|at| drop(request(round * 150 + thread * 50 + at)));
                });
            }
        });
        for (_, _, session, _) in &sessions {
            let _ = session.flush();
        }
    }
    for (folder, counter, session, breaks) in sessions {
        // Until the sink takes everything.
        until("a flush succeeds", || session.flush().is_ok());
        let (stats, result) = session.finish_with_stats();
        let (mut there, mut lost, mut files) = (0, 0, 0);
        for entry in fs::read_dir(folder.path()).unwrap() {
            let counts = events(&fs::read(entry.unwrap().path()).unwrap());
            (there, lost, files) = (there + counts.0, lost + counts.1, files + 1);
        }
        let counts = counter.get();
        println!("{breaks}: {files} files, {there} there, {lost} gaps, {counts:?}, {result:?}");
        assert!(stats.lost_in_sink > 0 && files > 3, "{stats:?}");
        assert_eq!(counts.lost_events > 0, breaks || result.is_err(), "{counts:?}");
        let accounted = there + lost + counts.left_out_events + counts.lost_events;
        assert_eq!((accounted, stats.attempted), (9_000 * EVENTS, 9_000 * EVENTS), "{counts:?}");
        assert!(lost <= stats.dropped(), "{stats:?}");
        if result.is_ok() && !breaks {
            assert_eq!(lost, stats.dropped());
        }
    }
}
