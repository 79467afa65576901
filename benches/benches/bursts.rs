//! The cost of events where nothing is warm: the first session of a process and its first events,
//! and a burst after the session has been idle.
//!
//! Each burst has a floor of as many records under the same conditions. The floor of a session's
//! start, and of its end, is a thread that begins and ends. The ratio is that of medians. The sink
//! is a device that takes everything.
//!
//! An idle session changes nothing but once: after a round without events the thread holds no
//! chunk, and 100 ms later the flusher begins to rest. It keeps the memory that it has touched. So
//! [`IDLE`] stands for an hour, as far as the session is concerned; what other programs do to the
//! caches in an hour, they do to the floor as well.

use std::{
    env,
    hint::black_box,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use benches::{
    events::{PROVIDER, Two},
    floor::Floor,
    options::Options,
    report::{Report, median},
};
use nettrace_writer::{Emit, Session};

/// Events in a burst.
const BURST: u64 = 10_000;
/// Longer than a flush interval and the time until the flusher rests.
const IDLE: Duration = Duration::from_millis(400);
/// Makes this program the process whose first events are measured.
const CHILD: &str = "--first-events";

fn main() {
    if env::args().any(|argument| argument == CHILD) {
        return first_events();
    }
    let options = Options::from_env();
    let mut report = Report::default();
    if options.wants("first_events") {
        processes(&options, &mut report);
    }
    if options.wants("burst_after_idle") {
        idle(&options, &mut report);
    }
    report.finish();
}

/// What bursts took, in nanoseconds an event.
#[derive(Default)]
struct Bursts {
    floors: Vec<f64>,
    /// The first event alone.
    firsts: Vec<f64>,
    /// All events, the first one included.
    subjects: Vec<f64>,
}

impl Bursts {
    fn finish(self, name: &str, report: &mut Report) {
        let (floor, subject) = (median(self.floors), median(self.subjects));
        report.figure(&format!("{name}_floor_ns"), floor);
        report.figure(&format!("{name}_one_ns"), median(self.firsts));
        report.ratio(name, subject / floor);
    }
}

/// Measures the first events of many processes.
fn processes(options: &Options, report: &mut Report) {
    let program = env::current_exe().expect("this program has a path");
    let mut bursts = Bursts::default();
    let [mut threads, mut starts, mut ends] = [const { Vec::new() }; 3];
    for _ in 0..options.amount(60, 1) {
        let output = Command::new(&program).arg(CHILD).output().expect("this program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let numbers: Vec<f64> =
            text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        bursts.floors.push(numbers[0]);
        bursts.firsts.push(numbers[1]);
        bursts.subjects.push(numbers[2]);
        threads.push(numbers[3]);
        starts.push(numbers[4]);
        ends.push(numbers[5]);
    }
    bursts.finish("first_events", report);
    let [thread, start, end] = [threads, starts, ends].map(median);
    report.figure("first_start_us", start);
    report.figure("first_finish_us", end);
    report.ratio("first_start", start / thread);
    report.ratio("first_finish", end / thread);
}

/// Prints what the process's first records at the floor, its first event and its first events take,
/// and what a thread, the start of the first session and its end take.
fn first_events() {
    let mut floor = Floor::new();
    let below = burst(|number| floor.record(number, number));
    let (_, thread) = micros(|| thread::spawn(|| {}).join());
    let builder = Session::builder().file("/dev/null").provider(PROVIDER);
    let (session, start) = micros(|| builder.start());
    let session = session.expect("a device takes a trace");
    let (first, all) = emit();
    let (stats, end) = micros(|| session.finish());
    let stats = stats.expect("a device takes everything");
    assert_eq!(stats.written, BURST, "every event is recorded");
    println!("{below} {first} {all} {thread} {start} {end}");
}

/// Measures bursts after idleness, and bursts directly after another one.
fn idle(options: &Options, report: &mut Report) {
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    let session = session.expect("a device takes a trace");
    let mut floor = Floor::new();
    let (mut cold, mut warm) = (Bursts::default(), Bursts::default());
    let (rounds, idle) = options.amount((40, IDLE), (1, Duration::ZERO));
    for _ in 0..rounds {
        thread::sleep(idle);
        cold.floors.push(burst(|number| floor.record(number, number)));
        warm.floors.push(burst(|number| floor.record(number, number)));
        thread::sleep(idle);
        for bursts in [&mut cold, &mut warm] {
            let (first, all) = emit();
            bursts.firsts.push(first);
            bursts.subjects.push(all);
        }
    }
    session.finish().expect("a device takes everything");
    cold.finish("burst_after_idle", report);
    warm.finish("burst_after_burst", report);
}

/// Nanoseconds for the first event, and for each of all events of a burst.
fn emit() -> (f64, f64) {
    let start = Instant::now();
    Two { a: 1, b: 1 }.emit();
    let first = start.elapsed().as_nanos() as f64;
    for number in 1..BURST {
        let number = black_box(number);
        Two { a: number, b: number }.emit();
    }
    (first, start.elapsed().as_nanos() as f64 / BURST as f64)
}

/// Microseconds that `work` takes.
fn micros<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_nanos() as f64 / 1e3)
}

/// Nanoseconds for each call.
fn burst(mut work: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..BURST {
        work(black_box(number));
    }
    start.elapsed().as_nanos() as f64 / BURST as f64
}
