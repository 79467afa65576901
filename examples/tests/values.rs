//! `all_types`: readers show every value as it was written.

mod support;

use std::io::BufReader;

use examples::types::{self, ADDRESSES, RELATED};
use nettrace_reader::{Label, Reader};
use serde_json::{Value, json};

use crate::support::{
    ALL_TYPES, Ran, assert_holds, directory, dotnet_trace_opens, judged, open, own_events, run,
};

#[test]
fn the_reference_reader_shows_every_value() {
    let directory = directory();
    for portable in [false, true] {
        let trace = directory.path().join(format!("{portable}.nettrace"));
        let ran = all_types(portable, &trace);
        let samples = types::samples(portable);
        let Some(verdict) = judged("events", &trace) else { return };
        assert_eq!(verdict.events, samples.len() as u64 + 1);
        assert_eq!(verdict.lost, 0);
        for (sample, event) in samples.iter().zip(&verdict.lines) {
            if !sample.more.contains_key("name") {
                assert_eq!(event["name"], sample.name, "{event}");
            }
            for (key, value) in &sample.more {
                assert_eq!(&event[key], value, "{key} of {event}");
            }
            for (field, value) in sample.reference.as_object().unwrap() {
                assert_eq!(&event["fields"][field], value, "{field} of {}", sample.name);
            }
            let fields = event["fields"].as_object().unwrap().len();
            assert_eq!(fields, sample.reference.as_object().unwrap().len(), "{event}");
        }
        let related = verdict.lines.last().unwrap();
        assert_eq!(related["name"], RELATED);
        assert_eq!(related["thread"], ran.numbers["about_thread"], "{related}");
        assert_eq!(related["thread"], verdict.lines[0]["thread"], "the main thread");
    }
}

#[test]
fn our_reader_shows_every_value() {
    let directory = directory();
    let trace = directory.path().join("all.nettrace");
    let ran = all_types(false, &trace);
    let samples = types::samples(false);
    let events = own_events(&trace);
    assert_eq!(events.len(), samples.len() + 1);
    for (sample, event) in samples.iter().zip(&events) {
        for (field, value) in sample.fields.as_object().unwrap() {
            assert_eq!(&event["fields"][field], value, "{field} of {}", sample.name);
        }
        for key in ["provider", "id", "version", "level", "keywords"] {
            if let Some(value) = sample.more.get(key) {
                assert_eq!(&event[key], value, "{key} of {event}");
            }
        }
    }
    assert_eq!(events[samples.len()]["thread"], ran.numbers["about_thread"]);
    assert_holds(&trace, events.len() as u64, 0);
}

/// Checks every value in the form that `nettrace_format::v5` documents for the version.
#[test]
fn the_older_versions_have_every_value() {
    let directory = directory();
    for format in ["v5", "v4"] {
        let trace = directory.path().join(format!("{format}.nettrace"));
        run(ALL_TYPES, &["--format", format], &trace).well().balanced();
        let samples = types::samples(false);
        let Some(verdict) = judged("events", &trace) else { return };
        assert_eq!((verdict.events, verdict.lost), (samples.len() as u64 + 1, 0));
        let own = own_events(&trace);
        for ((sample, event), own) in samples.iter().zip(&verdict.lines).zip(&own) {
            for (field, value) in sample.fields.as_object().unwrap() {
                let value = in_version(format, value);
                assert_eq!(event["fields"][field], value, "{format}: {field} of {}", sample.name);
                assert_eq!(own["fields"][field], value, "{format}: {field} of {}", sample.name);
            }
        }
    }
}

/// A value in the form of a version. Text has no NUL. In version 4 lists are text.
fn in_version(format: &str, value: &Value) -> Value {
    match value {
        Value::String(text) => text.replace('\0', "\u{fffd}").into(),
        Value::Array(_) if format == "v4" => as_text(value).into(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), in_version(format, value))).collect()
        }
        other => other.clone(),
    }
}

