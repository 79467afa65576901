//! Streams such as pipes, sockets, standard output and devices: what is written cannot be taken
//! back.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::{Duration, Instant};

use super::batch_cursor::{BatchCursor, WINDOW};
use super::complete::{batch_size, check_end_of_stream};
use super::failure::{Failure, during, is_final};
use super::{Batch, Sink, StreamEnd, WriteError};

/// Time that a write waits for a non-blocking destination that is full.
const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the longest pause before another attempt to write to such a destination.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// Writes a trace to any [`Write`]: bytes in order, without seeking. The end of stream is written
/// once, at the end.
///
/// # Guarantees
/// - Short writes and interrupted calls neither lose nor repeat bytes. Each batch is flushed.
/// - A destination that blocks makes the flusher wait, not the application. Meanwhile the session's
///   buffers fill up, and its policy decides what happens then. A non-blocking destination that is
///   full is tried again after pauses that grow from 50 µs to 5 ms. If it takes nothing for
///   [`stall_timeout`](Self::stall_timeout), the write fails with [`ErrorKind::TimedOut`]. Later
///   writes try once, without waiting, until the destination takes something again.
/// - An error that may pass (see [`Sink`]) never tears a block. If a part of a block is written,
///   the sink keeps the rest, 16 MiB at most, and writes it before anything else. The block counts
///   as [kept](WriteError::kept).
/// - After a final error nothing more is written, not even an end of stream, so that a reader sees
///   that the stream broke off. Each later call fails with that error's kind.
///
/// # Closed pipes and `SIGPIPE`
/// A Rust program ignores `SIGPIPE`, so writing to a pipe without a reader fails with
/// [`ErrorKind::BrokenPipe`]. If the program has restored the signal's default, or if its main
/// function is not Rust's, the kernel would end the process, unless the writing thread blocks the
/// signal. A session's own thread does.
///
/// # Buffered writers
/// [`WriteError::kept`] counts what the writer accepted. Give the sink a writer without a buffer of
/// its own (a `File`, a socket). Otherwise the sink counts bytes that may never arrive. Batches are
/// so large that a buffer gains nothing. For the same reason use [`stdout`](StreamSink::stdout),
/// not `io::stdout()`.
///
/// # Examples
///
/// ```
/// use std::{io::Read, net::{TcpListener, TcpStream}, thread};
///
/// use nettrace_writer::{Session, sink::StreamSink};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let sink = StreamSink::new(TcpStream::connect(listener.local_addr()?)?);
/// let received = thread::spawn(move || {
///     let mut bytes = Vec::new();
///     listener.accept()?.0.read_to_end(&mut bytes).map(|_| bytes)
/// });
/// let session = Session::builder().sink(sink).start()?;
/// session.finish()?;
/// assert!(received.join().unwrap()?.starts_with(b"Nettrace"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamSink<W> {
    writer: W,
    end_of_stream: &'static [u8],
    stall_timeout: Duration,
    state: StreamSinkState,
    /// The rest of a block of which a part is written.
    rest: Vec<u8>,
    /// Whether the last write timed out, and the destination has taken nothing since.
    stalled: bool,
}

#[derive(Debug)]
enum StreamSinkState {
    Closed,
    Open,
    /// A final error has occurred.
    Failed(Failure),
}

impl<W: Write + Send> StreamSink<W> {
    /// A sink that writes to `writer`. It writes nothing before the stream starts.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::StreamSink};
    ///
    /// let session = Session::builder().sink(StreamSink::new(std::io::sink())).start()?;
    /// session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            end_of_stream: &[],
            stall_timeout: DEFAULT_STALL_TIMEOUT,
            state: StreamSinkState::Closed,
            rest: Vec::new(),
            stalled: false,
        }
    }

    /// Sets how long a write waits for a non-blocking destination that is full. The default is 10
    /// s. The wait for a blocking destination has no limit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::sink::StreamSink;
    /// # let socket = Vec::new();
    /// let sink = StreamSink::new(socket).stall_timeout(Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = timeout;
        self
    }

    /// Returns the writer.
    ///
    /// ```
    /// use nettrace_writer::sink::{Sink, StreamEnd, StreamSink};
    ///
    /// let mut sink = StreamSink::new(Vec::new());
    /// sink.start(b"header ", StreamEnd::new(b"end"))?;
    /// sink.finish()?;
    /// assert_eq!(sink.into_inner(), b"header end");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// Writes all of it. An error comes with the number of bytes that were written.
    fn write_all(&mut self, mut rest: BatchCursor<'_>) -> Result<(), (io::Error, u64)> {
        let mut done = 0;
        let mut window = [IoSlice::new(&[]); WINDOW];
        let mut wait = WriteWait::new(self.stall_timeout, self.stalled);
        while !rest.is_empty() {
            let used = rest.fill(&mut window);
            match self.writer.write_vectored(&window[..used]) {
                Ok(0) => return Err((ErrorKind::WriteZero.into(), done)),
                Ok(count) => {
                    rest.advance(count);
                    done += count as u64;
                    self.stalled = false;
                    wait = WriteWait::new(self.stall_timeout, false);
                }
                Err(error) => wait.after(error).map_err(|error| {
                    self.stalled = error.kind() == ErrorKind::TimedOut;
                    (error, done)
                })?,
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut wait = WriteWait::new(self.stall_timeout, self.stalled);
        loop {
            match self.writer.flush() {
                Ok(()) => return Ok(()),
                Err(error) => wait.after(error)?,
            }
        }
    }

    /// Writes a header or an end of stream. If that fails the stream is over.
    fn send(&mut self, bytes: &[u8], action: &str) -> io::Result<()> {
        let sent = self.complete_block().and_then(|()| {
            self.write_all(BatchCursor::new(&[], bytes)).map_err(|(error, _)| error)?;
            self.flush()
        });
        sent.map_err(|source| {
            let error = during(action, source);
            self.state = StreamSinkState::Failed(Failure::of(&error));
            error
        })
    }

    /// Writes the rest of a block of which a part is written.
    fn complete_block(&mut self) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        let written = self.write_all(BatchCursor::new(&[], &rest));
        written.map_err(|(error, done)| {
            rest.drain(..done as usize);
            self.rest = rest;
            error
        })
    }

    fn write_batch(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.complete_block().map_err(|source| WriteError { source, kept: 0 })?;
        self.write_all(BatchCursor::new(batch.pieces, &[])).map_err(|(source, done)| {
            let whole = batch.block_ends.partition_point(|&end| end <= done);
            let end_of = |blocks: usize| blocks.checked_sub(1).map_or(0, |at| batch.block_ends[at]);
            let mut kept = end_of(whole);
            if done > kept && !is_final(&source) {
                // `done` is less than the size of the batch, so another block follows the whole
                // ones.
                kept = end_of(whole + 1);
                self.rest = range(batch.pieces, done, kept);
            }
            WriteError { source, kept }
        })?;
        self.flush().map_err(|source| {
            // A writer can still write what it has accepted, unless the error is final. Then it is
            // unknown what it has done with the bytes.
            let size = batch.block_ends.last().copied().unwrap_or(0);
            let kept = if is_final(&source) { 0 } else { size };
            WriteError { source, kept }
        })
    }
}

