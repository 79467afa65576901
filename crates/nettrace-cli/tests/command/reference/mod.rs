//! Translates the command's output to that of the reference reader.
//!
//! The command shows what is in the file. The reference shows some of it differently: ids with
//! fewer bits, names with opcodes, losses in 32 signed bits. Only the tests that compare both know
//! these differences, not the command. What the command does not show at all is read with
//! `nettrace-reader`. An example is the name of a type whose opcode a label overrides.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use std::collections::HashMap;

use nettrace_reader::{Event, Metadata, Options, Totals, Trace};
use serde_json::{Map, Value, json};

use crate::program::strict_json;

/// Calls `show` for every event of a trace, in the order of time.
pub fn each_event(bytes: &[u8], mut show: impl FnMut(&Event<'_>)) -> (Trace, Totals, bool) {
    // The names of the stream.
    let mut reader = Options::default().runtime_events(false).open(bytes).unwrap().sorted();
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => show(&event),
            end => break end.is_ok(),
        }
    };
    (reader.trace().clone(), reader.totals().clone(), end)
}

/// The parts of one event that the reference shows differently.
#[derive(Clone, Debug)]
pub struct View {
    name: String,
    id: u16,
    process: i32,
    thread: i32,
    processor: u8,
    milliseconds: f64,
    has_label_list: bool,
}

/// The views of a trace's events, in the order of time.
pub fn views(bytes: &[u8]) -> Vec<View> {
    let major = Options::default().open(bytes).unwrap().major_version();
    // For an event without a processor, the reference shows that of the last event of its type.
    let mut processors = HashMap::new();
    let mut views = Vec::new();
    each_event(bytes, |event| {
        let header = event.header;
        // Before version 6, the reference shows no processor for an event about another thread than
        // the one that recorded it.
        let is_of_another = major < 6 && header.thread != header.capture_thread;
        let last = processors.entry(header.metadata_id).or_insert(0);
        if header.processor != u32::MAX && !is_of_another {
            *last = header.processor as u8;
        }
        let process = event.thread().process_id.map_or_else(
            || event.trace().value("ProcessId").and_then(|id| id.parse().ok()).unwrap_or(0),
            |id| id as i32,
        );
        views.push(View {
            name: name(event.metadata(), event.opcode()),
            id: event.metadata().event_id as u16,
            process,
            thread: event.thread().os_thread_id.map_or(-1, |id| id as i32),
            processor: *last,
            milliseconds: event.trace().milliseconds(header.timestamp),
            has_label_list: header.label_list != 0,
        });
    });
    views
}

/// A line of `nettrace headers`, translated.
pub fn header_line(ours: &str, view: &View) -> String {
    let mut columns: Vec<String> = ours.split('\t').map(str::to_owned).collect();
    assert_eq!(columns.len(), 11, "{ours}");
    columns[1] = view.id.to_string();
    columns[6] = view.thread.to_string();
    columns[7] = view.processor.to_string();
    // Our value is exact. The reference computes with floating-point numbers, and begins at 0.
    let exact: f64 = columns[8].parse().unwrap();
    assert!((exact.max(0.0) - view.milliseconds).abs() <= 1e-6 * exact.abs().max(2.0), "{ours}");
    columns[8] = format!("{:.4}", view.milliseconds);
    columns.join("\t")
}

/// A line of `nettrace dump --json`, translated. The order of labels may differ.
pub fn event_object(ours: &Value, view: &View) -> Value {
    let ours = ours.as_object().unwrap();
    let levels = ["LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose"];
    let level = ours["level"].as_str().unwrap();
    let level = levels
        .iter()
        .position(|name| *name == level)
        .map_or_else(|| level.parse().unwrap(), |level| level as u64);
    let exact = ours["since_start_ns"].as_i64().unwrap() as f64 / 1e6;
    let milliseconds = view.milliseconds;
    assert!((exact.max(0.0) - milliseconds).abs() <= 1e-6 * exact.abs().max(2.0), "{ours:?}");
    let mut out = json!({
        "provider": ours["provider"],
        "name": view.name,
        "id": view.id,
        "version": ours["version"],
        "level": level,
        "keywords": ours["keywords"],
        "opcode": ours["opcode"],
        "process": view.process,
        "thread": view.thread,
        "cpu": view.processor,
        "ticks": ours["ticks"].as_u64().unwrap() as i64,
        "ms": four_decimals(milliseconds),
        "payload_bytes": ours["payload_bytes"],
        "fields": fields(ours["fields"].as_object().unwrap(), true),
    });
    if is_of_runtime(ours["provider"].as_str().unwrap(), &view.name) {
        out["fields"] = json!({});
    }
    let none = Map::new();
    let labels = ours.get("labels").map_or(&none, |labels| labels.as_object().unwrap());
    for (key, label) in [("activity", "ActivityId"), ("related", "RelatedActivityId")] {
        if let Some(id) = last_of(labels, label) {
            if id != "00000000-0000-0000-0000-000000000000" {
                out[key] = id.clone();
            }
        }
    }
    if view.has_label_list {
        out["labels"] = label_pairs(labels);
    }
    out
}

