//! Counts instructions by callgrind: what an event takes does not depend on the machine then.
//!
//! The program `instructions` of package `benches` does one thing as often as it is told. It runs
//! twice, and the difference of the two counts, divided by the difference of the numbers, is what
//! one time takes. That includes the loop, and all that the flusher does for the event.
//!
//! Only what user mode executes counts: the system's calls and page faults do not. A reading of the
//! processor's counter counts as one instruction, however long it takes. Valgrind shows programs a
//! processor without AVX-512, so the C library's copies are the same everywhere.
//!
//! The last rows are of the example service, see [`request`].
//!
//! The file `benches/instructions.json` has a bound for each row.
//!
//! One function is off the usual way: [`UNUSUAL`], for a machine that refuses `membarrier`. A
//! machine that refuses so much that more than [`MOST_UNUSUAL`] of the events take it has no counts
//! to compare.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use xtask::{
    step::Step,
    workspace::{Workspace, paths_in, read, remove_folder},
};

use crate::{
    bounds::{Bounds, Verdict, conclude, is_known_machine, shown},
    request,
};

/// A thing to count.
struct CostRow {
    /// The program's argument.
    name: &'static str,
    what: &'static str,
    /// The number of times the program does it in the first run, and in the second.
    times: (u64, u64),
    /// The number of events of one type. 0: events of several types, or with other reasons to be
    /// off the usual way.
    events: u64,
    /// By which part of its bound the count may differ from it.
    tolerance: f64,
}

const ROWS: [CostRow; 34] = [
    row("floor", "the floor: counter, 24 bytes into a ring", 1),
    row("two_u64", "an event of two `u64`", 1),
    row("other_type", "two events, each of another type than the one before", 2),
    row("string_16", "an event of a text of 16 bytes", 1),
    row("traced", "a `#[traced]` call: Start and Stop", 0),
    row("traced_u64", "a `#[traced]` call with a `u64`: Start and Stop", 0),
    row("single", "the same with `mode = single`: one event", 0),
    row("traced_future", "the same of an async function, polled once: Start and Stop", 0),
    row("single_future", "the same with `mode = single`: one event", 0),
    row("traced_poll", "each further poll of an async call", 0),
    row("sampled_out_root", "a `#[traced]` call that decides against its trace", 0),
    row("sampled_out_call", "a `#[traced]` call inside of such a trace", 0),
    row("sampled_out_future", "an async call of one poll inside of such a trace", 0),
    row("sampled_out_poll", "each further poll of an async call inside of such a trace", 0),
    row("sampled_out_event", "an event inside of such a trace", 0),
    CostRow { times: (3_000, 9_000), ..row("labels", "two labels, two events, leave", 0) },
    row("tracing_event", "an event of `tracing`: two `u64`, a message", 0),
    row("tracing_fields", "an event of `tracing`: two `u64`", 0),
    row("tracing_span", "a span of `tracing`: two `u64`, entered once", 0),
    row("disabled_emit", "`emit` while nobody listens", 0),
    row("disabled_emit_with", "`emit_with` while nobody listens", 0),
    row("disabled_labels", "`enter_labels` while nobody listens, and leave", 0),
    row("disabled_traced", "a `#[traced]` call while nobody listens", 0),
    requests("bare_request", "a request without a layer: what the next rows have in common"),
    requests("server_request", "a request through `ServerLayer`: Start and Stop"),
    requests("client_request", "a request through `ClientLayer`: Start and Stop"),
    requests("sampled_out_server", "a request through `ServerLayer` that is sampled out"),
    requests("sampled_out_client", "a request through `ClientLayer` inside of such a trace"),
    requests("disabled_server", "a request through `ServerLayer` while nobody listens"),
    requests("disabled_client", "a request through `ClientLayer` while nobody listens"),
    row("tracepoint", "a tracepoint's event of five numbers and a text, to `write`", 0),
    row("counter_add", "`add` of a counter, which nobody reads", 0),
    row("histogram_record", "`record` of a histogram, which nobody reads", 0),
    // What happens once counts too, and how many rounds the flusher has meanwhile.
    CostRow {
        times: (0, 10_000),
        tolerance: 0.1,
        ..row("first_10000", "each of a process's first 10,000 events", 1)
    },
];

