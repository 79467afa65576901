//! A sink that can be held up, so that a session can be filled for certain.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nettrace_writer::sink::{Batch, Sink, StreamEnd, WriteError};

/// Holds up the flusher in its next write, until it is released.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    holds: AtomicBool,
    waits: AtomicBool,
}

impl Hold {
    pub(crate) fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    pub(crate) fn let_go(&self) {
        self.holds.store(false, Ordering::SeqCst);
    }

    /// Whether the flusher is held up right now. No memory becomes free until it is released.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }
}

/// A sink, behind a [`Hold`].
#[derive(Debug)]
pub(crate) struct Held<S> {
    sink: S,
    hold: Arc<Hold>,
}

impl<S> Held<S> {
    pub(crate) fn new(sink: S) -> (Self, Arc<Hold>) {
        let hold = Arc::<Hold>::default();
        (Self { sink, hold: Arc::clone(&hold) }, hold)
    }
}

impl<S: Sink> Sink for Held<S> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.sink.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        // A test that never releases the sink fails by what it finds then, and does not hang.
        let end = Instant::now() + Duration::from_secs(600);
        while self.hold.holds.load(Ordering::SeqCst) && Instant::now() < end {
            self.hold.waits.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
        }
        self.hold.waits.store(false, Ordering::SeqCst);
        self.sink.write(batch)
    }

    fn room(&self) -> u64 {
        self.sink.room()
    }

    fn wants_restart(&mut self) -> bool {
        self.sink.wants_restart()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}
