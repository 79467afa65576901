//! nettrace-writer: a derived event, recorded by a running session that flushes into a sink.

use std::io;

use nettrace_writer::{Emit, Session, TraceEvent, sink::StreamSink};

use crate::harness::{Peer, numbers};

/// The event.
#[derive(TraceEvent)]
#[trace_event(provider = "Peers")]
struct Work {
    a: u64,
    b: u64,
}

/// A session with default settings.
pub(crate) struct Ours {
    session: Session,
    written: u64,
}

impl Ours {
    /// Starts the session.
    pub(crate) fn new() -> Self {
        let builder = Session::builder().provider("Peers").sink(StreamSink::new(io::sink()));
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
