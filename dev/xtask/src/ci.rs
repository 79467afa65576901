//! The lanes of CI. They run in order and are timed, until one fails.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use xtask::{step::Tally, workspace::Workspace};

use crate::{interface, lanes, layers, mutants, packages, parallel_lanes::ParallelLanes, seam};

/// One thing that CI checks.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The thing to check.
    pub(crate) what: &'static str,
    /// Runs it, and adds the tests that it ran for the first time to the tally.
    pub(crate) run: fn(&Workspace, &mut Tally) -> Result<()>,
    /// The index of its row. The lanes of a row run one after the other, and the rows beside each
    /// other, from the first lane that is not in row 0.
    pub(crate) row: usize,
}

const fn lane_of(
    name: &'static str,
    what: &'static str,
    run: fn(&Workspace, &mut Tally) -> Result<()>,
) -> Lane {
    Lane { name, what, run, row: 0 }
}

const fn in_row(row: usize, lane: Lane) -> Lane {
    Lane { row, ..lane }
}

/// The number of rows. Most tests wait more than they compute, and most builds wait for their last
/// crate. So one row for each of two processors would leave both idle for minutes.
const ROWS: usize = 3;

/// Every lane, those that fail fastest first. Lanes that measure come before other rows begin.
/// Lanes that unpack the oldest compiler are in one row.
pub(crate) const LANES: &[Lane] = &[
    lane_of("fmt", "every file is formatted, no line is too long", lanes::fmt),
    lane_of("clippy", "no lint fires, with and without features", lanes::clippy),
    lane_of("seam", "atomics and threads are named in the seams only", seam::run),
    lane_of("layers", "no top-level modules import each other", layers::run),
    lane_of("doc", "the documentation builds without a warning", lanes::doc),
    lane_of("interface", "no public interface has changed unseen", interface::run),
    lane_of("kills", "a killed program leaves a complete file", lanes::kills),
    lane_of("instructions", "no event takes more instructions than before", lanes::instructions),
    in_row(1, lane_of("msrv", "the oldest promised compiler takes it", lanes::msrv)),
    in_row(1, lane_of("aarch64", "threads, signals, clocks work on AArch64", lanes::aarch64)),
    in_row(1, lane_of("windows", "it compiles for Windows", lanes::windows)),
    in_row(1, lane_of("macos", "it compiles for macOS", lanes::macos)),
    in_row(1, lane_of("weight", "no event brings more code than before", lanes::weight)),
    in_row(1, lane_of("unstable", "values of `valuable` are recorded", lanes::unstable)),
    in_row(2, lane_of("loom", "the models of the writer's threads hold", lanes::loom)),
    in_row(2, lane_of("mutants", "a test fails when a safeguard is taken out", mutants::run)),
    in_row(2, lane_of("fuzz-smoke", "every fuzz target survives 10 s", lanes::fuzz_smoke)),
    in_row(2, lane_of("vm", "the live tests pass in a kernel with user_events", lanes::vm)),
    lane_of("test", "the tests pass, with every feature", lanes::test),
    lane_of("slow", "tests that take long pass, in full", lanes::slow),
    lane_of("judge", "the reference readers agree still", lanes::judge),
    lane_of("accounting", "40 starved runs lose no count", lanes::accounting),
    lane_of("bench-smoke", "every benchmark runs once", lanes::bench_smoke),
    lane_of("package", "packages build from archives", packages::package),
    lane_of("deny", "licences and sources are allowed", packages::dependencies),
    lane_of("peers", "the comparison with peers builds", lanes::peers),
];

/// Runs the lanes called `names`, or all lanes. The last line that it prints counts the tests.
///
/// What has failed is the last thing that it shows before the times of all lanes.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let chosen = choose(names)?;
    let (here, others) = rows(&chosen);
    // How many lanes come before the first one of another row.
    let alone = match chosen.iter().position(|lane| lane.row > 0) {
        Some(first) if !others.is_empty() => first,
        _ => here.len(),
    };
    let mut tally = Tally::default();
    let mut times = Vec::new();
    let mut outcome = Ok(());
    let mut started = Vec::new();
    for (position, lane) in here.iter().enumerate() {
        if position == alone {
            started = start(workspace, &others)?;
        }
        println!("\n=== {}: {}", lane.name, lane.what);
        let start = Instant::now();
        outcome = (lane.run)(workspace, &mut tally);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("=== {}: {word} after {}", lane.name, seconds(start.elapsed()));
        times.push((lane.name.to_owned(), word, start.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    if outcome.is_ok() && started.is_empty() {
        started = start(workspace, &others)?;
    }
    if outcome.is_err() {
        started.into_iter().for_each(ParallelLanes::stop);
    } else {
        let mut done = started.into_iter().map(ParallelLanes::wait).collect::<Result<Vec<_>>>()?;
        done.sort_by_key(|row| !row.has_passed);
        for row in done {
            println!("\n=== beside others: {}", row.names);
            print!("{}", row.text);
            tally += row.tally;
            times.push((row.names, if row.has_passed { "beside" } else { "FAILED" }, row.time));
            if !row.has_passed {
                outcome = Err(anyhow!("a lane beside others failed; its output is above"));
            }
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

fn start(workspace: &Workspace, rows: &[Vec<&'static Lane>]) -> Result<Vec<ParallelLanes>> {
    rows.iter().map(|row| ParallelLanes::start(workspace, row)).collect()
}

/// The lanes that run here, and the rows that run beside them. Lanes of a single row run here.
fn rows(chosen: &[&'static Lane]) -> (Vec<&'static Lane>, Vec<Vec<&'static Lane>>) {
    let row = |row| chosen.iter().copied().filter(|lane| lane.row == row).collect::<Vec<_>>();
    let here = row(0);
    let mut others: Vec<_> = (1..ROWS).map(row).filter(|lanes| !lanes.is_empty()).collect();
    if here.is_empty() && others.len() == 1 { (others.remove(0), others) } else { (here, others) }
}

/// The lane called `name`.
pub(crate) fn lane(name: &str) -> Option<&'static Lane> {
    LANES.iter().find(|lane| lane.name == name)
}

fn choose(names: &[&str]) -> Result<Vec<&'static Lane>> {
    if names.is_empty() {
        return Ok(LANES.iter().collect());
    }
    let unknown = |name| format!("no lane is called `{name}`; `cargo xtask help` lists them");
    names.iter().map(|name| lane(name).with_context(|| unknown(name))).collect()
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
        assert!(choose(&["dco"]).unwrap_err().to_string().contains("`dco`"));
    }

    #[test]
    fn every_lane_is_in_a_row() {
        let all = choose(&[]).unwrap();
        let (ahead, others) = rows(&all);
        assert_eq!(others.len(), ROWS - 1);
        assert_eq!(ahead.len() + others.iter().map(Vec::len).sum::<usize>(), LANES.len());
        let (ahead, others) = rows(&choose(&["msrv", "windows"]).unwrap());
        assert_eq!((ahead.len(), others.len()), (2, 0), "a row that is alone");
        let (ahead, others) = rows(&choose(&["vm", "msrv", "loom"]).unwrap());
        let names: Vec<Vec<_>> =
            others.iter().map(|row| row.iter().map(|lane| lane.name).collect()).collect();
        assert!(ahead.is_empty());
        assert_eq!(names, [&["msrv"][..], &["vm", "loom"]], "in the order given");
    }

    #[test]
    fn lane_names_are_unique() {
        for (index, lane) in LANES.iter().enumerate() {
            assert!(LANES[..index].iter().all(|other| other.name != lane.name), "{}", lane.name);
        }
    }
}
