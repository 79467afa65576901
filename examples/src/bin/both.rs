//! One struct and one emit, for a NetTrace file and for a Linux tracepoint.

use std::{
    io,
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
use nettrace_writer::{Emit, Label, LabelError, TraceEvent, enter_labels, tracepoints};
use serde_json::json;

const NAME: &str = "both";

/// Records the orders of a made-up shop in a file, and in tracepoints while `perf` listens.
///
/// First prints the perf command. The last line is one JSON object. For the file: attempted,
/// written, dropped, bytes. For the tracepoints: tracepoints_written, tracepoints_failed, and
/// enabled, which says whether somebody listened at the end. And seconds. If the kernel cannot take
/// tracepoints, the exit code is still 0.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    memory: Memory,
    /// How long to run
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Orders a second of each thread; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    rate: u64,
    /// How many threads take orders
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
}

/// Provider, level and keywords make up the tracepoint's name: `Example_Both_L4K1`.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-Both", keywords = 0x1)]
struct Ordered<'a> {
    article: &'a str,
    pieces: u32,
    cents: u64,
    #[trace_event(format = pid)]
    pid: u32,
    coupon: Option<u32>,
}

fn main() -> ExitCode {
    outcome::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let wanted = Duration::try_from_secs_f64(args.seconds)
        .map_err(|_| format!("--seconds {} is no span of time", args.seconds))?;
    // From here on `perf` can find the tracepoint, even before the first event.
    let status = tracepoints::register!(Ordered<'_>)?;
    println!("{}", status.availability.explanation());
    for tracepoint in &status.tracepoints {
        println!("perf record -a -e user_events:{}", tracepoint.name);
    }
    println!("Then: perf script; with all fields: eventheader decode perf.data");
    let session = args.memory.apply(args.output.session(NAME)).start()?;

    let start = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..args.threads)
            .map(|worker| {
                let take = move || take_orders(worker, args.rate, start + wanted);
                thread::Builder::new().name(format!("till-{worker}")).spawn_scoped(scope, take)
            })
            .collect();
        for worker in workers {
            worker?.join().map_err(|_| "a thread that emits has panicked")??;
        }
        Ok::<(), Failure>(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (stats, result) = session.finish_with_stats();
    let counts = tracepoints::counters();
    let mut numbers = outcome::numbers(&stats);
    numbers.insert("tracepoints_written".into(), json!(counts.written));
    numbers.insert("tracepoints_failed".into(), json!(counts.failed_in_all()));
    let enabled = tracepoints::status().tracepoints.iter().any(|one| one.enabled);
    numbers.insert("enabled".into(), json!(enabled));
    numbers.insert("seconds".into(), json!(seconds));
    println!("To see the file: nettrace dump {}", args.output.path(NAME).display());
    outcome::print(&numbers, io::stdout())?;
    outcome::whole(&stats, result)
}

/// Takes orders until the time is over.
fn take_orders(worker: u32, rate: u64, end: Instant) -> Result<(), LabelError> {
    let mut pace = Pace::new(rate);
    let mut number: u64 = 0;
    // Take at least one order, however late the thread gets a processor.
    while number == 0 || Instant::now() < end {
        pace.wait();
        // An order is an activity. The file stores its id as a label, the tracepoint in the event's
        // header.
        let mut activity = [0; 16];
        activity[..4].copy_from_slice(&worker.to_be_bytes());
        activity[8..].copy_from_slice(&number.to_be_bytes());
        let _order = enter_labels(&[Label::ActivityId(activity)])?;
        let article = ["Tee", "Kaffee", "Käse"][number as usize % 3];
        let pieces = 1 + number as u32 % 7;
        let coupon = (number % 5 == 0).then_some(worker);
        let cents = u64::from(pieces) * 250;
        Ordered { article, pieces, cents, pid: std::process::id(), coupon }.emit();
        number += 1;
    }
    Ok(())
}