const fn row(name: &'static str, what: &'static str, events: u64) -> CostRow {
    CostRow { name, what, times: (100_000, 300_000), events, tolerance: 0.02 }
}

/// A row that takes long, and has few surprises.
const fn requests(name: &'static str, what: &'static str) -> CostRow {
    CostRow { times: (10_000, 30_000), ..row(name, what, 0) }
}

/// The file of bounds, in the workspace.
const BOUNDS: &str = "benches/instructions.json";

/// By how many instructions a count may differ from its bound, however small that is.
const MOST_ONCE: f64 = 0.6;

/// The function for records whose owner executes fences or reads the monotonic clock.
const UNUSUAL: &str = "record_unusually";
/// The share of events that may take it.
const MOST_UNUSUAL: f64 = 0.02;

fn names() -> Vec<&'static str> {
    let of_request = request::ROWS.iter().map(|row| row.name);
    ROWS.iter().map(|row| row.name).chain(of_request).collect()
}

/// Counts every row, and compares it with its bound.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    if !is_known_machine() {
        return Ok(());
    }
    if Step::new("valgrind").arg("--version").quiet().read().is_err() {
        println!("skipped: no valgrind; `apt-get install valgrind`");
        return Ok(());
    }
    let bounds = Bounds::read(&workspace.root.join(BOUNDS), &names())?;
    let build = ["build", "--release", "--locked", "-p", "benches", "--bin", "instructions"];
    Step::cargo().args(build).run()?;
    let program = workspace.target.join("release/instructions");
    let folder = workspace.target.join("instructions");
    remove_folder(&folder)?;
    fs::create_dir_all(&folder)?;

    let comparable = bounds.are_comparable()?;
    println!("\n{:<20} {:>12} {:>11} {:>9}  what", "row", "instructions", "of flusher", "bound");
    let mut verdicts = Vec::new();
    let mut is_unusual = false;
    for row in &ROWS {
        let few = count(&program, &folder, row, row.times.0)?;
        let many = count(&program, &folder, row, row.times.1)?;
        let (each, flusher) = each(row, &few, &many);
        let bound = bounds.rows.get(row.name).copied();
        let shown = shown(bound);
        println!("{:<20} {each:>12.1} {flusher:>11.1} {shown:>9}  {}", row.name, row.what);
        let events = row.events * (row.times.1 - row.times.0);
        let unusual = many.unusual.saturating_sub(few.unusual);
        if unusual as f64 > events as f64 * MOST_UNUSUAL && events > 0 {
            is_unusual = true;
            println!(
                "{}: {unusual} of {events} events took `{UNUSUAL}`, because this machine \
                 refuses `membarrier`; this row and those below are not compared",
                row.name
            );
        }
        if comparable && !is_unusual {
            // The two runs differ in what happens once, too: how many corners the lines of the
            // clock's readings have. That is less than an instruction each time.
            let once = bound.map_or(0.0, |bound| MOST_ONCE / bound);
            verdicts.push((row.name, Verdict::of(each, bound, row.tolerance.max(once))));
        }
    }
    let requests = request::count(workspace, &folder)?;
    let mut of_request = Vec::new();
    for (each, row) in requests.into_iter().zip(&request::ROWS) {
        let request::CostRow { name, what, tolerance, .. } = row;
        let bound = bounds.rows.get(*name).copied();
        let shown = shown(bound);
        println!("{name:<20} {each:>12.1} {:>11} {shown:>9}  {what}", "");
        if comparable && !is_unusual {
            of_request.push((row, Verdict::of(each, bound, *tolerance)));
        }
    }
    println!();
    conclude(&verdicts, "instructions", BOUNDS)?;
    of_request
        .into_iter()
        .try_for_each(|(row, verdict)| conclude(&[(row.name, verdict)], row.unit, BOUNDS))
}

