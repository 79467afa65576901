//! A report for one client, or one session: which instruments there are, and their values after
//! each interval.
//!
//! Each client has a report of its own, with its own interval, names and limits. Its events go to
//! its session alone. In .NET all clients share one collection, so a second client has to ask for
//! the same as the first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::metrics::{
    event_counters::{EventCounter, Measured, MeterEventTypes},
    histogram::{Counts, Distribution},
    number::Number,
    only_in::OnlyIn,
    state::{
        Instrument, MetricsState,
        arguments::{Arguments, matches},
        events,
        kinds::InstrumentValue,
        lock,
        read::{Reading, observe, read, stored},
        state,
    },
};

/// The quantiles of histograms that clients get.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// The instruments that a report selects.
#[derive(Debug)]
pub(crate) enum ReportSelection {
    /// Meters, by the events of `System.Diagnostics.Metrics`.
    Meters(Arguments),
    /// Meters as EventCounters: those with one of these names, except the other ones.
    EventCounters { meters: Vec<String>, except: Option<Arguments> },
}

impl ReportSelection {
    pub(crate) fn selects(&self, instrument: &Instrument) -> bool {
        let is_wanted = |arguments: &Arguments| {
            arguments.wanted.iter().any(|wanted| wanted.selects(instrument))
        };
        match self {
            Self::Meters(arguments) => is_wanted(arguments),
            Self::EventCounters { meters, except } => {
                meters.iter().any(|name| matches(name, &instrument.meter.name))
                    && !except.as_ref().is_some_and(is_wanted)
            }
        }
    }
}

/// One report.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) id: u64,
    to: OnlyIn,
    what: ReportSelection,
    interval: Duration,
    /// When the next interval ends. `None`: the report has not begun.
    next: Option<Instant>,
    /// Values counted before the report was asked for, which belong to no interval. Callbacks have
    /// yet to be asked.
    before: Vec<Reading>,
    /// When the present interval began.
    since: (Instant, SystemTime),
    /// The changes of instruments that the report knows of.
    changes: u64,
    /// All instruments that the report knows of, and whether it has their values.
    known: BTreeMap<i32, (Arc<Instrument>, bool)>,
    /// The values of the series at the last interval.
    last: HashMap<(i32, Arc<str>), LastValue>,
    histograms: usize,
    has_said_too_many_series: bool,
    has_said_too_many_histograms: bool,
}

#[derive(Clone, Debug)]
enum LastValue {
    /// It is among those that the report has room for, and had no value so far.
    New,
    Number(Number),
    Histogram {
        counts: Counts,
        sum: f64,
    },
}

impl Report {
    /// A report whose first interval begins now. The caller holds the lock of the state.
    pub(crate) fn new(
        state: &MetricsState,
        id: u64,
        to: OnlyIn,
        what: ReportSelection,
        interval: Duration,
    ) -> Self {
        Self {
            id,
            to,
            before: stored(state, |instrument| what.selects(instrument)),
            what,
            interval,
            next: None,
            since: (Instant::now(), SystemTime::now()),
            changes: 0,
            known: BTreeMap::new(),
            last: HashMap::new(),
            histograms: 0,
            has_said_too_many_series: false,
            has_said_too_many_histograms: false,
        }
    }

