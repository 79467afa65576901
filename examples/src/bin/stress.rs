//! Emits as many events as the machine can take. The threads that emit them and the session both
//! count them. The counts must agree, and every event must be written, given up by a flight
//! recorder, or dropped.

use std::{
    collections::VecDeque,
    convert::Infallible,
    error::Error,
    io,
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use examples::{
    outcome::{self, Failure},
    output::{Memory, Output},
};
use nettrace_writer::{Emit, Keep, SessionBuilder, TraceEvent};
use serde_json::json;

const NAME: &str = "stress";

/// Emits events from many threads as fast as it can, and checks that each one is accounted for.
///
/// The last line is a JSON object. attempted: counted by the program's own loops. of_threads: the
/// same for each thread, but not with --churn. written, dropped: counted by the session. given_up:
/// with --flight-recorder, what was kept and then given up; written is what the dump has.
/// lost_in_sink: the part of dropped that could not be written. seconds:
/// how long the threads ran. finish_seconds: how long it took to write the rest. ns_per_event:
/// processor time of the emitting threads for one event, if no other program used their processors.
///
/// The exit code is 1 if the counts do not agree or the trace could not be written.
#[derive(Debug, Parser)]
struct Args {
    /// How many threads emit at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How long to run once every thread has begun
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Go on until so many events were emitted, however long that takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_least: u64,
    /// Let each thread emit only a few events, then start another in its place
    #[arg(long)]
    churn: bool,
    /// Which event to emit
    #[arg(long, value_enum, default_value_t = Shape::Two)]
    event: Shape,
    #[command(flatten)]
    memory: Memory,
    /// Keep the memory in this file, which outlives the process: see `nettrace recover`
    #[arg(long, value_name = "FILE")]
    persistent: Option<PathBuf>,
    /// Write nothing meanwhile, but keep so many MiB of the last events, and write these at the end
    #[arg(long, value_name = "MIB")]
    flight_recorder: Option<NonZero<u16>>,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shape {
    /// Two 64-bit numbers
    Two,
    /// A text of 16 characters
    String,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Example-Stress", id = 1)]
struct Two {
    number: u64,
    twice: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Example-Stress", id = 2)]
struct Text<'a> {
    text: &'a str,
}

/// How many events a thread emits between two looks at the clock.
const BATCH: u64 = 64;
/// How many events a thread emits before it ends, with `--churn`.
const SHORT_LIFE: u64 = 5;

fn main() -> ExitCode {
    outcome::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let wanted = Duration::try_from_secs_f64(args.seconds)
        .map_err(|_| format!("--seconds {} is no span of time", args.seconds))?;
    if args.threads == 0 {
        return Err("--threads 0 would emit nothing; give at least 1".into());
    }
    let session = builder(args).start()?;
    let start = Instant::now();
    let attempted = if args.churn { short_lives(args, wanted) } else { long_lives(args, wanted) };
    let seconds = start.elapsed().as_secs_f64();
    let of_threads = match attempted {
        Ok(attempted) => attempted,
        Err(error) => {
            let _ = session.finish();
            return Err(Box::new(error));
        }
    };
    let attempted: u64 = of_threads.iter().sum();
    let end = Instant::now();
    let dump = args.flight_recorder.map(|_| session.dump(args.output.file(NAME))).transpose()?;
    let (mut stats, result) = session.finish_with_stats();
    let finish_seconds = end.elapsed().as_secs_f64();
    let given_up = dump.map_or(0, |dump| dump.given_up);
    // What a flight recorder has taken is not what there is in the end.
    stats.written = dump.map_or(stats.written, |dump| dump.events);
    stats.bytes = dump.map_or(stats.bytes, |dump| dump.bytes);

    let mut numbers = outcome::numbers(&stats);
    let processors = thread::available_parallelism().map_or(1, |n| n.get()).min(args.threads);
    numbers.extend([
        ("attempted".into(), json!(attempted)),
        ("of_threads".into(), json!(if args.churn { Vec::new() } else { of_threads })),
        ("given_up".into(), json!(given_up)),
        ("counted_by_session".into(), json!(stats.attempted)),
        ("seconds".into(), json!(seconds)),
        ("finish_seconds".into(), json!(finish_seconds)),
        ("events_per_second".into(), json!((attempted as f64 / seconds).round())),
        ("ns_per_event".into(), json!(seconds * 1e9 * processors as f64 / attempted as f64)),
        ("bytes_per_second".into(), json!(stats.bytes as f64 / (seconds + finish_seconds))),
    ]);
    outcome::print(&numbers, io::stdout())?;
    outcome::whole(&stats, result)?;
    let (counted, written, dropped) = (stats.attempted, stats.written, stats.dropped());
    if attempted != counted || attempted != written + given_up + dropped {
        return Err(Box::new(Disagreement { attempted, counted, written, given_up, dropped }));
    }
    Ok(())
}

/// The session that the arguments ask for.
fn builder(args: &Args) -> SessionBuilder {
    let mut builder = args.output.session(NAME);
    if let Some(size) = args.flight_recorder {
        let keep = Keep::last(Duration::from_secs(3_600)).within(usize::from(size.get()) << 20);
        builder = builder.flight_recorder(keep);
    }
    if let Some(path) = &args.persistent {
        builder = builder.persistent(path);
    }
    args.memory.apply(builder)
}

/// Runs threads that emit until the time is over and their share of `--at-least` is done. Returns
/// how many events each has emitted.
fn long_lives(args: &Args, wanted: Duration) -> io::Result<Vec<u64>> {
    let (threads, shape) = (args.threads, args.event);
    let share = args.at_least.div_ceil(threads as u64);
    let stop = Arc::new(AtomicBool::new(false));
    // Nothing is ever sent. Each thread drops its sender after its first batch.
    let (begun, all_begun) = mpsc::channel::<Infallible>();
    let mut handles = Vec::new();
    let mut result = Ok(());
    for number in 0..threads {
        let (stop, begun) = (Arc::clone(&stop), begun.clone());
        let work = move || {
            emit(shape, 0, BATCH);
            drop(begun);
            let mut attempted = BATCH;
            while attempted < share || !stop.load(Ordering::Relaxed) {
                emit(shape, attempted, BATCH);
                attempted += BATCH;
            }
            attempted
        };
        match thread::Builder::new().name(format!("{NAME}-{number}")).spawn(work) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    drop(begun);
    if result.is_ok() {
        // On a busy machine it may take longer than `wanted` until each thread has run at all.
        let _ = all_begun.recv();
        thread::sleep(wanted);
    }
    stop.store(true, Ordering::Relaxed);
    let attempted = handles.into_iter().map(join).collect();
    result.map(|()| attempted)
}

/// Runs threads that emit a few events. When one has ended, the next begins. Returns how many
/// events all of them have emitted.
fn short_lives(args: &Args, wanted: Duration) -> io::Result<Vec<u64>> {
    let shape = args.event;
    let end = Instant::now() + wanted;
    let mut alive = VecDeque::new();
    let mut attempted = 0;
    let mut result = Ok(());
    let mut number = 0_u64;
    while result.is_ok() && (number * SHORT_LIFE < args.at_least || Instant::now() < end) {
        let work = move || {
            emit(shape, number, SHORT_LIFE);
            SHORT_LIFE
        };
        match thread::Builder::new().name(format!("{NAME}-{number}")).spawn(work) {
            Ok(handle) => alive.push_back(handle),
            Err(error) => result = Err(error),
        }
        number += 1;
        if alive.len() == args.threads {
            attempted += alive.pop_front().map_or(0, join);
        }
    }
    attempted += alive.into_iter().map(join).sum::<u64>();
    result.map(|()| vec![attempted])
}

fn join(handle: thread::JoinHandle<u64>) -> u64 {
    handle.join().expect("events do not panic")
}

/// Emits `count` events.
fn emit(shape: Shape, first: u64, count: u64) {
    match shape {
        Shape::Two => {
            for number in first..first + count {
                Two { number, twice: number * 2 }.emit();
            }
        }
        Shape::String => {
            for _ in 0..count {
                Text { text: "sixteen letters!" }.emit();
            }
        }
    }
}

/// The session has counted a different number of events than the threads.
#[derive(Debug)]
struct Disagreement {
    attempted: u64,
    counted: u64,
    written: u64,
    given_up: u64,
    dropped: u64,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { attempted, counted, written, given_up, dropped } = self;
        write!(
            f,
            "the threads emitted {attempted} events, the session counted {counted}: \
             {written} written, {given_up} given up and {dropped} dropped"
        )
    }
}

impl Error for Disagreement {}
