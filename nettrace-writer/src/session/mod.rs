//! A session: the handle that the application holds while a trace is being recorded.

pub(crate) mod builder;
mod conditions;
mod dump;
pub(crate) mod following;
pub(crate) mod health;
mod low_memory;
mod memory;
mod output;
mod recorder;
pub(crate) mod redactions;
pub(crate) mod triggers;

use std::{
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use nettrace_format::Format;

use crate::{
    emit,
    flusher::{Flusher, NewTrace, OwnThread, Report, Schedule, notice::Notices},
    protocol::{clock::Source, pool::Layout},
    session::{builder::SessionBuilder, memory::Memory, recorder::Recorder, triggers::DumpThread},
    shared::{
        Command, Shared,
        channel::{self, Receiver, RecvError},
        describes,
        error::Error,
        filter::ProviderFilter,
        locks,
        persistent::Recovered,
        sessions::{self, Slot},
        stats::Stats,
        trace_ids::Ids,
        warning::{self, Warning},
    },
};

/// A trace that is being recorded, from [`SessionBuilder::start`] to [`finish`](Self::finish).
///
/// Dropping a session finishes it as well, but discards errors.
///
/// The handle is `Send` and `Sync`, so threads can share a reference to it, for example to flush or
/// to read the counts. Emitting needs no handle.
///
/// ```
/// use std::thread;
///
/// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Answered {
///     micros: u64,
/// }
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// thread::scope(|scope| {
///     for micros in [180, 250] {
///         let session = &session;
///         scope.spawn(move || {
///             Answered { micros }.emit();
///             session.flush()
///         });
///     }
/// });
/// assert_eq!(session.finish()?.written, 2);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a session that is dropped at once records nothing; keep it in a variable (`let _ = \
              …` drops it too)"]
pub struct Session {
    inner: ManuallyDrop<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    flusher: OwnThread,
    report: Receiver<Report>,
    finish_timeout: Duration,
    path: Option<PathBuf>,
    /// The variable of the environment that has the filters.
    filters_from: Option<String>,
    /// The memory and the state of a flight recorder, and its triggers.
    recorder: Option<Recorder>,
    watch: Option<Box<DumpThread>>,
    /// The remains of the process before.
    #[cfg_attr(not(feature = "persistent"), allow(dead_code, reason = "for recorder files"))]
    recovered: Option<Recovered>,
}

/// Makes a session of this process write everything that was emitted before. Its own thread must
/// not ask for that.
fn flush(shared: &Shared) -> Result<(), Error> {
    let (done, answer) = channel::bounded(1);
    locks::holding_locks(|| {
        let sent = shared.send(Command::Flush(done));
        let answer = sent.then(|| answer.recv().ok()).flatten().ok_or(Error::FlusherDied)?;
        answer.map_or(Ok(()), Err)
    })
    .unwrap_or(Err(Error::InSignalHandler))
}

/// The same, but waits for `patience` at most.
fn flush_within(shared: &Shared, patience: Duration) {
    let begun = Instant::now();
    let (done, answer) = channel::bounded(1);
    if shared.send_within(Command::Flush(done), patience) {
        let _ = answer.recv_timeout(patience.saturating_sub(begun.elapsed()));
    }
}

impl Session {
    /// A builder, which has a default for everything except the sink.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop")]
    /// struct Checkout<'a> {
    ///     user: u64,
    ///     item: &'a str,
    /// }
    ///
    /// let memory = MemorySink::new();
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// Checkout { user: 42, item: "tea" }.emit();
    /// let stats = session.finish()?;
    /// assert_eq!((stats.attempted, stats.written), (1, 1));
    /// assert!(memory.bytes().starts_with(b"Nettrace"));
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new()
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) fn start(mut builder: SessionBuilder) -> Result<Self, Error> {
        builder.redactions.share();
        let layout = check(&mut builder)?;
        let (sink, path) = builder.output.build()?;
        let key_values = builder.all_key_values();
        // A flight recorder keeps version 6, and its dumps have the format.
        let keeps_blocks = builder.output.ring.is_some();
        let format = if keeps_blocks { Format::V6 } else { builder.format };
        let (stage, redaction) = builder.redactions.build(format);
        let schedule = schedule(&builder, &layout);
        let is_v6 = builder.format == Format::V6;
        let ids = if sink.takes_rows_apart() || !is_v6 { Ids::Both } else { builder.ids };
        let source = source(&builder)?;
        let slot = Arc::new(Slot::take(emit::attach)?);
        let (commands, inbox) = channel::bounded(64);
        let Memory { pool, persistent, recovered } =
            builder.memory.build(layout, builder.output.ring.as_ref())?;
        let mut shared = Shared::new(
            slot.number(),
            builder.format,
            (pool, persistent),
            source,
            builder.on_full,
            builder.providers,
            commands,
        );
        let ring = builder.output.ring.take();
        shared.ring = ring.as_ref().map_or_else(Weak::new, Arc::downgrade);
        shared.redactions = builder.redactions.known;
        sessions::known_types(slot.number()).into_iter().for_each(|it| shared.add_known_type(it));
        let shared = Arc::new(shared);
        // The thread comes first: if there can be none, the sink is not started, and makes no file.
        let (reporter, report) = channel::bounded(1);
        let (hand_over, handed_over) = channel::bounded(1);
        let thread = Flusher::spawn(handed_over, reporter).map_err(Error::Thread)?;
        let flusher = Flusher::start(
            Arc::clone(&shared),
            Arc::clone(&slot),
            sink,
            inbox,
            schedule,
            NewTrace { stage, ids, key_values },
            Notices::new(builder.on_sink_change.take()),
        )?;
        // The thread waits for it.
        let _ = hand_over.send(flusher);
        slot.listen(&shared);
        if let Some(file) = &shared.persistent {
            file.has_begun();
        }
        let inner = Inner {
            recorder: ring.map(|ring| Recorder { ring, shared: Arc::clone(&shared) }),
            shared,
            slot,
            flusher: thread,
            report,
            finish_timeout: builder.finish_timeout,
            path,
            filters_from: builder.filters_from.take(),
            watch: None,
            recovered,
        };
        let mut session = Self { inner: ManuallyDrop::new(inner) };
        // If its thread cannot begin, the session ends here.
        if let (Some(start), Some(recorder)) = (builder.triggers, &session.inner.recorder) {
            session.inner.watch = Some(Box::new(start(recorder.clone(), redaction)?));
        }
        Ok(session)
    }

    /// Writes everything that was emitted before the call. Returns when the sink has it.
    ///
    /// # Errors
    ///
    /// - [`Error::Sink`]: the sink fails now. If the error [may
    ///   pass](crate::sink::Sink#errors-that-pass-and-errors-that-are-final), the session tries
    ///   again later, and the next flush reports whether that succeeded. Events that are lost until
    ///   then are counted, and the trace shows them as a gap.
    /// - [`Error::FlusherDied`]: the sink has panicked.
    /// - [`Error::Forked`], [`Error::InSignalHandler`], [`Error::InOwnSink`]: the method cannot be
    ///   called there.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs-Flush")]
    /// struct Saved {
    ///     bytes: u64,
    /// }
    ///
    /// let session = Session::builder().sink(MemorySink::new()).provider("Docs-Flush").start()?;
    /// Saved { bytes: 4_096 }.emit();
    /// session.flush()?;
    /// assert_eq!(session.stats().written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn flush(&self) -> Result<(), Error> {
        self.inner.check_caller()?;
        flush(&self.inner.shared)
    }

    /// Like [`flush`](Self::flush), but waits for `patience` at most.
    pub(crate) fn flush_within(&self, patience: Duration) {
        if self.inner.check_caller().is_ok() {
            flush_within(&self.inner.shared, patience);
        }
    }

    /// Changes which events the session records. The new filters replace the old ones. An empty
    /// list selects nothing.
    ///
    /// The filters apply to every thread and to every event type, including types that register
    /// later. An [`emit`](crate::Emit::emit) that begins after this call has returned uses the new
    /// filters. An emit that runs on another thread during the call uses the old or the new ones;
    /// it records its event as a whole or not at all. Events that were recorded before stay in the
    /// trace. The cost of an emit does not change.
    ///
    /// ```
    /// use nettrace_writer::{Emit, ProviderFilter, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop", level = Verbose)]
    /// struct Looked {
    ///     item: u64,
    /// }
    ///
    /// let session = Session::builder().sink(MemorySink::new()).provider("Fabrikam-*").start()?;
    /// Looked { item: 1 }.emit();
    /// session.set_providers(ProviderFilter::parse_list("Fabrikam-*,Contoso-Shop::Verbose")?)?;
    /// Looked { item: 2 }.emit();
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Forked`], [`Error::InSignalHandler`], and [`Error::FlusherDied`] if the session's
    /// thread has died.
    pub fn set_providers<F: Into<ProviderFilter>>(
        &self,
        filters: impl IntoIterator<Item = F>,
    ) -> Result<(), Error> {
        if !self.inner.slot.is_ours() {
            return Err(Error::Forked);
        }
        let filters = filters.into_iter().map(Into::into).collect();
        match sessions::set_filters(&self.inner.shared, filters) {
            Some(true) => Ok(()),
            Some(false) => Err(Error::FlusherDied),
            None => Err(Error::InSignalHandler),
        }
    }

    /// Conditions that the application probably does not want: filters that have selected nothing
    /// so far, names that redact nothing, event types that were refused, a sink that fails. The
    /// order is not specified. The list is empty if all is well.
    ///
    /// The list describes the moment of the call. An event type is known only from its first event
    /// on. So ask after the service has done some work, and again later, or
    /// [`register`](crate::SessionBuilder::register) the types at the start.
    ///
    /// The list is empty in the child of a `fork`, which has no session, and in a signal handler
    /// that interrupted this crate while it held a lock.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, Warning, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered {
    ///     micros: u64,
    /// }
    ///
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.provider("Contoso-Chekout").start()?;
    /// Answered { micros: 180 }.emit();
    /// for warning in session.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// // "the filter `Contoso-Chekout` selects no provider that is known so far; known are
    /// // Contoso-Checkout"
    /// assert!(matches!(session.warnings()[0], Warning::UnknownProvider { .. }));
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        if !self.inner.slot.is_ours() {
            return Vec::new();
        }
        locks::holding_locks(|| warning::warnings(&self.inner.shared)).unwrap_or_default()
    }

    /// The counts so far. While events are being emitted, the counts are taken at slightly
    /// different moments. In the child of a `fork` they are all 0.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let stats = session.stats();
    /// let (waiting, dropped) = (stats.pending(), stats.dropped());
    /// println!("{} written, {waiting} waiting, {dropped} dropped", stats.written);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        if !self.inner.slot.is_ours() {
            // In the child of a fork a lock may be held by a thread that no longer exists.
            return Stats::default();
        }
        self.inner.shared.stats()
    }

    /// The path of the trace, if the builder was given a [`file`](SessionBuilder::file). The path
    /// is absolute, and its placeholders are replaced by their values.
    ///
    /// ```
    /// use nettrace_writer::Session;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let session = Session::builder().file(directory.join("service-{pid}.nettrace")).start()?;
    /// let name = format!("service-{}.nettrace", std::process::id());
    /// assert_eq!(session.path(), Some(&*directory.join(name)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Counts `count` events as if the calling thread, which has emitted before, had dropped them.
    /// For this crate's tests of sequence numbers beyond 2^32.
    #[cfg(feature = "__test_hooks")]
    #[doc(hidden)]
    pub fn pretend_dropped(&self, count: u64) {
        crate::shared::local::pretend_dropped(self.inner.slot.number(), count);
    }

    /// Ends the session: stops listening, writes what is left, and ends the stream. The returned
    /// counts are final and exact.
    ///
    /// # Errors
    ///
    /// An error says what keeps the trace from being complete at its end. The trace is readable as
    /// far as it was written, and [`finish_with_stats`](Self::finish_with_stats) returns the
    /// counts.
    ///
    /// - [`Error::Sink`]: the sink still fails. Or it has failed, and the trace cannot tell what
    ///   was lost: in versions 4 and 5 a stream tells losses only if it has an event.
    /// - [`Error::FinishTimeout`]: the sink blocks.
    /// - [`Error::Format`]: the format cannot hold something.
    /// - [`Error::FlusherDied`]: the sink has panicked.
    /// - [`Error::Forked`], [`Error::InOwnSink`]: the method cannot be called there.
    ///
    /// It is no error if the sink failed for a while and has taken everything since. The trace
    /// shows what it lacks, and [`Stats::lost_in_sink`] and [`Stats::sink_errors`] count it. It is
    /// no error either if events were dropped because memory was full.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let stats = session.finish()?;
    /// assert_eq!(stats.attempted, stats.written + stats.dropped());
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn finish(self) -> Result<Stats, Error> {
        let (stats, result) = self.finish_with_stats();
        result.map(|()| stats)
    }

    /// Like [`finish`](Self::finish), but returns the counts even if there is an error.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let (stats, result) = session.finish_with_stats();
    /// if let Err(error) = result {
    ///     eprintln!("{} events are lost: {error}", stats.lost_in_sink);
    /// }
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn finish_with_stats(self) -> (Stats, Result<(), Error>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, and its `Drop` does not run.
        #[allow(unsafe_code, reason = "moving out of a type that implements Drop")]
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        inner.finish()
    }
}

