//! Random trees of spans, in streams as sessions write them, against a model.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use nettrace_writer::{
    Outcome,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
    tail::{Tail, TailCounts},
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use testkit::effort::all_or;

use crate::support::{Row, SLOW, Source, Ty, read};

/// Keeps each stream in memory. With a bound, that is how long a stream becomes.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<Vec<MemorySink>>>, Option<usize>);

impl Sink for Streams {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let mut streams = self.0.lock().unwrap();
        if let Some(last) = streams.last_mut() {
            last.finish()?;
        }
        streams.push(MemorySink::new());
        streams.last_mut().unwrap().start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.0.lock().unwrap().last_mut().unwrap().write(batch)
    }

    fn room(&self) -> u64 {
        let Some(bound) = self.1 else { return u64::MAX };
        let len = self.0.lock().unwrap().last().map_or(0, |last| last.bytes().len());
        bound.saturating_sub(len) as u64
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().last_mut().unwrap().finish()
    }
}

/// Fails at each call with a number that `every` divides, after the first block. Breaks then, or
/// goes on.
struct Failing {
    streams: Streams,
    calls: u32,
    every: u32,
    breaks: bool,
    is_broken: bool,
}

impl Failing {
    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.calls % self.every == 0
    }
}

impl Sink for Failing {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        if self.calls > 0 && self.fails() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.is_broken = false;
        self.streams.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if !self.fails() {
            return self.streams.write(batch);
        }
        self.is_broken = self.breaks;
        let bytes: Vec<u8> = batch.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        let first = batch.block_ends[0];
        let pieces = [io::IoSlice::new(&bytes[..first as usize])];
        self.streams.write(&Batch::new(&pieces, &[first]))?;
        Err(WriteError::new(io::ErrorKind::StorageFull.into(), first))
    }

    fn room(&self) -> u64 {
        self.streams.room()
    }

    fn wants_restart(&mut self) -> bool {
        self.is_broken
    }

    fn finish(&mut self) -> io::Result<()> {
        self.streams.finish()
    }
}

/// A step of a random program. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Root {
        thread: u64,
        asks: bool,
    },
    /// Another root in a trace that there is.
    Again {
        thread: u64,
        trace: usize,
    },
    Child {
        thread: u64,
        trace: usize,
    },
    Stop {
        thread: u64,
        span: usize,
        outcome: Outcome,
    },
    Single {
        thread: u64,
        duration: u64,
        outcome: Outcome,
    },
    Event {
        thread: u64,
        span: usize,
        fails: bool,
    },
    Alone {
        thread: u64,
    },
    Lose {
        thread: u64,
    },
    End {
        thread: u64,
    },
    Pass {
        ticks: u64,
    },
    Round,
    Write,
    Point,
    Stream,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        8 => Just(Outcome::Ok),
        1 => Just(Outcome::Err),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Panicked),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let thread = || 1..4_u64;
    let any = || 0..1_000_usize;
    prop_oneof![
        6 => (thread(), prop::bool::weighted(0.8))
            .prop_map(|(thread, asks)| Step::Root { thread, asks }),
        2 => (thread(), any()).prop_map(|(thread, trace)| Step::Again { thread, trace }),
        6 => (thread(), any()).prop_map(|(thread, trace)| Step::Child { thread, trace }),
        12 => (thread(), any(), outcome())
            .prop_map(|(thread, span, outcome)| Step::Stop { thread, span, outcome }),
        1 => (thread(), 0..2 * SLOW, outcome())
            .prop_map(|(thread, duration, outcome)| Step::Single { thread, duration, outcome }),
        12 => (thread(), any(), prop::bool::weighted(0.03))
            .prop_map(|(thread, span, fails)| Step::Event { thread, span, fails }),
        3 => thread().prop_map(|thread| Step::Alone { thread }),
        1 => thread().prop_map(|thread| Step::Lose { thread }),
        1 => thread().prop_map(|thread| Step::End { thread }),
        1 => (SLOW / 2..SLOW).prop_map(|ticks| Step::Pass { ticks }),
        4 => Just(Step::Round),
        4 => Just(Step::Write),
        2 => Just(Step::Point),
        1 => Just(Step::Stream),
    ]
}