    /// When there is something to do, if no instrument comes or goes before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.next
    }

    pub(crate) fn has_to_do(&self, now: Instant, changes: u64) -> bool {
        self.changes != changes || self.next.is_none_or(|next| next <= now)
    }

    /// Does what is to be done. `false`: the session is over.
    pub(crate) fn work(&mut self, now: Instant) -> bool {
        let Some(next) = self.next else {
            self.begin(now);
            return self.to.is_live();
        };
        self.look();
        if next <= now {
            self.collect(now);
            // A late interval does not move the ones after it, unless it is later than they are.
            let next = next + self.interval;
            self.next = Some(if next <= now { now + self.interval } else { next });
        }
        self.to.is_live()
    }

    fn begin(&mut self, now: Instant) {
        self.next = Some(now + self.interval);
        if let ReportSelection::Meters(arguments) = &self.what {
            let version = |part: &str| part.parse().unwrap_or(0);
            self.to.emit(&events::Version {
                major: version(env!("CARGO_PKG_VERSION_MAJOR")),
                minor: version(env!("CARGO_PKG_VERSION_MINOR")),
                patch: version(env!("CARGO_PKG_VERSION_PATCH")),
            });
            for message in &arguments.messages {
                self.to.emit(&events::Message { message });
            }
            for message in &arguments.errors {
                self.to.emit(&events::Error { session: &arguments.session, message });
            }
        }
        self.look();
        for mut reading in std::mem::take(&mut self.before) {
            if !self.known.contains_key(&reading.instrument.id) {
                continue; // it has gone
            }
            observe(&mut reading);
            for (tags, value) in &reading.values {
                if let Some(last) = self.admit(&reading.instrument, tags, value) {
                    *last = LastValue::of(value);
                }
            }
        }
        if let ReportSelection::Meters(Arguments { session, .. }) = &self.what {
            self.to.emit(&events::InitialInstrumentEnumerationComplete { session });
        }
    }

    /// Names the instruments that have come and gone.
    fn look(&mut self) {
        let (mut new, mut live) = (Vec::new(), Vec::new());
        {
            let mut locked = lock();
            let state = state(&mut locked);
            if self.changes == state.changes {
                return;
            }
            self.changes = state.changes;
            for (id, entry) in &state.instruments {
                live.push(*id);
                if !self.known.contains_key(id) {
                    new.push(Arc::clone(&entry.instrument));
                }
            }
        }
        let is_gone = |id: &&i32| live.binary_search(id).is_err();
        let gone: Vec<_> = self.known.keys().filter(is_gone).copied().collect();
        for id in gone {
            let Some((instrument, is_reported)) = self.known.remove(&id) else { continue };
            if !is_reported {
                continue;
            }
            self.forget(id);
            if let ReportSelection::Meters(Arguments { session, .. }) = &self.what {
                self.to.emit(&events::EndInstrumentReporting::new(session, &instrument));
            }
        }
        for instrument in new {
            let is_reported = self.what.selects(&instrument);
            if let ReportSelection::Meters(Arguments { session, .. }) = &self.what {
                self.to.emit(&events::InstrumentPublished::new(session, &instrument));
                if is_reported {
                    self.to.emit(&events::BeginInstrumentReporting::new(session, &instrument));
                }
            }
            self.known.insert(instrument.id, (instrument, is_reported));
        }
    }

    /// Makes room of the series of an instrument that has gone.
    fn forget(&mut self, instrument: i32) {
        let histograms = &mut self.histograms;
        self.last.retain(|(id, _), last| {
            let is_other = *id != instrument;
            *histograms -= usize::from(!is_other && matches!(last, LastValue::Histogram { .. }));
            is_other
        });
    }

    /// Reports the values of the interval that ends now.
    pub(crate) fn collect(&mut self, now: Instant) {
        let (began, start) = self.since;
        let end = SystemTime::now();
        self.since = (now, end);
        let seconds = now.saturating_duration_since(began).as_secs_f32();
        let readings = read(|instrument| self.what.selects(instrument));
        if let ReportSelection::Meters(Arguments { session, .. }) = &self.what {
            self.to.emit(&events::CollectionStart { session, start, end });
        }
        for reading in &readings {
            self.publish(reading, seconds);
        }
        if let ReportSelection::Meters(Arguments { session, .. }) = &self.what {
            self.to.emit(&events::CollectionStop { session, start, end });
        }
    }

    fn publish(&mut self, reading: &Reading, seconds: f32) {
        let Reading { instrument, values, error } = reading;
        if let (Some(message), ReportSelection::Meters(Arguments { session, .. })) =
            (error, &self.what)
        {
            self.to.emit(&events::ObservableInstrumentCallbackError { session, message });
        }
        for (tags, value) in values {
            let Some(last) = self.admit(instrument, tags, value) else { continue };
            let before = std::mem::replace(last, LastValue::of(value));
            match &self.what {
                ReportSelection::Meters(Arguments { session, .. }) => {
                    publish(&self.to, session, instrument, tags, value, &before);
                }
                ReportSelection::EventCounters { .. } => {
                    self.count(instrument, tags, value, &before, seconds)
                }
            }
        }
        if instrument.callback.is_some() {
            self.end_what_is_missing(instrument, values);
        }
    }

    /// The series of a callback that has not reported them this time have ended, for now.
    fn end_what_is_missing(&mut self, of: &Instrument, values: &[(Arc<str>, InstrumentValue)]) {
        let is_missing = |(id, tags): &(i32, Arc<str>)| {
            *id == of.id && values.binary_search_by(|(other, _)| other.cmp(tags)).is_err()
        };
        let missing: Vec<_> = self.last.keys().filter(|key| is_missing(key)).cloned().collect();
        for key in missing {
            self.last.remove(&key);
            let ReportSelection::Meters(Arguments { session, .. }) = &self.what else { continue };
            let (meter, version) = (&*of.meter.name, &*of.meter.version);
            let (name, unit, tags, instrument) = (&*of.name, &*of.unit, &*key.1, of.id);
            use crate::metrics::state::kinds::InstrumentKind::{
                ObservableCounter, ObservableUpDownCounter,
            };
            match of.kind {
                ObservableCounter => self.to.emit(&events::CounterRateValuePublished {
                    session,
                    meter,
                    version,
                    name,
                    unit,
                    tags,
                    rate: "",
                    value: "",
                    instrument,
                }),
                ObservableUpDownCounter => self.to.emit(&events::UpDownCounterRateValuePublished {
                    session,
                    meter,
                    version,
                    name,
                    unit,
                    tags,
                    rate: "",
                    value: "",
                    instrument,
                }),
                _ => self.to.emit(&events::GaugeValuePublished {
                    session,
                    meter,
                    version,
                    name,
                    unit,
                    tags,
                    last: "",
                    instrument,
                }),
            };
        }
    }

    /// The last value of a series. `None`: the client wants no more series.
    fn admit(
        &mut self,
        of: &Instrument,
        tags: &Arc<str>,
        value: &InstrumentValue,
    ) -> Option<&mut LastValue> {
        let key = (of.id, Arc::clone(tags));
        if !self.last.contains_key(&key) {
            let is_histogram = matches!(value, InstrumentValue::Histogram { .. });
            if let ReportSelection::Meters(arguments) = &self.what {
                let Arguments { session, max_series, max_histograms, .. } = arguments;
                if self.last.len() >= *max_series {
                    if !std::mem::replace(&mut self.has_said_too_many_series, true) {
                        self.to.emit(&events::TimeSeriesLimitReached { session });
                    }
                    return None;
                }
                if is_histogram && self.histograms >= *max_histograms {
                    if !std::mem::replace(&mut self.has_said_too_many_histograms, true) {
                        self.to.emit(&events::HistogramLimitReached { session });
                    }
                    return None;
                }
            }
            self.histograms += usize::from(is_histogram);
            let new = match value {
                InstrumentValue::Histogram { .. } => {
                    LastValue::Histogram { counts: Counts::new(), sum: 0.0 }
                }
                _ => LastValue::New,
            };
            self.last.insert(key.clone(), new);
        }
        self.last.get_mut(&key)
    }

    /// Reports a value as an EventCounter.
    fn count(
        &self,
        of: &Instrument,
        tags: &str,
        value: &InstrumentValue,
        before: &LastValue,
        seconds: f32,
    ) {
        let Some(types) = types_of(&of.meter.name) else { return };
        let value = match value {
            InstrumentValue::Counter(now) => {
                Measured::Sum { increment: before.increase(*now).to_f64() }
            }
            InstrumentValue::UpDownCounter(now) | InstrumentValue::Gauge(now) => {
                Measured::of(now.to_f64())
            }
            InstrumentValue::Histogram { .. } => {
                let (distribution, sum) = before.distribution(value);
                let count = distribution.count;
                let mean = if count == 0 { 0.0 } else { sum / count as f64 };
                Measured::Mean {
                    mean,
                    deviation: distribution.deviation(mean),
                    count: i32::try_from(count).unwrap_or(i32::MAX),
                    min: distribution.min(),
                    max: distribution.max(),
                }
            }
        };
        let series = format!("Interval={}", self.interval.as_millis());
        self.to.emit(&EventCounter {
            types,
            name: &of.name,
            description: &of.description,
            unit: &of.unit,
            tags: &tags.replace('=', ":"),
            seconds,
            series: &series,
            value,
        });
    }
}

