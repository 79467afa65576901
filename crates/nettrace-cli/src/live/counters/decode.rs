//! The events in which a process reports its counters: those of meters, and EventCounters.

use std::{collections::HashMap, time::Duration};

use nettrace_reader::{Event, Value};
use serde::Serialize;
use serde_json::Number;

/// The provider of meters.
pub(super) const METRICS: &str = "System.Diagnostics.Metrics";
/// The session that all clients of a process share, as the tools of .NET do.
pub(super) const SESSION: &str = "SHARED";

/// The kind of a counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CounterKind {
    Counter,
    UpDownCounter,
    Gauge,
    Histogram,
    /// An EventCounter that reports the mean of what was written.
    Mean,
    /// An EventCounter that reports a rate.
    Sum,
}

impl CounterKind {
    /// Whether meters have it, rather than EventCounters.
    pub(super) fn is_of_meter(self) -> bool {
        !matches!(self, Self::Mean | Self::Sum)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::UpDownCounter => "updowncounter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }
}

/// The series that a value belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(super) struct Series {
    /// The meter, or the provider of an EventCounter.
    pub(super) provider: String,
    pub(super) name: String,
    /// As `key=value,key=value`.
    pub(super) tags: String,
    pub(super) unit: String,
}

/// One value of a series. What a kind does not have is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) series: Series,
    pub(super) kind: CounterKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Number>,
    /// The change in a second. As decoded from a meter's event: in an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sum: Option<Number>,
    /// Quantiles between 0 and 1, and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) quantiles: Vec<(Number, Number)>,
}

impl Sample {
    /// Makes the rate that of a second, if it is the change in an interval.
    pub(super) fn divide_rate(&mut self, interval: Duration) {
        if interval == Duration::from_secs(1) {
            return; // A whole number stays one.
        }
        let change = self.rate.as_ref().and_then(Number::as_f64);
        self.rate = change.and_then(|change| Number::from_f64(change / interval.as_secs_f64()));
    }
}

/// The contents of a counter event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CounterReport {
    Value(Sample),
    /// A series has no values any more.
    Ended(Series),
    /// An instrument of a meter is reported from now on.
    Begins {
        provider: String,
    },
    /// An instrument is not reported any more.
    Ends {
        provider: String,
        name: String,
    },
    /// The process has an instrument of a meter. It need not be reported.
    Published {
        meter: String,
        instrument: String,
    },
    /// Something that the user should know.
    Note(String),
}

/// The fields of an event by name.
type Fields<'a> = HashMap<&'a str, Value<'a>>;

/// Reads an event. `None`: it is none of a counter, or of another client's session.
pub(super) fn report(event: &Event<'_>) -> Option<CounterReport> {
    let metadata = event.metadata();
    let is_meter = &*metadata.provider == METRICS;
    if !is_meter && &*metadata.name != "EventCounters" {
        return None;
    }
    let fields: Fields<'_> = event.fields().map_while(Result::ok).collect();
    if is_meter {
        of_meter(&metadata.name, &fields)
    } else {
        of_counter(&metadata.provider, &fields)
    }
}

