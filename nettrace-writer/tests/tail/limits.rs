//! The cost of a tail decision that others can cause: the ids of traces, how many roots and
//! children one has, and in which order things begin, fail and end. Time grows with the number of
//! rows, and memory stays within its bound.

mod support;

use std::{
    io,
    time::{Duration, Instant},
};

use nettrace_writer::{
    Outcome,
    sink::{Batch, Sink, StreamEnd, WriteError},
    tail::{Tail, TailCounter},
};
use testkit::{
    allocations::{self, Counting},
    process::once_in_three,
};

use crate::support::{Row, Source, Ty};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HOUR: Duration = Duration::from_secs(3_600);

/// Takes everything, and has no bound.
struct Nowhere;

impl Sink for Nowhere {
    fn start(&mut self, _header: &[u8], _end: StreamEnd) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _batch: &Batch<'_>) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Measures what a sink takes.
struct Measured<S> {
    sink: S,
    time: Duration,
    /// The memory now, and the most so far.
    bytes: i64,
    most: i64,
}

impl<S> Measured<S> {
    fn new(sink: S) -> Self {
        Self { sink, time: Duration::ZERO, bytes: 0, most: 0 }
    }

    fn measure<R>(&mut self, call: impl FnOnce(&mut S) -> R) -> R {
        let (mut result, sink) = (None, &mut self.sink);
        let began = Instant::now();
        let (change, most) = allocations::bytes_of(|| result = Some(call(sink)));
        self.time += began.elapsed();
        self.most = self.most.max(self.bytes + most);
        self.bytes += change;
        result.unwrap()
    }
}

impl<S: Sink> Sink for Measured<S> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.measure(|sink| sink.start(header, end))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.measure(|sink| sink.write(batch))
    }

    fn wants_restart(&mut self) -> bool {
        self.sink.wants_restart()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.measure(Sink::finish)
    }
}

type Measuring = Source<Measured<Tail<Nowhere>>>;

fn source(tail: Tail<Nowhere>) -> Measuring {
    Source::new(Measured::new(tail))
}

fn put(source: &mut Measuring, thread: u64, at: u64, ty: Ty, span: (u64, u64)) {
    let row =
        Row { at: 1_000_000 + at, ty, number: at, span: Some(span), duration: 0, outcome: OK };
    source.row(thread, row);
}

const OK: Outcome = Outcome::Ok;

/// Records so many things that others can ask for.
type Shape = fn(&mut Measuring, u64);

/// Roots of one trace, one after the other.
fn roots_of_one_trace(source: &mut Measuring, count: u64) {
    for n in 0..count {
        put(source, 1, 4 * n, Ty::RootStart, (1, n + 2));
        put(source, 1, 4 * n + 1, Ty::RootStop, (1, n + 2));
    }
}

/// The same on threads that take turns, so that they come in another order than that of time.
fn roots_on_threads(source: &mut Measuring, count: u64) {
    for n in 0..count {
        put(source, 1 + n % 4, 4 * n, Ty::RootStart, (1, n + 2));
        put(source, 1 + n % 4, 4 * n + 1, Ty::RootStop, (1, n + 2));
    }
}

/// Every Stop comes before its Start, because another thread has it.
fn stops_before_starts(source: &mut Measuring, count: u64) {
    put(source, 1, 0, Ty::Tick, (1, 1));
    for n in 0..count {
        put(source, 2, 4 * n + 1, Ty::RootStart, (1, n + 2));
        put(source, 1, 4 * n + 2, Ty::RootStop, (1, n + 2));
    }
}

/// Stops whose Start is lost.
fn stops_alone(source: &mut Measuring, count: u64) {
    put(source, 1, 0, Ty::RootStart, (1, 1));
    put(source, 1, 1, Ty::RootStop, (1, 1));
    (0..count).for_each(|n| put(source, 1, 2 + n, Ty::RootStop, (1, n + 2)));
}

/// Roots that never end, each in the time of all before.
fn open_roots(source: &mut Measuring, count: u64) {
    (0..count).for_each(|n| put(source, 1, n, Ty::RootStart, (1, n + 2)));
}

/// The same id again and again.
fn one_span(source: &mut Measuring, count: u64) {
    for n in 0..count {
        put(source, 1, 4 * n, Ty::RootStart, (1, 2));
        put(source, 1, 4 * n + 1, Ty::RootStart, (1, 2));
        put(source, 1, 4 * n + 2, Ty::RootStop, (1, 2));
    }
}

/// What comes between roots fails.
fn failures(source: &mut Measuring, count: u64) {
    for n in 0..count {
        put(source, 1, 4 * n, Ty::RootStart, (1, n + 2));
        put(source, 1, 4 * n + 1, Ty::RootStop, (1, n + 2));
        put(source, 2, 4 * n + 2, Ty::Failure, (1, n + 2));
    }
}

/// Children after their root has ended.
fn late_children(source: &mut Measuring, count: u64) {
    put(source, 1, 0, Ty::RootStart, (1, 1));
    put(source, 1, 1, Ty::RootStop, (1, 1));
    for n in 0..count {
        put(source, 1, 4 * n + 2, Ty::ChildStart, (1, n + 2));
        put(source, 1, 4 * n + 3, Ty::ChildStop, (1, n + 2));
    }
}

/// Traces whose ids differ in the highest bits only.
fn traces(source: &mut Measuring, count: u64) {
    for n in 0..count {
        put(source, 1, 4 * n, Ty::RootStart, (n << 40, 2));
        put(source, 1, 4 * n + 1, Ty::RootStop, (n << 40, 2));
    }
}

