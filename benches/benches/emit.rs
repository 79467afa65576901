//! What an emit costs its thread while a session records and flushes.
//!
//! The sink is a device that takes everything, so the thread never waits for the flusher.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use benches::{
    events::{Disabled, One, PROVIDER, Text, Three, Two},
    floor::Floor,
};
use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use nettrace_writer::{Emit, Session};

/// The number of different gaps between two events, in turns of an idle loop; a power of two.
const GAPS: u64 = 32;

criterion_group!(emit, two_u64, jitter_three_types, string_16, disabled);
criterion_main!(emit);

fn two_u64(criterion: &mut Criterion) {
    // The feature compiles tracepoints in. Nobody listens to them.
    let name = if cfg!(feature = "user_events") { "two_u64_user_events" } else { "two_u64" };
    let mut group = criterion.benchmark_group(name);
    floor(&mut group);
    recording(name, || {
        group.bench_function("nettrace", |bencher| {
            let mut number = 0;
            bencher.iter(|| {
                number += 1;
                Two { a: black_box(number), b: number }.emit();
            });
        });
    });
    group.finish();
}

fn string_16(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("string_16");
    floor(&mut group);
    recording("string_16", || {
        group.bench_function("nettrace", |bencher| {
            let text = "sixteen letters!";
            bencher.iter(|| Text { text: black_box(text) }.emit());
        });
    });
    group.finish();
}

/// Runs a loop of unpredictable length before each event, and alternates between three event types.
/// The three emits follow one another in the code, so no branch chooses among them.
fn jitter_three_types(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("jitter_three_types");
    group.bench_function("floor", |bencher| {
        let (mut floor, mut gaps, mut number) = (Floor::new(), Gaps::new(), 0);
        bencher.iter(|| {
            number += 1;
            for _ in 0..3 {
                gaps.pass();
                floor.record(black_box(number), number);
            }
        });
        black_box(&mut floor);
    });
    recording("jitter_three_types", || {
        group.bench_function("nettrace", |bencher| {
            let (mut gaps, mut number) = (Gaps::new(), 0);
            bencher.iter(|| {
                number += 1;
                gaps.pass();
                Two { a: black_box(number), b: number }.emit();
                gaps.pass();
                One { a: black_box(number) }.emit();
                gaps.pass();
                Three { a: black_box(number), b: number, c: 7 }.emit();
            });
        });
    });
    group.finish();
}

/// An event that the session does not want, beside an empty loop.
fn disabled(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("disabled");
    group.bench_function("floor", |bencher| {
        let mut number = 0_u64;
        bencher.iter(|| {
            number += 1;
            black_box(number);
        });
    });
    recording("disabled", || {
        group.bench_function("nettrace", |bencher| {
            let mut number = 0;
            bencher.iter(|| {
                number += 1;
                Disabled { a: black_box(number), b: number }.emit();
            });
        });
    });
    group.finish();
}

fn floor(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function("floor", |bencher| {
        let (mut floor, mut number) = (Floor::new(), 0);
        bencher.iter(|| {
            number += 1;
            floor.record(black_box(number), number);
        });
        black_box(&mut floor);
    });
}

/// Runs `work` while a session with default settings records. Prints the share of dropped events if
/// it is large.
fn recording(scenario: &str, work: impl FnOnce()) {
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    let session = session.expect("a device takes a trace");
    work();
    let stats = session.finish().expect("a device takes everything");
    let percent = 100.0 * stats.dropped() as f64 / stats.attempted.max(1) as f64;
    if percent > 0.1 {
        println!(
            "{scenario}: {percent:.2} % of the events were dropped, so these were not recorded"
        );
    }
}

/// Pseudo-random gaps, from the 64-bit xorshift generator of Marsaglia (2003).
struct Gaps(u64);

impl Gaps {
    fn new() -> Self {
        Self(88_172_645_463_325_252)
    }

    #[inline(always)]
    fn pass(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        for _ in 0..self.0 % GAPS {
            black_box(&self.0);
        }
    }
}
