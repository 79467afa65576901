//! The load of a recorder on the example service, beside other recorders, in one run.
//!
//! ```text
//! cd benches/peers && cargo run --release --bin load
//! ```
//!
//! One run says little: a neighbour's noise is larger than what is measured. So each round has a
//! run of each way, in an order that changes from round to round, and a ratio is that of two runs
//! in one round. The way `none, again` is the first one once more: its ratios say how much of the
//! others' is noise.

mod machine;
mod table;

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Parser;
use serde_json::Value;

use crate::{
    machine::{Machine, Use},
    table::Runs,
};

/// Loads the example service with requests while different libraries record it, and prints a table
/// in Markdown. Its last line is a JSON object with the same figures
#[derive(Debug, Parser)]
#[command(after_help = "\
A ratio is to the way `none` of the same round: the median, and in brackets the first and the third
quartile. Latencies are those of requests that neither wait nor fail. Processor time is that of the
whole process, the client that sends the requests included.

Requests a second are a measure only if all processors are busy, so nothing else should use the
machine. The first line says whether something did.")]
struct Args {
    /// How often each way runs
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// How long a run takes
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// How many requests are in progress at once. Seven in a hundred wait, so 16 would leave
    /// processors idle
    #[arg(long, value_name = "N", default_value_t = 64)]
    at_once: usize,
    /// Begin so many requests a second, instead of each when another is done
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Only these ways, beside `none`: their names on the service's command line
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    ways: Vec<String>,
    /// A `service` of another state of the code, of which `none` and `nettrace` run as well
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Two rounds of a second each. This shows that everything runs
    #[arg(long)]
    short: bool,
}

/// The ways by their names on the service's command line, and what the table calls them.
const WAYS: [(&str, &str); 6] = [
    ("nettrace", "this project: `#[traced]`, layers; into a file"),
    ("fastrace", "fastrace: `#[trace]`; into nothing"),
    ("bridge", "`tracing`: this project's bridge; into a file"),
    ("fmt", "`tracing`: JSON lines; into a file"),
    ("otel", "`tracing`: OpenTelemetry's batch exporter; into nothing"),
    ("dial9", "dial9: what tokio does, no spans; into nothing"),
];

/// A way to run a service.
struct Way {
    name: String,
    what: String,
    service: PathBuf,
    /// Its name on the service's command line.
    tracing: String,
    /// The position of the way that it is compared with.
    without: usize,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: Args) -> Result<(), Box<dyn Error>> {
    if args.short {
        (args.rounds, args.seconds) = (2, 1);
    }
    let folder = env::current_exe()?.parent().ok_or("this program is in no folder")?.to_owned();
    build(&folder)?;
    let ways = ways(&args, &folder.join("service"))?;
    let trace = folder.join("load.trace");

    let mut runs = vec![Runs::default(); ways.len()];
    let machine = Machine::of_this_one();
    let mut uses = Vec::new();
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for turn in order(round, ways.len()) {
            let before = Use::so_far();
            runs[turn].push(run_once(&ways[turn], &trace, &args)?);
            uses.push(before.by_others_until_now());
        }
    }

    println!("{}\n", machine.line(&uses));
    println!("{}", table::HEAD);
    for (way, of_way) in ways.iter().zip(&runs) {
        println!("{}", of_way.row(&way.what, &runs[way.without]));
    }
    let figures = ways.iter().zip(&runs);
    let figures =
        figures.map(|(way, of_way)| (way.name.clone(), of_way.figures(&runs[way.without])));
    println!("\n{}", Value::Object(figures.collect()));
    Ok(())
}

/// Builds the service beside this program, as this one was built.
fn build(folder: &Path) -> Result<(), Box<dyn Error>> {
    let profile = if folder.ends_with("debug") { "dev" } else { "release" };
    let target = folder.parent().ok_or("this program is in no target folder")?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--bin", "service", "--profile", profile]);
    // There cargo finds the flags of the compiler.
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
    if cargo.status()?.success() { Ok(()) } else { Err("the service does not build".into()) }
}

fn ways(args: &Args, service: &Path) -> Result<Vec<Way>, Box<dyn Error>> {
    let way = |name: &str, what: &str, service: &Path, tracing: &str| Way {
        name: name.into(),
        what: what.into(),
        service: service.into(),
        tracing: tracing.into(),
        without: 0,
    };
    if let Some(name) = args.ways.iter().find(|name| WAYS.iter().all(|(way, _)| way != name)) {
        let names: Vec<_> = WAYS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no way `{name}`; there are {}", names.join(", ")).into());
    }
    let mut ways = vec![
        way("none", "none", service, "none"),
        way("none_again", "none, again", service, "none"),
    ];
    for (name, what) in WAYS {
        if args.ways.is_empty() || args.ways.iter().any(|way| way == name) {
            ways.push(way(name, what, service, name));
        }
    }
    if let Some(before) = &args.before {
        let without = ways.len();
        ways.push(way("none_before", "none, before", before, "none"));
        let what = "this project, before; of none, before";
        ways.push(Way { without, ..way("nettrace_before", what, before, "nettrace") });
    }
    Ok(ways)
}

/// Which way runs when in a round: each comes first, last and after each neighbour in turn.
fn order(round: usize, ways: usize) -> impl Iterator<Item = usize> {
    (0..ways).map(move |at| {
        let at = if round.is_multiple_of(2) { at } else { ways - 1 - at };
        (at + round / 2) % ways
    })
}

/// The last line of a run's output.
fn run_once(way: &Way, trace: &Path, args: &Args) -> Result<Value, Box<dyn Error>> {
    let mut service = Command::new(&way.service);
    service.args(["--tracing", &way.tracing, "--overwrite", "--out"]).arg(trace);
    service.args(["--seconds", &args.seconds.to_string()]);
    service.args(["--at-once", &args.at_once.to_string()]);
    if let Some(rate) = args.rate {
        service.args(["--rate", &rate.to_string()]);
    }
    let output = service.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the service with `{}` has failed: {said}", way.tracing).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|_| "the last line of the service is no JSON".into())
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn each_way_runs_once_a_round_and_not_always_at_the_same_time() {
        let mut first = Vec::new();
        for round in 0..10 {
            let mut ways: Vec<_> = order(round, 5).collect();
            first.push(ways[0]);
            ways.sort_unstable();
            assert_eq!(ways, [0, 1, 2, 3, 4]);
        }
        first.sort_unstable();
        assert_eq!(first, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }
}
