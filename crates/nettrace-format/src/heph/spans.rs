//! Joins the two events of a span, which are anywhere in the trace, to one packet.
//!
//! The packet of the event that comes first is an instant, as every other event is. The packet of
//! the second is the span, with the times and fields of both. So each packet is written at once. A
//! program that is killed leaves the instants of the spans that were open, and the counters of
//! streams have no gaps. Rejected: holding back the first event. Its stream would have a gap where
//! nothing is lost, and a kill would remove what one looks for. Rejected: one packet for the start
//! and one for the end, each of length 0, which is no span to any tool.
//!
//! The event that comes first is remembered. It is mostly the start. If a task moves to another
//! thread, the end can come first, because the rows of a thread are written together. An end waits
//! for its start only until no older row can come. An end that knows its duration, and whose start
//! cannot come any more, needs no start.
//!
//! What is remembered takes at most [`MOST_BYTES`]. The oldest is forgotten first, so spans that
//! never end do no harm.

use alloc::{
    borrow::ToOwned as _,
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
};

use nettrace_event::{
    Storage, keys,
    role::{Role, span_name},
};

use crate::{
    activity,
    content::{Label, RowHeader},
    described::{EventDescription, FieldDescription},
    heph::clock::Clock,
    payload::walk::{Value, Visitor, walk},
};

/// The most bytes that remembered events take, about.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// The most bytes of fields that are remembered of an event.
pub(super) const MOST_FIELDS: usize = 16 << 10;

/// About how many bytes an event takes in the tables, without its fields.
const COST: usize = 256;

/// Which end of a span an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    Stop,
}

/// What both events of a span have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// A hash of the others. The tables are sorted by this alone, so that a search stays in few
    /// cache lines.
    hash: u64,
    id: Id,
    /// The number of [provider and name](Spans::family).
    family: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Span { trace: Option<[u8; 16]>, span: u64 },
    Activity([u8; 16]),
}

impl Key {
    fn new(id: Id, family: u32) -> Self {
        // If two keys have the same hash, one of the spans is forgotten.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut hash = 0_u64;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
        let halves = |id: [u8; 16]| {
            let id = u128::from_le_bytes(id);
            [id as u64, (id >> 64) as u64]
        };
        match id {
            Id::Span { trace, span } => {
                add(span);
                trace.map(halves).into_iter().flatten().for_each(&mut add);
            }
            Id::Activity(id) => halves(id).into_iter().for_each(&mut add),
        }
        add(family.into());
        Self { hash, id, family }
    }
}

/// An event whose span is not complete yet.
#[derive(Debug)]
pub(super) struct Half {
    key: Key,
    pub(super) side: Side,
    pub(super) ticks: u64,
    pub(super) stream: u32,
    /// The description that a field of the event states.
    pub(super) description: Option<Box<str>>,
    /// The event's fields, encoded.
    pub(super) fields: Box<[u8]>,
    age: u64,
}

impl Half {
    fn cost(&self) -> usize {
        COST + self.fields.len() + self.description.as_ref().map_or(0, |text| text.len())
    }
}

/// A span that is complete. Times are nanoseconds since the trace's epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<'a> {
    pub(super) name: &'a str,
    pub(super) start: i128,
    pub(super) end: i128,
    /// The event that came before.
    pub(super) other: Option<&'a Half>,
}

/// What an event is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// Not the start or the end of a span.
    None,
    /// The first event of a span.
    First(Key, Side),
    /// The last event of a span, or its only one.
    Last(Option<Key>, Whole<'a>),
}

/// A change, with what is needed to undo it.
#[derive(Debug)]
pub(super) enum Change {
    Remembered(Key),
    Removed(Half),
}

/// The spans of which one event has come.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// By the hashes of their keys.
    halves: BTreeMap<u64, Half>,
    /// The hashes, the oldest first.
    ages: BTreeMap<u64, u64>,
    /// The ends that wait for their starts, by their times.
    stops: BTreeSet<(u64, u64)>,
    next_age: u64,
    bytes: usize,
    /// No row that comes is older, in ticks.
    floor: u64,
    forgotten: u64,
    families: BTreeMap<(String, String), u32>,
}

