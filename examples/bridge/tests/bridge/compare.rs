//! The comparison of JSON lines with a trace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nettrace_writer::trace_context::SpanId;
use serde_json::{Map, Value};

use crate::{
    lines::Line,
    trace::{Entry, Kind},
};

/// Which ends of spans have the same place among their thread's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// All of them.
    All,
    /// Those of spans without children. In a registry, a span with children ends after them, on
    /// whatever thread the last one ends on. For our subscriber it ends with its last handle.
    WithoutChildren,
}

/// What both have.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) events: u64,
    /// Events of the trace that have the later fields of spans.
    pub(crate) records: u64,
    /// Events of the trace that say what a span follows from. The lines do not say it.
    pub(crate) follows: u64,
    pub(crate) threads: usize,
    pub(crate) providers: BTreeSet<String>,
    /// The spans, with their parents.
    pub(crate) spans: BTreeMap<SpanId, Option<SpanId>>,
}

/// A span of the trace.
struct Span {
    name: String,
    parent: Option<SpanId>,
    at_start: Map<String, Value>,
    /// Those at the start, and those that became known later.
    at_stop: Map<String, Value>,
}

/// Compares the lines of each thread with its events, one by one.
pub(crate) fn compare(
    lines: &BTreeMap<String, Vec<Line>>,
    entries: &BTreeMap<String, Vec<Entry>>,
    ends: Ends,
) -> Compared {
    let mut compared = Compared { threads: lines.len(), ..Compared::default() };
    let spans = spans(entries);
    assert!(lines.keys().eq(entries.keys()), "{:?} and {:?}", lines.keys(), entries.keys());
    let (parents, parent_ids) = parents(lines, &spans);
    let mut pairs = Vec::new();
    // Ends of spans with children, by the ids of the spans.
    let (mut closes, mut stops) = (Vec::new(), HashMap::new());
    for (thread, lines) in lines {
        let mut entries: Vec<_> = entries[thread].iter().collect();
        let mut without = |kind| {
            let before = entries.len();
            entries.retain(|entry| entry.kind != kind);
            (before - entries.len()) as u64
        };
        compared.records += without(Kind::Record);
        compared.follows += without(Kind::Follows);
        let is_apart =
            |is_end: bool, is_parent: bool| ends == Ends::WithoutChildren && is_end && is_parent;
        let (apart, lines): (Vec<_>, Vec<_>) = lines.iter().partition(|line| {
            let is_parent = line.ids.last().is_some_and(|id| parent_ids.contains(id));
            is_apart(line.fields.contains_key("time.busy"), is_parent)
        });
        closes.extend(apart);
        let (apart, entries): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
            let is_parent = entry.span.is_some_and(|id| parents.contains(&id));
            is_apart(entry.kind == Kind::Stop, is_parent)
        });
        stops.extend(apart.into_iter().map(|entry| (entry.span, entry)));
        for (line, entry) in lines.iter().zip(&entries) {
            assert_same_callsite(line, entry);
            pairs.push((*line, Some(*entry)));
        }
        assert_eq!(lines.len(), entries.len(), "events of {thread}");
    }
    pairs.extend(closes.into_iter().map(|line| (line, None)));

    // Spans go from thread to thread, and their ids in the lines come back. In the order of the
    // lines, a span is made before anything is in it, and closes after that.
    pairs.sort_by_key(|(line, _)| line.number);
    let mut open = HashMap::<u64, SpanId>::new();
    for (line, entry) in pairs {
        let entry = entry.unwrap_or_else(|| {
            let id = line.ids.last().map(|id| open[id]);
            let stop = stops.remove(&id).unwrap_or_else(|| panic!("no end: {line:?}"));
            assert_same_callsite(line, stop);
            stop
        });
        compared.providers.insert(entry.provider.clone());
        let id = entry.span;
        match entry.kind {
            Kind::Start => {
                let id = id.expect("a span has an id");
                assert_eq!(line.fields["message"], "new", "{line:?} {entry:?}");
                assert_fields(&line.span, &spans[&id].at_start, line);
                open.insert(*line.ids.last().expect("it is in itself"), id);
                compared.spans.insert(id, spans[&id].parent);
            }
            Kind::Stop => {
                assert_eq!(line.fields["message"], "close", "{line:?} {entry:?}");
                assert_fields(&line.span, &spans[&id.expect("a span has an id")].at_stop, line);
            }
            Kind::Event => {
                compared.events += 1;
                assert_same_fields(&line.fields, &entry.fields, line);
                // Fields of these spans may have become known just now.
                let names = line.spans.iter().map(|span| span["name"].as_str().unwrap());
                let chain = chain(&spans, id);
                assert!(names.eq(chain.iter().rev().map(|id| &*spans[id].name)), "{line:?}");
                for (told, id) in line.spans.iter().zip(chain.iter().rev()) {
                    let fields = &spans[id].at_start;
                    assert!(fields.iter().all(|(name, value)| is_same(&told[name], value)));
                }
            }
            Kind::Record | Kind::Follows => unreachable!("they have no line"),
        }
        let expected: Vec<_> = line.ids.iter().rev().map(|id| open[id]).collect();
        assert_eq!(chain(&spans, id), expected, "{line:?} {entry:?}");
        if entry.kind == Kind::Stop {
            open.remove(line.ids.last().unwrap());
        }
    }
    assert!(open.is_empty(), "spans that do not close: {open:?}");
    assert!(stops.is_empty(), "spans that do not close: {stops:?}");
    compared
}

