//! Compares the command with the reference reader on real .NET traces.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use nettrace_reader::{Metadata, Options};
use serde_json::Value;
use testkit::{
    effort::left_out,
    reference::{dotnet_traces as traces, judge},
};

use crate::{
    program::{stdout, strict_json, summary},
    reference::{
        self, assert_same_output, event_object, header_line, is_same, our_totals, reference_totals,
        type_opcode, views,
    },
};

/// Runs the command on a sound file.
fn nettrace(args: &[&str], file: &Path) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_nettrace")).args(args).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?} {}: {errors}", file.display());
    output
}

fn beside(trace: &Path, extension: &str) -> Option<String> {
    fs::read_to_string(trace.with_extension(extension)).ok()
}

fn name_of(trace: &Path) -> String {
    trace.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn headers_are_those_of_the_reference() {
    for trace in traces() {
        let name = name_of(&trace);
        let expected = beside(&trace, "events.tsv").unwrap();
        let totals = beside(&trace, "summary.txt").unwrap();
        let output = nettrace(&["headers"], &trace);
        let shown: Vec<_> = stdout(&output).lines().collect();
        let expected: Vec<_> = expected.lines().collect();
        let views = views(&fs::read(&trace).unwrap());
        for (i, ((line, expected), view)) in shown.iter().zip(&expected).zip(&views).enumerate() {
            assert_eq!(header_line(line, view), *expected, "{name} {i}");
        }
        // Of the longest trace, only the first lines are stored.
        let is_longest = name == "eventpipe-dotnetcore3.0-win-x64-objver4";
        assert_eq!(expected.len(), if is_longest { 2000 } else { shown.len() }, "{name}");
        let expected = reference_totals(totals.lines().next().unwrap());
        assert_eq!(our_totals(summary(&output)), expected, "{name}");
        assert_eq!(expected.len(), 6, "{name}");
    }
}

/// Compares every line and every value with the reference reader itself, also for the longest
/// trace.
#[test]
fn the_reference_itself_prints_the_same() {
    if left_out() {
        return;
    }
    let Some(judge) = judge() else { return };
    for trace in traces() {
        let name = name_of(&trace);
        let views = views(&fs::read(&trace).unwrap());
        for (args, reference) in [(&["headers"][..], "headers"), (&["dump", "--json"], "events")] {
            let theirs = Command::new(&judge).arg(reference).arg(&trace).output().unwrap();
            let theirs = String::from_utf8(theirs.stdout).unwrap();
            let ours = nettrace(args, &trace);
            let ours = (stdout(&ours), summary(&ours));
            let events = assert_same_output(&name, reference, ours, &theirs, &views);
            assert!(events > 2, "{name} {reference}");
        }
    }
}

#[test]
fn totals_are_those_of_the_reference() {
    for trace in traces() {
        let name = name_of(&trace);
        let recorded = beside(&trace, "summary.txt").unwrap();
        let mut expected = recorded.lines();
        let totals = expected.next().unwrap();
        let expected: BTreeMap<String, u64> = expected
            .map(|line| line.split_once(' ').unwrap())
            .map(|(count, event)| (event.to_owned(), count.parse().unwrap()))
            .collect();
        let output = nettrace(&["info", "--json"], &trace);
        let info = strict_json(stdout(&output).trim_end());
        for (key, value) in reference_totals(totals) {
            match &*key {
                "unsorted" => {}
                "ptr" => assert_eq!(info["pointer_bytes"].to_string(), value, "{name}"),
                "start" => assert_eq!(info["start"], value, "{name}"),
                key => assert_eq!(info[key].to_string(), value, "{name} {key}"),
            }
        }
        // Translates the names of the stored file to those of the reference.
        let bytes = fs::read(&trace).unwrap();
        let mut reader = Options::default().keep_type_totals(true).open(&*bytes).unwrap();
        reader.read_to_end().unwrap();
        let mut displayed = BTreeMap::new();
        for totals in reader.type_totals().filter(|totals| totals.events > 0) {
            let of = &totals.metadata;
            let own = match &*of.name {
                "" => format!("EventID({})", of.event_id),
                name => name.to_owned(),
            };
            let stated = if of.is_from_table { "" } else { &*of.name };
            let stated = Metadata { name: stated.to_owned(), ..of.clone() };
            let theirs = reference::name(&stated, type_opcode(&stated));
            let theirs = format!("{}/{theirs}", of.provider);
            let before = displayed.insert((of.provider.clone(), own), theirs.clone());
            assert!(before.is_none_or(|before| before == theirs), "{name} {theirs}");
        }
        let mut shown = BTreeMap::new();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for it in info["types"].as_array().unwrap() {
            let theirs = &displayed[&(text(&it["provider"]), text(&it["name"]))];
            *shown.entry(theirs.clone()).or_default() += it["events"].as_u64().unwrap();
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
        let output = nettrace(&["dump", "--json"], trace);
        let views = views(&fs::read(trace).unwrap());
        let shown: Vec<Value> = stdout(&output)
            .lines()
            .zip(&views)
            .map(|(line, view)| event_object(&strict_json(line), view))
            .collect();
        // The reference lists the events of only some providers.
        let expected: Vec<Value> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut providers: Vec<_> = expected.iter().map(|event| &event["provider"]).collect();
        providers.dedup();
        let shown: Vec<_> =
            shown.iter().filter(|event| providers.contains(&&event["provider"])).collect();
        assert_eq!(shown.len(), expected.len(), "{}", trace.display());
        for (shown, expected) in shown.iter().zip(&expected) {
            for (key, value) in expected.as_object().unwrap() {
                assert!(key == "types" || is_same(&shown[key], value), "{key} of {shown}");
            }
            // There are no other keys except the ticks.
            let extra = shown.as_object().unwrap().keys().filter(|key| expected.get(key).is_none());
            assert_eq!(extra.collect::<Vec<_>>(), ["ticks"], "{shown}");
            compared += 1;
        }
    }
    assert!(traces.is_empty() || compared > 500, "{compared}");
}

/// The only mistake of .NET in these traces: it describes 64-bit enums as 32-bit ones.
#[test]
fn verification_finds_what_is_wrong_in_them() {
    for trace in traces() {
        let output = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(["verify", "--most", "1000"])
            .arg(&trace)
            .output()
            .unwrap();
        // The format allows that.
        assert_eq!(output.status.code(), Some(0), "{}", trace.display());
        let text = String::from_utf8(output.stdout).unwrap();
        let (violations, last): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.starts_with("at "));
        assert_eq!(last.len(), 1, "{text}");
        for line in &violations {
            let expected = ": payload-fields: a payload has 16 bytes, its fields take 12 (the \
                            format allows it, this project does not)";
            assert!(line.ends_with(expected), "{}: {line}", trace.display());
        }
        let summary = beside(&trace, "summary.txt").unwrap();
        let enums = summary.lines().find_map(|line| line.strip_suffix(" Demo-Types/Enums"));
        assert_eq!(violations.len(), enums.map_or(0, |count| count.parse().unwrap()));
    }
}
