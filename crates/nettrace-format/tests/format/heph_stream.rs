//! A whole Heph trace as a session writes it: types, threads, sequence numbers, and losses.

use crate::heph_support::{field, payload, role, schema};
use nettrace_event::{EventSchema, FieldRole, FieldSchema, FieldType, PayloadEncoder, StrEncoding};
use nettrace_format::{
    FormatError,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    heph::{PADDING, Stream, padding},
    payload::Refusal,
};
use nettrace_reader::heph::{Options, Reader, Value, verify};

const FIELDS: &[FieldSchema] = &[field("text", FieldType::Str(StrEncoding::Utf16))];
static SALE: EventSchema = schema("Sale", FIELDS);
static BEAT: EventSchema = schema("Beat", &[]);
static BAD: EventSchema = schema("Bad", &[role("at", FieldType::Bool, FieldRole::Start)]);

const INFO: TraceInfo<'_> = TraceInfo {
    sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_123),
    sync_ticks: 1_000,
    ticks_per_second: 100_000_000,
    pointer_size: 8,
    key_values: &[("ProcessId", "1")],
};

fn begun() -> (Stream, Vec<u8>) {
    let (mut stream, mut out) = (Stream::new(), Vec::new());
    stream.begin(&INFO, &mut out).unwrap();
    stream.define(&[(3, &SALE), (1, &BEAT)]).unwrap();
    (stream, out)
}

fn beat(thread: u64, sequence: u32) -> RowHeader {
    RowHeader {
        metadata_id: 1,
        sequence,
        capture_thread: thread,
        thread,
        processor: u32::MAX,
        timestamp: 1_000 + u64::from(sequence),
        ..RowHeader::default()
    }
}

#[test]
fn rows_become_packets() {
    let (mut stream, mut out) = begun();
    let worker = ThreadInfo { index: 9, name: Some("worker"), ..ThreadInfo::default() };
    stream.thread(&worker);
    let header = RowHeader { metadata_id: 3, thread: 4, processor: 0, ..beat(9, 1) };
    let text = payload(|e| e.str("hello", StrEncoding::Utf16));
    stream.row(&header, &[Label::Int("k", 1)], &[5, 6], &text, &mut out).unwrap();
    stream.row(&beat(9, 2), &[], &[], &[], &mut out).unwrap();
    stream.row(&beat(4, 1), &[], &[], &[], &mut out).unwrap();
    // A thread with a name, one whose name is known from the events about it, and one without a
    // name.
    stream.subject(8, "idler");
    for (subject, sequence) in [(9, 2), (8, 3), (7, 4)] {
        let header = RowHeader { thread: subject, ..beat(4, sequence) };
        stream.row(&header, &[], &[], &[], &mut out).unwrap();
    }
    stream.forget_subjects();
    stream.row(&RowHeader { thread: 8, ..beat(4, 5) }, &[], &[], &[], &mut out).unwrap();

    let mut reader = Reader::new(&*out);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.stream, event.counter, event.start, event.end), (9, 1, 10, 10));
    let attributes: Vec<_> = event.attributes().map(Result::unwrap).skip(4).collect();
    let names: Vec<_> = attributes.iter().map(|(name, _)| *name).collect();
    let expected = ["@thread", "@subject", "@processor", "@stack", "@label.k", "text"];
    assert_eq!(names, expected);
    assert_eq!(attributes[0].1, Value::Text("worker"));
    assert_eq!(attributes[1].1, Value::U64(4));
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.stream, event.counter, event.description), (9, 2, "Beat"));
    assert_eq!(event.attributes().count(), 5);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.stream, event.attributes().count()), (4, 4));
    let mut subjects = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let mut subject = (0, String::new());
        for (name, value) in event.attributes().map(Result::unwrap) {
            match (name, value) {
                ("@subject", Value::U64(stream)) => subject.0 = stream,
                ("@subject_thread", Value::Text(name)) => subject.1 = name.to_owned(),
                _ => {}
            }
        }
        subjects.push(subject);
    }
    let expected = [(9, "worker"), (8, "idler"), (7, ""), (8, "")];
    assert_eq!(subjects, expected.map(|(stream, name)| (stream, name.to_owned())));
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.epoch(), Some(1_700_000_000_123_000_000));
    assert_eq!((reader.totals().lost, reader.totals().packets), (0, 8));
}

