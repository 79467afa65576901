//! nettrace-writer: a derived event, and a traced call, recorded by a running session that flushes
//! into a sink.

use std::{hint::black_box, io};

use nettrace_writer::{Emit, Session, TraceEvent, sink::StreamSink, traced};

use crate::harness::{Peer, numbers};

/// The event.
#[derive(TraceEvent)]
#[trace_event(provider = "Peers")]
struct Work {
    a: u64,
    b: u64,
}

/// The call. Its Start has one field.
#[traced(provider = "Peers-Spans", fields = [a])]
#[inline(never)]
fn work(a: u64) {
    black_box(a);
}

/// A session with default settings.
pub(crate) struct Ours {
    session: Session,
    written: u64,
}

impl Ours {
    /// Starts the session.
    pub(crate) fn new() -> Self {
        Self::of("Peers")
    }

    /// A session that listens to one provider.
    pub(crate) fn of(provider: &str) -> Self {
        let builder = Session::builder().provider(provider).sink(StreamSink::new(io::sink()));
        let session = builder.start().expect("a sink that takes everything does");
        Self { session, written: 0 }
    }
}

impl Peer for Ours {
    fn name(&self) -> &'static str {
        "nettrace_writer"
    }

    fn what(&self) -> &'static str {
        "derived event into a running session, into a sink"
    }

    fn prepare(&mut self, _: u64) {
        self.written = self.session.stats().written;
    }

    fn pass(&mut self, first: u64, events: u64) {
        for index in first..first + events {
            let (a, b) = numbers(index);
            Work { a, b }.emit();
        }
    }

    fn collect(&mut self) -> u64 {
        // The next peer must not share the processor with our flusher.
        self.session.flush().expect("the flusher lives");
        self.session.stats().written - self.written
    }
}

/// A session of its own for calls, whose spans have ids.
pub(crate) struct OurSpans(Ours);

impl OurSpans {
    /// Starts the session.
    pub(crate) fn new() -> Self {
        Self(Ours::of("Peers-Spans"))
    }
}

impl Peer for OurSpans {
    fn name(&self) -> &'static str {
        "nettrace_writer_span"
    }

    fn what(&self) -> &'static str {
        "traced call: Start with a field, Stop, ids, into a sink"
    }

    fn prepare(&mut self, events: u64) {
        self.0.prepare(events);
    }

    fn pass(&mut self, first: u64, events: u64) {
        for index in first..first + events {
            work(numbers(index).0);
        }
    }

    fn collect(&mut self) -> u64 {
        // Start and Stop.
        self.0.collect() / 2
    }
}
