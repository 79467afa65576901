//! Finds the flight recorders of the process, for a client that follows one.

use std::{
    io,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use crate::{
    flusher::OwnThread,
    process::generation,
    session::{Session, flush_within, recorder::Recorder, redactions::knows_all},
    shared::{
        Shared,
        channel::{self, Receiver},
        error::Error,
        locks, sessions,
    },
    sink::{
        Sink,
        ring::{
            Dump, Past,
            follow::{Follower, Queue},
        },
    },
};

/// Time that the end of a stream waits for the events that no round has seen yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// A [flight recorder](crate::SessionBuilder::flight_recorder), for parts of the program that do
/// not have its [`Session`].
///
/// ```
/// use std::time::Duration;
///
/// use nettrace_writer::{
///     Emit, FlightRecorder, Keep, Past, Session, TraceEvent, sink::MemorySink,
/// };
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs-Follow")]
/// struct Answered {
///     status: u16,
/// }
///
/// let session = Session::builder().flight_recorder(Keep::last(Duration::from_secs(60)));
/// let session = session.provider("Docs-Follow").start()?;
/// Answered { status: 200 }.emit();
/// // Somewhere else in the program:
/// let recorder = FlightRecorder::find().expect("there is a session that is one");
/// let memory = MemorySink::new();
/// let following = recorder.follow(Past::All, memory.clone())?;
/// Answered { status: 500 }.emit();
/// assert_eq!(following.finish()?.events, 2);
/// assert!(memory.bytes().starts_with(b"Nettrace"));
/// # session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlightRecorder {
    recorder: Recorder,
    generation: u32,
}

impl FlightRecorder {
    fn new(recorder: Recorder) -> Self {
        Self { recorder, generation: generation() }
    }

    /// A flight recorder of this process. Of several, the one that began first.
    ///
    /// `None`: no session is one, or this is a signal handler that interrupted this crate while it
    /// held a lock.
    ///
    /// See [`FlightRecorder`] for an example.
    #[must_use]
    pub fn find() -> Option<Self> {
        let mut live = locks::holding_locks(sessions::live)?;
        live.sort_by_key(|(begun, _)| *begun);
        live.into_iter().find_map(|(_, shared)| {
            let recorder = Recorder { ring: shared.ring.upgrade()?, shared };
            Some(Self::new(recorder))
        })
    }

    /// Whether its session keeps out all values that the process [keeps out](
    /// crate::SessionBuilder::redact) of traces that begin now. Otherwise names came after it
    /// began.
    #[must_use]
    pub fn knows_redactions(&self) -> bool {
        knows_all(self.recorder.shared.redactions)
    }

    /// Writes to `sink` what is kept, and then all that the session records, until
    /// [`finish`](Following::finish) or until the session ends: one complete trace. A thread of its
    /// own writes. Returns when the sink has been started.
    ///
    /// If the sink takes so little that more bytes wait for it than the recorder keeps, the trace
    /// breaks off, and `finish` returns the error. Until then what waits stays in memory, also if
    /// the recorder has given it up. At most 16 traces can be written at once.
    ///
    /// See [`FlightRecorder`] for an example.
    ///
    /// # Errors
    ///
    /// - [`Error::Sink`]: the sink cannot be started, or the session has ended.
    /// - [`Error::Thread`]: no thread can be started.
    /// - [`Error::Forked`], [`Error::InSignalHandler`]: this cannot be called there.
    pub fn follow(&self, past: Past, mut sink: impl Sink + 'static) -> Result<Following, Error> {
        if self.generation != generation() {
            return Err(Error::Forked);
        }
        let Recorder { ring, shared } = &self.recorder;
        let followed = locks::holding_locks(|| ring.follow(past));
        let (snapshot, follower) = followed.ok_or(Error::InSignalHandler)?.map_err(Error::Sink)?;
        let dump = Follower::begin(&snapshot, &mut sink).map_err(Error::Sink)?;
        let queue = follower.queue();
        let (reporter, result) = channel::bounded(1);
        let write = move || {
            // If nobody asks any more, nobody needs it.
            let _ = reporter.send(follower.write(snapshot, &mut sink, dump));
        };
        OwnThread::start(c"nettrace-follow", write).map_err(Error::Thread)?;
        let shared = Arc::downgrade(shared);
        Ok(Following { shared, queue, generation: generation(), result: Some(result) })
    }
}

impl Session {
    /// The session as a [flight recorder](crate::SessionBuilder::flight_recorder), if it is one.
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// assert!(session.as_flight_recorder().is_none());
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn as_flight_recorder(&self) -> Option<FlightRecorder> {
        self.inner.recorder.clone().filter(|_| self.inner.slot.is_ours()).map(FlightRecorder::new)
    }
}

/// A trace that [`FlightRecorder::follow`] writes. If this is dropped the trace ends as well, but
/// nobody waits for that.
#[derive(Debug)]
#[must_use = "the trace ends when this is dropped"]
pub struct Following {
    shared: Weak<Shared>,
    queue: Arc<Queue>,
    /// Of the process that has the thread, and not of one that was forked from it.
    generation: u32,
    /// `None`: it has gone.
    result: Option<Receiver<io::Result<Dump>>>,
}

impl Following {
    /// Ends the trace: it has every event that was recorded before this call. Waits until the sink
    /// has all of it.
    ///
    /// See [`FlightRecorder`] for an example.
    ///
    /// # Errors
    ///
    /// - [`Error::Sink`]: the sink has failed, or has taken too little. Or the recorder had no room
    ///   for what later events refer to, and has begun anew.
    /// - [`Error::FlusherDied`]: the sink has panicked.
    /// - [`Error::Forked`]: the trace is one of the process that this one was forked from.
    pub fn finish(mut self) -> Result<Dump, Error> {
        if self.generation != generation() {
            return Err(Error::Forked);
        }
        let asked = SystemTime::now();
        if let Some(shared) = self.shared.upgrade() {
            flush_within(&shared, PATIENCE);
        }
        self.queue.end(Ok(asked));
        let result = self.result.take().and_then(|result| result.recv().ok());
        let result = result.ok_or(Error::FlusherDied)?;
        result.map_err(Error::Sink)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // In the child of a fork a thread of the parent may hold the locks for ever.
        if self.generation == generation() {
            self.queue.end(Ok(SystemTime::now()));
        } else {
            std::mem::forget(self.result.take());
        }
    }
}
