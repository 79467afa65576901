//! fastrace: a local span without properties. A span reads the clock twice.

use fastrace::{
    collector::SpanContext,
    local::{LocalCollector, LocalSpan},
};

use crate::harness::Peer;

/// Records into the thread's span queue. It holds 10,240 spans and silently refuses more.
#[derive(Default)]
pub(crate) struct Fastrace {
    collector: Option<LocalCollector>,
}

impl Peer for Fastrace {
    fn name(&self) -> &'static str {
        "fastrace"
    }

    fn what(&self) -> &'static str {
        "local span, no properties, two clock reads"
    }

    fn prepare(&mut self, _: u64) {
        self.collector = Some(LocalCollector::start());
    }

    fn pass(&mut self, _: u64, events: u64) {
        for _ in 0..events {
            let _span = LocalSpan::enter_with_local_parent("work");
        }
    }

    fn collect(&mut self) -> u64 {
        let Some(collector) = self.collector.take() else { return 0 };
        collector.collect().to_span_records(SpanContext::random()).len() as u64
    }
}
