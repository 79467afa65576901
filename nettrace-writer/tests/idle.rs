//! Sessions to which nobody emits: what they cost, and how fast the first event after that is
//! written.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a filter of system calls")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::Cell,
    fs,
    sync::mpsc,
    time::{Duration, Instant},
};

use nettrace_writer::{Emit, Session, TraceEvent};
use testkit::process::{alone, once_in, skipped_in_emulator};

use crate::trace_support::{Hostile, check, memory, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Idle")]
struct Rare {
    value: u64,
}

/// What the flushers of this process have done so far, or during a spell.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    /// How often they gave up the processor voluntarily.
    wake_ups: u64,
    /// How long they ran.
    busy: Duration,
    /// How long the spell really was: a busy machine makes it longer.
    spell: Duration,
}

fn flushers() -> Effort {
    let mut sum = Effort::default();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if !fs::read_to_string(task.join("comm")).unwrap().starts_with("nettrace-flushe") {
            continue;
        }
        let status = fs::read_to_string(task.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum.wake_ups += line.expect("a count").trim().parse::<u64>().unwrap();
        let stat = fs::read_to_string(task.join("schedstat")).unwrap();
        let nanos = stat.split(' ').next().expect("three numbers").parse().unwrap();
        sum.busy += Duration::from_nanos(nanos);
    }
    sum
}

