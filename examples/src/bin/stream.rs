//! Writes the trace to standard output, for a pipe: `stream | nettrace dump -`.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use examples::{
    outcome::{self, Failure},
    output::{Memory, Output},
    pace::Pace,
};
use nettrace_writer::{Emit, Session, TraceEvent};
use serde_json::json;

const NAME: &str = "stream";

/// Writes a trace to standard output, for a pipe: stream | nettrace dump -
///
/// The last line on standard error is one JSON object with the numbers. The exit code is 1 if the
/// reader of the trace has gone before its end.
#[derive(Debug, Parser)]
#[command(mut_arg("out", |out| out.help("A file instead of standard output")))]
struct Args {
    /// How long to run
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Go on until each thread has emitted so many events, however long that takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_least: u64,
    /// Events a second of each thread; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    rate: u64,
    /// How many threads emit
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    output: Output,
}

/// A measurement of a made-up sensor.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-Stream", id = 1, message = "{sensor}: {celsius} °C")]
struct Measured<'a> {
    sensor: &'a str,
    celsius: f64,
    /// The number of the measurement for each sensor, from 0 on.
    number: u64,
}

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| outcome::exit(Err(error)))
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let wanted = Duration::try_from_secs_f64(args.seconds)
        .map_err(|_| format!("--seconds {} is no span of time", args.seconds))?;
    if args.output.is_stdout() && io::stdout().is_terminal() {
        let advice = "a trace is binary, so it does not go to a terminal; \
            pipe it (stream | nettrace dump -) or give a file (--out FILE)";
        return Err(advice.into());
    }
    let session = args.memory.apply(args.output.stream_session(NAME)?).start()?;
    let start = Instant::now();
    let attempted = thread::scope(|scope| {
        let session = &session;
        let workers: Vec<_> = (0..args.threads)
            .map(|worker| {
                let measure = move || measure(session, worker, args, start + wanted);
                thread::Builder::new().name(format!("sensor-{worker}")).spawn_scoped(scope, measure)
            })
            .collect();
        let mut sum = 0;
        for worker in workers {
            sum += worker?.join().map_err(|_| "a thread that emits has panicked")?;
        }
        Ok::<u64, Failure>(sum)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (stats, result) = session.finish_with_stats();
    let mut numbers = outcome::numbers(&stats);
    numbers.insert("attempted".into(), json!(attempted));
    numbers.insert("seconds".into(), json!(seconds));
    // Print errors before the numbers, which are the last line.
    let code = outcome::exit(outcome::whole(&stats, result));
    outcome::print(&numbers, io::stderr())?;
    Ok(code)
}

/// Emits until the time is over or nobody reads any more. Returns the number of events.
fn measure(session: &Session, worker: u32, args: &Args, end: Instant) -> u64 {
    let sensor = format!("boiler {worker}");
    let mut pace = Pace::new(args.rate);
    let mut number = 0;
    while number < args.at_least || Instant::now() < end {
        // A session goes on without a reader, and counts what it cannot write.
        if number % 128 == 0 && session.stats().lost_in_sink > 0 {
            break;
        }
        pace.wait();
        let celsius = 60.0 + (number % 100) as f64 / 10.0;
        Measured { sensor: &sensor, celsius, number }.emit();
        number += 1;
    }
    number
}
