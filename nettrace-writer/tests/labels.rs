//! Labels on the fast path: what the events of a thread carry, in every format, and what labels
//! take in the file.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod formats_support;

use std::time::Duration;

use nettrace_reader::{Label as Read, verify};
use nettrace_writer::{
    Emit, Format, Label, LabelScope, Origin, Session, TraceEvent, enter_labels, sink::MemorySink,
};
use proptest::{collection::vec, prelude::*};
use testkit::{process::one_at_a_time, reference::judged};

use crate::formats_support::read;

const FORMATS: [Format; 4] = [Format::V6, Format::V5, Format::V4, Format::Heph];

/// An event without payload: its row ends with its header.
#[derive(TraceEvent)]
#[trace_event(provider = "Formats")]
struct Tick;

#[derive(TraceEvent)]
#[trace_event(provider = "Formats")]
struct Number {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Formats")]
struct Text<'a> {
    text: &'a str,
}

/// A step of the thread.
#[derive(Clone, Debug)]
enum Step {
    /// Enters labels: some of those in [`offered`].
    Enter(u8, u8),
    Leave,
    /// Emits so many events of one of the types.
    Emit(u8, u8),
    /// Emits one with a stack.
    Stack(Vec<u64>),
    /// Drops this many events.
    Lose(u8),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), 0_u8..4).prop_map(|(which, value)| Step::Enter(which, value)),
        5 => Just(Step::Leave),
        // Three of the texts fill a chunk.
        10 => (0_u8..4, 1_u8..6).prop_map(|(what, count)| Step::Emit(what, count)),
        2 => vec(1..usize::MAX as u64, 1..5).prop_map(Step::Stack),
        1 => (1_u8..5).prop_map(Step::Lose),
        1 => Just(Step::Flush),
    ]
}

/// The labels that a scope can have, for `value`.
fn offered(value: u8) -> [Label<'static>; 5] {
    let text = ["", "one", "a longer text, and another one of more than sixteen bytes", "two"];
    [
        Label::ActivityId([value + 1; 16]),
        Label::SpanId(u64::from(value) << 40),
        Label::Str("text", text[usize::from(value)]),
        Label::Int("number", i64::from(value) - 2),
        Label::Str("other", text[usize::from(3 - value)]),
    ]
}

fn chosen(which: u8, value: u8) -> Vec<Label<'static>> {
    let labels = offered(value).into_iter().enumerate();
    labels.filter(|(at, _)| which & (1 << at) != 0).map(|(_, label)| label).collect()
}

/// The place of a label in [`offered`]. Of two with the same place the inner one counts.
fn place(label: &Label<'_>) -> usize {
    let is_same = |other: &Label<'_>| match (label, other) {
        (Label::Str(one, _), Label::Str(other, _)) => one == other,
        _ => std::mem::discriminant(label) == std::mem::discriminant(other),
    };
    offered(0).iter().position(is_same).unwrap()
}

