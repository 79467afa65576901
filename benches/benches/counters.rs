//! The cost of an increment of a counter to its thread, over the floor: the same addition to an
//! atomic of its own, by a load and a store. Beside it, an atomic that threads share.
//!
//! In `counter_add_one` the number is the constant 1, as in most programs. Elsewhere the compiler
//! does not know it. Recent processors forward what an addition of a constant has stored to the
//! next one without delay, and what another has stored after four to eight cycles. A loop shows
//! that delay, in the floor as well.
//!
//! Floor and subject take turns in small pieces, so that whatever else the machine does meets both.
//! The results are medians of all pairs. The figures `…_ns` are nanoseconds for one increment.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use benches::{
    options::Options,
    report::{Report, median},
};
use nettrace_writer::metrics::{Counter, Gauge, Histogram, Meter};

/// Increments in a piece, and pairs of pieces.
const PIECE: u64 = 100_000;
const PAIRS: usize = 201;

static METER: Meter = Meter::new("Benches");
static COUNTER: Counter = Counter::new(&METER, "counter");
static GAUGE: Gauge = Gauge::new(&METER, "gauge");
static HISTOGRAM: Histogram = Histogram::new(&METER, "histogram");
static ATOMIC: AtomicU64 = AtomicU64::new(0);
/// What the floor adds to.
static BARE: AtomicU64 = AtomicU64::new(0);

fn main() {
    let options = Options::from_env();
    let mut report = Report::default();
    let tagged = COUNTER.tagged(&[("a", "b")]);
    // Its address is in a register, as that of a counter's cell.
    let bare = black_box(&BARE);
    let add = |number| {
        let sum = bare.load(Ordering::Relaxed).wrapping_add(number);
        bare.store(sum, Ordering::Relaxed);
    };
    let one = |_| add(1);
    let number = |number| add(black_box(number));
    pair(&options, &mut report, "counter_add_one", one, |_| COUNTER.add(1));
    pair(&options, &mut report, "counter_add", number, |number| COUNTER.add(black_box(number)));
    pair(&options, &mut report, "counter_add_tagged", number, |number| {
        tagged.add(black_box(number));
    });
    // One after the other: none waits for its own last store.
    let four = ["1", "2", "3", "4"].map(|tag| COUNTER.tagged(&[("n", tag)]));
    pair(&options, &mut report, "counter_add_four_in_turn", number, |number| {
        four.iter().for_each(|counter| counter.add(black_box(number)));
    });
    pair(&options, &mut report, "gauge_set", number, |number| GAUGE.set(black_box(number) as f64));
    pair(&options, &mut report, "histogram_record", number, |number| {
        HISTOGRAM.record(black_box(number) as f64);
    });
    pair(&options, &mut report, "atomic_add", number, |number| {
        ATOMIC.fetch_add(black_box(number), Ordering::Relaxed);
    });
    report.finish();
}

fn pair(
    options: &Options,
    report: &mut Report,
    name: &str,
    floor: impl Fn(u64),
    subject: impl Fn(u64),
) {
    let name = format!("counters_{name}");
    if !options.wants(&name) {
        return;
    }
    let (mut ratios, mut nanos) = (Vec::new(), Vec::new());
    for number in 0..=PAIRS {
        let (floor, subject) = (time(&floor), time(&subject));
        // The first pair warms up.
        if number > 0 {
            ratios.push(subject / floor);
            nanos.push(subject);
        }
    }
    report.ratio(&name, median(ratios));
    report.figure(&format!("{name}_ns"), median(nanos));
}

/// Nanoseconds for one call.
#[inline(never)]
fn time(call: impl Fn(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..PIECE {
        call(number);
    }
    start.elapsed().as_nanos() as f64 / PIECE as f64
}
