//! The last value of something.

use super::{
    handle::{Handle, instrument},
    meter::Meter,
};
use crate::{
    metrics::state::{BoundValue, InstrumentKind, NO_VALUE, StoredValue},
    sync::{AtomicU64, Ordering},
};

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
