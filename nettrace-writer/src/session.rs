//! A session: what the application holds while a trace is being recorded.

use std::{mem::ManuallyDrop, sync::Arc};

use crate::{
    clock::Source,
    config::SessionBuilder,
    error::Error,
    flusher::{Flusher, Schedule},
    local,
    pool::Pool,
    sessions::Slot,
    shared::{Command, Shared},
    stats::Stats,
    sync::thread,
};

/// A trace in the making: from [`SessionBuilder::start`] to [`finish`](Self::finish).
///
/// Dropping a session finishes it as well, but then nobody learns of an error.
#[derive(Debug)]
#[must_use = "a session that is dropped at once records nothing"]
pub struct Session {
    inner: ManuallyDrop<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    slot: Slot,
    flusher: Option<thread::JoinHandle<Result<(), Error>>>,
}

impl Session {
    /// Sets up a session.
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

    pub(crate) fn start(mut builder: SessionBuilder) -> Result<Self, Error> {
        if let Some(error) = builder.refused.take() {
            return Err(error);
        }
        for ty in &builder.registered {
            nettrace_format::Stream::check(builder.format, ty.schema())?;
        }
        let layout = builder.layout()?;
        if builder.flush_interval.is_zero() {
            let message =
                "a flush interval of zero would never rest; give it a millisecond or more".into();
            return Err(Error::Setting { message });
        }
        let sink = builder.open_sink()?;
        let source = Source::choose(builder.clock).ok_or(Error::NoClock)?;
        let slot = Slot::take()?;
        let (commands, inbox) = crossbeam_channel::bounded(64);
        let shared = Arc::new(Shared::new(
            slot.number(),
            builder.format,
            Pool::new(layout).ok_or_else(|| Error::Setting {
                message: format!(
                    "there is no room for a budget of {} bytes; give it less",
                    builder.budget
                ),
            })?,
            source,
            builder.on_full,
            builder.providers,
            commands,
        ));
        let schedule = Schedule {
            flush_interval: builder.flush_interval,
            sequence_point_bytes: builder.sequence_point_bytes,
            sequence_point_interval: builder.sequence_point_interval,
            prefault: (builder.prefault.min(builder.budget) / layout.chunk_size) as u32,
        };
        let flusher =
            Flusher::start(Arc::clone(&shared), sink, inbox, schedule, builder.key_values)?;
        let flusher = flusher.spawn().map_err(Error::Thread)?;
        slot.listen(&shared);
        Ok(Self { inner: ManuallyDrop::new(Inner { shared, slot, flusher: Some(flusher) }) })
    }

    /// Writes everything that was emitted before the call, and returns when the sink has it.
    ///
    /// # Errors
    ///
    /// [`Error::FlusherDied`], [`Error::Forked`]. Whether the sink failed is told by [`finish`](Self::finish).
    pub fn flush(&self) -> Result<(), Error> {
        if !self.inner.slot.is_ours() {
            return Err(Error::Forked);
        }
        let flusher = self.inner.flusher.as_ref().map(|flusher| flusher.thread().id());
        if flusher == Some(thread::current().id()) {
            let message = "a sink cannot wait for a flush of its own session".into();
            return Err(Error::Setting { message });
        }
        let (done, answer) = crossbeam_channel::bounded(1);
        local::holding_locks(|| {
            let sent = self.inner.shared.commands.send(Command::Flush(done)).is_ok();
            (sent && answer.recv().is_ok()).then_some(()).ok_or(Error::FlusherDied)
        })
        .unwrap_or_else(|| {
            let message = "a session cannot be flushed in a signal handler".into();
            Err(Error::Setting { message })
        })
    }

    /// What the session has counted so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if !self.inner.slot.is_ours() {
            return Stats::default(); // the child of a fork: its locks may be held by threads that it does not have
        }
        self.inner.shared.stats()
    }

    /// As if the calling thread, which has emitted before, had dropped so many events: for tests of numbers beyond 2^32.
    #[doc(hidden)]
    pub fn pretend_dropped(&self, count: u64) {
        crate::local::pretend_dropped(self.inner.slot.number(), count);
    }

    /// Ends the session: stops listening, writes what is left, ends the stream. The counts that it returns are final and exact.
    ///
    /// # Errors
    ///
    /// The first that the flusher met, [`Error::Sink`] mostly. The trace is readable as far as it was written, and
    /// [`finish_with_stats`](Self::finish_with_stats) has the counts.
    pub fn finish(self) -> Result<Stats, Error> {
        let (stats, result) = self.finish_with_stats();
        result.map(|()| stats)
    }

    /// Like [`finish`](Self::finish), but gives the counts even where the sink has failed.
    pub fn finish_with_stats(self) -> (Stats, Result<(), Error>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, and its `Drop` does not run.
        #[allow(unsafe_code, reason = "moving out of a type that implements Drop")]
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        inner.finish()
    }
}

impl Inner {
    fn finish(mut self) -> (Stats, Result<(), Error>) {
        if !self.slot.is_ours() {
            // The flusher is a thread of the parent. Its handle, and what it owns, stay as they are.
            let stats = Stats::default();
            std::mem::forget(self);
            return (stats, Err(Error::Forked));
        }
        self.slot.hush();
        let result = match self.flusher.take() {
            Some(flusher) => {
                // A full inbox is emptied sooner or later; a flusher that has died leaves a closed one.
                let _ = self.shared.commands.send(Command::Finish);
                flusher.join().unwrap_or(Err(Error::FlusherDied))
            }
            None => Ok(()),
        };
        (self.shared.stats(), result)
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
