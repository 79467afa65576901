//! A stream that goes back to a mark continues as if the blocks after the mark had never been
//! written.

use crate::heph_support::{field, payload, schema};
use nettrace_event::{EventSchema, FieldSchema, FieldType, PayloadEncoder, StrEncoding};
use nettrace_format::{
    Format, Row, Stream,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::ThreadSequence,
};

const FORMATS: [Format; 4] = [Format::V6, Format::V5, Format::V4, Format::Heph];

const FIELDS: &[FieldSchema] = &[field("text", FieldType::Str(StrEncoding::Utf16))];
static SALE: EventSchema = schema("Sale", FIELDS);
static BEAT: EventSchema =
    EventSchema { message: Some("left out of the older formats"), ..schema("Beat", &[]) };

/// A part of the stream, in a block of its own.
#[derive(Clone, Copy, Debug)]
enum Said {
    Type(u32, &'static EventSchema),
    Thread(u64, &'static str),
    /// Thread and sequence number.
    Row(u64, u32),
    Point(u64, &'static [(u64, u32)]),
    Gone(u64, u32),
}

use Said::{Gone, Point, Thread, Type};

fn say(stream: &mut Stream, said: Said, out: &mut Vec<u8>) {
    let number = |&(thread, sequence): &(u64, u32)| ThreadSequence { thread, sequence };
    match said {
        Type(id, schema) => stream.define(&[(id, schema)], out).unwrap(),
        Thread(index, name) => {
            let info = ThreadInfo { index, name: Some(name), ..ThreadInfo::default() };
            stream.thread(&info, out).unwrap();
        }
        Said::Row(thread, sequence) => {
            let header = RowHeader {
                metadata_id: 1,
                sequence,
                capture_thread: thread,
                thread,
                timestamp: 1_000 + u64::from(sequence),
                ..RowHeader::default()
            };
            let text = payload(|e| e.str("hello", StrEncoding::Utf16));
            let header = RowHeader { payload_len: text.len() as u32, ..header };
            let labels = [Label::Str("left out", "of some")];
            let row = Row { header, labels: &labels, stack: &[], payload: &text };
            let mut rows = Vec::new();
            stream.row(&row, true, &mut rows).unwrap();
            let ts = header.timestamp;
            let tail = stream.event_block(ts, ts, rows.len(), out).unwrap();
            out.extend(rows);
            out.extend(tail);
        }
        Point(ts, threads) => {
            let threads: Vec<_> = threads.iter().map(number).collect();
            stream.sequence_point(ts, &threads, out).unwrap();
        }
        Gone(thread, sequence) => {
            stream.remove_threads(&[number(&(thread, sequence))], out).unwrap();
        }
    }
}

fn begun(format: Format) -> (Stream, Vec<u8>) {
    let (mut stream, mut out) = (Stream::new(format), Vec::new());
    let info = TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_123),
        sync_ticks: 1_000,
        ticks_per_second: 100_000_000,
        pointer_size: 8,
        key_values: &[("ProcessId", "1")],
    };
    stream.begin(&info, &mut out).unwrap();
    (stream, out)
}

#[test]
fn what_did_not_arrive_was_never_said() {
    let arrived = [Type(1, &SALE), Thread(9, "known"), Said::Row(9, 1), Said::Row(9, 3)];
    let lost = [
        Type(2, &BEAT),
        Thread(8, "new"),
        Said::Row(9, 4),
        Said::Row(8, 1),
        Said::Row(9, 7),
        Point(2_000, &[(9, 9), (8, 1)]),
        Gone(9, 9),
        Thread(9, "another"),
        Said::Row(9, 1),
    ];
    let again = [
        Type(2, &BEAT),
        Thread(7, "new"),
        Said::Row(9, 12),
        Said::Row(7, 2),
        Point(2_100, &[(9, 14), (7, 2)]),
        Gone(9, 15),
        Gone(7, 2),
    ];
    for format in FORMATS {
        let (mut plain, mut wanted) = begun(format);
        arrived.iter().chain(&again).for_each(|&said| say(&mut plain, said, &mut wanted));

        // A write may fail after any number of the lost blocks was built, and the stream may go
        // back to any mark among them first.
        for built in 0..=lost.len() {
            for between in 0..=built {
                let (mut stream, mut out) = begun(format);
                arrived[..2].iter().for_each(|&said| say(&mut stream, said, &mut out));
                stream.mark();
                arrived[2..].iter().for_each(|&said| say(&mut stream, said, &mut out));
                stream.settle();
                let (mark, length) = (stream.mark(), out.len());
                let mut inner = mark;
                for (at, &said) in lost[..built].iter().enumerate() {
                    say(&mut stream, said, &mut out);
                    let next = stream.mark();
                    if at < between {
                        inner = next;
                    }
                }
                stream.rewind(&inner);
                stream.rewind(&mark);
                out.truncate(length);
                again.iter().for_each(|&said| say(&mut stream, said, &mut out));
                assert!(out == wanted, "{format:?}: {built} blocks, {between} marks");
                assert_eq!(stream.left_out(), plain.left_out(), "{format:?}");
            }
        }
    }
}
