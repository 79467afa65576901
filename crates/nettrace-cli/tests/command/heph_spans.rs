//! Spans of NetTrace traces become spans of Heph traces, and the command shows them.

use std::{collections::BTreeMap, fs};

use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};
use nettrace_format::{
    Composer, Format, Stage as _, Transcoder,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6,
};
use nettrace_reader::heph::{Reader, SpanPart, Value};
use testkit::{
    activities, effort,
    reference::dotnet_traces,
    streams::{Row, Stream},
};

use crate::{
    convert_support::{convert, left_out},
    program::{self, strict_json},
};

const fn event(
    id: u16,
    name: &'static str,
    opcode: u8,
    fields: &'static [FieldSchema],
) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: "Shop", guid: None, group: None },
        name,
        id,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: Some(opcode),
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields,
    }
}

static TYPES: [EventSchema; 7] = [
    event(1, "checkoutStart", 1, &[FieldSchema::new("cart", FieldType::U32)]),
    event(2, "checkoutStop", 2, &[FieldSchema::new("duration", FieldType::DurationNanos)]),
    event(3, "queryStart", 1, &[]),
    event(4, "queryStop", 2, &[]),
    EventSchema {
        key_values: &[("nettrace.span", "single")],
        ..event(5, "lookup", 0, &[FieldSchema::new("duration", FieldType::DurationNanos)])
    },
    event(6, "Start", 1, &[]),
    event(7, "Stop", 2, &[]),
];

/// A trace: rows of a time in nanoseconds, a type, a span and its parent, and a payload.
fn trace(format: Format, rows: &[(u64, u32, u64, u64, &[u8])]) -> Vec<u8> {
    const THREAD: u64 = 17;
    let (mut stage, mut out) = (Transcoder::new(format), Vec::new());
    let (mut composer, mut blocks) = (Composer::new(), Vec::new());
    let info = TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
        sync_ticks: 1_000,
        ticks_per_second: 1_000_000_000,
        pointer_size: 8,
        key_values: &[("ProcessId", "17")],
    };
    stage.begin(&info, &mut out).unwrap();
    let types: Vec<_> = (1..).zip(&TYPES).collect();
    stage.define(&types, &mut out).unwrap();
    let thread = ThreadInfo { index: THREAD, os_thread_id: Some(THREAD), ..ThreadInfo::default() };
    composer.thread(&thread, &mut blocks).unwrap();
    for ((time, metadata_id, span, parent, payload), number) in rows.iter().zip(1..) {
        let mut labels = vec![Label::ActivityId(activity(*span))];
        if *parent != 0 {
            labels.push(Label::RelatedActivityId(activity(*parent)));
        }
        labels.extend([Label::TraceId([0xAB; 16]), Label::SpanId(*span)]);
        let mut list = Vec::new();
        v6::label_list_row(labels.iter().copied(), &mut list);
        let header = RowHeader {
            metadata_id: *metadata_id,
            sequence: number,
            capture_thread: THREAD,
            thread: THREAD,
            timestamp: 1_000 + time,
            labels: composer.label_list(&list, &mut blocks).unwrap(),
            sorted: true,
            ..RowHeader::default()
        };
        composer.row(&header, payload, &mut blocks).unwrap();
    }
    composer.end_blocks(&mut blocks).unwrap();
    assert_eq!(stage.blocks(&blocks, &mut out), Ok(0));
    out.extend(format.end().bytes());
    out
}

/// The activity of a span with less than 32 bits.
fn activity(span: u64) -> [u8; 16] {
    let [a, b, c, d] = (span as u32).to_be_bytes();
    [0, 0, 0, 0xF0, 0xF0, 0, c, d, b, a, 0, 0, 1, 2, 3, 4]
}

const NANOS: &[u8] = &250_u64.to_le_bytes();
const CART: &[u8] = &42_u32.to_le_bytes();
/// A checkout with two queries and a lookup in it, and a query that does not end.
const ROWS: [(u64, u32, u64, u64, &[u8]); 8] = [
    (100, 1, 1, 0, CART),
    (200, 3, 2, 1, &[]),
    (300, 4, 2, 1, &[]),
    (400, 3, 3, 1, &[]),
    (700, 5, 4, 3, NANOS),
    (800, 4, 3, 1, &[]),
    (850, 3, 5, 1, &[]),
    (900, 2, 1, 0, NANOS),
];

