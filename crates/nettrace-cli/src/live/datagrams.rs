//! `collect --udp`: a Heph trace whose packets come as datagrams, into a file or to standard
//! output.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nettrace_reader::heph::Datagrams;
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt,
};

use super::{output_file::OutputFile, session::Signals};
use crate::{failure::Failure, standard_error::say};

/// For how many others a packet waits that came before its turn.
const WINDOW: usize = 1 << 10;

/// After so long without another packet, those that wait are not going to have their turn.
const QUIET: Duration = Duration::from_millis(500);

/// The wanted size of the socket's buffer. The system may allow less.
const BUFFER: usize = 16 << 20;

/// The number of datagrams taken between two looks at signals and clock.
const ROUND: usize = 1 << 12;

/// After so many bytes they are written.
const BATCH: usize = 4 << 20;

/// The number of further rounds at the end, for a sender that never stops.
const LAST_ROUNDS: u32 = 16;

/// The address to receive at, and the output.
pub(super) struct ReceiveOptions<'a> {
    pub(super) address: SocketAddr,
    /// `None` for a name made from the port, `-` for standard output.
    pub(super) out: Option<&'a Path>,
    pub(super) force: bool,
    pub(super) duration: Option<Duration>,
}

/// Receives until a signal, or for the time that was given.
pub(super) fn run(
    wanted: &ReceiveOptions<'_>,
    signals: &Signals,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let failed = |what: &str, error: io::Error| {
        Failure::Process(format!("cannot {what} at {}: {error}", wanted.address))
    };
    let socket = UdpSocket::bind(wanted.address).map_err(|error| failed("receive", error))?;
    let here = socket.local_addr().map_err(|error| failed("receive", error))?;
    socket.set_nonblocking(true).map_err(|error| failed("receive", error))?;
    widen(&socket);
    let path = match wanted.out {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.to_owned()),
        None => Some(PathBuf::from(format!("udp-{}.heph", here.port()))),
    };
    let is_named = wanted.out.is_some();
    let place = path.as_deref().map(|path| OutputFile::find(path, wanted.force, is_named));
    let mut place = place.transpose()?;
    say(Some(format_args!("receiving at {here}; Ctrl-C ends it")))?;

    let end = wanted.duration.map(|duration| Instant::now() + duration);
    let mut receiver = PacketReceiver::new();
    let mut file: Option<File> = None;
    let mut trace = Vec::new();
    let mut is_over = false;
    let mut rounds = LAST_ROUNDS;
    loop {
        is_over |= end.is_some_and(|end| end <= Instant::now()) || signals.came();
        let count = receiver.receive(&socket, &mut trace).map_err(|it| failed("receive", it))?;
        rounds -= u32::from(is_over);
        let is_last = is_over && (count < ROUND || rounds == 0);
        if is_last {
            receiver.datagrams.release(&mut trace);
        }
        if !trace.is_empty() {
            // Not before: what sends no trace makes no file.
            if let Some(place) = place.take() {
                file = Some(place.create()?);
            }
            match (&mut file, &path) {
                (Some(file), Some(path)) => file
                    .write_all(&trace)
                    .map_err(|error| Failure::Destination(path.display().to_string(), error))?,
                _ => stdout.write_all(&trace).and_then(|()| stdout.flush())?,
            }
            trace.clear();
        }
        if is_last {
            return receiver.summarize(path.as_deref());
        }
        if count == 0 && !wait(&socket, signals, end)? {
            receiver.datagrams.release(&mut trace);
        }
    }
}

/// Waits for a datagram, a signal or the end. Returns `false` if nothing came for [`QUIET`].
fn wait(socket: &UdpSocket, signals: &Signals, end: Option<Instant>) -> Result<bool, Failure> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    // Rounded up, so that the time is over when this wakes.
    let left = left.map_or(QUIET, |left| (left + Duration::from_millis(1)).min(QUIET));
    let mut polled =
        [PollFd::new(socket, PollFlags::IN), PollFd::new(&signals.pipe, PollFlags::IN)];
    match poll(&mut polled, left.try_into().ok().as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(errno) => Err(Failure::Process(errno.to_string())),
    }
}

/// Makes the socket's buffer as large as the system allows. What it cannot hold is lost.
fn widen(socket: &UdpSocket) {
    #[cfg(target_os = "linux")]
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER).is_ok() {
        return;
    }
    let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER);
}

/// The packets of one sender.
struct PacketReceiver {
    datagrams: Datagrams,
    /// The first that has sent a packet. Streams of two processes can have the same number.
    sender: Option<SocketAddr>,
    /// Datagrams of others.
    others: u64,
    buffer: Vec<u8>,
}

impl PacketReceiver {
    fn new() -> Self {
        let datagrams = Datagrams::new(WINDOW);
        Self { datagrams, sender: None, others: 0, buffer: vec![0; 1 << 16] }
    }

    /// Takes what has come, and appends what is in order to `trace`. Returns how many datagrams, or
    /// [`ROUND`] if there may be more.
    fn receive(&mut self, socket: &UdpSocket, trace: &mut Vec<u8>) -> io::Result<usize> {
        for count in 0..ROUND {
            if trace.len() >= BATCH {
                break;
            }
            let (size, from) = match socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if self.sender.is_some_and(|sender| sender != from) {
                self.others += 1;
                continue;
            }
            let refused = self.datagrams.totals().refused;
            self.datagrams.push(&self.buffer[..size], trace);
            if self.datagrams.totals().refused == refused {
                self.sender = Some(from);
            }
        }
        Ok(ROUND)
    }

    fn summarize(&self, path: Option<&Path>) -> Result<(), Failure> {
        let totals = self.datagrams.totals();
        let path = path.map_or("-".into(), |path| path.display().to_string());
        if self.sender.is_none() {
            say(Some(format_args!("no packet of a trace came, so {path} was not written")))?;
        } else {
            let (events, lost) = (totals.events, totals.lost);
            say(Some(format_args!("{path}: {events} events, {lost} lost")))?;
        }
        for (count, what) in [
            (totals.late, "datagrams came too late or twice"),
            (totals.refused, "datagrams were no packets of a trace"),
            (self.others, "datagrams came from other senders than the first"),
        ] {
            if count > 0 {
                say(Some(format_args!("left out: {count} {what}")))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that come faster than they are written wait in the socket, not in memory without
    /// bound.
    #[test]
    fn a_flood_is_written_in_between() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut receiver = PacketReceiver::new();
        assert_eq!(receiver.receive(&socket, &mut vec![0; BATCH]).unwrap(), ROUND);
        assert_eq!(receiver.receive(&socket, &mut vec![0; BATCH - 1]).unwrap(), 0);
    }
}
