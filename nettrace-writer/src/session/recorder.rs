//! Flight recorders: sessions that keep the last events in memory, and write them when asked.

use std::{sync::Arc, time::SystemTime};

use nettrace_format::redact::Redaction;

use crate::{
    process::reserved,
    protocol::clock::Stopwatch,
    session::{
        Session,
        builder::SessionBuilder,
        flush,
        triggers::{DumpCounts, Trigger, Triggers, Watch},
    },
    shared::{Shared, error::Error, local},
    sink::{
        Sink,
        ring::{Dump, Keep, Past, Ring, RingSink},
    },
};

/// Starts what writes dumps. The code is known by its address alone, so that an application without
/// triggers does not contain it.
pub(crate) type StartWatch =
    Box<dyn FnOnce(Recorder, Option<Redaction>) -> Result<Watch, Error> + Send + Sync>;

/// A session that keeps the last events, as seen by those who make dumps.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) ring: Arc<Ring>,
    pub(crate) shared: Arc<Shared>,
}

impl Recorder {
    /// Writes what is kept. `asked` is when somebody asked for it.
    pub(crate) fn dump(
        &self,
        past: Past,
        sink: &mut dyn Sink,
        key_values: &[(&str, &str)],
        asked: SystemTime,
    ) -> Result<Dump, Error> {
        let since = Stopwatch::start();
        flush(&self.shared)?;
        let past = match past {
            // Counted from when it was asked for.
            Past::Last(time) => Past::Last(time.saturating_add(since.elapsed())),
            past => past,
        };
        let snapshot = local::holding_locks(|| self.ring.snapshot(past));
        let snapshot = snapshot.ok_or(Error::InSignalHandler)?.map_err(Error::Sink)?;
        snapshot.write(sink, key_values, asked).map_err(Error::Sink)
    }
}

impl SessionBuilder {
    /// Keeps the last events in memory instead of writing them: a *flight recorder*.
    /// [`Session::dump`] writes what is there. Until then a service can be left on for months and
    /// writes nothing.
    ///
    /// An event costs what it always costs. The session's thread moves events from the threads'
    /// buffers to where they are kept, in the form of the trace, once in each
    /// [flush interval](Self::flush_interval). The oldest are given up when they are older than
    /// [`Keep::last`] says, or when there is no room: those of about a second at once.
    ///
    /// What is kept dies with the process, unless it is [persistent](Self::persistent).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use nettrace_writer::{Emit, Keep, Session, TraceEvent, sink::FileSink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop")]
    /// struct Answered {
    ///     status: u16,
    /// }
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let keep = Keep::last(Duration::from_secs(10)).within(32 << 20);
    /// let session = Session::builder().flight_recorder(keep).provider("Contoso-Shop").start()?;
    /// Answered { status: 500 }.emit();
    /// let dump = session.dump(FileSink::new(directory.join("slow.nettrace")))?;
    /// assert_eq!((dump.events, dump.given_up), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The session's format must be [version 6](crate::Format::V6), the default. Otherwise
    /// [`start`](Self::start) fails.
    pub fn flight_recorder(mut self, keep: Keep) -> Self {
        let ring = Ring::new(keep);
        self = self.sink(RingSink(Arc::clone(&ring)));
        self.ring = Some(ring);
        self
    }

    /// When the [flight recorder](Self::flight_recorder) writes dumps by itself, and where.
    ///
    /// See [`Triggers`] for an example.
    pub fn triggers(mut self, triggers: Triggers) -> Self {
        self.triggers =
            Some(Box::new(|recorder, redaction| Watch::start(triggers, recorder, redaction)));
        self
    }
}

impl Session {
    /// Writes to `sink` what a [flight recorder](SessionBuilder::flight_recorder) has kept: a
    /// complete trace with every event that was recorded before the call, back to
    /// [`Dump::begins`]. Threads that emit go on undisturbed. What they record meanwhile is in the
    /// next dump, which also repeats what is still there.
    ///
    /// The trace has a key-value `nettrace.given_up`: how many events the recorder had given up.
    /// Readers see a gap in the numbers of each thread there, and count these events as lost,
    /// except those of threads that ended before.
    ///
    /// # Errors
    ///
    /// - [`Error::NoRecorder`]: the session is not a flight recorder.
    /// - [`Error::Sink`]: `sink` fails. What is kept stays.
    /// - Those of [`flush`](Self::flush).
    ///
    /// See [`flight_recorder`](SessionBuilder::flight_recorder) for an example.
    pub fn dump(&self, sink: impl Sink) -> Result<Dump, Error> {
        self.dump_with(sink, &[])
    }

    /// [`dump`](Self::dump) with key-values more, which say why the trace was written. Keys that
    /// the session states itself are moved aside, as those of
    /// [`key_value`](SessionBuilder::key_value).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use nettrace_writer::{Keep, Session, sink::MemorySink};
    ///
    /// let session = Session::builder().flight_recorder(Keep::last(Duration::from_secs(5)));
    /// let session = session.start()?;
    /// let memory = MemorySink::new();
    /// session.dump_with(memory.clone(), &[("reason", "the queue is full")])?;
    /// let bytes = memory.bytes();
    /// let reader = nettrace_reader::Reader::new(&bytes[..])?;
    /// assert_eq!(reader.trace().value("reason"), Some("the queue is full"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`dump`](Self::dump).
    pub fn dump_with(&self, sink: impl Sink, key_values: &[(&str, &str)]) -> Result<Dump, Error> {
        self.dump_past(Past::All, sink, key_values)
    }

    /// [`dump_with`](Self::dump_with) of a part of what is kept: the last seconds, or what a dump
    /// before does not have. The key-value `nettrace.left_out` says how many events are left out
    /// that are kept.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use nettrace_writer::{Emit, Keep, Past, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs-Past")]
    /// struct Answered {
    ///     status: u16,
    /// }
    ///
    /// let session = Session::builder().flight_recorder(Keep::last(Duration::from_secs(60)));
    /// let session = session.provider("Docs-Past").start()?;
    /// Answered { status: 200 }.emit();
    /// let first = session.dump_past(Past::All, MemorySink::new(), &[])?;
    /// Answered { status: 500 }.emit();
    /// let second = session.dump_past(Past::After(first), MemorySink::new(), &[])?;
    /// assert_eq!((first.events, second.events, second.left_out), (1, 1, 1));
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`dump`](Self::dump).
    pub fn dump_past(
        &self,
        past: Past,
        mut sink: impl Sink,
        key_values: &[(&str, &str)],
    ) -> Result<Dump, Error> {
        let recorder = self.inner.recorder.as_ref().ok_or(Error::NoRecorder)?;
        self.inner.check_caller()?;
        let given = reserved::given_keys(key_values);
        let given: Vec<_> = given.iter().map(|(key, value)| (&**key, *value)).collect();
        recorder.dump(past, &mut sink, &given, SystemTime::now())
    }

    /// A trigger of this name, which makes the session's [triggers](SessionBuilder::triggers) write
    /// a dump.
    ///
    /// See [`Triggers`] for an example.
    #[must_use]
    pub fn trigger(&self, name: &str) -> Trigger {
        Trigger::new(self.inner.watch.as_ref().map(|watch| Arc::clone(&watch.control)), name)
    }

    /// How many dumps the session's [triggers](SessionBuilder::triggers) have made, and the last
    /// of them.
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// assert_eq!(session.dump_counts().written, 0);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn dump_counts(&self) -> DumpCounts {
        let watch = self.inner.watch.as_ref();
        let counts = watch.and_then(|watch| local::holding_locks(|| watch.control.counts()));
        counts.unwrap_or_default()
    }
}