impl StreamSink<File> {
    /// A sink for the process's standard output, on a descriptor of its own. What the program
    /// prints through `io::stdout()` would end up between the trace's bytes. So print to standard
    /// error while the session runs.
    ///
    /// # Errors
    /// The system's error if the descriptor cannot be duplicated.
    ///
    /// ```no_run
    /// use nettrace_writer::{Session, sink::StreamSink};
    ///
    /// // service | nettrace dump -
    /// let session = Session::builder().sink(StreamSink::stdout()?).start()?;
    /// # session.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stdout() -> io::Result<Self> {
        let descriptor = duplicate_stdout()
            .map_err(|source| during("cannot take over standard output for a trace", source))?;
        Ok(Self::new(descriptor))
    }
}

impl<W: Write + Send> Sink for StreamSink<W> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.finish()?;
        check_end_of_stream(end.bytes())?;
        self.end_of_stream = end.bytes();
        self.send(header, "cannot write the trace's header to its stream")?;
        self.state = StreamSinkState::Open;
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        match &self.state {
            StreamSinkState::Open => {}
            StreamSinkState::Closed => return Err(WriteError { source: not_started(), kept: 0 }),
            StreamSinkState::Failed(failure) => {
                return Err(WriteError { source: failure.again(), kept: 0 });
            }
        }
        batch_size(batch, self.end_of_stream)?;
        self.write_batch(batch).map_err(|WriteError { source, kept }| {
            let source = during("cannot write the trace to its stream", source);
            if is_final(&source) {
                self.state = StreamSinkState::Failed(Failure::of(&source));
            }
            WriteError { source, kept }
        })
    }

    fn is_torn(&self) -> bool {
        !self.rest.is_empty()
    }

    fn finish(&mut self) -> io::Result<()> {
        match &self.state {
            StreamSinkState::Closed => Ok(()),
            StreamSinkState::Failed(failure) => Err(failure.again()),
            StreamSinkState::Open => {
                self.send(self.end_of_stream, "cannot write the trace's end to its stream")?;
                self.state = StreamSinkState::Closed;
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

/// The bytes `from..to` of the pieces.
fn range(pieces: &[IoSlice<'_>], from: u64, to: u64) -> Vec<u8> {
    let mut cursor = BatchCursor::new(pieces, &[]);
    cursor.advance(from as usize);
    let mut bytes = vec![0; (to - from) as usize];
    cursor.take(&mut bytes);
    bytes
}

pub(super) fn not_started() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a sink takes batches only after `start`")
}

/// Sleeps for `time`.
pub(super) fn pause(time: Duration) {
    crate::sync::thread::sleep(time);
}

/// Waits for a destination that is full, up to a limit.
#[derive(Debug)]
struct WriteWait {
    timeout: Duration,
    /// Whether an earlier write has waited in vain.
    in_vain: bool,
    since: Option<Instant>,
    pause: Duration,
}

impl WriteWait {
    fn new(timeout: Duration, in_vain: bool) -> Self {
        Self { timeout, in_vain, since: None, pause: PAUSES.0 }
    }

    /// Returns when the failed call is worth another try. Passes on an error that waiting does not
    /// help.
    fn after(&mut self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            ErrorKind::Interrupted => return Ok(()),
            ErrorKind::WouldBlock => {}
            _ => return Err(error),
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.timeout.checked_sub(since.elapsed()).filter(|_| !self.in_vain);
        let Some(left) = left else {
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