/// What a program has recorded.
#[derive(Default)]
struct Model {
    rows: Vec<Row>,
    lost: u64,
    /// Spans that have begun: trace, span, when, and whether it is a root.
    open: Vec<(u64, u64, u64, bool)>,
    spans: Vec<(u64, u64)>,
    traces: Vec<u64>,
    /// Traces with several roots.
    several: HashSet<u64>,
}

/// Runs a program into a sink, and returns what it has recorded.
fn run<S: Sink>(steps: &[Step], sink: S) -> (Model, S) {
    let (mut source, mut model) = (Source::new(sink), Model::default());
    let (mut now, mut next) = (1_000_000, 1);
    let row = |source: &mut Source<S>, model: &mut Model, thread, ty, span, at, outcome| {
        let number = model.rows.len() as u64 + 1;
        let (at, duration) = at;
        let row = Row { at, ty, number, span, duration, outcome };
        source.row(thread, row);
        model.rows.push(row);
    };
    for step in steps {
        now += 3;
        match *step {
            Step::Root { thread, asks } => {
                next += 2;
                let span = (next, next + 1);
                let ty = if asks { Ty::RootStart } else { Ty::ChildStart };
                row(&mut source, &mut model, thread, ty, Some(span), (now, 0), OK);
                model.open.push((span.0, span.1, now, asks));
                model.spans.push(span);
                model.traces.push(span.0);
            }
            Step::Again { thread, trace } if !model.traces.is_empty() => {
                next += 2;
                let trace = model.traces[trace % model.traces.len()];
                let span = (trace, next + 1);
                let at = (now, 0);
                row(&mut source, &mut model, thread, Ty::RootStart, Some(span), at, OK);
                model.open.push((span.0, span.1, now, true));
                model.spans.push(span);
                model.several.insert(trace);
            }
            Step::Child { thread, trace } if !model.traces.is_empty() => {
                next += 2;
                let span = (model.traces[trace % model.traces.len()], next + 1);
                let at = (now, 0);
                row(&mut source, &mut model, thread, Ty::ChildStart, Some(span), at, OK);
                model.open.push((span.0, span.1, now, false));
                model.spans.push(span);
            }
            Step::Stop { thread, span, outcome } if !model.open.is_empty() => {
                let (trace, span, started, asks) = model.open.swap_remove(span % model.open.len());
                let ty = if asks { Ty::RootStop } else { Ty::ChildStop };
                let at = (now, now - started);
                row(&mut source, &mut model, thread, ty, Some((trace, span)), at, outcome);
            }
            Step::Single { thread, duration, outcome } => {
                next += 2;
                let (span, at) = ((next, next + 1), (now, duration));
                row(&mut source, &mut model, thread, Ty::Single, Some(span), at, outcome);
            }
            Step::Event { thread, span, fails } if !model.spans.is_empty() => {
                let span = model.spans[span % model.spans.len()];
                let ty = if fails { Ty::Failure } else { Ty::Tick };
                row(&mut source, &mut model, thread, ty, Some(span), (now, 0), OK);
            }
            Step::Alone { thread } => {
                row(&mut source, &mut model, thread, Ty::Tick, None, (now, 0), OK);
            }
            Step::Lose { thread } => {
                source.lose(thread);
                model.lost += 1;
            }
            Step::Pass { ticks } => now += ticks,
            Step::Write => {
                source.round();
                let _ = source.write();
            }
            Step::Round => source.round(),
            Step::Point => {
                source.round();
                source.point(now);
            }
            Step::End { thread } => {
                source.round();
                source.end(thread);
            }
            Step::Stream => {
                source.round();
                source.point(now);
                if source.write().is_ok() {
                    source.start();
                }
            }
            _ => {}
        }
    }
    source.round();
    source.point(now + 3);
    // What a sink that fails now and then has not taken stays.
    while source.write().is_err_and(|error| error.kept == 0) {}
    let mut sink = source.sink;
    let _ = sink.finish();
    (model, sink)
}

const OK: Outcome = Outcome::Ok;

