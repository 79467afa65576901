//! The stream sink with writers that are slow, short, full, interrupted or gone.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod sink_support;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::{Duration, Instant};

use nettrace_writer::sink::{Batch, Sink, StreamEnd, StreamSink};
use proptest::prelude::*;
use sink_support::{Blocks, END, STREAM_END, header, write};

#[derive(Clone, Copy, Debug)]
enum Answer {
    Takes(usize),
    Fails(ErrorKind),
}

/// A writer that answers by a list and then takes everything.
#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Answer>,
    seen: Vec<u8>,
    flushes: usize,
    vectored: usize,
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.vectored = self.vectored.max(pieces.len());
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        let count = match self.answers.pop_front() {
            None => bytes.len(),
            Some(Answer::Takes(count)) => count.min(bytes.len()),
            Some(Answer::Fails(kind)) => return Err(kind.into()),
        };
        self.seen.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        Ok(())
    }
}

fn script(answers: impl IntoIterator<Item = Answer>) -> Script {
    Script { answers: answers.into_iter().collect(), ..Script::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn short_writes_interruptions_and_pauses_change_nothing(
        answers in prop::collection::vec(
            prop_oneof![
                6 => (1_usize..300).prop_map(Answer::Takes),
                2 => Just(Answer::Fails(ErrorKind::Interrupted)),
                1 => Just(Answer::Fails(ErrorKind::WouldBlock)),
            ],
            0..60,
        ),
        batches in prop::collection::vec((0_usize..6, 1_u64..200), 0..6),
    ) {
        let mut sink = StreamSink::new(script(answers));
        sink.start(&header(), STREAM_END).unwrap();
        let mut expected = header();
        let mut blocks = Blocks::new();
        for (count, rows) in &batches {
            let batch = blocks.batch(*count, *rows);
            write(&mut sink, &batch).unwrap();
            expected.extend(batch.concat());
        }
        sink.finish().unwrap();
        expected.extend(END);
        let script = sink.into_inner();
        prop_assert_eq!(script.seen, expected);
        prop_assert_eq!(script.flushes, batches.len() + 2);
    }

    /// After errors that pass nothing is torn, lost or repeated, and in the end `kept` has arrived.
    #[test]
    fn after_errors_that_pass_the_stream_goes_on(
        answers in prop::collection::vec(
            prop_oneof![
                6 => (1_usize..300).prop_map(Answer::Takes),
                1 => Just(Answer::Fails(ErrorKind::Interrupted)),
                2 => Just(Answer::Fails(ErrorKind::WouldBlock)),
                2 => Just(Answer::Fails(ErrorKind::OutOfMemory)),
            ],
            0..60,
        ),
        batches in prop::collection::vec((0_usize..6, 1_u64..200), 1..9),
    ) {
        let answers = [Answer::Takes(usize::MAX)].into_iter().chain(answers);
        let mut sink = StreamSink::new(script(answers)).stall_timeout(Duration::ZERO);
        sink.start(&header(), STREAM_END).unwrap();
        let mut expected = header();
        let mut blocks = Blocks::new();
        for (count, rows) in &batches {
            let batch = blocks.batch(*count, *rows);
            let bytes = batch.concat();
            match write(&mut sink, &batch) {
                Ok(()) => {
                    expected.extend(&bytes);
                    prop_assert!(!sink.is_torn());
                }
                Err(error) => {
                    let passes = [ErrorKind::TimedOut, ErrorKind::OutOfMemory];
                    prop_assert!(passes.contains(&error.source.kind()), "{:?}", error);
                    expected.extend(&bytes[..error.kept as usize]);
                }
            }
        }
        let ended = sink.finish();
        let torn = sink.is_torn();
        let seen = sink.into_inner().seen;
        if ended.is_ok() {
            expected.extend(END);
            prop_assert!(!torn);
            prop_assert_eq!(seen, expected);
        } else {
            expected.extend(END);
            prop_assert!(expected.starts_with(&seen));
            // Less than one block is missing, and `is_torn` says whether any is.
            let missing = (expected.len() - END.len()).saturating_sub(seen.len());
            prop_assert_eq!(torn, missing > 0);
        }
    }

    #[test]
    fn an_error_keeps_the_blocks_that_arrived(
        before in prop::collection::vec(1_usize..200, 0..12),
        rows in 1_u64..60,
    ) {
        let header_only = Answer::Takes(usize::MAX);
        let taken: usize = before.iter().sum();
        let answers = [header_only]
            .into_iter()
            .chain(before.into_iter().map(Answer::Takes))
            .chain([Answer::Fails(ErrorKind::ConnectionReset)]);
        let mut sink = StreamSink::new(script(answers));
        sink.start(&header(), STREAM_END).unwrap();
        let batch = Blocks::new().batch(8, rows);
        if taken >= batch.concat().len() {
            return Ok(());
        }
        let error = write(&mut sink, &batch).unwrap_err();
        let mut kept = 0;
        for block in &batch {
            if kept + block.len() > taken {
                break;
            }
            kept += block.len();
        }
        prop_assert_eq!(error.kept, kept as u64);
        prop_assert_eq!(error.source.kind(), ErrorKind::ConnectionReset);
        let again = write(&mut sink, &batch).unwrap_err();
        prop_assert_eq!((again.kept, again.source.kind()), (0, ErrorKind::ConnectionReset));
        prop_assert_eq!(sink.finish().unwrap_err().kind(), ErrorKind::ConnectionReset);
        prop_assert_eq!(sink.into_inner().seen.len(), header().len() + taken);
    }
}

#[test]
fn pieces_are_gathered() {
    let mut sink = StreamSink::new(Script::default());
    sink.start(&header(), STREAM_END).unwrap();
    write(&mut sink, &Blocks::new().batch(40, 2)).unwrap();
    assert_eq!(sink.into_inner().vectored, 80);
}

#[test]
fn a_second_start_ends_the_first_stream() {
    let mut sink = StreamSink::new(Script::default());
    sink.start(b"one", STREAM_END).unwrap();
    sink.start(b"two", StreamEnd::new(b"!")).unwrap();
    sink.finish().unwrap();
    sink.finish().unwrap();
    assert_eq!(sink.into_inner().seen, b"one\0\0\0\0two!");
}

#[test]
fn a_stalled_destination_is_given_up_in_time() {
    let full = std::iter::repeat_n(Answer::Fails(ErrorKind::WouldBlock), 100_000);
    let answers = [Answer::Takes(usize::MAX), Answer::Takes(usize::MAX)].into_iter().chain(full);
    let timeout = Duration::from_millis(80);
    let mut sink = StreamSink::new(script(answers)).stall_timeout(timeout);
    sink.start(&header(), STREAM_END).unwrap();
    write(&mut sink, &Blocks::new().batch(1, 1)).unwrap();
    let since = Instant::now();
    let error = write(&mut sink, &Blocks::new().batch(1, 1)).unwrap_err();
    assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::TimedOut));
    let waited = since.elapsed();
    assert!(waited >= timeout && waited < Duration::from_secs(240), "{waited:?}");
    // From now on each write tries once, without a pause.
    for _ in 0..50 {
        let error = write(&mut sink, &Blocks::new().batch(1, 1)).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::TimedOut));
    }
    let left = sink.into_inner().answers.len();
    assert!(left > 98_000, "it spins: {left}");
}

