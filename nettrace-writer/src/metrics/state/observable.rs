//! Instruments whose values a callback reports.

use std::sync::Arc;

use crate::metrics::{
    number::Number,
    state::{BoundValue, InstrumentOwner, tags_text},
};

/// An instrument whose values a callback reports when somebody looks: see
/// [`Meter::observable_gauge`](crate::metrics::Meter::observable_gauge). It ends when this is dropped.
///
/// The callback runs on the thread that reports, once for each client and interval. It must not
/// take long. If it panics, clients are told, and it is called again at the next interval.
#[derive(Clone, Debug)]
#[must_use = "the instrument ends when this is dropped"]
pub struct Observable {
    _owner: Arc<InstrumentOwner>,
}

impl Observable {
    pub(crate) fn bound(bound: BoundValue) -> Self {
        Self { _owner: bound.owner }
    }

    /// Keeps the instrument until the process ends.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

/// Takes the values that a callback reports.
#[derive(Debug)]
pub struct Observer<'a> {
    pub(crate) values: &'a mut Vec<(Arc<str>, Number)>,
}

impl Observer<'_> {
    /// Reports a value without tags.
    pub fn observe(&mut self, value: impl Into<Number>) {
        self.observe_tagged(value, &[]);
    }

    /// Reports a value with tags.
    pub fn observe_tagged(&mut self, value: impl Into<Number>, tags: &[(&str, &str)]) {
        self.values.push((tags_text(tags).into(), value.into()));
    }
}
