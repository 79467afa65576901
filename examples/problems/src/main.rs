//! A small shop with a problem of your choice. Its trace shows where to look:
//! `docs/finding_it.md` has the commands for each.
//!
//! ```text
//! cargo run --release -p problems -- --problem n-plus-one
//! cargo run --release -p nettrace-cli -- tree --slow 1 n-plus-one.nettrace
//! ```

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use problems::Problem;

/// A small shop with a problem, which its trace shows.
#[derive(Debug, Parser)]
struct Args {
    /// What is wrong with it
    #[arg(long, value_enum)]
    problem: Problem,
    /// For how many seconds it is used
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = time)]
    seconds: Duration,
    /// Where the trace goes. A file that is there is replaced [default: PROBLEM.nettrace]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn time(seconds: &str) -> Result<Duration, &'static str> {
    let seconds = seconds.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("write a number of seconds from 0.1 to 3600")
}

fn main() -> ExitCode {
    let Args { problem, seconds, out } = Args::parse();
    let out = out.unwrap_or_else(|| format!("{problem}.nettrace").into());
    match problem.run(&out, seconds) {
        Ok(()) => {
            println!("{}", out.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", out.display());
            ExitCode::FAILURE
        }
    }
}
