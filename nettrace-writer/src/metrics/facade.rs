//! Metrics of the crate `metrics` as instruments.

use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc};

use ::metrics::{
    CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, SetRecorderError, SharedString, Unit,
};

use crate::{
    metrics::{
        instruments::{Counter, Gauge, Histogram, Meter},
        state::{BoundValue, Description, MeterInfo, kinds::InstrumentKind, lock, state},
    },
    sync::thread::LocalKey,
};

/// The number of keys that a thread remembers. When there are more, it forgets them all.
const REMEMBERED: usize = 4_096;

/// Records what a program counts by the macros of the crate `metrics`, as instruments of a meter.
///
/// ```
/// use nettrace_writer::metrics::MetricsRecorder;
///
/// MetricsRecorder::new("Contoso-Shop").install()?;
/// metrics::describe_counter!("orders", metrics::Unit::Count, "Orders placed");
/// metrics::counter!("orders", "country" => "de").increment(1);
/// metrics::histogram!("latency").record(3.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Labels become tags. A description counts if it comes before the first use of its name. A counter
/// that is set to a value (`absolute`) grows to it, and never shrinks.
///
/// The macros look up their key at each call, which costs far more than an increment. A thread
/// remembers the keys that it has used and takes no lock for them. Where it matters, keep what
/// `metrics::counter!` returns.
#[derive(Clone)]
pub struct MetricsRecorder {
    meter: Arc<MeterInfo>,
}

impl fmt::Debug for MetricsRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsRecorder").field("meter", &self.meter.name).finish()
    }
}

impl MetricsRecorder {
    /// A recorder whose instruments belong to the meter with this name.
    #[must_use]
    pub fn new(meter: impl Into<String>) -> Self {
        Self { meter: Meter::builder(meter).build().info() }
    }

    /// Makes it the recorder of the whole program.
    ///
    /// # Errors
    ///
    /// The program has a recorder already.
    pub fn install(self) -> Result<(), SetRecorderError<Self>> {
        ::metrics::set_global_recorder(self)
    }

    /// The instrument with this name. The first use of a name makes it, for good.
    fn instrument(&self, kind: InstrumentKind, name: &str) -> BoundValue {
        let key = (self.meter.name.clone(), kind, name.to_owned());
        let mut locked = lock();
        let state = state(&mut locked);
        if let Some(bound) = state.recorded.get(&key) {
            return bound.clone();
        }
        let (unit, description) = state.described.remove(&key).unwrap_or_default();
        let description =
            Description { name: name.to_owned(), unit, description, ..Description::default() };
        let bound = BoundValue::new_locked(state, Arc::clone(&self.meter), kind, description);
        state.recorded.insert(key, bound.clone());
        bound
    }

    fn bound(&self, kind: InstrumentKind, key: &Key) -> BoundValue {
        let tags: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
        let instrument = self.instrument(kind, key.name());
        if tags.is_empty() { instrument } else { instrument.tagged(&tags) }
    }

    /// The handle that this thread remembers for a key.
    fn remembered<T: Clone>(
        &self,
        of: &'static LocalKey<Remembered<T>>,
        key: &Key,
        make: impl FnOnce() -> T,
    ) -> T {
        let meter = Arc::as_ptr(&self.meter) as usize;
        let known = of.try_with(|all| all.borrow().get(&(meter, key.clone())).cloned());
        if let Ok(Some(known)) = known {
            return known;
        }
        let new = make();
        // A thread that is ending remembers nothing.
        let _ = of.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.len() >= REMEMBERED {
                all.clear();
            }
            all.insert((meter, key.clone()), new.clone());
        });
        new
    }

    fn describe(
        &self,
        kind: InstrumentKind,
        name: &KeyName,
        unit: Option<Unit>,
        text: &SharedString,
    ) {
        let key = (self.meter.name.clone(), kind, name.as_str().to_owned());
        let unit = unit.map_or("", |unit| unit.as_canonical_label()).to_owned();
        let mut locked = lock();
        let state = state(&mut locked);
        if !state.recorded.contains_key(&key) {
            state.described.insert(key, (unit, text.to_string()));
        }
    }
}

type Remembered<T> = RefCell<HashMap<(usize, Key), T>>;

thread_local! {
    static COUNTERS: Remembered<::metrics::Counter> = RefCell::default();
    static GAUGES: Remembered<::metrics::Gauge> = RefCell::default();
    static HISTOGRAMS: Remembered<::metrics::Histogram> = RefCell::default();
}

impl ::metrics::Recorder for MetricsRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(InstrumentKind::Counter, &key, unit, &description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(InstrumentKind::Gauge, &key, unit, &description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(InstrumentKind::Histogram, &key, unit, &description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> ::metrics::Counter {
        self.remembered(&COUNTERS, key, || {
            let counter = Counter::bound(self.bound(InstrumentKind::Counter, key));
            ::metrics::Counter::from_arc(Arc::new(counter))
        })
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> ::metrics::Gauge {
        self.remembered(&GAUGES, key, || {
            let gauge = Gauge::bound(self.bound(InstrumentKind::Gauge, key));
            ::metrics::Gauge::from_arc(Arc::new(gauge))
        })
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> ::metrics::Histogram {
        self.remembered(&HISTOGRAMS, key, || {
            let histogram = Histogram::bound(self.bound(InstrumentKind::Histogram, key));
            ::metrics::Histogram::from_arc(Arc::new(histogram))
        })
    }
}

impl CounterFn for Counter {
    fn increment(&self, value: u64) {
        self.add(value);
    }

    fn absolute(&self, value: u64) {
        self.add(value.saturating_sub(self.value()));
    }
}

impl GaugeFn for Gauge {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        Gauge::set(self, value);
    }
}

impl HistogramFn for Histogram {
    fn record(&self, value: f64) {
        Histogram::record(self, value);
    }
}
