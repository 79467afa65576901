//! A trace's times and order if clocks jump. This program has its own `clock_gettime`, which can
//! set each of the system's clocks, also for the standard library.
//!
//! The processor's counter cannot be set. But if the clock with sleep jumps, that looks to the
//! counter like a machine that slept while the counter stood still.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a system call in the place of a library's")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use nettrace_event::{FieldType, PayloadEncoder};
use nettrace_reader::Options;
use nettrace_writer::{
    Clock, Emit as _, Session, TraceEvent, TraceField,
    sink::{Batch, MemorySink, RotationOptions, Sink, StreamEnd, WriteError},
};
use testkit::{
    effort::left_out,
    process::{Alone, one_at_a_time},
};

use crate::trace_support::{check, memory};

/// By how many nanoseconds each of the first eight clocks is ahead of the system's.
static AHEAD: [AtomicI64; 8] = [const { AtomicI64::new(0) }; 8];

/// Replaces the C library's function.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let answer = raw_clock(clock, time);
    let ahead = usize::try_from(clock).ok().and_then(|clock| AHEAD.get(clock));
    let ahead = ahead.map_or(0, |ahead| ahead.load(Ordering::SeqCst));
    if answer == 0 && ahead != 0 {
        // SAFETY: the caller passes a place for the time, and the system has written to it.
        let time = unsafe { &mut *time };
        let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let nanos = nanos + i128::from(ahead);
        time.tv_sec = nanos.div_euclid(1_000_000_000) as _;
        time.tv_nsec = nanos.rem_euclid(1_000_000_000) as _;
    }
    answer
}

fn raw_clock(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the arguments are the caller's, and the call takes them.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int }
}