/// The reader counts as many losses as there were, wherever they occurred.
#[test]
fn every_loss_is_told() {
    let (mut stream, mut out) = begun();
    let lost = |out: &[u8]| {
        let report = verify(out, Options::default(), 5).unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        (report.events, report.lost)
    };
    stream.row(&beat(1, 4), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (1, 3)); // before the first
    stream.row(&beat(1, 6), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (2, 4)); // between
    stream.numbers([(1, 8), (2, 0)], &mut out).unwrap();
    assert_eq!(lost(&out), (2, 6)); // behind the last
    stream.numbers([(1, 8)], &mut out).unwrap();
    stream.row(&beat(1, 9), &[], &[], &[], &mut out).unwrap();
    stream.numbers([(1, 9), (1, 5)], &mut out).unwrap();
    assert_eq!(lost(&out), (3, 6)); // told once
    stream.remove_threads([(1, 10), (3, 7)], &mut out).unwrap();
    assert_eq!(lost(&out), (3, 14)); // one that has no event at all
    // An event that cannot be written counts as missing, too.
    let long = payload(|e| e.str(&"€".repeat(30_000), StrEncoding::Utf16));
    let header = RowHeader { metadata_id: 3, ..beat(5, 1) };
    let before = out.len();
    let refusal = stream.row(&header, &[], &[], &long, &mut out).unwrap_err();
    assert_eq!((refusal, out.len()), (Refusal::PayloadTooLarge, before));
    stream.row(&beat(5, 2), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (4, 15));
    // Sequence numbers continue after the last loss.
    stream.row(&beat(6, u32::MAX), &[], &[], &[], &mut out).unwrap();
    let (_, many) = lost(&out);
    assert_eq!(many, 15 + u64::from(u32::MAX) - 1);
    // Later than the epoch, as all events of a writer are.
    let wrapped = RowHeader { timestamp: 1_001, ..beat(6, 0) };
    stream.row(&wrapped, &[], &[], &[], &mut out).unwrap();
    stream.row(&beat(6, 1), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (7, many));
    // So many are missing that the counter seems to go back.
    let far = 2_u32.pow(31) + 7;
    stream.row(&beat(6, far), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (8, many + u64::from(far) - 2));
    stream.row(&beat(6, far + 2), &[], &[], &[], &mut out).unwrap();
    assert_eq!(lost(&out), (9, many + u64::from(far) - 1));
}

#[test]
fn padding_says_nothing() {
    let (mut stream, mut out) = begun();
    for size in [PADDING as u32, 4_096] {
        let end = out.len() + size as usize;
        out.extend(padding(size));
        // Whatever bytes were there before.
        out.resize(end, 0xC1);
    }
    stream.row(&beat(1, 1), &[], &[], &[], &mut out).unwrap();
    let report = verify(&*out, Options::default(), 5).unwrap();
    assert!(report.is_sound() && report.lost == 0, "{:?}", report.violations);
    assert_eq!((report.events, report.packets), (1, 4));
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut stream, mut out) = begun();
    let before = out.len();
    let error = stream.define(&[(5, &BAD)]).unwrap_err();
    assert_eq!(error, FormatError::HephTime { field: "at" });
    // An undefined type, a thread beyond the format's limit, a payload of another type.
    for header in [
        RowHeader { metadata_id: 2, ..beat(1, 1) },
        RowHeader { metadata_id: 99, ..beat(1, 1) },
        beat(1 << 32, 1),
        RowHeader { thread: 1 << 32, ..beat(1, 1) },
        RowHeader { metadata_id: 3, ..beat(1, 1) },
    ] {
        stream.row(&header, &[], &[], &[], &mut out).unwrap_err();
        assert_eq!(out.len(), before);
    }
    let error = stream.numbers([(1, 1), (1 << 32, 1)], &mut out).unwrap_err();
    assert_eq!(error, FormatError::HephStream { thread: 1 << 32 });
    assert_eq!(out.len(), before);
    // A new trace starts without types.
    stream.begin(&INFO, &mut out).unwrap();
    stream.row(&beat(1, 1), &[], &[], &[], &mut out).unwrap_err();
}
