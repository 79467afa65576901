//! Tail decisions in sessions, and sinks that fail.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{self, ErrorKind},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::{Reader, verify};
use nettrace_writer::{
    Emit, OnFull, Outcome, Session, TraceEvent,
    sink::{Batch, MemorySink, RotationOptions, Sink, StreamEnd, WriteError},
    tail::{Tail, TailCounts},
    traced,
};
use testkit::{effort::left_out, process::one_at_a_time, reference::judged};

use crate::support::{Read, Row, Source, Ty, read};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Session")]
struct Step {
    number: u64,
}

#[traced(provider = "Tail-Session", key_values = [("nettrace.tail", "failed")], fields = [number])]
fn request(number: u64) -> Result<(), String> {
    Step { number }.emit();
    inner(number);
    if number % 10 == 0 { Err("a tenth of them fail".to_owned()) } else { Ok(()) }
}

#[traced(provider = "Tail-Session", fields = [number])]
fn inner(number: u64) {
    Step { number }.emit();
}

/// How often each number occurs in the events of a type.
fn numbers(bytes: &[u8], name: &str) -> HashMap<u64, u32> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut numbers = HashMap::new();
    while let Some(event) = reader.next_event().unwrap() {
        if event.metadata().name == name {
            let number = u64::from_le_bytes(event.payload[..8].try_into().unwrap());
            *numbers.entry(number).or_default() += 1;
        }
    }
    numbers
}

#[test]
fn a_session_of_threads_keeps_what_failed() {
    let _alone = one_at_a_time();
    const THREADS: u64 = 4;
    const REQUESTS: u64 = 500;
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(HOUR);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Session").start().unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for at in 0..REQUESTS {
                    let _ = request(thread * REQUESTS + at);
                }
            });
        }
        session.flush().unwrap();
    });
    Step { number: u64::MAX }.emit();
    let stats = session.finish().unwrap();
    assert_eq!(stats.written, THREADS * REQUESTS * 6 + 1);

    let bytes = memory.bytes();
    let (report, counts) = (verify(&bytes[..]).unwrap(), counter.get());
    assert!(report.is_sound(), "{report:?}");
    let failed = THREADS * REQUESTS / 10;
    assert_eq!((counts.kept_spans, counts.undecided_spans), (failed, 0));
    assert_eq!(counts.left_out_spans, THREADS * REQUESTS - failed);
    assert_eq!(counts.left_out_events, 6 * counts.left_out_spans);
    let steps = numbers(&bytes, "Step");
    assert_eq!(steps.len() as u64, failed + 1);
    assert_eq!(steps[&u64::MAX], 1);
    assert!((0..failed).all(|at| steps[&(at * 10)] == 2));
    // One event tells what was left out: there was one sequence point at least.
    let told = report.events - (failed * 6 + 1);
    assert!(told >= 1 && report.lost == 0, "{report:?}");
    if let Some(verdict) = judged(&bytes) {
        verdict.assert_holds(report.events, 0);
    }
}

#[test]
fn a_name_asks_as_a_key_value_does() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(HOUR).ask("Tail-Session", "inner", HOUR);
    let session = Session::builder().sink(tail).provider("Tail-Session").start().unwrap();
    inner(1); // a root, which asks by its name
    let _ = request(10); // its root asks by itself, and fails
    session.finish().unwrap();
    assert_eq!(numbers(&memory.bytes(), "Step"), HashMap::from([(10, 2)]));
}

#[test]
fn events_are_written_although_nobody_emits() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let tail = Tail::new(memory.clone()).window(Duration::from_millis(200));
    let session = Session::builder().sink(tail).provider("Tail-Session").start().unwrap();
    Step { number: 1 }.emit();
    session.flush().unwrap();
    let patience = Instant::now();
    while numbers(&memory.bytes(), "Step").is_empty() {
        assert!(patience.elapsed() < Duration::from_secs(120), "it is held back for ever");
        thread::sleep(Duration::from_millis(10));
    }
    session.finish().unwrap();
}