fn text<'a>(fields: &'a Fields<'_>, name: &str) -> &'a str {
    match fields.get(name) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// A number, or a text with one in it. Numbers that JSON does not have are left out.
fn number(value: Option<&Value<'_>>) -> Option<Number> {
    match value? {
        Value::Text(text) => from_text(text),
        Value::I32(value) => Some((*value).into()),
        Value::U32(value) => Some((*value).into()),
        Value::I64(value) => Some((*value).into()),
        Value::U64(value) => Some((*value).into()),
        Value::F32(value) => Number::from_f64((*value).into()),
        Value::F64(value) => Number::from_f64(*value),
        _ => None,
    }
}

fn from_text(text: &str) -> Option<Number> {
    let integer = text.parse::<i64>().ok().map(Number::from);
    integer.or_else(|| Number::from_f64(text.parse().ok()?))
}

fn of_meter(event: &str, fields: &Fields<'_>) -> Option<CounterReport> {
    // Sessions of other clients are in the trace, too.
    if fields.contains_key("sessionId") && text(fields, "sessionId") != SESSION {
        return None;
    }
    let owned = |name| text(fields, name).to_owned();
    let provider = owned("meterName");
    let name = owned("instrumentName");
    let kind = match event {
        "CounterRateValuePublished" => CounterKind::Counter,
        "UpDownCounterRateValuePublished" => CounterKind::UpDownCounter,
        "GaugeValuePublished" => CounterKind::Gauge,
        "HistogramValuePublished" => CounterKind::Histogram,
        "BeginInstrumentReporting" => return Some(CounterReport::Begins { provider }),
        "EndInstrumentReporting" => return Some(CounterReport::Ends { provider, name }),
        "InstrumentPublished" => {
            return Some(CounterReport::Published { meter: provider, instrument: name });
        }
        _ => return note(event, fields).map(CounterReport::Note),
    };
    let series = Series { provider, name, tags: owned("tags"), unit: owned("unit") };
    let mut sample = Sample {
        series,
        kind,
        value: number(fields.get("value")).or_else(|| number(fields.get("lastValue"))),
        rate: number(fields.get("rate")),
        count: number(fields.get("count")),
        sum: number(fields.get("sum")),
        quantiles: quantiles(text(fields, "quantiles")),
    };
    let has_values = match kind {
        CounterKind::Histogram => !sample.quantiles.is_empty(),
        _ => sample.value.is_some() || sample.rate.is_some(),
    };
    if !has_values {
        return Some(CounterReport::Ended(sample.series));
    }
    // Older runtimes send the rate of a counter alone, and the value of others in its place.
    if sample.value.is_none() && matches!(kind, CounterKind::Gauge | CounterKind::UpDownCounter) {
        sample.value = sample.rate.take();
    }
    Some(CounterReport::Value(sample))
}

/// Reads `0.5=12;0.95=30`.
fn quantiles(text: &str) -> Vec<(Number, Number)> {
    let pair = |pair: &str| {
        let (quantile, value) = pair.split_once('=')?;
        Some((from_text(quantile)?, from_text(value)?))
    };
    text.split(';').filter_map(pair).collect()
}

/// A message of the runtime about a session of meters.
fn note(event: &str, fields: &Fields<'_>) -> Option<String> {
    Some(match event {
        "TimeSeriesLimitReached" => {
            "the limit on time series is reached: those after it are not reported".to_owned()
        }
        "HistogramLimitReached" => {
            "the limit on histograms is reached: those after it are not reported".to_owned()
        }
        "ObservableInstrumentCallbackError" => {
            format!("an instrument's callback has failed: {}", text(fields, "errorMessage"))
        }
        "MultipleSessionsConfiguredIncorrectlyError" => format!(
            "another client watches this process with other settings: interval {} s, at most {} \
             time series and {} histograms; with the same settings both can watch",
            text(fields, "actualRefreshInterval"),
            text(fields, "actualMaxTimeSeries"),
            text(fields, "actualMaxHistograms"),
        ),
        "MultipleSessionsNotSupportedError" => {
            "another client watches this process, and its runtime serves only one".to_owned()
        }
        "Error" => format!("the process says: {}", text(fields, "errorMessage")),
        _ => return None,
    })
}

fn of_counter(provider: &str, fields: &Fields<'_>) -> Option<CounterReport> {
    // The one field has no name, and in it is one called Payload.
    let inner = fields.values().next()?;
    let Value::Object(outer) = inner else { return None };
    let inner = match outer.iter().find(|(name, _)| *name == "Payload") {
        Some((_, Value::Object(inner))) => inner,
        _ => outer,
    };
    let fields: Fields<'_> = inner.iter().map(|(name, value)| (*name, value.clone())).collect();
    let series = Series {
        provider: provider.to_owned(),
        name: text(&fields, "Name").to_owned(),
        tags: text(&fields, "Metadata").replace(':', "="),
        unit: text(&fields, "DisplayUnits").to_owned(),
    };
    let increment = number(fields.get("Increment"));
    let seconds = number(fields.get("IntervalSec")).and_then(|seconds| seconds.as_f64());
    let rate = increment.as_ref().and_then(Number::as_f64).zip(seconds);
    let rate = rate.and_then(|(increment, seconds)| Number::from_f64(increment / seconds));
    let kind = if increment.is_some() { CounterKind::Sum } else { CounterKind::Mean };
    Some(CounterReport::Value(Sample {
        series,
        kind,
        value: increment.or_else(|| number(fields.get("Mean"))),
        rate,
        count: number(fields.get("Count")),
        sum: None,
        quantiles: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(pairs: &[(&'a str, &'a str)]) -> Fields<'a> {
        pairs.iter().map(|(name, value)| (*name, Value::Text((*value).into()))).collect()
    }

    #[test]
    fn meters_report_values_and_ends() {
        let common = [
            ("sessionId", "SHARED"),
            ("meterName", "Shop"),
            ("instrumentName", "orders"),
            ("unit", "{order}"),
            ("tags", "country=de"),
        ];
        let with = |more: &[(&'static str, &'static str)]| fields(&[&common[..], more].concat());
        let series = Series {
            provider: "Shop".to_owned(),
            name: "orders".to_owned(),
            tags: "country=de".to_owned(),
            unit: "{order}".to_owned(),
        };
        let value = |event: &str, more: &[(&'static str, &'static str)]| {
            let Some(CounterReport::Value(sample)) = of_meter(event, &with(more)) else {
                panic!("{event}")
            };
            assert_eq!(sample.series, series);
            (sample.kind, sample.value, sample.rate, sample.quantiles.len())
        };
        let int = |number: i64| Some(Number::from(number));
        let half = Number::from_f64(0.5);
        let rate = [("rate", "0.5"), ("value", "192")];
        assert_eq!(
            value("CounterRateValuePublished", &rate),
            (CounterKind::Counter, int(192), half.clone(), 0)
        );
        // As before .NET 8.
        let old = value("CounterRateValuePublished", &[("rate", "0.5")]);
        assert_eq!(old, (CounterKind::Counter, None, half.clone(), 0));
        let rate = [("rate", "-1"), ("value", "-7")];
        let updown = value("UpDownCounterRateValuePublished", &rate);
        assert_eq!(updown, (CounterKind::UpDownCounter, int(-7), int(-1), 0));
        let gauge = value("GaugeValuePublished", &[("lastValue", "0.5")]);
        assert_eq!(gauge, (CounterKind::Gauge, half, None, 0));
        let histogram = value("HistogramValuePublished", &[("quantiles", "0.5=51;0.95=95;x")]);
        assert_eq!(histogram, (CounterKind::Histogram, None, None, 2));
        // Empty values end a series.
        for (event, more) in [
            ("CounterRateValuePublished", &[("rate", ""), ("value", "")][..]),
            ("GaugeValuePublished", &[("lastValue", "")]),
            ("HistogramValuePublished", &[("quantiles", "")]),
        ] {
            assert_eq!(
                of_meter(event, &with(more)),
                Some(CounterReport::Ended(series.clone())),
                "{event}"
            );
        }
        let ends = CounterReport::Ends { provider: "Shop".to_owned(), name: "orders".to_owned() };
        assert_eq!(of_meter("EndInstrumentReporting", &with(&[])), Some(ends));
        let begins = CounterReport::Begins { provider: "Shop".to_owned() };
        assert_eq!(of_meter("BeginInstrumentReporting", &with(&[])), Some(begins));
        let published =
            CounterReport::Published { meter: "Shop".to_owned(), instrument: "orders".to_owned() };
        assert_eq!(of_meter("InstrumentPublished", &with(&[])), Some(published));
        assert_eq!(of_meter("Collection", &with(&[])), None);
        let error = fields(&[("sessionId", "SHARED"), ("errorMessage", "no such meter")]);
        let said = Some(CounterReport::Note("the process says: no such meter".to_owned()));
        assert_eq!(of_meter("Error", &error), said);
        // Another client's.
        let other = fields(&[("sessionId", "s1"), ("lastValue", "1")]);
        assert_eq!(of_meter("GaugeValuePublished", &other), None);
    }

    #[test]
    fn event_counters_report_means_and_sums() {
        let report = |pairs: Vec<(&'static str, Value<'static>)>| {
            let payload = Value::Object(vec![("Payload", Value::Object(pairs))]);
            let Some(CounterReport::Value(sample)) =
                of_counter("Demo", &Fields::from([("", payload)]))
            else {
                panic!("a value")
            };
            (sample.series.name, sample.kind, sample.value, sample.rate)
        };
        let name = || ("Name", Value::Text("requests".into()));
        let float = Number::from_f64;
        let sum = vec![name(), ("Increment", Value::F64(196.0)), ("IntervalSec", Value::F32(2.0))];
        assert_eq!(
            report(sum),
            ("requests".to_owned(), CounterKind::Sum, float(196.0), float(98.0))
        );
        let mean = vec![name(), ("Mean", Value::F64(24.5)), ("Count", Value::I32(2))];
        assert_eq!(report(mean), ("requests".to_owned(), CounterKind::Mean, float(24.5), None));
        assert_eq!(of_counter("Demo", &Fields::from([("", Value::I32(1))])), None);
    }
}
