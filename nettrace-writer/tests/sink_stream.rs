//! The stream sink with writers that are slow, short, full, interrupted or gone.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod sink_support;

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nettrace_reader::heph::{self, Datagrams};
use nettrace_writer::sink::{Batch, DatagramSink, Sink, StreamEnd, StreamSink};
use nettrace_writer::{Emit, Format, Session, TraceEvent};
use proptest::prelude::*;
use sink_support::{Blocks, END, STREAM_END, header, write};
use testkit::process::one_at_a_time;

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

#[derive(TraceEvent)]
#[trace_event(provider = "Datagrams")]
struct Sent<'a> {
    number: u32,
    text: &'a str,
}

/// All datagrams that have come.
fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 70_000];
    let next = || {
        let size = socket.recv(&mut buffer).ok()?;
        Some(buffer[..size].to_vec())
    };
    std::iter::from_fn(next).collect()
}

fn receiver() -> UdpSocket {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    receiver
}

/// A session over loopback: `threads` threads, one after the other, that emit `count` events each.
fn sent_by(threads: u32, count: u32) -> Vec<Vec<u8>> {
    let receiver = receiver();
    let sink = DatagramSink::connect(receiver.local_addr().unwrap()).unwrap();
    let counter = sink.counter();
    let session = Session::builder().format(Format::Heph).sink(sink).provider("Datagrams");
    let session = session.start().unwrap();
    let mut packets = Vec::new();
    for _ in 0..threads {
        std::thread::scope(|scope| {
            let (session, receiver, packets) = (&session, &receiver, &mut packets);
            scope.spawn(move || {
                for number in 0..count {
                    Sent { number, text: "datagram" }.emit();
                    if number % 20 == 19 {
                        // So few fit any buffer of a socket.
                        session.flush().unwrap();
                        packets.extend(received(receiver));
                    }
                }
            });
        });
    }
    let stats = session.finish().unwrap();
    packets.extend(received(&receiver));
    assert_eq!((stats.written, stats.dropped()), (u64::from(threads * count), 0));
    assert_eq!(counter.counts().sent, packets.len() as u64);
    packets
}

/// What a network does: loses one packet of `lost`, sends one of `twice` again later, and moves one
/// of three by up to `far` places. The same each time.
fn relay(packets: &[Vec<u8>], seed: u64, lost: u64, twice: u64, far: u64) -> Vec<Vec<u8>> {
    let mut state = seed | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut arrivals: Vec<(u64, &Vec<u8>)> = Vec::new();
    for (at, packet) in (0..).zip(packets) {
        if random(lost) == 0 {
            continue;
        }
        arrivals.push((at + if random(3) == 0 { random(far) } else { 0 }, packet));
        if random(twice) == 0 {
            arrivals.push((at + random(far), packet));
        }
    }
    arrivals.sort_by_key(|(at, _)| *at);
    arrivals.into_iter().map(|(_, packet)| packet.clone()).collect()
}

/// The stream and number of an event.
fn event_of(packet: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    (word(0) == 0xC1FC_1FB7).then(|| (word(8), word(12)))
}

/// The stream that a packet tells of, and the last number that the sender had given by then: that
/// of an event, or that of an option which states losses, also none.
fn told_by(packet: &[u8]) -> Option<(u32, u32)> {
    event_of(packet).or_else(|| {
        let (name, value) = packet.split_last_chunk::<16>()?;
        let word = |at: usize| u32::from_be_bytes(value[at..at + 4].try_into().unwrap());
        name.ends_with(b"nettrace.lost").then(|| (word(0), word(4)))
    })
}

