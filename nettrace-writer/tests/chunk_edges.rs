//! Rows of every size, at the edges of chunks: a thread's first, the first after a round took the
//! chunk, and the last that fits.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{sync::Mutex, thread};

use nettrace_writer::{Emit, TraceEvent};

use crate::trace_support::{check, memory, read};

const PROVIDER: &str = "Chunk-Edges";

/// A session records what every test emits.
static ONE_TEST: Mutex<()> = Mutex::new(());

#[derive(TraceEvent)]
#[trace_event(provider = "Chunk-Edges")]
struct Empty {}

#[derive(TraceEvent)]
#[trace_event(provider = "Chunk-Edges")]
struct Byte {
    value: u8,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Chunk-Edges")]
struct Fixed {
    value: [u8; 24],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Chunk-Edges")]
struct Text<'a> {
    value: &'a str,
}

/// Records events by `emit`, which takes a number, on many threads and at many places of chunks.
/// Returns the payloads.
fn payloads(emit: impl Fn(usize) + Copy + Sync) -> Vec<Vec<u8>> {
    let _one = ONE_TEST.lock();
    let (sink, builder) = memory(PROVIDER);
    let session = builder.chunk_size(4_096).start().unwrap();
    // The first event of a thread, and the first after a round.
    for first in 0..32 {
        thread::scope(|scope| {
            scope.spawn(|| {
                emit(first);
                session.flush().unwrap();
                emit(first + 1);
            });
        });
    }
    // Each thread comes to the end of its chunk at another place.
    for first in 0..32 {
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..first).for_each(|number| Byte { value: number as u8 }.emit());
                (0..2_000).for_each(emit);
            });
        });
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (64 + 496 + 64_000, stats.attempted));
    check(&sink.bytes(), &stats);
    read(&sink.bytes()).into_iter().map(|event| event.payload).collect()
}

#[test]
fn rows_without_a_payload() {
    let payloads = payloads(|_| Empty {}.emit());
    assert_eq!(payloads.iter().filter(|payload| payload.is_empty()).count(), 64_064);
}

#[test]
fn rows_of_a_fixed_size() {
    let payloads = payloads(|number| Fixed { value: [number as u8; 24] }.emit());
    let whole = |payload: &&Vec<u8>| payload.len() == 24 && payload[..] == [payload[0]; 24];
    assert_eq!(payloads.iter().filter(whole).count(), 64_064);
}

#[test]
fn rows_of_ascii_text_of_any_size() {
    let long = "text of some length, ".repeat(8);
    let payloads = payloads(|number| Text { value: &long[..number % long.len()] }.emit());
    let encoded = |len: usize| -> Vec<u8> {
        let units = [len as u16].into_iter().chain(long[..len].encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let texts: Vec<_> = (0..long.len()).map(encoded).collect();
    let is_text = |payload: &&Vec<u8>| {
        let units = payload.first_chunk().map(|len| usize::from(u16::from_le_bytes(*len)));
        units.is_some_and(|len| texts.get(len) == Some(*payload))
    };
    assert_eq!(payloads.iter().filter(is_text).count(), 64_064);
}
