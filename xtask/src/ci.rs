//! The lanes of CI and how they are run: in order, timed, until one fails.

use std::time::{Duration, Instant};

use crate::{
    error::{Error, Result},
    lanes, mutants, seam,
    step::Tally,
    vm,
    workspace::Workspace,
};

/// One thing that CI checks.
#[derive(Debug)]
pub(crate) struct Lane {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it makes sure of.
    pub(crate) what: &'static str,
    /// Runs it; adds the tests that it ran for the first time.
    pub(crate) run: fn(&Workspace, &mut Tally) -> Result<()>,
}

/// Every lane, the quickest to fail first.
pub(crate) const LANES: &[Lane] = &[
    Lane { name: "fmt", what: "every file is formatted", run: lanes::fmt },
    Lane { name: "clippy", what: "no lint fires, with and without features", run: lanes::clippy },
    Lane { name: "seam", what: "atomics and threads are named in the seams only", run: seam::run },
    Lane { name: "doc", what: "the documentation builds without a warning", run: lanes::doc },
    Lane { name: "test", what: "the tests pass, as the README runs them", run: lanes::test },
    Lane { name: "features", what: "they pass with every feature too", run: lanes::features },
    Lane { name: "judge", what: "the reference reader agrees, where it is", run: lanes::judge },
    Lane { name: "accounting", what: "40 starved runs lose no count", run: lanes::accounting },
    Lane { name: "kills", what: "a killed program leaves a complete file", run: lanes::kills },
    Lane { name: "loom", what: "the models of the writer's threads hold", run: lanes::loom },
    Lane { name: "mutants", what: "a test fails when a safeguard is taken out", run: mutants::run },
    Lane { name: "bench-smoke", what: "every benchmark runs once", run: lanes::bench_smoke },
    Lane { name: "peers", what: "the comparison with peers builds", run: lanes::peers },
    Lane { name: "msrv", what: "the oldest promised compiler builds it", run: lanes::msrv },
    Lane { name: "windows", what: "it compiles for Windows", run: lanes::windows },
    Lane { name: "vm", what: "the live tests pass in a kernel with user_events", run: vm::run },
    Lane { name: "fuzz-smoke", what: "every fuzz target survives 20 s", run: lanes::fuzz_smoke },
];

/// Runs the lanes called `names`, or all; the last line printed counts the tests.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let chosen = choose(names)?;
    let mut tally = Tally::default();
    let mut times = Vec::new();
    let mut outcome = Ok(());
    for lane in chosen {
        println!("\n=== {}: {}", lane.name, lane.what);
        let start = Instant::now();
        outcome = (lane.run)(workspace, &mut tally);
        let time = start.elapsed();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("=== {}: {word} after {}", lane.name, seconds(time));
        times.push((lane.name, word, time));
        if outcome.is_err() {
            break;
        }
    }

    println!();
    for (name, word, time) in times {
        println!("{name:<12} {word:<6} {:>9}", seconds(time));
    }
    // The last line, where there were tests: a run of `fmt` alone has none to count.
    if tally != Tally::default() || names.is_empty() {
        println!("\n{tally}");
    }
    outcome
}

/// The lane called `name`.
pub(crate) fn lane(name: &str) -> Option<&'static Lane> {
    LANES.iter().find(|lane| lane.name == name)
}

fn choose(names: &[&str]) -> Result<Vec<&'static Lane>> {
    if names.is_empty() {
        return Ok(LANES.iter().collect());
    }
    let find = |name: &&str| lane(name).ok_or_else(|| Error::UnknownLane((*name).to_owned()));
    names.iter().map(find).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_chosen_by_name_and_in_the_order_given() {
        let names: Vec<_> = choose(&["doc", "fmt"]).unwrap().iter().map(|lane| lane.name).collect();
        assert_eq!(names, ["doc", "fmt"]);
        assert_eq!(choose(&[]).unwrap().len(), LANES.len());
        assert!(matches!(choose(&["dco"]), Err(Error::UnknownLane(name)) if name == "dco"));
    }

    #[test]
    fn lane_names_are_unique() {
        for (index, lane) in LANES.iter().enumerate() {
            assert!(LANES[..index].iter().all(|other| other.name != lane.name), "{}", lane.name);
        }
    }
}
