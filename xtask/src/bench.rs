//! Runs the benchmarks, and compares each with its floor.
//!
//! The conventions of the benchmarks:
//!
//! - A criterion group is a scenario. Its function `floor` does the least work that any recorder
//!   must do. The ratio of another function is its median divided by that of the floor in the same
//!   run. The ratio of `nettrace` is named after the group, that of another function
//!   `group/function`.
//! - Criterion's benchmarks run three times, because other programs load the machine to varying
//!   degrees. The result is the median of the three ratios.
//! - Criterion cannot measure throughput of the whole path, bytes or memory. A `[[bench]]` target
//!   with `harness = false` can, and prints a line `ratio NAME VALUE` for each result. It gets
//!   criterion's options on its command line and ignores them.
//! - Some benchmarks run once more with a feature ([`FEATURED`]), to show what it costs merely to
//!   compile the feature in. The lines `instruction …` of both runs must be the same.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    step::Step,
    workspace::{Workspace, paths_in},
};

/// Options of every run, so that runs can be compared.
const OPTIONS: [&str; 6] = [
    "--warm-up-time=1",
    "--measurement-time=3",
    "--sample-size=60",
    "--nresamples=20000",
    "--noplot",
    "--color=never",
];

/// Benchmarks that run once more: the benchmark, the feature, and which scenarios run with it.
const FEATURED: [(&str, &str, &str); 2] =
    [("emit", "user_events", "two_u64"), ("hot_path", "user_events", "hot_path")];

/// How often criterion's benchmarks run.
const RUNS: usize = 3;

/// The medians of one run by group and function, in nanoseconds an iteration.
type Scenarios = BTreeMap<String, BTreeMap<String, f64>>;

/// Runs every benchmark of package `benches`; `filter` is passed on to criterion.
pub(crate) fn run(workspace: &Workspace, filter: &[&str]) -> Result<()> {
    let package = workspace.packages.iter().find(|package| package.name == "benches");
    let benches = package.map(|package| package.benches.as_slice()).unwrap_or_default();
    if benches.is_empty() {
        return Err(Error::Nothing("package `benches` has no benchmark".into()));
    }

    // Each run has its own folder, emptied first, so that old results do not pass for new ones.
    let home = workspace.target.join("xtask-bench");
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|source| Error::File { path: home.clone(), source })?;
    }
    let mut printed = BTreeMap::new();
    let mut runs = Vec::new();
    let mut instructions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let usual = benches.iter().map(|bench| (bench.as_str(), None));
    let featured = FEATURED.iter().filter(|(bench, ..)| benches.iter().any(|name| name == bench));
    let featured = featured.map(|&(bench, feature, part)| (bench, Some((feature, part))));
    for (bench, feature) in usual.chain(featured) {
        let mut seen = Vec::new();
        for number in 1..=RUNS {
            let results =
                home.join(format!("{bench}{}-{number}", feature.map_or("", |(name, _)| name)));
            let before = printed.len() + seen.len();
            let mut step =
                Step::cargo().args(["bench", "-p", "benches", "--locked", "--bench", bench]);
            if let Some((feature, _)) = feature {
                step = step.args(["--features", feature]);
            }
            step = step.arg("--").args(OPTIONS).env("CRITERION_HOME", &results);
            step = match feature {
                Some((_, part)) if filter.is_empty() => step.arg(part),
                _ => step.args(filter),
            };
            step.watch(|line| {
                printed.extend(printed_ratio(line));
                seen.extend(line.strip_prefix("instruction ").map(str::to_owned));
            })?;
            runs.push(scenarios(&results)?);
            if printed.len() + seen.len() > before {
                // This is not one of criterion's, so it decides itself how often to measure.
                break;
            }
        }
        let Some((feature, _)) = feature else {
            instructions.insert(bench, seen);
            continue;
        };
        let without = instructions.get(bench).map(Vec::as_slice).unwrap_or_default();
        if !without.is_empty() || !seen.is_empty() {
            let changed = changed(without, &seen);
            println!("{bench}: {feature} changes {changed} of {} instructions", seen.len());
            printed.insert(format!("{bench}_changed_by_{feature}"), changed as f64);
        }
    }

    let mut ratios = printed;
    println!("\n{:<40} {:>9} {:>9} {:>7}  of all runs", "scenario", "floor ns", "ns", "ratio");
    for (name, rows) in by_name(&runs) {
        let Row { floor, time } = rows[rows.len() / 2];
        let (low, high) = (rows[0].ratio(), rows[rows.len() - 1].ratio());
        let ratio = time / floor;
        println!("{name:<40} {floor:>9.2} {time:>9.2} {ratio:>7.3}  {low:.3} to {high:.3}");
        ratios.insert(name, ratio);
    }
    if ratios.is_empty() {
        return Err(Error::Nothing("no benchmark has a floor beside it".into()));
    }
    let object: Map<String, Value> =
        ratios.into_iter().map(|(name, ratio)| (name, json!(thousandths(ratio)))).collect();
    println!("{}", Value::Object(object));
    Ok(())
}

