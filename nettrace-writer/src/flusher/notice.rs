//! Tells the application when its sink fails or recovers: by a callback, by log records, and by a
//! note for warnings.
//!
//! At the end of each round the flusher compares the state of the sink with what the application
//! was told last. So only [`Stats`](crate::Stats) shows an error that passes within one round. By
//! then the round has given its memory back, so no thread needs the flusher while the callback
//! runs. The callback is the application's code. If it panics, the flusher goes on without it. If
//! it emits, its event goes to the buffer of the flusher's thread, like that of a sink, and never
//! waits for room. It cannot call itself: what it emits changes nothing before the next round ends.

use std::{fmt, mem, panic, time::Duration};

use crate::{
    protocol::clock::Stopwatch,
    shared::{Shared, error::Error},
    sync::Ordering,
};

/// A sink began to fail, or works again: see
/// [`SessionBuilder::on_sink_change`](crate::SessionBuilder::on_sink_change).
///
/// [`Display`](fmt::Display) writes a sentence that can go to a log.
///
/// ```
/// use nettrace_writer::{Session, SinkChange, sink::MemorySink};
///
/// let session = Session::builder()
///     .sink(MemorySink::new())
///     .on_sink_change(|change| match change {
///         SinkChange::Recovered { lost, .. } => eprintln!("{lost} events were lost"),
///         other => eprintln!("trace: {other}"),
///     })
///     .start()?;
/// session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum SinkChange<'a> {
    /// The sink began to fail, by an error that may pass (a full disk, for instance). What is
    /// recorded meanwhile is lost, and counted. The session tries again at each
    /// [flush interval](crate::SessionBuilder::flush_interval).
    Failing {
        /// What the sink said.
        error: &'a Error,
    },
    /// The sink, which failed, takes events again. The trace goes on, with a gap.
    Recovered {
        /// How long it failed.
        after: Duration,
        /// How many events were lost meanwhile.
        lost: u64,
    },
    /// The sink failed for good, or fails at the session's end. Nothing more is written.
    Failed {
        /// What the sink said.
        error: &'a Error,
    },
}

impl fmt::Display for SinkChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failing { error } => {
                write!(f, "{error}; events are lost until that has passed")
            }
            Self::Recovered { after, lost } => {
                write!(f, "the trace goes on after {after:.1?}; {lost} events were lost meanwhile")
            }
            Self::Failed { error } => write!(f, "{error}; the trace ends here"),
        }
    }
}

/// What [`SessionBuilder::on_sink_change`](crate::SessionBuilder::on_sink_change) was given.
pub(crate) type Callback = Box<dyn FnMut(&SinkChange<'_>) + Send>;

/// What the application was told.
pub(crate) struct Notices {
    callback: Option<Callback>,
    told: Told,
    /// How many events had been lost when the sink last took everything.
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
enum Told {
    Nothing,
    /// That the sink fails, and when.
    Failing(Stopwatch),
    Failed,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").field("told", &self.told).finish_non_exhaustive()
    }
}

impl Notices {
    pub(crate) fn new(callback: Option<Callback>) -> Self {
        Self { callback, told: Told::Nothing, lost: 0 }
    }

    /// Whether the state of the sink differs from what the application was told last.
    pub(crate) fn is_news(&mut self, session: &Shared, fails: bool, is_final: bool) -> bool {
        match self.told {
            Told::Nothing if fails => true,
            Told::Nothing => {
                self.lost = lost(session);
                false
            }
            Told::Failing(_) => !fails || is_final,
            Told::Failed => false,
        }
    }

    /// Tells what [is news](Self::is_news): the error of a sink that fails, or that it does not any
    /// more.
    pub(crate) fn tell(&mut self, session: &Shared, error: Option<&Error>, is_final: bool) {
        let (now, change) = match (error, self.told) {
            (Some(error), _) if is_final => (Told::Failed, SinkChange::Failed { error }),
            (Some(error), _) => (Told::Failing(Stopwatch::start()), SinkChange::Failing { error }),
            (None, Told::Failing(since)) => {
                let before = mem::replace(&mut self.lost, lost(session));
                let lost = self.lost.saturating_sub(before);
                (Told::Nothing, SinkChange::Recovered { after: since.elapsed(), lost })
            }
            (None, Told::Nothing | Told::Failed) => return,
        };
        self.told = now;
        session.sink.set_trouble(error.map(|error| (error.to_string(), is_final)));
        if log(&change).is_err() {
            session.sink.notice_panicked();
        }
        if let Some(mut callback) = self.callback.take() {
            match caught(move || {
                callback(&change);
                callback
            }) {
                Ok(callback) => self.callback = Some(callback),
                Err(()) => session.sink.notice_panicked(),
            }
        }
    }

    /// Tells how the session ended.
    pub(crate) fn end(&mut self, session: &Shared, result: &Result<(), Error>) {
        if let (Err(error), false) = (result, matches!(self.told, Told::Failed)) {
            self.tell(session, Some(error), true);
        }
        // Its destructor is the application's code as well.
        let callback = self.callback.take();
        if caught(move || drop(callback)).is_err() {
            session.sink.notice_panicked();
        }
    }
}

fn lost(session: &Shared) -> u64 {
    session.sink.lost.load(Ordering::Relaxed)
}

/// Calls the application's code. `Err`: it panicked.
fn caught<R>(f: impl FnOnce() -> R) -> Result<R, ()> {
    // Nothing uses what a panic leaves behind.
    panic::catch_unwind(panic::AssertUnwindSafe(f)).map_err(|payload| {
        // A payload's destructor may panic as well.
        mem::forget(payload);
    })
}

/// Logs a change through the crate `log`. A logger is the application's code and may panic.
#[cfg(feature = "log")]
fn log(change: &SinkChange<'_>) -> Result<(), ()> {
    let level = match change {
        SinkChange::Failing { .. } => log::Level::Warn,
        SinkChange::Recovered { .. } => log::Level::Info,
        SinkChange::Failed { .. } => log::Level::Error,
    };
    caught(|| log::log!(target: "nettrace_writer", level, "{change}"))
}

#[cfg(not(feature = "log"))]
fn log(_: &SinkChange<'_>) -> Result<(), ()> {
    Ok(())
}