/// The labels in force, the inner ones last, as far as a format can express them.
fn in_force(scopes: &[Vec<Label<'static>>], format: Format) -> Vec<Read> {
    let mut labels: Vec<Label<'static>> = Vec::new();
    for new in scopes.iter().flatten() {
        labels.retain(|old| place(old) != place(new));
        labels.push(*new);
    }
    let says_all = matches!(format, Format::V6 | Format::Heph);
    let labels = labels.into_iter().filter_map(|label| match label {
        Label::ActivityId(id) => Some(Read::ActivityId(id)),
        _ if !says_all => None,
        Label::SpanId(id) => Some(Read::SpanId(id)),
        Label::Str(key, value) => Some(Read::Str(key.into(), value.into())),
        Label::Int(key, value) => Some(Read::Int(key.into(), value)),
        other => panic!("nobody has entered {other:?}"),
    });
    labels.collect()
}

/// What an event should have: its number, name, labels and stack.
type Event = (u32, &'static str, Vec<Read>, Vec<u64>);

/// Makes the steps in a session. Returns what its trace should have, the trace, and how many events
/// were dropped.
fn run(steps: &[Step], format: Format, point_bytes: u64) -> (Vec<Event>, Vec<u8>, u64) {
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider("Formats").format(format);
    let builder = builder.register::<Tick>().register::<Number>();
    let builder = builder.budget(1 << 20).chunk_size(4_096).prefault(0);
    let builder = builder.sequence_points(point_bytes, Duration::from_secs(3_600));
    let session = builder.start().unwrap();
    let long = "x".repeat(600);
    let mut scopes: Vec<(LabelScope, Vec<Label<'static>>)> = Vec::new();
    let (mut events, mut number) = (Vec::new(), 0);
    for step in steps {
        let labels = || {
            let scopes: Vec<_> = scopes.iter().map(|scope| scope.1.clone()).collect();
            in_force(&scopes, format)
        };
        match step {
            Step::Enter(which, value) => {
                let labels = chosen(*which, *value);
                scopes.push((enter_labels(&labels).unwrap(), labels));
            }
            Step::Leave => drop(scopes.pop()),
            Step::Emit(what, count) => {
                for _ in 0..*count {
                    number += 1;
                    let name = match what {
                        0 => {
                            Tick.emit();
                            "Tick"
                        }
                        1 => {
                            Number { value: number.into() }.emit();
                            "Number"
                        }
                        _ => {
                            Text { text: if *what == 2 { "short" } else { &long } }.emit();
                            "Text"
                        }
                    };
                    events.push((number, name, labels(), Vec::new()));
                }
            }
            Step::Stack(stack) => {
                number += 1;
                Tick.emit_with(&Origin::new().stack(stack));
                events.push((number, "Tick", labels(), stack.clone()));
            }
            // A thread that has emitted nothing has no buffer in which to count drops.
            Step::Lose(count) if number > 0 => {
                session.pretend_dropped((*count).into());
                number += u32::from(*count);
            }
            Step::Lose(_) => {}
            Step::Flush => session.flush().unwrap(),
        }
    }
    while let Some(scope) = scopes.pop() {
        drop(scope);
    }
    let stats = session.finish().unwrap();
    assert_eq!(stats.written, events.len() as u64, "{stats:?}");
    (events, sink.bytes(), stats.dropped())
}

proptest! {
    #[test]
    fn each_event_has_the_labels_that_were_in_force(
        steps in vec(step(), 0..80),
        format in prop::sample::select(&FORMATS[..]),
        points in any::<bool>(),
    ) {
        let _alone = one_at_a_time();
        let (events, bytes, dropped) = run(&steps, format, if points { 1 } else { u64::MAX });
        let (threads, lost) = read(format, &bytes);
        prop_assert_eq!(lost, dropped);
        prop_assert!(threads.len() <= 1);
        let seen: Vec<_> = threads.into_iter().flat_map(|thread| thread.1).collect();
        let seen: Vec<_> = seen
            .iter()
            .map(|event| (event.number, &*event.name, event.labels.clone(), event.stack.clone()))
            .collect();
        prop_assert_eq!(seen, events);
    }
}

/// The size of a trace of so many requests, each with its own labels and some events, beyond the
/// events' payload.
fn size_of_requests(requests: u64, events: u64, empty_scopes: u64) -> u64 {
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider("Formats");
    let builder = builder.register::<Number>().budget(64 << 20).prefault(0);
    let session = builder.start().unwrap();
    for request in 1..=requests {
        let _request =
            enter_labels(&[Label::SpanId(request), Label::Str("route", "/cart")]).unwrap();
        for value in 0..events {
            for inner in 0..empty_scopes {
                drop(enter_labels(&[Label::SpanId(!request), Label::Int("try", inner as i64)]));
            }
            Number { value }.emit();
        }
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), (requests * events, 0));
    let bytes = sink.bytes();
    let report = verify(&*bytes).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    if let Some(verdict) = judged(&bytes) {
        verdict.assert_holds(stats.written, 0);
    }
    bytes.len() as u64 - 8 * stats.written
}

#[test]
fn labels_take_their_own_bytes_and_no_more() {
    let _alone = one_at_a_time();
    // The first 64 requests are in both traces, and so is what a trace has besides events.
    let few = size_of_requests(64, 7, 0);
    let many = size_of_requests(4_160, 7, 0);
    // A list has 9 and 13 bytes here. A row has a flag and a delta, padded to two bytes, or to four
    // if the thread was interrupted. A row with new labels has the list's id, up to three bytes.
    let of_request = (many - few) as f64 / 4_096.0;
    assert!((45.0..56.0).contains(&of_request), "{of_request} bytes a request");
}

#[test]
fn a_scope_without_events_takes_no_bytes() {
    let _alone = one_at_a_time();
    let without = size_of_requests(500, 3, 0);
    let with = size_of_requests(500, 3, 4);
    // The clock and the rounds make some difference: here a list would have 15 bytes.
    assert!(with.abs_diff(without) < 500 * 3 * 4, "{without} and {with} bytes");
}
