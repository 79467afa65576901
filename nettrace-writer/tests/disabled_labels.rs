//! Labels that are entered while nobody listens. The one test has a process of its own, in which no
//! session has listened before.

mod trace_support;

use nettrace_reader::Label as Read;
use nettrace_writer::{Emit, Label, MAX_LABEL_BYTES, TraceEvent, enter_labels, sink::MemorySink};

use crate::trace_support::{memory, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Disabled-Labels")]
struct Step {
    value: u64,
}

#[test]
fn a_scope_that_nobody_listened_to_stays_empty() {
    let before = enter_labels(&[Label::SpanId(1), Label::Str("scope", "before")]).unwrap();
    // As long as nobody listens, not even the bound on labels is checked.
    let long = "x".repeat(MAX_LABEL_BYTES + 1);
    drop(enter_labels(&[Label::Str("long", &long)]).unwrap());

    let (first, session) = memory("Disabled-Labels");
    let session = session.start().unwrap();
    Step { value: 0 }.emit();
    let within = enter_labels(&[Label::Str("scope", "within")]).unwrap();
    Step { value: 1 }.emit();
    // In the wrong order: the outer scope has nothing to take back.
    drop(before);
    Step { value: 2 }.emit();
    drop(within);
    Step { value: 3 }.emit();
    let last = enter_labels(&[Label::SpanId(4)]).unwrap();
    Step { value: 4 }.emit();
    assert_eq!(session.finish().unwrap().written, 5);
    // The scope is left while nobody listens any more.
    drop(last);

    let (second, session) = memory("Disabled-Labels");
    let session = session.start().unwrap();
    Step { value: 5 }.emit();
    session.finish().unwrap();
    let within = [Read::Str("scope".into(), "within".into())];
    let expected: [&[Read]; 5] = [&[], &within, &within, &[], &[Read::SpanId(4)]];
    assert_eq!(labels(&first), expected);
    assert_eq!(labels(&second), [&[] as &[Read]]);
}

/// The labels of each event.
fn labels(sink: &MemorySink) -> Vec<Vec<Read>> {
    read(&sink.bytes()).into_iter().map(|event| event.labels).collect()
}