/// Refuses settings that do not go together. Limits those that a recorder needs smaller.
fn check(builder: &mut SessionBuilder) -> Result<Layout, Error> {
    if let Some(error) = builder.refused.take() {
        return Err(error);
    }
    for ty in &builder.registered {
        describes(builder.format, builder.output.ring.is_some(), ty)?;
    }
    let layout = builder.memory.layout()?;
    if builder.triggers.is_some() && builder.output.ring.is_none() {
        return Err(Error::NoRecorder);
    }
    let of_other_format = builder.format != Format::V6;
    if builder.memory.recorder_file.is_some() {
        let is_redacted = builder.redactions.hides().then_some(Error::RedactedRecorder);
        let conflict = of_other_format.then_some(Error::RecorderFormat).or(is_redacted);
        conflict.map_or(Ok(()), |conflict| builder.memory.leave_out_recorder_file(conflict))?;
    }
    if let Some(ring) = &builder.output.ring {
        let (bytes, interval) = ring.keep().stretches();
        builder.sequence_point_bytes = builder.sequence_point_bytes.min(bytes);
        builder.sequence_point_interval = builder.sequence_point_interval.min(interval);
    }
    if builder.flush_interval.is_zero() {
        return Err(Error::ZeroFlushInterval);
    }
    Ok(layout)
}

