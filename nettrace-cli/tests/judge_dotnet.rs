//! Real .NET traces through the command, beside what the reference reader sees in them.

mod program;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use program::{dotnet_traces as traces, judge};
use serde_json::Value;

/// What the command prints, without the time it took.
fn lines(args: &[&str], file: &Path) -> Vec<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_nettrace")).args(args).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?} {}: {errors}", file.display());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(" read_ms=").next().unwrap().to_owned()).collect()
}

fn beside(trace: &Path, extension: &str) -> Option<String> {
    fs::read_to_string(trace.with_extension(extension)).ok()
}

#[test]
fn headers_are_those_of_the_reference() {
    for trace in traces() {
        let name = trace.file_stem().unwrap().to_string_lossy();
        let expected = beside(&trace, "events.tsv").unwrap();
        let totals = beside(&trace, "summary.txt").unwrap();
        let shown = lines(&["headers"], &trace);
        let (last, events) = shown.split_last().unwrap();
        let expected: Vec<_> = expected.lines().collect();
        for (i, (line, expected)) in events.iter().zip(&expected).enumerate() {
            assert_eq!(line, expected, "{name} {i}");
        }
        // Of the longest trace there are the first lines only.
        let is_longest = name == "eventpipe-dotnetcore3.0-win-x64-objver4";
        assert_eq!(expected.len(), if is_longest { 2000 } else { events.len() }, "{name}");
        assert_eq!(last, totals.lines().next().unwrap(), "{name}");
    }
}

/// Every line of the longest trace too, and every value: against the reference reader itself.
#[test]
fn the_reference_itself_prints_the_same() {
    let Some(judge) = judge() else { return };
    for trace in traces() {
        let name = trace.file_stem().unwrap().to_string_lossy();
        for (args, reference) in [(&["headers"][..], "headers"), (&["dump", "--json"], "events")] {
            let output = Command::new(&judge).arg(reference).arg(&trace).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let expected: Vec<_> =
                text.lines().map(|line| line.split(" read_ms=").next().unwrap()).collect();
            let shown = lines(args, &trace);
            for (i, (line, expected)) in shown.iter().zip(&expected).enumerate() {
                assert_eq!(line, expected, "{name} {reference} {i}");
            }
            assert_eq!(shown.len(), expected.len(), "{name} {reference}");
            assert!(shown.len() > 3, "{name} {reference}");
        }
    }
}

#[test]
fn totals_are_those_of_the_reference() {
    for trace in traces() {
        let name = trace.file_stem().unwrap().to_string_lossy();
        let summary = beside(&trace, "summary.txt").unwrap();
        let mut expected = summary.lines();
        let totals = expected.next().unwrap();
        let expected: BTreeMap<String, u64> = expected
            .map(|line| line.split_once(' ').unwrap())
            .map(|(count, event)| (event.to_owned(), count.parse().unwrap()))
            .collect();
        let info = lines(&["info"], &trace);
        let value = |key: &str| {
            let line = info.iter().find(|line| line.starts_with(key));
            line.unwrap()[17..].split(' ').next().unwrap().to_owned()
        };
        for (key, word) in
            [("events=", "events "), ("lost=", "lost events"), ("payload_bytes=", "payload bytes")]
        {
            let word_of_totals = totals.split(' ').find(|word| word.starts_with(key)).unwrap();
            assert_eq!(value(word), word_of_totals[key.len()..], "{name} {key}");
        }
        let mut shown = BTreeMap::new();
        for line in info.iter().filter(|line| line.contains(" (id ")) {
            let mut words = line.split_ascii_whitespace();
            let count: u64 = words.next().unwrap().parse().unwrap();
            let event = words.nth(1).unwrap().to_owned();
            *shown.entry(event).or_default() += count;
        }
        assert_eq!(shown, expected, "{name}");
    }
}

#[test]
fn values_are_those_of_the_reference() {
    let mut compared = 0;
    let traces = traces();
    for trace in &traces {
        let Some(expected) = beside(trace, "values.jsonl") else { continue };
        let shown: Vec<Value> = lines(&["dump", "--json"], trace)
            .iter()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // The reference lists the events of some providers only.
        let expected: Vec<Value> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut providers: Vec<_> = expected.iter().map(|event| &event["provider"]).collect();
        providers.dedup();
        let shown: Vec<_> =
            shown.iter().filter(|event| providers.contains(&&event["provider"])).collect();
        assert_eq!(shown.len(), expected.len(), "{}", trace.display());
        for (shown, expected) in shown.iter().zip(&expected) {
            for (key, value) in expected.as_object().unwrap() {
                if key != "types" {
                    assert_eq!(&shown[key], value, "{key} of {shown}");
                }
            }
            // And nothing else but the ticks.
            let extra = shown.as_object().unwrap().keys().filter(|key| expected.get(key).is_none());
            assert_eq!(extra.collect::<Vec<_>>(), ["ticks"], "{shown}");
            compared += 1;
        }
    }
    assert!(traces.is_empty() || compared > 500, "{compared}");
}

/// What .NET has wrong in these traces, and nothing else: it describes enums of 64 bits as of 32.
#[test]
fn verification_finds_what_is_wrong_in_them() {
    for trace in traces() {
        let output = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(["verify", "--most", "1000"])
            .arg(&trace)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (violations, last): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.starts_with("at "));
        assert_eq!(last.len(), 1, "{text}");
        for line in &violations {
            let expected = ": payload-fields: a payload has 16 bytes, its fields take 12";
            assert!(line.ends_with(expected), "{}: {line}", trace.display());
        }
        let summary = beside(&trace, "summary.txt").unwrap();
        let enums = summary.lines().find_map(|line| line.strip_suffix(" Demo-Types/Enums"));
        assert_eq!(violations.len(), enums.map_or(0, |count| count.parse().unwrap()));
    }
}