fn run(args: &[&str], input: &[u8]) -> (i32, String) {
    let output = program::nettrace(&[args, &["-"]].concat(), input);
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_tree_survives_the_conversion_and_is_shown() {
    for format in [Format::V6, Format::V5, Format::Heph] {
        let mut heph = trace(format, &ROWS);
        if format != Format::Heph {
            heph = convert(&heph, "heph").0;
        }
        // The whole tree is one flow. Version 5 has no trace id, so there the root names it.
        let flow = if format == Format::V5 { 1 } else { 0xABAB_ABAB_ABAB_ABAB };
        let (mut spans, mut count, mut last) = (BTreeMap::new(), 0, BTreeMap::new());
        let mut reader = Reader::new(&*heph);
        while let Some(event) = reader.next_event().unwrap() {
            count += 1;
            assert_eq!(event.substream, flow, "{format:?} {event:?}");
            let text = |value| match value {
                Value::Text(text) => text.to_owned(),
                Value::U64(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            last = event
                .attributes()
                .map(Result::unwrap)
                .map(|(name, value)| (name.to_owned(), text(value)))
                .collect();
            if !last.contains_key("@kind") {
                assert_eq!(event.start, event.end);
                continue;
            }
            let id = last["@span"].clone();
            let parent = last.get("@parent").cloned().unwrap_or_default();
            spans.insert(id, (event.description.to_owned(), [event.start, event.end], parent));
        }
        assert_eq!(count, ROWS.len());
        let id = |span: u64| if span == 0 { String::new() } else { format!("{span:016x}") };
        let mut expected = BTreeMap::from([
            (id(1), ("checkout".to_owned(), [100, 900], id(0))),
            (id(2), ("query".to_owned(), [200, 300], id(1))),
            (id(3), ("query".to_owned(), [400, 800], id(1))),
            (id(4), ("lookup".to_owned(), [450, 700], id(3))),
        ]);
        if format == Format::V5 {
            // This version has no key-values of types, which tell that a lookup is a span.
            expected.remove(&id(4));
        }
        assert_eq!(spans, expected, "{format:?}");
        let whole = spans.len();
        // The fields of both events.
        assert_eq!([&last["cart"], &last["duration"]], ["42", "250"], "{format:?}");

        let (code, text) = run(&["info", "--json"], &heph);
        let info = strict_json(text.trim_end());
        let keys = ["spans", "spans_without_end", "spans_without_start", "uncounted_spans"];
        let counts = keys.map(|key| info[key].as_u64().unwrap());
        assert_eq!((code, counts), (0, [whole as u64 + 1, 1, 0, 0]), "{format:?}");
        let (_, text) = run(&["info"], &heph);
        let all = whole + 1;
        let line = format!("spans            {all} (1 without an end, 0 without a start)\n");
        assert!(text.contains(&line), "{text}");
        let (code, text) = run(&["verify"], &heph);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains(&format!(" spans={whole} ")), "{text}");
        let (_, text) = run(&["dump", "--where", "SpanId=0000000000000003"], &heph);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[lines.len() - 1].contains("Shop/queryStop [0000000000000003] duration=400ns"),
            "{text}"
        );
    }
}

/// The names of its events are `Start` and `Stop`, and nothing else.
#[test]
fn a_span_without_a_name_ends() {
    let rows: [(u64, u32, u64, u64, &[u8]); 4] =
        [(100, 6, 1, 0, &[]), (200, 3, 2, 1, &[]), (300, 4, 2, 1, &[]), (900, 7, 1, 0, &[])];
    for format in [Format::V6, Format::V5, Format::Heph] {
        let trace = trace(format, &rows);
        let heph = if format == Format::Heph { trace.clone() } else { convert(&trace, "heph").0 };
        let info = strict_json(run(&["info", "--json"], &heph).1.trim_end());
        let keys = ["spans", "spans_without_end", "spans_without_start"];
        assert_eq!(keys.map(|key| info[key].as_u64().unwrap()), [2, 0, 0], "{format:?}");
        let (_, text) = run(&["tree", "--json"], &trace);
        let tree = strict_json(text.trim_end());
        let spans = tree["spans"].as_array().unwrap();
        let names: Vec<_> = spans.iter().map(|span| &span["name"]).collect();
        assert_eq!(names, ["Start", "query"], "{format:?}: {tree}");
        let took: Vec<_> = spans.iter().map(|span| &span["duration_ns"]).collect();
        assert_eq!(took, [800, 100], "{format:?}: {tree}");
        assert_eq!(spans[0]["events"].as_array().map(Vec::len), Some(0), "{tree}");
        if format != Format::Heph {
            let (_, report) = run(&["report", "--text"], &trace);
            let row = |name| report.lines().find(|line| line.contains(name)).map(str::trim);
            assert!(row("Shop/Start").is_some() && row("no end").is_none(), "{report}");
        }
    }
}

#[test]
fn an_id_with_another_spelling_is_a_violation() {
    let heph = trace(Format::Heph, &ROWS);
    let digits = b"abababababababababababababababab";
    let at = heph.windows(digits.len()).position(|bytes| bytes == digits).unwrap();
    let mut damaged = heph;
    damaged[at] = b'A';
    let (code, text) = run(&["verify"], &damaged);
    // The spelling is this project's.
    assert_eq!(code, 0);
    let says = "event 1 of stream 17 has \"Abababababababababababababababab\" as `@trace`";
    assert!(text.contains(says), "{text}");
}

/// So many spans are open that the first ones are forgotten.
#[test]
fn what_is_forgotten_is_listed() {
    let rows: Vec<_> = (1..=150_000).map(|span| (span, 3, span, 0, &[][..])).collect();
    let v6 = rows.chunks(50_000).flatten().copied().collect::<Vec<_>>();
    let (heph, said) = convert(&trace(Format::V6, &v6), "heph");
    let line = said.lines().find(|line| line.contains("spans that may lack the fields")).unwrap();
    // The type's texts are not, and the process id is no key-value of a Heph trace.
    let number = line.split(": ").last().unwrap().split(' ').next().unwrap();
    assert!((15_000..25_000).contains(&number.parse::<u64>().unwrap()), "{said}");
    assert!(left_out(&said) > 15_000);
    let (_, text) = run(&["info"], &heph);
    assert!(text.contains("spans            150000 (150000 without an end, 0 "), "{text}");
}

/// The spans of a .NET program are the activities that the reference reader computes.
#[test]
fn activities_of_dotnet_are_spans() {
    if effort::left_out() {
        return;
    }
    let mut count = 0;
    for path in dotnet_traces() {
        let Some(found) = activities::of(&path) else { return };
        let mut expected = found.stopped;
        let (heph, _) = convert(&fs::read(&path).unwrap(), "heph");
        let mut reader = Reader::new(&*heph);
        let mut spans = 0;
        while let Some(event) = reader.next_event().unwrap() {
            let Some(span) = event.span().filter(|it| it.part == SpanPart::Whole) else { continue };
            spans += 1;
            let at = expected.iter().position(|it| it.id == span.id.unwrap());
            let activity = expected.remove(at.unwrap_or_else(|| panic!("{path:?} {span:?}")));
            assert_eq!(activity.task, span.name);
            let nanos = activity.duration_ms * 1e6;
            let length = (event.end - event.start) as f64;
            assert!((nanos - length).abs() < 200.0, "{activity:?} {length}");
        }
        assert_eq!(expected.len(), 0, "{path:?} {spans}: {expected:?}");
        count += spans;
    }
    assert!(count >= 15 || dotnet_traces().is_empty(), "{count}");
}

/// Lists of version 6 can leave out the ids of span and trace, which only its readers find.
#[test]
fn ids_that_label_lists_leave_out() {
    let id = |kind: u8, span: u8| {
        [&[kind, 0xF0, 0, 0, 0, 0, 0xF0, span, 0, 0, 0, 0, 0][..], &[1, 2, 3, 4]].concat()
    };
    let root = [id(1, 1), [&[3][..], &[0xAB; 16]].concat()];
    let lists = |stream: &mut Stream, child| {
        stream.label_lists(1, &[&root, &[id(1, child), id(2, 1)]]);
    };
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let row = |number, list| Row::new(5, number, 1000 + u64::from(number)).labels(list);
    lists(&mut stream, 2);
    stream.events(&[row(1, 1), row(2, 2), row(3, 1), row(4, 2)]);
    // The same list id, for another span.
    lists(&mut stream, 3);
    stream.events(&[row(5, 2)]).sequence_point(1006, 0, &[(5, 5)]);
    lists(&mut stream, 4);
    let trace = stream.events(&[row(6, 2)]).end();
    let ids = |trace: &[u8]| {
        let dumped = run(&["dump", "--json"], trace).1;
        let labels = dumped.lines().map(|line| strict_json(line)["labels"].clone());
        labels.map(|of| (of["TraceId"].clone(), of["SpanId"].clone())).collect::<Vec<_>>()
    };
    let found = ids(&trace);
    assert!(found.iter().all(|(trace, _)| trace == &"ab".repeat(16)), "{found:?}");
    let spans: Vec<_> = found.iter().map(|(_, span)| span.as_str().unwrap()).collect();
    assert_eq!(spans, [1, 2, 1, 2, 3, 4].map(|span| format!("{span:016x}")));
    assert_eq!(ids(&convert(&trace, "heph").0), found);
    // Version 5 has no trace ids: that of each event is told.
    let said = convert(&trace, "v5").1;
    assert!(said.contains(": 6 labels of events\n"), "{said}");
}