/// Whether an event has fields only in the command's table of the .NET runtime's events. The
/// reference decodes them by parsers that `judge` does not use.
fn is_of_runtime(provider: &str, name: &str) -> bool {
    let providers = ["Microsoft-Windows-DotNETRuntime", "Microsoft-DotNETCore-SampleProfiler"];
    let is_unnamed = name.starts_with("EventID(") || name == "EventWriteString";
    is_unnamed && providers.iter().any(|it| provider.starts_with(it))
}

/// If two labels mean the same, the last one counts.
fn last_of<'a>(labels: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let later = (2..).map_while(|number| labels.get(&format!("{name}#{number}"))).last();
    later.or_else(|| labels.get(name))
}

/// Labels as sorted pairs.
fn label_pairs(labels: &Map<String, Value>) -> Value {
    let own = [
        "ActivityId",
        "RelatedActivityId",
        "TraceId",
        "SpanId",
        "OpCode",
        "Keywords",
        "Level",
        "Version",
    ];
    let mut pairs = Vec::new();
    for name in own {
        let Some(value) = last_of(labels, name) else { continue };
        pairs.push(match name {
            "TraceId" => json!([name, as_guid(value.as_str().unwrap())]),
            "SpanId" => {
                let id = u64::from_str_radix(value.as_str().unwrap(), 16).unwrap();
                json!([name, id as i64])
            }
            _ => json!([name, value]),
        });
    }
    for (name, value) in labels {
        let base = base_name(name, labels);
        if !own.contains(&base) {
            pairs.push(json!([base, value]));
        }
    }
    sorted(pairs)
}

/// The name without the number that makes it unique.
fn base_name<'a>(name: &'a str, object: &Map<String, Value>) -> &'a str {
    match name.split_once('#') {
        Some((base, number)) if number.parse::<u32>().is_ok() && object.contains_key(base) => base,
        _ => name,
    }
}

/// A JSON object does not keep the order of labels, so compare them sorted.
pub fn sorted(mut pairs: Vec<Value>) -> Value {
    pairs.sort_by_key(Value::to_string);
    Value::Array(pairs)
}

/// Sixteen bytes in hexadecimal digits, in the form in which the reference shows a trace id.
fn as_guid(hex: &str) -> String {
    assert_eq!(hex.len(), 32);
    let byte = |i: usize| &hex[2 * i..2 * i + 2];
    let group = |bytes: &[usize]| bytes.iter().map(|i| byte(*i)).collect::<String>();
    [
        group(&[3, 2, 1, 0]),
        group(&[5, 4]),
        group(&[7, 6]),
        group(&[8, 9]),
        group(&[10, 11, 12, 13, 14, 15]),
    ]
    .join("-")
}

/// If two fields of a payload have the same name, the reference marks the second one with an
/// apostrophe. Within an object it shows only the first.
fn fields(ours: &Map<String, Value>, is_payload: bool) -> Value {
    let mut out = Map::new();
    for (name, value) in ours {
        let value = match value {
            Value::Object(object) => fields(object, false),
            Value::Array(values) => {
                let within = |value: &Value| match value {
                    Value::Object(object) => fields(object, false),
                    value => value.clone(),
                };
                values.iter().map(within).collect()
            }
            value => value.clone(),
        };
        let base = base_name(name, ours);
        if base == name {
            out.insert(name.clone(), value);
        } else if is_payload {
            let number: usize = name[base.len() + 1..].parse().unwrap();
            out.insert(format!("{base}{}", "'".repeat(number - 1)), value);
        }
    }
    Value::Object(out)
}

