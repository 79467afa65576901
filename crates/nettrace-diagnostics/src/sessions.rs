//! Sessions that clients have started.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice, Write},
    time::Duration,
};

use nettrace_writer::{
    Error, FlightRecorder, Following, Level, OnFull, Past, ProviderFilter, Redact, Session,
    companion::redact_session,
    metrics::{self, Reporting},
    sink::StreamSink,
};

use crate::{
    environment::redacted_for_client,
    filters,
    options::Options,
    protocol::{self, Buffering, Collect, Provider, Refusal, SessionType, code},
    sync::{Arc, Mutex, lock, mpsc},
    transport::{self, ClosedInChild, Stream},
};

/// The smallest memory that a session gets, whatever the client asks for.
const LEAST_BUFFER: usize = 1 << 20;
/// The number of bytes of the memory that are touched at the start. The client waits meanwhile.
const PREFAULT: usize = 1 << 20;
/// Time beyond its client's patience that the end of a session may take.
const MARGIN: Duration = Duration::from_secs(1);
/// After how many bytes and how much time a reader is told that no older events follow. Until then
/// a reader that sorts keeps what it has: somebody may look on.
const ORDER: (u64, Duration) = (16 << 20, Duration::from_millis(250));
/// A client that asks for this provider, and no other, gets what the process's flight recorder has
/// kept, and what it records from then on. With the argument `Past=SECONDS` it gets no more of the
/// past than that.
const RECORDER: &str = "NetTrace-FlightRecorder";

/// A session, and the connection that its events go to.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) id: u64,
    /// Before the stream, which must not be closed while this says that it is open.
    _kept: ClosedInChild,
    pub(crate) stream: Arc<Stream>,
    recording: Recording,
}

/// The source of the bytes for the connection.
#[derive(Debug)]
enum Recording {
    /// With the counters that the client has asked for.
    Session(Session, Reporting),
    FlightRecorder(Following),
}

/// The connection of a client that did not get a session.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) kept: ClosedInChild,
    pub(crate) stream: Stream,
    pub(crate) refusal: Refusal,
}

impl Attached {
    /// Starts a session that records into `stream`.
    ///
    /// The client gets the session's id first, and not before the session listens. So a client that
    /// has the answer misses nothing.
    pub(crate) fn start(
        id: u64,
        collect: &Collect,
        (stream, kept): (Stream, ClosedInChild),
        options: &Options,
    ) -> Result<Self, Box<NotStarted>> {
        let redacted = match check(collect) {
            Ok(redacted) => redacted,
            Err(refusal) => return Err(Box::new(NotStarted { kept, stream, refusal })),
        };
        let stream = Arc::new(stream);
        let header = Arc::new(Mutex::new(Vec::new()));
        let (gate, opens) = mpsc::channel();
        let client = Client {
            stream: Arc::clone(&stream),
            header: Arc::clone(&header),
            has_header: false,
            gate: Some(opens),
            patience: options.patience,
        };
        let sink = StreamSink::new(client).stall_timeout(options.patience);
        let recording = match collect.providers.iter().any(is_recorder) {
            true => follow(collect, &redacted, sink),
            false => record(collect, redacted, sink, options),
        };
        let recording = match recording {
            Ok(recording) => recording,
            Err(refusal) => {
                let Ok(stream) = Arc::try_unwrap(stream) else {
                    unreachable!("the builder has dropped its sink")
                };
                return Err(Box::new(NotStarted { kept, stream, refusal }));
            }
        };
        let mut payload = Vec::new();
        protocol::put_u64(&mut payload, id);
        let mut first = protocol::ok(&payload);
        first.append(&mut lock(&header));
        // There is room for it, because nothing was written before. If the client has gone, the
        // server hears of it.
        let _ = transport::send(&stream, &[IoSlice::new(&first)], options.patience);
        let _ = gate.send(());
        Ok(Self { id, _kept: kept, stream, recording })
    }

    /// Its filters that select nothing, a line for each.
    pub(crate) fn unmatched(&self) -> String {
        match &self.recording {
            Recording::Session(session, _) => filters::unmatched(session),
            Recording::FlightRecorder(_) => String::new(),
        }
    }

    /// Ends the session: writes what is left, then the end of the stream, and closes the
    /// connection. Takes up to the client's patience.
    pub(crate) fn finish(self) {
        // If the client is gone, nobody is left to hear of an error.
        let _ = match self.recording {
            Recording::Session(session, counters) => {
                drop(counters);
                session.finish().err()
            }
            Recording::FlightRecorder(following) => following.finish().err(),
        };
        transport::close(&self.stream);
    }
}

/// Refuses what no session can do. Returns what none may have.
fn check(collect: &Collect) -> Result<Vec<(String, Redact)>, Refusal> {
    if collect.session == SessionType::UserEvents {
        return Err(Refusal::new(
            code::NOT_SUPPORTED,
            "this process writes no tracepoints on behalf of a client; ask for a stream",
        ));
    }
    if collect.format == protocol::Format::NetPerf {
        return Err(Refusal::new(
            code::INVALID_ARGUMENT,
            "the format NetPerf is not supported; ask for NetTrace",
        ));
    }
    if collect.buffer_mb == 0 {
        return Err(Refusal::new(code::INVALID_ARGUMENT, "a session needs a buffer; 0 MB is none"));
    }
    redacted_for_client().map_err(|words| Refusal::new(code::FAIL, words))
}

fn is_recorder(provider: &Provider) -> bool {
    provider.name.eq_ignore_ascii_case(RECORDER)
}

