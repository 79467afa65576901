//! A recorder keeps version 6. Its dumps have the format of the session.

use std::{thread, time::Duration};

use nettrace_event::{EventSchema, EventType};
use nettrace_writer::{Emit, Format, Keep, Past, Session, TraceEvent, sink::MemorySink, traced};
use testkit::process::one_at_a_time;

use super::LONG;
use crate::trace_support::{Hostile, schema};

#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Formats")]
struct Sold<'a> {
    number: u64,
    #[trace_event(encoding = varint)]
    cents: &'a [u64],
}

#[traced(provider = "Flight-Formats")]
fn sell(number: u64) {
    Sold { number, cents: &[1_250] }.emit();
}

/// The number of events and of losses.
fn totals(format: Format, trace: &[u8]) -> (u64, u64) {
    if format == Format::Heph {
        let mut reader = nettrace_reader::heph::Reader::new(trace);
        while reader.next_event().unwrap().is_some() {}
        return (reader.totals().events, reader.totals().lost);
    }
    let report = nettrace_reader::verify(trace).unwrap();
    assert!(report.is_sound(), "{format}: {report:?}");
    let mut reader = nettrace_reader::Reader::new(trace).unwrap();
    reader.read_to_end().unwrap();
    (reader.totals().events, reader.totals().lost)
}

#[test]
fn a_dump_has_the_format_of_the_session() {
    let _alone = one_at_a_time();
    let many = [7; 10_000];
    for format in [Format::V6, Format::V5, Format::V4, Format::Heph] {
        let session = Session::builder().flight_recorder(Keep::last(LONG)).format(format);
        let session = session.provider("Flight-Formats").start().unwrap();
        sell(1);
        thread::scope(|scope| _ = scope.spawn(|| sell(2)));
        // Version 5 has these numbers in eight times the bytes, which are too many.
        Sold { number: 3, cents: &many }.emit();
        let memory = MemorySink::new();
        let first = session.dump(memory.clone()).unwrap();
        let bytes = memory.bytes();
        assert_eq!(first.bytes, bytes.len() as u64, "{format}");
        let refused = first.not_in_format.events;
        match format {
            Format::V6 => assert_eq!(refused, 0),
            Format::V5 => assert_eq!(refused, 1),
            _ => assert!(refused <= 1, "{format}"),
        }
        assert_eq!(first.events, 7 - refused, "{format}");
        assert_eq!(totals(format, &bytes), (first.events, refused), "{format}");

        // What a dump leaves out shows as lost, and the next dump begins anew.
        sell(4);
        let memory = MemorySink::new();
        let second = session.dump_past(Past::After(first), memory.clone(), &[]).unwrap();
        assert_eq!((second.events, second.left_out), (3, 7), "{format}");
        assert_eq!(totals(format, &memory.bytes()).0, 3, "{format}");
        let memory = MemorySink::new();
        let all = session.dump_past(Past::Last(Duration::MAX), memory.clone(), &[]).unwrap();
        assert_eq!(all.events, 10 - refused, "{format}");
        assert_eq!(totals(format, &memory.bytes()), (10 - refused, refused), "{format}");
        // The session itself has refused nothing.
        assert_eq!(session.finish().unwrap().not_in_format, 0);
    }
}

/// The recorder keeps version 6, so it refuses what only the format of its dumps can describe.
#[test]
fn a_type_that_the_recorder_cannot_keep_does_not_end_it() {
    let _alone = one_at_a_time();
    let message = Some(&*"x".repeat(1 << 16).leak());
    let schema = EventSchema { message, ..schema("Flight-Wordy", "Told", 7, &[]) };
    let told: &EventType = Box::leak(Box::new(EventType::new(Box::leak(Box::new(schema)))));
    for format in [Format::V5, Format::V4] {
        let plain = Session::builder().sink(MemorySink::new()).format(format);
        let plain = plain.provider("Flight-Wordy").start().unwrap();
        let session = Session::builder().flight_recorder(Keep::last(LONG)).format(format);
        let session = session.provider("Flight-Wordy").provider("Flight-Formats").start().unwrap();
        Hostile { ty: told, bytes: &Vec::new }.emit();
        sell(1);
        let memory = MemorySink::new();
        let dump = session.dump(memory.clone()).unwrap();
        assert_eq!((dump.events, totals(format, &memory.bytes()).0), (3, 3), "{format}");
        assert_eq!(session.finish().unwrap().written, 3, "{format}");
        assert_eq!(plain.finish().unwrap().written, 1, "{format}");
    }
}
