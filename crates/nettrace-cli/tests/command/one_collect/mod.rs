//! Traces of one-collect, the other producer of version 6, against what the reference reader has
//! seen in them. Its files are beside them.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;
use testkit::reference::one_collect_trace;

use crate::program::{stderr, stdout, strict_json};

const TRACES: [&str; 3] = ["vm-cpu-cswitch", "user-events", "dotnet"];

/// The traces that are there, with their names.
fn traces() -> Vec<(&'static str, std::path::PathBuf)> {
    TRACES.into_iter().filter_map(|name| Some((name, one_collect_trace(name)?))).collect()
}

/// Standard output, standard error and the exit code of a command on a trace.
fn run(args: &[&str], trace: &Path) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.arg(args[0]).arg(trace).args(&args[1..]).output().unwrap();
    (stdout(&output).to_owned(), stderr(&output).to_owned(), output.status.code())
}

fn convert(to: &str, trace: &Path) -> String {
    let (out, errors, code) = run(&["convert", "-", "--to", to], trace);
    assert_eq!(code, Some(0), "{to}: {errors}");
    out
}

/// Whether a frame is as the reference shows it. It shows modules of .NET in small letters and
/// without their ending, and an address where our frames have the position in the file.
fn is_same_frame(ours: &str, theirs: &str) -> bool {
    let (module, function) = theirs.split_once('!').unwrap_or(("", theirs));
    let own = ours.split_once("+0x").or(ours.split_once('!')).unwrap_or(("", ours));
    let own_module = own.0.to_lowercase();
    let is_module = own_module == module.to_lowercase()
        || own_module.strip_suffix(".dll").is_some_and(|own| own == module);
    let is_position = function.starts_with("0x") && ours == format!("{}+0x{}", own.0, own.1);
    is_module && (own.1 == function || (is_position && module != "vmlinux"))
}

#[test]
fn stacks_have_the_names_of_the_reference() {
    for (name, trace) in traces() {
        let recorded = fs::read_to_string(trace.with_extension("stacks.jsonl")).unwrap();
        let objects = convert("jsonl", &trace);
        let ours = objects.lines().map(strict_json).filter(|event| !event["stack"].is_null());
        let theirs = recorded.lines().filter(|line| line.starts_with('{')).map(strict_json);
        let mut count = 0;
        for (ours, theirs) in ours.zip(theirs) {
            // The reference has names of its own for events of .NET.
            for key in ["provider", "process", "thread"] {
                assert_eq!(ours[key], theirs[key], "{name} {count}");
            }
            let frames = |frames: &Value| frames.as_array().unwrap().clone();
            let (own, expected) = (frames(&ours["stack"]), frames(&theirs["frames"]));
            assert_eq!(own.len(), expected.len(), "{name} {count}");
            for (own, expected) in own.iter().zip(&expected) {
                let (own, expected) = (own.as_str().unwrap(), expected.as_str().unwrap());
                assert!(is_same_frame(own, expected), "{name} {count}: {own} is not {expected}");
            }
            count += 1;
        }
        assert_eq!(count, 300, "{name}");
    }
}

#[test]
fn events_are_those_of_the_reference() {
    for (name, trace) in traces() {
        let summary = fs::read_to_string(trace.with_extension("summary.txt")).unwrap();
        let expected: BTreeMap<_, u64> = summary
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .map(|(count, event)| (event.to_owned(), count.parse().unwrap()))
            .collect();
        let (info, ..) = run(&["info", "--json"], &trace);
        let info = strict_json(info.trim_end());
        let total: u64 = expected.values().sum();
        assert_eq!(info["events"], total, "{name}");
        for ty in info["types"].as_array().unwrap() {
            let event = format!("{}/{}", ty["provider"], ty["name"]).replace('"', "");
            // The reference has names of its own for events of .NET.
            if !event.starts_with("Microsoft-") {
                assert_eq!(Some(&ty["events"].as_u64().unwrap()), expected.get(&event), "{event}");
            }
        }
    }
}

/// The texts of `Universal.System` are declared as one code unit.
#[test]
fn texts_are_shown_as_they_are() {
    let Some(trace) = one_collect_trace("user-events") else { return };
    let (dump, ..) = run(&["dump"], &trace);
    for text in [
        "FileName=\"/dev/shm/uedemo\"",
        "Name=\"uedemo::emit_order::h4ad7c312b0ae8813\"",
        "SymbolMetadata=\"{\\\"type\\\": \\\"ELF\\\"",
    ] {
        assert!(dump.contains(text), "{text}");
    }
}