#[test]
fn a_writer_that_takes_nothing_is_an_error() {
    let mut sink = StreamSink::new(script([Answer::Takes(usize::MAX), Answer::Takes(0)]));
    sink.start(&header(), STREAM_END).unwrap();
    let error = write(&mut sink, &Blocks::new().batch(1, 1)).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::WriteZero);
}

#[test]
fn batches_need_a_stream_and_agreeing_parts() {
    let mut sink = StreamSink::new(Script::default());
    let error = write(&mut sink, &Blocks::new().batch(1, 1)).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    sink.start(&header(), STREAM_END).unwrap();
    let pieces = [IoSlice::new(b"block")];
    let error = sink.write(&Batch::new(&pieces, &[4])).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    assert_eq!(sink.into_inner().seen, header());
}

#[cfg(unix)]
mod unix {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    /// Reads slowly, in portions of odd sizes.
    fn slow_reader(mut from: UnixStream) -> thread::JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut seen = Vec::new();
            let mut buffer = [0; 30_011];
            loop {
                match from.read(&mut buffer).unwrap() {
                    0 => return seen,
                    count => seen.extend_from_slice(&buffer[..count]),
                }
                thread::sleep(Duration::from_millis(1));
            }
        })
    }

    #[test]
    fn a_slow_socket_blocking_or_not() {
        for nonblocking in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(nonblocking).unwrap();
            let reader = slow_reader(theirs);
            let mut sink = StreamSink::new(ours);
            sink.start(&header(), STREAM_END).unwrap();
            let mut expected = header();
            let mut blocks = Blocks::new();
            for _ in 0..5 {
                let batch = blocks.batch(150, 500);
                write(&mut sink, &batch).unwrap();
                expected.extend(batch.concat());
            }
            sink.finish().unwrap();
            drop(sink);
            expected.extend(END);
            assert!(reader.join().unwrap() == expected, "nonblocking: {nonblocking}");
        }
    }

    #[test]
    fn a_closed_socket_is_an_error_and_no_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut sink = StreamSink::new(ours);
        sink.start(&header(), STREAM_END).unwrap();
        // To drop it does not suffice: a child that another test has just forked may still hold it.
        theirs.shutdown(Shutdown::Both).unwrap();
        let error = write(&mut sink, &Blocks::new().batch(3, 100)).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::BrokenPipe));
        assert_eq!(sink.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_socket_that_nobody_reads_for_a_while() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sink = StreamSink::new(ours).stall_timeout(Duration::from_millis(500));
        sink.start(&header(), STREAM_END).unwrap();
        let mut blocks = Blocks::new();
        let batch = blocks.batch(1_000, 500);
        let error = write(&mut sink, &batch).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::TimedOut);
        let again = write(&mut sink, &batch).unwrap_err();
        assert_eq!((again.kept, again.source.kind()), (0, ErrorKind::TimedOut));
        // Now somebody does.
        let reader = thread::spawn(move || {
            let mut seen = Vec::new();
            theirs.read_to_end(&mut seen).map(|_| seen).unwrap()
        });
        assert!(error.kept > 0);
        let mut expected = [&header(), &batch.concat()[..error.kept as usize]].concat();
        loop {
            let next = blocks.batch(300, 500);
            let written = write(&mut sink, &next);
            let kept = written.as_ref().map_or_else(|error| error.kept, |()| u64::MAX);
            expected.extend(next.concat().iter().take(kept as usize));
            if written.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(1)); // the reader has not begun
        }
        sink.finish().unwrap();
        drop(sink);
        expected.extend(END);
        assert!(reader.join().unwrap() == expected);
    }
}