/// An element of a list, as version 4 spells it.
fn as_text(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Array(list) => format!("[{}]", joined(list.iter().map(as_text).collect())),
        // A GUID is not text there.
        Value::String(text) if text.len() == 36 && text.matches('-').count() == 4 => text.clone(),
        Value::String(text) => format!("\"{text}\""),
        Value::Object(fields) => match fields.iter().collect::<Vec<_>>()[..] {
            // Version 6 wraps a list, or 128 bits, in an object when it is an element of a list.
            [(name, list)] if name == "items" || name == "value" => as_text(list),
            [(high, above), (low, below)] if high == "high" && low == "low" && *above == 0 => {
                as_text(below)
            }
            ref fields => {
                let mut fields = fields.to_vec();
                fields.sort_by_key(|(name, _)| name.to_lowercase());
                let parts =
                    fields.iter().map(|(name, value)| format!("{name}: {}", as_text(value)));
                format!("{{{}}}", joined(parts.collect()))
            }
        },
        other => other.to_string(),
    }
}

/// Checks with our reader what the reference reader does not show.
#[test]
fn descriptions_labels_and_stacks_are_there() {
    let directory = directory();
    let trace = directory.path().join("all.nettrace");
    all_types(false, &trace);
    let mut reader = Reader::new(BufReader::new(open(&trace))).unwrap().sorted();
    let mut stacks = Vec::new();
    let mut kinds = std::collections::HashSet::new();
    while let Some(event) = reader.next_event().unwrap() {
        kinds.extend(event.labels().iter().map(std::mem::discriminant::<Label>));
        stacks.extend(event.stack().map(|stack| stack.addresses().collect::<Vec<_>>()));
        if event.metadata().name == RELATED {
            let (about, by) = (event.thread(), &event.capture_thread().thread);
            assert_ne!(about.os_thread_id, by.os_thread_id);
            assert_eq!(about.name.as_deref(), Some("main"));
        }
    }
    assert_eq!(kinds.len(), 10, "every kind of label");
    assert_eq!(stacks, [ADDRESSES]);

    let described = reader.metadata().iter().find(|metadata| metadata.name == "Described").unwrap();
    assert_eq!(described.event_id, 7);
    assert_eq!((described.version, described.level, described.opcode), (3, 3, Some(42)));
    assert_eq!(described.keywords, 0x8000_0000_0001);
    assert_eq!(described.message_template.as_deref(), Some("{Größe} took {micros} µs"));
    let description = "An event type with every attribute.";
    assert_eq!(described.description.as_deref(), Some(description));
    let guid = [
        0x67, 0x45, 0x23, 0x01, 0xab, 0x89, 0xef, 0xcd, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
    ];
    assert_eq!(described.provider_guid, Some(guid));
    let pairs = [("team", "checkout"), ("språk", "svenska")].map(|(k, v)| (k.into(), v.into()));
    let (own, place) = described.key_values.split_at(pairs.len());
    assert_eq!(own, pairs);
    let keys: Vec<_> = place.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["module", "file", "line"]);
    assert_eq!(&*place[0].1, "examples::types::descriptions");
    let trace = reader.trace();
    assert_eq!(trace.value("Überschrift"), Some(types::MIXED));
}

#[test]
fn the_older_reader_opens_what_is_portable() {
    let directory = directory();
    let trace = directory.path().join("portable.nettrace");
    let ran = all_types(true, &trace);
    assert_holds(&trace, ran.number("written"), 0);
    dotnet_trace_opens(&trace);
}

fn all_types(portable: bool, trace: &std::path::Path) -> Ran {
    let args: &[&str] = if portable { &["--portable"] } else { &[] };
    let ran = run(ALL_TYPES, args, trace).well().balanced();
    assert_eq!(ran.number("written"), types::samples(portable).len() as u64 + 1);
    assert_eq!(ran.numbers["dropped"], json!(0));
    ran
}
