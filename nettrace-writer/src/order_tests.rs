//! The order of events on real threads: what a trace promises by IsSorted, sequence points and
//! numbers. The project's reader checks it, and so does the
//! reference reader if there is one.
//!
//! The tests fail if the cut at sequence points is taken out; `cargo xtask mutants` tries that.

use std::time::{Duration, Instant};

use nettrace_reader::{Dialect, Options, Report, verify_with};
use testkit::reference::judged;

use crate::{
    Emit, Keep, OnFull, Session, Stats, TraceEvent,
    shared::local,
    sink::MemorySink,
    sync::{AtomicBool, Ordering, thread},
};

#[derive(TraceEvent)]
#[trace_event(provider = "Order-Speed", crate = crate)]
struct Fast {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Order-Speed", crate = crate)]
struct Long<'a> {
    text: &'a str,
}

/// Whether the session is a flight recorder, and whether its memory is in a file, if it can be.
const MODES: [(bool, bool); 4] = [(false, false), (true, true), (false, true), (true, false)];

/// The largest number of events that a thread emits, so that a trace stays small on a fast machine.
const MOST: u64 = 60_000;

#[test]
fn order_holds_at_full_speed() {
    let deadline = Instant::now() + Duration::from_secs(5);
    let (mut rounds, mut points, mut written, mut dropped) = (0, 0, 0, 0);
    for run in 0_u32.. {
        let late = Instant::now().saturating_duration_since(deadline);
        // A busy machine makes few points in that time, so it gets more.
        if run >= 4 && !late.is_zero() && (points > 40 || late > Duration::from_secs(60)) {
            break;
        }
        let on_full = if run % 2 == 0 { OnFull::Drop } else { OnFull::Block };
        let (keeps, persists) = MODES[(run + run / 4) as usize % MODES.len()];
        let sink = MemorySink::new();
        let mut builder = Session::builder().sink(sink.clone());
        if keeps {
            let keep = Keep::last(Duration::from_secs(3_600)).within(1 << 20);
            builder = builder.flight_recorder(keep);
        }
        let folder = tempfile::tempdir().unwrap();
        #[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))]
        if persists {
            builder = builder.persistent(folder.path().join("recorder"));
        }
        let _ = (&folder, persists);
        let session = builder
            .provider("Order-Speed")
            .budget(if run % 4 < 2 { 2 << 20 } else { 160 << 10 })
            .chunk_size(4_096)
            .flush_interval(Duration::from_micros(300))
            .sequence_points(4_096, Duration::from_millis(1))
            .on_full(on_full)
            .start()
            .unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..6 {
                let stop = &stop;
                scope.spawn(move || emit(number, stop));
            }
            thread::sleep(Duration::from_millis(60));
            session.flush().unwrap();
            stop.store(true, Ordering::Relaxed);
        });
        let dump = keeps.then(|| session.dump(sink.clone()).unwrap());
        let stats = session.finish().unwrap();
        let report = check(&sink.bytes(), &stats, dump.map_or(0, |dump| dump.given_up));
        assert!(on_full == OnFull::Drop || stats.dropped() == 0, "{stats:?}");
        (rounds, points) = (rounds + stats.flushes, points + report.sequence_points);
        (written, dropped) = (written + stats.written, dropped + stats.dropped());
    }
    println!("{written} written, {dropped} dropped, {rounds} rounds, {points} sequence points");
    assert!(points > 40, "{points} sequence points say too little");
}

#[derive(TraceEvent)]
#[trace_event(provider = "Order-Back", crate = crate)]
struct Back {
    value: u64,
}

#[test]
fn order_holds_if_the_clock_goes_back() {
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Order-Back");
    let session = session.clock(crate::Clock::Monotonic).start().unwrap();
    let emit = |value| (0..10).for_each(|_| Back { value }.emit());
    thread::scope(|scope| {
        let (go, told) = std::sync::mpsc::channel::<()>();
        let (done, heard) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for value in 0.. {
                emit(value);
                done.send(()).unwrap();
                if told.recv().is_err() {
                    return;
                }
            }
        });
        for value in 0..5 {
            heard.recv().unwrap();
            emit(value);
            session.flush().unwrap();
            // The session has seen a time that is a second ahead, at a sequence point. So all
            // clocks seem to go back by a second.
            local::for_each_buffer(|buffer| {
                buffer.session.floor.raise(buffer.session.source.now() + 1_000_000_000);
            });
            emit(value);
            session.flush().unwrap();
            // One thread has not seen that time yet, and another is new.
            go.send(()).unwrap();
            scope.spawn(move || emit(value)).join().unwrap();
        }
        heard.recv().unwrap();
        drop(go);
    });
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), (210, 0), "{stats:?}");
    let report = check(&sink.bytes(), &stats, 0);
    assert!(report.sequence_points >= 10, "{report:?}");
}

/// Emits in one of several ways: without pause, with pauses, long events, or on a chain of
/// short-lived threads.
fn emit(number: u64, stop: &AtomicBool) {
    let text = "x".repeat(3_000);
    for value in 0..MOST {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match number {
            0..3 => Fast { value }.emit(),
            3 if value % 64 == 0 => thread::yield_now(),
            3 => Fast { value }.emit(),
            4 if value % 8 == 0 => Long { text: &text }.emit(),
            4 => Fast { value }.emit(),
            _ => thread::scope(|scope| {
                scope.spawn(|| (0..20).for_each(|value| Fast { value }.emit()));
            }),
        }
    }
}

/// Checks that a trace keeps every promise and that its numbers are those of the session. A flight
/// recorder has given some events up.
fn check(bytes: &[u8], stats: &Stats, given_up: u64) -> Report {
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    assert_eq!(stats.lost_in_sink, 0, "{stats:?}");
    let options = Options::default().dialect(Dialect::Reference);
    let report = verify_with(bytes, options, 100).unwrap();
    assert!(report.is_sound(), "{} violations, such as {:#?}", report.count, report.violations);
    assert_eq!(report.events + given_up, stats.written, "{stats:?}");
    // What was given up of a thread that has ended is no gap.
    let lost = report.lost..=report.lost + given_up;
    assert!(lost.contains(&(stats.dropped() + given_up)), "{} lost, {stats:?}", report.lost);
    if let Some(verdict) = judged(bytes) {
        verdict.assert_holds(report.events, report.lost);
    }
    report
}