/// Files whose bounds are small against what is held back are filled, and have all that is kept of
/// the time that they reach back.
#[test]
fn rotated_files_are_full_and_have_what_failed() {
    if left_out() {
        return;
    }
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    const BOUND: u64 = 256 << 10;
    const FILES: u64 = 5;
    const REQUESTS: u64 = 60_000;
    let files = RotationOptions::new(folder.path(), "tail");
    let files = files.file_size(BOUND).total_size(FILES * BOUND).total_files(FILES as usize);
    // What is held back is always more than a file.
    let tail = Tail::new(files.build().unwrap()).window(HOUR).memory(4 << 20);
    let counter = tail.counter();
    let session = Session::builder().sink(tail).provider("Tail-Session");
    let session = session.on_full(OnFull::Block).start().unwrap();
    let sizes = || -> Vec<u64> {
        let mut paths: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).collect()
    };
    for number in 1..=REQUESTS {
        let _ = request(number);
        if number % 500 == 0 {
            session.flush().unwrap();
            let sizes = sizes();
            assert!(sizes.iter().all(|size| *size <= BOUND), "{sizes:?}");
            assert!(sizes.iter().sum::<u64>() <= FILES * BOUND, "{sizes:?}");
        }
    }
    session.finish().unwrap();
    let sizes = sizes();
    let (_, closed) = sizes.split_last().unwrap();
    assert_eq!(sizes.len() as u64, FILES);
    assert!(closed.iter().all(|size| *size > BOUND * 9 / 10), "{sizes:?}");
    let (mut starts, mut stops) = (BTreeSet::new(), 0);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let report = verify(&bytes[..]).unwrap();
        assert!(report.is_sound() && report.lost == 0, "{report:?}");
        if let Some(verdict) = judged(&bytes) {
            verdict.assert_holds(report.events, 0);
        }
        starts.extend(numbers(&bytes, "requestStart").into_keys());
        let mut reader = Reader::new(&bytes[..]).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            stops += usize::from(event.metadata().name == "requestStop");
        }
    }
    let oldest = *starts.first().unwrap();
    let failed: BTreeSet<_> = (oldest..=REQUESTS).filter(|number| number % 10 == 0).collect();
    assert_eq!(starts, failed);
    assert!(stops - starts.len() <= 1, "{stops} stops, {} starts", starts.len());
    assert!(starts.len() > 2_000, "{} failed requests", starts.len());
    let counts = counter.get();
    assert_eq!((counts.kept_spans, counts.undecided_spans), (REQUESTS / 10, 0), "{counts:?}");
}

/// Every event is in a file, left out, or lost, also if files are of many sizes and ages, threads
/// come and go, and the session has too little memory.
#[test]
fn rotated_files_account_for_every_event() {
    let _alone = one_at_a_time();
    let ages = [None, Some(Duration::from_millis(5))];
    for (bound, age) in [8 << 10, 64 << 10, 1 << 20].into_iter().flat_map(|b| ages.map(|a| (b, a)))
    {
        let folder = tempfile::tempdir().unwrap();
        let mut files = RotationOptions::new(folder.path(), "tail").file_size(bound);
        if let Some(age) = age {
            files = files.file_age(age).total_files(1_000_000);
        }
        let tail = Tail::new(files.build().unwrap()).window(Duration::from_millis(3));
        let counter = tail.counter();
        let session = Session::builder().sink(tail).provider("Tail-Session");
        let session = session.flush_interval(Duration::from_millis(1)).chunk_size(4_096);
        let session = session.budget(256 << 10).prefault(0).start().unwrap();
        for round in 0..20 {
            thread::scope(|scope| {
                for thread in 0..3 {
                    scope.spawn(move || {
                        (0..100).for_each(|at| drop(request(round * 1_000 + thread * 100 + at)));
                    });
                }
            });
            session.flush().unwrap();
        }
        let (stats, result) = session.finish_with_stats();
        result.unwrap();
        let (mut events, mut lost, mut files) = (0, 0, 0);
        for entry in fs::read_dir(folder.path()).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let report = verify(&bytes[..]).unwrap();
            assert!(report.is_sound(), "{report:?}");
            // One event and its definitions may be larger.
            assert!(bytes.len() as u64 <= bound.max(16 << 10), "{} of {bound}", bytes.len());
            let told = numbers(&bytes, "LeftOut").values().map(|n| u64::from(*n)).sum::<u64>();
            (events, lost, files) = (events + report.events - told, lost + report.lost, files + 1);
        }
        let counts = counter.get();
        assert_eq!(counts.lost_events, 0);
        assert_eq!(lost, stats.dropped(), "{counts:?} {stats:?}");
        assert_eq!(events + lost + counts.left_out_events, stats.attempted, "{counts:?}");
        println!("{bound} bytes, {age:?}: {files} files, {events} events, {lost} lost");
    }
}

