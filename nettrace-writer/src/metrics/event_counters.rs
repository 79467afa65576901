//! Values of instruments as EventCounters: what clients before .NET 6 ask for.
//!
//! The events have the name of the meter as their provider, and one field without a name, an
//! object with an object `Payload`. The types of the events are made when somebody first asks.

use std::fmt;

use crate::{
    Level, TraceEvent, emit,
    event::{
        EventSchema, EventType, FieldSchema, FieldType, PayloadEncoder, Place, ProviderSchema,
        StrEncoding, derived_id,
    },
};

const TEXT: FieldType = FieldType::Str(StrEncoding::Utf16Nul);

/// The mean of values in an interval.
const MEAN: &[FieldSchema] = &[
    FieldSchema::new("Name", TEXT),
    FieldSchema::new("DisplayName", TEXT),
    FieldSchema::new("Mean", FieldType::F64),
    FieldSchema::new("StandardDeviation", FieldType::F64),
    FieldSchema::new("Count", FieldType::I32),
    FieldSchema::new("Min", FieldType::F64),
    FieldSchema::new("Max", FieldType::F64),
    FieldSchema::new("IntervalSec", FieldType::F32),
    FieldSchema::new("Series", TEXT),
    FieldSchema::new("CounterType", TEXT),
    FieldSchema::new("Metadata", TEXT),
    FieldSchema::new("DisplayUnits", TEXT),
];

/// How much a sum has grown in an interval.
const SUM: &[FieldSchema] = &[
    FieldSchema::new("Name", TEXT),
    FieldSchema::new("DisplayName", TEXT),
    FieldSchema::new("DisplayRateTimeScale", TEXT),
    FieldSchema::new("Increment", FieldType::F64),
    FieldSchema::new("IntervalSec", FieldType::F32),
    FieldSchema::new("Metadata", TEXT),
    FieldSchema::new("Series", TEXT),
    FieldSchema::new("CounterType", TEXT),
    FieldSchema::new("DisplayUnits", TEXT),
];

const MEAN_FIELDS: &[FieldSchema] = &[FieldSchema::new(
    "",
    FieldType::Object(&[FieldSchema::new("Payload", FieldType::Object(MEAN))]),
)];
const SUM_FIELDS: &[FieldSchema] = &[FieldSchema::new(
    "",
    FieldType::Object(&[FieldSchema::new("Payload", FieldType::Object(SUM))]),
)];

/// The types of a meter's events.
#[derive(Clone, Copy)]
pub(crate) struct MeterEventTypes {
    mean: &'static EventType,
    sum: &'static EventType,
}

impl fmt::Debug for MeterEventTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mean.schema().provider.name.fmt(f)
    }
}

impl MeterEventTypes {
    /// The types of a meter. They are kept for good: make them once for each meter. `None` if they
    /// are refused.
    pub(crate) fn new(meter: &str) -> Option<Self> {
        let name: &'static str = Box::leak(Box::from(meter));
        let mean = register(name, derived_id("EventCounters"), MEAN_FIELDS)?;
        let sum = register(name, derived_id("EventCounters+Sum"), SUM_FIELDS)?;
        Some(Self { mean, sum })
    }
}

/// Registers a type that wants this id.
fn register(
    provider: &'static str,
    id: u16,
    fields: &'static [FieldSchema],
) -> Option<&'static EventType> {
    let schema: &'static EventSchema = Box::leak(Box::new(EventSchema {
        provider: ProviderSchema { name: provider, guid: None, group: None },
        name: "EventCounters",
        place: Place::UNKNOWN,
        id,
        id_is_explicit: false,
        version: 0,
        level: Level::LogAlways,
        keywords: 0,
        opcode: Some(0),
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields,
    }));
    let ty: &'static EventType = Box::leak(Box::new(EventType::new(schema)));
    emit::register(ty).ok().map(|()| ty)
}

/// A value of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventCounter<'a> {
    pub(crate) types: MeterEventTypes,
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) unit: &'a str,
    /// As `key:value,key:value`.
    pub(crate) tags: &'a str,
    /// How long the interval was, in seconds.
    pub(crate) seconds: f32,
    /// How long it should be: `Interval=` and milliseconds. Clients tell theirs by it.
    pub(crate) series: &'a str,
    pub(crate) value: Measured,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Measured {
    Mean { mean: f64, deviation: f64, count: i32, min: f64, max: f64 },
    Sum { increment: f64 },
}

impl Measured {
    /// One value.
    pub(crate) fn of(value: f64) -> Self {
        Self::Mean { mean: value, deviation: 0.0, count: 1, min: value, max: value }
    }
}

impl TraceEvent for EventCounter<'_> {
    fn event_types() -> &'static [&'static EventType] {
        // They are made at run time.
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        match self.value {
            Measured::Mean { .. } => self.types.mean,
            Measured::Sum { .. } => self.types.sum,
        }
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        let text = |encoder: &mut E, text: &str| encoder.str(text, StrEncoding::Utf16Nul);
        text(encoder, self.name);
        text(encoder, if self.description.is_empty() { self.name } else { self.description });
        match self.value {
            Measured::Mean { mean, deviation, count, min, max } => {
                encoder.f64(mean);
                encoder.f64(deviation);
                encoder.i32(count);
                encoder.f64(min);
                encoder.f64(max);
                encoder.f32(self.seconds);
                text(encoder, self.series);
                text(encoder, "Mean");
                text(encoder, self.tags);
            }
            Measured::Sum { increment } => {
                text(encoder, "00:00:01");
                encoder.f64(increment);
                encoder.f32(self.seconds);
                text(encoder, self.tags);
                text(encoder, self.series);
                text(encoder, "Sum");
            }
        }
        text(encoder, self.unit);
    }
}
