//! Does one thing as often as it is told, so that `cargo xtask instructions` can count what it
//! takes. The arguments are the name of a row and a number.
//!
//! What could vary from run to run is fixed: the clock is the processor's counter, trusted or not;
//! the budget has room for all events, so that only the last round writes; and the sink takes
//! everything.

use std::{
    env,
    fs::OpenOptions,
    future::pending,
    hint::black_box,
    pin::{Pin, pin},
    process::ExitCode,
    task::{Context, Waker},
    time::Duration,
};

use benches::{
    events::{Disabled, One, PROVIDER, Text, Three, Two, Work},
    floor::Floor,
    requests::{self, Caller},
};
use nettrace_tower::{ClientLayer, ServerLayer};
use nettrace_writer::{
    Clock, Emit, Label, Origin, Sampling, Session, TraceSpan, enter_labels,
    metrics::{Counter, Histogram, Meter},
    traced,
};
use tower_layer::Layer as _;
use tracing::{info, info_span, subscriber::set_global_default};

static METER: Meter = Meter::new("Instructions");
static COUNTER: Counter = Counter::new(&METER, "counter");
static HISTOGRAM: Histogram = Histogram::new(&METER, "histogram");

/// Room for a few hundred thousand events, of which less than a quarter is used.
const BUDGET: usize = 256 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let parsed = match arguments.as_slice() {
        [row, count] => count.parse().ok().map(|count: u64| (row.as_str(), count)),
        _ => None,
    };
    if parsed.is_some_and(|(row, count)| run(row, count)) {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "usage: instructions ROW COUNT; `benches/measure/src/instructions.rs` lists the rows"
    );
    ExitCode::FAILURE
}

/// Returns `false` if there is no such row.
fn run(row: &str, count: u64) -> bool {
    match row {
        "floor" => {
            let mut floor = Floor::new();
            repeat(count, |number| floor.record(number, number));
            black_box(&mut floor);
        }
        "two_u64" | "first_10000" => recording(count, || {
            repeat(count, |number| Two { a: number, b: number }.emit());
        }),
        "other_type" => recording(2 * count, || {
            repeat(count, |number| {
                One { a: number }.emit();
                Three { a: number, b: number, c: 7 }.emit();
            });
        }),
        "string_16" => recording(count, || {
            repeat(count, |_| Text { text: black_box("sixteen letters!") }.emit());
        }),
        "traced" => recording(2 * count, || {
            repeat(count, |number| {
                black_box(call(number));
            });
        }),
        "traced_u64" => recording(2 * count, || {
            repeat(count, |number| {
                black_box(call_u64(number));
            });
        }),
        "single" => recording(count, || {
            repeat(count, |number| {
                black_box(single(number));
            });
        }),
        "traced_future" => recording(2 * count, || {
            repeat(count, |number| {
                black_box(is_ready(pin!(future(number))));
            });
        }),
        "single_future" => recording(count, || {
            repeat(count, |number| {
                black_box(is_ready(pin!(single_future(number))));
            });
        }),
        // Nothing is recorded but one event, so that the thread has a buffer.
        "sampled_out_root" | "sampled_out_call" | "sampled_out_future" | "sampled_out_poll"
        | "sampled_out_event" => recording(1, || {
            Two { a: 1, b: 1 }.emit();
            let outer = (row != "sampled_out_root").then(|| Outer.enter());
            let mut waiting = pin!(waiting(1));
            repeat(count, |number| match row {
                "sampled_out_root" => {
                    black_box(sampled_out(number));
                }
                "sampled_out_call" => {
                    black_box(call(number));
                }
                "sampled_out_future" => {
                    black_box(is_ready(pin!(future_inside(number))));
                }
                "sampled_out_poll" => {
                    black_box(is_ready(waiting.as_mut()));
                }
                _ => Two { a: number, b: number }.emit(),
            });
            drop(outer);
        }),
        "traced_poll" => recording(2, || {
            let mut call = pin!(never_ready(1));
            repeat(count, |_| {
                black_box(is_ready(call.as_mut()));
            });
        }),
        "labels" => recording(2 * count, || {
            repeat(count, |number| {
                let scope = labelled(number);
                Two { a: number, b: number }.emit();
                Two { a: number, b: number }.emit();
                drop(scope);
            });
        }),
        "tracing_event" => by_subscriber(count, 1, |number| {
            info!(a = number, b = number, "work");
        }),
        "tracing_fields" => by_subscriber(count, 1, |number| {
            info!(a = number, b = number);
        }),
        "tracing_span" => by_subscriber(count, 2, |number| {
            let span = info_span!("work", a = number, b = number);
            let _entered = span.enter();
            black_box(number);
        }),
        "disabled_emit" => {
            let with = |number| Disabled { a: number, b: number }.emit();
            unheard(count, with);
        }
        "disabled_emit_with" => unheard(count, |number| {
            let addresses = [number];
            let event = Disabled { a: number, b: number };
            event.emit_with(&Origin::new().stack(black_box(&addresses)));
        }),
        "disabled_traced" => unheard(count, |number| {
            black_box(call(number));
        }),
        "disabled_labels" => unheard(count, |number| drop(labelled(number))),
        "tracepoint" => as_tracepoints(count, |number| {
            eventheader_writer::Emit::emit(Work::new(number));
        }),
        "bare_request" => {
            let caller = Caller::new("01");
            repeat(count, |_| caller.call(&mut caller.service()));
        }
        "server_request" => recording(2 * count, || serve(count, "01")),
        "client_request" => recording(2 * count, || ask(count)),
        "sampled_out_server" => recording(1, || {
            Two { a: 1, b: 1 }.emit();
            serve(count, "00");
        }),
        "sampled_out_client" => recording(1, || {
            Two { a: 1, b: 1 }.emit();
            let _outer = Outer.enter();
            ask(count);
        }),
        // Somebody has listened, so that the thread and the types are known.
        "disabled_server" | "disabled_client" => {
            recording(4, || {
                serve(1, "01");
                ask(1);
            });
            if row == "disabled_server" { serve(count, "01") } else { ask(count) }
        }
        "counter_add" => repeat(count, |number| COUNTER.add(number)),
        "histogram_record" => repeat(count, |number| HISTOGRAM.record((number & 1_023) as f64)),
        _ => return false,
    }
    true
}