/// Every event that the network loses counts, whatever it does to the others.
#[test]
fn datagrams_that_are_lost_count_and_others_are_put_in_order() {
    const FAR: u64 = 40;
    let _alone = one_at_a_time();
    let sent = sent_by(4, 300);
    let lossless = sent.concat();
    let report = heph::verify(&lossless[..], heph::Options::default(), 5).unwrap();
    assert!(
        report.is_sound(),
        "each datagram is a packet, so together they are a trace: {report:?}"
    );
    assert_eq!((report.events, report.lost), (1_200, 0));
    let epoch = |trace: &[u8]| heph::Options::default().find_epoch(trace).unwrap();
    assert!(epoch(&lossless).is_some());
    for (seed, lost, twice) in
        (1..=60).map(|seed| (seed, [1_000_000, 50, 10, 3][seed as usize % 4], 8))
    {
        let arrivals = relay(&sent, seed * 0x9E37_79B9, lost, twice, FAR);
        let (mut datagrams, mut trace) = (Datagrams::new(2 * FAR as usize), Vec::new());
        arrivals.iter().for_each(|packet| datagrams.push(packet, &mut trace));
        datagrams.release(&mut trace);

        let (mut first, mut last) = (HashMap::new(), HashMap::new());
        let mut seen: Vec<_> = arrivals.iter().filter_map(|packet| event_of(packet)).collect();
        seen.sort_unstable();
        seen.dedup();
        for (stream, number) in seen.iter().rev() {
            first.insert(*stream, *number);
        }
        for (stream, number) in arrivals.iter().filter_map(|packet| told_by(packet)) {
            let last = last.entry(stream).or_insert(number);
            *last = number.max(*last);
        }
        // What is lost before a thread's first event does not show, nor what is lost after the last
        // packet that tells of the thread.
        let is_told = |(stream, number)| number > first[&stream] && number <= last[&stream];
        let missing = sent
            .iter()
            .filter_map(|packet| event_of(packet))
            .filter(|event| seen.binary_search(event).is_err() && is_told(*event));
        let missing = missing.count() as u64;
        let report = heph::verify(&trace[..], heph::Options::default(), 5).unwrap();
        assert!(report.is_sound(), "{seed} {report:?}");
        assert_eq!((report.events, report.lost), (seen.len() as u64, missing), "{seed}");
        let totals = datagrams.totals();
        assert_eq!((totals.events, totals.lost), (report.events, report.lost), "{seed}");
        assert_eq!((totals.datagrams, totals.refused), (arrivals.len() as u64, 0), "{seed}");
        // The epoch is there if one of its packets has come.
        assert_eq!(epoch(&trace), epoch(&arrivals.concat()), "{seed}");
    }
    // A receiver that joins late has it, too.
    let (mut datagrams, mut trace) = (Datagrams::new(10), Vec::new());
    sent[700..].iter().for_each(|packet| datagrams.push(packet, &mut trace));
    datagrams.release(&mut trace);
    assert_eq!(epoch(&trace), epoch(&lossless));
}

#[test]
fn a_packet_that_fits_no_datagram_counts() {
    let _alone = one_at_a_time();
    let receiver = receiver();
    let sink = DatagramSink::connect(receiver.local_addr().unwrap()).unwrap().largest(1_000);
    let counter = sink.counter();
    let session = Session::builder().format(Format::Heph).sink(sink).provider("Datagrams");
    let session = session.start().unwrap();
    for (number, size) in [(0, 10), (1, 1_000), (2, 10), (3, 30_000)] {
        Sent { number, text: &"x".repeat(size) }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, counter.counts().too_large), (4, 2));
    let trace = received(&receiver).concat();
    let (mut datagrams, mut kept) = (Datagrams::new(10), Vec::new());
    let mut rest = &trace[..];
    while !rest.is_empty() {
        let (packet, others) =
            rest.split_at(u32::from_be_bytes(rest[4..8].try_into().unwrap()) as usize);
        datagrams.push(packet, &mut kept);
        rest = others;
    }
    datagrams.release(&mut kept);
    // The last one is missing after the last event, which the marks show.
    assert_eq!((datagrams.totals().events, datagrams.totals().lost), (2, 2));
}

#[test]
fn nobody_who_receives_is_an_error_that_passes() {
    let _alone = one_at_a_time();
    let receiver = receiver();
    let address = receiver.local_addr().unwrap();
    let sink = DatagramSink::connect(address).unwrap();
    let session = Session::builder().format(Format::Heph).sink(sink).provider("Datagrams");
    let session = session.start().unwrap();
    drop(receiver);
    let mut emitted = 0_u32;
    let mut emit = || {
        Sent { number: emitted, text: "" }.emit();
        emitted += 1;
        session.flush()
    };
    let errors = (0..40).filter(|_| emit().is_err()).count();
    assert!(errors > 0);
    // It comes back at the same place.
    let receiver = UdpSocket::bind(address).unwrap();
    receiver.set_nonblocking(true).unwrap();
    // The system may still have to say that nobody received the last packet, or its mark.
    assert!((0..2).any(|_| emit().is_ok()));
    (0..10).for_each(|_| emit().unwrap());
    let stats = session.finish().unwrap();
    assert_eq!(stats.written + stats.dropped(), u64::from(emitted), "{stats:?}");
    assert!(stats.lost_in_sink > 0 && stats.sink_errors > 0, "{stats:?}");
    let events = received(&receiver).iter().filter(|packet| event_of(packet).is_some()).count();
    assert!(events >= 10, "{events}");
}

#[test]
fn only_a_heph_trace_has_packets() {
    let sink = DatagramSink::connect(receiver().local_addr().unwrap()).unwrap();
    let error = Session::builder().sink(sink).start().unwrap_err();
    assert!(error.to_string().contains("choose `format(Format::Heph)`"), "{error}");
}
