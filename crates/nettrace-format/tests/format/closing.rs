//! The end of a stream is never larger than `closing_size` states.

use crate::heph_support::schema;
use nettrace_event::EventSchema;
use nettrace_format::{
    Format, Row, Stream,
    content::{RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::ThreadSequence,
};

static BEAT: EventSchema = schema("Beat", &[]);

/// A thread's definition and first row.
fn thread_with_row(stream: &mut Stream, index: u64, out: &mut Vec<u8>) {
    stream.thread(&ThreadInfo { index, ..ThreadInfo::default() }, out).unwrap();
    let header = RowHeader {
        metadata_id: 1,
        sequence: 1,
        capture_thread: index,
        thread: index,
        timestamp: 2_000,
        ..RowHeader::default()
    };
    let (row, mut rows) = (Row { header, labels: &[], stack: &[], payload: &[] }, Vec::<u8>::new());
    assert_eq!(stream.row(&row, true, &mut rows), Ok(()));
    let tail = stream.event_block(2_000, 2_000, rows.len(), out).unwrap();
    out.extend(rows);
    out.extend(tail);
}

#[test]
fn what_closes_a_stream_has_a_bound() {
    for format in Format::ALL.iter().copied() {
        // The largest index that the format accepts for a thread.
        let first = if format == Format::Heph { u64::from(u32::MAX) } else { u64::MAX };
        for threads in [0, 1, 2, 3, 100] {
            // Objects begin at a multiple of four bytes, so test each of the four positions.
            for shift in 0..4 {
                let (mut stream, mut out) = (Stream::new(format), Vec::new());
                let info = TraceInfo {
                    sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_123),
                    sync_ticks: 1_000,
                    ticks_per_second: 100_000_000,
                    pointer_size: 8,
                    key_values: &[],
                };
                stream.begin(&info, &mut out).unwrap();
                stream.define(&[(1, &BEAT)], &mut out).unwrap();
                for point in 0..shift {
                    stream.sequence_point(point, &[], &mut out).unwrap();
                }
                let last =
                    |index| ThreadSequence { thread: first - index, sequence: i32::MAX as u32 };
                let all: Vec<_> = (0..threads).map(last).collect();
                for ThreadSequence { thread, .. } in all.iter().copied() {
                    thread_with_row(&mut stream, thread, &mut out);
                }
                // In versions 4 and 5 this thread has to be named again, because it wrote last and
                // another one, which lost events, has no row.
                let gone = ThreadSequence { thread: first - threads, sequence: 1 };
                thread_with_row(&mut stream, gone.thread, &mut out);
                stream.remove_threads(&[gone], &mut out).unwrap();
                stream.sequence_point(1_999, &[], &mut out).unwrap();
                let silent = last(threads + 1);
                let info = ThreadInfo { index: silent.thread, ..ThreadInfo::default() };
                stream.thread(&info, &mut out).unwrap();
                stream.remove_threads(&[silent], &mut out).unwrap();

                let (before, bound) = (out.len(), stream.closing_size());
                stream.sequence_point(u64::MAX, &all, &mut out).unwrap();
                for thread in &all {
                    stream.remove_threads(&[*thread], &mut out).unwrap();
                }
                let size = (out.len() - before) as u64;
                assert!(
                    size <= bound,
                    "{format:?}: {size} bytes for {threads} threads, not {bound}"
                );
                assert!(size + 20 * (threads + 1) >= bound, "{format:?}: {size} of {bound} bytes");
            }
        }
    }
}
