//! The recorder: a session, `tracing` with JSON lines, or nobody. `benches/peers` builds the
//! service with other recorders as well (`cfg(nettrace_peers)`).

use std::{
    error::Error,
    fs::File,
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nettrace_writer::{
    Keep, SampledOut, Session, Triggers,
    metrics::{self, Reporter, Reporting},
    sink::FileOptions,
    tail::{Tail, TailCounter, TailCounts},
};
use tokio::runtime::{Builder, Runtime};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};
use tracing_subscriber::fmt::format::FmtSpan;

#[cfg(nettrace_peers)]
use crate::peers;
use crate::{Args, app, cpu, meters};

/// The provider of the counters' events.
const COUNTERS: &str = "System.Diagnostics.Metrics";

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tracing {
    /// Nobody: what the calls cost while nobody listens
    None,
    /// A session of nettrace-writer
    Nettrace,
    /// The crate `tracing`: JSON lines, written by a thread of tracing-appender
    Fmt,
    /// The crate `tracing`: a session of nettrace-writer, through tracing-nettrace
    #[cfg(nettrace_peers)]
    Bridge,
    /// The crate `tracing`: OpenTelemetry's batch exporter, into nothing
    #[cfg(nettrace_peers)]
    Otel,
    /// fastrace, into nothing
    #[cfg(nettrace_peers)]
    Fastrace,
    /// dial9: what tokio does, into nothing
    #[cfg(nettrace_peers)]
    Dial9,
}

impl Tracing {
    /// Whether the spans of the crate `tracing` are recorded.
    pub(crate) fn is_of_tracing(self) -> bool {
        match self {
            Self::None | Self::Nettrace => false,
            Self::Fmt => true,
            #[cfg(nettrace_peers)]
            Self::Bridge | Self::Otel => true,
            #[cfg(nettrace_peers)]
            Self::Fastrace | Self::Dial9 => false,
        }
    }
}

/// A recording that has begun.
pub(crate) enum Recording {
    Nobody,
    Session {
        session: Session,
        /// The counters, which go into the same trace.
        counters: Option<Reporting>,
        /// The counts of a tail decision.
        tail: Option<TailCounter>,
    },
    Fmt {
        guard: WorkerGuard,
        counts: Arc<Counts>,
        errors: ErrorCounter,
    },
    #[cfg(nettrace_peers)]
    Peer(peers::Peer),
}

/// What a recording leaves.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) events: u64,
    pub(crate) dropped: u64,
    pub(crate) bytes: u64,
    pub(crate) sampled_out: SampledOut,
    pub(crate) left_out: TailCounts,
    /// Seconds of processor time of the thread that writes. `None` where it cannot be asked.
    pub(crate) cpu: Option<f64>,
}

/// Lines and bytes of a file.
#[derive(Default)]
pub(crate) struct Counts {
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl Recording {
    pub(crate) fn start(args: &Args) -> Result<Self, Box<dyn Error>> {
        let out = |extension: &str| {
            args.out.clone().unwrap_or_else(|| PathBuf::from(format!("service.{extension}")))
        };
        Ok(match args.tracing() {
            Tracing::None => Self::Nobody,
            Tracing::Nettrace => {
                let file = FileOptions::new(out(args.format.extension()));
                let file = file.overwrite(args.overwrite).build();
                let (session, tail) = match (args.keep_slow, &args.black_box) {
                    (None, None) => (Session::builder().sink(file), None),
                    (None, Some(folder)) => {
                        let triggers = Triggers::new(folder, "{exe}-{pid}");
                        let triggers = triggers.after(Duration::from_secs(2)).on_panic();
                        #[cfg(unix)]
                        let triggers = triggers.on_signal(libc::SIGUSR1);
                        let keep = Keep::last(Duration::from_secs(10)).within(32 << 20);
                        (Session::builder().flight_recorder(keep).triggers(triggers), None)
                    }
                    (Some(millis), _) => {
                        let slow = Duration::from_millis(millis);
                        let tail = Tail::new(file).window(slow.max(Duration::from_secs(1)));
                        let tail = tail.ask(nettrace_tower::PROVIDER, "ClientRequest", slow);
                        let tail = tail.ask(nettrace_tower::PROVIDER, "ServerRequest", slow);
                        let counter = tail.counter();
                        (Session::builder().sink(tail), Some(counter))
                    }
                };
                let session = match &args.persistent {
                    Some(file) => session.persistent(file).budget(16 << 20),
                    None => session,
                };
                let session = session.format(args.format).provider(nettrace_tower::PROVIDER);
                let session = session.provider(app::PROVIDER).provider(COUNTERS);
                let session = session.provider("NetTrace-Panics").start()?;
                app::watch(session.trigger("slow"));
                let counters = (!args.counters.is_zero()).then(|| {
                    metrics::observe_process();
                    let reporter = Reporter::every(args.counters);
                    reporter.meter(meters::NAME).meter("NetTrace.*").start(&session)
                });
                Self::Session { session, counters, tail }
            }
            Tracing::Fmt => {
                let mut options = File::options();
                options.write(true).truncate(true);
                let options = options.create_new(!args.overwrite).create(args.overwrite);
                let counts = Arc::new(Counts::default());
                let file = Counted { file: options.open(out("json"))?, counts: counts.clone() };
                let (writer, guard) = NonBlocking::new(file);
                let errors = writer.error_counter();
                tracing_subscriber::fmt()
                    .json()
                    .with_span_list(false)
                    .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
                    .with_writer(writer)
                    .init();
                Self::Fmt { guard, counts, errors }
            }
            #[cfg(nettrace_peers)]
            peer => Self::Peer(peers::Peer::start(peer, out("peer"), args.overwrite)?),
        })
    }

    /// The runtime that this one makes, with what the recorder wants to know of it.
    pub(crate) fn runtime(&self, mut builder: Builder) -> io::Result<Runtime> {
        match self {
            #[cfg(nettrace_peers)]
            Self::Peer(peer) => peer.runtime(builder),
            _ => builder.build(),
        }
    }

    pub(crate) fn finish(self) -> Result<Recorded, Box<dyn Error>> {
        Ok(match self {
            Self::Nobody => Recorded { cpu: Some(0.0), ..Recorded::default() },
            Self::Session { session, counters, tail } => {
                if let Some(counters) = counters {
                    // With the values of the last interval.
                    counters.finish();
                }
                let _ = session.flush();
                let cpu = cpu::of_thread("nettrace-flusher");
                let stats = session.finish()?;
                let (events, dropped) = (stats.written, stats.dropped());
                let sampled_out = stats.sampled_out;
                let left_out = tail.map_or(TailCounts::default(), |tail| tail.get());
                Recorded { events, dropped, bytes: stats.bytes, sampled_out, left_out, cpu }
            }
            Self::Fmt { guard, counts, errors } => {
                let cpu = cpu::of_thread("tracing-appender");
                drop(guard); // waits until the lines are written
                let [events, bytes] =
                    [&counts.lines, &counts.bytes].map(|count| count.load(Ordering::Relaxed));
                let dropped = errors.dropped_lines() as u64;
                Recorded { events, dropped, bytes, cpu, ..Recorded::default() }
            }
            #[cfg(nettrace_peers)]
            Self::Peer(peer) => peer.finish()?,
        })
    }
}

/// A file that counts what is written to it, a line at a time.
struct Counted {
    file: File,
    counts: Arc<Counts>,
}

impl Write for Counted {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.file.write(line)?;
        let lines = line[..written].iter().filter(|byte| **byte == b'\n').count();
        self.counts.lines.fetch_add(lines as u64, Ordering::Relaxed);
        self.counts.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