/// The median of a function, and that of the floor in the same run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    floor: f64,
    time: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.time / self.floor
    }
}

/// How many lines differ. A line that only one of them has counts as well.
fn changed(one: &[String], other: &[String]) -> usize {
    let pairs = one.iter().zip(other).filter(|(one, other)| one != other).count();
    pairs + one.len().abs_diff(other.len())
}

/// Reads every result below criterion's folder, `<group>/<function>/new/estimates.json`. The names
/// come from `benchmark.json` beside it, because the names of folders are shortened.
fn scenarios(home: &Path) -> Result<Scenarios> {
    let mut scenarios = Scenarios::new();
    for group in paths_in(home)? {
        if !group.is_dir() {
            continue;
        }
        for function in paths_in(&group)?.iter().map(|path| path.join("new")) {
            if !function.join("estimates.json").exists() {
                continue;
            }
            let names = read(&function.join("benchmark.json"))?;
            let estimates = read(&function.join("estimates.json"))?;
            let text = |name: &str| names[name].as_str().map(str::to_owned);
            let (Some(group), Some(function), Some(median)) = (
                text("group_id"),
                text("function_id"),
                estimates["median"]["point_estimate"].as_f64(),
            ) else {
                continue;
            };
            scenarios.entry(group).or_default().insert(function, median);
        }
    }
    Ok(scenarios)
}

fn read(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| Error::Results { path: path.to_owned(), source })
}

/// All runs of each function whose group has a floor, from the lowest ratio to the highest.
fn by_name(runs: &[Scenarios]) -> BTreeMap<String, Vec<Row>> {
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (group, functions) in runs.iter().flatten() {
        let Some(&floor) = functions.get("floor").filter(|&&floor| floor > 0.0) else {
            println!("{group}: no floor beside it, so no ratio");
            continue;
        };
        for (function, &time) in functions.iter().filter(|(name, _)| *name != "floor") {
            let name = match function.as_str() {
                "nettrace" => group.clone(),
                other => format!("{group}/{other}"),
            };
            rows.entry(name).or_default().push(Row { floor, time });
        }
    }
    for runs in rows.values_mut() {
        runs.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    }
    rows
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
    fn results_are_read_as_criterion_writes_them() {
        let home = std::env::temp_dir().join(format!("xtask-bench-{}", std::process::id()));
        for (folder, function, median) in [
            ("floor", "floor", 8.0),
            ("nettrace", "nettrace", 10.0),
            ("lock_free", "lock/free", 16.0),
        ] {
            let new = home.join("two_u64").join(folder).join("new");
            fs::create_dir_all(&new).unwrap();
            let names = json!({ "group_id": "two u64", "function_id": function });
            let estimates = json!({ "mean": { "point_estimate": 99.0 },
                                    "median": { "point_estimate": median } });
            fs::write(new.join("benchmark.json"), names.to_string()).unwrap();
            fs::write(new.join("estimates.json"), estimates.to_string()).unwrap();
        }
        fs::create_dir_all(home.join("report")).unwrap();
        let found = scenarios(&home);
        fs::remove_dir_all(&home).unwrap();

        let found = by_name(&[found.unwrap()]);
        assert_eq!(found["two u64"], [Row { floor: 8.0, time: 10.0 }]);
        assert_eq!(found["two u64/lock/free"], [Row { floor: 8.0, time: 16.0 }]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn runs_stand_in_the_order_of_their_ratios() {
        let run = |floor, time| {
            let functions = [("floor".into(), floor), ("nettrace".into(), time)];
            Scenarios::from([("a".into(), BTreeMap::from(functions))])
        };
        let found = by_name(&[run(10.0, 20.0), run(10.0, 11.0), run(20.0, 24.0)]);
        let ratios: Vec<_> = found["a"].iter().map(Row::ratio).collect();
        assert_eq!(ratios, [1.1, 1.2, 2.0]);
    }

    #[test]
    fn instructions_that_differ_are_counted() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(changed(&lines("a b c"), &lines("a b c")), 0);
        assert_eq!(changed(&lines("a b c"), &lines("a x c d")), 2);
        assert_eq!(changed(&lines("a b c"), &lines("a")), 2);
    }

    #[test]
    fn a_scenario_without_floor_has_no_ratio() {
        let lone = Scenarios::from([("a".into(), BTreeMap::from([("nettrace".into(), 1.0)]))]);
        assert!(by_name(&[lone]).is_empty());
    }

    #[test]
    fn printed_ratios_are_taken_and_nothing_else() {
        assert_eq!(printed_ratio("ratio file_tmpfs 0.93"), Some(("file_tmpfs".into(), 0.93)));
        for line in ["ratio a", "ratio a b", "ratio a 1 2", "ratio a inf", "the ratio a 1.0"] {
            assert_eq!(printed_ratio(line), None, "{line}");
        }
    }
}
