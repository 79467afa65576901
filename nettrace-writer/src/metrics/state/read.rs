//! The values of instruments at one time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::metrics::state::{
    Instrument, MetricsState, Series, kinds::InstrumentValue, lock, observable::Observer, state,
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
                let value = InstrumentValue::of(instrument.kind, &series.value)?;
                Some((Arc::clone(&series.tags), value))
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
    let value = |number| InstrumentValue::observed(instrument.kind, number);
    reading.values.extend(values.into_iter().map(|(tags, number)| (tags, value(number))));
    // The last one of those with the same tags counts.
    reading.values.reverse();
    reading.values.sort_by(|(one, _), (other, _)| one.cmp(other));
    reading.values.dedup_by(|(one, _), (other, _)| one == other);
}
