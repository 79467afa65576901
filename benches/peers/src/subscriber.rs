//! tracing: an event with two fields, formatted as text and handed to the thread of
//! tracing-appender, which writes it into a sink that counts lines.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tracing::Dispatch;
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};

use crate::harness::{Peer, numbers};

/// How long the appender's thread may take for a pass. It takes about a microsecond for an event.
const PATIENCE: Duration = Duration::from_secs(10);

/// The event goes through the appender's queue, which holds 128,000 lines, far more than a pass.
pub(crate) struct Subscriber {
    dispatch: Dispatch,
    lines: Arc<AtomicU64>,
    expected: u64,
    _worker: WorkerGuard,
}

impl Subscriber {
    /// Starts the appender's thread.
    pub(crate) fn new() -> Self {
        let lines = Arc::new(AtomicU64::new(0));
        let (writer, worker): (NonBlocking, _) =
            tracing_appender::non_blocking(Sink(Arc::clone(&lines)));
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        Self { dispatch: Dispatch::new(subscriber), lines, expected: 0, _worker: worker }
    }
}

impl Peer for Subscriber {
    fn name(&self) -> &'static str {
        "tracing_appender"
    }

    fn what(&self) -> &'static str {
        "event with two fields as text, non-blocking, into a sink"
    }

    fn prepare(&mut self, events: u64) {
        self.lines.store(0, Ordering::Relaxed);
        self.expected = events;
    }

    fn pass(&mut self, first: u64, events: u64) {
        tracing::dispatcher::with_default(&self.dispatch, || {
            for index in first..first + events {
                let (a, b) = numbers(index);
                tracing::info!(a, b, "work");
            }
        });
    }

    fn collect(&mut self) -> u64 {
        // The next peer must not share the processor with the appender.
        let start = Instant::now();
        while self.lines.load(Ordering::Relaxed) < self.expected && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
        self.lines.load(Ordering::Relaxed)
    }
}

/// Counts lines and forgets them.
struct Sink(Arc<AtomicU64>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.0.fetch_add(lines as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
