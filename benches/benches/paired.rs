//! The cost of an emit to its thread while a session records and flushes, over the floor.
//!
//! Floor and subject take turns in small pieces, so that whatever else the machine does meets both.
//! Each pair of pieces gives one ratio. The results are the median of all ratios, and under the
//! name `…_p90` the ratio that nine of ten pairs do not exceed.
//!
//! The sink is a device that takes everything, so the thread never waits for the flusher.

use std::{
    future::pending,
    hint::black_box,
    pin::{Pin, pin},
    task::{Context, Waker},
    time::Instant,
};

use benches::{
    events::{One, PROVIDER, Text, Three, Two},
    floor::Floor,
    options::Options,
    report::{Report, median, quantile},
};
use nettrace_writer::{Emit, Label, Session, enter_labels, traced};

/// Events of the floor in a piece.
const PIECE: u64 = 100_000;
/// The number of different gaps between two events, in turns of an idle loop; a power of two.
const GAPS: u64 = 32;

fn main() {
    let options = Options::from_env();
    let mut bench = Bench { options, report: Report::default() };

    // The feature compiles tracepoints in. Nobody listens to them.
    let name = if cfg!(feature = "user_events") { "two_u64_user_events" } else { "two_u64" };
    bench.pair(name, 1, floor(), |number| Two { a: number, b: number }.emit());
    // `black_box` writes a text to memory in two parts. Whoever then loads it as one waits for both
    // stores, which takes 5 ns and has nothing to do with the event. So there are three of these.
    bench.pair("string_16", 1, floor(), |_| Text { text: black_box(TEXTS[0]) }.emit());
    let of_argument = black_box(emit_text as fn(&'static str));
    bench.pair("string_16_argument", 1, floor(), |_| of_argument(TEXTS[0]));
    bench.pair("string_16_static", 1, floor(), |number| {
        Text { text: TEXTS[number as usize % TEXTS.len()] }.emit();
    });

    // The three emits follow one another in the code, so no branch chooses among them.
    let (mut floor_gaps, mut gaps, mut one) = (Gaps::new(), Gaps::new(), floor());
    let floor_with_gaps = move |number| {
        for _ in 0..3 {
            floor_gaps.pass();
            one(number);
        }
    };
    bench.pair("jitter_three_types", 3, floor_with_gaps, |number| {
        gaps.pass();
        Two { a: number, b: number }.emit();
        gaps.pass();
        One { a: number }.emit();
        gaps.pass();
        Three { a: number, b: number, c: 7 }.emit();
    });

    bench.pair("traced_call", 1, floor(), |number| {
        black_box(call(number));
    });
    bench.pair("traced_call_u64", 1, floor(), |number| {
        black_box(call_u64(number));
    });
    bench.pair("single_call_u64", 1, floor(), |number| {
        black_box(single(number));
    });
    bench.pair("traced_future_u64", 1, floor(), |number| {
        black_box(is_ready(pin!(future(number))));
    });
    bench.pair("single_future_u64", 1, floor(), |number| {
        black_box(is_ready(pin!(single_future(number))));
    });
    // One call, which is never ready. Its first poll is in the pair that warms up.
    let mut pending = pin!(never_ready(1));
    bench.pair("traced_further_poll", 1, floor(), |_| {
        black_box(is_ready(pending.as_mut()));
    });
    bench.pair("labels_two_events", 1, floor(), |number| {
        let labels = [Label::SpanId(number), Label::Str("route", black_box("/cart"))];
        let scope = enter_labels(&labels).expect("labels of few bytes");
        Two { a: number, b: number }.emit();
        Two { a: number, b: number }.emit();
        drop(scope);
    });
    bench.report.finish();
}

struct Bench {
    options: Options,
    report: Report,
}

impl Bench {
    /// Measures `subject` beside `floor`. The floor records `records` times a call.
    fn pair(
        &mut self,
        name: &str,
        records: u64,
        mut floor: impl FnMut(u64),
        mut subject: impl FnMut(u64),
    ) {
        if !self.options.wants(name) {
            return;
        }
        let (pairs, calls) = self.options.amount((400, PIECE / records), (2, 1_000));
        let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
        let session = session.expect("a device takes a trace");
        let (mut floors, mut ratios) = (Vec::new(), Vec::new());
        // The first pair only warms up: it touches memory and registers types.
        for pair in 0..=pairs {
            let (below, above);
            if pair % 2 == 0 {
                below = piece(calls, &mut floor);
                above = piece(calls, &mut subject);
            } else {
                above = piece(calls, &mut subject);
                below = piece(calls, &mut floor);
            }
            if pair > 0 {
                floors.push(below);
                ratios.push(above / below);
            }
        }
        let stats = session.finish().expect("a device takes everything");
        let percent = 100.0 * stats.dropped() as f64 / stats.attempted.max(1) as f64;
        if percent > 0.1 {
            println!("{name}: {percent:.2} % of the events were dropped, so not recorded");
        }
        self.report.figure(&format!("{name}_floor_ns"), median(floors) / records as f64);
        self.report.ratio(&format!("{name}_p90"), quantile(ratios.clone(), 0.9));
        self.report.ratio(name, median(ratios));
    }
}

/// Nanoseconds a call.
#[inline(never)]
fn piece(calls: u64, work: &mut impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..calls {
        work(black_box(number));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn floor() -> impl FnMut(u64) {
    let mut floor = Floor::new();
    move |number| {
        floor.record(number, number);
        black_box(&mut floor);
    }
}

#[traced(provider = "Bench")]
#[inline(never)]
fn call(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench", fields = [number])]
#[inline(never)]
fn call_u64(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench", mode = single, fields = [number])]
#[inline(never)]
fn single(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench", fields = [number])]
async fn future(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench", mode = single, fields = [number])]
async fn single_future(number: u64) -> u64 {
    black_box(number)
}

/// Of 16 bytes each.
static TEXTS: [&str; 4] =
    ["sixteen letters!", "letters: sixteen", "another sixteen.", "and the last one"];

/// Called through a pointer, so that the text is in registers and the compiler does not know it.
fn emit_text(text: &'static str) {
    Text { text }.emit();
}

#[traced(provider = "Bench")]
async fn never_ready(number: u64) -> u64 {
    pending::<()>().await;
    number
}

#[inline(always)]
fn is_ready(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
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
