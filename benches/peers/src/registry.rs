//! tracing: a span in a registry of tracing-subscriber, without fields. A layer counts the spans
//! that close. Nothing reads a clock, and nothing is written.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tracing::{Dispatch, Subscriber, span::Id};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use crate::harness::Peer;

/// The registry with the layer.
pub(crate) struct Spans {
    dispatch: Dispatch,
    closed: Arc<AtomicU64>,
}

impl Spans {
    /// Makes the registry.
    pub(crate) fn new() -> Self {
        let closed = Arc::new(AtomicU64::new(0));
        let subscriber = Registry::default().with(Count(Arc::clone(&closed)));
        Self { dispatch: Dispatch::new(subscriber), closed }
    }
}

impl Peer for Spans {
    fn name(&self) -> &'static str {
        "tracing_registry"
    }

    fn what(&self) -> &'static str {
        "span in a registry, no fields, no clock, not recorded"
    }

    fn prepare(&mut self, _: u64) {
        self.closed.store(0, Ordering::Relaxed);
    }

    fn pass(&mut self, _: u64, events: u64) {
        tracing::dispatcher::with_default(&self.dispatch, || {
            for _ in 0..events {
                let _span = tracing::info_span!("work").entered();
            }
        });
    }

    fn collect(&mut self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}

/// Counts spans that close.
struct Count(Arc<AtomicU64>);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Count {
    fn on_close(&self, _: Id, _: Context<'_, S>) {
        // Not an addition that locks the bus: there is one thread.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
