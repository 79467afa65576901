//! The end of a stream is never larger than `closing_size` states.

use crate::heph_support::schema;
use nettrace_event::EventSchema;
use nettrace_format::{
    Composer, Format, Stage as _, Transcoder,
    content::{RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::{SequencePointFlags, ThreadSequence},
};

static BEAT: EventSchema = schema("Beat", &[]);

/// The stage, and the version 6 that it gets.
struct Stream {
    stage: Transcoder,
    composer: Composer,
    out: Vec<u8>,
}

impl Stream {
    /// Hands what `compose` writes to the stage.
    fn say(&mut self, compose: impl FnOnce(&mut Composer, &mut Vec<u8>)) {
        let mut blocks = Vec::new();
        compose(&mut self.composer, &mut blocks);
        self.composer.end_blocks(&mut blocks).unwrap();
        assert_eq!(self.stage.blocks(&blocks, &mut self.out), Ok(0));
    }

    fn thread(&mut self, index: u64) {
        let info = ThreadInfo { index, os_thread_id: Some(1 + index), ..ThreadInfo::default() };
        self.say(|composer, out| composer.thread(&info, out).unwrap());
    }

    /// A thread's definition and first row.
    fn thread_with_row(&mut self, index: u64) {
        self.thread(index);
        let header = RowHeader {
            metadata_id: 1,
            sequence: 1,
            capture_thread: index,
            thread: index,
            timestamp: 2_000,
            ..RowHeader::default()
        };
        self.say(|composer, out| {
            composer.row(&header, &[], out).unwrap();
        });
    }

    fn point(&mut self, timestamp: u64, threads: &[ThreadSequence]) {
        let flags = SequencePointFlags::default();
        self.say(|to, out| to.sequence_point(timestamp, flags, threads, out).unwrap());
    }

    fn remove(&mut self, threads: &[ThreadSequence]) {
        self.say(|composer, out| composer.remove_threads(threads, out).unwrap());
    }
}

#[test]
fn what_closes_a_stream_has_a_bound() {
    for format in Format::ALL.iter().copied() {
        for threads in [0, 1, 2, 3, 100] {
            // Objects begin at a multiple of four bytes, so test each of the four positions.
            for shift in 0..4 {
                let (stage, composer) = (Transcoder::new(format), Composer::new());
                let mut stream = Stream { stage, composer, out: Vec::new() };
                let info = TraceInfo {
                    sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_123),
                    sync_ticks: 1_000,
                    ticks_per_second: 100_000_000,
                    pointer_size: 8,
                    key_values: &[],
                };
                stream.stage.begin(&info, &mut stream.out).unwrap();
                stream.stage.define(&[(1, &BEAT)], &mut stream.out).unwrap();
                for point in 0..shift {
                    stream.point(point, &[]);
                }
                // The largest indices that version 6 has.
                let last = |index| ThreadSequence {
                    thread: u64::MAX - 1 - index,
                    sequence: i32::MAX as u32,
                };
                let all: Vec<_> = (0..threads).map(last).collect();
                all.iter().for_each(|all| stream.thread_with_row(all.thread));
                // In versions 4 and 5 this thread has to be named again, because it wrote last and
                // another one, which lost events, has no row.
                let gone = ThreadSequence { sequence: 1, ..last(threads) };
                stream.thread_with_row(gone.thread);
                stream.remove(&[gone]);
                stream.point(1_999, &[]);
                let silent = last(threads + 1);
                stream.thread(silent.thread);
                stream.remove(&[silent]);

                let (before, bound) = (stream.out.len(), stream.stage.closing_size());
                stream.point(u64::MAX, &all);
                stream.remove(&all);
                stream.stage.finish(&mut stream.out).unwrap();
                let size = (stream.out.len() - before) as u64;
                assert!(
                    size <= bound,
                    "{format:?}: {size} bytes for {threads} threads, not {bound}"
                );
                // A stage keeps room for another point.
                let most = 2 * (size + 20 * (threads + 1)) + 64;
                assert!(most >= bound, "{format:?}: {size} of {bound} bytes");
            }
        }
    }
}