/// The time that a tail decision takes for a shape.
fn time(shape: Shape, count: u64, memory: usize) -> Duration {
    let mut source = source(Tail::new(Nowhere).window(HOUR).memory(memory));
    shape(&mut source, count);
    source.round();
    source.write().unwrap();
    source.sink.finish().unwrap();
    source.sink.time
}

#[test]
fn time_grows_with_the_number_of_rows() {
    let shapes: [(&str, Shape); 9] = [
        ("roots of one trace", roots_of_one_trace),
        ("roots on threads", roots_on_threads),
        ("stops before starts", stops_before_starts),
        ("stops alone", stops_alone),
        ("open roots", open_roots),
        ("one span", one_span),
        ("failures", failures),
        ("late children", late_children),
        ("traces", traces),
    ];
    for (name, shape) in shapes {
        for memory in [usize::MAX, 64 << 10] {
            once_in_three(|| {
                let [few, many] = [2_000, 16_000].map(|count| time(shape, count, memory));
                let ratio = many.as_secs_f64() / few.as_secs_f64();
                println!("{name}, {memory}: {few:?}, {many:?} for 8 times as many: {ratio:.1}");
                // 64 if each row takes as long as there are others.
                if ratio < 32.0 { Ok(()) } else { Err(format!("{name}: {ratio:.1}")) }
            });
        }
    }
}

/// Records rounds of `shape`, with a sequence point after so many of them. Asserts what memory
/// takes and what the counter says of it.
fn bounded(
    name: &str,
    bound: usize,
    rounds: u64,
    until_point: u64,
    shape: fn(&mut Measuring, u64),
) {
    let tail = Tail::new(Nowhere).window(HOUR).memory(bound);
    let counter: TailCounter = tail.counter();
    let mut source = source(tail);
    let (mut told_most, mut worst) = (0, 0.0_f64);
    for round in 0..rounds {
        shape(&mut source, round);
        source.round();
        if round % until_point == until_point - 1 {
            source.point(1_000_000 + round * 10_000 + 9_999);
        }
        source.write().unwrap();
        if source.sink.wants_restart() {
            source.start();
        }
        let (told, is) = (counter.memory(), source.sink.bytes);
        told_most = told.max(told_most);
        if is > bound as i64 / 2 {
            worst = worst.max((told as f64 - is as f64).abs() / is as f64);
        }
    }
    let most = source.sink.most;
    println!("{name}: {most} of {bound} bytes, {told_most} told, {worst:.2} apart");
    assert!(most <= bound as i64 * 11 / 10, "{name}: {most} of {bound} bytes");
    assert!(most > bound as i64 / 2, "{name}: {most} of {bound} bytes do not reach the bound");
    assert!(worst < 0.25, "{name}: what is told is {worst:.2} apart");
    source.sink.finish().unwrap();
    assert_eq!(counter.memory(), 0, "{name}");
    assert!(source.sink.bytes < 4_096, "{name}: {} bytes stay", source.sink.bytes);
}

/// A sixteenth of a burst of a million in 64 MiB.
#[test]
fn memory_stays_within_its_bound() {
    const BOUND: usize = 4 << 20;
    const ROUNDS: u64 = 625;
    const EACH: u64 = 100;
    bounded("open roots", BOUND, ROUNDS, 16, |source, round| {
        for n in round * EACH..(round + 1) * EACH {
            // As random as ids are.
            let trace = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            put(source, 1, n * 100, Ty::RootStart, (trace, 2));
        }
    });
    bounded("open roots in the order of their ids", BOUND, ROUNDS, 16, |source, round| {
        for n in round * EACH..(round + 1) * EACH {
            put(source, 1, n * 100, Ty::RootStart, (n.swap_bytes(), 2));
        }
    });
    bounded("open roots of one trace", BOUND, ROUNDS, 16, |source, round| {
        for n in round * EACH..(round + 1) * EACH {
            put(source, 1, n * 100, Ty::RootStart, (1, n + 2));
        }
    });
    bounded("open roots without a sequence point", BOUND, ROUNDS, u64::MAX, |source, round| {
        for n in round * EACH..(round + 1) * EACH {
            put(source, 1, n * 100, Ty::RootStart, (n.swap_bytes(), 2));
        }
    });
    bounded("roots of one trace", BOUND, ROUNDS, 16, |source, round| {
        for n in round * EACH..(round + 1) * EACH {
            put(source, 1, n * 100, Ty::RootStart, (1, n + 2));
            put(source, 1, n * 100 + 1, Ty::RootStop, (1, n + 2));
        }
    });
    bounded("events", BOUND, 10 * ROUNDS, 16, |source, round| {
        (0..EACH).for_each(|n| put(source, 1, (round * EACH + n) * 100, Ty::Tick, (1, 2)));
    });
}

/// What a burst has taken is given back while the session goes on.
#[test]
fn memory_is_given_back_after_a_burst() {
    let tail = Tail::new(Nowhere).window(Duration::from_millis(20));
    let counter = tail.counter();
    let mut source = source(tail);
    for n in 0..50_000 {
        put(&mut source, 1, n, Ty::RootStart, (n, 2));
        if n % 500 == 499 {
            source.round();
            source.write().unwrap();
        }
    }
    assert!(source.sink.most > 1 << 20, "{} bytes", source.sink.most);
    let patience = Instant::now();
    let mut n = 50_000;
    while source.sink.bytes > 64 << 10 {
        assert!(patience.elapsed() < Duration::from_secs(300), "{} stay", source.sink.bytes);
        n += 1;
        put(&mut source, 1, n, Ty::Tick, (1 << 40, 2));
        source.round();
        source.point(1_000_000 + n);
        source.write().unwrap();
    }
    assert!(counter.memory() < 64 << 10, "{} bytes are told", counter.memory());
}
