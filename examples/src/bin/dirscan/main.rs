//! Walks and hashes real files with several threads, and records an event for each file, directory
//! and error. It shows a tracing session in a program that does real work.

mod events;
mod queue;
mod scan;

use std::{
    io::{self, Write},
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use examples::{
    outcome::{self, Failure},
    output::Output,
};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use nettrace_writer::{Emit, Session, Stats};
use serde_json::json;

use crate::{
    events::{PROVIDER, Scan},
    queue::Queue,
    scan::{Found, Root, Worker},
};

const NAME: &str = "dirscan";

/// Walks and hashes files, and writes a trace with an event for each file, directory and error.
///
/// Links are not followed, and other file systems are not entered. A file that cannot be read is an
/// event, not a failure. The last line is a JSON object with the numbers.
#[derive(Debug, Parser)]
struct Args {
    /// Directories or files to scan
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// How many threads read files [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<u32>>,
    #[command(flatten)]
    output: Output,
}

fn main() -> ExitCode {
    outcome::exit(run(Args::parse()))
}

fn run(args: Args) -> Result<(), Failure> {
    let workers = match args.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, |count| count.get() as u32),
    };
    let roots = args.paths.into_iter().map(root).collect::<Result<Vec<_>, _>>()?;
    let trace = args.output.path(NAME);
    let session = args
        .output
        .session(NAME)
        .provider(PROVIDER)
        .register::<Scan<'_>>()
        .key_value("Program", concat!("dirscan ", env!("CARGO_PKG_VERSION")))
        .start()?;

    let start = Instant::now();
    let paths: Vec<&Path> = roots.iter().map(|root| &*root.path).collect();
    Scan::Start { roots: &paths, workers }.emit();
    let found = Found::default();
    let scanned = scan(&session, &roots, workers, &found, &trace);
    let duration = start.elapsed();
    Scan::Stop {
        files: found.files.load(Ordering::Relaxed),
        directories: found.directories.load(Ordering::Relaxed),
        errors: found.errors.load(Ordering::Relaxed),
        bytes: found.bytes.load(Ordering::Relaxed),
        duration,
    }
    .emit();
    let (stats, result) = session.finish_with_stats();

    let mut out = io::stdout().lock();
    // The reader of the summary may have closed the pipe.
    let _ = summary(&mut out, &found, duration, &stats, &trace);
    let mut numbers = outcome::numbers(&stats);
    let count = |count: &std::sync::atomic::AtomicU64| json!(count.load(Ordering::Relaxed));
    numbers.extend([
        ("files".into(), count(&found.files)),
        ("directories".into(), count(&found.directories)),
        ("errors".into(), count(&found.errors)),
        ("skipped".into(), count(&found.skipped)),
        ("file_bytes".into(), count(&found.bytes)),
        ("seconds".into(), json!(duration.as_secs_f64())),
    ]);
    outcome::print(&numbers, out)?;
    scanned?;
    outcome::whole(&stats, result)
}

fn root(path: PathBuf) -> Result<Root, Failure> {
    let shown = path.display().to_string();
    Root::new(path).map_err(|error| format!("cannot scan {shown}: {error}").into())
}

/// Starts the workers, and shows their progress on a terminal.
fn scan(
    session: &Session,
    roots: &[Root],
    workers: u32,
    found: &Found,
    trace: &Path,
) -> io::Result<()> {
    let queue = Queue::default();
    // Jobs are taken from the end, so add the roots in reverse order.
    queue.add(roots.iter().enumerate().rev().map(|(number, root)| root.job(number)));
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a valid template"));
    thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut result = Ok(());
        for number in 0..workers {
            let worker = Worker::new(roots, &queue, found, trace);
            let name = format!("{NAME}-{number}");
            match thread::Builder::new().name(name).spawn_scoped(scope, || worker.run()) {
                Ok(handle) => handles.push(handle),
                // It is an error only if not a single worker starts.
                Err(error) if handles.is_empty() => result = Err(error),
                Err(_) => break,
            }
        }
        while handles.iter().any(|handle| !handle.is_finished()) {
            if !bar.is_hidden() {
                bar.set_message(progress(found, &session.stats()));
                bar.tick();
            }
            thread::park_timeout(if bar.is_hidden() { PAUSE } else { FRAME });
        }
        bar.finish_and_clear();
        result
    })
}

/// How often to look whether the workers are done, and how often to show progress.
const PAUSE: Duration = Duration::from_millis(2);
const FRAME: Duration = Duration::from_millis(80);

fn progress(found: &Found, stats: &Stats) -> String {
    format!(
        "{} files, {}; {} events, {} of trace",
        HumanCount(found.files.load(Ordering::Relaxed)),
        HumanBytes(found.bytes.load(Ordering::Relaxed)),
        HumanCount(stats.attempted),
        HumanBytes(stats.bytes),
    )
}

fn summary(
    out: &mut impl Write,
    found: &Found,
    duration: Duration,
    stats: &Stats,
    trace: &Path,
) -> io::Result<()> {
    let count = |count: &std::sync::atomic::AtomicU64| HumanCount(count.load(Ordering::Relaxed));
    let bytes = found.bytes.load(Ordering::Relaxed);
    let (errors, skipped) = (count(&found.errors), count(&found.skipped));
    writeln!(
        out,
        "Scanned {} files ({}) in {} directories in {:.2} s; \
         {errors} unreadable, {skipped} skipped.",
        count(&found.files),
        HumanBytes(bytes),
        count(&found.directories),
        duration.as_secs_f64(),
    )?;
    writeln!(
        out,
        "Recorded {} events, dropped {}; the trace has {}.",
        HumanCount(stats.written),
        HumanCount(stats.dropped()),
        HumanBytes(stats.bytes),
    )?;
    if !trace.is_file() {
        return Ok(());
    }
    let trace = quoted(trace);
    writeln!(out)?;
    writeln!(out, "To see it:")?;
    writeln!(out, "  cargo run --release -p nettrace-cli -- info {trace}")?;
    writeln!(out, "  cargo run --release -p nettrace-cli -- dump {trace}")?;
    writeln!(out, "  dotnet-trace report {trace} topN")?;
    writeln!(out, "  or open it in PerfView: Events")?;
    writeln!(out)
}

/// The path as one word for a shell.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if path.chars().all(plain) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}
