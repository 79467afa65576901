//! Reports of a process about its instruments: by the events of .NET's meters, which the writer's
//! feature `metrics` writes as well, and by `EventCounters`.

use std::borrow::Cow;

use nettrace_reader::{Event, Metadata, Value, WallTime};

use crate::model::unix_nanos;

/// The provider of meters.
const METERS: &str = "System.Diagnostics.Metrics";

/// An event type whose events are about instruments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstrumentEvent {
    /// An object with the name and the values, which any provider can publish.
    EventCounters,
    /// A value of a meter's instrument.
    Meter(Instrument),
    /// The values of an interval follow.
    Interval,
}

/// What an instrument measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instrument {
    /// How often something happens.
    Counter,
    /// How much of something there is, as the sum of changes.
    UpDownCounter,
    /// How much of something there is.
    Gauge,
    /// How values are distributed.
    Histogram,
}

impl Instrument {
    /// The name that people read.
    #[cfg(feature = "report")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::UpDownCounter => "up-down counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The quantiles that meters report of a histogram.
const QUANTILES: [&str; 3] = ["0.5", "0.95", "0.99"];

/// What an event reports of an instrument.
#[derive(Clone, Debug)]
pub(crate) struct Reported<'a> {
    /// For whom it was collected; empty for EventCounters. A trace can have the values of several
    /// clients.
    pub(crate) session: Cow<'a, str>,
    /// The meter, or the provider of an EventCounter.
    pub(crate) source: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    /// As `key=value,key=value`.
    pub(crate) tags: Cow<'a, str>,
    /// Empty if the trace states none.
    pub(crate) unit: Cow<'a, str>,
    pub(crate) instrument: Instrument,
    pub(crate) measured: Measured,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measured {
    /// How much a counter has grown in an interval of so many seconds, if the event states it, and
    /// its sum.
    Growth { increase: f64, seconds: Option<f64>, total: Option<f64> },
    /// A value, and the lowest and highest one of the interval.
    Value { value: f64, lowest: f64, highest: f64 },
    /// The distribution of the values of an interval: 50, 95 and 99 % of them were no higher. How
    /// many there were, and their sum, if the event states both.
    Distribution { percentiles: [f64; 3], values: Option<(f64, f64)> },
}

impl InstrumentEvent {
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        use Instrument::{Counter, Gauge, Histogram, UpDownCounter};
        let is_meter = metadata.provider == METERS;
        match &*metadata.name {
            "EventCounters" => Some(Self::EventCounters),
            "CounterRateValuePublished" if is_meter => Some(Self::Meter(Counter)),
            "UpDownCounterRateValuePublished" if is_meter => Some(Self::Meter(UpDownCounter)),
            "GaugeValuePublished" if is_meter => Some(Self::Meter(Gauge)),
            "HistogramValuePublished" if is_meter => Some(Self::Meter(Histogram)),
            "CollectionStart" if is_meter => Some(Self::Interval),
            _ => None,
        }
    }
}

/// How long the interval is whose values follow an event of the type
/// [`InstrumentEvent::Interval`], in seconds.
#[cfg(feature = "report")]
pub(crate) fn interval(event: &Event<'_>) -> Option<f64> {
    let fields: Vec<_> = event.fields().filter_map(Result::ok).collect();
    let time = |name| match field(&fields, name)? {
        Value::DateTime(time) => unix_nanos(time),
        Value::FileTime(ticks) => unix_nanos(&WallTime::from_file_time(*ticks)?),
        _ => None,
    };
    let length = time("intervalEndTime")?.checked_sub(time("intervalStartTime")?)?;
    Some(length as f64 / 1e9).filter(|length| *length > 0.0)
}

/// What an event reports. `None` if it has no value that is a number, as the last one of an
/// instrument that has gone.
pub(crate) fn reported<'a>(kind: InstrumentEvent, event: &Event<'a>) -> Option<Reported<'a>> {
    let fields: Vec<_> = event.fields().filter_map(Result::ok).collect();
    match kind {
        InstrumentEvent::Interval => None,
        InstrumentEvent::EventCounters => of_counter(&event.metadata().provider, fields),
        InstrumentEvent::Meter(instrument) => of_meter(instrument, fields),
    }
}

type Fields<'a> = Vec<(&'a str, Value<'a>)>;

fn of_counter<'a>(provider: &str, mut fields: Fields<'a>) -> Option<Reported<'a>> {
    // An object without a name, and in some versions of .NET another one in it.
    for _ in 0..2 {
        match fields.first_mut() {
            Some((_, Value::Object(inner))) => fields = std::mem::take(inner),
            _ => break,
        }
    }
    let number = |name| number(&fields, name);
    let (instrument, measured) = match number("Increment") {
        Some(increase) => {
            let seconds = number("IntervalSec").filter(|seconds| *seconds > 0.0);
            (Instrument::Counter, Measured::Growth { increase, seconds, total: None })
        }
        None => {
            let value = number("Mean")?;
            let lowest = number("Min").unwrap_or(value).min(value);
            let highest = number("Max").unwrap_or(value).max(value);
            (Instrument::Gauge, Measured::Value { value, lowest, highest })
        }
    };
    let text = |name| text(&fields, name);
    Some(Reported {
        session: Cow::Borrowed(""),
        source: Cow::Owned(provider.to_owned()),
        name: text("Name")?,
        tags: Cow::Owned(text("Metadata").unwrap_or_default().replace(':', "=")),
        unit: text("DisplayUnits").unwrap_or_default(),
        instrument,
        measured,
    })
}

fn of_meter(instrument: Instrument, fields: Fields<'_>) -> Option<Reported<'_>> {
    let number = |name| number(&fields, name);
    let text = |name| text(&fields, name).unwrap_or_default();
    let measured = match instrument {
        Instrument::Counter => {
            Measured::Growth { increase: number("rate")?, seconds: None, total: number("value") }
        }
        Instrument::UpDownCounter => {
            // Older runtimes send the value in the place of the change.
            let value = number("value").or_else(|| number("rate"))?;
            Measured::Value { value, lowest: value, highest: value }
        }
        Instrument::Gauge => {
            let value = number("lastValue")?;
            Measured::Value { value, lowest: value, highest: value }
        }
        Instrument::Histogram => Measured::Distribution {
            percentiles: percentiles(&text("quantiles"))?,
            values: number("count").zip(number("sum")).filter(|(count, _)| *count > 0.0),
        },
    };
    Some(Reported {
        session: text("sessionId"),
        source: text("meterName"),
        name: text("instrumentName"),
        tags: text("tags"),
        unit: text("unit"),
        instrument,
        measured,
    })
}

/// Reads `0.5=12;0.95=30;0.99=31`.
fn percentiles(text: &str) -> Option<[f64; 3]> {
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    let [p50, p95, p99] = QUANTILES.map(|quantile| {
        let (_, value) = pairs.clone().find(|(known, _)| *known == quantile)?;
        value.parse().ok()
    });
    Some([p50?, p95?, p99?])
}

fn field<'v, 'a>(fields: &'v Fields<'a>, name: &str) -> Option<&'v Value<'a>> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

fn text<'a>(fields: &Fields<'a>, name: &str) -> Option<Cow<'a, str>> {
    match field(fields, name)? {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// A number, or a text with one in it.
fn number(fields: &Fields<'_>, name: &str) -> Option<f64> {
    match field(fields, name)? {
        Value::F64(value) => Some(*value),
        Value::F32(value) => Some((*value).into()),
        Value::I32(value) => Some((*value).into()),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}