/// The most bytes of a stream with one row, and the threads that have losses to tell.
const LEAST: usize = 1_500;

/// The rows of a trace that asks, and whether they are kept.
struct Tree {
    numbers: Vec<u64>,
    is_kept: bool,
    /// Whether a root is the reason: then it is kept however early it is decided.
    is_kept_by_root: bool,
}

impl Model {
    /// Trees that ask and have one root, by the words of the documentation.
    fn trees(&self) -> Vec<Tree> {
        let mut by_trace: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for row in &self.rows {
            if let Some((trace, _)) = row.span.filter(|(trace, _)| !self.several.contains(trace)) {
                by_trace.entry(trace).or_default().push(*row);
            }
        }
        let asking = by_trace.into_values().filter_map(|rows| {
            // They are in the order of time.
            let (start, root) = match rows[0].ty {
                Ty::RootStart => (rows[0].at, rows[0].span),
                Ty::Single => (rows[0].at - rows[0].duration, rows[0].span),
                _ => return None,
            };
            let stop = rows
                .iter()
                .find(|row| matches!(row.ty, Ty::RootStop | Ty::Single) && row.span == root);
            let is_kept_by_root =
                stop.is_none_or(|stop| stop.at - start >= SLOW || stop.outcome != Outcome::Ok);
            let has_failed = rows.iter().any(|row| {
                row.ty == Ty::Failure || matches!(row.outcome, Outcome::Err | Outcome::Panicked)
            });
            let numbers = rows.iter().map(|row| row.number).collect();
            let is_kept = is_kept_by_root || has_failed;
            Some(Tree { numbers, is_kept, is_kept_by_root })
        });
        asking.collect()
    }
}

fn check(steps: &[Step], window: Duration, memory: usize, bound: Option<usize>) {
    let streams = Streams(Arc::default(), bound);
    let tail = Tail::new(streams.clone()).window(window).memory(memory);
    let counter = tail.counter();
    let (model, _) = run(steps, tail);
    // The same program without a tail decision.
    let plain = Streams::default();
    let (_, _) = run(steps, plain.clone());

    let numbers = |streams: &Streams| {
        let (mut numbers, mut told, mut lost) = (Vec::new(), None, 0);
        for stream in streams.0.lock().unwrap().iter() {
            let read = read(&stream.bytes());
            numbers.extend(read.numbers);
            told = read.told.or(told);
            lost += read.lost;
        }
        (numbers, told, lost)
    };
    let (kept, told, lost) = numbers(&streams);
    for stream in streams.0.lock().unwrap().iter().filter(|_| bound.is_some()) {
        // A row, and the threads that have losses to tell.
        let len = stream.bytes().len();
        assert!(len <= bound.unwrap().max(LEAST), "{len} bytes of {bound:?}");
    }
    let (mut all, _, lost_before) = numbers(&plain);
    assert_eq!((lost, lost_before), (model.lost, model.lost));
    let in_file: HashSet<u64> = kept.iter().copied().collect();
    // Rows stay in their order, and are there once.
    all.retain(|number| in_file.contains(number));
    assert_eq!(kept, all);

    let is_early = memory != usize::MAX || window == Duration::ZERO;
    let trees = model.trees();
    let mut may_miss: HashSet<u64> = HashSet::new();
    for tree in &trees {
        let here = tree.numbers.iter().filter(|number| in_file.contains(number)).count();
        if tree.is_kept_by_root || tree.is_kept && !is_early {
            assert_eq!(here, tree.numbers.len(), "kept as a whole");
        } else if !is_early {
            assert_eq!(here, 0, "left out as a whole");
        }
        may_miss.extend(&tree.numbers);
    }
    for row in &model.rows {
        let may_miss = may_miss.contains(&row.number)
            || row.span.is_some_and(|(trace, _)| model.several.contains(&trace));
        assert!(may_miss || in_file.contains(&row.number), "{row:?} did not ask");
    }

    // Also where a trace has several roots: the Start and the Stop of each have the same fate, and
    // nothing within one that was slow or failed is missing.
    let asks = |span| {
        let first = model.rows.iter().find(|row| row.span.is_some_and(|it| it.0 == span));
        first.is_some_and(|row| matches!(row.ty, Ty::RootStart | Ty::Single))
    };
    let starts = model.rows.iter().filter(|row| row.ty == Ty::RootStart);
    for start in starts {
        let is_stop = |row: &&Row| row.ty == Ty::RootStop && row.span == start.span;
        let stop = model.rows.iter().find(is_stop);
        let (from, to) = (start.at, stop.map_or(u64::MAX, |stop| stop.at));
        if let Some(stop) = stop.filter(|_| !is_early) {
            assert_eq!(in_file.contains(&start.number), in_file.contains(&stop.number));
        }
        let is_bad = stop.is_none_or(|stop| to - from >= SLOW || stop.outcome != Outcome::Ok);
        let trace = start.span.unwrap().0;
        if !is_early && (is_bad || !asks(trace)) {
            let within = model.rows.iter().filter(|row| (from..=to).contains(&row.at));
            let mut within = within.filter(|row| row.span.is_some_and(|it| it.0 == trace));
            assert!(within.all(|row| in_file.contains(&row.number)), "within {start:?}");
        }
    }

    let TailCounts { left_out_events, left_out_spans, kept_spans, undecided_spans, .. } =
        counter.get();
    assert_eq!(left_out_events, (model.rows.len() - kept.len()) as u64);
    let roots = model.rows.iter().filter(|row| matches!(row.ty, Ty::RootStart | Ty::Single));
    assert_eq!(left_out_spans + kept_spans, roots.count() as u64);
    let counts = [left_out_events, left_out_spans, kept_spans, undecided_spans, 0];
    assert_eq!(told.unwrap_or_default(), counts);
}

