//! The time of an emit while a session records, by criterion.
//!
//! This serves to compare two states of the code on one machine (`--save-baseline`, `--baseline`).
//! For figures that carry over to another run, see the benchmark `paired`.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use benches::{
    events::{Disabled, PROVIDER, Text, Two},
    floor::Floor,
};
use criterion::{Criterion, criterion_group, criterion_main};
use nettrace_writer::{Emit, Session};

criterion_group!(emit, all);
criterion_main!(emit);

fn all(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("emit");
    group.bench_function("floor", |bencher| {
        let (mut floor, mut number) = (Floor::new(), 0);
        bencher.iter(|| {
            number += 1;
            floor.record(black_box(number), number);
        });
        black_box(&mut floor);
    });
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    let session = session.expect("a device takes a trace");
    group.bench_function("two_u64", |bencher| {
        let mut number = 0;
        bencher.iter(|| {
            number += 1;
            Two { a: black_box(number), b: number }.emit();
        });
    });
    group.bench_function("string_16", |bencher| {
        bencher.iter(|| Text { text: black_box("sixteen letters!") }.emit());
    });
    group.bench_function("disabled", |bencher| {
        let mut number = 0;
        bencher.iter(|| {
            number += 1;
            Disabled { a: black_box(number), b: number }.emit();
        });
    });
    let stats = session.finish().expect("a device takes everything");
    if stats.dropped() > 0 {
        println!("{} of {} events were dropped", stats.dropped(), stats.attempted);
    }
    group.finish();
}
