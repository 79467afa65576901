//! Sums: counters, and counters that go up and down.

use super::{
    handle::{Handle, instrument},
    meter::Meter,
};
use crate::metrics::{
    cells,
    state::{BoundValue, InstrumentKind},
};

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
        self.0.bound().sum()
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
        self.0.bound().sum() as i64
    }
}