/// The monotonic clock as if nobody had set it.
fn real_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(raw_clock(libc::CLOCK_MONOTONIC, &raw mut time), 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const STEERED: libc::clockid_t = libc::CLOCK_MONOTONIC;
const UNSTEERED: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
const WITH_SLEEP: libc::clockid_t = libc::CLOCK_BOOTTIME;
const OF_DAY: libc::clockid_t = libc::CLOCK_REALTIME;

/// The clocks of the whole process: one test at a time may set them.
struct Clocks(#[allow(dead_code, reason = "held")] Alone);

impl Clocks {
    fn take() -> Self {
        Self(one_at_a_time())
    }

    fn step(&self, clocks: &[libc::clockid_t], seconds: f64) {
        for &clock in clocks {
            AHEAD[clock as usize].fetch_add((seconds * 1e9) as i64, Ordering::SeqCst);
        }
    }
}

/// Set to end the threads that run until then.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        AHEAD.iter().for_each(|ahead| ahead.store(0, Ordering::SeqCst));
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Clock-Order")]
struct Tick {
    /// Read by [`real_nanos`].
    at: u64,
    number: u64,
}

const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// The least time for which clocks are left alone before, between and after jumps.
const PHASE: Duration = Duration::from_millis(600);
/// The least number of events in that time: few, because threads may wait for a processor.
const PHASE_EVENTS: u64 = 120;

/// Which clocks jump, by how many seconds, and for how many seconds of the trace's time this should
/// count.
type Jump<'a> = (&'a [libc::clockid_t], f64, f64);

fn session(clock: Clock, jumps: &[Jump<'_>]) {
    session_within(3.0, clock, jumps, false);
}

/// Emits from two threads while clocks are set. Checks the order, and that times are right within
/// `exactness` milliseconds. With `returns` a jump is undone after some milliseconds.
fn session_within(exactness: f64, clock: Clock, jumps: &[Jump<'_>], returns: bool) {
    let clocks = Clocks::take();
    let (sink, builder) = memory("Clock-Order");
    let session = builder
        .clock(clock)
        .flush_interval(FLUSH_INTERVAL)
        .sequence_points(1 << 20, Duration::from_millis(20))
        .start()
        .unwrap();
    let (stop, emitted) = (AtomicBool::new(false), AtomicU64::new(0));
    // When the clocks jumped, and a time by which a round has seen it.
    let mut jumped = Vec::new();
    // When the emit of an event began, and when it was over: the session has read its clock in
    // between.
    let emits = thread::scope(|scope| {
        // Also if a check fails before.
        let stops = Stops(&stop);
        let threads = [Duration::from_millis(1), Duration::from_millis(7)].map(|pause| {
            let (stop, emitted) = (&stop, &emitted);
            scope.spawn(move || {
                let mut emits = Vec::new();
                for number in 0.. {
                    let at = real_nanos();
                    Tick { at, number }.emit();
                    emits.push((at, real_nanos()));
                    emitted.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    thread::sleep(pause);
                }
                emits
            })
        });
        // Goes on for a while. Returns a time by which a whole round has come.
        let go_on = || {
            let (start, rounds) = (real_nanos(), session.stats().flushes);
            let events = emitted.load(Ordering::Relaxed) + PHASE_EVENTS;
            let mut seen = None;
            while seen.is_none()
                || real_nanos() - start < PHASE.as_nanos() as u64
                || emitted.load(Ordering::Relaxed) < events
            {
                thread::sleep(Duration::from_millis(2));
                if seen.is_none() && session.stats().flushes >= rounds + 2 {
                    seen = Some(real_nanos());
                }
                let late = real_nanos() - start > 240_000_000_000;
                assert!(seen.is_some() || !late, "no round in four minutes");
            }
            seen.unwrap_or_default()
        };
        go_on();
        for &(which, by, _) in jumps {
            let jump = real_nanos();
            clocks.step(which, by);
            if returns {
                thread::sleep(Duration::from_millis(20));
                clocks.step(which, -by);
            }
            jumped.push((jump, go_on()));
        }
        drop(stops);
        let mut over = HashMap::new();
        for (at, after) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            let latest = over.entry(at).or_insert(after);
            *latest = after.max(*latest);
        }
        over
    });
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);

    let bytes = sink.bytes();
    let mut reader = Options::default().open(&bytes[..]).unwrap();
    let (mut times, mut last_numbers) = (Vec::new(), HashMap::new());
    while let Some(event) = reader.next_event().unwrap() {
        let word = |at: usize| u64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap());
        let (real, number) = (word(0), word(8));
        let told = event.trace().milliseconds(event.header.timestamp);
        let before = last_numbers.insert(event.header.capture_thread, (number, told));
        if let Some((before, told_before)) = before {
            assert!(before + 1 == number && told_before <= told, "{number} after {before}");
        }
        times.push((real, told));
    }

    let begin = times.iter().map(|&(real, _)| real).min().expect("events");
    let passed = |real: u64| (real - begin) as f64 / 1e6;
    // An event that was not held up between its own clock and the session's, as the first often is.
    let before_jumps = times.iter().filter(|&&(real, _)| emits[&real] < jumped[0].0);
    let offset = before_jumps.map(|&(real, told)| told - passed(real)).min_by(f64::total_cmp);
    let offset = offset.expect("events before the clocks jump");
    let events = times.len();
    for (real, told) in times {
        let over = emits[&real];
        // The first jump that no round had seen when the event was emitted.
        let fresh = jumped.iter().find(|&&(jump, seen)| jump <= over && real < seen);
        let meant = jumped.iter().zip(jumps).filter(|((jump, _), _)| *jump <= real);
        let meant: f64 = meant.map(|(_, jump)| jump.2 * 1e3).sum();
        let told = told - offset - meant;
        let (least, most) = if let Some(&(jump, seen)) = fresh {
            // A sleep before it is not known yet.
            let asleep = jumps.iter().map(|jump| jump.2 * 1e3).sum::<f64>();
            let unseen = 1e3 + (seen - jump) as f64 / 1e6;
            (passed(real) - unseen - asleep, passed(over) + unseen)
        } else {
            (passed(real) - exactness, passed(over) + exactness)
        };
        assert!(
            least <= told && told <= most,
            "{told} ms: emitted from {} to {}",
            passed(real),
            passed(over)
        );
    }
    let seen: Vec<_> = jumped.iter().map(|(jump, seen)| (seen - jump) / 1_000_000).collect();
    println!("{clock:?}, {jumps:?}: seen after {seen:?} ms; {events} events");
    assert!(events > 200, "{events} events");
}

#[test]
fn a_monotonic_clock_that_goes_back_is_corrected() {
    session(Clock::Monotonic, &[(&[STEERED], -60.0, 0.0)]);
}

#[test]
fn clocks_that_go_back_together_are_corrected() {
    session(Clock::Monotonic, &[(&[STEERED, WITH_SLEEP, OF_DAY], -60.0, 0.0)]);
}

#[test]
fn a_round_is_lost_if_all_clocks_go_back() {
    // Nothing says how much time passed between the looks at the clock before and after the jump.
    let all = [STEERED, UNSTEERED, WITH_SLEEP, OF_DAY];
    session_within(500.0, Clock::Monotonic, &[(&all, -60.0, 0.0)], false);
}

#[test]
fn a_monotonic_clock_that_goes_forward_is_corrected() {
    if left_out() {
        return;
    }
    session(Clock::Monotonic, &[(&[STEERED], 60.0, 0.0)]);
    session(Clock::Monotonic, &[(&[STEERED, WITH_SLEEP], 0.2, 0.0), (&[STEERED], -0.2, 0.0)]);
}

