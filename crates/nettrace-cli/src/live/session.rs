//! The trace of a live process, until a time, a signal or the end of the process.

use std::{
    io::{self, ErrorKind, Read},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::{ClientError, Live, Stopping, Target};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Time for a process to end its trace.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bytes of a trace while they come. Some time after `end`, or after a signal, the trace has
/// ended.
pub(super) struct Session {
    target: Target,
    id: u64,
    stream: UnixStream,
    signals: Signals,
    end: Option<Instant>,
    stopping: Option<Result<Stopping, ClientError>>,
}

impl Session {
    pub(super) fn new(
        target: Target,
        live: Live,
        signals: &Signals,
        end: Option<Instant>,
    ) -> Result<Self, Failure> {
        let Live { id, stream } = live;
        let signals = signals.try_clone().map_err(Failure::Output)?;
        Ok(Self { target, id, stream, signals, end, stopping: None })
    }

    /// Waits for bytes. Returns how many there are, which is 0 at the end of the trace.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let is_over = self.end.is_some_and(|end| end <= Instant::now());
            if is_over || self.signals.came() {
                if self.stopping.is_some() {
                    // It is silent, or somebody is tired of waiting. What has come is used.
                    let words = "the process does not end the trace";
                    return Err(Failure::Process(words.to_owned()));
                }
                // The process answers when it has written everything, so read on until then.
                self.stopping = Some(self.target.begin_stop(self.id));
                self.end = Some(Instant::now() + PATIENCE);
            }
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            // Rounded up, so that the time is over when this wakes.
            let left = left.map(|left| left + Duration::from_millis(1));
            let (stream, pipe) = (&self.stream, &self.signals.pipe);
            let mut polled = [PollFd::new(stream, PollFlags::IN), PollFd::new(pipe, PollFlags::IN)];
            let timeout = left.and_then(|left| left.try_into().ok());
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(Failure::Process(errno.to_string())),
            }
            if polled[0].revents().is_empty() {
                continue;
            }
            match self.stream.read(buffer) {
                Ok(0) => {
                    // If the process has ended by itself, nobody answers.
                    let stopping = self.stopping.take();
                    return match stopping.map(|stopping| stopping.and_then(Stopping::answer)) {
                        Some(Err(error @ ClientError::Refused { .. })) => Err(error.into()),
                        _ => Ok(0),
                    };
                }
                Ok(count) => {
                    if self.stopping.is_some() {
                        self.end = Some(Instant::now() + PATIENCE);
                    }
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(cause) => {
                    return Err(ClientError::Io { path: self.target.path.clone(), cause }.into());
                }
            }
        }
    }
}

impl Read for Session {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.next(buffer) {
            // The process has died.
            Err(Failure::Client(ClientError::Io { cause, .. }))
                if cause.kind() == ErrorKind::ConnectionReset =>
            {
                Ok(0)
            }
            result => result.map_err(|failure| io::Error::other(failure.to_string())),
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP, which end a trace.
pub(super) struct Signals {
    /// Has a byte for each signal.
    pub(super) pipe: UnixStream,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        // `nohup` ignores the hang-up of a terminal, and so does this.
        let hangs_up = (!is_hangup_ignored()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangs_up) {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { pipe })
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { pipe: self.pipe.try_clone()? })
    }

    /// Waits so long for a signal. Whether one came.
    pub(super) fn wait(&self, time: Duration) -> Result<bool, Failure> {
        let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
        match poll(&mut polled, time.try_into().ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.came()),
            Err(errno) => Err(Failure::Process(errno.to_string())),
        }
    }

    pub(super) fn came(&self) -> bool {
        (&self.pipe).read(&mut [0]).is_ok_and(|count| count > 0)
    }
}

/// Whether this process was started with SIGHUP ignored. Where the system does not say it in a
/// file, that counts as so: the signal then does what it does without a handler.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & 1 << (SIGHUP - 1) != 0)
}
