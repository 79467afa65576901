//! The counters of the service: meter `Example-Service`.

use std::{array, time::Duration};

use nettrace_writer::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};

/// The name of the meter.
pub(crate) const NAME: &str = "Example-Service";

static METER: Meter = Meter::new(NAME).version(env!("CARGO_PKG_VERSION"));
static REQUESTS: Counter =
    Counter::new(&METER, "requests").unit("{request}").description("Requests that were sent");
static IN_PROGRESS: UpDownCounter = UpDownCounter::new(&METER, "requests.in_progress")
    .unit("{request}")
    .description("Requests that wait for their answer");
static LATENCY: Histogram =
    Histogram::new(&METER, "latency").unit("ms").description("Times of answers");
static LAST_ORDER: Gauge =
    Gauge::new(&METER, "last_order").unit("{cent}").description("The price of the last order");

/// The numbers of the load, for each kind of request.
#[derive(Debug)]
pub(crate) struct Meters<const KINDS: usize> {
    requests: [Counter; KINDS],
    latency: [Histogram; KINDS],
}

impl<const KINDS: usize> Meters<KINDS> {
    pub(crate) fn new(kinds: [&str; KINDS]) -> Self {
        IN_PROGRESS.begin();
        LAST_ORDER.begin();
        Self {
            requests: array::from_fn(|kind| REQUESTS.tagged(&[("kind", kinds[kind])])),
            latency: array::from_fn(|kind| LATENCY.tagged(&[("kind", kinds[kind])])),
        }
    }

    /// A request of this kind begins.
    pub(crate) fn begin(&self, kind: usize) {
        self.requests[kind].add(1);
        IN_PROGRESS.add(1);
    }

    /// A request of this kind has ended.
    pub(crate) fn end(&self, kind: usize, took: Duration) {
        IN_PROGRESS.add(-1);
        self.latency[kind].record(took.as_secs_f64() * 1e3);
    }

    /// How many requests have begun.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.iter().map(Counter::value).sum()
    }
}

/// Something was sold.
pub(crate) fn sold(cents: u64) {
    LAST_ORDER.set(cents as f64);
}
