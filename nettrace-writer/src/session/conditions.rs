//! Conditions on events that make a flight recorder write a dump.

use std::{
    fmt,
    ops::{Bound, RangeBounds},
    time::Duration,
};

use nettrace_event::{
    EventSchema, EventType, FieldSchema, FieldType, Level, Outcome, registry,
    role::{Role, span_name},
};
use nettrace_format::{
    payload::walk::{self, Mismatch, Text, Value, Visitor, walk},
    v6::{
        BlockKind,
        read::{self, Malformed, Rows},
    },
};

use crate::sink::ring::Look;

/// Events that are looked for.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    trigger: String,
    /// Provider and name of the event or span; `None` for any.
    of: Option<(String, String)>,
    what: Criterion,
}

#[derive(Clone, Debug)]
enum Criterion {
    Level(Level),
    Event,
    Number(String, (Bound<i64>, Bound<i64>)),
    Slow(Duration),
    Failed,
}

impl Condition {
    pub(super) fn level(level: Level) -> Self {
        let trigger = level.name().map_or_else(|| "level".into(), str::to_lowercase);
        Self { trigger, of: None, what: Criterion::Level(level) }
    }

    pub(super) fn event(provider: &str, event: &str) -> Self {
        Self::of(provider, event, "", Criterion::Event)
    }

    pub(super) fn number(
        provider: &str,
        event: &str,
        field: &str,
        range: impl RangeBounds<i64>,
    ) -> Self {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        Self::of(provider, event, "", Criterion::Number(field.to_owned(), range))
    }

    pub(super) fn slow(provider: &str, span: &str, time: Duration) -> Self {
        Self::of(provider, span, "-slow", Criterion::Slow(time))
    }

    pub(super) fn failed(provider: &str, span: &str) -> Self {
        Self::of(provider, span, "-failed", Criterion::Failed)
    }

    fn of(provider: &str, name: &str, more: &str, what: Criterion) -> Self {
        let trigger = format!("{name}{more}");
        Self { trigger, of: Some((provider.to_owned(), name.to_owned())), what }
    }

    /// The test that an event of this type must pass to meet the condition; `None` if it cannot.
    fn test(&self, schema: &EventSchema) -> Option<EventTest> {
        let is_span = matches!(self.what, Criterion::Slow(_) | Criterion::Failed);
        if let Some((provider, name)) = &self.of {
            let of_type = if is_span { span_that_ends(schema)? } else { schema.name };
            if (schema.provider.name, of_type) != (provider, name) {
                return None;
            }
        }
        let field = |name: &str| schema.fields.iter().position(|field| field.name == name);
        Some(match &self.what {
            // `LogAlways` is the lowest number, and not the most severe level.
            Criterion::Level(level)
                if schema.level <= *level
                    && (schema.level != Level::LogAlways || *level == Level::LogAlways) =>
            {
                EventTest::Always
            }
            Criterion::Level(_) => return None,
            Criterion::Event => EventTest::Always,
            Criterion::Number(name, range) => EventTest::Number(field(name)?, *range),
            Criterion::Slow(time) => {
                let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
                let at = field("duration")?;
                let is_duration = schema.fields[at].ty == FieldType::DurationNanos;
                is_duration
                    .then_some(EventTest::Number(at, (Bound::Included(nanos), Bound::Unbounded)))?
            }
            Criterion::Failed => EventTest::Failed(field("outcome")?),
        })
    }
}

/// The name of the span that an event of this type ends.
fn span_that_ends(schema: &EventSchema) -> Option<&'static str> {
    match Role::stated_by(schema)? {
        Role::Single => Some(schema.name),
        Role::Stop => Some(span_name(schema.name)),
        _ => None,
    }
}

/// The test that an event of a type must pass to meet a condition. Fields are given by their
/// places.
#[derive(Clone, Copy, Debug)]
enum EventTest {
    Always,
    Number(usize, (Bound<i64>, Bound<i64>)),
    /// The outcome is an error or a panic.
    Failed(usize),
}

impl EventTest {
    fn holds(self, fields: &[FieldSchema], payload: &[u8]) -> bool {
        let at = match self {
            Self::Always => return true,
            Self::Number(at, _) | Self::Failed(at) => at,
        };
        let mut find = FieldFinder { fields: at, depth: 0, test: self, holds: false };
        let _ = walk(fields, payload, &mut find);
        find.holds
    }

    fn holds_for(self, value: Value<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Number(_, range) => number(value).is_some_and(|number| range.contains(&number)),
            Self::Failed(_) => match value {
                Value::Text(text) => is_failure(text),
                _ => false,
            },
        }
    }
}

