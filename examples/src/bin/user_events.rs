//! A service that emits only through tracepoints. There is no session and no file; `perf` records
//! what it asks for.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use eventheader_writer::{Context, Emit, TraceEvent, TraceField, counters, register, retry};
use examples::{
    outcome::{self, Failure},
    pace::Pace,
};
use serde_json::{Map, Value, json};

/// Answers made-up requests, and emits tracepoint events for each.
///
/// First prints the perf command that records them. The last line is one JSON object. attempted:
/// events that were emitted, whether or not somebody listened. written, disabled, too_large,
/// failed: what became of events that somebody listened to. tracepoints: whether each is
/// registered, and whether somebody listened at the end. And seconds. If the kernel cannot take
/// tracepoints, the exit code is still 0.
#[derive(Debug, Parser)]
struct Args {
    /// How long to run
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Requests a second of each thread; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    rate: u64,
    /// How many threads answer requests
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
}

/// Where a request came from.
#[derive(Clone, Copy, TraceField)]
struct Origin {
    address: SocketAddr,
    #[trace_event(format = pid)]
    pid: u32,
}

/// The events of the service. Provider, level and keywords make up the names of their tracepoints.
#[derive(TraceEvent)]
#[trace_event(provider = "Example_UserEvents", keywords = 0x1)]
enum Request<'a> {
    #[trace_event(opcode = Start, id = 1)]
    Start { url: &'a str, origin: Origin },
    #[trace_event(opcode = Stop, id = 2)]
    Stop {
        url: &'a str,
        micros: u64,
        status: u16,
        #[trace_event(format = hex)]
        etag: u64,
        user: Option<u32>,
        sizes: &'a [u32],
    },
    #[trace_event(level = Warning, id = 3)]
    Refused {
        url: &'a str,
        #[trace_event(format = errno)]
        error: i32,
    },
}

fn main() -> ExitCode {
    outcome::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let wanted = Duration::try_from_secs_f64(args.seconds)
        .map_err(|_| format!("--seconds {} is no span of time", args.seconds))?;
    // From here on `perf` can find them, even before the first event.
    let status = register!(Request)?;
    println!("{}", status.availability.explanation());
    let names = status.tracepoints.iter().map(|one| format!("-e user_events:{}", one.name));
    println!("perf record -a {}", names.collect::<Vec<_>>().join(" "));
    println!("Then: perf script; with all fields: eventheader decode perf.data");

    let start = Instant::now();
    let end = start + wanted;
    let attempted = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.threads)
            .map(|worker| {
                let answer = move || answer(worker, args.rate, end);
                thread::Builder::new().name(format!("worker-{worker}")).spawn_scoped(scope, answer)
            })
            .collect();
        let mut sum = 0;
        for worker in workers {
            sum += worker?.join().map_err(|_| "a thread that emits has panicked")?;
        }
        Ok::<u64, Failure>(sum)
    })?;

    // If tracefs has been mounted in the meantime, this registers the waiting tracepoints.
    let status = retry();
    let tracepoints: Map<String, Value> = status
        .tracepoints
        .iter()
        .map(|one| {
            let state = json!({ "registered": one.write_index.is_some(), "enabled": one.enabled });
            (one.name.clone(), state)
        })
        .collect();
    let counts = counters();
    let failed = counts.failed_in_all();
    let numbers = json!({
        "attempted": attempted,
        "written": counts.written,
        "disabled": counts.disabled,
        "too_large": counts.too_large,
        "failed": failed,
        "tracepoints": tracepoints,
        "seconds": start.elapsed().as_secs_f64(),
    });
    let Value::Object(numbers) = numbers else { unreachable!("made of braces") };
    outcome::print(&numbers, io::stdout())?;
    Ok(())
}

/// Answers requests until the time is over. Returns the number of events.
fn answer(worker: u32, rate: u64, end: Instant) -> u64 {
    let mut pace = Pace::new(rate);
    let mut attempted = 0;
    let mut number = 0;
    // Answer at least one request, however late the thread gets a processor.
    while number == 0 || Instant::now() < end {
        pace.wait();
        number += 1;
        let url = ["/", "/cart", "/checkout"][number as usize % 3];
        // Unique within the trace: the numbers of the request, the worker and the process.
        let mut activity = [0; 16];
        activity[..4].copy_from_slice(&std::process::id().to_be_bytes());
        activity[4..8].copy_from_slice(&worker.to_be_bytes());
        activity[8..].copy_from_slice(&u64::to_be_bytes(number));
        let context = Context::new().activity(&activity);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000 + worker as u16));
        let origin = Origin { address, pid: std::process::id() };
        Request::Start { url, origin }.emit_with(&context);
        let micros = 100 + number % 900;
        let user = (number % 2 == 0).then_some(worker);
        let sizes = [number as u32, 2 * number as u32];
        Request::Stop { url, micros, status: 200, etag: number << 32, user, sizes: &sizes }
            .emit_with(&context);
        attempted += 2;
        if number % 10 == 0 {
            Request::Refused { url, error: 13 }.emit();
            attempted += 1;
        }
    }
    attempted
}
