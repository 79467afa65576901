//! The facts about an event type before its events come.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use nettrace_event::{Outcome, trace_context::SpanId};
use nettrace_reader::{Event, Metadata, Value};

use crate::{
    model::{
        EndFields, InstrumentEvent, Key as SpanKey, Lesson, MOST_VALUES, Observed, Role, RustTypes,
        dimension, dimension_value, event_name, role_of, span_name,
    },
    viewers::{
        spans::Name,
        timeline::Form,
        values::{Details, Key, Meaning},
    },
};

/// The names of the levels from 1 to 3. Less severe events do not state theirs.
const LEVELS: [&str; 3] = ["Critical", "Error", "Warning"];

/// An event type.
#[derive(Debug)]
pub(super) struct EventType {
    pub(super) role: Role,
    /// The name of a span, and that of the event itself.
    pub(super) span: Rc<Name>,
    pub(super) keys: Vec<Key>,
    /// The level as a detail, if it is severe.
    pub(super) level: Vec<u8>,
    /// What its events say of what a thread did.
    pub(super) observed: Option<Observed>,
    /// Whether its events, if they are samples, are events with fields as well.
    pub(super) has_more: bool,
    /// What its events say of code.
    pub(super) lesson: Option<Lesson>,
    /// Which fields state the span that another one follows from: its trace and its id.
    pub(super) follows: Option<(usize, usize)>,
    pub(super) counter: Option<InstrumentEvent>,
    /// Which fields describe the end of a span.
    pub(super) end: EndFields,
    /// The field whose value is a part of the span's name.
    dimension: Option<usize>,
    valued: RefCell<HashMap<String, Rc<Name>>>,
}

impl EventType {
    pub(super) fn new<F: Form>(
        metadata: &Metadata,
        version: u32,
        by: Option<&str>,
        form: &mut F,
        out: &mut Vec<u8>,
    ) -> Self {
        let name = event_name(metadata);
        let event = form.name(&metadata.provider, &name, out);
        let role = role_of(metadata, None, version);
        let text = match role {
            // Of a span without a name, nothing else is left.
            Role::Resume if name != "Resume" => name.strip_suffix("Resume").unwrap_or(&name),
            Role::Suspend if name != "Suspend" => name.strip_suffix("Suspend").unwrap_or(&name),
            _ => span_name(&name),
        };
        let bytes = form.name(&metadata.provider, text, out);
        let span = Rc::new(Name { text: text.to_owned(), bytes, event, without_value: None });
        let types = RustTypes::of(metadata);
        let keys = metadata.fields.iter().map(|field| Key {
            bytes: form.key(&field.name, out),
            meaning: Meaning::of(&types.field(&field.name)),
        });
        let keys = keys.collect();
        let position = |name| metadata.fields.iter().position(|field| field.name == name);
        let level_key = form.key("level", out);
        let is_follows = metadata.name.ends_with("Follows");
        Self {
            role,
            span,
            keys,
            level: level::<F::Details>(metadata.level, &level_key),
            observed: Observed::of(metadata),
            has_more: !metadata.fields.is_empty() && !metadata.is_from_table,
            lesson: Lesson::of(metadata),
            follows: position("trace").zip(position("span")).filter(|_| is_follows),
            counter: InstrumentEvent::of(metadata),
            end: EndFields::of(metadata),
            dimension: dimension(metadata, by).filter(|_| !F::Details::IS_ANY),
            valued: RefCell::default(),
        }
    }

    /// The name of a span that an event begins. Where a span has no details, it has the value of
    /// its dimension.
    pub(super) fn named<F: Form>(
        &self,
        event: &Event<'_>,
        form: &mut F,
        out: &mut Vec<u8>,
    ) -> Rc<Name> {
        let value = self.dimension.and_then(|field| dimension_value(event, field));
        let Some(mut value) = value else { return Rc::clone(&self.span) };
        let mut valued = self.valued.borrow_mut();
        if valued.len() >= MOST_VALUES && !valued.contains_key(&value) {
            "(other)".clone_into(&mut value);
        }
        let name = valued.entry(value).or_insert_with_key(|value| {
            let text = format!("{} {value}", self.span.text);
            let bytes = form.name(&event.metadata().provider, &text, out);
            let without_value = Some(Rc::clone(&self.span));
            Rc::new(Name { text, bytes, event: self.span.event.clone(), without_value })
        });
        Rc::clone(name)
    }

    /// The span that the span of an event follows from, if the event states one. Keys have traces
    /// only if the format has their ids.
    pub(super) fn followed(&self, event: &Event<'_>, has_traces: bool) -> Option<SpanKey> {
        let (trace, span) = self.follows?;
        let text = |place| match event.fields().nth(place)?.ok()? {
            (_, Value::Text(text)) => Some(text),
            _ => None,
        };
        let id = SpanId::from_u64(u64::from_str_radix(&text(span)?, 16).ok()?)?;
        let trace = if has_traces { Some(text(trace)?.parse().ok()?) } else { None };
        Some(SpanKey::Span(trace, id))
    }

    /// What an event says of how its span ended.
    pub(super) fn ending_of(&self, event: &Event<'_>) -> Ending {
        let mut ending = Ending::default();
        let known = self.end.polls.map_or(0, |place| place + 1);
        for (place, field) in event.fields().enumerate().take(known) {
            let Ok((_, value)) = field else { continue };
            ending.note(self, place, &value);
        }
        ending
    }
}

/// What the end of a span states: how often it was polled, and whether it was cancelled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    polls: u64,
    is_cancelled: bool,
}

impl Ending {
    /// Takes note of the field at a place.
    #[inline]
    pub(super) fn note(&mut self, ty: &EventType, place: usize, value: &Value<'_>) {
        if ty.end.polls == Some(place) {
            self.polls = match value {
                Value::U32(polls) => (*polls).into(),
                // In traces that were of Heph.
                Value::U64(polls) => *polls,
                Value::I64(polls) => polls.unsigned_abs(),
                _ => u64::MAX,
            };
        } else if ty.end.outcome == Some(place) {
            self.is_cancelled = matches!(value, Value::Text(text)
                if Outcome::parse(text.chars()) == Some(Outcome::Cancelled));
        }
    }

    /// Whether the span had pauses. A span that is no future states no poll, or one from its begin
    /// to its end, as a future that was never pending. One that was cancelled waited for another.
    pub(super) fn had_pauses(self) -> bool {
        self.polls > u64::from(!self.is_cancelled)
    }
}

/// A level as a detail; nothing for levels that are not severe.
pub(super) fn level<D: Details>(level: u8, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = usize::from(level).checked_sub(1).and_then(|place| LEVELS.get(place));
    if let Some(name) = name {
        D::text(&mut bytes, key, name);
    }
    bytes
}
