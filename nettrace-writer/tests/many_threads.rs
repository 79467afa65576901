//! Thousands of threads that each emit a little.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use nettrace_writer::{
    Emit, Session, SessionBuilder, Stats, TraceEvent,
    sink::{MemorySink, StreamSink},
};
use parking_lot::{Condvar, Mutex};
use testkit::process::{one_at_a_time, skipped_in_emulator};

use crate::trace_support::{check, held::Held, memory};

#[derive(TraceEvent)]
#[trace_event(provider = "Many-Threads")]
struct Tick<'a> {
    value: u64,
    note: &'a [u8],
}

/// Starts threads that wake `per_second` times a second and emit 50 events of about 100 bytes in a
/// second.
fn tick(threads: usize, per_second: u32, spell: Duration, builder: SessionBuilder) -> Stats {
    let session = builder.start().unwrap();
    let start = Arc::new(Barrier::new(threads));
    let all: Vec<_> = (0..threads)
        .map(|number| {
            let start = Arc::clone(&start);
            let thread = thread::Builder::new().stack_size(64 << 10);
            let body = move || {
                start.wait();
                let period = Duration::from_secs(1) / per_second;
                // Not all at the same time.
                thread::sleep(period.mul_f64(number as f64 / threads as f64));
                let begun = Instant::now();
                for value in 0.. {
                    let due = period * value as u32;
                    if due > spell {
                        break;
                    }
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                    for _ in 0..50 / per_second {
                        Tick { value, note: &[7; 80] }.emit();
                    }
                }
            };
            thread.spawn(body).unwrap()
        })
        .collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    println!("flusher, ran and waited for a processor, in ns, and how often: {}", flusher());
    session.finish().unwrap()
}

/// The line of `schedstat` of this process's flusher.
fn flusher() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let name = |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap_or_default();
    let mut flushers = tasks.filter(|task| name(task).starts_with("nettrace-flushe"));
    let stat = flushers.next().map(|task| fs::read_to_string(task.join("schedstat")).unwrap());
    stat.unwrap_or_default().trim().to_owned()
}

#[test]
fn two_thousand_threads_that_emit_a_little_lose_nothing() {
    if skipped_in_emulator("2,000 threads, for which it is too slow") {
        return;
    }
    let _alone = one_at_a_time();
    const THREADS: u64 = 2_000;
    const TURNS: u64 = 10;
    const EACH: u64 = 5;
    // If each had a chunk of 64 KiB there would be room for 475.
    let (sink, builder) = memory("Many-Threads");
    let session = builder.budget(32 << 20).start().unwrap();
    // A thread that has emitted waits until the flusher has had a round, so nothing depends on how
    // often the machine lets the flusher run.
    let rounds = Arc::new((Mutex::new(0), Condvar::new()));
    let all: Vec<_> = (0..THREADS)
        .map(|_| {
            let rounds = Arc::clone(&rounds);
            let body = move || {
                let (rounds, changed) = &*rounds;
                for value in 0..TURNS {
                    let before = *rounds.lock();
                    (0..EACH).for_each(|_| Tick { value, note: &[7; 80] }.emit());
                    changed.wait_while(&mut rounds.lock(), |now| *now == before);
                }
            };
            thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap()
        })
        .collect();
    let patience = Instant::now();
    while all.iter().any(|thread| !thread.is_finished()) {
        assert!(patience.elapsed() < Duration::from_secs(240), "no rounds: {:?}", session.stats());
        thread::sleep(Duration::from_millis(5));
        let mut now = rounds.0.lock();
        let flushes = session.stats().flushes;
        if *now != flushes {
            *now = flushes;
            rounds.1.notify_all();
        }
    }
    all.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.dropped()), (THREADS * TURNS * EACH, 0), "{stats:?}");
    check(&sink.bytes(), &stats);
}

