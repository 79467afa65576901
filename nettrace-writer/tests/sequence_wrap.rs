//! A thread's sequence numbers have 32 bits and wrap, after 43 s at full speed. Losses are exact
//! beyond the wrap.
//!
//! A test cannot emit 2^32 events, so the thread counts most of them as dropped without emitting
//! them. Readers take a gap of 2^31 or more for a step back. So it skips in two steps, with a
//! sequence point between them.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{thread, time::Duration};

use nettrace_reader::{Dialect, Options, verify_with};
use nettrace_writer::{Emit, Format, Session, Stats, TraceEvent, sink::MemorySink};
use testkit::{process::one_at_a_time, reference::judged};

use crate::trace_support::{Seen, held::Held, memory, read, threads};

/// How many different numbers there are.
const ALL: u64 = 1 << 32;

/// The widest gap that readers accept.
const WIDEST: u64 = (1 << 31) - 1;

#[derive(TraceEvent)]
#[trace_event(provider = "Wrap-Numbers")]
struct Numbered {
    /// The number that it should get, before it is cut to 32 bits. The first number is 1.
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Wrap-Numbers")]
struct TooLarge<'a> {
    data: &'a [u8],
}

/// Counts events of the calling thread as dropped, so that it goes from `from` numbers to `to`.
fn skip(session: &Session, from: u64, to: u64) {
    assert!(to - from <= WIDEST);
    session.pretend_dropped(to - from);
}

/// Checks that both readers find what the session counted. Returns the events.
fn sound(bytes: &[u8], stats: &Stats) -> Vec<Seen> {
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let options = Options::default().dialect(Dialect::Reference);
    let report = verify_with(bytes, options, 100).expect("memory can be read");
    assert!(report.is_sound(), "{} violations, such as {:?}", report.count, report.violations);
    assert_eq!((report.events, report.lost), (stats.written, stats.dropped()), "{stats:?}");
    if let Some(verdict) = judged(bytes) {
        // The reference reader counts in 32 bits with a sign.
        let lost: i32 = verdict["lost"].parse().unwrap();
        assert_eq!(lost as u32, stats.dropped() as u32, "the reference reader: {verdict:?}");
        assert_eq!(
            verdict["events"],
            stats.written.to_string(),
            "the reference reader: {verdict:?}"
        );
        assert_eq!(&verdict["unsorted"], "0", "the reference reader: {verdict:?}");
    }
    let events = read(bytes);
    for event in &events {
        assert_eq!(event.number, event.value() as u32, "events keep the numbers that they got");
    }
    assert!(events.windows(2).all(|pair| pair[0].value() < pair[1].value()));
    events
}

/// Emits the events that get the numbers `from..=to`.
fn emit(from: u64, to: u64) {
    (from..=to).for_each(|value| Numbered { value }.emit());
}

#[test]
fn events_around_the_wrap_have_their_numbers() {
    let _alone = one_at_a_time();
    // Where the second step ends, and how the events around the wrap are distributed over blocks.
    for (before, flushed) in [(5, false), (1, false), (0, false), (5, true), (1, true), (0, true)] {
        let (sink, builder) = memory("Wrap-Numbers");
        let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
        let first = ALL - before;
        let emitting = || {
            emit(1, 1);
            skip(&session, 1, 1 + WIDEST);
            session.flush().unwrap();
            skip(&session, 1 + WIDEST, first - 1);
            for value in first..first + 10 {
                emit(value, value);
                if flushed {
                    session.flush().unwrap();
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(emitting);
        });
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.drops.no_room), (11, first - 2), "{stats:?}");
        let events = sound(&sink.bytes(), &stats);
        let values: Vec<_> = events.iter().map(Seen::value).collect();
        assert_eq!(values, [&[1], &*(first..first + 10).collect::<Vec<_>>()].concat());
        // The number that the removal of the thread tells, after the wrap.
        let totals = threads(&sink.bytes());
        let found: Vec<_> =
            totals.iter().map(|of| (of.events, of.lost, of.last_sequence)).collect();
        assert_eq!(found, [(11, first - 2, (first + 9) as u32)]);
        assert_eq!(totals[0].step_backs, 0);
    }
}

#[test]
fn events_dropped_at_the_wrap_are_counted() {
    let _alone = one_at_a_time();
    let huge = vec![0; 70_000];
    // How many real losses come before the wrap, and how many after it: the number 2^32 is 0.
    let cases = [(1, 0), (0, 1), (1, 1), (3, 0), (2, 3)];
    let formats = [Format::V6, Format::V5];
    for (format, (before, behind)) in
        formats.map(|format| cases.map(|case| (format, case))).concat()
    {
        let (sink, builder) = memory("Wrap-Numbers");
        let builder = builder.format(format).flush_interval(Duration::from_secs(3_600));
        let session = builder.start().unwrap();
        emit(1, 1);
        skip(&session, 1, 1 + WIDEST);
        session.flush().unwrap();
        // The last event before the losses has this number.
        let last = ALL - 1 - before;
        skip(&session, 1 + WIDEST, last - 4);
        emit(last - 3, last);
        (0..before + behind).for_each(|_| TooLarge { data: &huge }.emit());
        let next = ALL + behind;
        emit(next, next + 3);
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.drops.too_large), (9, before + behind), "{stats:?}");
        assert_eq!(stats.attempted, next + 3, "{stats:?}");
        let events = sound(&sink.bytes(), &stats);
        assert_eq!(events[4].number, (last & 0xffff_ffff) as u32);
        assert_eq!(events[5].number, behind as u32);
    }
}

#[test]
fn a_full_session_drops_over_the_wrap() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let (sink, flusher) = Held::new(memory.clone());
    let builder = Session::builder().sink(sink).provider("Wrap-Numbers").budget(128 << 10);
    let builder = builder.chunk_size(4_096).prefault(0).flush_interval(Duration::from_millis(1));
    let session = builder.start().unwrap();
    emit(1, 1);
    skip(&session, 1, 1 + WIDEST);
    session.flush().unwrap();

    flusher.hold();
    // While the flusher waits nothing becomes free. So after one loss all later events are lost.
    let mut number = 1 + WIDEST;
    let mut full = false;
    while !full {
        let waited = flusher.waits();
        let lost = session.stats().drops.no_room;
        for _ in 0..100 {
            number += 1;
            emit(number, number);
        }
        full = waited && session.stats().drops.no_room == lost + 100;
    }
    let lost = session.stats().drops.no_room;
    skip(&session, number, ALL - 4);
    emit(ALL - 3, ALL + 5);
    assert_eq!(session.stats().drops.no_room, lost + (ALL - 4 - number) + 9);
    flusher.let_go();

    session.flush().unwrap();
    emit(ALL + 6, ALL + 8);
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, ALL + 8, "{stats:?}");
    let events = sound(&memory.bytes(), &stats);
    let last: Vec<_> = events[events.len() - 3..].iter().map(|event| event.number).collect();
    assert_eq!(last, [6, 7, 8]);
}
