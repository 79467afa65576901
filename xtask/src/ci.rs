//! The lanes of CI. They run in order and are timed, until one fails.

use std::time::{Duration, Instant};

use crate::{
    beside::Beside,
    error::{Error, Result},
    instructions, lanes, mutants, packages, seam,
    step::Tally,
    vm,
    workspace::Workspace,
};

/// One thing that CI checks.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it checks.
    pub(crate) what: &'static str,
    /// Runs it, and adds the tests that it ran for the first time to the tally.
    pub(crate) run: fn(&Workspace, &mut Tally) -> Result<()>,
    /// Whether it runs beside the lanes that follow it, because it measures nothing and keeps no
    /// processor busy for long.
    pub(crate) beside: bool,
}

const fn lane_of(
    name: &'static str,
    what: &'static str,
    run: fn(&Workspace, &mut Tally) -> Result<()>,
) -> Lane {
    Lane { name, what, run, beside: false }
}

const fn beside(lane: Lane) -> Lane {
    Lane { beside: true, ..lane }
}

/// Every lane, those that fail fastest first. Lanes that measure times come before lanes that run
/// beside others.
pub(crate) const LANES: &[Lane] = &[
    lane_of("fmt", "every file is formatted, no line is too long", lanes::fmt),
    lane_of("clippy", "no lint fires, with and without features", lanes::clippy),
    lane_of("seam", "atomics and threads are named in the seams only", seam::run),
    lane_of("doc", "the documentation builds without a warning", lanes::doc),
    lane_of("kills", "a killed program leaves a complete file", lanes::kills),
    lane_of("instructions", "no event takes more instructions than before", instructions::run),
    beside(lane_of("msrv", "the oldest promised compiler builds and runs it", lanes::msrv)),
    beside(lane_of("aarch64", "threads, signals and clocks work on AArch64", lanes::aarch64)),
    beside(lane_of("vm", "the live tests pass in a kernel with user_events", vm::run)),
    beside(lane_of("fuzz-smoke", "every fuzz target survives 10 s", lanes::fuzz_smoke)),
    lane_of("test", "the tests pass, with every feature", lanes::test),
    lane_of("accounting", "40 starved runs lose no count", lanes::accounting),
    lane_of("loom", "the models of the writer's threads hold", lanes::loom),
    lane_of("mutants", "a test fails when a safeguard is taken out", mutants::run),
    lane_of("bench-smoke", "every benchmark runs once", lanes::bench_smoke),
    lane_of("package", "packages build from archives", packages::package),
    lane_of("deny", "licences and sources are allowed", packages::dependencies),
    lane_of("peers", "the comparison with peers builds", lanes::peers),
    lane_of("windows", "it compiles for Windows", lanes::windows),
];

/// Runs the lanes called `names`, or all lanes. The last line that it prints counts the tests.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let chosen = choose(names)?;
    let (beside, ahead): (Vec<&Lane>, Vec<&Lane>) =
        chosen.iter().partition(|lane| lane.beside && chosen.len() > 1);
    // How many lanes come before the first one that runs beside others.
    let alone = match beside.first() {
        Some(first) => chosen.iter().position(|lane| lane.name == first.name).unwrap_or(0),
        None => ahead.len(),
    };

    let mut tally = Tally::default();
    let mut times = Vec::new();
    let mut outcome = Ok(());
    let mut others = None;
    for (position, lane) in ahead.iter().enumerate() {
        if position == alone {
            others = Some(Beside::start(workspace, &beside)?);
        }
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
    if outcome.is_ok() && others.is_none() && !beside.is_empty() {
        others = Some(Beside::start(workspace, &beside)?);
    }
    if let Some(others) = others {
        for done in others.wait(outcome.is_err()) {
            print!("{}", done.text);
            let word = if done.outcome.is_ok() { "ok, beside others," } else { "FAILED" };
            println!("=== {}: {word} after {}", done.name, seconds(done.time));
            times.push((
                done.name,
                if done.outcome.is_ok() { "beside" } else { "FAILED" },
                done.time,
            ));
            tally += done.tally;
            outcome = outcome.and(done.outcome);
        }
    }

    println!();
    for (name, word, time) in times {
        println!("{name:<12} {word:<6} {:>9}", seconds(time));
    }
    // This is the last line. It is left out if the lanes have no tests, such as `fmt` alone.
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