/// What the README guarantees however late the flusher gets a processor: nothing is lost while what
/// threads have recorded, in pieces of 2 KiB for each, is less than half of the budget.
#[test]
fn many_threads_share_the_memory_while_the_flusher_does_not_run() {
    if skipped_in_emulator("thousands of threads, for which it is too slow") {
        return;
    }
    let _alone = one_at_a_time();
    // Threads that fill more than a piece each, and threads that end before others begin. There
    // are 241 chunks of 16 pieces.
    for (threads, each, pieces) in [(600, 40, 3), (1_900, 1, 1)] {
        assert!(threads * pieces < 241 * 16 / 2);
        let memory = MemorySink::new();
        let (sink, flusher) = Held::new(memory.clone());
        let builder = Session::builder().sink(sink).provider("Many-Threads").budget(8 << 20);
        let session = builder.start().unwrap();
        flusher.hold();
        Tick { value: 0, note: &[] }.emit();
        let patience = Instant::now();
        while !flusher.waits() {
            assert!(patience.elapsed() < Duration::from_secs(240));
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..threads / 100 {
            let body = move || (0..each).for_each(|value| Tick { value, note: &[7; 80] }.emit());
            let start = |_| thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap();
            let some: Vec<_> = (0..100).map(start).collect();
            some.into_iter().for_each(|thread| thread.join().unwrap());
        }
        assert!(flusher.waits());
        let stats = session.stats();
        flusher.let_go();
        assert_eq!(stats.dropped(), 0, "{threads} threads, {:?}", stats.drops);
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.dropped()), (1 + threads * each, 0), "{stats:?}");
        check(&memory.bytes(), &stats);
    }
}

/// On two processors of its own it loses nothing. Beside other work it may: a fair scheduler gives
/// the flusher one share in thousands, and what is recorded meanwhile must fit the budget. So this
/// prints what is lost, and the test above demands what is guaranteed.
#[test]
#[ignore = "takes 20 s and 5,000 threads"]
fn five_thousand_threads_on_the_defaults() {
    let _alone = one_at_a_time();
    // Without a trace, 5,000 threads that wake 50 times a second saturate two processors already.
    for (threads, per_second) in [(2_500, 50), (5_000, 10)] {
        let (sink, builder) = memory("Many-Threads");
        let stats = tick(threads, per_second, Duration::from_secs(5), builder);
        let (lost, all) = (stats.dropped(), stats.attempted);
        println!("{threads} threads: {lost} of {all} lost, {:?}", stats.drops);
        assert_eq!(stats.drops.no_room, lost, "{stats:?}");
        check(&sink.bytes(), &stats);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Many-Sizes")]
struct Sized<'a> {
    bytes: &'a [u8],
}

#[test]
fn events_of_all_sizes_find_room_in_chunks_of_any_size() {
    let (sink, builder) = memory("Many-Sizes");
    let builder = builder.flush_interval(Duration::from_millis(5)).budget(8 << 20);
    let session = builder.on_full(nettrace_writer::OnFull::Block).start().unwrap();
    thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || {
                let bytes = vec![thread as u8; 32_000];
                for at in 0..600_usize {
                    // Mostly small events, then some that no small chunk holds, and a pause now and
                    // then.
                    let len = [20, 300, 4_000, 4_090, 5_000, 9_000, 31_000][at * (thread + 3) % 7];
                    Sized { bytes: &bytes[..len] }.emit();
                    if at % 50 == 0 {
                        thread::sleep(Duration::from_millis(7));
                    }
                }
            });
        }
    });
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.dropped()), (2_400, 0), "{stats:?}");
    check(&sink.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Many-Idle")]
struct Once {
    value: u64,
}

#[test]
fn memory_that_was_split_serves_fast_threads_again() {
    // There are 60 chunks. A thousand threads need a small chunk each; then one thread fills the
    // budget.
    let builder = Session::builder().sink(StreamSink::new(std::io::sink())).provider("Many-Idle");
    let builder = builder.flush_interval(Duration::from_secs(3_600));
    let session = builder.budget((60 << 15) + (80 << 10)).chunk_size(32 << 10).start().unwrap();
    for _ in 0..3 {
        for _ in 0..5 {
            let births = (0..90).map(|value| thread::spawn(move || Once { value }.emit()));
            births.collect::<Vec<_>>().into_iter().for_each(|birth| birth.join().unwrap());
            session.flush().unwrap();
        }
        assert_eq!(session.stats().dropped(), 0, "{:?}", session.stats());
        for _ in 0..20 {
            (0..60_000).for_each(|value| Once { value }.emit());
            session.flush().unwrap();
        }
        assert_eq!(session.stats().dropped(), 0, "{:?}", session.stats());
    }
    assert_eq!(session.finish().unwrap().written, 3 * (5 * 90 + 20 * 60_000));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Many-Starts")]
struct First {
    value: u64,
}

/// The flusher touches the memory of a session as it starts. Threads have the rest of it meanwhile.
#[test]
fn an_event_right_after_the_start_finds_room() {
    for value in 0..300 {
        let (_, builder) = memory("Many-Starts");
        let session = builder.budget(4 << 20).start().unwrap();
        while session.stats().memory_touched == 0 {
            thread::yield_now();
        }
        First { value }.emit();
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (1, 0), "{stats:?}");
    }
}
