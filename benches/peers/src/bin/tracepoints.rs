//! The cost of an event in the crate `eventheader` 0.5 and in ours: with nobody listening, and with
//! the kernel.
//!
//! `cargo run --release --bin tracepoints` prints nanoseconds an event. Its last line is one JSON
//! object. The event has five numbers and a string. With nobody listening, the figure is the time
//! of a loop with the event less that of an empty loop.
//!
//! The program turns the tracepoints on itself. For that the kernel must have user_events and the
//! user must be root, as in `dev/vm/run PROGRAM`. Otherwise the program skips the
//! figures with the kernel. Under emulation those figures only compare the peers with each other.
//! There vector instructions are slow enough to hide everything else; turn them off with
//! `GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX,-ERMS,-FSRM`.

use std::{
    fs,
    hint::black_box,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use eventheader::{define_provider, write_event};

define_provider!(PROVIDER, "Peers_Tracepoints");

/// The files that turn on the tracepoints of the events below: level 4, keyword 1.
const SWITCHES: &[&str] = &[
    "/sys/kernel/tracing/events/user_events/Peers_Tracepoints_L4K1/enable",
    #[cfg(feature = "ours")]
    "/sys/kernel/tracing/events/user_events/Peers_Tracepoints_Ours_L4K1/enable",
];

/// Rounds of each loop. The loops take turns. The best round counts, because noise only adds time.
const ROUNDS: usize = 51;

fn main() -> ExitCode {
    // SAFETY: this is a program, which is never unloaded, so neither is the static provider.
    let registered = unsafe { PROVIDER.register() };
    emit_ours(0);
    let [empty, theirs, of_ours] = costs(200_000);
    let mut figures = vec![("eventheader_disabled_ns", theirs - empty)];
    #[cfg(feature = "ours")]
    figures.push(("ours_disabled_ns", of_ours - empty));
    #[cfg(not(feature = "ours"))]
    let _ = of_ours;

    match SWITCHES.iter().try_for_each(|switch| fs::write(switch, "1")) {
        Ok(()) => {
            // The kernel sets the words asynchronously.
            thread::sleep(Duration::from_millis(500));
            let [empty, theirs, of_ours] = costs(2_000);
            let last = emit(1);
            let off = SWITCHES.iter().try_for_each(|switch| fs::write(switch, "0"));
            PROVIDER.unregister();
            if last != 0 || off.is_err() {
                eprintln!("error: the last event ended with {last}, turning off with {off:?}");
                return ExitCode::FAILURE;
            }
            figures.push(("eventheader_enabled_ns", theirs - empty));
            #[cfg(feature = "ours")]
            figures.push(("ours_enabled_ns", of_ours - empty));
            #[cfg(not(feature = "ours"))]
            let _ = of_ours;
        }
        Err(error) => {
            println!("skipped: enabled: registering said {registered}, turning on: {error}");
        }
    }
    for (name, value) in &figures {
        println!("{name:<28} {value:>9.2}");
    }
    let parts: Vec<_> =
        figures.iter().map(|(name, value)| format!("\"{name}\":{value:.3}")).collect();
    println!("{{{}}}", parts.join(","));
    ExitCode::SUCCESS
}

/// Times an empty loop, `eventheader` and our crate, in nanoseconds an event. Takes the best of
/// many turns.
fn costs(events: u64) -> [f64; 3] {
    let mut best = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(nanoseconds(events, |_| 0));
        best[1] = best[1].min(nanoseconds(events, emit));
        best[2] = best[2].min(nanoseconds(events, emit_ours));
    }
    best
}

/// The same event as ours.
#[cfg(feature = "ours")]
#[inline(always)]
fn emit_ours(number: u64) -> u32 {
    use eventheader_writer::Emit as _;

    #[derive(eventheader_writer::TraceEvent)]
    #[trace_event(provider = "Peers_Tracepoints_Ours", keywords = 0x1)]
    struct Work {
        a: u64,
        b: u64,
        c: u32,
        d: i32,
        e: f64,
        text: &'static str,
    }

    let (b, c, e) = (number ^ 0xff, number as u32, number as f64);
    Work { a: number, b, c, d: -7, e, text: "sixteen letters." }.emit();
    0
}

#[cfg(not(feature = "ours"))]
fn emit_ours(_: u64) -> u32 {
    0
}

/// Writes one event. Returns 0, or the system's error for the write.
#[inline(always)]
fn emit(number: u64) -> u32 {
    write_event!(
        PROVIDER,
        "Work",
        level(Informational),
        keyword(0x1),
        u64("a", &number),
        u64("b", &(number ^ 0xff)),
        u32("c", &(number as u32)),
        i32("d", &-7),
        f64("e", &(number as f64)),
        str8("text", "sixteen letters."),
    )
}

/// The time that one turn of a loop takes, in nanoseconds.
#[inline(always)]
fn nanoseconds(turns: u64, work: impl Fn(u64) -> u32) -> f64 {
    let start = Instant::now();
    for number in 0..turns {
        black_box(work(black_box(number)));
    }
    start.elapsed().as_secs_f64() * 1e9 / turns as f64
}
