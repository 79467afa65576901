//! Runs the benchmarks, and collects their results.
//!
//! A benchmark measures its subject beside a floor or a peer in the same run, and decides itself
//! how often. It prints a line `ratio NAME VALUE` for each result.
//!
//! Some benchmarks run once more with a feature ([`FEATURED`]), to show what it costs merely to
//! compile the feature in. The lines `instruction …` of both runs must be the same.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use xtask::{step::Step, workspace::Workspace};

/// The benchmark by criterion. It compares two states of the code, so one state has no result.
const COMPARISON: &str = "emit";

/// Benchmarks that run once more: the benchmark, the feature, and which scenarios run with it.
const FEATURED: [(&str, &str, &str); 2] =
    [("paired", "user_events", "two_u64"), ("hot_path", "user_events", "hot_path")];

/// Runs every benchmark of package `benches`. `filter` names parts of the scenarios to run.
pub(crate) fn run(workspace: &Workspace, filter: &[&str]) -> Result<()> {
    let package = workspace.packages.iter().find(|package| package.name == "benches");
    let benches = package.map(|package| package.benches.as_slice()).unwrap_or_default();
    let mut ratios = BTreeMap::new();
    let mut instructions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let usual = benches.iter().map(|bench| (bench.as_str(), None));
    let featured = FEATURED.iter().filter(|(bench, ..)| benches.iter().any(|name| name == bench));
    let featured = featured.map(|&(bench, feature, part)| (bench, Some((feature, part))));
    for (bench, feature) in usual.filter(|(bench, _)| *bench != COMPARISON).chain(featured) {
        let mut step = Step::cargo().args(["bench", "-p", "benches", "--locked", "--bench", bench]);
        if let Some((feature, _)) = feature {
            step = step.args(["--features", feature]);
        }
        step = match feature {
            Some((_, part)) if filter.is_empty() => step.args(["--", part]),
            _ => step.arg("--").args(filter),
        };
        let mut seen = Vec::new();
        step.watch(|line| {
            ratios.extend(printed_ratio(line));
            seen.extend(line.strip_prefix("instruction ").map(str::to_owned));
        })?;
        let Some((feature, _)) = feature else {
            instructions.insert(bench, seen);
            continue;
        };
        let without = instructions.get(bench).map(Vec::as_slice).unwrap_or_default();
        if !without.is_empty() || !seen.is_empty() {
            let changed = changed(without, &seen);
            println!("{bench}: {feature} changes {changed} of {} instructions", seen.len());
            ratios.insert(format!("{bench}_changed_by_{feature}"), changed as f64);
        }
    }

    ensure!(!ratios.is_empty(), "no benchmark has a result");
    println!();
    for (name, ratio) in &ratios {
        println!("{name:<40} {ratio:>9.3}");
    }
    let object: Map<String, Value> =
        ratios.into_iter().map(|(name, ratio)| (name, json!(thousandths(ratio)))).collect();
    println!("{}", Value::Object(object));
    Ok(())
}

/// The number of lines that differ. A line that only one of them has counts as well.
fn changed(one: &[String], other: &[String]) -> usize {
    let pairs = one.iter().zip(other).filter(|(one, other)| one != other).count();
    pairs + one.len().abs_diff(other.len())
}

/// The name and value of a line `ratio NAME VALUE`.
fn printed_ratio(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("ratio ")?.split_whitespace();
    let (name, value) = (words.next()?, words.next()?.parse().ok()?);
    (words.next().is_none() && f64::is_finite(value)).then(|| (name.to_owned(), value))
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_differ_are_counted() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(changed(&lines("a b c"), &lines("a b c")), 0);
        assert_eq!(changed(&lines("a b c"), &lines("a x c d")), 2);
        assert_eq!(changed(&lines("a b c"), &lines("a")), 2);
    }

    #[test]
    fn printed_ratios_are_taken_and_nothing_else() {
        assert_eq!(printed_ratio("ratio file_tmpfs 0.93"), Some(("file_tmpfs".into(), 0.93)));
        for line in ["ratio a", "ratio a b", "ratio a 1 2", "ratio a inf", "the ratio a 1.0"] {
            assert_eq!(printed_ratio(line), None, "{line}");
        }
    }
}
