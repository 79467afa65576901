//! Sound streams with trees of spans: nested, on several threads, without a Start or a Stop, of one
//! event, and some that no program makes, such as a span that is its own parent.

use nettrace_writer::trace_context::{ActivityId, SpanId};
use testkit::streams::{
    EventType, Row, Stream, utf16z,
    v5::{self, Objects},
};

/// The process that the activity ids are of.
const PROCESS: u32 = 4242;

const START: u32 = 1;
const STOP: u32 = 2;
const INSIDE: u32 = 3;
const SINGLE: u32 = 4;

/// What happens: the thread, the type of the event, the span, its parent or 0.
const EVENTS: &[(u64, u32, u64, u64)] = &[
    // A root with two children, of which one ends on another thread and after its parent.
    (5, START, 1, 0),
    (5, START, 2, 1),
    (5, INSIDE, 2, 1),
    (6, START, 3, 1),
    (5, STOP, 2, 1),
    (5, STOP, 1, 0),
    (6, INSIDE, 3, 1),
    (6, STOP, 3, 1),
    // A span of one event below another, and one that is a root.
    (5, START, 4, 0),
    (5, SINGLE, 5, 4),
    (5, STOP, 4, 0),
    (5, SINGLE, 6, 0),
    // No Stop; no Start; an event of a span of which nothing else is known.
    (5, START, 7, 0),
    (6, STOP, 8, 7),
    (6, INSIDE, 9, 7),
    // Two Starts, two Stops.
    (5, START, 10, 7),
    (5, START, 10, 7),
    (5, STOP, 10, 7),
    (5, STOP, 10, 7),
    // Its own parent; each other's parent.
    (5, START, 11, 11),
    (5, STOP, 11, 11),
    (5, START, 12, 13),
    (5, START, 13, 12),
    (5, STOP, 13, 12),
    (5, STOP, 12, 13),
    // A child that begins before its parent.
    (6, START, 15, 14),
    (5, START, 14, 0),
    (5, STOP, 14, 0),
    (6, STOP, 15, 14),
];

/// A stream of version 6, or of version 5 if `is_old`.
pub fn stream(is_old: bool) -> Vec<u8> {
    if is_old { objects() } else { blocks() }
}

fn blocks() -> Vec<u8> {
    let mut stream = Stream::new();
    stream.thread(5).thread(6);
    let opcode = |id: u32, name: &str, opcode: &[u8]| {
        EventType::new(id.into(), "Test", id.into(), name).optional(opcode)
    };
    let lasts = |ty: EventType| ty.field("duration", &[12]).field("outcome", &[18]);
    stream.metadata(&opcode(START, "Work", &[1, 1]));
    stream.metadata(&lasts(opcode(STOP, "Work", &[1, 2])));
    stream.metadata(&opcode(INSIDE, "Inside", &[]));
    let single = opcode(SINGLE, "Single", &[]).optional_text(6, &["nettrace.span", "single"]);
    stream.metadata(&lasts(single.field("started", &[12])));
    let lists: Vec<_> = EVENTS.iter().map(|(.., span, parent)| labels(*span, *parent)).collect();
    stream.label_lists(1, &lists.iter().map(|list| &**list).collect::<Vec<_>>());
    let rows: Vec<_> = rows(payload).zip(1..).map(|(row, list)| row.labels(list)).collect();
    stream.events(&rows);
    let last = |thread| EVENTS.iter().filter(|(it, ..)| *it == thread).count() as u32;
    stream.sequence_point(20_000, 0, &[(5, last(5)), (6, last(6))]);
    stream.end()
}

fn objects() -> Vec<u8> {
    let types = [(START, "WorkStart"), (STOP, "WorkStop"), (INSIDE, "Inside"), (SINGLE, "Single")];
    let types = types.map(|(id, name)| v5::event_type(id, id, name, &[0; 4]));
    let mut objects = Objects::new();
    objects.metadata(&types);
    let rows: Vec<_> = rows(|_| Vec::new())
        .zip(EVENTS)
        .map(|(row, (.., span, parent))| {
            let [activity, related] = [*span, *parent].map(activity);
            Row { activity, related, ..row }
        })
        .collect();
    objects.events(&rows);
    objects.end()
}

/// The events, with numbers of their threads.
fn rows(payload: impl Fn(u32) -> Vec<u8>) -> impl Iterator<Item = Row> {
    let mut numbers = [0; 2];
    EVENTS.iter().zip(0..).map(move |(&(thread, ty, ..), at)| {
        let number = &mut numbers[usize::from(thread == 6)];
        *number += 1;
        Row::new(thread, *number, 1_000 + 100 * at).metadata(ty).payload(&payload(ty))
    })
}

fn payload(ty: u32) -> Vec<u8> {
    let started = if ty == SINGLE { &950_u64.to_le_bytes()[..] } else { &[] };
    match ty {
        STOP | SINGLE => [started, &50_u64.to_le_bytes(), &utf16z("ok")].concat(),
        _ => Vec::new(),
    }
}

/// The label list of a span: activity, parent, trace, span.
fn labels(span: u64, parent: u64) -> Vec<Vec<u8>> {
    let mut list = vec![[&[1][..], &activity(span)].concat()];
    if parent != 0 {
        list.push([&[2][..], &activity(parent)].concat());
    }
    list.push([&[3][..], &[7; 16]].concat());
    list.push([&[4][..], &span.to_le_bytes()].concat());
    list
}

/// The activity id of a span, or none.
fn activity(span: u64) -> [u8; 16] {
    SpanId::from_u64(span)
        .map_or([0; 16], |span| ActivityId::from_span_id(span, PROCESS).to_bytes_le())
}
