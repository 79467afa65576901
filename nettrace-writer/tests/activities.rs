//! A tree of spans, recorded in each format. The reference reader finds the same activities in all
//! versions of NetTrace. In a Heph trace each span is a packet.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{collections::HashMap, fs, process, thread, time::Duration};

use nettrace_event::trace_context::{ActivityId, SpanId};
use nettrace_reader::{Item, Label as Read, Reader, heph};
use nettrace_writer::{
    Context, Emit, Format, Ids, Label, LabelScope, Session, Span as Recorded, TraceEvent,
    TraceSpan, enter_labels,
    sink::{MemorySink, RotationOptions},
};
use testkit::{activities::Activity, process::one_at_a_time};

const FORMATS: [(Format, Ids); 5] = [
    (Format::V6, Ids::Activities),
    (Format::V6, Ids::Both),
    (Format::V5, Ids::Activities),
    (Format::V4, Ids::Activities),
    (Format::Heph, Ids::Activities),
];

#[derive(TraceEvent)]
#[trace_event(provider = "Activities", name = "request")]
enum Request {
    #[trace_event(opcode = Start)]
    Start { number: u32 },
    #[trace_event(opcode = Stop)]
    Stop { status: u16 },
}

#[derive(TraceEvent)]
#[trace_event(provider = "Activities", name = "query")]
enum Query<'a> {
    #[trace_event(opcode = Start)]
    Start { text: &'a str },
    #[trace_event(opcode = Stop)]
    Stop { rows: u32 },
}

/// An event inside of a span.
#[derive(TraceEvent)]
#[trace_event(provider = "Activities")]
struct Note {
    number: u32,
}

/// A span: its id, and its parent's.
#[derive(Clone, Copy, Debug)]
struct Span {
    id: u64,
    parent: Option<u64>,
}

impl Span {
    const fn root(id: u64) -> Self {
        Self { id, parent: None }
    }

    const fn child(self, id: u64) -> Self {
        Self { id, parent: Some(self.id) }
    }

    fn enter(self) -> LabelScope {
        let mut labels = vec![Label::ActivityId(activity(self.id))];
        labels.extend(self.parent.map(|parent| Label::RelatedActivityId(activity(parent))));
        labels.extend([Label::TraceId([7; 16]), Label::SpanId(self.id)]);
        enter_labels(&labels).unwrap()
    }
}

/// The activity of a span.
fn activity(span: u64) -> [u8; 16] {
    ActivityId::from_span_id(SpanId::from_u64(span).unwrap(), process::id()).to_bytes()
}