/// Whatever the sink fails at, each row and each row that the session has lost is in a stream, is
/// missing in one as a gap, was left out, or is counted as lost.
fn check_account(steps: &[Step], window: Duration, bound: Option<usize>, every: u32, breaks: bool) {
    let streams = Streams(Arc::default(), bound);
    let sink = Failing { streams: streams.clone(), calls: 0, every, breaks, is_broken: false };
    let tail = Tail::new(sink).window(window);
    let counter = tail.counter();
    let (model, _) = run(steps, tail);
    let (mut there, mut gaps) = (0, 0);
    for stream in streams.0.lock().unwrap().iter() {
        let read = read(&stream.bytes());
        (there, gaps) = (there + read.numbers.len() as u64, gaps + read.lost);
    }
    let counts = counter.get();
    let accounted = there + gaps + counts.left_out_events + counts.lost_events;
    let emitted = model.rows.len() as u64 + model.lost;
    assert_eq!(accounted, emitted, "{there} there, {gaps} in gaps, {counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: all_or(96, 24),
        // Beside this file.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn exactly_the_fast_trees_are_left_out(steps in prop::collection::vec(step(), 1..150)) {
        check(&steps, Duration::from_secs(3_600), usize::MAX, None);
    }

    #[test]
    fn the_same_is_left_out_of_streams_with_bounds(
        steps in prop::collection::vec(step(), 1..300),
        bound in 1_000..8_000_usize,
    ) {
        check(&steps, Duration::from_secs(3_600), usize::MAX, Some(bound));
    }

    #[test]
    fn what_is_decided_early_is_kept_if_it_is_open(
        steps in prop::collection::vec(step(), 1..150),
        memory in prop::option::of(0..5_000_usize),
        bound in prop::option::of(1_000..8_000_usize),
    ) {
        let window = if memory.is_some() { Duration::from_secs(3_600) } else { Duration::ZERO };
        check(&steps, window, memory.unwrap_or(usize::MAX), bound);
    }

    #[test]
    fn every_row_is_accounted_for_if_the_sink_fails(
        steps in prop::collection::vec(step(), 1..300),
        window in prop_oneof![Just(Duration::ZERO), Just(Duration::from_secs(3_600))],
        bound in prop::option::of(1_000..8_000_usize),
        every in 2..8_u32,
        breaks: bool,
    ) {
        check_account(&steps, window, bound, every, breaks);
    }
}