/// An integer. One beyond `i64` is as large as that.
fn number(value: Value<'_>) -> Option<i64> {
    Some(match value {
        Value::Bool(value) => value.into(),
        Value::U8(value) => value.into(),
        Value::U16(value) => value.into(),
        Value::U32(value) => value.into(),
        Value::U64(value) => value.try_into().unwrap_or(i64::MAX),
        Value::I8(value) => value.into(),
        Value::I16(value) => value.into(),
        Value::I32(value) => value.into(),
        Value::I64(value) => value,
        _ => return None,
    })
}

fn is_failure(text: Text<'_>) -> bool {
    Outcome::parse(text.chars()).is_some_and(Outcome::is_failure)
}

/// Looks for the value of a field of the event, or of an option that the field is. Elements of
/// arrays and parts of objects are deeper.
struct FieldFinder {
    /// The number of fields before it.
    fields: usize,
    depth: u32,
    test: EventTest,
    holds: bool,
}

/// The value was found, or there is none.
struct ValueFound;

impl From<Mismatch> for ValueFound {
    fn from(_: Mismatch) -> Self {
        Self
    }
}

impl Visitor for FieldFinder {
    type Error = ValueFound;

    fn value(&mut self, value: walk::Value<'_>) -> Result<(), ValueFound> {
        if self.fields == 0 && self.depth == 1 {
            self.holds = self.test.holds_for(value);
        }
        Ok(())
    }

    fn begin_array(&mut self, _: &FieldType, _: usize) -> Result<(), ValueFound> {
        self.depth += 1;
        Ok(())
    }

    fn end_array(&mut self) -> Result<(), ValueFound> {
        self.depth -= 1;
        Ok(())
    }

    fn begin_field(&mut self, _: &FieldSchema) -> Result<(), ValueFound> {
        self.depth += 1;
        Ok(())
    }

    fn end_field(&mut self, _: &FieldSchema) -> Result<(), ValueFound> {
        self.depth -= 1;
        if self.depth == 0 {
            self.fields = self.fields.checked_sub(1).ok_or(ValueFound)?;
        }
        Ok(())
    }
}

/// Gets the name of a trigger, and provider and name of the event.
pub(super) type FireTrigger = Box<dyn Fn(&str, &str) + Send>;

/// Looks at the events that are kept, and fires.
pub(super) struct Matcher {
    conditions: Vec<Condition>,
    /// The conditions of each type, by its index: which condition, and the test.
    types: Vec<Option<WatchedType>>,
    fire: FireTrigger,
}

/// A type, and the conditions that its events can meet.
#[derive(Clone, Debug)]
struct WatchedType {
    schema: &'static EventSchema,
    tests: Box<[(usize, EventTest)]>,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}

impl Matcher {
    pub(super) fn new(conditions: Vec<Condition>, fire: FireTrigger) -> Self {
        Self { conditions, types: Vec::new(), fire }
    }

    /// Takes over the types that are registered by now.
    fn learn(&mut self) {
        for ty in registry::types() {
            let at = ty.index() as usize;
            if self.types.len() <= at {
                self.types.resize(at + 1, None);
            }
            if self.types[at].is_none() {
                self.types[at] = Some(self.known(ty));
            }
        }
    }

    fn known(&self, ty: &'static EventType) -> WatchedType {
        let schema = ty.schema();
        let conditions = self.conditions.iter().enumerate();
        let tests = conditions.filter_map(|(at, condition)| Some((at, condition.test(schema)?)));
        WatchedType { schema, tests: tests.collect() }
    }

    fn see(&mut self, id: u32, payload: &[u8]) {
        let at = id as usize;
        if self.types.get(at).is_none_or(Option::is_none) {
            self.learn();
        }
        let Some(Some(known)) = self.types.get(at) else { return };
        for (condition, test) in &known.tests {
            if test.holds(known.schema.fields, payload) {
                let EventSchema { provider, name, .. } = known.schema;
                (self.fire)(
                    &self.conditions[*condition].trigger,
                    &format!("{}/{name}", provider.name),
                );
            }
        }
    }
}

impl Look for Matcher {
    fn look(&mut self, blocks: &[u8]) -> Result<(), Malformed> {
        for block in read::blocks(blocks) {
            let block = block?;
            if block.is(BlockKind::Event) {
                let mut rows = Rows::new(block.body)?;
                while let Some((header, payload)) = rows.next_row()? {
                    self.see(header.metadata_id, payload);
                }
            }
        }
        Ok(())
    }
}
