//! Dumps of a flight recorder, as the application asks for them.

use std::{sync::Arc, time::SystemTime};

use crate::{
    process::reserved,
    session::{
        Session,
        triggers::control::{DumpCounts, Trigger},
    },
    shared::{error::Error, locks},
    sink::{
        Sink,
        ring::{Dump, Past},
    },
};

impl Session {
    /// Writes to `sink` what a [flight recorder](crate::SessionBuilder::flight_recorder) has kept: a
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
    /// See [`flight_recorder`](crate::SessionBuilder::flight_recorder) for an example.
    pub fn dump(&self, sink: impl Sink) -> Result<Dump, Error> {
        self.dump_with(sink, &[])
    }

    /// [`dump`](Self::dump) with key-values more, which say why the trace was written. Keys that
    /// the session states itself are moved aside, as those of
    /// [`key_value`](crate::SessionBuilder::key_value).
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

    /// A trigger of this name, which makes the session's
    /// [triggers](crate::SessionBuilder::triggers) write a dump.
    ///
    /// See [`Triggers`](crate::Triggers) for an example.
    #[must_use]
    pub fn trigger(&self, name: &str) -> Trigger {
        Trigger::new(self.inner.watch.as_ref().map(|watch| Arc::clone(&watch.control)), name)
    }

    /// The number of dumps that the session's [triggers](crate::SessionBuilder::triggers) have
    /// made, and the last of them.
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
        let counts = watch.and_then(|watch| locks::holding_locks(|| watch.control.counts()));
        counts.unwrap_or_default()
    }
}
