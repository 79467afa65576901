//! Trees as JSON. `docs/json.md` documents the keys.

use std::io::Write;

use nettrace_reader::Event;
use nettrace_views::{
    model::{Key, SpanRef, Time},
    text::{JsonLabels, JsonValue, Payload, is_id},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    dump::Facts,
    failure::Failure,
    spelling::to_json,
    tree::{
        forest::Forest,
        id_text,
        order::{Extent, Node, Outside, Trees},
        process_name,
    },
};

/// Writes a tree as one line.
pub(super) fn write(
    forest: &Forest,
    trees: &Trees<'_>,
    root: SpanRef,
    facts: &Facts,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let trace = forest.spans[root].trace.map(|id| id.to_string());
    let followed = trees.followed(root);
    let is_remote = followed.is_none() && !trees.is_below(root);
    let parent = forest.spans[root].parent.as_ref().filter(|_| is_remote).map(id_text);
    write!(out, "{{")?;
    member(out, "trace", &trace)?;
    add(out, "remote_parent", &parent)?;
    if let Some(Node { key, span, .. }) = followed {
        add(out, "follows_from", &key.as_ref().map(id_text))?;
        add(out, "follows_from_trace", &span.trace.map(|id| id.to_string()))?;
    }
    if let Some(Extent { nanos, longest, .. }) = trees.extent(root) {
        add(out, "extent_ns", &nanos)?;
        let longest = longest.and_then(|node| node.key);
        add(out, "longest", &longest.as_ref().map(id_text))?;
    }
    let around = trees.around(root);
    if !around.is_empty() {
        let ids = around.iter().map(|node| node.key.as_ref().map(id_text));
        add(out, "within", &ids.collect::<Vec<_>>())?;
    }
    write!(out, ",\"spans\":[")?;
    let mut result = Ok(());
    let mut is_first = true;
    trees.walk(root, |node| {
        if result.is_ok() {
            result = (|| {
                write!(out, "{}", if is_first { "" } else { "," })?;
                is_first = false;
                span(forest, node, facts, out)
            })();
        }
    });
    result?;
    Ok(out.write_all(b"]}\n")?)
}

fn span(
    forest: &Forest,
    node: Node<'_>,
    facts: &Facts,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let Node { key, span, depth, at_least, own, .. } = node;
    let record = &span.record;
    write!(out, "{{")?;
    member(out, "depth", &depth)?;
    let ty = span.ty.map(|ty| &forest.types[ty as usize]);
    add(out, "provider", &ty.map(|ty| &ty.provider))?;
    add(out, "name", &ty.map(|ty| &ty.name))?;
    if let Some(place) = ty.and_then(|ty| ty.shown_place(span, false)) {
        add(out, "place", &place)?;
    }
    match key {
        Some(Key::Activity(id)) => {
            add(out, "activity", &id.to_string())?;
            let path = id.path_in(record.process).or(id.path());
            add(out, "path", &path.map(|path| path.to_string()))?;
        }
        key => add(out, "span", &key.as_ref().map(id_text))?,
    }
    add(out, "parent", &span.parent.as_ref().map(id_text))?;
    add(out, "state", &record.state.name())?;
    add(out, "outcome", &record.outcome)?;
    let unix = record.start.and_then(|start| Some(facts.clock.start()? + i128::from(start)));
    add(out, "time", &unix.and_then(|unix| Some(Time::of_unix(unix)?.to_string())))?;
    add(out, "since_start_ns", &record.start)?;
    add(out, "duration_ns", &record.duration())?;
    add(out, "at_least_ns", &at_least)?;
    add(out, "self_ns", &own)?;
    if let Some(outside) = node.outside {
        let name = match outside {
            Outside::Before(_) => "before_parent_ns",
            Outside::After(_) => "after_parent_ns",
        };
        add(out, name, &outside.nanos())?;
    }
    add(out, "process", &span.process_id())?;
    if let Some(name) = process_name(span, facts) {
        add(out, "process_name", &name)?;
    }
    add(out, "thread", &record.thread)?;
    for (name, details) in [("start", &span.start_details), ("stop", &span.stop_details)] {
        let details: &[u8] = if details.is_empty() { b"null" } else { details };
        write!(out, ",\"{name}\":")?;
        out.write_all(details)?;
    }
    write!(out, ",\"events\":[")?;
    for (index, event) in span.events.iter().enumerate() {
        write!(out, "{}", if index > 0 { "," } else { "" })?;
        out.write_all(&event.text)?;
    }
    write!(out, "]")?;
    add(out, "left_out_events", &span.left_out)?;
    if forest.choice.has_filter() {
        add(out, "matches", &node.has_match)?;
    }
    Ok(out.write_all(b"}")?)
}

/// Adds a member to an object that has one.
fn add(out: &mut impl Write, name: &str, value: &impl Serialize) -> Result<(), Failure> {
    out.write_all(b",")?;
    member(out, name, value)
}

fn member(out: &mut impl Write, name: &str, value: &impl Serialize) -> Result<(), Failure> {
    write!(out, "\"{name}\":")?;
    Ok(to_json(out, value)?)
}

/// What an event says of its span: fields, and labels that are not ids.
pub(super) fn details(
    event: &Event<'_>,
    payload: &Payload<'_>,
    is_start: bool,
) -> Result<Vec<u8>, Failure> {
    let labels = event.labels();
    let labels: Vec<_> = labels.iter().filter(|label| !is_id(label)).cloned().collect();
    let mut out = b"{".to_vec();
    member(&mut out, "fields", &Fields { payload, without: told_apart(is_start) })?;
    if !labels.is_empty() {
        add(&mut out, "labels", &JsonLabels(&labels))?;
    }
    if let Some(error) = &payload.error {
        add(&mut out, "fields_error", &error.to_string())?;
    }
    out.push(b'}');
    Ok(out)
}

/// The fields that have a key of their own. `started` is the start of a span that one event stands
/// for.
fn told_apart(is_start: bool) -> &'static [&'static str] {
    if is_start { &[] } else { &["started", "duration", "outcome"] }
}

/// Fields without those that have a key of their own.
struct Fields<'a> {
    payload: &'a Payload<'a>,
    without: &'static [&'static str],
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Payload { fields, types, .. } = self.payload;
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields.iter().filter(|(name, _)| !self.without.contains(name)) {
            let value = value.as_ref().map(|value| JsonValue(types.field(name).interpret(value)));
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}
