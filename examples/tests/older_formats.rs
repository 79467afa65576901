//! `--format v5`, `v4` and `heph`: what holds for version 6 also holds for the other formats. Our
//! reader checks all of them. The reference reader and `dotnet-trace` check versions 4 and 5.

mod support;

use std::{process::Command, thread};

use examples::types::{self, ADDRESSES, RELATED};
use serde_json::{Map, Value, json};
use testkit::effort::{all_or, left_out};

use crate::support::{
    ALL_TYPES, DIRSCAN, KILLME, STREAM, STRESS, assert_holds, assert_same_events, directory,
    dotnet_trace_opens, own_events, run,
};

const FORMATS: [&str; 3] = ["v5", "v4", "heph"];

#[test]
fn every_example_writes_what_every_reader_opens() {
    if left_out() {
        return;
    }
    let directory = directory();
    let stress = ["--threads", "4", "--seconds", "0.02", "--event", "string"];
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let examples: [(&str, &[&str]); 5] = [
        (ALL_TYPES, &[]),
        (ALL_TYPES, &["--portable"]),
        (DIRSCAN, &[source]),
        (STRESS, &stress),
        (KILLME, &["--seconds", "0.1", "--rate", "20000"]),
    ];
    let write = |format: &str| {
        for (position, (program, args)) in examples.iter().enumerate() {
            let trace = directory.path().join(format!("{position}.{format}.nettrace"));
            let args = [args, &["--format", format][..]].concat();
            let ran = run(program, &args, &trace).well().balanced();
            assert!(ran.number("written") > 0);
            assert_holds(&trace, ran.number("written"), ran.number("dropped"));
            assert_same_events(&trace, ran.number("written"));
            dotnet_trace_opens(&trace);
        }
    };
    thread::scope(|scope| {
        for format in FORMATS {
            scope.spawn(|| write(format));
        }
    });
}

#[test]
fn a_pipe_gets_the_same_bytes() {
    let directory = directory();
    for format in FORMATS {
        let trace = directory.path().join(format);
        let args = ["--seconds", "0.1", "--format", format];
        let output = Command::new(STREAM).args(args).output().unwrap();
        assert!(output.status.success());
        std::fs::write(&trace, output.stdout).unwrap();
        let events = own_events(&trace).len() as u64;
        assert!(events > 0);
        assert_holds(&trace, events, 0);
    }
}

#[test]
fn starved_threads_are_accounted_for() {
    let directory = directory();
    let trace = directory.path().join("stress.nettrace");
    let starved =
        ["--threads", "64", "--budget", "1048576", "--seconds", "0.3", "--overwrite", "--format"];
    for &format in all_or(&FORMATS[..], &FORMATS[..1]) {
        let more = [&[][..], &["--churn"], &["--event", "string"]];
        for more in all_or(&more[..], &more[..1]) {
            let args = [&starved[..], &[format], more].concat();
            let ran = run(STRESS, &args, &trace).well().balanced();
            assert_holds(&trace, ran.number("written"), ran.number("dropped"));
        }
    }
}

/// Fields of every type, labels, stack and thread appear in packets.
#[test]
fn every_value_is_in_a_heph_trace() {
    let directory = directory();
    let trace = directory.path().join("all.heph");
    let ran = run(ALL_TYPES, &["--format", "heph"], &trace).well().balanced();
    let events = own_events(&trace);
    let samples = types::samples(false);
    assert_eq!(events.len(), samples.len() + 1);
    for (sample, event) in samples.iter().zip(&events) {
        // The reference reader separates the opcode with a slash.
        assert_eq!(event["description"], sample.name.replace('/', ""));
        let attributes = event["fields"].as_object().unwrap();
        let fields = sample.fields.as_object().unwrap();
        for (field, value) in fields {
            assert!(is_told(attributes, field, value), "{field} is {value}: {attributes:#?}");
        }
        let others = attributes.keys().filter(|name| !name.starts_with('@'));
        let others = others.filter(|name| !fields.contains_key(name.split('.').next().unwrap()));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new(), "{}", sample.name);
    }
    let sequences = events.iter().find(|event| event["description"] == "Sequences").unwrap();
    assert_eq!(sequences["fields"]["empty"], json!([]));
    let related = events.last().unwrap();
    assert_eq!(related["fields"]["@event"], RELATED);
    assert_eq!(related["fields"]["@subject"], ran.numbers["about_thread"]);
    assert_eq!(related["fields"]["@subject"], events[0]["thread"], "the main thread");
    assert_eq!(related["fields"]["@subject_thread"], "main");
    let stacks: Vec<_> = events.iter().filter_map(|event| event["fields"].get("@stack")).collect();
    assert_eq!(stacks, [&json!(ADDRESSES)]);
    let labelled = |key| events.iter().any(|event| event["fields"].get(key).is_some());
    for key in ["@activity", "@related", "@trace", "@span", "@label.k", "@label.m", "@thread"] {
        assert!(labelled(key), "{key}");
    }
}

/// Whether the attributes have a value as our reader shows it for a version 6 trace.
fn is_told(attributes: &Map<String, Value>, name: &str, value: &Value) -> bool {
    if let Some(told) = attributes.get(name) {
        return is_same(value, told);
    }
    match value {
        // Each field of an object is an attribute.
        Value::Object(inner) => inner
            .iter()
            .all(|(field, value)| is_told(attributes, &format!("{name}.{field}"), value)),
        // An option is one attribute, or none.
        Value::Array(values) if values.len() <= 1 => {
            values.iter().all(|value| is_told(attributes, name, value))
        }
        _ => false,
    }
}

fn is_same(value: &Value, told: &Value) -> bool {
    match (value, told) {
        (Value::Bool(value), Value::Number(told)) => told.as_u64() == Some(u64::from(*value)),
        (Value::Object(value), told) if value.len() == 1 && value.contains_key("items") => {
            is_same(&value["items"], told)
        }
        (Value::Object(value), told) if value.len() == 1 && value.contains_key("value") => {
            is_same(&value["value"], told)
        }
        (Value::Object(value), Value::String(told)) if value.contains_key("high") => {
            let high = value["high"]
                .as_i64()
                .map_or_else(|| i128::from(value["high"].as_u64().unwrap()), i128::from);
            let number = high << 64 | i128::from(value["low"].as_u64().unwrap());
            *told == number.to_string() || *told == (number as u128).to_string()
        }
        (Value::Array(values), Value::Array(told)) if values.len() == told.len() => {
            values.iter().zip(told).all(|(value, told)| is_same(value, told))
        }
        (Value::Array(values), Value::Null) => values.is_empty(),
        (Value::Object(values), Value::Object(told)) => {
            values.len() == told.len()
                && values
                    .iter()
                    .all(|(name, value)| told.get(name).is_some_and(|told| is_same(value, told)))
        }
        (Value::Array(_) | Value::Object(_), Value::String(text)) => {
            // Arrays and objects within arrays are stored as JSON. An option of text is stored as
            // text.
            serde_json::from_str(text).is_ok_and(|told| is_same(value, &told))
                || matches!(value, Value::Array(values)
                    if matches!(&values[..], [Value::String(value)] if value == text))
        }
        (Value::Array(values), told) if values.len() == 1 => is_same(&values[0], told),
        _ => value == told,
    }
}
