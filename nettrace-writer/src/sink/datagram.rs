//! Datagrams: each packet of a Heph trace as a packet of UDP.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    net::{ToSocketAddrs, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use nettrace_event::keys;
use nettrace_format::heph;

use super::{
    Batch, Sink, StreamEnd, WriteError, batch_cursor::BatchCursor, failure::during,
    stream::not_started, stream::pause,
};
use crate::sync::Mutex;

/// The largest payload of a datagram of UDP over IP version 4.
const LARGEST: usize = 65_507;

/// Interval at which the epoch is repeated, and the last numbers of streams.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time that a batch may wait in all for a socket whose buffer is full, and each time.
const PATIENCE: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_micros(200);

/// The number of streams remembered between two marks.
const MOST_STREAMS: usize = 1 << 16;

/// The number of times the last numbers are sent at the end. Nothing comes after them that would
/// show a loss.
const LAST_TIMES: usize = 3;

/// Sends a Heph trace over UDP, each packet as a datagram. The format was made for that
/// ("Overview": packets can be sent "using packet based protocols, such as UDP"). Only
/// [`Format::Heph`](crate::Format::Heph) has such packets.
///
/// `nettrace collect --udp ADDRESS` receives them, and so does `heph::Datagrams` of
/// `nettrace-reader` in a program of yours. They put packets in order, and count those that are
/// missing.
///
/// # Guarantees
/// - The network may lose packets. Each stream has a counter, so a loss shows as a gap. What comes
///   after a thread's last event is shown by the option `nettrace.lost` with a count of 0: all
///   numbers up to this one were given. It is sent about once a second for the threads that have
///   recorded something, and three times at the end.
/// - The epoch is sent at the start, at the end, and about once a second while there are events. So
///   a receiver that comes later, or lost the first one, knows the times of all that it has.
/// - A packet that is larger than [`largest`](Self::largest) is not sent, and
///   [`DatagramCounts::too_large`] counts it. The session's statistics count its event as written.
/// - Sending does not block. If the socket's buffer is full, a batch waits 50 ms in all. After
///   that, and at any other error, the rest of the batch counts as [lost in the
///   sink](crate::Stats::lost_in_sink), from the block on that was not sent whole. The session
///   tries again with its next batch. If the machine of the receiver says that nobody receives,
///   about every second attempt fails.
/// - A loss before the first packet of a thread that arrives does not show.
///
/// A datagram takes a system call, about 2 µs. A receiver must be as fast: what its buffer cannot
/// hold is lost. Nothing is encrypted, and any receiver can be sent foreign packets. So send within
/// a machine or a network that you trust.
///
/// # Examples
///
/// ```
/// use std::net::UdpSocket;
///
/// use nettrace_writer::{Emit, Format, Session, TraceEvent, sink::DatagramSink};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs-Datagrams")]
/// struct Sold {
///     cents: u32,
/// }
///
/// let receiver = UdpSocket::bind("127.0.0.1:0")?;
/// let sink = DatagramSink::connect(receiver.local_addr()?)?;
/// let counter = sink.counter();
/// let session = Session::builder().format(Format::Heph).sink(sink).start()?;
/// Sold { cents: 1_250 }.emit();
/// session.finish()?;
/// let mut packet = [0; 65_507];
/// // The epoch is first.
/// assert_eq!(receiver.recv(&mut packet)?, 23);
/// assert_eq!(counter.counts().too_large, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DatagramSink {
    socket: UdpSocket,
    largest: usize,
    /// The packet with the epoch. Empty before the start.
    epoch: Vec<u8>,
    /// The last number of each stream that has sent something since the last marks.
    streams: BTreeMap<u32, u32>,
    /// When the epoch and marks were sent last.
    marked: Instant,
    packet: Vec<u8>,
    counter: DatagramCounter,
}

/// Counts of what a [`DatagramSink`] has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramCounts {
    /// The packets that the system has taken, with those that are repeated.
    pub sent: u64,
    /// The packets that were too large for a datagram and not sent.
    pub too_large: u64,
    /// The number of failed sends. The session counts what was lost by it.
    pub errors: u64,
}

/// Reads the counts of a [`DatagramSink`] that a session has.
#[derive(Clone, Debug, Default)]
pub struct DatagramCounter(Arc<Mutex<DatagramCounts>>);

impl DatagramCounter {
    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        *self.0.lock()
    }
}

