//! Events whose encoding lies about its size, and events of every size.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_format::payload::{MAX_ELEMENTS, MAX_PAYLOAD};
use nettrace_reader::Rule;
use nettrace_writer::{Emit, MAX_STACK_FRAMES, OnFull, Origin, ThreadRef, TraceEvent};

use crate::trace_support::{Hostile, check, check_but, memory, read, schema};

const VALUE: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];

#[test]
fn an_encoding_that_changes_its_size_is_recorded_as_it_was_last() {
    static SCHEMA: EventSchema = schema("Hostile-Liar", "Liar", 7, VALUE);
    static LIAR: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Hostile-Liar");
    // The session blocks, because jumbo chunks are few.
    let session = builder.on_full(OnFull::Block).chunk_size(4_096).start().unwrap();
    // Sizes in the order of the calls. The last one is for all later calls.
    let plans: [&[usize]; 8] = [
        &[8, 16],
        &[16, 8],
        &[8, 0],
        &[0, 8],
        &[8, 4_000],
        &[8, 4_000, 5_000],
        &[8, 5_000, 8],
        &[4_000, MAX_PAYLOAD],
    ];
    let mut last = Vec::new();
    for round in 0..200 {
        let plan = plans[round % plans.len()];
        let (calls, size) = (Cell::new(0), Cell::new(0));
        let bytes = || {
            size.set(plan[calls.get().min(plan.len() - 1)]);
            calls.set(calls.get() + 1);
            vec![round as u8; size.get()]
        };
        Hostile { ty: &LIAR, bytes: &bytes }.emit();
        last.push(vec![round as u8; size.get()]);
    }
    let stats = session.finish().unwrap();
    check_but(&sink.bytes(), &stats, &[Rule::PayloadFields]);
    let payloads: Vec<_> = read(&sink.bytes()).into_iter().map(|event| event.payload).collect();
    assert_eq!((stats.dropped(), payloads.len()), (0, 200), "{stats:?}");
    assert!(payloads == last);
}

