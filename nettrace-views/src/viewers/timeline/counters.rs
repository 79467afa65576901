//! Counters of .NET: the values that `EventCounters` and meters publish.

use std::fmt::Write;

use nettrace_reader::{Event, Metadata, Value};

/// An event type whose events publish values of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterEvent {
    /// An object with the name and the values, which any provider can publish.
    EventCounters,
    /// An instrument of a meter. The value is in the field with this name, as text.
    Meter(&'static str),
}

impl CounterEvent {
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let is_meter = metadata.provider == "System.Diagnostics.Metrics";
        match &*metadata.name {
            "EventCounters" => Some(Self::EventCounters),
            "CounterRateValuePublished" | "UpDownCounterRateValuePublished" if is_meter => {
                Some(Self::Meter("rate"))
            }
            "GaugeValuePublished" if is_meter => Some(Self::Meter("lastValue")),
            _ => None,
        }
    }
}

/// A value of a counter.
#[derive(Clone, Debug)]
pub(crate) struct CounterValue {
    pub(crate) name: String,
    /// Empty if the trace states none.
    pub(crate) unit: String,
    pub(crate) value: f64,
}

/// The value that an event publishes. `None` if it has none that is a number.
pub(super) fn published(kind: CounterEvent, event: &Event<'_>) -> Option<CounterValue> {
    let fields: Vec<_> = event.fields().filter_map(Result::ok).collect();
    let provider = &event.metadata().provider;
    let (name, unit, value) = match kind {
        CounterEvent::EventCounters => {
            let payload = match fields.first()? {
                (_, Value::Object(payload)) => unwrapped(payload),
                _ => &*fields,
            };
            let value = number(payload, "Mean").or_else(|| number(payload, "Increment"))?;
            let name = text(payload, "Name")?;
            (format!("{provider}/{name}"), text(payload, "DisplayUnits"), value)
        }
        CounterEvent::Meter(field) => {
            let value = text(&fields, field)?.parse().ok()?;
            let (meter, name) = (text(&fields, "meterName")?, text(&fields, "instrumentName")?);
            let mut name = format!("{meter}/{name}");
            if let Some(tags) = text(&fields, "tags").filter(|tags| !tags.is_empty()) {
                // A `String` takes everything.
                let _ = write!(name, "{{{tags}}}");
            }
            (name, text(&fields, "unit"), value)
        }
    };
    Some(CounterValue { name, unit: unit.unwrap_or("").to_owned(), value })
}

/// Some versions of .NET put the values into an object in the object.
fn unwrapped<'v, 'a>(fields: &'v [(&'a str, Value<'a>)]) -> &'v [(&'a str, Value<'a>)] {
    match fields {
        [(_, Value::Object(inner))] => inner,
        fields => fields,
    }
}

fn field<'v, 'a>(fields: &'v [(&'a str, Value<'a>)], name: &str) -> Option<&'v Value<'a>> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

fn text<'v>(fields: &'v [(&str, Value<'_>)], name: &str) -> Option<&'v str> {
    match field(fields, name)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn number(fields: &[(&str, Value<'_>)], name: &str) -> Option<f64> {
    match field(fields, name)? {
        Value::F64(value) => Some(*value),
        Value::F32(value) => Some((*value).into()),
        Value::I32(value) => Some((*value).into()),
        _ => None,
    }
}
