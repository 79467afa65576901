//! The events of the provider `System.Diagnostics.Metrics`, as .NET 10 has them: ids, versions,
//! keywords, and the names and order of fields.

use std::time::SystemTime;

use crate::{TraceEvent, metrics::state::Instrument};

/// The provider that clients ask for.
pub(crate) const PROVIDER: &str = "System.Diagnostics.Metrics";

/// Messages for people.
const MESSAGES: u64 = 1;
/// Values of instruments.
const VALUES: u64 = 2;
/// Instruments that come and go.
const PUBLISHING: u64 = 4;

macro_rules! event {
    (
        $(#[doc = $doc:literal])*
        $name:ident($($key:ident = $value:expr),*) { $($fields:tt)* }
    ) => {
        event!(@ [$(#[doc = $doc])* #[trace_event(
            provider = "System.Diagnostics.Metrics", level = Informational, crate = crate,
            $($key = $value),*
        )]] $name {} $($fields)*);
    };
    (@ $attributes:tt $name:ident { $($done:tt)* } $field:ident = $wire:literal: text,
        $($rest:tt)*) => {
        event!(@ $attributes $name { $($done)*
            #[trace_event(rename = $wire, encoding = utf16_nul)] pub(crate) $field: &'a str,
        } $($rest)*);
    };
    (@ $attributes:tt $name:ident { $($done:tt)* } $field:ident = $wire:literal: time,
        $($rest:tt)*) => {
        event!(@ $attributes $name { $($done)*
            #[trace_event(rename = $wire, encoding = date_time)] pub(crate) $field: SystemTime,
        } $($rest)*);
    };
    (@ $attributes:tt $name:ident { $($done:tt)* } $field:ident = $wire:literal: $ty:ty,
        $($rest:tt)*) => {
        event!(@ $attributes $name { $($done)*
            #[trace_event(rename = $wire)] pub(crate) $field: $ty,
        } $($rest)*);
    };
    (@ [$($attributes:tt)*] $name:ident { $($done:tt)* }) => {
        #[derive(Clone, Copy, Debug, TraceEvent)]
        $($attributes)*
        pub(crate) struct $name<'a> { $($done)* }
    };
}

event! {
    /// Something for people who look for the cause of a problem.
    Message(id = 1, keywords = MESSAGES) { message = "Message": text, }
}

event! {
    /// The values of an interval follow.
    CollectionStart(id = 2, keywords = VALUES, opcode = Start) {
        session = "sessionId": text,
        start = "intervalStartTime": time,
        end = "intervalEndTime": time,
    }
}

event! {
    /// These were the values of an interval.
    CollectionStop(id = 3, keywords = VALUES, opcode = Stop) {
        session = "sessionId": text,
        start = "intervalStartTime": time,
        end = "intervalEndTime": time,
    }
}

/// A value of an instrument: which one it is, and the fields in between.
macro_rules! value {
    (#[doc = $doc:literal] $name:ident($id:literal) { $($fields:tt)* }) => {
        event! {
            #[doc = $doc]
            $name(id = $id, version = 2, keywords = VALUES) {
                session = "sessionId": text,
                meter = "meterName": text,
                version = "meterVersion": text,
                name = "instrumentName": text,
                unit = "unit": text,
                tags = "tags": text,
                $($fields)*
                instrument = "instrumentId": i32,
            }
        }
    };
}

value! {
    /// How much a counter has grown in an interval, and its sum.
    CounterRateValuePublished(4) {
        rate = "rate": text,
        value = "value": text,
    }
}

value! {
    /// The last value of a gauge. Without text it has ended.
    GaugeValuePublished(5) {
        last = "lastValue": text,
    }
}

value! {
    /// The distribution of the values of an interval.
    HistogramValuePublished(6) {
        quantiles = "quantiles": text,
        count = "count": i32,
        sum = "sum": f64,
    }
}

macro_rules! of_instrument {
    ($(#[doc = $doc:literal] $name:ident($id:literal, $keywords:ident);)*) => {
        $(event! {
            #[doc = $doc]
            $name(id = $id, version = 3, keywords = $keywords) {
                session = "sessionId": text,
                meter = "meterName": text,
                version = "meterVersion": text,
                name = "instrumentName": text,
                kind = "instrumentType": text,
                unit = "unit": text,
                description = "description": text,
                tags = "instrumentTags": text,
                meter_tags = "meterTags": text,
                scope = "meterScopeHash": text,
                instrument = "instrumentId": i32,
                schema = "meterTelemetrySchemaUrl": text,
            }
        }

        impl<'a> $name<'a> {
            pub(crate) fn new(session: &'a str, of: &'a Instrument) -> Self {
                Self {
                    session,
                    meter: &of.meter.name,
                    version: &of.meter.version,
                    name: &of.name,
                    kind: of.kind.name(),
                    unit: &of.unit,
                    description: &of.description,
                    tags: &of.tags,
                    meter_tags: &of.meter.tags,
                    scope: "",
                    instrument: of.id,
                    schema: "",
                }
            }
        })*
    };
}

of_instrument! {
    /// From now on the values of an instrument come.
    BeginInstrumentReporting(7, VALUES);
    /// No more values of an instrument come.
    EndInstrumentReporting(8, VALUES);
    /// There is an instrument, whether its values come or not.
    InstrumentPublished(11, PUBLISHING);
}

event! {
    /// What the client asked for cannot be.
    Error(id = 9, keywords = MESSAGES | VALUES | PUBLISHING) {
        session = "sessionId": text,
        message = "errorMessage": text,
    }
}

event! {
    /// All instruments that there were at first have been named.
    InitialInstrumentEnumerationComplete(id = 10, keywords = VALUES | PUBLISHING) {
        session = "sessionId": text,
    }
}

event! {
    /// There are more series than the client wants. The values of some do not come.
    TimeSeriesLimitReached(id = 12, keywords = VALUES) { session = "sessionId": text, }
}

event! {
    /// There are more histograms than the client wants. The values of some do not come.
    HistogramLimitReached(id = 13, keywords = VALUES) { session = "sessionId": text, }
}

event! {
    /// A callback has panicked.
    ObservableInstrumentCallbackError(id = 14, keywords = VALUES) {
        session = "sessionId": text,
        message = "errorMessage": text,
    }
}

value! {
    /// How much an up-down counter has changed in an interval, and its sum.
    UpDownCounterRateValuePublished(16) {
        rate = "rate": text,
        value = "value": text,
    }
}

/// The version of what sends these events.
#[derive(Clone, Copy, Debug, TraceEvent)]
#[trace_event(provider = "System.Diagnostics.Metrics", id = 18, level = Informational)]
#[trace_event(keywords = MESSAGES, crate = crate)]
pub(crate) struct Version {
    #[trace_event(rename = "Major")]
    pub(crate) major: i32,
    #[trace_event(rename = "Minor")]
    pub(crate) minor: i32,
    #[trace_event(rename = "Patch")]
    pub(crate) patch: i32,
}