/// The cost of one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// Instructions of the thread that emits.
    owner: u64,
    /// Those of all other threads.
    others: u64,
    /// The number of calls of functions off the usual way.
    unusual: u64,
}

/// Instructions each time, and how many of them were the flusher's.
fn each(row: &CostRow, few: &Count, many: &Count) -> (f64, f64) {
    let times = (row.times.1 - row.times.0) as f64;
    let owner = (many.owner as f64 - few.owner as f64) / times;
    let others = (many.others as f64 - few.others as f64) / times;
    (owner + others, others)
}

/// Runs the program once under callgrind.
fn count(program: &Path, folder: &Path, row: &CostRow, times: u64) -> Result<Count> {
    let out = format!("{}-{times}", row.name);
    Step::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", folder.join(&out).display()))
        .arg(program)
        .args([row.name, &times.to_string()])
        .read()?;
    // One file for each thread, numbered from 01, and an empty one without a number.
    let mut count = Count::default();
    for path in paths_in(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(thread) = name.strip_prefix(&out).and_then(|rest| rest.strip_prefix('-')) else {
            continue;
        };
        let (total, unusual) = parse(&read(&path)?)
            .with_context(|| format!("valgrind wrote no total in {}", path.display()))?;
        *(if thread == "01" { &mut count.owner } else { &mut count.others }) += total;
        count.unusual += unusual;
    }
    ensure!(count.owner > 0, "callgrind has counted nothing for `{}`", row.name);
    Ok(count)
}

/// Reads what callgrind writes: the number of instructions, and how often functions off the usual
/// way were called.
fn parse(text: &str) -> Option<(u64, u64)> {
    let mut total = None;
    let mut unusual = 0;
    // A function is `(NUMBER) NAME` where it is first mentioned, and `(NUMBER)` from then on.
    let mut numbers = Vec::new();
    let mut callee_is_unusual = false;
    for line in text.lines() {
        let (key, value) = line.split_once(['=', ':']).unwrap_or_default();
        match key {
            "fn" | "cfn" => {
                let (number, name) = value.split_once(' ').unwrap_or((value, ""));
                if name.contains(UNUSUAL) {
                    numbers.push(number);
                }
                if key == "cfn" {
                    callee_is_unusual = numbers.contains(&number);
                }
            }
            "calls" if callee_is_unusual => {
                unusual += value.split(' ').next()?.parse::<u64>().ok()?;
            }
            "totals" => total = value.trim().parse().ok(),
            _ => {}
        }
    }
    total.map(|total| (total, unusual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_as_callgrind_writes_it() {
        let text = "\
# callgrind format
events: Ir

fl=(1) emit.rs
fn=(3) bench::main
12 400
cfn=(7) writer::emit::record_unusually
calls=5 100
13 900
cfn=(9) writer::emit::record
calls=70 100
13 900
fn=(9)
cfn=(7)
calls=2 100
40 11
cfn=(11) writer::emit::record_slowly
calls=1 100

totals: 123456
";
        assert_eq!(parse(text), Some((123_456, 7)));
        assert_eq!(parse("events: Ir\n"), None, "a file that was cut off");
    }

    #[test]
    fn what_both_runs_do_does_not_count() {
        let few = Count { owner: 1_100_000, others: 10_000, unusual: 0 };
        let many = Count { owner: 3_100_000, others: 110_000, unusual: 0 };
        assert_eq!(each(&row("two_u64", "", 1), &few, &many), (10.5, 0.5));
    }

    #[test]
    fn every_row_has_a_bound() {
        let text = include_str!("../../instructions.json");
        let value = serde_json::from_str(text).unwrap();
        assert!(Bounds::parse(&value, &names()).is_some());
    }
}
