//! The cost of an event and a span of `tracing` to their thread, by recorder, over the floor.
//!
//! A process has one global subscriber, as a service has. So each is measured in a process of its
//! own, where floor and subject take turns in small pieces. The results are the medians of the
//! ratios of the pairs. `…_disabled` is an event that nobody wants: the subscriber is there, but no
//! session is.

use std::{
    env,
    hint::black_box,
    io,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use benches::{
    floor::Floor,
    options::Options,
    report::{Report, median},
};
use nettrace_writer::Session;
use serde_json::{Map, Value};
use tracing::{
    Event, Id, Metadata, Subscriber, info, info_span,
    span::{Attributes, Record},
    subscriber::set_global_default,
};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// The variable that says to a process which subscriber is its own.
const WHO: &str = "NETTRACE_BENCH_SUBSCRIBER";
/// Nobody; one that does nothing; the registry alone; JSON lines; ours.
const ALL: [&str; 6] = ["none", "noop", "registry", "fmt_json", "subscriber", "layer"];

fn main() {
    let options = Options::from_env();
    match env::var(WHO) {
        Ok(who) => println!("{}", Value::Object(measure(&who, &options))),
        Err(_) => all(&options),
    }
}

/// Starts the processes, one after the other.
fn all(options: &Options) {
    let mut report = Report::default();
    for who in ALL {
        if !options.wants(&format!("tracing_{who}")) {
            continue;
        }
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.env(WHO, who).args(options.measure.then_some("--bench"));
        let output = command.output().expect("this program starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{who}: {text}{errors}");
        let figures: Map<String, Value> = serde_json::from_str(&text).expect("a JSON object");
        for (name, value) in figures {
            let name = format!("tracing_{who}_{name}");
            match value.as_f64() {
                Some(value) if !name.ends_with("_ns") && !name.ends_with("_percent") => {
                    report.ratio(&name, value);
                }
                _ => report.figure(&name, value),
            }
        }
    }
    report.finish();
}

fn measure(who: &str, options: &Options) -> Map<String, Value> {
    let lines = Lines::default();
    let _worker: Option<WorkerGuard> = match who {
        "none" => None,
        "noop" => install(Noop, None),
        "registry" => install(registry(), None),
        "fmt_json" => {
            // All of a piece's lines fit, so that none is dropped and no call waits.
            let builder = NonBlockingBuilder::default().buffered_lines_limit(100_000);
            let (writer, guard): (NonBlocking, _) = builder.finish(lines.clone());
            install(tracing_subscriber::fmt().json().with_writer(writer).finish(), Some(guard))
        }
        "subscriber" => install(tracing_nettrace::subscriber(), None),
        "layer" => install(registry().with(tracing_nettrace::layer()), None),
        _ => panic!("no subscriber {who}"),
    };
    let mut bench = Bench { options, lines, is_fmt: who == "fmt_json", figures: Map::new() };
    let is_ours = matches!(who, "subscriber" | "layer");
    if is_ours || who == "none" {
        bench.pair("disabled", 0, event);
    }
    if who == "none" {
        return bench.figures;
    }
    let session = is_ours.then(|| Session::builder().file("/dev/null").start());
    let session = session.transpose().expect("a device takes a trace");
    bench.pair("event", 1, event);
    bench.pair("fields", 1, fields);
    bench.pair("span", 0, span);
    if let Some(session) = session {
        let stats = session.finish().expect("a device takes everything");
        let percent = 100.0 * stats.dropped() as f64 / stats.attempted.max(1) as f64;
        assert!(stats.written > 0);
        bench.figures.insert("dropped_percent".to_owned(), percent.into());
    }
    bench.figures
}

fn install(
    subscriber: impl Subscriber + Send + Sync,
    worker: Option<WorkerGuard>,
) -> Option<WorkerGuard> {
    set_global_default(subscriber).expect("the only one");
    worker
}

#[inline(never)]
fn event(number: u64) {
    info!(a = number, b = number, "work");
}

#[inline(never)]
fn fields(number: u64) {
    info!(a = number, b = number);
}

#[inline(never)]
fn span(number: u64) {
    let span = info_span!("work", a = number, b = number);
    let _entered = span.enter();
}

struct Bench<'a> {
    options: &'a Options,
    lines: Lines,
    is_fmt: bool,
    figures: Map<String, Value>,
}

impl Bench<'_> {
    /// Measures `subject`, of which each call writes so many lines if lines are written.
    fn pair(&mut self, name: &str, lines: u64, subject: impl Fn(u64)) {
        let (pairs, calls) = self.options.amount((300, 20_000), (2, 1_000));
        let mut floor = Floor::new();
        let (mut floors, mut ratios) = (Vec::new(), Vec::new());
        // The first pair only warms up.
        for pair in 0..=pairs {
            let below = piece(calls, |number| {
                floor.record(number, number);
                black_box(&mut floor);
            });
            let before = self.lines.count();
            let above = piece(calls, &subject);
            if self.is_fmt {
                self.lines.wait_for(before + lines * calls);
            }
            if pair > 0 {
                floors.push(below);
                ratios.push(above / below);
            }
        }
        let (floor, ratio) = (median(floors), median(ratios));
        self.figures.insert(format!("{name}_floor_ns"), floor.into());
        self.figures.insert(name.to_owned(), ratio.into());
    }
}

/// Nanoseconds a call.
#[inline(never)]
fn piece(calls: u64, mut work: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..calls {
        work(black_box(number));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// A subscriber that wants everything and does nothing.
struct Noop;

impl Subscriber for Noop {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        black_box(attributes);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        black_box(event);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Counts lines and forgets them.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<AtomicU64>);

impl Lines {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until so many lines are written, so that the writing thread is idle while others are
    /// measured.
    fn wait_for(&self, count: u64) {
        let start = Instant::now();
        while self.count() < count {
            assert!(start.elapsed() < Duration::from_secs(30), "lines are missing");
            thread::sleep(Duration::from_micros(200));
        }
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.0.fetch_add(lines as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
