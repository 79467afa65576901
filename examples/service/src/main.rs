//! A shop on axum and SQLite that records a trace, and loads itself with requests.
//!
//! ```text
//! cargo run --release -p service -- --load 10000
//! cargo run --release -p nettrace-cli -- tree service.nettrace
//! ```
//!
//! With `--attach` it waits to be recorded:
//!
//! ```text
//! cargo run --release -p service -- --attach --seconds 60 --rate 500
//! dotnet-trace collect -n service --providers Example-Service,NetTrace-Tower
//! dotnet-counters monitor -n service --counters Example-Service
//! ```
//!
//! The trace also has the service's counters, each second: `nettrace dump` prints them, and
//! Perfetto shows them as lines.
//!
//! Each request is a span of `nettrace-tower`, each `#[traced]` function below it is one too. They
//! cross tasks, threads of SQLite, and connections. Some requests are slow, some fail, one in two
//! hundred panics, and one in a hundred is given up by its client. The last line of the output is a
//! JSON object with counts and times.

mod app;
#[cfg(all(test, not(nettrace_peers)))]
#[path = "../tests/contract/mod.rs"]
mod contract;
mod cpu;
mod endless;
mod known;
mod load;
mod meters;
#[cfg_attr(nettrace_peers, path = "../../../benches/peers/src/service/mod.rs")]
mod peers;
mod record;
mod store;

use std::{
    error::Error,
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use axum::serve::ListenerExt as _;
use clap::Parser;
use nettrace_writer::{Format, Sampling};
use serde_json::{Map, json};
use tokio::{net::TcpListener, runtime::Builder, sync::oneshot, time::timeout};

use crate::{
    load::{Load, Plan, Until},
    record::{Recording, Tracing},
    store::Store,
};

/// A shop on axum and SQLite that records a trace, and loads itself with requests.
#[derive(Debug, Parser)]
struct Args {
    /// Where the trace goes [default: service.nettrace, or service.json with `--tracing fmt`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long)]
    overwrite: bool,
    /// The format of the trace: v6, v5, v4 or heph
    #[arg(long, default_value_t = Format::V6)]
    format: Format,
    /// Answer so many requests
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    load: u64,
    /// Answer requests for so long, instead
    #[arg(long, value_name = "SECONDS", conflicts_with = "load")]
    seconds: Option<u64>,
    /// How many requests are in progress at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    at_once: usize,
    /// All requests are in one trace, inside one span. Otherwise each begins a trace
    #[arg(long)]
    one_trace: bool,
    /// Record a part of all traces: 0.01 for one in a hundred. The other spans and events are
    /// counted
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    sample: Option<f64>,
    /// Keep only the requests that take so long, or fail. The others are counted
    #[arg(long, value_name = "MILLISECONDS")]
    keep_slow: Option<u64>,
    /// Write no trace, but keep the last ten seconds in memory, and write them to a file in this
    /// folder when a request is slow or panics, or the process gets SIGUSR1
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["out", "keep_slow"])]
    black_box: Option<PathBuf>,
    /// Keep the memory in this file, which outlives the process: see `nettrace recover`
    #[arg(long, value_name = "FILE")]
    persistent: Option<PathBuf>,
    /// Panic in `main` after so long, while requests are in progress
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    panic_after: Option<Duration>,
    /// Begin so many requests a second, instead of each when another is done
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// How often the trace gets the values of the counters: at least every 0.1 s; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    counters: Duration,
    /// Who records [default: nettrace, or with `--attach` alone none]
    #[arg(long, value_enum)]
    tracing: Option<Tracing>,
    /// Let dotnet-trace and other tools attach to the process. It records nothing itself, unless
    /// `--tracing` or `--black-box` says so
    #[arg(long)]
    attach: bool,
    /// Write the spans that the program knows of to a file: a line of JSON for each, with its id
    /// and its parent's
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("a ratio is a number from 0 to 1".to_owned()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "an interval is a number of seconds".to_owned())
}

impl Args {
    /// Which traces are recorded.
    fn sampling(&self) -> Sampling {
        self.sample.map_or(Sampling::always(), Sampling::ratio)
    }

    fn tracing(&self) -> Tracing {
        let is_idle = self.attach && self.black_box.is_none();
        let default = if is_idle { Tracing::None } else { Tracing::Nettrace };
        self.tracing.unwrap_or(default)
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.known.is_some() {
        known::keep();
    }
    if args.attach {
        nettrace_diagnostics::listen_or_warn();
    }
    let recording = Recording::start(args)?;
    let store = Store::open()?;
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(4).enable_all();
    let runtime = recording.runtime(runtime)?;
    let began = Instant::now();
    let load = runtime.block_on(serve(args, store))?;
    let seconds = began.elapsed().as_secs_f64();
    // What is still in progress ends here.
    drop(runtime);
    let (cpu, memory) = (cpu::of_process(), cpu::peak_memory());
    let recorded = recording.finish()?;

    if let Some(path) = &args.known {
        known::write(path)?;
    }
    let mut numbers = Map::new();
    let mut put = |name: &str, value| drop(numbers.insert(name.to_owned(), value));
    put("requests", json!(load.requests));
    put("ok", json!(load.ok));
    put("failed", json!(load.failed));
    put("broken", json!(load.broken));
    put("cancelled", json!(load.cancelled));
    put("spans", json!(known::count()));
    put("events", json!(recorded.events));
    put("dropped", json!(recorded.dropped));
    put("sampled_out_spans", json!(recorded.sampled_out.spans));
    put("sampled_out_events", json!(recorded.sampled_out.events));
    put("left_out_spans", json!(recorded.left_out.left_out_spans));
    put("left_out_events", json!(recorded.left_out.left_out_events));
    put("kept_spans", json!(recorded.left_out.kept_spans));
    put("bytes", json!(recorded.bytes));
    put("seconds", json!(seconds));
    put("requests_per_second", json!(load.requests as f64 / seconds));
    put("p50_us", json!(load.percentile(50)));
    put("p99_us", json!(load.percentile(99)));
    put("cpu_seconds", json!(cpu));
    put("recorder_cpu_seconds", json!(recorded.cpu));
    put("peak_kib", json!(memory));
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&numbers)?)?;
    Ok(())
}

/// Serves, loads the server with requests, and stops it.
async fn serve(args: &Args, store: Store) -> Result<Load, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Otherwise the second line of a report waits until the client acknowledges the first one, for
    // 40 ms: Nagle's algorithm and delayed acknowledgements wait for each other.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    let (stop, stopped) = oneshot::channel::<()>();
    let app = app::router(store, args.tracing(), args.sampling());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        axum::serve(listener, app).with_graceful_shutdown(stopped).await
    });
    let until = match args.seconds {
        Some(seconds) => Until::Time(Instant::now() + Duration::from_secs(seconds)),
        None => Until::Count(args.load),
    };
    let (at_once, rate) = (args.at_once, args.rate);
    let plan = Plan { address, until, at_once, rate, sampling: args.sampling() };
    let load =
        async { if args.one_trace { load::run_as_one(plan).await } else { load::run(plan).await } };
    let load = match args.panic_after {
        Some(after) => timeout(after, load).await.expect("the load ends before `--panic-after`"),
        None => load.await,
    };
    drop(stop);
    server.await??;
    Ok(load)
}

// What dashboards may depend on: the service's own events, and those of its requests.
#[cfg(all(test, not(nettrace_peers)))]
nettrace_writer::schema_lock!(|lock| lock.package("nettrace-tower"));
