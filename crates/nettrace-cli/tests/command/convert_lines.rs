//! Conversion to JSON lines and CSV.

use testkit::{
    csv,
    effort::left_out,
    reference::dotnet_traces,
    streams::{hostile, samples, unusual, v5_samples},
};

use crate::program::{nettrace, stderr, stdout, strict_json};

/// All traces by name.
fn sources() -> Vec<(String, Vec<u8>)> {
    let all = samples::all().into_iter().chain(v5_samples::all());
    let mut all: Vec<_> = all.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    all.extend(unusual::all());
    all.push(("hostile".into(), hostile::trace()));
    let small =
        dotnet_traces().into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap()));
    let small = small.filter(|(_, bytes)| bytes.len() < 100_000);
    all.extend(small.map(|(path, bytes)| (path.display().to_string(), bytes)));
    all
}

#[test]
fn json_lines_are_those_of_dump() {
    if left_out() {
        return;
    }
    let mut lines = 0;
    for (name, source) in sources() {
        let converted = nettrace(&["convert", "-", "-", "--to", "jsonl"], &source);
        let dumped = nettrace(&["dump", "--json", "--show", "stack", "-"], &source);
        let (converted_lines, dumped_lines) = (stdout(&converted).lines(), stdout(&dumped).lines());
        assert_eq!(converted_lines.clone().count(), dumped_lines.clone().count(), "{name}");
        for (converted, dumped) in converted_lines.zip(dumped_lines) {
            let mut dumped = strict_json(dumped);
            // Lines have no member for a stack that is not there.
            if dumped["stack"].as_array().is_none_or(Vec::is_empty) {
                dumped.as_object_mut().unwrap().remove("stack");
            }
            assert_eq!(strict_json(converted), dumped, "{name}");
            lines += 1;
        }
    }
    assert!(lines > 500, "{lines}");
}

#[test]
fn csv_has_the_values_of_json() {
    if left_out() {
        return;
    }
    let mut compared = 0;
    for (name, source) in sources() {
        let converted = nettrace(&["convert", "-", "-", "--to", "csv"], &source);
        let dumped = nettrace(&["dump", "--json", "-"], &source);
        if converted.stdout.is_empty() && dumped.stdout.is_empty() {
            // No trace at all.
            continue;
        }
        let mut rows = csv::rows(stdout(&converted)).into_iter();
        let header = rows.next().unwrap();
        for line in stdout(&dumped).lines() {
            let event = strict_json(line);
            let row = rows.next().unwrap();
            assert_eq!(row.len(), header.len(), "{name}");
            for (column, value) in header.iter().zip(&row) {
                let label = |name: &str| {
                    // If two labels have the same meaning, the last one applies.
                    let more = (2..10).map(|number| format!("{name}#{number}"));
                    let names = std::iter::once(name.to_owned()).chain(more);
                    let mut found = names.filter_map(|name| event["labels"][name].as_str());
                    found.next_back().unwrap_or("").to_owned()
                };
                let expected = match &**column {
                    "trace_id" => label("TraceId"),
                    "span_id" if event["labels"]["SpanId"].is_null() => label("ActivityId"),
                    "span_id" => label("SpanId"),
                    "related_id" => label("RelatedActivityId"),
                    "labels" => continue,
                    column => match &event[column] {
                        serde_json::Value::Null => String::new(),
                        serde_json::Value::String(text) => cell(text),
                        other => other.to_string(),
                    },
                };
                if column == "fields" {
                    assert_eq!(strict_json(value), event["fields"], "{name}");
                } else if !expected.is_empty() || event["labels"].is_null() {
                    assert_eq!(*value, expected, "{name} {column}");
                }
                compared += 1;
            }
        }
        assert_eq!(rows.next(), None, "{name}");
    }
    assert!(compared > 5_000, "{compared}");
}

/// A text as CSV has it: what is hidden is escaped, and no cell is a formula.
fn cell(text: &str) -> String {
    let apostrophe = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    format!("{apostrophe}{}", nettrace_views::model::OneLine(text))
}

/// Quotes, control characters, line ends, commas, long texts and lone surrogates: another program's
/// readers find each name and each text as it is in the trace; as cells of CSV, one line each.
#[test]
fn python_reads_hostile_names() {
    let python = std::process::Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = hostile::trace();
    for format in ["jsonl", "csv"] {
        let converted = nettrace(&["convert", "-", "-", "--to", format], &source);
        std::fs::write(folder.path().join(format), &converted.stdout).unwrap();
    }
    let cells: Vec<_> = hostile::names().iter().map(|name| cell(name)).collect();
    let expected = serde_json::json!({
        "names": hostile::names(), "cells": cells, "text": hostile::long_text(),
    });
    std::fs::write(folder.path().join("expected"), expected.to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/convert_lines.py");
    let output =
        std::process::Command::new("python3").arg(script).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said} {why}");
    assert_eq!(said, "56 events\n");
}

/// What lines lack is listed: stacks, and payloads that nothing describes.
#[test]
fn what_lines_lack_is_listed() {
    let mut totals = [0; 2];
    for path in dotnet_traces().iter().filter(|path| path.to_string_lossy().contains("stacks")) {
        let source = std::fs::read(path).unwrap();
        let dumped = nettrace(&["dump", "--json", "-"], &source);
        let bare = |line: &&str| {
            let event = strict_json(line);
            event["payload_bytes"] != 0 && event["fields"].as_object().unwrap().is_empty()
        };
        let bare = stdout(&dumped).lines().filter(bare).count();
        let mut reader = nettrace_reader::Reader::new(&source[..]).unwrap();
        let mut stacks = 0;
        while let Some(event) = reader.next_event().unwrap() {
            stacks += usize::from(event.stack().is_some());
        }
        for (format, title) in [("jsonl", "JSON lines"), ("csv", "CSV")] {
            let converted = nettrace(&["convert", "-", "-", "--to", format], &source);
            let said = stderr(&converted);
            for (count, what, is_lacking) in [
                (bare, "payloads whose fields the trace does not describe", true),
                (stacks, "stacks", format == "csv"),
            ] {
                let line = format!("left out, because {title} cannot express it: {count} {what}\n");
                assert_eq!(said.contains(&line), is_lacking, "{line} {said}");
            }
        }
        totals = [totals[0] + bare, totals[1] + stacks];
    }
    assert!(dotnet_traces().is_empty() || totals.iter().all(|total| *total > 0), "{totals:?}");
}
