//! OpenTelemetry: its layer for `tracing`, and its batch exporter, which exports nothing.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tracing_subscriber::{filter::LevelFilter, prelude::*};

use crate::{cpu, known, record::Recorded};

/// The processor's own thread. The kernel keeps 15 bytes of the name.
const THREAD: &str = "OpenTelemetry.Traces.BatchProcessor";

/// A recording that has begun.
pub(crate) struct Recording {
    provider: SdkTracerProvider,
    exported: Arc<Exported>,
}

/// What the exporter has got.
#[derive(Debug, Default)]
struct Exported {
    spans: AtomicU64,
    events: AtomicU64,
}

impl Recording {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let exported = Arc::new(Exported::default());
        let exporter = Nothing(Arc::clone(&exported));
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("service"));
        tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).try_init()?;
        Ok(Self { provider, exported })
    }

    pub(crate) fn finish(self) -> Result<Recorded, Box<dyn Error>> {
        self.provider.force_flush()?;
        let cpu = cpu::of_thread(THREAD);
        self.provider.shutdown()?;
        let spans = self.exported.spans.load(Ordering::Relaxed);
        let events = self.exported.events.load(Ordering::Relaxed);
        // The processor counts what it drops, and tells nobody but a log.
        let dropped = known::count().saturating_sub(spans);
        Ok(Recorded { events: spans + events, dropped, cpu, ..Recorded::default() })
    }
}

/// Counts what it gets.
#[derive(Debug)]
struct Nothing(Arc<Exported>);

impl SpanExporter for Nothing {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let events: usize = batch.iter().map(|span| span.events.len()).sum();
        self.0.spans.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.0.events.fetch_add(events as u64, Ordering::Relaxed);
        Ok(())
    }
}