/// Every span of a request, with the name of its events.
fn spans(number: u32) -> [(&'static str, Span); 4] {
    // Ids with zeros in all places where a path could end early.
    let first = u64::from(number) << 32 | 0x00F0_0000;
    let root = Span::root(first);
    let outer = root.child(0xFFFF_FFFF_0000_0000 | u64::from(number));
    let inner = outer.child(u64::from(number));
    let last = root.child(0xF067_AA0B_A902_B700 | u64::from(number));
    [("request", root), ("query", outer), ("query", inner), ("query", last)]
}

/// A request that ends on another thread than it began.
fn request(number: u32) {
    let [root, outer, inner, last] = spans(number).map(|(_, span)| span);
    let query = move |span: Span, inside: &dyn Fn()| {
        let _span = span.enter();
        Query::Start { text: "select" }.emit();
        inside();
        Note { number }.emit();
        Query::Stop { rows: number }.emit();
    };
    {
        let _request = root.enter();
        Request::Start { number }.emit();
        Note { number }.emit();
        query(outer, &|| query(inner, &|| {}));
        Note { number }.emit();
    }
    Note { number }.emit();
    let end = move || {
        let _request = root.enter();
        query(last, &|| {});
        Request::Stop { status: 200 }.emit();
    };
    thread::spawn(end).join().unwrap();
}

#[test]
fn the_same_spans_in_every_format() {
    const REQUESTS: u32 = 3;
    let _alone = one_at_a_time();
    let sessions = FORMATS.map(|(format, ids)| {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Activities").format(format);
        (format, sink, builder.ids(ids).budget(1 << 20).start().unwrap())
    });
    let requests: Vec<_> = (1..=REQUESTS).map(|it| thread::spawn(move || request(it))).collect();
    requests.into_iter().for_each(|it| it.join().unwrap());

    let known: Vec<_> = (1..=REQUESTS).flat_map(spans).collect();
    for (format, sink, session) in sessions {
        let stats = session.finish().unwrap();
        let events = u64::from(REQUESTS) * (2 + 3 * 3 + 3);
        assert_eq!((stats.written, stats.dropped()), (events, 0), "{format:?}");
        // The older versions hold the span in its activity, and have no place for the trace.
        let outside = u64::from(REQUESTS);
        let is_older = matches!(format, Format::V5 | Format::V4);
        let left_out = if is_older { events - outside } else { 0 };
        assert_eq!(stats.left_out.labels, left_out, "{format:?}");
        let bytes = sink.bytes();
        if format == Format::Heph {
            packets_hold(&known, &bytes);
            continue;
        }
        rows_hold(&known, format, &bytes);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        let Some(found) = testkit::activities::of(file.path()) else { continue };
        let count = known.len() as u64;
        assert_eq!((found.starts, found.stops), (count, count), "{format:?}");
        activities_are(&known, &found.stopped);
    }
}

/// Checks the ids of every row.
fn rows_hold(known: &[(&str, Span)], format: Format, bytes: &[u8]) {
    let parents: HashMap<_, _> = known.iter().map(|(_, span)| (span.id, span.parent)).collect();
    let ids: HashMap<_, _> = parents.keys().map(|id| (activity(*id), *id)).collect();
    let mut reader = Reader::new(bytes).unwrap();
    let mut seen = HashMap::<_, u32>::new();
    while let Some(event) = reader.next_event().unwrap() {
        let labels = event.labels();
        let find = |is: fn(&Read) -> Option<[u8; 16]>| labels.iter().find_map(is);
        let own = find(|it| if let Read::ActivityId(id) = it { Some(*id) } else { None });
        let related =
            find(|it| if let Read::RelatedActivityId(id) = it { Some(*id) } else { None });
        let span = own.map(|id| ids[&id]);
        assert_eq!(related.map(|id| ids[&id]), span.and_then(|id| parents[&id]));
        if let (Some(span), Format::V6) = (span, format) {
            assert!(labels.ends_with(&[Read::TraceId([7; 16]), Read::SpanId(span)]), "{labels:?}");
        }
        *seen.entry(span).or_default() += 1;
    }
    assert_eq!(seen.remove(&None), Some(known.len() as u32 / 4), "notes outside of all spans");
    for (name, span) in known {
        let expected = if *name == "request" { 4 } else { 3 };
        assert_eq!(seen.remove(&Some(span.id)), Some(expected), "{name} {span:?}");
    }
    assert!(seen.is_empty(), "{seen:?}");
}

/// Checks the packets of a Heph trace: one for each span, with the fields of both events. A request
/// ends on another thread, whose rows may be written first.
fn packets_hold(known: &[(&str, Span)], bytes: &[u8]) {
    let report = heph::verify(bytes, heph::Options::default(), 5).unwrap();
    assert!(report.is_sound() && report.lost == 0, "{report:?}");
    let mut reader = heph::Reader::new(bytes);
    let mut seen = HashMap::new();
    let mut instants = 0;
    while let Some(event) = reader.next_event().unwrap() {
        // What is in a span is in the flow of its tree. Some notes are in no span.
        let is_note = event.description == "Note" && event.substream == 0;
        assert!(is_note || event.substream == 0x0707_0707_0707_0707, "{event:?}");
        let Some(span) = event.span().filter(|span| span.part == heph::SpanPart::Whole) else {
            assert_eq!(event.start, event.end);
            instants += 1;
            continue;
        };
        assert_eq!(span.name, event.description);
        let is_request = span.name == "request";
        let fields = if is_request { ["number", "status"] } else { ["text", "rows"] };
        let names: Vec<_> = event.attributes().map(|it| it.unwrap().0).collect();
        assert!(names.ends_with(&fields), "{names:?}");
        let other = names.iter().any(|name| matches!(*name, "@start_stream" | "@end_stream"));
        assert_eq!(other, is_request, "{names:?}");
        let trace = span.trace.map(str::to_owned);
        assert_eq!(trace.as_deref(), Some("07070707070707070707070707070707"));
        let number = |id: &str| u64::from_str_radix(id, 16).unwrap();
        let ids = (span.id.map(number), span.parent.map(number));
        let name = span.name.to_owned();
        seen.insert(ids.0.unwrap(), (name, ids.1, event.start..event.end));
    }
    assert_eq!((seen.len() as u64, report.spans), (known.len() as u64, known.len() as u64));
    assert_eq!(instants + report.spans, report.events);
    for (name, Span { id, parent }) in known {
        let (found, found_parent, times) = &seen[id];
        assert_eq!((&**found, *found_parent), (*name, *parent));
        if let Some((_, _, outer)) = parent.map(|parent| &seen[&parent]) {
            assert!(outer.start <= times.start && times.end <= outer.end, "{outer:?} {times:?}");
        }
    }
}

/// Checks what the reference reader has found.
fn activities_are(known: &[(&str, Span)], found: &[Activity]) {
    let id = |span: u64| ActivityId::from_bytes(activity(span)).to_string();
    let names: HashMap<_, _> = found.iter().map(|it| (&*it.id, &it.name)).collect();
    assert_eq!((names.len(), found.len()), (known.len(), known.len()), "{found:#?}");
    for it in found {
        let (name, span) = known.iter().find(|(_, span)| id(span.id) == it.id).expect(&it.name);
        assert_eq!(it.task, *name);
        assert_eq!(it.parent.as_ref(), span.parent.map(|parent| names[&*id(parent)]), "{it:?}");
    }
}

#[derive(TraceSpan)]
#[trace_event(provider = "Activities-Work", name = "work")]
struct Work {
    number: u64,
}

fn work(number: u64) -> Recorded<<Work as TraceSpan>::Events> {
    Work { number }.start()
}

/// The id of a span, as a number.
fn span_of(context: &Context) -> Option<u64> {
    context.span_id().map(SpanId::to_u64)
}

/// Every whole span of a Heph trace: its parent, and its fields.
fn whole_spans(bytes: &[u8]) -> HashMap<u64, (Option<u64>, Vec<String>)> {
    let report = heph::verify(bytes, heph::Options::default(), 5).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let mut reader = heph::Reader::new(bytes);
    let mut spans = HashMap::new();
    while let Some(event) = reader.next_event().unwrap() {
        let whole = event.span().filter(|span| span.part == heph::SpanPart::Whole);
        let Some(span) = whole else { continue };
        let number = |id: &str| u64::from_str_radix(id, 16).unwrap();
        let names = event.attributes().map(|it| it.unwrap().0.to_owned());
        let known = (span.parent.map(number), names.collect());
        assert!(spans.insert(number(span.id.unwrap()), known).is_none(), "{span:?}");
    }
    spans
}

/// Checks what the label lists of a trace say themselves: 50 trees, each a root with 20 children.
fn lists_repeat(ids: Ids, bytes: &[u8]) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut kinds = [0; 4];
    while let Some(item) = reader.next_item().unwrap() {
        let Item::LabelLists(lists) = item else { continue };
        for label in lists.flat_map(|(_, list)| list.labels) {
            kinds[match label {
                Read::ActivityId(_) => 0,
                Read::RelatedActivityId(_) => 1,
                Read::TraceId(_) => 2,
                Read::SpanId(_) => 3,
                label => panic!("{label:?}"),
            }] += 1;
        }
    }
    // A sequence point can come in between, and lists are then defined again.
    let [activities, parents, traces, spans] = kinds;
    assert!(activities >= 50 * 21 && parents >= 50 * 20, "{kinds:?}");
    match ids {
        Ids::Both => assert_eq!([traces, spans], [activities; 2]),
        _ => assert!(spans == 0 && traces < activities / 2, "{kinds:?}"),
    }
}

