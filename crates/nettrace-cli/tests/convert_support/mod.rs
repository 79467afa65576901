//! Helpers for tests of `nettrace convert`: run the command on bytes, and show a trace as text.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use std::collections::BTreeMap;

use nettrace_reader::{Event, Item, Label, Options, Reader, Stack, Thread, Value};

use crate::program::{nettrace, stderr};

/// Converts through pipes. Returns the result and standard error.
pub fn convert(bytes: &[u8], to: &str) -> (Vec<u8>, String) {
    let output = nettrace(&["convert", "-", "-", "--to", to], bytes);
    let said = stderr(&output).to_owned();
    let is_missing = said.contains("could not be converted");
    assert_eq!(output.status.code(), Some(if is_missing { 3 } else { 0 }), "{said}");
    (output.stdout, said)
}

/// How many things were left out, according to the last line of standard error.
pub fn left_out(said: &str) -> u64 {
    let last = said.lines().find(|line| line.starts_with('#')).unwrap();
    let word = last.split(' ').find_map(|word| word.strip_prefix("left_out=")).unwrap();
    word.parse().unwrap()
}

/// Everything in a stream, in its order. How it is divided into blocks does not matter.
pub fn items(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut items = vec![format!("{:?}", reader.trace())];
    let mut sequence_points = 0;
    loop {
        let item = match reader.next_item().unwrap() {
            Some(Item::EventBlock) => continue,
            Some(Item::Event(event)) => shown(&event, event.header.sequence_number),
            // Blocks of definitions may be divided differently, too.
            Some(Item::Metadata(types)) => {
                items.extend(types.iter().map(|of| format!("{of:?}")));
                continue;
            }
            Some(Item::Threads(threads)) => {
                items.extend(threads.iter().map(|of| format!("{of:?}")));
                continue;
            }
            Some(Item::Stacks(stacks)) => {
                items.extend(stacks.iter().map(|of| format!("{of:?}")));
                continue;
            }
            Some(Item::LabelLists(lists)) => {
                items.extend(lists.map(|of| format!("{of:?}")));
                continue;
            }
            Some(Item::RemovedThreads(threads)) => {
                items.extend(threads.iter().map(|of| format!("removed {of:?}")));
                continue;
            }
            Some(item) => {
                sequence_points += u64::from(matches!(item, Item::SequencePoint(_)));
                format!("{item:?}")
            }
            None => break,
        };
        items.push(item);
    }
    assert_eq!(reader.totals().sequence_points, sequence_points);
    items
}

/// An event as text, with everything that it refers to. It does not depend on the version: what has
/// a number in the stream is shown by its content.
pub fn shown(event: &Event<'_>, sequence: u32) -> String {
    let metadata = event.metadata();
    let header = event.header;
    let stack: Option<Vec<u64>> =
        event.stack().as_ref().map(|stack| Stack::addresses(stack).collect());
    format!(
        "{} #{sequence} of {} about {} on {:#x} sorted {} stack {stack:x?} labels {:?} {}/{}/{:?} \
         v{} l{} k{:x} o{:?} message {:?} description {:?} guid {:?} keys {:?} fields {:?}: {:x?}",
        header.timestamp,
        who(&event.capture_thread().thread),
        who(event.thread()),
        header.processor,
        header.is_sorted,
        event.labels(),
        metadata.provider,
        metadata.event_id,
        metadata.name,
        metadata.version,
        metadata.level,
        metadata.keywords,
        metadata.opcode,
        metadata.message_template,
        metadata.description,
        metadata.provider_guid,
        metadata.key_values,
        metadata.fields,
        event.payload
    )
}

fn who(thread: &Thread) -> String {
    let Thread { name, process_id, os_thread_id, key_values, .. } = thread;
    format!("{name:?} {process_id:?} {os_thread_id:?} {key_values:?}")
}

/// All events of a stream in its order, formatted by `show`. `show` also gets each event's number,
/// which counts from 1 for each thread and includes lost events.
pub fn events(bytes: &[u8], mut show: impl FnMut(&Event<'_>, u32) -> String) -> Vec<String> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut seen: BTreeMap<Option<u64>, (u32, u64)> = BTreeMap::new();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let totals = event.capture_thread();
        let key = totals.thread.os_thread_id;
        let (number, lost) = seen.entry(key).or_default();
        // A thread that is introduced again has lost nothing yet.
        let missing = totals.lost.checked_sub(*lost).unwrap_or(totals.lost);
        (*number, *lost) = (number.wrapping_add(missing as u32 + 1), totals.lost);
        let number = *number;
        events.push(show(&event, number));
    }
    events
}

pub fn lost(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    reader.totals().lost
}

pub fn is_sound(bytes: &[u8]) -> bool {
    let report = nettrace_reader::verify(bytes).unwrap();
    report.violations.iter().for_each(|violation| println!("{violation}"));
    report.is_sound()
}

/// The values of an event in a form that all versions share: text without its encoding, and arrays
/// without their layout. Values that readers show alike are equal: NUL becomes U+FFFD.
pub fn values(event: &Event<'_>) -> Vec<String> {
    event
        .fields()
        .map(|field| {
            let (name, value) = field.unwrap();
            format!("{}={}", name.replace('\0', "\u{FFFD}"), plain(&value))
        })
        .collect()
}

fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => format!("{:?}", text.replace('\0', "\u{FFFD}")),
        Value::Bytes(bytes) => format!("{bytes:?}"),
        Value::Utf8CodeUnit(unit) => format!("{unit}"),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(plain).collect();
            format!("[{}]", values.join(", "))
        }
        // In our versions 4 and 5 an inner array is the only field of an object.
        Value::Object(fields) => match &fields[..] {
            [("items" | "value", value @ (Value::Array(_) | Value::Bytes(_) | Value::Text(_)))] => {
                plain(value)
            }
            fields => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", plain(value)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
        },
        value => {
            let text = format!("{value:?}");
            let number =
                text.split_once('(').map(|(_, rest)| rest.trim_end_matches(')').to_owned());
            number.unwrap_or(text)
        }
    }
}

/// Whether versions 4 and 5 can also store the label.
pub fn is_activity(label: &Label) -> bool {
    matches!(label, Label::ActivityId(_) | Label::RelatedActivityId(_))
}

/// The events of a Heph trace: stream, counter, the event's own time and attributes. A span has the
/// time of its other event, too.
pub fn heph_events(bytes: &[u8]) -> Vec<(u32, u32, u64, String)> {
    let mut reader = nettrace_reader::heph::Options::default().open(bytes);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let attributes: Vec<_> =
            event.attributes().map(|it| it.unwrap()).map(|(k, v)| format!("{k}={v:?}")).collect();
        let attributes = attributes.join(" ");
        let is_start = attributes.contains("@opcode=U64(1) ");
        let time = if is_start { event.start } else { event.end };
        events.push((event.stream, event.counter, time, attributes));
    }
    events
}

/// How many events can be read, and whether that is all of them.
pub fn read_on(bytes: &[u8], limits: Options) -> (u64, bool) {
    let mut reader = limits.open(bytes).unwrap();
    loop {
        match reader.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => return (reader.totals().events, true),
            Err(_) => return (reader.totals().events, false),
        }
    }
}
