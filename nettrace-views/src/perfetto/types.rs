//! What is known of an event type, before its events come.

use std::{borrow::Cow, rc::Rc};

use nettrace_reader::{Event, Metadata, Value};

use crate::{
    ids::{Role, span_name},
    perfetto::{
        counters::CounterEvent,
        names::{Kind, Names},
        numbers::event as fields,
        samples,
    },
    proto,
    spans::Name,
    values::{self, Key, Meaning},
};

/// Types with ids below this are found by their position.
const SMALL: u32 = 1 << 16;

/// The names of the levels from 1 to 3. Less severe events do not state theirs.
const LEVELS: [&str; 3] = ["Critical", "Error", "Warning"];

/// An event type.
#[derive(Debug)]
pub(super) struct EventType {
    pub(super) role: Role,
    /// Type, category and name of an event without duration.
    pub(super) instant: Vec<u8>,
    /// Category and name of a span.
    pub(super) span: Rc<Name>,
    pub(super) keys: Vec<Key>,
    /// The level as an annotation, if it is severe.
    pub(super) level: Vec<u8>,
    pub(super) is_sample: bool,
    pub(super) counter: Option<CounterEvent>,
    /// Which field states how long a span took.
    duration: Option<usize>,
    /// Which field states how often a span was polled.
    pub(super) polls: Option<usize>,
}

/// The types that the source has defined.
#[derive(Debug, Default)]
pub(super) struct Types {
    small: Vec<Option<Rc<EventType>>>,
    large: std::collections::HashMap<u32, Rc<EventType>>,
}

impl Types {
    /// The type of an event.
    #[inline]
    pub(super) fn of(
        &mut self,
        event: &Event<'_>,
        version: u32,
        names: &mut Names,
        out: &mut Vec<u8>,
    ) -> Rc<EventType> {
        let id = event.header.metadata_id;
        match self.small.get(id as usize) {
            Some(Some(ty)) => Rc::clone(ty),
            _ => self.other(event, version, names, out),
        }
    }

    #[cold]
    fn other(
        &mut self,
        event: &Event<'_>,
        version: u32,
        names: &mut Names,
        out: &mut Vec<u8>,
    ) -> Rc<EventType> {
        let id = event.header.metadata_id;
        if let Some(ty) = self.large.get(&id) {
            return Rc::clone(ty);
        }
        let ty = Rc::new(EventType::new(event.metadata(), version, names, out));
        if id < SMALL {
            let needed = self.small.len().max(id as usize + 1);
            self.small.resize(needed, None);
            self.small[id as usize] = Some(Rc::clone(&ty));
        } else {
            self.large.insert(id, Rc::clone(&ty));
        }
        ty
    }

    /// Forgets all types.
    pub(super) fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }
}

impl EventType {
    fn new(metadata: &Metadata, version: u32, names: &mut Names, out: &mut Vec<u8>) -> Self {
        let name: Cow<'_, str> = match &*metadata.name {
            "" => Cow::Owned(format!("EventID({})", metadata.event_id)),
            name => Cow::Borrowed(name),
        };
        let mut refer = |kind, name: &str| names.refer(kind, name, out);
        let category = refer(Kind::Category, &metadata.provider);
        let mut instant = Vec::new();
        proto::uint(&mut instant, fields::TYPE, fields::INSTANT);
        let event = [&*category, &refer(Kind::Event, &name)].concat();
        instant.extend_from_slice(&event);
        let role = Role::of(metadata, None, version);
        let text = match role {
            Role::Resume => name.strip_suffix("Resume").unwrap_or(&name),
            Role::Suspend => name.strip_suffix("Suspend").unwrap_or(&name),
            _ => span_name(&name),
        };
        let bytes = [category, refer(Kind::Event, text)].concat();
        let span = Rc::new(Name { text: text.to_owned(), bytes, event });
        let keys = metadata.fields.iter().map(|field| Key {
            bytes: refer(Kind::Annotation, &field.name),
            meaning: Meaning::of(metadata, &field.name),
        });
        let keys = keys.collect();
        let position = |name| metadata.fields.iter().position(|field| field.name == name);
        let level_key = refer(Kind::Annotation, "level");
        Self {
            role,
            instant,
            span,
            keys,
            level: level(metadata.level, &level_key),
            is_sample: samples::is_sample(metadata),
            counter: CounterEvent::of(metadata),
            duration: position("duration"),
            polls: position("polls"),
        }
    }

    /// How long the span took that an event ends, in nanoseconds, if the event states that.
    pub(super) fn duration_of(&self, event: &Event<'_>) -> Option<i64> {
        let (_, value) = event.fields().nth(self.duration?)?.ok()?;
        match value {
            Value::U64(nanos) => i64::try_from(nanos).ok(),
            Value::I64(nanos) => Some(nanos.max(0)),
            _ => None,
        }
    }
}

/// A level as an annotation; nothing for levels that are not severe.
pub(super) fn level(level: u8, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = usize::from(level).checked_sub(1).and_then(|place| LEVELS.get(place));
    if let Some(name) = name {
        values::text_field(&mut bytes, key, name);
    }
    bytes
}
