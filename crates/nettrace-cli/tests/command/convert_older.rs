//! Conversions to versions 4 and 5, and to Heph, of traces whose form those do not share: readers
//! must find the same events, threads, types and losses in the result.

use nettrace_reader::{Event, Reader};
use testkit::{
    reference::{Trace, ask, judged},
    streams::{EventType, Row, Stream, utf16z},
};

use crate::convert_support::{convert, events, is_sound, lost};

/// The byte of a type code.
const UTF16_NUL: u8 = 18;
const INT32: u8 = 9;

/// Threads with these indices and ids of the operating system.
fn with_threads(stream: &mut Stream, threads: &[(u8, u8)]) {
    threads.iter().for_each(|(index, id)| _ = stream.thread_row(&[*index, 3, *id]));
}

/// Asserts that our reader and the reference reader find these events in order, and no loss.
#[track_caller]
fn assert_whole(name: &str, trace: &[u8], count: u64) {
    assert!(is_sound(trace), "{name}");
    assert_eq!((events(trace, |_, _| String::new()).len() as u64, lost(trace)), (count, 0));
    if let Some(verdict) = judged(trace) {
        verdict.assert_holds(count, 0);
    }
}

/// A block that several threads share without a mark is legal in version 6. Readers of the older
/// versions take its numbers for those of one thread.
#[test]
fn threads_that_share_a_block() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    with_threads(&mut stream, &[(5, 100), (6, 101)]);
    let row = |thread, number, time| Row::new(thread, number, time).payload(&[1, 0, 0, 0]);
    stream.events(&[row(5, 1, 1000), row(6, 1, 1001), row(6, 2, 1002), row(5, 2, 1003)]);
    // These are marked where the thread changes.
    stream.events(&[row(5, 3, 1010).sorted(), row(6, 3, 1011).sorted(), row(5, 4, 1012).sorted()]);
    // Further on the row with the mark is too large, so the next one is the first of its thread.
    let large = row(6, 5, 1031).sorted().payload(&[0; 1 << 16]);
    let whole = stream.events(&[row(5, 5, 1020), row(6, 4, 1021)]).end();
    for to in ["v5", "v4", "v6"] {
        assert_whole(to, &convert(&whole, to).0, 9);
    }
    stream.events(&[row(5, 6, 1030), large, row(6, 6, 1032), row(5, 7, 1033)]);
    let cut = stream.end();
    for to in ["v5", "v4"] {
        let (converted, said) = convert(&cut, to);
        assert!(said.contains("1 events whose payload would be too large"), "{said}");
        assert!(is_sound(&converted), "{to}");
        assert_eq!(lost(&converted), 1, "{to}");
        if let Some(verdict) = judged(&converted) {
            verdict.assert_holds(12, 1);
        }
    }
}

/// A Heph trace has the events of all threads in one row, in the order of time.
#[test]
fn threads_of_a_heph_trace() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    with_threads(&mut stream, &[(5, 100), (6, 101), (7, 102)]);
    for round in 0..3_000 {
        // Two events of each time.
        let row = |thread| Row::new(thread, round + 1, 1000 + u64::from(round / 2));
        let rows = [5, 6, 7].map(|thread| row(thread).payload(&[1, 0, 0, 0]));
        rows.iter().for_each(|row| _ = stream.events(std::slice::from_ref(row)));
    }
    let (heph, _) = convert(&stream.end(), "heph");
    for to in ["v5", "v4", "v6"] {
        let (converted, said) = convert(&heph, to);
        assert_whole(to, &converted, 9_000);
        // A block takes some 60 bytes, so one for each event would be three times as much.
        assert!(converted.len() < 9_000 * 40, "{to}: {} bytes: {said}", converted.len());
    }
}