#[test]
fn every_profile_shows_samples_switches_and_events() {
    let of = |name: &str, by: &str| {
        let trace = one_collect_trace(name)?;
        let (out, errors, code) = run(&["convert", "-", "--to", "folded", "--by", by], &trace);
        assert_eq!(code, Some(0), "{errors}");
        let number = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        Some((out.lines().map(number).sum::<u64>(), out, errors))
    };
    if let Some((nanos, lines, said)) = of("vm-cpu-cswitch", "cpu") {
        assert_eq!(nanos, 3284 * 1_000_000, "each sample stands for a millisecond");
        assert!(lines.contains("burn;burn!burn::burn_thirty::h1a71c5f5dc6ef3a8;"), "{lines}");
        assert!(said.contains(": 1250 context switches (--by off-cpu)"), "{said}");
    }
    if let Some((nanos, lines, said)) = of("vm-cpu-cswitch", "off-cpu") {
        let trace = one_collect_trace("vm-cpu-cswitch").unwrap();
        let (events, ..) = run(&["dump", "--json", "--event", "cswitch"], &trace);
        let waited = |line: &str| strict_json(line)["fields"]["Value"].as_u64().unwrap();
        // Ticks are nanoseconds.
        assert_eq!(nanos, events.lines().map(waited).sum::<u64>());
        assert!(lines.contains("vmlinux!0xffffffff8140134a;"), "{lines}");
        assert!(said.contains(": 3284 samples (--by cpu)"), "{said}");
    }
    if let Some((count, lines, said)) = of("user-events", "events") {
        assert_eq!(count, 373);
        assert!(lines.contains("uedemo;uedemo!uedemo::emit_order::h4ad7c312b0ae8813;"), "{lines}");
        assert!(said.contains(": 84 events that are neither spans nor samples"), "{said}");
    }
    let Some(trace) = one_collect_trace("user-events") else { return };
    assert_eq!(
        convert("folded", &trace).lines().count(),
        of("user-events", "events").unwrap().1.lines().count()
    );
}

/// Samples are samples, and not events as well. Processes have their names.
#[test]
fn viewers_show_each_sample_once() {
    let Some(trace) = one_collect_trace("vm-cpu-cswitch") else { return };
    let chrome: Value = serde_json::from_str(&convert("chrome", &trace)).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let count = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!((count("cpu"), count("cswitch")), (0, 1250));
    let samples = events.iter().filter_map(|event| {
        event["args"]["data"]["cpuProfile"]["samples"].as_array().map(Vec::len)
    });
    assert_eq!(samples.sum::<usize>(), 3284);
    let named =
        |event: &&Value| event["name"] == "process_name" && event["args"]["name"] == "burn (52)";
    assert_eq!(events.iter().filter(named).count(), 1);
    let speedscope: Value = serde_json::from_str(&convert("speedscope", &trace)).unwrap();
    let profiles = speedscope["profiles"].as_array().unwrap();
    let weights = |what: &str| {
        let of = profiles.iter().filter(|it| it["name"].as_str().unwrap().ends_with(what));
        of.map(|it| it["weights"].as_array().unwrap().len()).sum::<usize>()
    };
    assert_eq!((weights(", samples"), weights(", waiting")), (3284, 1250));
}

/// Only rules of the format make the exit code 1.
#[test]
fn what_the_format_allows_is_told_apart() {
    for (name, trace) in traces() {
        let (out, _, code) = run(&["verify", "--json", "--most", "10000"], &trace);
        let report = strict_json(out.trim_end());
        let count = |basis: &str| {
            let all = report["violations"].as_array().unwrap().iter();
            all.filter(|it| it["basis"] == basis).count() as u64
        };
        // A block states a later time than that of its last event.
        assert_eq!(
            (report["format_violations_count"].as_u64(), code),
            (Some(1), Some(1)),
            "{name}"
        );
        let all = count("format") + count("reader") + count("project");
        assert_eq!((count("format"), all), (1, report["violations_count"].as_u64().unwrap()));
        assert!(count("reader") > 0 && count("project") > 0, "{name}");
    }
}

/// Readers of version 5 find no names by the events that state them.
#[test]
fn a_conversion_that_loses_names_says_so() {
    let Some(trace) = one_collect_trace("user-events") else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.nettrace");
    let (_, said, code) = run(&["convert", out.to_str().unwrap(), "--to", "v5"], &trace);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("could not be converted: 84 names of functions, files"), "{said}");
    let (dump, ..) = run(&["dump"], &out);
    assert!(dump.contains("Name=\"uedemo::emit_order::h4ad7c312b0ae8813\""));
    let out = folder.path().join("copy.nettrace");
    let (_, said, code) = run(&["convert", out.to_str().unwrap(), "--to", "v6"], &trace);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(convert("folded", &out), convert("folded", &trace));
}