/// Spans of the library, which begin on one thread and mostly end on another.
#[test]
fn recorded_spans_are_in_every_format() {
    let _alone = one_at_a_time();
    let sessions = FORMATS.map(|(format, ids)| {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Activities-Work");
        (format, ids, sink, builder.format(format).ids(ids).budget(4 << 20).start().unwrap())
    });
    let mut known = HashMap::new();
    for number in 0..50 {
        let root = work(number);
        known.insert(span_of(&root.context()).unwrap(), None);
        let on_other = move || {
            let root = root.enter();
            let parent = span_of(&Context::current());
            let children: Vec<_> = (0..20).map(work).collect();
            let ids: Vec<_> = children.iter().map(|it| span_of(&it.context()).unwrap()).collect();
            let end = move || children.into_iter().for_each(|child| drop(child.enter()));
            thread::spawn(end).join().unwrap();
            drop(root);
            (parent, ids)
        };
        let (parent, ids) = thread::spawn(on_other).join().unwrap();
        known.extend(ids.into_iter().map(|id| (id, parent)));
    }
    assert_eq!(known.len(), 50 * 21);
    for (format, ids, sink, session) in sessions {
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (2 * 50 * 21, 0), "{format:?}");
        let bytes = sink.bytes();
        if format == Format::V6 {
            lists_repeat(ids, &bytes);
        }
        if format == Format::Heph {
            let spans = whole_spans(&bytes);
            assert_eq!((spans.len(), stats.left_out.spans), (known.len(), 0));
            for (id, (parent, attributes)) in spans {
                assert_eq!(parent, known[&id]);
                let fields = ["number", "duration", "outcome", "polls", "busy"];
                assert!(attributes.ends_with(&fields.map(Into::into)), "{attributes:?}");
            }
            continue;
        }
        let mut reader = Reader::new(&*bytes).unwrap();
        let mut starts = HashMap::new();
        while let Some(event) = reader.next_event().unwrap() {
            let (mut own, mut parent) = (None, None);
            for label in event.labels().iter() {
                let id = |id: &[u8; 16]| ActivityId::from_bytes(*id).span_id().map(SpanId::to_u64);
                match label {
                    Read::ActivityId(activity) => own = id(activity),
                    Read::RelatedActivityId(activity) => parent = id(activity),
                    _ => {}
                }
            }
            assert_eq!(parent, known[&own.unwrap()], "{format:?}");
            *starts.entry(own).or_insert(0) += 1;
        }
        assert!(
            starts.len() == known.len() && starts.values().all(|rows| *rows == 2),
            "{format:?}"
        );
    }
}

