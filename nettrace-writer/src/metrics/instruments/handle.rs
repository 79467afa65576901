//! The common part of the handles of instruments.

use super::meter::Meter;
use crate::{
    metrics::{
        cells::NO_CELL,
        once::ForkSafeOnce,
        state::{BoundValue, Description, kinds::InstrumentKind, lock, state},
    },
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// A handle: of an instrument that exists, or of one that begins when it is first used.
#[derive(Debug)]
pub(crate) struct Handle {
    /// The cell that increments go to; [`NO_CELL`] while it is not bound.
    cell: AtomicU32,
    bound: ForkSafeOnce<BoundValue>,
    /// The specification of a static handle.
    spec: Option<Spec>,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    meter: &'static Meter,
    kind: InstrumentKind,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
}

impl Handle {
    pub(crate) const fn new(
        meter: &'static Meter,
        kind: InstrumentKind,
        name: &'static str,
    ) -> Self {
        let spec = Spec { meter, kind, name, unit: "", description: "" };
        Self { cell: AtomicU32::new(NO_CELL), bound: ForkSafeOnce::new(), spec: Some(spec) }
    }

    pub(crate) const fn set_unit(&mut self, unit: &'static str) {
        if let Some(spec) = &mut self.spec {
            spec.unit = unit;
        }
    }

    pub(crate) const fn set_description(&mut self, description: &'static str) {
        if let Some(spec) = &mut self.spec {
            spec.description = description;
        }
    }

    pub(crate) fn of(bound: BoundValue) -> Self {
        let cell = AtomicU32::new(bound.series.value.cell());
        Self { cell, bound: ForkSafeOnce::with(bound), spec: None }
    }

    /// The cell that increments go to.
    #[inline]
    pub(crate) fn cell(&self) -> u32 {
        // Pairs with the release in `begin`: no increment is in the sum that the cell had before.
        self.cell.load(Ordering::Acquire)
    }

    /// This thread's cell of a sum, if it has one. Otherwise adds the value.
    #[cold]
    #[inline(never)]
    pub(crate) fn cell_or_add(&self, value: u64) -> Option<&'static AtomicU64> {
        self.bound().cell_or_add(value)
    }

    /// The value that the handle is bound to. A static begins here.
    #[inline]
    pub(crate) fn bound(&self) -> &BoundValue {
        match self.bound.get() {
            Some(bound) => bound,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &BoundValue {
        let Some(Spec { meter, kind, name, unit, description }) = self.spec else {
            unreachable!("a handle without a description is bound")
        };
        let info = meter.info();
        let mut locked = lock();
        // Others may have waited for the lock, too.
        if let Some(bound) = self.bound.get() {
            return bound;
        }
        let description = Description {
            name: name.to_owned(),
            unit: unit.to_owned(),
            description: description.to_owned(),
            ..Description::default()
        };
        let bound = BoundValue::new_locked(state(&mut locked), info, kind, description);
        // Pairs with the acquire in `cell`. The sum that the cell had before was read above.
        self.cell.store(bound.series.value.cell(), Ordering::Release);
        self.bound.set(bound)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::of(self.bound().clone())
    }
}

/// The methods that all instruments share.
macro_rules! instrument {
    ($name:ident, $kind:ident) => {
        impl $name {
            /// An instrument, for a `static`. Clients see it from its first use on.
            #[must_use]
            pub const fn new(meter: &'static Meter, name: &'static str) -> Self {
                Self(Handle::new(meter, InstrumentKind::$kind, name))
            }

            /// The unit of its values, such as `ms`, `By` or `{order}` (UCUM). The default is none.
            #[must_use]
            pub const fn unit(mut self, unit: &'static str) -> Self {
                self.0.set_unit(unit);
                self
            }

            /// A description for people. The default is empty.
            #[must_use]
            pub const fn description(mut self, description: &'static str) -> Self {
                self.0.set_description(description);
                self
            }

            pub(crate) fn bound(bound: BoundValue) -> Self {
                Self(Handle::of(bound))
            }

            /// The same instrument with tags: a value of its own.
            ///
            /// Takes a lock, so keep what it returns. The order of the tags does not matter. An
            /// instrument has at most 2,000 combinations of tags. All further ones share one value,
            /// whose tag is `overflow=true`. A comma in a tag is written as `%2C`.
            #[must_use]
            pub fn tagged(&self, tags: &[(&str, &str)]) -> Self {
                Self(Handle::of(self.0.bound().tagged(tags)))
            }

            /// Makes the instrument known to clients now, rather than at its first use.
            pub fn begin(&self) {
                self.0.bound();
            }
        }
    };
}
pub(crate) use instrument;