#[test]
fn a_clock_that_is_ahead_for_a_moment_has_no_effect() {
    if left_out() {
        return;
    }
    session_within(3.0, Clock::Monotonic, &[(&[STEERED], 5.0, 0.0), (&[STEERED], 0.3, 0.0)], true);
}

#[test]
fn time_asleep_counts() {
    session(Clock::Monotonic, &[(&[WITH_SLEEP, OF_DAY], 60.0, 60.0)]);
    session(Clock::Counter, &[(&[WITH_SLEEP, OF_DAY], 60.0, 60.0)]);
}

#[test]
fn the_time_of_day_may_be_set() {
    if left_out() {
        return;
    }
    session(Clock::Monotonic, &[(&[OF_DAY], 3_600.0, 0.0), (&[OF_DAY], -7_200.0, 0.0)]);
    session(Clock::Auto, &[(&[OF_DAY], 3_600.0, 0.0), (&[OF_DAY], -7_200.0, 0.0)]);
}

/// A value during whose encoding something happens.
struct Meanwhile<'a>(&'a dyn Fn());

impl TraceField for Meanwhile<'_> {
    const TYPE: FieldType = FieldType::U8;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        (self.0)();
        encoder.u8(0);
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Clock-Order")]
struct Held<'a> {
    meanwhile: Meanwhile<'a>,
}

#[test]
fn the_order_holds_for_a_thread_that_jumps_find_in_an_event() {
    let clocks = Clocks::take();
    let (sink, builder) = memory("Clock-Order");
    let builder = builder.clock(Clock::Monotonic).flush_interval(Duration::from_secs(100_000));
    let session = builder.start().unwrap();
    Tick { at: 0, number: 0 }.emit();
    session.flush().unwrap();
    clocks.step(&[STEERED], 60.0);
    // The round notices the jump, and waits for the event until that seems to take too long.
    let meanwhile = || {
        thread::scope(|scope| {
            let flushing = scope.spawn(|| session.flush());
            while !flushing.is_finished() {
                clocks.step(&[STEERED], 2.0);
                thread::sleep(Duration::from_millis(1));
            }
        });
        clocks.step(&[STEERED], -1_000.0);
    };
    Held { meanwhile: Meanwhile(&meanwhile) }.emit();
    // It has the time at which the round began, the event before it that of the next round.
    Tick { at: 0, number: 1 }.emit();
    session.flush().unwrap();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(stats.written, 3);
}

/// Clocks that jump by hours, forth and back, several times while the session collects a round.
#[test]
fn the_order_holds_while_clocks_jump_by_hours() {
    let all = [STEERED, UNSTEERED, WITH_SLEEP, OF_DAY];
    let cases: [(Clock, &[libc::clockid_t]); 4] = [
        (Clock::Counter, &[WITH_SLEEP]),
        (Clock::Monotonic, &[STEERED]),
        (Clock::Monotonic, &[WITH_SLEEP]),
        (Clock::Monotonic, &all),
    ];
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    // As if the machine had run for a day; and a time that a jump takes below 0.
    let starts = [86_400.0, 0.0];
    for (start, (clock, which)) in starts.into_iter().flat_map(|it| cases.map(|case| (it, case))) {
        let clocks = Clocks::take();
        clocks.step(&all, start);
        let (sink, builder) = memory("Clock-Order");
        let builder = builder.clock(clock).sequence_points(1 << 20, Duration::from_millis(20));
        let session = builder.start().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stops = Stops(&stop);
            for _ in 0..2 {
                scope.spawn(|| {
                    for number in 0.. {
                        Tick { at: 0, number }.emit();
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let since = real_nanos();
                        while real_nanos() - since < 20_000 {}
                    }
                });
            }
            // Rounds of its own, because those of the session wait by the clocks.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    session.flush().unwrap();
                }
            });
            let mut ahead = 0.0;
            for _ in 0..200 {
                let next = random(40_000) as f64 - 20_000.0;
                clocks.step(which, next - ahead);
                ahead = next;
                let (since, pause) = (real_nanos(), random(2_000_000));
                while real_nanos() - since < pause {}
            }
        });
        let stats = session.finish().unwrap();
        check(&sink.bytes(), &stats);
    }
}

#[test]
fn a_counter_does_not_follow_clocks_that_are_made_up() {
    if left_out() {
        return;
    }
    session(Clock::Counter, &[(&[STEERED], -60.0, 0.0), (&[STEERED, WITH_SLEEP], 60.0, 0.0)]);
}

