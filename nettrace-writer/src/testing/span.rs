//! Captured spans, as trees.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    ptr,
};

use nettrace_event::{
    EventSchema,
    role::{Role, span_name, span_of_record},
    trace_context::SpanId,
};

use super::{
    event::{Event, get},
    value::{FromValue, Value, write_fields},
};

/// Fields of a Stop, or of a span's only event, that tell of time or chance.
const UNSTABLE: &[&str] = &["started", "duration", "polls", "busy", "idle"];

/// A span that was captured, with what is in it.
///
/// It shows itself as a tree of lines: see [`Capture::snapshot`](super::Capture::snapshot).
#[derive(Clone, Debug)]
pub struct Span {
    name: String,
    /// Start, later fields and Stop, or the only event.
    parts: Vec<Event>,
    has_ended: bool,
    items: Vec<CapturedItem>,
}

/// A part of a span, or of none.
#[derive(Clone, Debug)]
pub(super) enum CapturedItem {
    Event(Event),
    Span(Span),
}

impl Span {
    /// The name: that of the traced function, of the struct, or of the span of `tracing`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its provider.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        self.parts[0].provider()
    }

    /// The fields of its Start and of its Stop.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.parts.iter().flat_map(Event::fields)
    }

    /// The value of a field of its Start or of its Stop. If both have it, that of the last.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.parts.iter().rev().find_map(|part| part.field(name))
    }

    /// The value of a field as a Rust type.
    ///
    /// # Panics
    ///
    /// If there is no such field, or its value is not of that type.
    #[must_use]
    #[track_caller]
    pub fn get<T: FromValue>(&self, name: &str) -> T {
        get(&self.to_string(), self.field(name), name)
    }

    /// The outcome of the span: `ok`, `err`, `panicked` or `cancelled`. `None` if it has not.
    #[must_use]
    pub fn outcome(&self) -> Option<&str> {
        match self.field("outcome") {
            Some(Value::Text(outcome)) if self.has_ended => Some(outcome),
            _ => None,
        }
    }

    /// The spans that began in it, in this order.
    pub fn children(&self) -> impl Iterator<Item = &Span> {
        self.items.iter().filter_map(CapturedItem::span)
    }

    /// The events that were emitted in it, but not in one of its children.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.items.iter().filter_map(|item| match item {
            CapturedItem::Event(event) => Some(event),
            CapturedItem::Span(_) => None,
        })
    }

    /// The events that tell of the span itself.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Event> {
        self.parts.iter()
    }

    /// Whether its first event is of this type.
    pub(super) fn is_of(&self, schema: &'static EventSchema) -> bool {
        ptr::eq(self.parts[0].schema(), schema)
    }

    /// The line of the span alone.
    pub(super) fn line(&self) -> String {
        let is_own = |name: &str| UNSTABLE.contains(&name) || name == "outcome";
        let stable = |(name, value): (&'static str, &Value)| (name, value.stable());
        let fields: Vec<_> = self.fields().filter(|(name, _)| !is_own(name)).map(stable).collect();
        let mut line = self.name.clone();
        if !fields.is_empty() {
            line.push(' ');
            // Text takes everything.
            let _ = write_fields(&mut line, fields.iter().map(|(name, value)| (*name, value)));
        }
        let _ = match self.outcome() {
            Some(outcome) => write!(line, " -> {outcome}"),
            None if self.has_ended => Ok(()),
            None => line.write_str(" -> (open)"),
        };
        line
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_item(&CapturedItem::Span(self.clone()), 0, false, &mut text);
        f.write_str(text.trim_end())
    }
}

impl CapturedItem {
    pub(super) fn span(&self) -> Option<&Span> {
        match self {
            Self::Span(span) => Some(span),
            Self::Event(_) => None,
        }
    }
}

/// The lines of these, and of what is in them. If they are sorted, siblings come in the order of
/// their texts.
pub(super) fn text(items: &[CapturedItem], is_sorted: bool) -> String {
    let mut text = String::new();
    write_items(items, 0, is_sorted, &mut text);
    text
}

fn write_items(items: &[CapturedItem], depth: usize, is_sorted: bool, out: &mut String) {
    let text = |item| {
        let mut text = String::new();
        write_item(item, depth, is_sorted, &mut text);
        text
    };
    let mut texts: Vec<_> = items.iter().map(text).collect();
    if is_sorted {
        texts.sort();
    }
    out.extend(texts);
}

