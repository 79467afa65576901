//! `stress`: attempted = written + dropped, exactly, however little memory there is. The program's
//! numbers, the reference reader and our own reader agree on it.

mod support;

use crate::support::{Ran, STRESS, assert_holds, directory, dotnet_trace_opens, run};

/// Many more threads than processors, which share 1 MiB.
const STARVED: [&str; 4] = ["--threads", "64", "--budget", "1048576"];

#[test]
fn starved_threads() {
    check(&["--seconds", "0.3"], 3);
}

#[test]
fn starved_threads_that_come_and_go() {
    check(&["--seconds", "0.3", "--churn", "--event", "string"], 3);
}

/// The full number of runs. Run it with `cargo test -p examples --test accounting -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn twenty_times_starved() {
    check(&["--seconds", "0.25"], 20);
    check(&["--seconds", "0.25", "--churn"], 20);
}

fn check(args: &[&str], runs: usize) {
    let directory = directory();
    let trace = directory.path().join("stress.nettrace");
    for _ in 0..runs {
        let args = [&STARVED, args, &["--overwrite"]].concat();
        let ran = run(STRESS, &args, &trace).well().balanced();
        assert_eq!(ran.numbers["counted_by_session"], ran.numbers["attempted"]);
        assert_eq!(ran.number("lost_in_sink"), 0);
        assert_holds(&trace, ran.number("written"), ran.number("dropped"));
    }
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
    let directory = directory();
    for (name, args) in [("long", &[][..]), ("churn", &["--churn"][..])] {
        let trace = directory.path().join(name);
        let args = [&["--threads", "8", "--seconds", "0.05", "--budget", "1048576"], args].concat();
        let ran: Ran = run(STRESS, &args, &trace).well().balanced();
        assert_holds(&trace, ran.number("written"), ran.number("dropped"));
        dotnet_trace_opens(&trace);
    }
}