/// Waits until a session has written its one event and the sequence point after it. Then it has
/// nothing to do.
fn rests(session: &Session) {
    let start = Instant::now();
    loop {
        let stats = session.stats();
        if stats.written == 1 && stats.sequence_points > 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(240), "{stats:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts `count` sessions, writes one event and a sequence point, and measures them while they are
/// idle.
fn idle_sessions(count: usize, spell: Duration) -> Effort {
    let sessions: Vec<_> = (0..count).map(|_| memory("Idle").1.start().unwrap()).collect();
    Rare { value: 1 }.emit();
    sessions.iter().for_each(rests);
    std::thread::sleep(Duration::from_millis(1_000));
    let (before, start) = (flushers(), Instant::now());
    std::thread::sleep(spell);
    let after = flushers();
    let spell = start.elapsed();
    for session in sessions {
        assert_eq!(session.finish().unwrap().written, 1);
    }
    Effort { wake_ups: after.wake_ups - before.wake_ups, busy: after.busy - before.busy, spell }
}

#[test]
fn an_idle_session_hardly_ever_wakes() {
    if !alone("an_idle_session_hardly_ever_wakes") {
        return;
    }
    let effort = idle_sessions(1, Duration::from_secs(4));
    println!("one session, 4 s: {effort:?}");
    // Two wake-ups a second, and one more at either end.
    assert!(effort.wake_ups as f64 <= 2.0 * effort.spell.as_secs_f64() + 2.0, "{effort:?}");
}

#[test]
fn thirty_one_idle_sessions_cost_next_to_nothing() {
    if !alone("thirty_one_idle_sessions_cost_next_to_nothing") {
        return;
    }
    let effort = idle_sessions(30, Duration::from_secs(5));
    println!("30 sessions, 5 s: {effort:?}");
    let seconds = effort.spell.as_secs_f64();
    assert!(effort.wake_ups as f64 <= 30.0 * (2.0 * seconds + 2.0), "{effort:?}");
    // The aim is a thousandth of a processor, in an optimised build on a quiet machine.
    let bound = if cfg!(debug_assertions) { 0.010 } else { 0.001 };
    assert!(effort.busy.as_secs_f64() < bound * seconds, "{effort:?}");
}

/// Makes `membarrier` fail from now on, for every thread of the process.
fn take_membarrier_away() {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = [
        // The number of the system call is the first word of `seccomp_data`.
        statement(load, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_membarrier as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: sets a flag of this thread.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let (set, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the program is live, and the kernel copies and checks it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, set, all, &raw const program) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn an_idle_session_interrupts_nobody() {
    // QEMU refuses every filter with EINVAL, because it could hit QEMU's own system calls.
    if skipped_in_emulator("a filter that takes a system call away") {
        return;
    }
    if !alone("an_idle_session_interrupts_nobody") {
        return;
    }
    let (sink, builder) = memory("Idle");
    let session = builder.start().unwrap();
    Rare { value: 1 }.emit();
    rests(&session);
    std::thread::sleep(Duration::from_millis(1_000));
    take_membarrier_away();
    std::thread::sleep(Duration::from_millis(2_500));
    // A flusher that asks for the barrier dies.
    session.flush().unwrap();
    assert_eq!(read(&sink.bytes()).len(), 1);
    // The last rounds of a session ask.
    std::mem::forget(session);
}

#[test]
fn the_first_event_after_idleness_is_written_within_one_interval() {
    if alone("the_first_event_after_idleness_is_written_within_one_interval") {
        written_within_one_interval(&[3_000, 1_700]);
    }
}

/// The last spell is shorter than the time after which the flusher rests.
#[test]
fn so_is_the_first_event_after_a_moment() {
    if alone("so_is_the_first_event_after_a_moment") {
        written_within_one_interval(&[3_000, 450]);
    }
}

/// Emits after spells of idleness of so many milliseconds.
fn written_within_one_interval(spells: &[u64]) {
    const INTERVAL: Duration = Duration::from_millis(400);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("first.nettrace");
    let builder = Session::builder().file(&path).provider("Idle").flush_interval(INTERVAL);
    let session = builder.start().unwrap();
    let value = Cell::new(0);
    for &spell in spells {
        once_in(8, || {
            std::thread::sleep(Duration::from_millis(spell));
            let before = fs::metadata(&path).unwrap().len();
            let emitted = Instant::now();
            value.set(value.get() + 1);
            Rare { value: value.get() }.emit();
            while fs::metadata(&path).unwrap().len() == before {
                assert!(emitted.elapsed() < 600 * INTERVAL, "event {value:?} is not written");
                std::thread::sleep(Duration::from_millis(1));
            }
            let late = emitted.elapsed();
            println!("after {spell} ms: written after {late:?}");
            // One interval, and the time of one write.
            let is_late = late >= INTERVAL + Duration::from_millis(150);
            if is_late { Err(format!("{late:?}")) } else { Ok(()) }
        });
    }
    let stats = session.finish().unwrap();
    assert_eq!(stats.written, value.get());
    check(&fs::read(&path).unwrap(), &stats);
}

/// What a session costs while few events come is the flusher's wake-ups, not its rows.
#[test]
fn a_session_with_few_events_wakes_little_more_than_for_its_rounds() {
    if !alone("a_session_with_few_events_wakes_little_more_than_for_its_rounds") {
        return;
    }
    let (sink, builder) = memory("Idle");
    let session = builder.start().unwrap();
    let (before, start) = (flushers(), Instant::now());
    let mut value = 0;
    while start.elapsed() < Duration::from_secs(3) {
        Rare { value }.emit();
        value += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    let (after, seconds) = (flushers(), start.elapsed().as_secs_f64());
    let wake_ups = after.wake_ups - before.wake_ups;
    println!("{wake_ups} wake-ups in {seconds} s, {:?} of work", after.busy - before.busy);
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(stats.written, value, "{stats:?}");
    // Ten rounds a second, each of which may wait for a moment in between.
    assert!(wake_ups as f64 <= 40.0 * seconds + 10.0, "{wake_ups} in {seconds} s");
}

#[test]
fn a_burst_after_idleness_finds_its_memory_in_time() {
    if !alone("a_burst_after_idleness_finds_its_memory_in_time") {
        return;
    }
    // Three times the budget, in pieces that fit it. Each piece comes within the flusher's usual
    // rhythm.
    once_in(8, || {
        let (sink, builder) = memory("Idle");
        let session = builder.budget(1 << 20).start().unwrap();
        Rare { value: 0 }.emit();
        std::thread::sleep(Duration::from_secs(2));
        for _ in 0..30 {
            (0..4_000).for_each(|value| Rare { value }.emit());
            std::thread::sleep(Duration::from_millis(50));
        }
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, 120_001, "{stats:?}");
        check(&sink.bytes(), &stats);
        if stats.dropped() > 0 { Err(format!("{stats:?}")) } else { Ok(()) }
    });
}

#[test]
fn what_was_lost_without_a_chunk_is_told_while_the_session_is_idle() {
    if !alone("what_was_lost_without_a_chunk_is_told_while_the_session_is_idle") {
        return;
    }
    struct Panicking;
    impl TraceEvent for Panicking {
        fn event_types() -> &'static [&'static nettrace_event::EventType] {
            &[]
        }
        fn event_type(&self) -> &'static nettrace_event::EventType {
            Rare::event_types()[0]
        }
        fn encode<E: nettrace_event::PayloadEncoder>(&self, _: &mut E) {
            panic!("an encoder that panics");
        }
    }
    // Two sessions: a panic in the first is counted in the second, which never gets a chunk.
    let (one, other) = (memory("Idle"), memory("Idle"));
    let sessions = [one.1.start().unwrap(), other.1.start().unwrap()];
    Rare { value: 1 }.emit();
    sessions.iter().for_each(rests);
    std::thread::sleep(Duration::from_millis(500));
    assert!(std::panic::catch_unwind(|| Panicking.emit()).is_err());
    let start = Instant::now();
    for sink in [&one.0, &other.0] {
        loop {
            let report = nettrace_reader::verify(&sink.bytes()[..]).unwrap();
            if report.lost > 0 {
                assert_eq!((report.events, report.lost), (1, 1), "{report:?}");
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(240), "it is not told: {report:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    for (session, sink) in sessions.into_iter().zip([one.0, other.0]) {
        check(&sink.bytes(), &session.finish().unwrap());
    }
}

#[test]
fn a_thread_that_is_stuck_in_an_event_is_awaited_with_few_wake_ups() {
    if !alone("a_thread_that_is_stuck_in_an_event_is_awaited_with_few_wake_ups") {
        return;
    }
    let session = memory("Idle").1.start().unwrap();
    Rare { value: 0 }.emit();
    let (begun, is_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let stuck = std::thread::spawn(move || {
        let bytes = || {
            let _ = begun.send(());
            let _ = may_go_on.recv();
            vec![1; 8]
        };
        Hostile { ty: Rare::event_types()[0], bytes: &bytes }.emit();
    });
    is_begun.recv().unwrap();
    let (before, start) = (flushers(), Instant::now());
    std::thread::sleep(Duration::from_secs(4));
    let (wake_ups, seconds) = (flushers().wake_ups - before.wake_ups, start.elapsed());
    drop(go_on);
    stuck.join().unwrap();
    assert_eq!(session.finish().unwrap().written, 2);
    println!("{wake_ups} wake-ups in {seconds:?}");
    assert!(wake_ups as f64 <= 250.0 * seconds.as_secs_f64(), "{wake_ups} in {seconds:?}");
}

#[test]
fn a_point_that_is_due_before_the_next_round_keeps_the_flusher_asleep() {
    if !alone("a_point_that_is_due_before_the_next_round_keeps_the_flusher_asleep") {
        return;
    }
    let (sink, builder) = memory("Idle");
    let builder = builder.budget(1 << 20).flush_interval(Duration::from_secs(6));
    let session = builder.sequence_points(1 << 30, Duration::from_secs(1)).start().unwrap();
    // A point now, and rounds without one a moment later, because memory runs low.
    session.flush().unwrap();
    (0..60_000).for_each(|value| Rare { value }.emit());
    std::thread::sleep(Duration::from_millis(1_500));
    let (before, start) = (flushers(), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let (busy, spell) = (flushers().busy - before.busy, start.elapsed());
    println!("busy for {busy:?} of {spell:?}");
    assert!(session.stats().flushes > 1, "there was no round after the flush");
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert!(busy * 50 < spell, "busy for {busy:?} of {spell:?}");
}
