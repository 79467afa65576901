//! Counts what a session adds to a request of the example service, by cachegrind: instructions, and
//! misses of the caches of the first level. Cachegrind simulates these, so they do not depend on
//! the machine.
//!
//! The service answers requests without a session and with one, few of them and many. The
//! difference of two runs, divided by the difference of the numbers, is what one request takes.
//! When which thread runs is the system's choice, so a count is the median of [`ROUNDS`] rounds,
//! and each has a tolerance of its own.

use std::path::Path;

use anyhow::{Context, Result};
use xtask::{
    step::Step,
    workspace::{self, Workspace},
};

/// The cost of a session for a request.
pub(crate) struct CostRow {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    /// By which part of its bound a count may differ from it.
    pub(crate) tolerance: f64,
}

pub(crate) const ROWS: [CostRow; 3] = [
    CostRow {
        name: "service_request",
        what: "what a session adds to a request of the service",
        unit: "instructions",
        tolerance: 0.10,
    },
    CostRow {
        name: "service_i1_misses",
        what: "misses of the instruction cache that it adds",
        unit: "misses",
        tolerance: 0.08,
    },
    CostRow {
        name: "service_d1_misses",
        what: "misses of the data cache that it adds",
        unit: "misses",
        tolerance: 0.35,
    },
];

/// The number of requests that the service answers in the first run, and in the second.
const REQUESTS: (u64, u64) = (300, 3_300);
/// The number of rounds.
const ROUNDS: usize = 3;

/// Builds the service, and counts.
pub(crate) fn count(workspace: &Workspace, folder: &Path) -> Result<[f64; ROWS.len()]> {
    // Under valgrind, rustix works only through the C library.
    let build = ["build", "--release", "--locked", "-p", "service", "--bin", "service"];
    let through_libc = ["-p", "nettrace-writer", "--features", "rustix/use-libc"];
    Step::cargo().args(build).args(through_libc).run()?;
    let program = workspace.target.join("release/service");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let without = each(&program, folder, "none")?;
        let with = each(&program, folder, "nettrace")?;
        rounds.push(std::array::from_fn(|at| with[at] - without[at]));
    }
    Ok(medians(&rounds))
}

fn medians(rounds: &[[f64; ROWS.len()]]) -> [f64; ROWS.len()] {
    std::array::from_fn(|at| {
        let mut all: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    })
}

/// The cost of a request.
fn each(program: &Path, folder: &Path, way: &str) -> Result<[f64; ROWS.len()]> {
    let few = run(program, folder, way, REQUESTS.0)?;
    let many = run(program, folder, way, REQUESTS.1)?;
    let times = (REQUESTS.1 - REQUESTS.0) as f64;
    Ok(std::array::from_fn(|at| (many[at] as f64 - few[at] as f64) / times))
}

/// Runs the service once under cachegrind. The counters of the service have a time for their
/// values, not a number of requests, so it records none.
fn run(program: &Path, folder: &Path, way: &str, requests: u64) -> Result<[u64; ROWS.len()]> {
    let out = folder.join("service.cachegrind");
    Step::new("valgrind")
        .args(["--tool=cachegrind", "--quiet", "--cache-sim=yes"])
        .args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .args(["--tracing", way, "--load", &requests.to_string(), "--counters", "0"])
        .args(["--overwrite", "--out"])
        .arg(folder.join("service.trace"))
        .read()?;
    parse(&workspace::read(&out)?)
        .with_context(|| format!("valgrind wrote no summary in {}", out.display()))
}

/// Reads what cachegrind writes: instructions, and misses of the two caches.
fn parse(text: &str) -> Option<[u64; ROWS.len()]> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let events: Vec<_> = line("events: ")?.split_whitespace().collect();
    let summary: Vec<_> = line("summary: ")?.split_whitespace().collect();
    let of = |event: &str| {
        let at = events.iter().position(|name| *name == event)?;
        summary.get(at)?.parse::<u64>().ok()
    };
    Some([of("Ir")?, of("I1mr")?, of("D1mr")? + of("D1mw")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_cachegrind_writes_them() {
        let text = "\
desc: I1 cache:         32768 B, 64 B, 8-way associative
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
fl=main.rs
fn=main
12 1 1 1 1 1 1 1 1 1
summary: 500 40 3 100 20 2 50 7 1
";
        assert_eq!(parse(text), Some([500, 40, 27]));
        assert_eq!(parse("events: Ir\nsummary: 500\n"), None, "without a simulation of caches");
    }

    #[test]
    fn one_round_is_no_measure() {
        assert_eq!(medians(&[[9.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 9.0, 1.0]]), [2.0, 2.0, 2.0]);
    }
}
