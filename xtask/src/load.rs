//! Loads the example service with requests, once without a recorder and once with each, in turns.
//!
//! One run says little: a neighbour's noise is larger than what is measured. So each round has a
//! run of each way, in an order that changes from round to round, and a ratio is that of two runs
//! in one round.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{step::Step, workspace::Workspace};

/// The ways, by their names on the service's command line. The others are compared with the first.
const WAYS: [&str; 3] = ["none", "nettrace", "fmt"];

/// How many rounds there are unless the command line says so.
const ROUNDS: usize = 5;

/// What the service is told unless the command line says so.
/// Seven requests in a hundred wait, so 16 at once would leave processors idle. Requests a second
/// would then say little about what a recorder costs.
const OPTIONS: [&str; 4] = ["--seconds", "5", "--at-once", "64"];

pub(crate) const HELP: &str = "\
Usage: cargo xtask load [ROUNDS] [OPTION of the service ...]

Runs the example service without a recorder, with a session, and with `tracing` and JSON lines, in
turns: 5 rounds of 5 s each. Prints medians, and ratios to the run without a recorder of the same
round: the median, and in brackets the first and the third quartile. Latencies are those of requests
that neither wait nor fail. CPU is processor time of the whole process for each request; `busy` is
how many processors that is.

  cargo xtask load 15                              64 requests at once
  cargo xtask load 15 --seconds 15 --rate 1000     a thousand requests a second

Requests a second are a measure only if all processors are busy.

Wants a machine with nothing else to do.";

/// Runs the rounds. `arguments` are how many, and options of the service.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let rounds = arguments.first().and_then(|first| first.parse().ok());
    let options = &arguments[usize::from(rounds.is_some())..];
    let options = if options.is_empty() { &OPTIONS } else { options };
    let build = Step::cargo().args(["build", "--release", "-p", "service", "--locked"]);
    build.run()?;

    let mut runs: [Vec<Value>; WAYS.len()] = Default::default();
    for round in 0..rounds.unwrap_or(ROUNDS) {
        for at in 0..WAYS.len() {
            let way = if round % 2 == 0 { at } else { WAYS.len() - 1 - at };
            runs[way].push(run_once(workspace, WAYS[way], options)?);
        }
    }
    println!(
        "{:<10}{:>11}  {:<19}{:>7}  {:<19}{:>7}  {:<19}{:>7}  {:<19}{:>5}{:>10}{:>9}",
        "",
        "requests/s",
        "of none",
        "p50 µs",
        "of none",
        "p99 µs",
        "of none",
        "CPU µs",
        "of none",
        "busy",
        "its own s",
        "B/event"
    );
    for (way, name) in WAYS.iter().enumerate() {
        println!("{}", line(name, &runs[way], &runs[0]));
    }
    Ok(())
}

/// The last line of a run's output.
fn run_once(workspace: &Workspace, way: &str, options: &[&str]) -> Result<Value> {
    let service = workspace.target.join("release/service");
    let out = workspace.target.join("load.trace");
    let step = Step::new(service).args(["--tracing", way, "--overwrite", "--out"]).arg(&out);
    let text = step.args(options).read()?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).context("the last line of the service is no JSON")
}

/// What the runs of a way come to, beside those without a recorder.
fn line(name: &str, runs: &[Value], without: &[Value]) -> String {
    let of = |key: &str| median(runs.iter().map(|run| number(run, key)).collect());
    let ratio_of = |value: &dyn Fn(&Value) -> f64| {
        let pairs = runs.iter().zip(without);
        let ratios = pairs.map(|(run, without)| value(run) / value(without));
        let [first, middle, third] = quartiles(ratios.collect());
        format!("{middle:.3} ({first:.3}, {third:.3})")
    };
    let ratio = |key: &str| ratio_of(&|run| number(run, key));
    let cpu = |run: &Value| number(run, "cpu_seconds") * 1e6 / number(run, "requests");
    let busy = |run: &Value| number(run, "cpu_seconds") / number(run, "seconds");
    let bytes = |run: &Value| number(run, "bytes") / number(run, "events").max(1.0);
    let each = |value: &dyn Fn(&Value) -> f64| median(runs.iter().map(value).collect());
    format!(
        "{name:<10}{:>11.0}  {:<19}{:>7.0}  {:<19}{:>7.0}  {:<19}{:>7.1}  {:<19}{:>5.2}\
         {:>10.2}{:>9.1}",
        of("requests_per_second"),
        ratio("requests_per_second"),
        of("p50_us"),
        ratio("p50_us"),
        of("p99_us"),
        ratio("p99_us"),
        each(&cpu),
        ratio_of(&cpu),
        each(&busy),
        of("recorder_cpu_seconds"),
        each(&bytes),
    )
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or(f64::NAN)
}

fn median(values: Vec<f64>) -> f64 {
    let [_, median, _] = quartiles(values);
    median
}

/// The first quartile, the median and the third quartile. Values that are none count as largest.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [1, 2, 3].map(|quarter| {
        let (below, above) = (last * quarter / 4, (last * quarter).div_ceil(4));
        match (values.get(below), values.get(above)) {
            (Some(below), Some(above)) => {
                let part = (last * quarter % 4) as f64 / 4.0;
                below + (above - below) * part
            }
            _ => f64::NAN,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{line, quartiles};

    #[test]
    fn quartiles_are_between_the_values_around_them() {
        assert_eq!(quartiles(vec![5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![2.0, 1.0]), [1.25, 1.5, 1.75]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
        assert!(quartiles(Vec::new()).iter().all(|value| value.is_nan()));
    }

    #[test]
    fn ratios_are_those_of_one_round() {
        let run = |rate: f64, p99: u32, cpu: f64| {
            json!({
                "requests": rate * 2.0, "seconds": 2.0, "requests_per_second": rate, "p50_us": 100,
                "p99_us": p99, "cpu_seconds": cpu, "recorder_cpu_seconds": 0.25, "bytes": 700,
                "events": 10,
            })
        };
        // The machine is half as fast in the second round.
        let without = [run(1_000.0, 200, 2.0), run(500.0, 400, 2.0)];
        let line = line("x", &[run(900.0, 220, 2.25), run(450.0, 440, 2.25)], &without);
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..4], ["x", "675", "0.900", "(0.900,"]);
        assert_eq!(words[5..9], ["100", "1.000", "(1.000,", "1.000)"]);
        assert_eq!(words[9..13], ["330", "1.100", "(1.100,", "1.100)"]);
        assert_eq!(words[13..17], ["1875.0", "1.250", "(1.250,", "1.250)"]);
        assert_eq!(words[17..], ["1.12", "0.25", "70.0"]);
    }
}
