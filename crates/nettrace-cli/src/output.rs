//! Standard output, which is written in large pieces, and in any case before the command waits.
#![allow(clippy::disallowed_types, reason = "one thread uses it, but its handles can move")]

use std::{
    io::{self, BufWriter, Stdout, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A handle to standard output. All handles share one buffer.
#[derive(Clone, Debug)]
pub(crate) struct Output(Arc<Mutex<Buffered>>);

#[derive(Debug)]
struct Buffered {
    out: BufWriter<Stdout>,
    /// Why it could not be written before a wait. The next write fails so.
    failed: Option<io::Error>,
}

impl Output {
    pub(crate) fn of_stdout() -> Self {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        Self(Arc::new(Mutex::new(Buffered { out, failed: None })))
    }

    /// The function to call before the command waits for its input: what it has printed so far is
    /// seen.
    pub(crate) fn shown_before_waiting(&self) -> impl FnMut() + Send + 'static {
        let output = self.clone();
        move || {
            let mut buffered = output.lock();
            if let Err(error) = buffered.out.flush() {
                buffered.failed = Some(error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self) -> io::Result<MutexGuard<'_, Buffered>> {
        let mut buffered = self.lock();
        match buffered.failed.take() {
            Some(error) => Err(error),
            None => Ok(buffered),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ready()?.out.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ready()?.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.ready()?.out.flush()
    }
}
