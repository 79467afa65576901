//! The counts of a session.

use std::{fmt, io};

pub use nettrace_format::LeftOut;

pub use crate::protocol::record::Drops;

/// The counts of a session since its start, over all threads, including threads that have ended.
///
/// While events are being emitted, the counts are taken at slightly different moments. Once the
/// session has finished, `attempted == written + dropped()` holds exactly. The trace agrees:
/// its sequence numbers show readers that as many events are missing.
///
/// ```
/// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs-Stats")]
/// struct Uploaded<'a> {
///     data: &'a [u8],
/// }
///
/// let session = Session::builder().sink(MemorySink::new()).provider("Docs-Stats").start()?;
/// Uploaded { data: b"small" }.emit();
/// Uploaded { data: &[0; 70_000] }.emit(); // more than a trace can hold
/// let stats = session.finish()?;
/// assert_eq!((stats.attempted, stats.written, stats.dropped()), (2, 1, 1));
/// assert_eq!(stats.drops.too_large, 1);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Events that were emitted while the session listened to their type, but for those that are
    /// [`sampled_out`](Self::sampled_out).
    pub attempted: u64,
    /// Spans and events that were not recorded because their trees were [sampled
    /// out](crate::Sampling). They do not count as attempted.
    pub sampled_out: SampledOut,
    /// Events that the sink has taken.
    pub written: u64,
    /// Events that were not recorded, by reason. [`dropped`](Self::dropped) counts these and the
    /// events that were recorded but are not in the sink.
    pub drops: Drops,
    /// Events that were recorded, but that the sink failed to take (disk full, closed pipe).
    pub lost_in_sink: u64,
    /// Calls of the sink that failed. If the error [may
    /// pass](crate::sink::Sink#errors-that-pass-and-errors-that-are-final), the session tries
    /// again, and the trace goes on.
    pub sink_errors: u64,
    /// The error of the last of those calls.
    pub last_sink_error: Option<SinkError>,
    /// Events that were recorded, but are too large for the trace's [format](crate::Format). Always
    /// 0 for version 6.
    pub not_in_format: u64,
    /// Parts of events, threads and types that the format cannot express. All 0 for version 6.
    pub left_out: LeftOut,
    /// Bytes that the sink has taken.
    pub bytes: u64,
    /// The number of times the flusher has collected events.
    pub flushes: u64,
    /// Sequence points written.
    pub sequence_points: u64,
    /// Threads that emitted to the session.
    pub threads: u64,
    /// Whether each event costs a memory fence. The order of events needs one if the system has no
    /// `membarrier`, or if a system call filter has forbidden it since the session started.
    pub pays_fences: bool,
    /// Bytes of buffer memory that have been used at least once.
    pub memory_touched: u64,
}

/// Counts of what sampling left out: see [`Sampling`](crate::Sampling).
///
/// ```
/// use nettrace_writer::{Emit, Sampling, Session, TraceEvent, TraceSpan, sink::MemorySink};
///
/// #[derive(TraceSpan)]
/// #[trace_event(provider = "Docs-Sampled", sample = Sampling::never())]
/// struct Request;
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs-Sampled")]
/// struct Answered;
///
/// let session = Session::builder().sink(MemorySink::new()).provider("Docs-Sampled").start()?;
/// let request = Request.enter();
/// Answered.emit();
/// drop(request);
/// let stats = session.finish()?;
/// assert_eq!((stats.sampled_out.spans, stats.sampled_out.events), (1, 1));
/// assert_eq!((stats.attempted, stats.written), (0, 0));
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampledOut {
    /// Spans to whose Start the session listened: events with the opcode Start that were left out.
    /// Events with the opcodes Stop, Resume and Suspend count nowhere, because their span counts.
    pub spans: u64,
    /// Other events inside of such spans.
    pub events: u64,
}

impl SampledOut {
    pub(crate) fn add(&mut self, other: Self) {
        self.spans += other.spans;
        self.events += other.events;
    }
}

/// Starts and other events.
impl From<[u64; 2]> for SampledOut {
    fn from([spans, events]: [u64; 2]) -> Self {
        Self { spans, events }
    }
}

/// The kind and code of an error of a sink. [`Session::flush`](crate::Session::flush) and
/// [`Session::finish`](crate::Session::finish) return the error with its message.
///
/// ```
/// use std::io::ErrorKind;
///
/// use nettrace_writer::{Session, sink::MemorySink};
///
/// let session = Session::builder().sink(MemorySink::with_limit(1_000)).start()?;
/// match session.stats().last_sink_error {
///     Some(error) if error.kind == ErrorKind::StorageFull => println!("the trace is full"),
///     Some(error) => println!("the sink fails: {error}"),
///     None => println!("the sink has never failed"),
/// }
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkError {
    /// The kind of the error.
    pub kind: io::ErrorKind,
    /// The operating system's error code, such as 28 for a full disk on Linux. `None` if the error
    /// does not come from the operating system.
    pub code: Option<i32>,
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}

impl Stats {
    /// Events that were recorded and are neither written nor lost yet: `attempted - written -
    /// dropped()`. This is 0 once the session has finished, unless finishing [took too
    /// long](crate::Error::FinishTimeout).
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// session.flush()?;
    /// assert_eq!(session.stats().pending(), 0);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.attempted.saturating_sub(self.written + self.dropped())
    }

    /// All events that were attempted and are not in the trace. They were [not
    /// recorded](Self::drops), the [sink lost them](Self::lost_in_sink), or the [format cannot hold
    /// them](Self::not_in_format).
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let stats = session.finish()?;
    /// let lost = stats.drops.total() + stats.lost_in_sink + stats.not_in_format;
    /// assert_eq!(stats.dropped(), lost);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.total() + self.lost_in_sink + self.not_in_format
    }
}
