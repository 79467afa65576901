//! Runs `user_events` and `both` as a user does. They behave the same whether the machine cannot
//! take tracepoints or nobody records them.

mod support;

use std::process::Command;

use serde_json::Value;

use crate::support::{
    Ran, assert_holds, assert_same_events, directory, dotnet_trace_opens, own_events, ran, run,
};

const USER_EVENTS: &str = env!("CARGO_BIN_EXE_user_events");
const BOTH: &str = env!("CARGO_BIN_EXE_both");

#[test]
fn a_service_says_how_to_record_it() {
    let args = ["--seconds", "0.2", "--threads", "2", "--rate", "500"];
    let ran = ran(Command::new(USER_EVENTS).args(args).output().unwrap()).well();
    let command = "perf record -a -e user_events:Example_UserEvents_L3K1 \
                   -e user_events:Example_UserEvents_L4K1";
    assert!(ran.stdout.lines().any(|line| line == command), "{}", ran.stdout);
    says_what_is_so(&ran);
    assert!(ran.number("attempted") >= 2, "{}", ran.numbers);
    let counted = ["written", "disabled", "too_large", "failed"].map(|key| ran.number(key));
    let tracepoints = ran.numbers["tracepoints"].as_object().unwrap();
    let names: Vec<_> = tracepoints.keys().collect();
    assert_eq!(names, ["Example_UserEvents_L3K1", "Example_UserEvents_L4K1"]);
    if tracepoints.values().all(|one| one["enabled"] == false) {
        assert_eq!(counted, [0; 4], "nobody listened: {}", ran.numbers);
    }
}

#[test]
fn the_file_is_the_same_with_tracepoints() {
    let directory = directory();
    for format in ["v6", "v5", "v4", "heph"] {
        let trace = directory.path().join(format);
        let args = ["--seconds", "0.1", "--rate", "2000", "--format", format];
        let ran = run(BOTH, &args, &trace).well().balanced();
        let written = ran.number("written");
        assert!(written > 0);
        assert_eq!([ran.number("dropped"), ran.number("tracepoints_failed")], [0, 0]);
        if ran.numbers["enabled"] == false {
            assert_eq!(ran.number("tracepoints_written"), 0);
        }
        says_what_is_so(&ran);
        assert!(ran.stdout.contains("perf record -a -e user_events:Example_Both_L4K1\n"));
        assert_holds(&trace, written, 0);
        assert_same_events(&trace, written);
        dotnet_trace_opens(&trace);
        let articles = ["Tee", "Kaffee", "Käse"];
        for event in own_events(&trace) {
            let name = if format == "heph" { "description" } else { "metadata_name" };
            assert_eq!(event[name], "Ordered", "{event}");
            let article = event["fields"]["article"].as_str().unwrap();
            assert!(articles.contains(&article), "{event}");
            let number = |key: &str| number(&event["fields"][key]);
            assert_eq!(number("cents"), 250 * number("pieces"), "{event}");
        }
    }
}

#[test]
fn wrong_use_is_told() {
    let directory = directory();
    let trace = directory.path().join("taken");
    let short = ["--seconds", "0.01"];
    for seconds in ["nan", "-1"] {
        let output = Command::new(USER_EVENTS).arg(format!("--seconds={seconds}")).output();
        let user_events = ran(output.unwrap());
        let both = run(BOTH, &[&format!("--seconds={seconds}")], &trace);
        for ran in [user_events, both] {
            assert_eq!(ran.code, Some(1));
            assert!(ran.stderr.contains("no span of time"), "{}", ran.stderr);
        }
    }
    std::fs::write(&trace, "kept").unwrap();
    let taken = run(BOTH, &short, &trace);
    assert_eq!(taken.code, Some(1));
    assert!(taken.stderr.contains("--overwrite replaces the file"), "{}", taken.stderr);
    assert_eq!(std::fs::read(&trace).unwrap(), b"kept");
}

/// The first line describes this machine.
#[track_caller]
fn says_what_is_so(ran: &Ran) {
    let words = ran.stdout.lines().next().unwrap();
    let known =
        ["events go to /", "mount -t tracefs", "CONFIG_USER_EVENTS", "run as root", "Linux"];
    assert!(known.iter().any(|known| words.contains(known)), "{words}");
}

/// A number, which a Heph trace stores as text.
fn number(value: &Value) -> u64 {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or_else(text).unwrap_or_else(|| panic!("{value} is no number"))
}