/// What an event is about, as the reference reader shows it.
fn reference_lines(trace: &[u8]) -> Option<Vec<serde_json::Value>> {
    let verdict = ask(&["events"], Trace::Bytes(trace))?;
    let lines = verdict.assert_accepted().lines.iter().filter(|line| line.starts_with('{'));
    Some(lines.map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn shown(event: &Event<'_>, _: u32) -> String {
    let metadata = event.metadata();
    let fields: Vec<_> = event.fields().map(|field| format!("{:?}", field.unwrap().1)).collect();
    format!("{} {}: {}", metadata.name, metadata.event_id, fields.join(" "))
}

/// Behind a flush of metadata, version 6 can give an event id to another type. The older versions
/// have no flush.
#[test]
fn an_event_id_of_two_types() {
    let mut stream = Stream::new();
    stream.thread(5).metadata(&EventType::new(1, "P", 7, "Old").field("n", &[INT32]));
    let old = Row::new(5, 1, 1000).payload(&[1, 0, 0, 0]);
    stream.events(&[old]).sequence_point(1010, 2, &[(5, 1)]);
    stream.metadata(&EventType::new(1, "P", 7, "New").field("s", &[UTF16_NUL]));
    // The same type as before under another metadata id is no other type.
    stream.metadata(&EventType::new(2, "P", 7, "Old").field("n", &[INT32]));
    // And one of another provider is not confused with it.
    stream.metadata(&EventType::new(3, "Q", 7, "New").field("s", &[UTF16_NUL]));
    let rows = [
        Row::new(5, 2, 1020).payload(&utf16z("new")),
        Row::new(5, 3, 1021).metadata(2).payload(&[2, 0, 0, 0]),
        Row::new(5, 4, 1022).metadata(3).payload(&utf16z("other")),
    ];
    let bytes = stream.events(&rows).end();
    for to in ["v5", "v4"] {
        let (converted, said) = convert(&bytes, to);
        let changed = "1 event ids that other types have too, which were changed";
        assert!(said.contains(changed), "{to}: {said}");
        assert_whole(to, &converted, 4);
        let expected =
            ["Old 7: I32(1)", "New 1001: Text(\"new\")", "Old 7: I32(2)", "New 7: Text(\"other\")"];
        assert_eq!(events(&converted, shown), expected, "{to}");
        let Some(lines) = reference_lines(&converted) else { continue };
        let fields: Vec<_> = lines.iter().map(|line| line["fields"].to_string()).collect();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        assert_eq!(fields, [r#"{"n":1}"#, r#"{"s":"new"}"#, r#"{"n":2}"#, r#"{"s":"other"}"#]);
    }
}

/// The field of the formats has 32 bits, or 64.
#[test]
fn an_event_id_beyond_sixteen_bits() {
    let mut stream = Stream::new();
    stream.thread(5).metadata(&EventType::new(1, "P", 70_000, "Far").field("n", &[INT32]));
    stream.metadata(&EventType::new(2, "P", 4_464, "Near").field("n", &[INT32]));
    let row = |number| Row::new(5, number, 1000 + u64::from(number)).payload(&[1, 0, 0, 0]);
    let bytes = stream.events(&[row(1), row(2).metadata(2)]).end();
    for to in ["v6", "v5", "v4", "heph"] {
        let (converted, said) = convert(&bytes, to);
        assert!(!said.contains("event ids"), "{to}: {said}");
        let (v6, _) = convert(&converted, "v6");
        assert_eq!(events(&v6, shown).len(), 2, "{to}");
        let ids = |event: &Event<'_>, _| event.metadata().event_id.to_string();
        assert_eq!(events(&v6, ids), ["70000", "4464"], "{to}");
    }
}

/// An event about a thread names it by its id in the operating system, although another thread of
/// the result records under that id.
#[test]
fn the_thread_that_an_event_is_about() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    // Thread 7 is the same as 5 to the operating system, as a session of version 6 writes it if an
    // event is about a thread that ends. Thread 8 is another one with the id of 6.
    with_threads(&mut stream, &[(5, 100), (6, 101), (7, 100), (8, 101)]);
    let row = |thread, number, time| Row::new(thread, number, time).payload(&[1, 0, 0, 0]);
    stream.events(&[row(5, 1, 1000)]).events(&[
        row(6, 1, 1001),
        Row { thread: 7, ..row(6, 2, 1002) },
        Row { thread: 5, ..row(6, 3, 1003) },
    ]);
    stream.events(&[row(8, 1, 1004)]);
    let bytes = stream.end();
    for to in ["v5", "v4"] {
        let (converted, said) = convert(&bytes, to);
        assert_whole(to, &converted, 5);
        let about = |event: &Event<'_>, _| event.header.thread.to_string();
        assert_eq!(events(&converted, about), ["100", "101", "100", "100", "101"], "{to}");
        // Only the last thread has an id that is not its own, where it records.
        assert!(said.contains("1 ids of threads that other threads have too"), "{to}: {said}");
        let recorders = events(&converted, |event, _| event.header.capture_thread.to_string());
        assert_eq!(recorders[..4], ["100", "101", "101", "101"], "{to}");
        assert!(recorders[4].parse::<u64>().unwrap() >= 1 << 32, "{to}");
        let Some(lines) = reference_lines(&converted) else { continue };
        let threads: Vec<_> = lines.iter().map(|line| line["thread"].as_u64()).collect();
        assert_eq!(threads, [100, 101, 100, 100, 101].map(Some), "{to}");
    }
    // In version 6 nothing changes.
    let (same, _) = convert(&bytes, "v6");
    let thread = |event: &Event<'_>, _| format!("{:?}", event.thread().os_thread_id);
    assert_eq!(events(&same, thread), events(&bytes, thread));
    assert_eq!(Reader::new(&*same).unwrap().major_version(), 6);
}