/// The trace's time of day at an event, in milliseconds since midnight.
fn time_of_day(event: &nettrace_reader::Event<'_>) -> f64 {
    let start = event.trace().sync_time;
    let minutes = f64::from(start.hour) * 60.0 + f64::from(start.minute);
    let millis = (minutes * 60.0 + f64::from(start.second)) * 1e3 + f64::from(start.millisecond);
    millis + event.trace().milliseconds(event.header.timestamp)
}

#[test]
fn each_file_of_a_rotation_tells_the_time_of_day() {
    if left_out() {
        return;
    }
    const DAY: f64 = 86_400e3;
    let clocks = Clocks::take();
    for (clock, which, by, meant) in [
        (Clock::Monotonic, &[STEERED][..], -60.0, 0.0),
        (Clock::Counter, &[WITH_SLEEP, OF_DAY][..], 60.0, 60e3),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let files = RotationOptions::new(directory.path(), "clock");
        let session = Session::builder()
            .sink(files.file_age(Duration::from_millis(100)).build().unwrap())
            .provider("Clock-Order")
            .clock(clock)
            .flush_interval(FLUSH_INTERVAL)
            .start()
            .unwrap();
        let emit = |count| {
            for number in 0..count {
                Tick { at: real_nanos(), number }.emit();
                thread::sleep(Duration::from_millis(2));
            }
        };
        emit(150);
        clocks.step(which, by);
        let jump = real_nanos();
        let rounds = session.stats().flushes;
        while session.stats().flushes < rounds + 2 {
            emit(1);
        }
        let seen = real_nanos();
        emit(200);
        session.finish().unwrap();

        let mut paths: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
        paths.sort_by_key(std::fs::DirEntry::file_name);
        assert!(paths.len() >= 5, "{paths:?}");
        let (mut first, mut late, mut events) = (None, 0, 0);
        for path in paths {
            let mut reader =
                Options::default().open(std::fs::File::open(path.path()).unwrap()).unwrap();
            while let Some(event) = reader.next_event().unwrap() {
                let at = u64::from_le_bytes(event.payload[..8].try_into().unwrap());
                if (jump..seen).contains(&at) {
                    continue;
                }
                let ahead = time_of_day(&event) - at as f64 / 1e6;
                let meant = if at >= jump { meant } else { 0.0 };
                let error = ahead - *first.get_or_insert(ahead) - meant;
                let error = (error + 1.5 * DAY).rem_euclid(DAY) - DAY / 2.0;
                // A thread may have lost the processor between the two clocks. 60 ms are the jump.
                late += u32::from(error.abs() > 20.0);
                events += 1;
                assert!(error.abs() < 1e3, "{clock:?}: {error} ms off");
            }
        }
        println!("{clock:?}: {events} events, {late} late");
        assert!(events >= 300 && late < 30, "{clock:?}: {events} events, {late} late");
        AHEAD.iter().for_each(|ahead| ahead.store(0, Ordering::SeqCst));
    }
}

/// Asks for a new stream once, at which moment all clocks but the counter jump.
struct Jumping {
    sink: MemorySink,
    is_due: &'static AtomicBool,
}

impl Sink for Jumping {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> std::io::Result<()> {
        self.sink.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.sink.write(batch)
    }

    fn wants_restart(&mut self) -> bool {
        let is_due = self.is_due.swap(false, Ordering::SeqCst);
        if is_due {
            for clock in [STEERED, UNSTEERED, WITH_SLEEP, OF_DAY] {
                AHEAD[clock as usize].fetch_add(60_000_000_000, Ordering::SeqCst);
            }
        }
        is_due
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.sink.finish()
    }
}

#[test]
fn a_jump_just_before_a_new_stream_does_not_change_the_counters_pace() {
    static IS_DUE: AtomicBool = AtomicBool::new(false);
    let _clocks = Clocks::take();
    let sink = MemorySink::new();
    let session = Session::builder().sink(Jumping { sink: sink.clone(), is_due: &IS_DUE });
    let session = session.provider("Clock-Order").clock(Clock::Counter).start().unwrap();
    let emit = |number| Tick { at: real_nanos(), number }.emit();
    let pace = || {
        let bytes = sink.bytes();
        let mut reader = Options::default().open(&bytes[..]).unwrap();
        let event = reader.next_event().unwrap().expect("an event");
        event.trace().ticks_per_second
    };
    emit(0);
    session.flush().unwrap();
    let before = pace();
    IS_DUE.store(true, Ordering::SeqCst);
    emit(1);
    session.flush().unwrap();
    assert!(!IS_DUE.load(Ordering::SeqCst), "there was no new stream");
    let after = pace();
    assert!(before.abs_diff(after) < before / 1_000, "{before}, then {after} ticks a second");
    emit(2);
    assert_eq!(session.finish().unwrap().written, 3);
}