/// A span that is open while files come and go is in the file in which it ends.
#[test]
fn a_span_goes_on_through_a_rotation() {
    let _alone = one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let options = RotationOptions::new(directory.path(), "part").extension("heph");
    let sink = options.file_age(Duration::ZERO).build().unwrap();
    let builder = Session::builder().sink(sink).provider("Activities-Work").format(Format::Heph);
    let session = builder.start().unwrap();
    let span = work(1);
    let id = span_of(&span.context()).unwrap();
    // A file's epoch is a whole millisecond, up to one before its first event.
    thread::sleep(Duration::from_millis(3));
    for number in 0..3 {
        drop(work(number));
        session.flush().unwrap();
    }
    drop(span.enter());
    session.finish().unwrap();
    let mut files: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let last = files.pop().unwrap();
    for file in files {
        assert!(!whole_spans(&fs::read(file).unwrap()).contains_key(&id));
    }
    let spans = whole_spans(&fs::read(last).unwrap());
    let (parent, attributes) = &spans[&id];
    assert_eq!(*parent, None);
    for name in ["@start", "number", "duration"] {
        assert!(attributes.iter().any(|it| it == name), "{name}: {attributes:?}");
    }
}

/// Labels of the application name activities of two traces. Nothing is made up from them, neither
/// for their own event nor for children of the span whose activity they name.
#[test]
fn activities_of_the_application_bring_no_trace() {
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Activities").start().unwrap();
    let label = |id: u64, trace: u8| {
        let labels = [Label::ActivityId(activity(id)), Label::TraceId([trace; 16])];
        let scope = enter_labels(&labels).unwrap();
        Note { number: 0 }.emit();
        drop(scope);
    };
    label(1, 1);
    label(2, 2);
    let linked = [Label::ActivityId(activity(1)), Label::RelatedActivityId(activity(2))];
    let scope = enter_labels(&linked).unwrap();
    Note { number: 1 }.emit();
    drop(scope);
    let child = [
        Label::ActivityId(activity(3)),
        Label::RelatedActivityId(activity(1)),
        Label::TraceId([1; 16]),
    ];
    let scope = enter_labels(&child).unwrap();
    Note { number: 2 }.emit();
    drop(scope);
    session.finish().unwrap();

    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut traces = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let trace = event.labels().iter().find_map(|label| match label {
            Read::TraceId(id) => Some(id[0]),
            _ => None,
        });
        traces.push(trace);
    }
    assert_eq!(traces, [Some(1), Some(2), None, Some(1)]);
}