/// Follows the process's flight recorder.
fn follow(
    collect: &Collect,
    redacted: &[(String, Redact)],
    sink: StreamSink<Client>,
) -> Result<Recording, Refusal> {
    if !redacted.is_empty() {
        let words = "the flight recorder may have what NETTRACE_REDACT keeps out of traces";
        return Err(Refusal::new(code::FAIL, words));
    }
    let [provider] = &collect.providers[..] else {
        let words = format!("{RECORDER} comes alone: what it has is what the session records");
        return Err(Refusal::new(code::INVALID_ARGUMENT, words));
    };
    let past = match provider.arguments.strip_prefix("Past=") {
        None if provider.arguments.is_empty() => Past::All,
        seconds => {
            let seconds = seconds.and_then(|seconds| seconds.parse().ok());
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            Past::Last(time.ok_or_else(|| {
                let words = format!("{RECORDER} has the argument Past=SECONDS");
                Refusal::new(code::INVALID_ARGUMENT, words)
            })?)
        }
    };
    let recorder = FlightRecorder::find().ok_or_else(|| {
        Refusal::new(code::FAIL, "no session of this process is a flight recorder")
    })?;
    if !recorder.knows_redactions() {
        let words = "the flight recorder may have what the program has kept out of traces since it \
                     began";
        return Err(Refusal::new(code::FAIL, words));
    }
    recorder.follow(past, sink).map(Recording::FlightRecorder).map_err(failed)
}

/// Starts a session.
fn record(
    collect: &Collect,
    redacted: Vec<(String, Redact)>,
    sink: StreamSink<Client>,
    options: &Options,
) -> Result<Recording, Refusal> {
    let asked = usize::try_from(collect.buffer_mb).unwrap_or(usize::MAX).saturating_mul(1 << 20);
    let budget = asked.min(options.max_buffer).max(LEAST_BUFFER);
    let on_full = match collect.buffering {
        Buffering::Drop => OnFull::Drop,
        Buffering::Block => OnFull::Block,
    };
    let session = redact_session(Session::builder(), redacted)
        .sink(sink)
        .format(options.format)
        .providers(collect.providers.iter().map(filter))
        .budget(budget)
        .prefault(PREFAULT)
        .on_full(on_full)
        .sequence_points(ORDER.0, ORDER.1)
        .finish_timeout(options.patience + MARGIN)
        .start()
        .map_err(failed)?;
    let providers = collect.providers.iter();
    let providers = providers.map(|provider| (&*provider.name, &*provider.arguments));
    let counters = metrics::attach(&session, providers);
    Ok(Recording::Session(session, counters))
}

fn failed(error: Error) -> Refusal {
    Refusal::new(code::FAIL, error.to_string())
}

/// The filter that a client asks for of a provider.
///
/// Without keywords it wants all events, as ETW has it. `dotnet-trace` sends 0 if its user names no
/// keywords, and .NET then records only events that have none themselves.
///
/// A client that wants a provider's counters sends 0, too. It wants the counters alone: they have
/// the level that always passes.
fn filter(provider: &Provider) -> ProviderFilter {
    let wants_counters = provider.arguments.contains("EventCounterIntervalSec=");
    if provider.keywords == 0 && wants_counters {
        return ProviderFilter::new(&provider.name).level(Level::LogAlways);
    }
    let level = u8::try_from(provider.level).unwrap_or(u8::MAX);
    let keywords = if provider.keywords == 0 { u64::MAX } else { provider.keywords };
    let filter = ProviderFilter::new(&provider.name).keywords(keywords);
    let filter = filter.level(Level::new(level));
    // No event has an id beyond 16 bits.
    let ids = provider.events.ids.iter().filter_map(|id| u16::try_from(*id).ok());
    match provider.events.wanted {
        true => filter.only_ids(ids),
        false if provider.events.ids.is_empty() => filter,
        false => filter.except_ids(ids),
    }
}

/// A client, as the sink of its session sees it.
struct Client {
    stream: Arc<Stream>,
    /// The header of the trace. The server sends it, with the answer before it.
    header: Arc<Mutex<Vec<u8>>>,
    has_header: bool,
    /// Opens when the header is sent. `None`: it has opened.
    gate: Option<mpsc::Receiver<()>>,
    /// Time in which the client may take nothing.
    patience: Duration,
}

impl Client {
    /// Writes some bytes. Waits for a client that takes nothing, until its patience is over.
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        transport::send(&self.stream, pieces, self.patience).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.give_up(),
            _ => error,
        })
    }

    /// Closes the connection, which makes the server end the session. The error is one that ends
    /// the trace.
    fn give_up(&self) -> io::Error {
        transport::close(&self.stream);
        let text = format!("the client has taken nothing for {:?}", self.patience);
        io::Error::new(ErrorKind::ConnectionAborted, text)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.has_header {
            let mut header = lock(&self.header);
            let before = header.len();
            pieces.iter().for_each(|piece| header.extend_from_slice(piece));
            return Ok(header.len() - before);
        }
        if let Some(gate) = self.gate.take() {
            // Fails if the server has died, and then so has the client's connection.
            let _ = gate.recv();
        }
        self.send(pieces)
    }

    /// The sink flushes once it has written the header, and after each batch.
    fn flush(&mut self) -> io::Result<()> {
        self.has_header = true;
        Ok(())
    }
}

impl Drop for Client {
    /// A trace can end by itself: its flight recorder has ended, for example. A client that was
    /// never sent any of it is told why on the connection.
    fn drop(&mut self) {
        if self.gate.is_none() {
            transport::close(&self.stream);
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("patience", &self.patience).finish_non_exhaustive()
    }
}
