//! What an event costs in the crate `eventheader` 0.5, with nobody listening and with the kernel.
//!
//! `cargo run --release --bin tracepoints` prints nanoseconds an event, and as its last line one
//! JSON object. The event has five numbers and a string. With nobody listening, its cost is what a
//! loop takes beyond an empty one. Listening is turned on here, for which the kernel must have
//! user_events and the user must be root: as in `cargo xtask vm --shell PROGRAM`. Where that fails
//! the second figure is skipped. Under emulation it says how peers stand to each other, not more.

use std::{fs, hint::black_box, process::ExitCode, time::Instant};

use eventheader::{define_provider, write_event};

define_provider!(PROVIDER, "Peers_Tracepoints");

/// The tracepoint that the event below belongs to: level 4, keyword 1.
const SWITCH: &str = "/sys/kernel/tracing/events/user_events/Peers_Tracepoints_L4K1/enable";

/// Loops of each kind, which take turns; the best stands for each, because noise only adds.
const ROUNDS: usize = 51;

fn main() -> ExitCode {
    // SAFETY: this is a program, which is never unloaded, so neither is the static provider.
    let registered = unsafe { PROVIDER.register() };
    let (mut empty, mut disabled) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        empty = empty.min(nanoseconds(200_000, |_| 0));
        disabled = disabled.min(nanoseconds(200_000, emit));
    }
    let mut figures = vec![("eventheader_disabled_ns", disabled - empty)];

    match fs::write(SWITCH, "1") {
        Ok(()) => {
            let mut enabled = f64::MAX;
            for _ in 0..ROUNDS {
                enabled = enabled.min(nanoseconds(2_000, emit));
            }
            let last = emit(1);
            let off = fs::write(SWITCH, "0");
            PROVIDER.unregister();
            if last != 0 || off.is_err() {
                eprintln!("error: the last event ended with {last}, turning off with {off:?}");
                return ExitCode::FAILURE;
            }
            figures.push(("eventheader_enabled_ns", enabled - empty));
        }
        Err(error) => {
            println!(
                "skipped: eventheader_enabled_ns: registering said {registered}, turning on: {error}"
            );
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

/// One event; 0, or what the system says of the write.
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

/// What one turn of a loop takes.
#[inline(always)]
fn nanoseconds(turns: u64, work: impl Fn(u64) -> u32) -> f64 {
    let start = Instant::now();
    for number in 0..turns {
        black_box(work(black_box(number)));
    }
    start.elapsed().as_secs_f64() * 1e9 / turns as f64
}
