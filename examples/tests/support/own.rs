//! The results of our reader for a trace, in the form of the reference reader.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use nettrace_reader::{Event, Reader, Value, heph, verify};
use serde_json::{Map, json};

use super::open;

/// What our reader finds in a trace.
pub(crate) struct Own {
    pub(crate) events: u64,
    pub(crate) lost: u64,
}

/// Whether the trace is in the Heph format, which the reference reader does not know.
pub(crate) fn is_heph(trace: &Path) -> bool {
    let mut first = Vec::new();
    open(trace).take(4).read_to_end(&mut first).unwrap();
    heph::is_heph(&first)
}

/// Reads a trace to its end, and asserts that the trace is sound.
pub(crate) fn read(trace: &Path) -> Own {
    if is_heph(trace) {
        let source = BufReader::new(open(trace));
        let report = heph::verify(source, heph::Options::default(), 5).unwrap();
        assert!(report.is_sound(), "{}: {:#?}", trace.display(), report.violations);
        return Own { events: report.events, lost: report.lost };
    }
    let report = verify(open(trace)).unwrap();
    assert!(report.is_sound(), "{}: {:#?}", trace.display(), report.violations);
    let mut events = Reader::new(BufReader::new(open(trace))).unwrap();
    while events.next_event().unwrap().is_some() {}
    let own = Own { events: events.totals().events, lost: events.totals().lost };
    assert_eq!((own.events, own.lost), (report.events, report.lost), "reader and verifier");
    own
}

/// All events, in the order of time; for a Heph trace, in the order of the file.
pub(crate) fn own_events(trace: &Path) -> Vec<serde_json::Value> {
    if is_heph(trace) {
        return heph_events(trace);
    }
    let mut reader = Reader::new(BufReader::new(open(trace))).unwrap().sorted();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(object(&event));
    }
    events
}

fn heph_events(trace: &Path) -> Vec<serde_json::Value> {
    let mut reader = heph::Reader::new(BufReader::new(open(trace)));
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let attributes = event.attributes().map(|attribute| attribute.unwrap());
        let fields: Map<_, _> =
            attributes.map(|(name, value)| (name.to_owned(), heph_value(&value))).collect();
        events.push(json!({
            "description": event.description,
            "thread": event.stream,
            "number": event.counter,
            "start": event.start,
            "end": event.end,
            "fields": fields,
        }));
    }
    events
}

fn heph_value(value: &heph::Value<'_>) -> serde_json::Value {
    match value {
        heph::Value::U64(value) => json!(value),
        heph::Value::I64(value) => json!(value),
        heph::Value::F64(value) => float(*value),
        heph::Value::Text(text) => json!(text),
        heph::Value::Array(values) => values.iter().map(|value| heph_value(&value)).collect(),
        other => panic!("an unknown value {other:?}"),
    }
}

fn object(event: &Event<'_>) -> serde_json::Value {
    let fields: Map<_, _> = event
        .fields()
        .map(|field| field.unwrap())
        .map(|(name, value)| (name.to_owned(), shown(&value)))
        .collect();
    json!({
        "provider": event.metadata().provider,
        "metadata_name": event.metadata().name,
        "id": event.metadata().event_id,
        "version": event.version(),
        "level": event.level(),
        "keywords": event.keywords(),
        "process": event.thread().process_id,
        "thread": event.thread().os_thread_id,
        "ticks": event.header.timestamp,
        "payload_bytes": event.payload.len(),
        "fields": fields,
    })
}

fn float(value: f64) -> serde_json::Value {
    match value {
        // The reference reader writes such numbers without a decimal point.
        value if value.fract() == 0.0 && value.abs() < 1e15 => json!(value as i64),
        value if value.is_finite() => json!(value),
        value if value.is_nan() => json!("NaN"),
        value => json!(if value > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

fn shown(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Bool(value) => json!(value),
        Value::Utf16CodeUnit(unit) => json!(String::from_utf16_lossy(&[*unit])),
        Value::Utf8CodeUnit(unit) => json!(char::from(*unit).to_string()),
        Value::I8(value) => json!(value),
        Value::U8(value) => json!(value),
        Value::I16(value) => json!(value),
        Value::U16(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::U64(value) => json!(value),
        Value::F32(value) => float(f64::from(*value)),
        Value::F64(value) => float(*value),
        Value::FileTime(ticks) => json!(date_time(*ticks as i64)),
        Value::Guid(bytes) => json!(guid(bytes)),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes),
        Value::Array(values) => values.iter().map(shown).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), shown(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => panic!("an unknown value {other:?}"),
    }
}

/// The first three groups of a GUID are little-endian.
fn guid(bytes: &[u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (at, byte) in ORDER.iter().map(|&at| bytes[at]).enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Formats 100 ns units since 1601, for times from 1970 on, in .NET's round-trip form.
fn date_time(ticks: i64) -> String {
    const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
    const DAY: i64 = 864_000_000_000;
    let since = ticks - UNIX_EPOCH;
    let (mut days, rest) = (since.div_euclid(DAY), since.rem_euclid(DAY));
    let mut year = 1970;
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let february = 28 + i64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (seconds, fraction) = (rest / 10_000_000, rest % 10_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!(
        "{year:04}-{:02}-{:02}T{hours:02}:{minutes:02}:{:02}.{fraction:07}Z",
        month + 1,
        days + 1,
        seconds % 60
    )
}
