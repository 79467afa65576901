//! The settings of a flight recorder: a session that keeps the last events in memory, and writes
//! them when asked.

use std::sync::Arc;

use super::SessionBuilder;
use crate::{
    session::triggers::Triggers,
    sink::ring::{Keep, Ring, RingSink},
};

impl SessionBuilder {
    /// Keeps the last events in memory instead of writing them: a *flight recorder*.
    /// [`Session::dump`](crate::Session::dump) writes what is there. Until then a service can be
    /// left on for months and writes nothing.
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
    /// What is kept is of version 6. With another [format](Self::format) the dumps have that one,
    /// and [`Dump::not_in_format`](crate::Dump::not_in_format) counts what they leave out. What
    /// [follows](crate::FlightRecorder::follow) the recorder is a trace of version 6 all the same.
    pub fn flight_recorder(mut self, keep: Keep) -> Self {
        let ring = Ring::new(keep);
        self.output.set_sink(RingSink(Arc::clone(&ring)));
        self.output.ring = Some(ring);
        self
    }

    /// When the [flight recorder](Self::flight_recorder) writes dumps by itself, and where.
    ///
    /// See [`Triggers`] for an example.
    pub fn triggers(mut self, triggers: Triggers) -> Self {
        self.triggers = Some(triggers.starter());
        self
    }
}