impl Spans {
    /// The number of a provider and the name of a span. It stays the same.
    pub(super) fn family(&mut self, provider: &str, name: &str) -> u32 {
        let next = self.families.len() as u32;
        *self.families.entry((provider.to_owned(), span_name(name).to_owned())).or_insert(next)
    }

    /// What an event is, which may complete a span.
    pub(super) fn part<'a>(
        &'a self,
        schema: &'a impl EventDescription,
        family: u32,
        header: &RowHeader,
        labels: &[Label<'_>],
        payload: &[u8],
        clock: &Clock,
    ) -> Part<'a> {
        let ticks = header.timestamp;
        let end = clock.signed(ticks);
        let alone = |name| {
            let start = end - i128::from(duration(schema, payload)?);
            Some(Whole { name, start, end, other: None })
        };
        let is_single = || schema.has(|key, value| (key, value) == keys::SINGLE);
        let side = match Role::stated(Some(opcode(schema, labels)), is_single) {
            Some(Role::Start) => Side::Start,
            Some(Role::Stop) => Side::Stop,
            Some(Role::Single) => {
                return alone(schema.facts().name)
                    .map_or(Part::None, |whole| Part::Last(None, whole));
            }
            _ => return Part::None,
        };
        let name = span_name(schema.facts().name);
        let key = id(labels).map(|id| Key::new(id, family));
        if let Some((key, other)) = key.and_then(|key| Some((key, self.get(&key)?))) {
            let (first, last) = match side {
                Side::Start => (ticks, other.ticks),
                Side::Stop => (other.ticks, ticks),
            };
            if other.side != side && first <= last {
                let (start, end) = (clock.signed(first), clock.signed(last));
                return Part::Last(Some(key), Whole { name, start, end, other: Some(other) });
            }
        }
        if side == Side::Stop {
            // A start that has not come, but that can come, has fields.
            let whole = alone(name);
            let cannot_come =
                |whole: &Whole<'_>| key.is_none() || whole.start < clock.signed(self.floor);
            if let Some(whole) = whole.filter(cannot_come) {
                return Part::Last(None, whole);
            }
        }
        key.map_or(Part::None, |key| Part::First(key, side))
    }

    /// Remembers the first event of a span. `log` gets the changes.
    pub(super) fn remember(
        &mut self,
        key: Key,
        (side, ticks, stream): (Side, u64, u32),
        description: Option<&str>,
        fields: &[u8],
        log: &mut impl FnMut(Change),
    ) {
        let is_short = fields.len() <= MOST_FIELDS;
        self.forgotten += u64::from(!is_short);
        let fields = if is_short { fields } else { &[] };
        // The same span has begun again: a label that is no span's own.
        self.remove_hash(key.hash, log);
        let age = self.next_age;
        self.next_age += 1;
        let description = description.map(Box::from);
        let half = Half { key, side, ticks, stream, description, fields: fields.into(), age };
        self.insert(half);
        log(Change::Remembered(key));
        while self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.ages.first_key_value() else { break };
            let oldest = *oldest;
            self.forgotten += 1;
            self.remove_hash(oldest, log);
        }
    }

    /// Removes a span that is complete.
    pub(super) fn remove(&mut self, key: &Key, log: &mut impl FnMut(Change)) {
        self.remove_hash(key.hash, log);
    }

    fn remove_hash(&mut self, hash: u64, log: &mut impl FnMut(Change)) {
        if let Some(half) = self.take(hash) {
            log(Change::Removed(half));
        }
    }

    /// Undoes a change. Changes must be undone in reverse order.
    pub(super) fn undo(&mut self, change: Change) {
        match change {
            Change::Remembered(key) => _ = self.take(key.hash),
            Change::Removed(half) => self.insert(half),
        }
    }

    /// Notes that no row that comes is older than `ticks`.
    pub(super) fn raise(&mut self, ticks: u64) {
        self.floor = self.floor.max(ticks);
        while let Some(&(at, age)) = self.stops.first().filter(|(at, _)| *at < self.floor) {
            // Its start is lost.
            match self.ages.get(&age).copied() {
                Some(hash) => _ = self.take(hash),
                None => _ = self.stops.remove(&(at, age)),
            }
        }
    }

    /// How many events were forgotten, or their fields, since the last call.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        core::mem::take(&mut self.forgotten)
    }

    fn get(&self, key: &Key) -> Option<&Half> {
        self.halves.get(&key.hash).filter(|half| half.key == *key)
    }

    fn insert(&mut self, half: Half) {
        self.bytes += half.cost();
        self.ages.insert(half.age, half.key.hash);
        if half.side == Side::Stop {
            self.stops.insert((half.ticks, half.age));
        }
        self.halves.insert(half.key.hash, half);
    }

    fn take(&mut self, hash: u64) -> Option<Half> {
        let half = self.halves.remove(&hash)?;
        self.bytes -= half.cost();
        self.ages.remove(&half.age);
        self.stops.remove(&(half.ticks, half.age));
        Some(half)
    }
}

