//! Spans of `tracing`, with one number, recorded through bridges: ours without a registry, and
//! fastrace's layer in a registry.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fastrace::{
    Span,
    collector::{Config, Reporter, SpanContext, SpanRecord},
};
use fastrace_tracing::FastraceCompatLayer;
use tracing::{Dispatch, dispatcher::with_default, info_span};
use tracing_subscriber::{Registry, layer::SubscriberExt};

use crate::harness::{Peer, numbers};

/// Begins spans, enters and ends them.
fn spans(dispatch: &Dispatch, first: u64, events: u64) {
    with_default(dispatch, || {
        for index in first..first + events {
            let _span = info_span!(target: "bridges", "work", a = numbers(index).0).entered();
        }
    });
}

/// A session that listens to the spans of this crate.
#[cfg(feature = "ours")]
pub(crate) struct Ours {
    session: crate::ours::Ours,
    dispatch: Dispatch,
}

#[cfg(feature = "ours")]
impl Ours {
    /// Starts the session.
    pub(crate) fn new() -> Self {
        let session = crate::ours::Ours::of("bridges");
        Self { session, dispatch: Dispatch::new(tracing_nettrace::subscriber()) }
    }
}

#[cfg(feature = "ours")]
impl Peer for Ours {
    fn name(&self) -> &'static str {
        "tracing_nettrace"
    }

    fn what(&self) -> &'static str {
        "span of tracing: Start with a field, Stop, ids, into a sink"
    }

    fn prepare(&mut self, events: u64) {
        self.session.prepare(events);
    }

    fn pass(&mut self, first: u64, events: u64) {
        spans(&self.dispatch, first, events);
    }

    fn collect(&mut self) -> u64 {
        // Start and Stop.
        self.session.collect() / 2
    }
}

/// The layer in a registry. fastrace's own thread hands the spans to a reporter, which counts them.
pub(crate) struct Fastrace {
    dispatch: Dispatch,
    reported: Arc<AtomicU64>,
}

impl Fastrace {
    /// Sets the reporter of the process.
    pub(crate) fn new() -> Self {
        let reported = Arc::new(AtomicU64::new(0));
        fastrace::set_reporter(Count(Arc::clone(&reported)), Config::default());
        let registry = Registry::default().with(FastraceCompatLayer::new());
        Self { dispatch: Dispatch::new(registry), reported }
    }
}

impl Peer for Fastrace {
    fn name(&self) -> &'static str {
        "fastrace_tracing"
    }

    fn what(&self) -> &'static str {
        "span of tracing in a registry, a field as text, reported"
    }

    fn prepare(&mut self, _: u64) {
        self.reported.store(0, Ordering::Relaxed);
    }

    fn pass(&mut self, first: u64, events: u64) {
        let root = Span::root("root", SpanContext::random());
        let _parent = root.set_local_parent();
        spans(&self.dispatch, first, events);
    }

    fn collect(&mut self) -> u64 {
        fastrace::flush();
        // One of them is the root.
        self.reported.load(Ordering::Relaxed).saturating_sub(1)
    }
}

/// Counts spans.
struct Count(Arc<AtomicU64>);

impl Reporter for Count {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        self.0.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }
}