/// A sink that fails as it is told.
#[derive(Clone, Default)]
struct Flaky {
    memory: Arc<Mutex<Vec<MemorySink>>>,
    fails: Arc<Mutex<bool>>,
    /// Whether a stream cannot go on after that, and whether that is so.
    breaks: Arc<Mutex<bool>>,
    is_broken: bool,
    /// Whether it asks for a stream all the same.
    asks: Arc<Mutex<bool>>,
}

impl Sink for Flaky {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.is_broken = false;
        *self.asks.lock().unwrap() = false;
        let mut memory = self.memory.lock().unwrap();
        memory.push(MemorySink::new());
        memory.last_mut().unwrap().start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if *self.fails.lock().unwrap() {
            self.is_broken = *self.breaks.lock().unwrap();
            // It has taken the first block.
            let kept = batch.block_ends[0];
            let part = batch.pieces[0].get(..kept as usize).unwrap();
            let part = [io::IoSlice::new(part)];
            self.memory.lock().unwrap().last_mut().unwrap().write(&Batch::new(&part, &[kept]))?;
            return Err(WriteError::new(ErrorKind::StorageFull.into(), kept));
        }
        if self.is_broken && *self.asks.lock().unwrap() {
            return Err(WriteError::new(ErrorKind::StorageFull.into(), 0));
        }
        self.memory.lock().unwrap().last_mut().unwrap().write(batch)
    }

    fn wants_restart(&mut self) -> bool {
        self.is_broken || *self.asks.lock().unwrap()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tick(source: &mut Source<Tail<Flaky>>, number: u64) {
    row(source, Ty::Tick, number, None);
}

fn row<S: Sink>(source: &mut Source<S>, ty: Ty, number: u64, span: Option<(u64, u64)>) {
    let at = 1_000_000 + number;
    source.row(1, Row { at, ty, number, span, duration: 0, outcome: Outcome::Ok });
    source.round();
}

/// A source whose first batch is decided upon at once, because it is large. Its trees are
/// remembered.
fn low() -> (MemorySink, Source<Tail<MemorySink>>) {
    let memory = MemorySink::new();
    let mut source = Source::new(Tail::new(memory.clone()).window(HOUR).memory(8_000));
    for _ in 0..1_000 {
        row(&mut source, Ty::Tick, 0, None);
    }
    (memory, source)
}

/// What a trace has, without the large part of the first batch.
fn read_small(bytes: &[u8]) -> Read {
    let mut read = read(bytes);
    read.numbers.retain(|number| *number != 0);
    read
}

#[test]
fn a_span_that_is_written_before_its_end_is_written_as_a_whole() {
    let (memory, mut source) = low();
    let counter = source.sink.counter();
    let span = Some((1, 2));
    row(&mut source, Ty::RootStart, 1, span);
    source.write().unwrap();
    row(&mut source, Ty::Tick, 2, span);
    row(&mut source, Ty::RootStop, 3, span);
    source.write().unwrap();
    source.sink.finish().unwrap();
    assert_eq!(read_small(&memory.bytes()).numbers, [1, 2, 3]);
    assert_eq!((counter.get().kept_spans, counter.get().undecided_spans), (1, 1));
}

#[test]
fn a_tree_that_is_left_out_stays_left_out() {
    let (memory, mut source) = low();
    let span = Some((1, 2));
    row(&mut source, Ty::RootStart, 1, span);
    row(&mut source, Ty::RootStop, 2, span);
    source.write().unwrap();
    // Its labels are defined again after this.
    source.point(1_000_003);
    row(&mut source, Ty::Failure, 4, span);
    row(&mut source, Ty::Failure, 5, None);
    source.write().unwrap();
    source.sink.finish().unwrap();
    let read = read_small(&memory.bytes());
    assert_eq!((read.numbers, read.told), (vec![5], Some([3, 1, 0, 0, 0])));
}

/// A caller makes many requests in one trace. In each something fails that is no request, after it
/// on another thread, whose rows come first.
#[test]
fn many_failures_of_one_trace_are_all_kept() {
    let memory = MemorySink::new();
    let mut source = Source::new(Tail::new(memory.clone()).window(HOUR));
    let mut expected = Vec::new();
    for n in 0..300 {
        let at = |number: u64| 1_000_000 + 10 * n + number;
        let span = Some((1, 2 + n));
        let mut row = |thread, number, ty| {
            let (at, number) = (at(number), 10 * n + number);
            source.row(thread, Row { at, ty, number, span, duration: 0, outcome: Outcome::Ok });
            number
        };
        let root = [row(2, 1, Ty::RootStart), row(1, 2, Ty::RootStop)];
        if n % 3 > 0 {
            expected.extend(root);
            expected.push(row(1, 3, Ty::Failure));
        }
    }
    source.round();
    source.write().unwrap();
    source.sink.finish().unwrap();
    let mut numbers = read(&memory.bytes()).numbers;
    numbers.sort_unstable();
    assert_eq!(numbers, expected);
}

#[test]
fn what_is_held_back_is_not_lost_when_the_sink_fails() {
    let flaky = Flaky::default();
    let tail = Tail::new(flaky.clone()).window(Duration::ZERO);
    let mut source = Source::new(tail);
    tick(&mut source, 1);
    source.write().unwrap();
    *flaky.fails.lock().unwrap() = true;
    // The tail decision has the batch, so it counts as kept. The sink has only its first block.
    tick(&mut source, 2);
    tick(&mut source, 3);
    let error = source.write().unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::StorageFull);
    assert!(error.kept > 0 && source.sink.holds_back());
    // While the sink fails nothing more is taken.
    tick(&mut source, 4);
    tick(&mut source, 5);
    assert_eq!(source.write().unwrap_err().kept, 0);
    *flaky.fails.lock().unwrap() = false;
    tick(&mut source, 6);
    source.write().unwrap();
    assert!(!source.sink.holds_back());
    source.sink.finish().unwrap();
    let read = read(&flaky.memory.lock().unwrap()[0].bytes());
    assert_eq!((read.numbers, read.lost), (vec![1, 2, 3, 4, 5, 6], 0));
}