fn write_item(item: &CapturedItem, depth: usize, is_sorted: bool, out: &mut String) {
    let _ = write!(out, "{:1$}", "", 2 * depth);
    match item {
        CapturedItem::Event(event) => {
            let _ = event.write_stable(out);
            out.push('\n');
        }
        CapturedItem::Span(span) => {
            out.push_str(&span.line());
            out.push('\n');
            write_items(&span.items, depth + 1, is_sorted, out);
        }
    }
}

/// A span while the tree is made.
struct SpanNode {
    span: Span,
    parent: Option<SpanId>,
    items: PositionedItems,
}

/// The parts of a span, and where it begins among all events.
type PositionedItems = Vec<(usize, ItemPosition)>;

enum ItemPosition {
    Event,
    Span(SpanId),
}

/// The trees of these events, which are in the order in which they came.
pub(super) fn trees(events: &[Event]) -> Vec<CapturedItem> {
    let mut nodes = BTreeMap::<SpanId, SpanNode>::new();
    // Where each span is heard of first. Its own event may come last.
    let mut first = BTreeMap::new();
    let mut others = Vec::new();
    for (at, event) in events.iter().enumerate() {
        for id in [event.span_id(), event.related()].into_iter().flatten() {
            first.entry(id).or_insert(at);
        }
        let role = Role::stated_by(event.schema()).unwrap_or(Role::Inside);
        let id = event.span_id().filter(|_| role.is_edge());
        match (id, event.span_id().and_then(|id| nodes.get_mut(&id))) {
            _ if matches!(role, Role::Resume | Role::Suspend) => {}
            (Some(_), Some(node)) => {
                node.span.has_ended |= role != Role::Start;
                node.span.parts.push(event.clone());
            }
            (Some(id), None) => {
                let name = match role {
                    Role::Single => event.name(),
                    _ => span_name(event.name()),
                };
                let has_ended = role != Role::Start;
                let span = Span {
                    name: name.into(),
                    parts: vec![event.clone()],
                    has_ended,
                    items: Vec::new(),
                };
                let (parent, items) = (event.related(), Vec::new());
                nodes.insert(id, SpanNode { span, parent, items });
            }
            // Fields of a span of `tracing` that became known later.
            (None, Some(node)) if is_later_field(&node.span, event) => {
                node.span.parts.push(event.clone());
            }
            (None, _) => others.push(at),
        }
    }
    let mut roots = Vec::new();
    for at in others {
        let node = events[at].span_id().and_then(|id| nodes.get_mut(&id));
        node.map_or(&mut roots, |node| &mut node.items).push((at, ItemPosition::Event));
    }
    let ids: Vec<_> = nodes.iter().map(|(id, node)| (*id, node.parent)).collect();
    for (id, parent) in ids {
        // A span that follows from another one is in another trace.
        let trace = |id: &SpanId| nodes.get(id).and_then(|node| node.span.parts[0].trace_id());
        let parent = parent.filter(|parent| trace(parent) == trace(&id));
        let node = parent.and_then(|parent| nodes.get_mut(&parent));
        node.map_or(&mut roots, |node| &mut node.items).push((first[&id], ItemPosition::Span(id)));
    }
    items(roots, events, &mut nodes)
}

fn is_later_field(span: &Span, event: &Event) -> bool {
    let start = span.parts[0].schema();
    span_of_record(event.name()) == Some(&*span.name) && event.schema().place == start.place
}

fn items(
    mut of: PositionedItems,
    events: &[Event],
    nodes: &mut BTreeMap<SpanId, SpanNode>,
) -> Vec<CapturedItem> {
    of.sort_by_key(|(at, _)| *at);
    let item = |(at, what)| match what {
        ItemPosition::Event => Some(CapturedItem::Event(Event::clone(&events[at]))),
        ItemPosition::Span(id) => {
            let SpanNode { mut span, items: inner, .. } = nodes.remove(&id)?;
            span.items = items(inner, events, nodes);
            Some(CapturedItem::Span(span))
        }
    };
    of.into_iter().filter_map(item).collect()
}
