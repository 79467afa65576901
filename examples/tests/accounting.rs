//! `stress`: attempted = written + given up + dropped, exactly, however little memory there is, and
//! in each way to record. The program's numbers, the reference reader and our own reader agree on
//! it, also for each thread.

mod support;

use std::{collections::BTreeMap, path::Path};

use nettrace_reader::Options;
use testkit::effort::left_out;

use crate::support::{Ran, STRESS, assert_holds, directory, dotnet_trace_opens, open, run};

/// Many more threads than processors, which share 1 MiB.
const STARVED: [&str; 4] = ["--threads", "64", "--budget", "1048576"];

/// What events that no thread can be named for are told as.
const NOBODY: &str = "(events that no thread could be named for)";

/// A way to record.
#[derive(Clone, Copy, Debug)]
struct Mode {
    keeps: bool,
    persists: bool,
}

const MODES: &[Mode] = &[
    Mode { keeps: false, persists: false },
    Mode { keeps: true, persists: false },
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    Mode { keeps: false, persists: true },
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    Mode { keeps: true, persists: true },
];

#[test]
fn starved_threads() {
    check(&["--seconds", "0.3"], 1);
}

#[test]
fn starved_threads_that_come_and_go() {
    if left_out() {
        return;
    }
    check(&["--seconds", "0.3", "--churn", "--event", "string"], 1);
}

/// The full number of runs. Run it with `cargo test -p examples --test accounting -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn five_times_each_way_starved_in_each_mode() {
    check(&["--seconds", "0.25"], 5);
    check(&["--at-least", "60000", "--churn"], 5);
}

fn check(args: &[&str], runs: usize) {
    let directory = directory();
    let [trace, recorder] = ["trace", "recorder"].map(|name| directory.path().join(name));
    for mode in MODES.iter().flat_map(|mode| std::iter::repeat_n(mode, runs)) {
        let mut args = [&STARVED, args, &["--overwrite"]].concat();
        if mode.keeps {
            args.extend(["--flight-recorder", "1"]);
        }
        if mode.persists {
            args.extend(["--persistent", recorder.to_str().unwrap()]);
        }
        let ran = run(STRESS, &args, &trace).well().balanced();
        assert_eq!(ran.numbers["counted_by_session"], ran.numbers["attempted"], "{mode:?}");
        assert_eq!(ran.number("lost_in_sink"), 0, "{mode:?}");
        assert!(!recorder.exists());
        check_threads(&trace, &ran, *mode);
    }
}

/// Compares a trace with the program's numbers.
fn check_threads(trace: &Path, ran: &Ran, mode: Mode) {
    let mut reader = Options::default().keep_thread_totals(true).open(open(trace)).unwrap();
    reader.read_to_end().unwrap();
    let totals = reader.live_threads().chain(reader.finished_threads());
    let mut threads = BTreeMap::<String, [u64; 2]>::new();
    for of in totals {
        let [events, lost] = threads.entry(of.thread.name.clone().unwrap_or_default()).or_default();
        (*events, *lost) = (*events + of.events, *lost + of.lost);
    }
    let lost: u64 = threads.values().map(|[_, lost]| lost).sum();
    let given_up = reader.trace().value("nettrace.given_up").map(|it| it.parse().unwrap());
    assert_eq!(given_up, mode.keeps.then(|| ran.number("given_up")));
    let missing = ran.number("dropped") + ran.number("given_up");
    // What was given up of a thread that has ended is no gap: only the key-value tells it.
    let untold = missing.checked_sub(lost).filter(|untold| mode.keeps || *untold == 0);
    let untold = untold.unwrap_or_else(|| panic!("{mode:?}: {lost} lost, {}", ran.numbers));
    assert_holds(trace, ran.number("written"), lost);
    let of_threads = ran.numbers["of_threads"].as_array().unwrap();
    let mut others = untold + threads.get(NOBODY).map_or(0, |[_, lost]| *lost);
    for (number, attempted) in of_threads.iter().enumerate() {
        let [events, lost] = threads.get(&format!("stress-{number}")).copied().unwrap_or_default();
        let rest = attempted.as_u64().unwrap().checked_sub(events + lost);
        let rest = rest.and_then(|rest| others.checked_sub(rest));
        others = rest.unwrap_or_else(|| {
            panic!("{mode:?}: {events} events and {lost} lost of thread {number}: {}", ran.numbers)
        });
    }
    assert!(of_threads.is_empty() || others == 0, "{mode:?}: {others}, {}", ran.numbers);
}

#[test]
fn nothing_is_dropped_where_threads_wait_instead() {
    let directory = directory();
    let trace = directory.path().join("block.nettrace");
    let args = ["--threads", "16", "--seconds", "0.1", "--policy", "block", "--budget", "1048576"];
    let ran = run(STRESS, &args, &trace).well().balanced();
    assert_eq!(ran.number("dropped"), 0);
    assert_holds(&trace, ran.number("attempted"), 0);
}

#[test]
fn a_device_takes_it_too() {
    let ran = run(STRESS, &["--seconds", "0.1"], "/dev/null".as_ref()).well().balanced();
    assert!(ran.number("written") > 0);
}

#[test]
fn dotnet_trace_opens_both_kinds() {
    if left_out() {
        return;
    }
    let directory = directory();
    for (name, args) in [("long", &[][..]), ("churn", &["--churn"][..])] {
        let trace = directory.path().join(name);
        let args = [&["--threads", "8", "--seconds", "0.05", "--budget", "1048576"], args].concat();
        let ran: Ran = run(STRESS, &args, &trace).well().balanced();
        assert_holds(&trace, ran.number("written"), ran.number("dropped"));
        dotnet_trace_opens(&trace);
    }
}