/// Says which filters of a variable have selected nothing. The session is about to end.
fn tell_idle_filters(variable: &str, session: &Shared) {
    for warning in locks::holding_locks(|| warning::warnings(session)).unwrap_or_default() {
        let is_idle = match &warning {
            // A program that has emitted nothing yet has said nothing of its providers.
            Warning::UnknownProvider { known, .. } => !known.is_empty(),
            Warning::NothingPasses { .. } => true,
            _ => false,
        };
        if is_idle {
            health::say(format_args!("{variable}: {warning}"));
        }
    }
}

/// The clock of events. Durations come from it as well, if it is the counter.
fn source(builder: &SessionBuilder) -> Result<Source, Error> {
    let source = Source::choose(builder.clock).ok_or(Error::NoClock)?;
    if source.is_counter() {
        nettrace_span::backend::set_frequency(source.ticks_per_second());
    }
    Ok(source)
}

/// When the flusher does what, and how.
fn schedule(builder: &SessionBuilder, layout: &Layout) -> Schedule {
    Schedule {
        flush_interval: builder.flush_interval,
        sequence_point_bytes: builder.sequence_point_bytes,
        sequence_point_interval: builder.sequence_point_interval,
        prefault: builder.memory.prefaulted_chunks(layout),
    }
}

impl Inner {
    /// Whether the caller may wait for the session's thread.
    fn check_caller(&self) -> Result<(), Error> {
        if !self.slot.is_ours() {
            return Err(Error::Forked);
        }
        if self.is_flusher() { Err(Error::InOwnSink) } else { Ok(()) }
    }

