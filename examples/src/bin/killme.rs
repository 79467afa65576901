//! Emits for ever from two threads, until it is killed. At every moment the trace is complete, and
//! lacks only what was emitted since the last flush.
//!
//! About every 10 ms it prints a line that says what it has emitted so far. Whoever kills the
//! program can compare.

use std::{
    io::{self, Write},
    num::NonZero,
    path::{Path, PathBuf},
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
    counts::Counts,
    outcome::{self, Failure},
    output::{Memory, Output},
    pace::Pace,
};
use nettrace_writer::{Emit, Keep, SessionBuilder, TraceEvent, sink::RotationOptions};
use serde_json::json;

const NAME: &str = "killme";

/// Emits events from several threads until it is killed.
///
/// Each line is a JSON object. at_nanos: nanoseconds of the monotonic clock since the start, taken
/// before the other numbers. emitted: the events of each thread so far. written: the events that
/// the file certainly has.
#[derive(Debug, Parser)]
struct Args {
    /// Events a second of each thread; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rate: u64,
    /// How many threads emit
    #[arg(long, value_name = "N", default_value = "2")]
    threads: NonZero<u16>,
    /// How often the trace is written, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    flush_interval: u64,
    /// End after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    #[command(flatten)]
    memory: Memory,
    /// Keep the memory in this file, which outlives the process: see `nettrace recover`
    #[arg(long, value_name = "FILE")]
    persistent: Option<PathBuf>,
    /// Count the events of each thread whose emit has returned in this file, which outlives the
    /// process too: a little-endian u64 for each thread
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Begin a new file after so many bytes: FILE-000001.nettrace and so on
    #[arg(long, value_name = "BYTES")]
    file_size: Option<u64>,
    /// Write no file, but keep the events of so many seconds in memory
    #[arg(long, value_name = "S", conflicts_with = "file_size")]
    keep: Option<u64>,
    #[command(flatten)]
    output: Output,
}

/// One of many events.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-KillMe", id = 1, message = "thread {worker}: event {number}")]
struct Alive {
    /// The number of the thread, from 0 on.
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
    let session = builder(args)?.start()?;
    let threads = usize::from(args.threads.get());
    let counts = args.counts.as_deref().map(|path| Counts::create(path, threads)).transpose()?;
    let counts = counts.map(Arc::new);
    let start = Instant::now();
    let nanos = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let emitted: Arc<[AtomicU64]> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let mut workers = Vec::new();
    for worker in 0..threads {
        let (emitted, counts, rate) = (Arc::clone(&emitted), counts.clone(), args.rate);
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
                if let Some(counts) = &counts {
                    counts.of(worker).store(number, Ordering::Release);
                }
            }
        };
        workers.push(thread::Builder::new().name(format!("{NAME}-{worker}")).spawn(work)?);
    }
    let mut out = io::stdout();
    while end.is_none_or(|end| Instant::now() < end) {
        let at_nanos = nanos();
        let written = session.stats().written;
        let emitted: Vec<_> = emitted.iter().map(|it| it.load(Ordering::Acquire)).collect();
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

/// The session that the arguments ask for.
fn builder(args: &Args) -> Result<SessionBuilder, Failure> {
    let path = args.output.path(NAME);
    let mut builder = args.output.session(NAME);
    if let Some(size) = args.file_size {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        builder = builder.sink(RotationOptions::new(folder, stem).file_size(size).build()?);
    }
    if let Some(seconds) = args.keep {
        builder = builder.flight_recorder(Keep::last(Duration::from_secs(seconds)));
    }
    if let Some(path) = &args.persistent {
        builder = builder.persistent(path);
    }
    let interval = Duration::from_millis(args.flush_interval);
    Ok(args.memory.apply(builder.flush_interval(interval)))
}