/// The opcode of an event, which a label may replace.
pub(super) fn opcode(schema: &impl EventDescription, labels: &[Label<'_>]) -> u8 {
    let label = labels.iter().rev().find_map(|label| match label {
        Label::OpCode(value) => Some(*value),
        _ => None,
    });
    label.or(schema.facts().opcode).unwrap_or(0)
}

/// The span that an event belongs to: the last label that states it.
pub(super) fn span_id(labels: &[Label<'_>]) -> Option<u64> {
    let span = labels.iter().rev().find_map(|label| match label {
        Label::SpanId(id) => Some(*id),
        _ => None,
    });
    span.or_else(|| activity_id(labels).and_then(|id| activity::span_id(&id)))
}

/// The activity that an event belongs to: the last label that states it.
pub(super) fn activity_id(labels: &[Label<'_>]) -> Option<[u8; 16]> {
    labels.iter().rev().find_map(|label| match label {
        Label::ActivityId(id) => Some(*id),
        _ => None,
    })
}

fn id(labels: &[Label<'_>]) -> Option<Id> {
    let trace = labels.iter().rev().find_map(|label| match label {
        Label::TraceId(id) => Some(*id),
        _ => None,
    });
    let span = span_id(labels).filter(|span| *span != 0);
    match span {
        Some(span) => Some(Id::Span { span, trace }),
        None => activity_id(labels).filter(|id| *id != [0; 16]).map(Id::Activity),
    }
}

/// The nanoseconds in the field `duration` of an event, if it has one.
fn duration<T: EventDescription>(schema: &T, payload: &[u8]) -> Option<u64> {
    const NAME: &str = "duration";
    // A trace has the type as a key-value.
    let is_stated = || {
        schema.has(|key, value| {
            key.strip_prefix(keys::RUST_TYPE) == Some(NAME) && value == "Duration"
        })
    };
    let is_duration = |field: &T::Field| {
        let is_number = || matches!(T::Field::storage(field.ty()), Storage::U64);
        field.name() == NAME && (T::Field::is_duration(field.ty()) || is_number() && is_stated())
    };
    let field = schema.fields().iter().position(is_duration)?;
    let mut found = NthField { field, next: 0, depth: 0, nanos: None };
    walk(schema.fields(), payload, &mut found).ok()?;
    found.nanos
}

/// Finds the number in a field.
#[derive(Debug)]
struct NthField {
    field: usize,
    /// The number of fields so far.
    next: usize,
    depth: usize,
    nanos: Option<u64>,
}

impl<F: FieldDescription> Visitor<F> for NthField {
    type Error = crate::FormatError;

    fn begin_field(&mut self, _: &F) -> Result<(), Self::Error> {
        self.next += usize::from(self.depth == 0);
        self.depth += 1;
        Ok(())
    }

    fn end_field(&mut self, _: &F) -> Result<(), Self::Error> {
        self.depth -= 1;
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), Self::Error> {
        match value {
            Value::U64(nanos) if self.next == self.field + 1 => self.nanos = Some(nanos),
            _ => {}
        }
        Ok(())
    }
}
