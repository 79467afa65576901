//! Traces with spans, written byte by byte as the conventions of spans say.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use nettrace_event::trace_context::{ActivityId, SpanId};
use testkit::streams::{EventType, Row, Stream, string};

/// The process of [`Stream`].
pub const PROCESS: u32 = 77;

pub const START: u32 = 1;
pub const STOP: u32 = 2;
pub const SINGLE: u32 = 3;
pub const SOLD: u32 = 4;
pub const RESUME: u32 = 5;
pub const SUSPEND: u32 = 6;
/// The types of another span.
pub const PAY_START: u32 = 7;
pub const PAY_STOP: u32 = 8;

/// Where an event is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub trace: u8,
    pub span: u64,
    /// 0 for none.
    pub parent: u64,
    /// Whether it has a label of the application, too.
    pub has_region: bool,
}

pub fn place(trace: u8, span: u64, parent: u64) -> Place {
    Place { trace, span, parent, has_region: false }
}

/// Ends a stream with an event of each type, label list and payload, on thread 5, a tick apart.
pub fn end_with(stream: &mut Stream, events: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let rows: Vec<_> = (1..)
        .zip(events)
        .map(|(number, (metadata, labels, payload))| {
            let row = Row::new(5, number, 1000 + u64::from(number)).metadata(*metadata);
            row.labels(*labels).payload(payload)
        })
        .collect();
    stream.events(&rows).end()
}

/// The labels of an event.
pub fn labels(place: Place) -> Vec<Vec<u8>> {
    let activity =
        |span| ActivityId::from_span_id(SpanId::from_u64(span).unwrap(), PROCESS).to_bytes_le();
    let mut labels = vec![[&[1][..], &activity(place.span)].concat()];
    if place.parent != 0 {
        labels.push([&[2][..], &activity(place.parent)].concat());
    }
    if place.trace != 0 {
        labels.push([&[3][..], &[place.trace; 16]].concat());
        labels.push([&[4][..], &place.span.to_le_bytes()].concat());
    }
    if place.has_region {
        let mut label = vec![5];
        string(&mut label, "region");
        string(&mut label, "north");
        labels.push(label);
    }
    labels
}

/// An event: when it is, in microseconds since the start, of which type, and where.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: u64,
    pub ty: u32,
    pub place: Option<Place>,
    pub payload: Vec<u8>,
}

pub fn event(at: u64, ty: u32, place: Place) -> Event {
    Event { at, ty, place: Some(place), payload: 7_u32.to_le_bytes().to_vec() }
}

/// The end of a span, which says its duration in microseconds and its outcome.
pub fn stop(at: u64, place: Place, duration: u64, outcome: &str) -> Event {
    let mut payload = (duration * 1000).to_le_bytes().to_vec();
    text(outcome, &mut payload);
    Event { at, ty: STOP, place: Some(place), payload }
}

/// An event that stands for a whole span.
pub fn single(at: u64, place: Place, duration: u64, outcome: &str) -> Event {
    let mut event = stop(at, place, duration, outcome);
    event.ty = SINGLE;
    event.payload.splice(..0, 5_u64.to_le_bytes());
    event
}

fn text(text: &str, payload: &mut Vec<u8>) {
    payload.extend((text.len() as u16).to_le_bytes());
    payload.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

/// A trace with these events, in the order of time.
pub fn stream(events: Vec<Event>) -> Stream {
    onto(Stream::new(), events)
}

/// The same, with what the stream begins with.
pub fn onto(mut stream: Stream, mut events: Vec<Event>) -> Stream {
    events.sort_by_key(|event| event.at);
    let ty = |id: u32, name: &str, opcode| {
        EventType::new(u64::from(id), "Shop", id.into(), name).optional(&[8, 4, 1, opcode])
    };
    let duration = |ty: EventType| {
        ty.field("duration", &[12])
            .field("outcome", &[19, 4])
            .optional_text(6, &["nettrace.type.duration", "Duration"])
    };
    stream.thread(5);
    stream.metadata(&ty(START, "checkoutStart", 1).field("cart", &[8]));
    stream.metadata(&duration(ty(STOP, "checkoutStop", 2)));
    let single = ty(SINGLE, "pack", 0).field("started", &[11]);
    stream.metadata(&duration(single).optional_text(6, &["nettrace.span", "single"]));
    stream.metadata(&ty(SOLD, "Sold", 0).field("count", &[8]));
    stream.metadata(&ty(RESUME, "checkoutResume", 7));
    stream.metadata(&ty(SUSPEND, "checkoutSuspend", 8));
    stream.metadata(&ty(PAY_START, "payStart", 1).field("cents", &[8]));
    stream.metadata(&ty(PAY_STOP, "payStop", 2));
    let lists: Vec<_> = events.iter().filter_map(|event| event.place.map(labels)).collect();
    let lists: Vec<&[Vec<u8>]> = lists.iter().map(|list| &**list).collect();
    stream.label_lists(1, &lists);
    let mut list = 0;
    let rows: Vec<_> = events
        .iter()
        .enumerate()
        .map(|(index, event)| {
            list += u32::from(event.place.is_some());
            Row::new(5, index as u32 + 1, 1000 + event.at)
                .metadata(event.ty)
                .payload(&event.payload)
                .labels(if event.place.is_some() { list } else { 0 })
        })
        .collect();
    // A block has at most 16 MiB.
    for rows in rows.chunks(2000) {
        stream.events(rows);
    }
    stream
}

/// A trace with one span of each kind.
pub fn samples() -> Vec<u8> {
    let inner = Place { has_region: true, ..place(0xAB, 2, 1) };
    stream(vec![
        // A root with a child that has a child, and an event of each.
        event(100, START, place(0xAB, 1, 0)),
        event(110, PAY_START, inner),
        event(120, SOLD, inner),
        event(130, SOLD, place(0xAB, 1, 0)),
        single(150, place(0xAB, 3, 2), 20, "ok"),
        event(160, PAY_STOP, inner),
        event(170, RESUME, place(0xAB, 1, 0)),
        event(180, SUSPEND, place(0xAB, 1, 0)),
        stop(200, place(0xAB, 1, 0), 100, "err"),
        // The caller's span is elsewhere; the child lasts longer than its parent.
        event(300, START, place(0xCD, 11, 10)),
        event(310, PAY_START, place(0xCD, 12, 11)),
        stop(320, place(0xCD, 11, 10), 20, "ok"),
        event(340, PAY_STOP, place(0xCD, 12, 11)),
        // The end is missing, then the start, then both.
        event(400, START, place(0xEF, 21, 0)),
        stop(450, place(0xEF, 22, 0), 7, "cancelled"),
        event(460, SOLD, place(0xEF, 23, 0)),
        // Belongs to no span.
        Event { place: None, ..event(500, SOLD, place(0, 0, 0)) },
    ])
    .end()
}
