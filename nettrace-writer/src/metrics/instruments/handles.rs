//! The instruments that programs hold: counters, gauges, histograms.

use super::{
    handle::{Handle, instrument},
    meter::{InstrumentBuilder, Meter},
};
use crate::{
    metrics::{
        cells,
        state::{
            BoundValue,
            kinds::{InstrumentKind, NO_VALUE, StoredValue},
        },
    },
    sync::{AtomicU64, Ordering},
};

/// The instruments of a meter whose values the program sets. Each begins when it is built.
impl Meter {
    /// A [`Counter`]: a sum that only grows.
    pub fn counter(&self, name: impl Into<String>) -> InstrumentBuilder<Counter> {
        InstrumentBuilder::new(self, InstrumentKind::Counter, name.into(), Counter::bound)
    }

    /// An [`UpDownCounter`]: a sum that grows and shrinks.
    pub fn up_down_counter(&self, name: impl Into<String>) -> InstrumentBuilder<UpDownCounter> {
        InstrumentBuilder::new(
            self,
            InstrumentKind::UpDownCounter,
            name.into(),
            UpDownCounter::bound,
        )
    }

    /// A [`Gauge`]: the last value.
    pub fn gauge(&self, name: impl Into<String>) -> InstrumentBuilder<Gauge> {
        InstrumentBuilder::new(self, InstrumentKind::Gauge, name.into(), Gauge::bound)
    }

    /// A [`Histogram`]: how values are distributed.
    pub fn histogram(&self, name: impl Into<String>) -> InstrumentBuilder<Histogram> {
        InstrumentBuilder::new(self, InstrumentKind::Histogram, name.into(), Histogram::bound)
    }
}

/// A sum that only grows: requests, bytes, errors.
///
/// An increment touches memory of its thread alone: a load, an addition and a store. It takes no
/// lock, and the kernel is not called. The first increment of a thread allocates. The sum is exact:
/// it is that of all increments that have happened, also those of threads that have ended.
///
/// Clients see the sum since the process began, and its rate.
///
/// ```
/// use nettrace_writer::metrics::{Counter, Meter};
///
/// static SHOP: Meter = Meter::new("Contoso-Shop");
/// static ORDERS: Counter = Counter::new(&SHOP, "orders").unit("{order}");
///
/// ORDERS.add(1);
/// let of_germany = ORDERS.tagged(&[("country", "de")]);
/// of_germany.add(2);
/// assert_eq!((ORDERS.value(), of_germany.value()), (1, 2));
/// ```
///
/// In a signal handler, use only counters that the thread has used before. If the handler
/// interrupts an increment of the same counter, one of the two may be lost.
#[derive(Clone, Debug)]
pub struct Counter(Handle);

instrument!(Counter, Counter);

impl Counter {
    /// Adds to the sum. It wraps at 2⁶⁴.
    #[inline]
    pub fn add(&self, value: u64) {
        cells::add(self.0.cell(), value, || self.0.cell_or_add(value));
    }

    /// The sum, of all threads.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.bound().series.value.sum()
    }
}

/// A sum that grows and shrinks: connections, waiting jobs, bytes in use.
///
/// A change costs as much as that of a [`Counter`], and any thread may make it.
///
/// ```
/// use nettrace_writer::metrics::{Meter, UpDownCounter};
///
/// static SHOP: Meter = Meter::new("Contoso-Shop");
/// static CARTS: UpDownCounter = UpDownCounter::new(&SHOP, "carts").unit("{cart}");
///
/// CARTS.add(3);
/// CARTS.add(-1);
/// assert_eq!(CARTS.value(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct UpDownCounter(Handle);

instrument!(UpDownCounter, UpDownCounter);

impl UpDownCounter {
    /// Adds to the sum, or takes from it. It wraps at 2⁶³.
    #[inline]
    pub fn add(&self, value: i64) {
        cells::add(self.0.cell(), value as u64, || self.0.cell_or_add(value as u64));
    }

    /// The sum, of all threads.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.bound().series.value.sum() as i64
    }
}

/// The last value of something: a temperature, the length of a queue, a setting.
///
/// Clients see it from its first value on. [`set`](Self::set) is one store. Threads that set the
/// same gauge share its memory.
///
/// ```
/// use nettrace_writer::metrics::{Gauge, Meter};
///
/// static SHOP: Meter = Meter::new("Contoso-Shop");
/// static TEMPERATURE: Gauge = Gauge::new(&SHOP, "temperature").unit("Cel");
///
/// TEMPERATURE.set(21.5);
/// let outside = TEMPERATURE.tagged(&[("room", "outside")]);
/// outside.set(-3.0);
/// assert_eq!(TEMPERATURE.value(), Some(21.5));
/// ```
#[derive(Clone, Debug)]
pub struct Gauge(Handle);

instrument!(Gauge, Gauge);

impl Gauge {
    /// Sets the value. What is not a number leaves the gauge without a value.
    #[inline]
    pub fn set(&self, value: f64) {
        let bits = if value.is_nan() { NO_VALUE } else { value.to_bits() };
        self.last().store(bits, Ordering::Relaxed);
    }

    /// Adds to the value. A gauge without a value begins at 0.
    pub fn add(&self, value: f64) {
        let add = |bits| {
            let sum = if bits == NO_VALUE { value } else { f64::from_bits(bits) + value };
            Some(if sum.is_nan() { NO_VALUE } else { sum.to_bits() })
        };
        let _ = self.last().fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        let bits = self.last().load(Ordering::Relaxed);
        (bits != NO_VALUE).then(|| f64::from_bits(bits))
    }

    #[inline]
    fn last(&self) -> &AtomicU64 {
        match &self.0.bound().series.value {
            StoredValue::Last(last) => last,
            _ => unreachable!("a gauge has a last value"),
        }
    }
}

/// A distribution of values: latencies, sizes.
///
/// Clients see how many values there were in each interval, their sum, and three quantiles: 0.5,
/// 0.95 and 0.99. A quantile is at most 0.1 % below (in magnitude) the value that has this rank.
/// Integers up to 2,048 are exact. Values that are not finite are ignored.
///
/// A value costs an atomic increment in memory that threads share. A histogram takes 1 KiB, and
/// then 4 KiB for each power of two in which it has values, for each combination of tags.
///
/// ```
/// use nettrace_writer::metrics::{Histogram, Meter};
///
/// static SHOP: Meter = Meter::new("Contoso-Shop");
/// static LATENCY: Histogram = Histogram::new(&SHOP, "latency").unit("ms");
///
/// LATENCY.record(3.25);
/// LATENCY.tagged(&[("route", "/cart")]).record(12.0);
/// ```
#[derive(Clone, Debug)]
pub struct Histogram(Handle);

instrument!(Histogram, Histogram);

impl Histogram {
    /// Records a value.
    #[inline]
    pub fn record(&self, value: f64) {
        self.0.bound().series.value.record(value);
    }
}
