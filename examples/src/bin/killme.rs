//! Emits for ever from two threads, until it is killed. At every moment the trace is complete, and
//! lacks only what was emitted since the last flush.
//!
//! About every 10 ms it prints a line that says what it has emitted so far. Whoever kills the
//! program can compare.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use examples::{
    outcome::{self, Failure},
    output::Output,
    pace::Pace,
};
use nettrace_writer::{Emit, TraceEvent};
use serde_json::json;

const NAME: &str = "killme";
const THREADS: usize = 2;

/// Emits events from two threads until it is killed.
///
/// Each line is a JSON object. at_nanos: nanoseconds of the monotonic clock since the start, taken
/// before the other numbers. emitted: the events of each thread so far. written: the events that
/// the file certainly has.
#[derive(Debug, Parser)]
struct Args {
    /// Events a second of each thread; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rate: u64,
    /// How often the trace is written, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    flush_interval: u64,
    /// End after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    #[command(flatten)]
    output: Output,
}

/// One of many events.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-KillMe", id = 1, message = "thread {worker}: event {number}")]
struct Alive {
    /// The number of the thread: 0 or 1.
    worker: u32,
    /// The number of the event, from 1 on, for each thread.
    number: u64,
    /// Nanoseconds of the monotonic clock since the start.
    at_nanos: u64,
}

fn main() -> ExitCode {
    outcome::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let end = match args.seconds.map(Duration::try_from_secs_f64) {
        Some(Err(error)) => return Err(format!("--seconds: {error}").into()),
        Some(Ok(time)) => Instant::now().checked_add(time),
        None => None,
    };
    let interval = Duration::from_millis(args.flush_interval);
    let session = args.output.session(NAME).flush_interval(interval).start()?;
    let start = Instant::now();
    let nanos = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let emitted: Arc<[AtomicU64; THREADS]> = Arc::default();
    let mut workers = Vec::new();
    for worker in 0..THREADS {
        let (emitted, rate) = (Arc::clone(&emitted), args.rate);
        let work = move || {
            let mut pace = Pace::new(rate);
            let mut number = 0;
            // Emit at least one event, however late the thread gets a processor.
            while number == 0 || end.is_none_or(|end| Instant::now() < end) {
                pace.wait();
                number += 1;
                Alive { worker: worker as u32, number, at_nanos: nanos() }.emit();
                // Release: a thread that reads this number also sees that the event was recorded.
                emitted[worker].store(number, Ordering::Release);
            }
        };
        workers.push(thread::Builder::new().name(format!("{NAME}-{worker}")).spawn(work)?);
    }
    let mut out = io::stdout();
    while end.is_none_or(|end| Instant::now() < end) {
        let at_nanos = nanos();
        let written = session.stats().written;
        let emitted = emitted.each_ref().map(|count| count.load(Ordering::Acquire));
        let line = json!({ "at_nanos": at_nanos, "emitted": emitted, "written": written });
        writeln!(out, "{line}").and_then(|()| out.flush())?;
        thread::sleep(Duration::from_millis(10));
    }
    for worker in workers {
        worker.join().map_err(|_| "a thread that emits has panicked")?;
    }
    let (stats, result) = session.finish_with_stats();
    outcome::print(&outcome::numbers(&stats), out)?;
    outcome::whole(&stats, result)
}
