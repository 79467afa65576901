//! fastrace: its spans, and a reporter that reports nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use fastrace::collector::{Config, Reporter, SpanRecord};

use crate::{cpu, known, record::Recorded};

/// Whether this library records.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

/// Whether this library records.
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.load(Ordering::Relaxed)
}

/// A recording that has begun.
pub(crate) struct Recording(Arc<Reported>);

/// What the reporter has got.
#[derive(Default)]
struct Reported {
    spans: AtomicU64,
    events: AtomicU64,
}

impl Recording {
    pub(crate) fn start() -> Self {
        let reported = Arc::new(Reported::default());
        fastrace::set_reporter(Count(Arc::clone(&reported)), Config::default());
        IS_RECORDING.store(true, Ordering::Relaxed);
        Self(reported)
    }

    pub(crate) fn finish(self) -> Recorded {
        fastrace::flush();
        let cpu = cpu::of_thread("fastrace-global-collector");
        let spans = self.0.spans.load(Ordering::Relaxed);
        let events = self.0.events.load(Ordering::Relaxed);
        let dropped = known::count().saturating_sub(spans);
        Recorded { events: spans + events, dropped, cpu, ..Recorded::default() }
    }
}

/// Counts what it gets.
struct Count(Arc<Reported>);

impl Reporter for Count {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let events: usize = spans.iter().map(|span| span.events.len()).sum();
        let spans = spans.iter().filter(|span| !super::HANDED_ON.contains(&&*span.name));
        self.0.spans.fetch_add(spans.count() as u64, Ordering::Relaxed);
        self.0.events.fetch_add(events as u64, Ordering::Relaxed);
    }
}