/// The types of a meter's EventCounters.
fn types_of(meter: &str) -> Option<MeterEventTypes> {
    if let Some(types) = state(&mut lock()).event_counters.get(meter) {
        return *types;
    }
    let types = MeterEventTypes::new(meter);
    *state(&mut lock()).event_counters.entry(meter.to_owned()).or_insert(types)
}

impl LastValue {
    fn of(value: &InstrumentValue) -> Self {
        match value {
            InstrumentValue::Counter(number)
            | InstrumentValue::UpDownCounter(number)
            | InstrumentValue::Gauge(number) => Self::Number(*number),
            InstrumentValue::Histogram { counts, sum } => {
                Self::Histogram { counts: counts.clone(), sum: *sum }
            }
        }
    }

    /// The growth of a sum. A new one began at 0.
    fn increase(&self, now: Number) -> Number {
        match self {
            Self::Number(before) => now.minus(*before),
            _ => now.minus(now.zero()),
        }
    }

    /// The values of a histogram since then, and their sum.
    fn distribution(&self, value: &InstrumentValue) -> (Distribution, f64) {
        match (self, value) {
            (
                Self::Histogram { counts, sum },
                InstrumentValue::Histogram { counts: now, sum: new },
            ) => (Distribution::between(counts, now), new - sum),
            _ => (Distribution::default(), 0.0),
        }
    }
}

