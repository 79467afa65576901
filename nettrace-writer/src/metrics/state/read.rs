//! The values of instruments at one time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    metrics::{
        histogram::Counts,
        number::Number,
        state::{
            Instrument, InstrumentKind, MetricsState, NO_VALUE, Series, StoredValue, lock,
            observable::Observer, state, sum,
        },
    },
    sync::Ordering,
};

/// The values of an instrument.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) instrument: Arc<Instrument>,
    /// By tags, in their order.
    pub(crate) values: Vec<(Arc<str>, InstrumentValue)>,
    /// Why a callback reported nothing.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InstrumentValue {
    /// The sum of a counter.
    Counter(Number),
    /// The sum of an up-down counter.
    UpDownCounter(Number),
    Gauge(Number),
    Histogram {
        counts: Counts,
        sum: f64,
    },
}

impl InstrumentValue {
    /// Whether nothing was counted so far.
    fn is_zero(&self) -> bool {
        match self {
            Self::Counter(number) | Self::UpDownCounter(number) => number.to_f64() == 0.0,
            Self::Gauge(_) => false,
            Self::Histogram { counts, .. } => counts.is_empty(),
        }
    }
}

/// Reads the instruments that are selected, in the order of their ids. Callbacks run without the
/// lock.
pub(crate) fn read(selects: impl Fn(&Instrument) -> bool) -> Vec<Reading> {
    let mut readings = stored(state(&mut lock()), selects);
    readings.iter_mut().for_each(observe);
    readings
}

/// [`read`] without calling callbacks: their instruments have no values.
pub(crate) fn stored(state: &MetricsState, selects: impl Fn(&Instrument) -> bool) -> Vec<Reading> {
    let mut readings = Vec::new();
    for entry in state.instruments.values() {
        if !selects(&entry.instrument) {
            continue;
        }
        let instrument = Arc::clone(&entry.instrument);
        let mut values = Vec::new();
        if instrument.callback.is_none() {
            let value = |series: &Arc<Series>| {
                Some((Arc::clone(&series.tags), value(instrument.kind, &series.value)?))
            };
            values.extend(entry.series.values().filter_map(value));
            // An instrument that is only used with tags has no other value.
            if values.len() > 1 {
                values.retain(|(tags, value)| !tags.is_empty() || !value.is_zero());
            }
            values.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        readings.push(Reading { instrument, values, error: None });
    }
    readings
}

fn value(kind: InstrumentKind, stored: &StoredValue) -> Option<InstrumentValue> {
    Some(match stored {
        StoredValue::Sum { cell, base, shared } => {
            let sum = sum(*cell, *base, shared);
            match kind {
                InstrumentKind::UpDownCounter => {
                    InstrumentValue::UpDownCounter(Number::Signed(sum as i64))
                }
                _ => InstrumentValue::Counter(Number::Unsigned(sum)),
            }
        }
        StoredValue::Last(last) => match last.load(Ordering::Relaxed) {
            NO_VALUE => return None,
            bits => InstrumentValue::Gauge(Number::Float(f64::from_bits(bits))),
        },
        StoredValue::Distribution { buckets, sum } => {
            let sum = f64::from_bits(sum.load(Ordering::Relaxed));
            InstrumentValue::Histogram { counts: buckets.counts(), sum }
        }
    })
}

/// Asks the callback of an instrument, if it has one.
pub(crate) fn observe(reading: &mut Reading) {
    let instrument = &reading.instrument;
    let Some(callback) = &instrument.callback else { return };
    let mut values = Vec::new();
    let call = || callback(&mut Observer { values: &mut values });
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("it panicked");
        let (meter, name) = (&instrument.meter.name, &instrument.name);
        reading.error = Some(format!("the callback of {name} of meter {meter}: {text}"));
        // A value whose destructor panics would end the process.
        std::mem::forget(panic);
        return;
    }
    let value = |number| match instrument.kind {
        InstrumentKind::ObservableCounter => InstrumentValue::Counter(number),
        InstrumentKind::ObservableUpDownCounter => InstrumentValue::UpDownCounter(number),
        _ => InstrumentValue::Gauge(number),
    };
    reading.values.extend(values.into_iter().map(|(tags, number)| (tags, value(number))));
    // The last one of those with the same tags counts.
    reading.values.reverse();
    reading.values.sort_by(|(one, _), (other, _)| one.cmp(other));
    reading.values.dedup_by(|(one, _), (other, _)| one == other);
}