    fn finish(mut self) -> (Stats, Result<(), Error>) {
        if !self.slot.is_ours() {
            // The flusher is a thread of the parent. Leave its handle and all that it owns alone.
            let stats = Stats::default();
            std::mem::forget(self);
            return (stats, Err(Error::Forked));
        }
        if let Some(watch) = self.watch.take() {
            let begun = Instant::now();
            // Events that nobody has looked at may meet a condition.
            if !self.is_flusher() {
                flush_within(&self.shared, self.finish_timeout);
            }
            watch.end(self.finish_timeout.saturating_sub(begun.elapsed()));
        }
        if let Some(variable) = self.filters_from.take() {
            tell_idle_filters(&variable, &self.shared);
        }
        self.slot.stop_listening();
        if self.is_flusher() {
            // The flusher ends after the sink has returned.
            self.shared.close();
            return (self.shared.stats(), Err(Error::InOwnSink));
        }
        let start = Instant::now();
        let is_sent = self.shared.send_within(Command::Finish, self.finish_timeout);
        let patience = self.finish_timeout.saturating_sub(start.elapsed());
        let report =
            if is_sent { self.report.recv_timeout(patience) } else { Err(RecvError::Late) };
        let result = match report {
            Ok(report) => {
                if !report.stays {
                    self.flusher.join();
                }
                report.result
            }
            Err(RecvError::Gone) => Err(Error::FlusherDied),
            Err(RecvError::Late) => {
                self.slot.give_up();
                self.shared.leave();
                Err(Error::FinishTimeout { after: start.elapsed() })
            }
        };
        (self.shared.stats(), result)
    }

    /// Whether the calling thread is the session's own.
    fn is_flusher(&self) -> bool {
        self.flusher.is_current()
    }
}

#[cfg(feature = "persistent")]
impl Session {
    /// The trace of what the process before has left in its recorder file, if the builder was told
    /// to [make one](SessionBuilder::recover_to). `None`: nothing.
    #[must_use]
    pub fn recovered(&self) -> Option<&Recovered> {
        self.inner.recovered.as_ref()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: this is the drop; the field is not used afterwards.
        #[allow(unsafe_code, reason = "moving out of a type that implements Drop")]
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        let _ = inner.finish();
    }
}
