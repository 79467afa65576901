//! A thread that is stopped after each of its instructions: whatever instruction the process is
//! killed at, its trace and its recorder file have each event whose `emit` has returned, once, in
//! order and with what it was emitted with, or count it as lost.
//!
//! A test starts its program again. There a thread follows a script, and says before and after
//! each `emit` which event it is at. The test executes one instruction of it at a time. Whenever
//! what recovery depends on has changed, it recovers and compares.
//!
//! On x86-64 alone: a pair of exclusive instructions of AArch64 does not succeed when it is
//! stepped.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod files;
mod judge;
mod ptrace;
mod script;
mod stepper;
#[path = "../trace_support/mod.rs"]
mod trace_support;

use std::time::Duration;

use testkit::effort::left_out;

use crate::{
    script::{Script, Step::*, Steps},
    stepper::{alone, in_turn, together},
};

/// The least for chunks of 4 KiB.
const LEAST: usize = 96 << 10;

const PLAIN: Script = Script {
    chunk_size: 4096,
    budget: 4 * LEAST,
    flush_interval: Duration::from_secs(3_600),
    keeps: false,
    steps: &[],
};

/// The flusher makes one round after another.
const FLUSHED: Script = Script { flush_interval: Duration::from_millis(1), ..PLAIN };

#[test]
fn plain_events() {
    const STEPS: Steps =
        &[(2, &[Small, Text(7)]), (1, &[Watch]), (5, &[Small, Small, Text(3), Text(12)])];
    alone("plain_events", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn the_first_event_of_a_thread_and_of_types() {
    const STEPS: Steps = &[(1, &[Watch, Small, Small, Other])];
    alone("the_first_event_of_a_thread_and_of_types", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn the_next_chunk() {
    // Rows that fit, one that does not, and one that needs almost all of a chunk.
    const STEPS: Steps = &[
        (1, &[Small, Other]),
        (38, &[Bulk(90)]),
        (1, &[Watch]),
        (4, &[Bulk(90)]),
        (1, &[Bulk(4000), Small, Other, Bulk(4000), Bulk(4060), Small]),
    ];
    alone("the_next_chunk", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn many_chunks() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[(1, &[Small, Bulk(1), Watch]), (8, &[Bulk(2300), Small])];
    alone("many_chunks", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn parts_of_chunks() {
    if left_out() {
        return;
    }
    const STEPS: Steps =
        &[(1, &[Small, Bulk(1), Watch]), (8, &[Bulk(900)]), (3, &[Bulk(3000), Small, Bulk(6000)])];
    alone("parts_of_chunks", &Script { chunk_size: 8192, steps: STEPS, ..PLAIN });
}

#[test]
fn labels() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[
        (1, &[Small, Bulk(1), Watch, Enter(1), Small, Enter(2), Small, Leave, Small, Leave, Small]),
        (1, &[Enter(3), Leave, Small, Enter(4), Bulk(9), Small, Leave]),
        (1, &[Enter(5), Bulk(3000), Bulk(2000), Enter(6), Small, Bulk(4000), Leave, Small]),
        (1, &[Bulk(4000), Leave, Small, Bulk(4000), Small]),
    ];
    alone("labels", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn spans() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[
        (1, &[Small, Bulk(1), Watch, Begin, Small, Begin, Small, End, Bulk(3), End, Small]),
        (1, &[Begin, Bulk(3000), Begin, Bulk(2000), Small, End, Bulk(4000), Small, End, Small]),
    ];
    alone("spans", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn nested_and_panicking_events() {
    const STEPS: Steps = &[
        (1, &[Nested, Bulk(1), Watch, Nested, Small, Nested, Nested, Small, Panic]),
        (1, &[Bulk(3900), Nested, Bulk(3000), Bulk(2000), Small]),
    ];
    alone("nested_and_panicking_events", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn large_events() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[(1, &[Small, Bulk(1), Watch, Bulk(9000), Small, TooLarge, Small])];
    alone("large_events", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn no_room() {
    if left_out() {
        return;
    }
    const STEPS: Steps =
        &[(1, &[Small, Bulk(1), Watch]), (9, &[Perhaps(1800)]), (3, &[Perhaps(0)])];
    let outcome = alone("no_room", &Script { budget: LEAST, steps: STEPS, ..PLAIN });
    // The one large chunk takes a row, too.
    assert!(outcome.is_none_or(|(recorded, lost)| recorded > 8 && lost > 0), "{outcome:?}");
}

#[test]
fn origins() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[
        (1, &[Small, Bulk(1), Watch, Stack, Small, About, Small, About, Stack]),
        (1, &[Bulk(3700), Stack, Bulk(3700), About, Small]),
    ];
    alone("origins", &Script { steps: STEPS, ..PLAIN });
}

#[test]
fn beside_the_flusher() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[
        (1, &[Small, Bulk(1), Watch]),
        (1, &[Small, Enter(1), Small, Leave, Bulk(1500)]),
        (1, &[Enter(2), Small, Flush, Small, Leave, Small]),
    ];
    together("beside_the_flusher", 1, &Script { steps: STEPS, ..FLUSHED });
}

/// A flight recorder that has had more than it can keep, or gets it with the next flush.
const KEEPS: Script = Script { chunk_size: 64 << 10, budget: 8 << 20, keeps: true, ..PLAIN };

#[test]
fn a_flight_recorder_gives_up_its_oldest_stretch() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[
        (40, &[Bulk(9000), Bulk(9000), Bulk(9000), Bulk(9000), Flush]),
        (9, &[Bulk(9000)]),
        (1, &[Watch, Small, Flush, Small]),
    ];
    in_turn("a_flight_recorder_gives_up_its_oldest_stretch", &Script { steps: STEPS, ..KEEPS });
}

#[test]
fn a_flight_recorder_gives_up_the_oldest_events_of_a_burst() {
    if left_out() {
        return;
    }
    const STEPS: Steps = &[(125, &[Bulk(9000)]), (1, &[Watch, Small, Flush, Small])];
    let script = Script { steps: STEPS, ..KEEPS };
    in_turn("a_flight_recorder_gives_up_the_oldest_events_of_a_burst", &script);
}

#[test]
#[ignore = "takes minutes"]
fn beside_the_flusher_for_long() {
    const STEPS: Steps = &[
        (1, &[Small, Bulk(1), Watch]),
        (8, &[Small, Enter(1), Bulk(1500), Enter(2), Small, Leave, Nested, Bulk(1000), Leave]),
        (1, &[Enter(1), Small, Flush, Small, Bulk(3000), Bulk(3000), Flush, Small, Leave]),
        (1, &[Nested, Flush, Panic, Flush, Small]),
        (4, &[Bulk(1500), Stack, Bulk(3000), About, Begin, Small, End]),
    ];
    for seed in 1..=4 {
        together("beside_the_flusher_for_long", seed, &Script { steps: STEPS, ..FLUSHED });
    }
}
