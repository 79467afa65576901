//! Pipes, sockets, standard output, devices: what is written in order and never taken back.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::{Duration, Instant};

use super::complete::{batch_size, check_end_of_stream};
use super::failure::{Failure, during};
use super::pieces::{Cursor, WINDOW};
use super::{Batch, Sink, WriteError};

/// How long a full non-blocking destination may take nothing before that is an error.
const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the longest pause before a full non-blocking destination is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// Writes a trace to any [`Write`]: bytes in order, never a seek, the end of stream once, at the
/// end.
///
/// # Guarantees
/// - Short writes and interrupted calls lose and repeat nothing. Each batch is flushed.
/// - A destination that blocks makes the flusher wait, not the application: the session's buffers
///   fill up meanwhile, and its policy decides what happens then. A non-blocking destination that
///   is full is tried again in growing pauses (50 µs to 5 ms), until it has taken nothing for
///   [`stall_timeout`](Self::stall_timeout): then the stream fails with [`ErrorKind::TimedOut`].
/// - After the first error nothing more is written, no end of stream either: a reader must see that
///   the stream broke off. Each later call fails with the first error's kind.
///
/// # Closed pipes and `SIGPIPE`
/// A Rust program ignores `SIGPIPE`, and a pipe whose reader is gone gives
/// [`ErrorKind::BrokenPipe`]. Where the program has set the signal back to its default, or where
/// its main function is not Rust's, the kernel would end the process instead, unless the writing
/// thread blocks the signal.
///
/// # Buffered writers
/// [`WriteError::kept`] counts what the writer accepted. Give the sink a writer without a buffer of
/// its own (a `File`, a socket), or it counts bytes that never arrived; batches are large enough
/// that a buffer gains nothing. For the same reason use [`stdout`](StreamSink::stdout), not
/// `io::stdout()`.
pub struct StreamSink<W> {
    writer: W,
    end_of_stream: &'static [u8],
    stall_timeout: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    Open,
    Failed(Failure),
}

impl<W: Write + Send> StreamSink<W> {
    /// A sink that writes to `writer`, which it does not touch before the stream starts.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            end_of_stream: &[],
            stall_timeout: DEFAULT_STALL_TIMEOUT,
            state: State::Closed,
        }
    }

    /// Sets how long a non-blocking destination may be full without taking a byte: 10 s by default.
    /// Blocking destinations are waited for without a limit.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = timeout;
        self
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn write_all(&mut self, mut rest: Cursor<'_>) -> Result<(), (io::Error, u64)> {
        let mut done = 0;
        let mut window = [IoSlice::new(&[]); WINDOW];
        let mut wait = Wait::new(self.stall_timeout);
        while !rest.is_empty() {
            let used = rest.fill(&mut window);
            match self.writer.write_vectored(&window[..used]) {
                Ok(0) => return Err((ErrorKind::WriteZero.into(), done)),
                Ok(count) => {
                    rest.advance(count);
                    done += count as u64;
                    wait = Wait::new(self.stall_timeout);
                }
                Err(error) => wait.after(error).map_err(|error| (error, done))?,
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut wait = Wait::new(self.stall_timeout);
        loop {
            match self.writer.flush() {
                Ok(()) => return Ok(()),
                Err(error) => wait.after(error)?,
            }
        }
    }

    fn send(&mut self, bytes: &[u8], action: &str) -> io::Result<()> {
        let sent = self.write_all(Cursor::new(&[], bytes)).map_err(|(error, _)| error);
        sent.and_then(|()| self.flush()).map_err(|source| {
            let error = during(action, source);
            self.state = State::Failed(Failure::of(&error));
            error
        })
    }
}

impl StreamSink<File> {
    /// A sink on the process's standard output, on a descriptor of its own: nothing of what the
    /// program itself prints through `io::stdout()` passes here, so print to standard error
    /// meanwhile.
    ///
    /// # Errors
    /// Where the descriptor can't be duplicated.
    pub fn stdout() -> io::Result<Self> {
        let descriptor = duplicate_stdout()
            .map_err(|source| during("cannot take over standard output for a trace", source))?;
        Ok(Self::new(descriptor))
    }
}

impl<W: Write + Send> Sink for StreamSink<W> {
    fn start(&mut self, header: &[u8], end_of_stream: &'static [u8]) -> io::Result<()> {
        self.finish()?;
        check_end_of_stream(end_of_stream)?;
        self.end_of_stream = end_of_stream;
        self.send(header, "cannot write the trace's header to its stream")?;
        self.state = State::Open;
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        match &self.state {
            State::Open => {}
            State::Closed => return Err(WriteError { source: not_started(), kept: 0 }),
            State::Failed(failure) => {
                return Err(WriteError { source: failure.again(), kept: 0 });
            }
        }
        batch_size(batch, self.end_of_stream)?;
        let result = self.write_all(Cursor::new(batch.pieces, &[])).map_err(|(source, done)| {
            let kept = batch.block_ends.iter().rev().find(|end| **end <= done);
            WriteError { source, kept: kept.copied().unwrap_or(0) }
        });
        // Where a flush fails nobody knows what the writer has done with the bytes.
        let result = result
            .and_then(|()| self.flush().map_err(|source| WriteError { source, kept: 0 }))
            .map_err(|WriteError { source, kept }| {
                let source = during("cannot write the trace to its stream", source);
                WriteError { source, kept }
            });
        if let Err(error) = &result {
            self.state = State::Failed(Failure::of(&error.source));
        }
        result
    }

    fn finish(&mut self) -> io::Result<()> {
        match &self.state {
            State::Closed => Ok(()),
            State::Failed(failure) => Err(failure.again()),
            State::Open => {
                self.send(self.end_of_stream, "cannot write the trace's end to its stream")?;
                self.state = State::Closed;
                Ok(())
            }
        }
    }
}

impl<W> fmt::Debug for StreamSink<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink")
            .field("state", &self.state)
            .field("stall_timeout", &self.stall_timeout)
            .finish_non_exhaustive()
    }
}

pub(super) fn not_started() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a sink takes batches only after `start`")
}

/// Waits for `time`, or a little less: for a signal that nobody gives. (Threads have one module of
/// this crate to themselves; a pause is all that the sinks need of them.)
pub(super) fn pause(time: Duration) {
    crate::sync::thread::sleep(time);
}

/// Bounded patience with a destination that is full for now.
#[derive(Debug)]
struct Wait {
    timeout: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Wait {
    fn new(timeout: Duration) -> Self {
        Self { timeout, since: None, pause: PAUSES.0 }
    }

    /// Returns when the call that gave `error` is worth another try; passes on what is final.
    fn after(&mut self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            ErrorKind::Interrupted => return Ok(()),
            ErrorKind::WouldBlock => {}
            _ => return Err(error),
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(left) = self.timeout.checked_sub(since.elapsed()) else {
            let text = format!("it was full and took nothing for {:?}", self.timeout);
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        };
        pause(self.pause.min(left).max(PAUSES.0));
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}

#[cfg(unix)]
fn duplicate_stdout() -> io::Result<File> {
    use std::os::fd::AsFd;

    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
fn duplicate_stdout() -> io::Result<File> {
    use std::os::windows::io::AsHandle;

    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

#[cfg(not(any(unix, windows)))]
fn duplicate_stdout() -> io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}