/// Rounds to four decimals, ties to even.
fn four_decimals(value: f64) -> f64 {
    if value.abs() < 1e16 { (value * 1e4).round_ties_even() / 1e4 } else { value }
}

/// Whether both are the same. Numbers are compared by value, because the reference writes 1 for
/// 1.0.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && is_same(a, b))
        }
        (a, b) => a == b,
    }
}

/// The totals that both state, from the last line of the reference.
pub fn reference_totals(line: &str) -> Vec<(String, String)> {
    let words = line.split(' ').filter_map(|word| word.split_once('='));
    let both = ["events", "lost", "payload_bytes", "unsorted", "ptr", "start"];
    words
        .filter(|(key, _)| both.contains(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The same totals from the summary of the command.
pub fn our_totals(line: &str) -> Vec<(String, String)> {
    let renamed = line.replace("pointer_bytes=", "ptr=");
    let mut totals = reference_totals(&renamed);
    for (key, value) in &mut totals {
        if key == "lost" {
            *value = (value.parse::<u64>().unwrap() as i32).to_string();
        }
    }
    totals
}

/// Compares what the command printed, and its line about all events together, with what the
/// reference printed for `headers` or `events`. Returns how many events there are.
pub fn assert_same_output(
    name: &str,
    reference: &str,
    (ours, our_summary): (&str, &str),
    theirs: &str,
    views: &[View],
) -> usize {
    let shown: Vec<_> = ours.lines().collect();
    let mut expected: Vec<_> = theirs.lines().collect();
    let totals = reference_totals(expected.pop().unwrap());
    for ((line, expected), view) in shown.iter().zip(&expected).zip(views) {
        if reference == "headers" {
            assert_eq!(header_line(line, view), *expected, "{name}");
            continue;
        }
        let shown = event_object(&strict_json(line), view);
        let mut expected: Value = serde_json::from_str(expected).unwrap();
        if let Some(labels) = expected.get_mut("labels") {
            *labels = sorted(labels.as_array().unwrap().clone());
        }
        assert!(is_same(&shown, &expected), "{name}\n{shown}\n{expected}");
    }
    assert_eq!(shown.len(), expected.len(), "{name} {reference}");
    assert_eq!(shown.len(), views.len(), "{name} {reference}");
    assert_eq!(our_totals(our_summary), totals, "{name} {reference}");
    shown.len()
}

/// The opcode of a type, which applies unless a label overrides it.
pub fn type_opcode(metadata: &Metadata) -> u8 {
    metadata.opcode.unwrap_or_else(|| implied_opcode(&metadata.name))
}

/// The name that the reference displays: without a suffix that states the opcode, and with the
/// opcode after it.
pub fn name(metadata: &Metadata, opcode: u8) -> String {
    let name = &metadata.name;
    if name.is_empty() {
        // The reference takes an event without id or name for a plain text message.
        if metadata.event_id as u16 == 0 {
            return "EventWriteString".to_owned();
        }
        return format!("EventID({})", metadata.event_id as u16);
    }
    let own = type_opcode(metadata);
    let base = match own {
        1 => strip_suffix(name, "start").unwrap_or(name),
        2 => strip_suffix(name, "stop").unwrap_or(name),
        _ => name,
    };
    // The reference has two lists of words: one for the opcode of a type, one for that of a label.
    let words = if opcode == own { TYPE_OPCODES } else { LABEL_OPCODES };
    match (opcode, words.get(usize::from(opcode))) {
        (0, _) => base.to_owned(),
        (_, Some(word)) => format!("{base}/{word}"),
        (_, None) if opcode == own => format!("{base}/{opcode}"),
        (_, None) => format!("{base}/Opcode({opcode})"),
    }
}

const TYPE_OPCODES: [&str; 10] = [
    "Info",
    "Start",
    "Stop",
    "DataCollectionStart",
    "DataCollectionStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Transfer",
];

const LABEL_OPCODES: [&str; 10] = [
    "Info",
    "Start",
    "Stop",
    "DCStart",
    "DCStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Send",
];

fn implied_opcode(name: &str) -> u8 {
    if strip_suffix(name, "start").is_some() {
        1
    } else if strip_suffix(name, "stop").is_some() {
        2
    } else {
        0
    }
}

fn strip_suffix<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let at = name.len().checked_sub(suffix.len())?;
    let (base, end) = name.split_at_checked(at)?;
    end.eq_ignore_ascii_case(suffix).then_some(base)
}
