//! The distribution of values.

use super::{
    handle::{Handle, instrument},
    meter::Meter,
};
use crate::metrics::state::{BoundValue, InstrumentKind};

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
        self.0.bound().record(value);
    }
}
