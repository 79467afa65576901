//! Captured events.

use std::{fmt, sync::Arc};

use nettrace_event::{
    EventSchema, Label, Level,
    trace_context::{SpanId, TraceId},
};
use nettrace_span::frames;

use super::value::{FromValue, Value, decode, write_fields};
use crate::shared::sessions::captures::Emitted;

/// An event that was captured. A clone costs no more than a reference count.
///
/// It shows itself as a line of text: `Answered { url: "/cart", status: 200 }`.
#[derive(Clone)]
pub struct Event(Arc<Decoded>);

struct Decoded {
    emitted: Arc<Emitted>,
    fields: Vec<(&'static str, Value)>,
    labels: Vec<(String, Value)>,
}

impl Event {
    pub(super) fn new(emitted: Arc<Emitted>) -> Self {
        let payload = emitted.payload.as_deref().ok();
        let fields = payload.and_then(|payload| decode(emitted.ty.schema().fields, payload));
        let labels = frames::decode(&emitted.labels).filter_map(|label| match label {
            Label::Str(key, value) => Some((key.to_owned(), Value::Text(value.to_owned()))),
            Label::Int(key, value) => Some((key.to_owned(), Value::integer(value.into()))),
            _ => None,
        });
        let labels = labels.collect();
        Self(Arc::new(Decoded { fields: fields.unwrap_or_default(), labels, emitted }))
    }

    /// All that the type of the event says: its id, version, level, keywords and fields.
    #[must_use]
    pub fn schema(&self) -> &'static EventSchema {
        self.0.emitted.ty.schema()
    }

    /// The name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.schema().name
    }

    /// The name of its provider.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        self.schema().provider.name
    }

    /// Its level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.schema().level
    }

    /// The fields, in the order of the schema. None, if no session could record the event: see
    /// [`refusal`](Self::refusal).
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.fields.iter().map(|(name, value)| (*name, value))
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The value of a field as a Rust type.
    ///
    /// ```
    /// use nettrace_writer::{Emit, TraceEvent, testing};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered<'a> {
    ///     url: &'a str,
    ///     status: u16,
    /// }
    ///
    /// let events = testing::capture();
    /// Answered { url: "/cart", status: 200 }.emit();
    /// let answered = &events.of::<Answered>()[0];
    /// assert_eq!(answered.get::<u16>("status"), 200);
    /// assert!(answered.get::<String>("url").starts_with('/'));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such field, or its value is not of that type.
    #[must_use]
    #[track_caller]
    pub fn get<T: FromValue>(&self, name: &str) -> T {
        get(&self.to_string(), self.field(name), name)
    }

    /// The value of a [label](crate::enter_labels) that was in force.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&Value> {
        self.0.labels.iter().find(|(label, _)| label == key).map(|(_, value)| value)
    }

    /// The span that the event was emitted in.
    #[must_use]
    pub fn span_id(&self) -> Option<SpanId> {
        self.0.emitted.ids.map(|ids| ids.span)
    }

    /// The trace of that span.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        self.0.emitted.ids.map(|ids| ids.trace())
    }

    /// The span that that one began in, or follows from.
    pub(super) fn related(&self) -> Option<SpanId> {
        self.0.emitted.ids?.related
    }

    /// Why every session would lose the event: it is too large, for instance.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.0.emitted.payload.as_ref().err().map(ToString::to_string)
    }

    /// Whether both are the same event, and not only equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes the event without what differs from run to run.
    pub(super) fn write_stable(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let stable: Vec<_> = self.fields().map(|(name, value)| (name, value.stable())).collect();
        self.write(f, stable.iter().map(|(name, value)| (*name, value)))
    }

    fn write<'n, 'v>(
        &self,
        f: &mut impl fmt::Write,
        fields: impl Iterator<Item = (&'n str, &'v Value)>,
    ) -> fmt::Result {
        f.write_str(self.name())?;
        if let Some(refusal) = self.refusal() {
            return write!(f, " (cannot be recorded: {refusal})");
        }
        let mut fields = fields.peekable();
        if fields.peek().is_some() {
            f.write_str(" ")?;
            write_fields(f, fields)?;
        }
        if !self.0.labels.is_empty() {
            f.write_str(" with ")?;
            write_fields(f, self.0.labels.iter().map(|(key, value)| (&**key, value)))?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.fields())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The value of a field of what `shown` shows.
#[track_caller]
pub(super) fn get<T: FromValue>(shown: &str, value: Option<&Value>, name: &str) -> T {
    let Some(value) = value else { panic!("there is no field `{name}` in {shown}") };
    T::from_value(value).unwrap_or_else(|| {
        panic!("`{name}` is {value}, which is no {}, in {shown}", std::any::type_name::<T>())
    })
}
