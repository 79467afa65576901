//! A recorder keeps version 6. Its dumps have the format of the session.

use std::{thread, time::Duration};

use nettrace_writer::{Emit, Format, Keep, Past, Session, TraceEvent, sink::MemorySink, traced};

use super::LONG;

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