impl DatagramSink {
    /// A sink that sends to this address, from any port of this machine.
    ///
    /// # Errors
    /// The system's error, for instance if a name cannot be resolved.
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        let action = "cannot send a trace to this address";
        let mut last = None;
        for address in to.to_socket_addrs().map_err(|error| during(action, error))? {
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            match UdpSocket::bind(any).and_then(|it| it.connect(address).map(|()| it)) {
                Ok(socket) => return Self::new(socket),
                Err(error) => last = Some(error),
            }
        }
        let none = || io::Error::new(ErrorKind::InvalidInput, "the name has no address");
        Err(during(action, last.unwrap_or_else(none)))
    }

    /// A sink that sends through a connected socket, which becomes non-blocking.
    ///
    /// # Errors
    /// The system's error, for instance if the socket is not connected.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        let action = "cannot send a trace through this socket";
        socket.peer_addr().map_err(|error| during(action, error))?;
        socket.set_nonblocking(true).map_err(|error| during(action, error))?;
        Ok(Self {
            socket,
            largest: LARGEST,
            epoch: Vec::new(),
            streams: BTreeMap::new(),
            marked: Instant::now(),
            packet: Vec::new(),
            counter: DatagramCounter::default(),
        })
    }

    /// Sets the size of the largest packet in bytes. The default is 65,507, which is the most that
    /// UDP carries. A network splits what exceeds its frames, for instance 1,472 bytes on Ethernet,
    /// and loses the whole packet with any part of it.
    #[must_use]
    pub fn largest(mut self, bytes: usize) -> Self {
        self.largest = bytes.min(LARGEST);
        self
    }

    /// Reads the counts while the session has the sink.
    #[must_use]
    pub fn counter(&self) -> DatagramCounter {
        self.counter.clone()
    }

    /// Sends the packet in `self.packet`. `patience` is what is left of the time to wait.
    fn send(&mut self, patience: &mut Duration) -> io::Result<()> {
        if self.packet.len() > self.largest {
            self.counter.0.lock().too_large += 1;
            return Ok(());
        }
        loop {
            match self.socket.send(&self.packet) {
                Ok(_) => {
                    self.counter.0.lock().sent += 1;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !patience.is_zero() => {
                    pause(PAUSE);
                    *patience = patience.saturating_sub(PAUSE);
                }
                Err(error) if is_too_large(&error) => {
                    self.counter.0.lock().too_large += 1;
                    return Ok(());
                }
                Err(error) => {
                    self.counter.0.lock().errors += 1;
                    let text = "cannot send a packet of the trace";
                    // Whoever listens may come back, so no kind of error is final.
                    let error = io::Error::other(format!("{text}: {error}"));
                    return Err(error);
                }
            }
        }
    }

    /// Sends the epoch, and the last number of each stream that has sent something.
    fn mark(&mut self, patience: &mut Duration) -> io::Result<()> {
        self.marked = Instant::now();
        self.packet.clone_from(&self.epoch);
        self.send(patience)?;
        while let Some((stream, last)) = self.streams.pop_first() {
            let value = [&stream.to_be_bytes()[..], &last.to_be_bytes(), &[0; 8]].concat();
            self.packet.clear();
            // Name and value are within the limits.
            let _ = heph::option(keys::HEPH_LOST, &value, &mut self.packet);
            if let Err(error) = self.send(patience) {
                self.streams.insert(stream, last);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Notes the last number of a stream. A packet that was not sent has one, too.
    fn note(&mut self) {
        let Some((stream, last)) = last_number(&self.packet) else { return };
        self.streams.insert(stream, last);
        if self.streams.len() > MOST_STREAMS {
            // Nobody has received anything for long.
            self.streams.pop_first();
        }
    }
}

impl Sink for DatagramSink {
    fn start(&mut self, header: &[u8], _: StreamEnd) -> io::Result<()> {
        let mut epoch = Vec::new();
        heph::epoch(0, &mut epoch);
        if header.len() != epoch.len() || header[..15] != epoch[..15] {
            let text = "only a Heph trace consists of packets; choose `format(Format::Heph)`";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        self.epoch = header.to_vec();
        self.mark(&mut PATIENCE.clone())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if self.epoch.is_empty() {
            return Err(not_started().into());
        }
        let mut patience = PATIENCE;
        let mut rest = BatchCursor::new(batch.pieces, &[]);
        let mut done = 0;
        while let Some(size) = take_packet(&mut rest, &mut self.packet) {
            self.note();
            self.send(&mut patience).map_err(|source| {
                let whole = batch.block_ends.partition_point(|end| *end <= done);
                let kept = whole.checked_sub(1).map_or(0, |at| batch.block_ends[at]);
                WriteError { source, kept }
            })?;
            done += size;
        }
        if self.marked.elapsed() >= INTERVAL && !self.streams.is_empty() {
            // What is not sent now is sent with the next.
            let _ = self.mark(&mut patience);
        }
        Ok(())
    }

    /// The last numbers of streams, until they are sent.
    fn holds_back(&self) -> bool {
        !self.streams.is_empty()
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.epoch.is_empty() {
            return Ok(());
        }
        let mut patience = PATIENCE;
        let streams = self.streams.clone();
        for _ in 0..LAST_TIMES {
            self.streams.clone_from(&streams);
            self.mark(&mut patience)?;
        }
        self.epoch.clear();
        Ok(())
    }
}

/// Takes the next packet. Returns its size, or `None` at the end.
fn take_packet(rest: &mut BatchCursor<'_>, packet: &mut Vec<u8>) -> Option<u64> {
    const HEADER: usize = 8;
    packet.clear();
    packet.resize(HEADER, 0);
    if !rest.take(packet) {
        return None;
    }
    let size = u32::from_be_bytes(*packet[4..].first_chunk()?);
    packet.resize((size as usize).max(HEADER), 0);
    rest.take(&mut packet[HEADER..]).then_some(size.into())
}

/// The stream of a packet, and the last number that it accounts for: that of an event, or that of
/// the last lost one.
fn last_number(packet: &[u8]) -> Option<(u32, u32)> {
    const EVENT: &[u8] = &[0xC1, 0xFC, 0x1F, 0xB7];
    const NAME_AT: usize = 10;
    let numbers = if packet.starts_with(EVENT) {
        packet.get(8..)?
    } else {
        packet.get(NAME_AT..)?.strip_prefix(keys::HEPH_LOST.as_bytes())?
    };
    let (stream, rest) = numbers.split_first_chunk()?;
    Some((u32::from_be_bytes(*stream), u32::from_be_bytes(*rest.first_chunk()?)))
}

#[cfg(unix)]
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

#[cfg(not(unix))]
fn is_too_large(error: &io::Error) -> bool {
    // WSAEMSGSIZE
    error.raw_os_error() == Some(10_040)
}