/// Reports a value as .NET's meters do.
fn publish(
    to: &OnlyIn,
    session: &str,
    of: &Instrument,
    tags: &str,
    now: &InstrumentValue,
    before: &LastValue,
) {
    let (meter, version) = (&*of.meter.name, &*of.meter.version);
    let (name, unit, instrument) = (&*of.name, &*of.unit, of.id);
    /// Emits an event with the fields that say which instrument it is about, and with these.
    macro_rules! emit {
        ($event:ident { $($field:ident),* }) => {
            to.emit(&events::$event {
                session, meter, version, name, unit, tags, $($field,)* instrument,
            })
        };
    }
    match now {
        InstrumentValue::Counter(now) => {
            let (rate, value) = (&*before.increase(*now).to_string(), &*now.to_string());
            emit!(CounterRateValuePublished { rate, value });
        }
        InstrumentValue::UpDownCounter(now) => {
            let (rate, value) = (&*before.increase(*now).to_string(), &*now.to_string());
            emit!(UpDownCounterRateValuePublished { rate, value });
        }
        InstrumentValue::Gauge(now) => {
            let last = &*now.to_string();
            emit!(GaugeValuePublished { last });
        }
        InstrumentValue::Histogram { .. } => {
            let (distribution, sum) = before.distribution(now);
            let quantile = |quantile| {
                let value = Number::Float(distribution.quantile(quantile)?);
                Some(format!("{quantile}={value}"))
            };
            let quantiles: Vec<_> = QUANTILES.into_iter().filter_map(quantile).collect();
            let quantiles = &*quantiles.join(";");
            let count = i32::try_from(distribution.count).unwrap_or(i32::MAX);
            emit!(HistogramValuePublished { quantiles, count, sum });
        }
    }
}