#[test]
fn an_encoding_that_never_fits_ends() {
    static SCHEMA: EventSchema = schema("Hostile-Grower", "Grower", 7, VALUE);
    static GROWER: EventType = EventType::new(&SCHEMA);
    let (sink, builder) = memory("Hostile-Grower");
    let session = builder.on_full(OnFull::Block).chunk_size(4_096).start().unwrap();
    for start in [1_usize, 100, 4_000, 16_000, 60_000, 70_000, 1 << 22] {
        let size = Cell::new(start);
        let bytes = || {
            size.set(size.get() * 2);
            vec![1; size.get()]
        };
        Hostile { ty: &GROWER, bytes: &bytes }.emit();
        Hostile { ty: &GROWER, bytes: &|| vec![2; 8] }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, 14);
    assert!(stats.drops.too_large >= 3 && stats.dropped() == stats.drops.too_large, "{stats:?}");
    check_but(&sink.bytes(), &stats, &[Rule::PayloadFields]);
    let plain = read(&sink.bytes()).iter().filter(|event| event.payload == [2; 8]).count();
    assert_eq!(plain, 7);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Sizes")]
struct Text<'a> {
    text: &'a str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Sizes")]
struct Bytes<'a> {
    bytes: &'a [u8],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Sizes")]
struct Pair<'a> {
    one: &'a [u8],
    two: &'a [u16],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Turns")]
enum InTurns<'a> {
    Number { number: u64 },
    Long { numbers: [u64; 5] },
    Text { text: &'a str },
    Both { first: &'a str, number: u64, second: &'a str },
}

/// Runs of rows of one type, and of types whose payloads have the same size.
#[test]
fn texts_of_every_length_and_numbers_take_turns() {
    let (sink, builder) = memory("Hostile-Turns");
    let session = builder.start().unwrap();
    let mut expected = Vec::new();
    let mut emit = |event: &InTurns<'_>, payload: Vec<u8>| {
        event.emit();
        expected.push(payload);
    };
    let encoded = |text: &str| {
        let units = text.encode_utf16().map(|unit| if unit == 0 { 0xfffd } else { unit });
        let mut bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
        let count = bytes.len() as u16 / 2;
        bytes.splice(..0, count.to_le_bytes());
        bytes
    };
    let letters: String = ('!'..='~').cycle().take(9_000).collect();
    for len in (0..40).chain([63, 64, 200, 4_000, 8_189, 8_190, 8_191, 9_000]) {
        let text = &letters[..len];
        let special = [&letters[..len / 2], "\0", &letters[..len / 3]].concat();
        let other = [&letters[..len / 2], "é🎈"].concat();
        for text in [text, text, &special, text, &other, &other, text] {
            emit(&InTurns::Text { text }, encoded(text));
            emit(&InTurns::Text { text }, encoded(text));
            let number = len as u64;
            for _ in 0..2 {
                emit(&InTurns::Number { number }, number.to_le_bytes().to_vec());
            }
            let both = [encoded("ab"), number.to_le_bytes().to_vec(), encoded(text)].concat();
            for _ in 0..3 {
                emit(&InTurns::Both { first: "ab", number, second: text }, both.clone());
            }
            let payload = [number.to_le_bytes(); 5].concat();
            for _ in 0..2 {
                emit(&InTurns::Long { numbers: [number; 5] }, payload.clone());
            }
        }
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let payloads: Vec<_> = read(&sink.bytes()).into_iter().map(|event| event.payload).collect();
    assert_eq!(stats.dropped(), 0, "{stats:?}");
    assert!(payloads == expected);
}

#[test]
fn events_of_every_size_are_recorded_or_refused() {
    let (sink, builder) = memory("Hostile-Sizes");
    let session = builder.start().unwrap();
    let bytes = vec![b'x'; 1 << 20];
    let text = std::str::from_utf8(&bytes).unwrap();
    let words = vec![7_u16; 1 << 16];
    let (mut fit, mut all) = (Vec::new(), 0);
    // Text takes two bytes for each character and two for the length. An array of bytes takes two
    // for the length.
    let longest = (MAX_PAYLOAD - 2) / 2;
    for len in [0, 1, 63, 64, 127, 128, 8_190, 8_191, 8_192, 16_000, longest, longest + 1]
        .into_iter()
        .chain([MAX_ELEMENTS, MAX_ELEMENTS + 1, 65_535, 65_536, 1 << 20])
    {
        Text { text: &text[..len] }.emit();
        fit.extend(Some(2 + 2 * len).filter(|&size| size <= MAX_PAYLOAD));
        Bytes { bytes: &bytes[..len] }.emit();
        fit.extend(Some(2 + len).filter(|_| len <= MAX_ELEMENTS));
        all += 2;
    }
    // Around the largest size that two bytes hold, and around the largest payload.
    for size in [16_382, 16_383, 16_384, 16_385, 32_700, 32_800].into_iter().chain([
        MAX_PAYLOAD - 1,
        MAX_PAYLOAD,
        MAX_PAYLOAD + 1,
        65_535,
        65_536,
    ]) {
        let one = 2 - size % 2;
        let two = (size - 4 - one) / 2;
        Pair { one: &bytes[..one], two: &words[..two.min(words.len())] }.emit();
        fit.extend(Some(size).filter(|&size| size <= MAX_PAYLOAD));
        all += 1;
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let sizes: Vec<_> = read(&sink.bytes()).iter().map(|event| event.payload.len()).collect();
    assert_eq!(sizes, fit, "{stats:?}");
    assert_eq!((stats.attempted, stats.drops.too_large), (all, all - fit.len() as u64));
    assert_eq!(stats.dropped(), stats.drops.too_large);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Jumbo")]
struct Jumbo<'a> {
    value: u64,
    one: &'a [u8],
    two: &'a [u8],
}

#[test]
fn large_events_of_many_threads_are_recorded_or_counted() {
    for on_full in [OnFull::Drop, OnFull::Block] {
        let (sink, builder) = memory("Hostile-Jumbo");
        let session = builder.budget(2 << 20).on_full(on_full).start().unwrap();
        thread::scope(|scope| {
            for thread in 0..6_u64 {
                scope.spawn(move || {
                    let bytes = vec![thread as u8; 32_000];
                    for at in 0..60_u64 {
                        let one = (at as usize * 6_997) % 32_000;
                        let value = thread << 32 | at;
                        Jumbo { value, one: &bytes[..one], two: &bytes[..32_000 - at as usize] }
                            .emit();
                        Jumbo { value, one: &[], two: &[1] }.emit();
                    }
                });
            }
        });
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, 720);
        assert_eq!(stats.dropped(), stats.drops.no_room, "{stats:?}");
        assert!(on_full == OnFull::Drop || stats.dropped() == 0, "{stats:?}");
        check(&sink.bytes(), &stats);
        for event in read(&sink.bytes()) {
            let thread = (event.value() >> 32) as u8;
            assert!(event.payload.len() == 13 || event.payload[12..].contains(&thread));
        }
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Plenty")]
struct Plenty<'a> {
    value: u64,
    one: &'a [u8],
    two: &'a [u8],
}

#[test]
fn large_events_are_not_lost_while_memory_is_free() {
    // Only the large events themselves, which are larger than a chunk, can ask for a round.
    let (sink, builder) = memory("Hostile-Plenty");
    let builder = builder.chunk_size(32 << 10);
    let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
    let bytes = vec![1; 20_000];
    for burst in 1..=10 {
        // The default budget has 32 chunks for large events.
        (0..20).for_each(|value| Plenty { value, one: &bytes, two: &bytes }.emit());
        let deadline = Instant::now() + Duration::from_secs(240);
        while session.stats().written < 20 * burst {
            assert!(Instant::now() < deadline, "burst {burst}: {:?}", session.stats());
            thread::sleep(Duration::from_millis(1));
        }
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!((stats.attempted, stats.dropped()), (200, 0), "{stats:?}");
}

#[derive(TraceEvent)]
#[trace_event(provider = "Hostile-Stacks")]
struct Deep {
    value: u64,
}

#[test]
fn stacks_up_to_the_limit_are_recorded_in_any_chunk() {
    let (sink, builder) = memory("Hostile-Stacks");
    let session = builder.chunk_size(4_096).start().unwrap();
    let addresses: Vec<u64> = (1..=MAX_STACK_FRAMES as u64 + 1).collect();
    let other = thread::Builder::new()
        .name("y".repeat(100_000))
        .spawn(ThreadRef::current)
        .unwrap()
        .join()
        .unwrap();
    for frames in [0, 1, 100, 500, 600, MAX_STACK_FRAMES, MAX_STACK_FRAMES + 1] {
        let origin = Origin::new().stack(&addresses[..frames]);
        Deep { value: frames as u64 }.emit_with(&origin);
        Deep { value: frames as u64 }.emit_with(&origin.thread(&other));
        Deep { value: frames as u64 }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.drops.too_large), (21, 19, 2), "{stats:?}");
    check(&sink.bytes(), &stats);
    for trio in read(&sink.bytes()).chunks(3).take(6) {
        let frames = trio[0].value() as usize;
        assert_eq!(trio[0].stack, addresses[..frames]);
        assert_eq!(trio[1].stack, addresses[..frames]);
        assert!(trio[2].stack.is_empty());
        assert_eq!(trio[0].about, trio[0].capture_thread);
        assert_ne!(trio[1].about, trio[1].capture_thread);
        assert!(trio[1].about_name.as_deref().is_some_and(|name| name.starts_with("yyy")));
    }
}
