//! The kinds of instruments: how the values of each are stored, and read.

use crate::{
    metrics::{
        cells::{self, NO_CELL},
        histogram::{Buckets, Counts},
        number::Number,
    },
    sync::{AtomicU64, Ordering},
};

/// The kind of value that an instrument counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InstrumentKind {
    Counter,
    UpDownCounter,
    Gauge,
    Histogram,
    ObservableCounter,
    ObservableUpDownCounter,
    ObservableGauge,
}

impl InstrumentKind {
    /// The name of .NET's type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "Counter`1",
            Self::UpDownCounter => "UpDownCounter`1",
            Self::Gauge => "Gauge`1",
            Self::Histogram => "Histogram`1",
            Self::ObservableCounter => "ObservableCounter`1",
            Self::ObservableUpDownCounter => "ObservableUpDownCounter`1",
            Self::ObservableGauge => "ObservableGauge`1",
        }
    }
}

/// The storage of a value.
#[derive(Debug)]
pub(crate) enum StoredValue {
    /// A sum over threads, less what it was at first. The cell is [`NO_CELL`] if there was none
    /// left. Then `shared` has the sum.
    Sum { cell: u32, base: u64, shared: AtomicU64 },
    /// The bits of an `f64`: the last value. [`NO_VALUE`]: there was none.
    Last(AtomicU64),
    /// Buckets, and the bits of the sum of all values.
    Distribution { buckets: Box<Buckets>, sum: AtomicU64 },
}

/// Bits that no value has: a NaN that no computation makes.
pub(crate) const NO_VALUE: u64 = u64::MAX;

impl StoredValue {
    /// That of a new series. `take_cell` is asked for a cell if it needs one.
    pub(crate) fn new(kind: InstrumentKind, take_cell: impl FnOnce() -> u32) -> Self {
        let shared = AtomicU64::new(0);
        match kind {
            InstrumentKind::Counter | InstrumentKind::UpDownCounter => {
                let cell = take_cell();
                Self::Sum { cell, base: cells::sum(cell), shared }
            }
            InstrumentKind::Histogram => {
                Self::Distribution { buckets: Box::default(), sum: shared }
            }
            // That of an observable instrument is not used.
            _ => Self::Last(AtomicU64::new(NO_VALUE)),
        }
    }

    /// The cell that an increment adds to, if it has one.
    pub(crate) fn cell(&self) -> u32 {
        match self {
            Self::Sum { cell, .. } => *cell,
            Self::Last(_) | Self::Distribution { .. } => NO_CELL,
        }
    }

    /// The sum of a counter.
    pub(crate) fn sum(&self) -> u64 {
        let Self::Sum { cell, base, shared } = self else { return 0 };
        let shared = shared.load(Ordering::Relaxed);
        cells::sum(*cell).wrapping_sub(*base).wrapping_add(shared)
    }

    /// Records a value of a histogram.
    pub(crate) fn record(&self, value: f64) {
        let Self::Distribution { buckets, sum } = self else { return };
        if !value.is_finite() {
            return;
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        buckets.record(value);
    }
}

/// A value of an instrument at one time.
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
    /// What is stored. `None`: a gauge has no value yet.
    pub(crate) fn of(kind: InstrumentKind, stored: &StoredValue) -> Option<Self> {
        Some(match stored {
            StoredValue::Sum { .. } => match kind {
                InstrumentKind::UpDownCounter => {
                    Self::UpDownCounter(Number::Signed(stored.sum() as i64))
                }
                _ => Self::Counter(Number::Unsigned(stored.sum())),
            },
            StoredValue::Last(last) => match last.load(Ordering::Relaxed) {
                NO_VALUE => return None,
                bits => Self::Gauge(Number::Float(f64::from_bits(bits))),
            },
            StoredValue::Distribution { buckets, sum } => {
                let sum = f64::from_bits(sum.load(Ordering::Relaxed));
                Self::Histogram { counts: buckets.counts(), sum }
            }
        })
    }

    /// What a callback has reported.
    pub(crate) fn observed(kind: InstrumentKind, number: Number) -> Self {
        match kind {
            InstrumentKind::ObservableCounter => Self::Counter(number),
            InstrumentKind::ObservableUpDownCounter => Self::UpDownCounter(number),
            _ => Self::Gauge(number),
        }
    }

    /// Whether nothing was counted so far.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Counter(number) | Self::UpDownCounter(number) => number.to_f64() == 0.0,
            Self::Gauge(_) => false,
            Self::Histogram { counts, .. } => counts.is_empty(),
        }
    }
}
