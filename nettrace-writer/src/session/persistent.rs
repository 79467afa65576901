//! Sessions whose memory outlives the process.

#[cfg(feature = "persistent")]
use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    protocol::pool::{Layout, Pool},
    session::builder::SessionBuilder,
    shared::{error::Error, persistent::Persistent},
    sink::file_name,
};

impl SessionBuilder {
    /// Keeps the session's memory in a file that outlives the process: a *recorder file*. If the
    /// process is killed, by a signal, for lack of memory or by itself, every event whose `emit` has
    /// returned is in the trace or in the recorder file. `nettrace recover` makes one trace of both.
    /// See the page [The last ten seconds before it
    /// died](https://github.com/nettrace-rs/nettrace/blob/main/docs/black_box.md).
    ///
    /// The file should be on a file system in memory (`tmpfs`), for example in `/dev/shm`, where an
    /// event costs what it always costs. On a disk the kernel writes the pages back from time to
    /// time, and a thread that changes such a page meanwhile waits for the disk. The file takes the
    /// [budget](Self::budget), a kibibyte for each thread, and what describes the event types. All
    /// of the budget is taken at the start: if the file system has no room for it, `start` fails.
    ///
    /// `path` can have the placeholders of [`file`](Self::file), but a constant name is better: the
    /// next start finds what the last process has left. If that process is gone, the file is
    /// renamed, so that `.previous` follows its name. An earlier file of that name is replaced, so
    /// there are two at most. When a session [ends](crate::Session::finish), it removes its file.
    ///
    /// Only the process's user can read the file, and the child of a `fork` does not share it.
    /// What a sink [holds back](crate::sink::Sink::holds_back) is not in it.
    ///
    /// ```
    /// # #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    /// # fn main() {}
    /// # #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use nettrace_writer::{Emit, Session, TraceEvent};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered {
    ///     micros: u64,
    /// }
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let recorder = directory.path().join("checkout.recorder");
    /// # let traces = directory.path();
    /// let session = Session::builder()
    ///     .file(traces.join("checkout.nettrace"))
    ///     .persistent(&recorder) // for example /dev/shm/checkout.recorder
    ///     .budget(16 << 20)
    ///     .start()?;
    /// Answered { micros: 180 }.emit();
    /// // Whatever kills the process here, `nettrace recover` finds the event.
    /// assert!(recorder.exists());
    /// session.finish()?;
    /// assert!(!recorder.exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The session's format must be [version 6](crate::Format::V6), the default. Otherwise
    /// [`start`](Self::start) fails, and with [`Error::Recorder`] on systems other than 64-bit
    /// Linux.
    #[cfg(feature = "persistent")]
    pub fn persistent(mut self, path: impl Into<PathBuf>) -> Self {
        self.recorder_file = Some(path.into());
        self
    }

    /// The session's memory.
    pub(crate) fn memory(
        &mut self,
        layout: Layout,
    ) -> Result<(Pool, Option<Arc<Persistent>>), Error> {
        let Some(path) = self.recorder_file.take() else {
            let too_large = Error::BudgetTooLarge { given: self.budget };
            return Ok((Pool::new(layout).ok_or(too_large)?, None));
        };
        let path = file_name::expand_path(&path)?;
        let (persistent, pool) = Persistent::create(&path, layout).map_err(Error::Recorder)?;
        Ok((pool, Some(Arc::new(persistent))))
    }
}