#[test]
fn a_stream_that_cannot_go_on_is_counted() {
    let flaky = Flaky::default();
    let tail = Tail::new(flaky.clone()).window(Duration::ZERO);
    let counter = tail.counter();
    let mut source = Source::new(tail);
    tick(&mut source, 1);
    source.write().unwrap();
    // It breaks when it is tried again.
    *flaky.fails.lock().unwrap() = true;
    (2..=4).for_each(|number| tick(&mut source, number));
    source.write().unwrap_err();
    *flaky.breaks.lock().unwrap() = true;
    source.write().unwrap_err();
    *flaky.fails.lock().unwrap() = false;
    tick(&mut source, 5);
    source.write().unwrap();
    // The session has its part in the next stream.
    assert!(source.sink.wants_restart());
    source.start();
    assert!(!source.sink.wants_restart());
    source.sink.finish().unwrap();
    let counts: TailCounts = counter.get();
    // The blocks of two events were taken before the connection broke.
    assert_eq!(counts.lost_events, 1);
    let streams = flaky.memory.lock().unwrap();
    assert_eq!(read(&streams[0].bytes()).numbers, [1, 2, 3]);
    let last = read(&streams[1].bytes());
    assert_eq!((last.numbers, last.told), (vec![5], Some([0, 0, 0, 0, 1])));
}

