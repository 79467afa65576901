//! A service that knows only `tracing`, recorded as NetTrace and as JSON lines in one run.
//!
//! ```text
//! cargo run --release -p bridge -- --out bridge.nettrace --fmt bridge.json
//! cargo run --release -p nettrace-cli -- tree bridge.nettrace
//! ```
//!
//! axum serves, tower-http traces the requests, sqlx keeps the shop in SQLite, and the client of
//! hyper-util sends the requests, over HTTP/1 and HTTP/2. The service's own functions have
//! `#[instrument]`. None of them knows of NetTrace. The last line of the output is a JSON object
//! with the number of spans and events that each of the two recorders has.

mod app;
mod load;
mod record;
mod store;
mod tee;

use std::{
    error::Error,
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use clap::Parser;
use nettrace_writer::{OnFull, Session};
use serde_json::json;
use tokio::{net::TcpListener, runtime::Builder, sync::oneshot};
use tracing_subscriber::{
    filter::LevelFilter, layer::SubscriberExt as _, registry, util::SubscriberInitExt as _,
};

use crate::{
    load::Answers,
    record::{Lines, Out},
    store::Store,
    tee::Tee,
};

/// A service that knows only `tracing`, recorded as NetTrace and as JSON lines in one run.
#[derive(Debug, Parser)]
struct Args {
    /// Where the trace goes
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where the JSON lines go
    #[arg(long, value_name = "FILE")]
    fmt: PathBuf,
    /// Replace the trace if there is one
    #[arg(long)]
    overwrite: bool,
    /// Answer so many requests
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    load: u64,
    /// How NetTrace is recorded: by a layer beside that of the JSON lines, or by the subscriber,
    /// which tells a registry with the JSON lines what it is told
    #[arg(long, value_enum, default_value_t = Way::Layer)]
    way: Way,
    /// Record events and spans from this level on: error, warn, info, debug or trace
    #[arg(long, default_value_t = LevelFilter::TRACE)]
    level: LevelFilter,
}

/// How NetTrace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    Layer,
    Subscriber,
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
    let file = nettrace_writer::sink::FileOptions::new(&args.out).overwrite(args.overwrite);
    // What is compared with the lines must not lose events.
    let session = Session::builder().sink(file.build()).on_full(OnFull::Block).start()?;
    let (lines, out) = install(args)?;
    let number = AtomicU64::new(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .thread_name_fn(move || format!("worker-{}", number.fetch_add(1, Ordering::Relaxed)))
        .enable_all()
        .build()?;
    let began = Instant::now();
    let load = args.load;
    let answers = runtime.block_on(async move {
        let serving = tokio::spawn(async move { serve(load).await.map_err(|e| e.to_string()) });
        serving.await
    })??;
    let seconds = began.elapsed().as_secs_f64();
    // What is still in progress ends here.
    drop(runtime);
    out.lock().map_err(|_| "a thread panicked")?.flush()?;
    let stats = session.finish()?;

    let (spans, events) = (lines.spans(), lines.events());
    let numbers = json!({
        "requests": load,
        "ok": answers.ok,
        "failed": answers.failed,
        "seconds": seconds,
        "fmt": { "spans": spans, "events": events },
        "nettrace": {
            "written": stats.written,
            "dropped": stats.dropped(),
            "bytes": stats.bytes,
            "types": tracing_nettrace::stats().types,
        },
    });
    writeln!(std::io::stdout(), "{numbers}")?;
    Ok(())
}

/// Makes both recorders those of the process.
fn install(args: &Args) -> Result<(Lines, Out), Box<dyn Error>> {
    let lines = Lines::default();
    let out = match args.way {
        Way::Layer => {
            let (json, out) = lines.layer(&args.fmt)?;
            registry().with(tracing_nettrace::layer()).with(json).with(args.level).try_init()?;
            out
        }
        Way::Subscriber => {
            let (json, out) = lines.layer(&args.fmt)?;
            let other = registry().with(json).with(args.level);
            Tee::new(tracing_nettrace::subscriber(), other).try_init()?;
            out
        }
    };
    Ok((lines, out))
}

/// Serves, loads the server with requests, and stops it.
async fn serve(load: u64) -> Result<Answers, Box<dyn Error + Send + Sync>> {
    let store = Store::open().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let app = app::router(store.clone());
    let server = tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        axum::serve(listener, app).with_graceful_shutdown(stopped).await
    });
    let answers = tokio::spawn(load::run(address, load)).await??;
    drop(stop);
    server.await??;
    store.close().await;
    Ok(answers)
}