/// The spans with children: their ids in the trace, and in the lines.
fn parents(
    lines: &BTreeMap<String, Vec<Line>>,
    spans: &HashMap<SpanId, Span>,
) -> (BTreeSet<SpanId>, BTreeSet<u64>) {
    // A line has the ids of all spans that it is in, the innermost last.
    let ids = lines.values().flatten().flat_map(|line| line.ids.iter().rev().skip(1).copied());
    (spans.values().filter_map(|span| span.parent).collect(), ids.collect())
}

fn spans(entries: &BTreeMap<String, Vec<Entry>>) -> HashMap<SpanId, Span> {
    let mut spans = HashMap::new();
    for entry in entries.values().flatten().filter(|entry| entry.kind == Kind::Start) {
        let name = entry.name.strip_suffix("Start").expect("a name that ends in Start").to_owned();
        let (at_start, at_stop) = (entry.fields.clone(), entry.fields.clone());
        let span = Span { name, parent: entry.parent, at_start, at_stop };
        assert!(spans.insert(entry.span.unwrap(), span).is_none(), "{entry:?} starts twice");
    }
    for entry in entries.values().flatten().filter(|entry| entry.kind == Kind::Record) {
        let span = spans.get_mut(&entry.span.unwrap()).expect("a span that started");
        span.at_stop.extend(entry.fields.clone());
    }
    spans
}

/// A span and those around it, the inner first.
fn chain(spans: &HashMap<SpanId, Span>, mut next: Option<SpanId>) -> Vec<SpanId> {
    let mut chain = Vec::new();
    while let Some(id) = next {
        chain.push(id);
        next = spans.get(&id).unwrap_or_else(|| panic!("span {id} has no start")).parent;
    }
    chain
}

fn assert_same_callsite(line: &Line, entry: &Entry) {
    let text = |key: &str| entry.key_values.get(key).map(String::as_str);
    let number = line.line.to_string();
    let told = [Some(&*line.target), Some(&*line.level), Some(&*number)];
    let found = ["target", "level", "line"].map(text);
    assert_eq!(found, told, "{line:?} {entry:?}");
    // In the trace, the file of a dependency begins at its package.
    let folder = text("file").and_then(|file| line.file.strip_suffix(file));
    let is_left_out = |folder: &str| folder.is_empty() || folder.contains("/registry/src/");
    assert!(folder.is_some_and(is_left_out), "{line:?} {entry:?}");
    assert!(!text("file").is_some_and(|file| file.contains("/registry/src/")), "{entry:?}");
    assert_eq!(entry.provider, line.target.split("::").next().unwrap());
    let level = match &*line.level {
        "ERROR" => 2,
        "WARN" => 3,
        "INFO" => 4,
        _ => 5,
    };
    assert_eq!(entry.level, level, "{line:?}");
    let is_trace = entry.keywords & tracing_nettrace::KEYWORD_TRACE != 0;
    assert_eq!(is_trace, line.level == "TRACE", "{line:?} {entry:?}");
}

/// Compares the fields of a span, which has its name among them in the lines.
fn assert_fields(told: &Map<String, Value>, found: &Map<String, Value>, line: &Line) {
    let mut told = told.clone();
    let name = told.remove("name");
    // A field of that name takes the name's place.
    if let Some(field) = found.get("name") {
        told.insert("name".to_owned(), field.clone());
    } else {
        assert!(name.is_some(), "{line:?}");
    }
    assert_same_fields(&told, found, line);
}

fn assert_same_fields(told: &Map<String, Value>, found: &Map<String, Value>, line: &Line) {
    let [names, others] = [told, found].map(|fields| fields.keys().collect::<BTreeSet<_>>());
    assert_eq!(names, others, "{line:?}");
    for (name, value) in told {
        assert!(is_same(value, &found[name]), "{name}: {value} and {}: {line:?}", found[name]);
    }
}

fn is_same(told: &Value, found: &Value) -> bool {
    match (told.as_str(), found.as_str()) {
        // The lines have no cause of an error.
        (Some(told), Some(found)) => {
            found == told || found.strip_prefix(told).is_some_and(|rest| rest.starts_with(": "))
        }
        _ if told.is_f64() && found.is_f64() => {
            let [told, found] = [told, found].map(|value| value.as_f64().unwrap());
            (told - found).abs() <= f64::EPSILON * told.abs()
        }
        _ => told == found,
    }
}