/// What defines the thread was lost with the stream.
#[test]
fn a_thread_that_ends_is_not_in_a_stream_that_cannot_go_on() {
    let flaky = Flaky::default();
    let mut source = Source::new(Tail::new(flaky.clone()).window(Duration::ZERO));
    tick(&mut source, 1);
    source.write().unwrap();
    *flaky.breaks.lock().unwrap() = true;
    *flaky.fails.lock().unwrap() = true;
    // The type is the first block, which it takes.
    let (at, ty, outcome) = (1_000_002, Ty::Failure, Outcome::Ok);
    source.row(2, Row { at, ty, number: 2, span: None, duration: 0, outcome });
    source.round();
    source.write().unwrap_err();
    *flaky.fails.lock().unwrap() = false;
    source.end(2);
    tick(&mut source, 3);
    source.write().unwrap();
    source.sink.finish().unwrap();
    let streams = flaky.memory.lock().unwrap();
    let numbers: Vec<_> = streams.iter().map(|stream| read(&stream.bytes()).numbers).collect();
    assert_eq!(numbers, [vec![1], vec![3]]);
}

/// What is left of a stream can break when the next one is on its way.
#[test]
fn a_stream_that_breaks_at_its_end_does_not_keep_the_next_one_back() {
    let flaky = Flaky::default();
    let mut source = Source::new(Tail::new(flaky.clone()).window(Duration::ZERO));
    let span = Some((1, 2));
    tick(&mut source, 1);
    row(&mut source, Ty::RootStart, 2, span);
    row(&mut source, Ty::RootStop, 3, span);
    source.write().unwrap();
    for flag in [&flaky.asks, &flaky.breaks, &flaky.fails] {
        *flag.lock().unwrap() = true;
    }
    // The first stream ends with the counts.
    tick(&mut source, 4);
    source.write().unwrap_err();
    source.write().unwrap_err();
    *flaky.fails.lock().unwrap() = false;
    tick(&mut source, 5);
    source.write().unwrap();
    source.sink.finish().unwrap();
    let streams = flaky.memory.lock().unwrap();
    let numbers: Vec<_> = streams.iter().map(|stream| read(&stream.bytes()).numbers).collect();
    assert_eq!(numbers, [vec![1], vec![4, 5]]);
}

/// A session can begin a stream and end it before any row of it is kept.
#[test]
fn a_stream_without_rows_tells_the_counts_at_a_time_of_its_own() {
    let flaky = Flaky::default();
    let mut source = Source::new(Tail::new(flaky.clone()).window(Duration::ZERO));
    let span = Some((1, 2));
    row(&mut source, Ty::RootStart, 1, span);
    row(&mut source, Ty::RootStop, 2, span);
    source.write().unwrap();
    source.start();
    source.write().unwrap(); // types alone
    source.start();
    source.point(1_000_003);
    source.write().unwrap();
    source.sink.finish().unwrap();
    let streams = flaky.memory.lock().unwrap();
    assert_eq!(streams.len(), 1);
    assert_eq!(read(&streams[0].bytes()).told, Some([2, 1, 0, 0, 0]));
}

#[test]
fn another_format_is_refused() {
    let tail = Tail::new(MemorySink::new());
    let session = Session::builder().sink(tail).format(nettrace_writer::Format::V5).start();
    assert!(session.unwrap_err().to_string().contains("version 6"));
}