/// The loop of every row.
#[inline(always)]
fn repeat(count: u64, mut work: impl FnMut(u64)) {
    for number in 0..count {
        work(black_box(number));
    }
}

/// Repeats something of `tracing`, of which our subscriber makes so many events.
fn by_subscriber(count: u64, events: u64, work: impl FnMut(u64)) {
    set_global_default(tracing_nettrace::subscriber()).expect("the only one");
    recording(events * count, || repeat(count, work));
}

/// Runs `work` while a session records, and checks that it has recorded `events`.
fn recording(events: u64, work: impl FnOnce()) {
    let session = Session::builder()
        .file("/dev/null")
        .provider(PROVIDER)
        .provider("instructions")
        .provider(nettrace_tower::PROVIDER)
        .clock(Clock::Counter)
        .budget(BUDGET)
        .flush_interval(Duration::from_secs(3_600))
        .start();
    let session = session.expect("a device takes a trace");
    work();
    let stats = session.finish().expect("a device takes everything");
    assert_eq!((stats.attempted, stats.written), (events, events), "every event is recorded");
}

/// Repeats an event that goes to a tracepoint, whose descriptor is a device, and checks that it was
/// written.
fn as_tracepoints(count: u64, work: impl FnMut(u64)) {
    let device = OpenOptions::new().write(true).open("/dev/null").expect("it is there");
    eventheader_writer::redirect(device).expect("the bounds are for Linux");
    repeat(count, work);
    assert_eq!(eventheader_writer::counters().written, count, "every event is written");
}

/// Does something that nobody listens to. A session has come and gone, so that the types are
/// registered: a type's first event takes another way.
fn unheard(count: u64, work: impl FnMut(u64)) {
    let register = || {
        One { a: 1 }.emit();
        Disabled { a: 1, b: 1 }.emit();
        black_box(call(1));
    };
    recording(3, register);
    repeat(count, work);
}

/// Requests that arrive, with the caller's decision about sampling.
fn serve(count: u64, flags: &str) {
    let caller = Caller::new(flags);
    let layer = ServerLayer::new().route(requests::route).peer(requests::peer);
    let layer = layer.trust_callers().sampling(Sampling::caller());
    let mut server = layer.layer(caller.service());
    repeat(count, |_| caller.call(&mut server));
}

/// Requests that are made, inside of the span that is in force.
fn ask(count: u64) {
    let caller = Caller::new("01");
    let mut client = ClientLayer::new().layer(caller.service());
    repeat(count, |_| {
        caller.reset();
        caller.call(&mut client);
    });
}

#[traced(provider = "Bench")]
#[inline(never)]
fn call(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench", sample = Sampling::never())]
#[inline(never)]
fn sampled_out(number: u64) -> u64 {
    black_box(number)
}

#[derive(TraceSpan)]
#[trace_event(provider = "Bench", sample = Sampling::never())]
struct Outer;

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

#[traced(provider = "Bench")]
async fn never_ready(number: u64) -> u64 {
    pending::<()>().await;
    number
}

// These are like two above. A function of one caller is part of that.
#[traced(provider = "Bench", fields = [number])]
async fn future_inside(number: u64) -> u64 {
    black_box(number)
}

#[traced(provider = "Bench")]
async fn waiting(number: u64) -> u64 {
    pending::<()>().await;
    number
}

#[inline(always)]
fn is_ready(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[inline(always)]
fn labelled(number: u64) -> impl Drop {
    let labels = [Label::SpanId(number), Label::Str("route", black_box("/cart"))];
    enter_labels(&labels).expect("labels of few bytes")
}
