//! Counters of .NET: the values that `EventCounters` and meters publish.

use std::collections::HashMap;

use nettrace_reader::{Event, Metadata, Value};

use crate::{
    perfetto::{
        begin_packet,
        numbers::{event as fields, packet},
        tracks::Tracks,
    },
    proto::{self, close, open},
};

/// How many counters are remembered. A track may be described again.
const COUNTERS: usize = 1 << 14;

/// An event type whose events publish values of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterEvent {
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

/// The counters so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    tracks: HashMap<(Option<u64>, String), u64>,
    described: Vec<u8>,
}

/// A value of a counter.
#[derive(Debug)]
pub(super) struct CounterValue {
    track: u64,
    value: f64,
    /// The description of the track, if it is new.
    description: Vec<u8>,
}

impl CounterValue {
    pub(super) fn write(&self, at: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.description);
        let opened = begin_packet(out, at);
        let body = open(out, packet::TRACK_EVENT);
        proto::uint(out, fields::TYPE, fields::COUNTER);
        proto::uint(out, fields::TRACK, self.track);
        proto::double(out, fields::DOUBLE_COUNTER, self.value);
        close(out, body);
        close(out, opened);
    }
}

impl Counters {
    /// The value that an event publishes. `None` if it has none that is a number.
    pub(super) fn of(
        &mut self,
        kind: CounterEvent,
        event: &Event<'_>,
        process: Option<u64>,
        tracks: &mut Tracks,
    ) -> Option<CounterValue> {
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
                let tags = text(&fields, "tags").filter(|tags| !tags.is_empty());
                let tags = tags.map_or_else(String::new, |tags| format!("{{{tags}}}"));
                (format!("{meter}/{name}{tags}"), text(&fields, "unit"), value)
            }
        };
        let mut description = std::mem::take(&mut self.described);
        description.clear();
        if self.tracks.len() >= COUNTERS {
            self.tracks.clear();
        }
        let track = *self.tracks.entry((process, name)).or_insert_with_key(|(_, name)| {
            tracks.counter(process, name, unit.unwrap_or(""), &mut description)
        });
        Some(CounterValue { track, value, description })
    }
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
