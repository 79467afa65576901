//! The settings of a session whose memory outlives the process.

use std::path::PathBuf;

use super::SessionBuilder;

impl SessionBuilder {
    /// Keeps the session's memory in a file that outlives the process: a *recorder file*. If the
    /// process is killed, by a signal, for lack of memory or by itself, every event whose `emit`
    /// has returned is in the trace or in the recorder file. `nettrace recover` makes one trace of
    /// both. See the page [The last ten seconds before it
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
    /// there are two at most. What somebody else has put there stays, and `.previous-2` follows, or
    /// another number. When a session [ends](crate::Session::finish), it removes its file.
    ///
    /// Only the process's user can read the file. It has values as they were recorded, so
    /// [`start`](Self::start) refuses it beside [`redact`](Self::redact); a
    /// [`Secret`](crate::Secret) is not in it. The child of a `fork` does not share it, and the
    /// child of a bare `clone` system call must not emit.
    /// What a sink [holds back](crate::sink::Sink::holds_back) is not in it, but counts as lost:
    /// see [`Sink::held_back`](crate::sink::Sink::held_back).
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
    /// [`start`](Self::start) fails, and with [`Error::Recorder`](crate::Error::Recorder) on
    /// systems other than 64-bit Linux.
    pub fn persistent(mut self, path: impl Into<PathBuf>) -> Self {
        self.memory.recorder_file = Some(path.into());
        self
    }

    /// Makes a trace of what the process before has left in the
    /// [recorder file](Self::persistent), if it was killed: the events that its own trace has not.
    /// [`Session::recovered`](crate::Session::recovered) says what was found. The recorder file of
    /// that process is removed then.
    ///
    /// `path` can have the placeholders of [`file`](Self::file), and should have `{time}`: no file
    /// is replaced. The trace is one more file of the recording of that process, so the commands of
    /// `nettrace` read it together with the others. If it cannot be made, the recorder file is kept
    /// as without this call, and the session starts all the same.
    ///
    /// This reads the last file of that process. If the session [overwrites](Self::overwrite) it,
    /// the new trace has only the last events; rather keep it
    /// ([`keep_previous`](Self::keep_previous)), or write files with the time in their names.
    ///
    /// ```no_run
    /// use nettrace_writer::Session;
    ///
    /// let session = Session::builder()
    ///     .file("traces/{exe}-{time}.nettrace")
    ///     .persistent("/dev/shm/checkout.recorder")
    ///     .recover_to("traces/{exe}-{time}-recovered.nettrace")
    ///     .start()?;
    /// if let Some(recovered) = session.recovered() {
    ///     eprintln!("the process before was killed: see {}", recovered.path.display());
    /// }
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn recover_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.memory.recover_to = Some(path.into());
        self
    }
}
