//! Keeps the events of a request only if the request was slow or failed: feature `tail`.
//!
//! [`Tail`] is a [sink](crate::sink) around another sink. It holds back what a session records for
//! a while (the *window*, 1 s by default). Then it writes all of it, except for the trees of spans
//! that asked for a decision and turned out fast and without a failure.
//!
//! ```
//! use std::time::Duration;
//!
//! use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink, tail::Tail, traced};
//!
//! /// Kept if it takes 250 ms, or if something in it fails.
//! #[traced(provider = "Contoso-Shop", key_values = [("nettrace.tail", "250ms")], fields = [cart])]
//! fn check_out(cart: u64) -> Result<(), String> {
//!     Looked { cart }.emit();
//!     if cart == 0 { Err("no cart".to_owned()) } else { Ok(()) }
//! }
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Shop")]
//! struct Looked {
//!     cart: u64,
//! }
//!
//! let memory = MemorySink::new();
//! let tail = Tail::new(memory.clone()).window(Duration::from_secs(2));
//! let counter = tail.counter();
//! let session = Session::builder().sink(tail).provider("Contoso-Shop").start()?;
//! for cart in 0..100 {
//!     let _ = check_out(cart);
//! }
//! session.finish()?;
//!
//! // A Start, an event and a Stop for the one that failed. 99 of 100 are left out.
//! assert_eq!((counter.get().kept_spans, counter.get().left_out_events), (1, 297));
//! let trace = memory.bytes();
//! let mut reader = nettrace_reader::Reader::new(&trace[..])?;
//! reader.read_to_end()?;
//! // The last event says how many were left out. Nothing is lost.
//! assert_eq!((reader.totals().events, reader.totals().lost), (4, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who asks
//!
//! A span asks by its type, in one of two ways:
//!
//! - by the key-value `nettrace.tail` of the type. Its value is the duration that is slow (`250ms`,
//!   `2s`, `900us`), or `failed` if only failures count.
//! - by its provider and name: [`Tail::ask`]. So spans of libraries can be chosen, too.
//!
//! The decision is about a *tree*: all that this process records of one trace, until it records
//! nothing of it for a window. It is made if the oldest of that is the Start of a span that asks.
//! If a caller makes several requests in one trace, each such span decides about the time from its
//! start to the start of the next, and those that overlap decide together.
//!
//! Everything else is kept: events outside of spans, events without the ids of a trace, and trees
//! whose first span does not ask.
//!
//! # What is kept of those who ask
//!
//! All events of the tree, if one of these holds:
//!
//! - The span took as long as it asked for.
//! - The outcome of the span is not `ok`.
//! - The outcome of another span in the tree is `err` or `panicked`. A future that is cancelled is
//!   no failure: that is how the losers of a `select!` end.
//! - The tree has an event of level Error or above that is no span.
//! - The span has not ended when its Start leaves the window. So the window should be at least as
//!   long as what is slow: then such a span is slow.
//!
//! What a tree records after its span has ended has the same fate. If the tree is left out, and
//! then something fails in a task that goes on for longer than the window, that is not kept.
//!
//! # What the trace says
//!
//! Sequence numbers close up, so readers do not take what is left out for losses. Losses stay where
//! they are. Whatever else holds for a session's traces holds for these: the order of time, marks
//! of order, definitions before what refers to them. An event `LeftOut` of the provider
//! [`PROVIDER`] tells the counts whenever they have changed, before each sequence point and at the
//! end of each stream. [`TailCounter`] tells them to the application.
//!
//! [`Stats::written`](crate::Stats::written) counts what the session has handed over, with the
//! events that are left out.
//!
//! # What it costs
//!
//! - Memory: what the session writes in one window, and about 300 bytes for each root, up to a
//!   [bound](Tail::memory) of 64 MiB. Beyond it, trees are forgotten of which nothing is held back,
//!   and what comes of them later is kept. Then the oldest events are decided upon early. Spans
//!   that have not ended then are kept, and [counted](TailCounts::undecided_spans).
//! - The session's own thread reads each row twice. Threads that emit do nothing more.
//! - Delay: an event is in the file when the window is over, also if the session is flushed. While
//!   nobody emits that can take a second more.
//! - A process that is killed loses the window, besides what a session loses without a tail
//!   decision. With a [recorder file](crate::SessionBuilder::persistent) it loses only the window,
//!   which is counted as lost. One that exits without [`finish`](crate::Session::finish) does not
//!   (on Unix): what is held back is decided upon then.
//!
//! The bounds of a sink such as [`RotatingFiles`](crate::sink::RotatingFiles) hold for what is
//! written: the tail decision begins a new stream when the next row does not fit, or when the sink
//! asks for one. It writes what a stream needs to be read alone.
//!
//! The session must write version 6.

mod blocks;
mod counts;
mod header;
mod numbers;
mod outgoing;
mod queue;
mod release;
mod roles;
mod table;
mod trees;

use std::{
    collections::VecDeque,
    fmt, io,
    path::Path,
    time::{Duration, Instant},
};

use nettrace_format::v6::BlockKind;

pub use self::counts::{PROVIDER, TailCounter, TailCounts};
use self::{
    blocks::{Malformed, Rows, blocks, lists, point, thread_sequences},
    header::Header,
    numbers::{Numbers, Undecided},
    queue::{Queue, count_rows, malformed},
    release::{Release, With},
    roles::{Asked, Keep, Roles},
    table::Table,
    trees::Trees,
};
use crate::sink::{Batch, Sink, StreamEnd, WriteError};

/// A sink that leaves out what was fast and did not fail, in front of another sink. See the
/// [module](self).
pub struct Tail<S> {
    sink: S,
    window: Duration,
    memory: usize,
    asked: Vec<Asked>,
    incoming: Option<Incoming>,
    held: VecDeque<Held>,
    /// The memory of what is held, besides the list of it.
    held_bytes: usize,
    undecided: Undecided,
    trees: Trees,
    release: Option<Release>,
    queue: Queue,
    counts: TailCounts,
    counter: TailCounter,
    batches: u64,
}

/// The stream that the session writes.
#[derive(Debug)]
struct Incoming {
    roles: Roles,
    /// The label lists since the last sequence point.
    lists: Table,
    numbers: Numbers,
    /// How many streams there were when the session began this one.
    streams: u32,
}

impl Incoming {
    fn new(roles: Roles, streams: u32) -> Self {
        Self { roles, lists: Table::default(), numbers: Numbers::default(), streams }
    }
}

/// Something that is held back.
#[derive(Debug)]
struct Held {
    since: Instant,
    /// Batches are counted from 1.
    batch: u64,
    /// How many numbers of each thread it has.
    numbers: Vec<(u64, u64)>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The session's stream begins anew.
    Stream {
        header: Header,
        end: StreamEnd,
    },
    Blocks(Vec<u8>),
}

impl Held {
    fn bytes(&self) -> usize {
        let numbers = self.numbers.capacity() * size_of::<(u64, u64)>();
        numbers
            + match &self.what {
                What::Stream { header, .. } => header.len(),
                What::Blocks(bytes) => bytes.capacity(),
            }
    }
}

impl<S: Sink> Tail<S> {
    /// A tail decision in front of `sink`.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::FileSink, tail::Tail};
    ///
    /// # let path = std::env::temp_dir().join(format!("tail-{}.nettrace", std::process::id()));
    /// # let _ = std::fs::remove_file(&path);
    /// let session = Session::builder().sink(Tail::new(FileSink::new(&path))).start()?;
    /// session.finish()?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            window: Duration::from_secs(1),
            memory: 64 << 20,
            asked: Vec::new(),
            incoming: None,
            held: VecDeque::new(),
            held_bytes: 0,
            undecided: Undecided::default(),
            trees: Trees::default(),
            release: None,
            queue: Queue::default(),
            counts: TailCounts::default(),
            counter: TailCounter::default(),
            batches: 0,
        }
    }

    /// Sets how long events are held back. The default is 1 s. Should be at least as long as the
    /// longest duration that is slow.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets how many bytes of memory are used at most, with all that is known of trees. The default
    /// is 64 MiB. What the session flushes at once, at most some MiB, can be in memory besides
    /// while it is written.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Lets a type of spans ask: those of `provider` with the name `span`, which is that of the
    /// Start without `Start`. They are kept if they take as long as `slow`, or fail.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use nettrace_writer::{sink::MemorySink, tail::Tail};
    ///
    /// // The requests that `nettrace-tower` records in a service.
    /// let tail = Tail::new(MemorySink::new());
    /// let tail = tail.ask("NetTrace-Tower", "ServerRequest", Duration::from_millis(250));
    /// ```
    #[must_use]
    pub fn ask(self, provider: &str, span: &str, slow: Duration) -> Self {
        self.asks(provider, span, Keep::Slow(slow))
    }

    /// As [`ask`](Self::ask), for spans that are kept only if they fail.
    #[must_use]
    pub fn ask_if_failed(self, provider: &str, span: &str) -> Self {
        self.asks(provider, span, Keep::Failed)
    }

    fn asks(mut self, provider: &str, span: &str, keep: Keep) -> Self {
        self.asked.push(Asked { provider: provider.to_owned(), span: span.to_owned(), keep });
        self
    }

    /// Reads the counts, also while a session has the sink.
    #[must_use]
    pub fn counter(&self) -> TailCounter {
        self.counter.clone()
    }

    /// Notes what a batch has, and holds it back.
    fn hold(&mut self, batch: &Batch<'_>, now: Instant) -> Result<(), Malformed> {
        let Some(incoming) = &mut self.incoming else { return Err(Malformed) };
        let mut bytes = Vec::with_capacity(batch.pieces.iter().map(|piece| piece.len()).sum());
        batch.pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        self.batches += 1;
        for block in blocks(&bytes) {
            let block = block?;
            if block.is(BlockKind::Event) {
                let mut rows = Rows::new(block.body)?;
                while let Some((header, payload)) = rows.next_row()? {
                    incoming.numbers.row(header.capture_thread, header.sequence);
                    let list = incoming.lists.get(header.labels);
                    let Some(span) = list.and_then(|(list, _)| list.span) else { continue };
                    let meaning = incoming.roles.get(header.metadata_id);
                    self.trees.saw(&header, payload, span, meaning, self.batches);
                }
            } else if block.is(BlockKind::LabelList) {
                let (first, rows) = lists(block.body)?;
                incoming.lists.add(first, &rows)?;
            } else if block.is(BlockKind::SequencePoint) {
                incoming.numbers.told(&point(block.body)?.threads);
                incoming.lists = Table::default();
            } else if block.is(BlockKind::RemoveThread) {
                incoming.numbers.removed(&thread_sequences(block.body)?);
            } else if block.is(BlockKind::Metadata) {
                incoming.roles.define(block.body, &self.asked)?;
            }
        }
        let numbers = incoming.numbers.take();
        self.hold_back(now, numbers, What::Blocks(bytes));
        Ok(())
    }

    fn hold_back(&mut self, since: Instant, numbers: Vec<(u64, u64)>, what: What) {
        self.undecided.add(&numbers);
        let held = Held { since, batch: self.batches, numbers, what };
        self.held_bytes += held.bytes();
        self.held.push_back(held);
    }

    /// Decides about what has been held back for long enough, and makes room for so many bytes.
    /// `all`: decides about everything.
    fn decide(&mut self, now: Instant, all: bool, more: usize) -> io::Result<()> {
        while !self.queue.has_failed() {
            let written = self.held.front().map_or(self.batches, |held| held.batch - 1);
            let is_low = self.bytes() + more > self.memory;
            if self.trees.forget(now, self.window, written, is_low) {
                continue;
            }
            let is_due = |held: &mut Held| now.saturating_duration_since(held.since) >= self.window;
            let is_due = self.held.front_mut().is_some_and(is_due);
            if !(all || is_due || is_low) {
                break;
            }
            let Some(held) = self.held.pop_front() else { break };
            self.held_bytes -= held.bytes();
            let released = self.release(held.what, now);
            self.undecided.subtract(&held.numbers);
            released.map_err(|Malformed| malformed())?;
            if !self.queue.has_failed() {
                self.send();
            }
        }
        // What a burst took is given back.
        if self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to(self.held.len() * 2);
        }
        self.counter.set(&self.counts);
        self.queue.result()
    }

    fn release(&mut self, what: What, now: Instant) -> Result<(), Malformed> {
        let Some(release) = &mut self.release else { return Err(Malformed) };
        match what {
            What::Stream { header, end } => {
                release.goes_on(header, end);
                Ok(())
            }
            What::Blocks(bytes) => release.batch(
                &bytes,
                &mut With {
                    trees: &mut self.trees,
                    counts: &mut self.counts,
                    asked: &self.asked,
                    queue: &mut self.queue,
                    sink: &mut self.sink,
                    now,
                },
            ),
        }
    }

    /// Hands over what is decided, also after a failure. If the sink cannot go on with its stream,
    /// what was on its way is in no stream.
    fn send(&mut self) {
        self.queue.send_again(&mut self.sink);
        let has_failed = self.queue.has_failed() && !self.queue.is_over();
        if has_failed && !self.queue.is_before_stream() && self.sink.wants_restart() {
            self.counts.lost_events += self.queue.clear_stream();
            if let Some(release) = self.release.as_mut().filter(|_| !self.queue.begins_stream()) {
                release.breaks();
            }
        }
    }

    /// How many bytes of memory are in use.
    fn bytes(&self) -> usize {
        let lists = self.incoming.as_ref().map_or(0, |incoming| incoming.lists.bytes());
        let release = self.release.as_ref().map_or(0, Release::bytes);
        let held = self.held_bytes + self.held.capacity() * size_of::<Held>();
        let numbers = self.incoming.as_ref().map_or(0, |incoming| incoming.numbers.bytes());
        let held = held + numbers + self.undecided.bytes();
        held + lists + release + self.trees.bytes() + self.queue.bytes()
    }

    /// Drops what is held back or on its way. It is in no stream, nor are the losses that it would
    /// have shown.
    fn lose(&mut self) {
        let mut lost = self.queue.clear();
        if let Some(release) = &mut self.release {
            for held in self.held.drain(..) {
                match held.what {
                    What::Stream { header, end } => release.goes_on(header, end),
                    What::Blocks(bytes) => {
                        lost += release.give_up(&bytes).unwrap_or_else(|_| count_rows(&bytes));
                    }
                }
            }
            lost += release.owed();
        }
        self.held_bytes = 0;
        self.undecided = Undecided::default();
        self.counts.lost_events += lost;
        self.counter.set(&self.counts);
    }
}

impl<S: Sink> Sink for Tail<S> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let parsed = Header::new(header).map_err(|Malformed| malformed())?;
        let roles = Roles::new(parsed.ticks_per_second());
        if let Some(release) = &self.release {
            self.incoming = Some(Incoming::new(roles, release.streams()));
            self.hold_back(Instant::now(), Vec::new(), What::Stream { header: parsed, end });
            return Ok(());
        }
        self.sink.start(header, end)?;
        self.queue.started(&self.sink, header);
        let release = Release::new(parsed, end);
        self.incoming = Some(Incoming::new(roles, release.streams()));
        self.release = Some(release);
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if self.queue.has_failed() {
            // What is held back must not grow while nothing can be written.
            self.send();
            self.queue.result()?;
        }
        let now = Instant::now();
        let len = batch.block_ends.last().copied().unwrap_or(0);
        if len > 0 {
            self.decide(now, false, len as usize)?;
            self.hold(batch, now).map_err(|Malformed| malformed())?;
        }
        let decided = self.decide(now, false, 0);
        self.counter.set_memory(self.bytes());
        // The batch is held back, or on its way.
        decided.map_err(|source| WriteError::new(source, len))
    }

    fn wants_restart(&mut self) -> bool {
        // With a stream of its own the session tells the time of day again, and the files after the
        // next one begin with that. It also begins the ids of label lists anew, so that the tables
        // of them have a bound: a burst can be over before the next sequence point.
        let streams = self.release.as_ref().map_or(0, Release::streams);
        let most = self.memory / 8;
        self.incoming.as_ref().is_some_and(|it| it.streams < streams || it.lists.bytes() > most)
    }

    fn file(&self) -> Option<&Path> {
        self.sink.file()
    }

    fn takes_rows_apart(&self) -> bool {
        true
    }

    fn held_back(&self, thread: Option<u64>) -> u64 {
        self.undecided.of(thread)
    }

    fn holds_back(&self) -> bool {
        !self.held.is_empty() || !self.queue.is_empty()
    }

    fn is_torn(&self) -> bool {
        self.sink.is_torn()
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.queue.has_failed() {
            self.send();
        }
        let now = Instant::now();
        let mut decided = self.decide(now, true, 0);
        if let (Some(release), false) = (&mut self.release, self.queue.has_failed()) {
            let mut with = With {
                trees: &mut self.trees,
                counts: &mut self.counts,
                asked: &self.asked,
                queue: &mut self.queue,
                sink: &mut self.sink,
                now,
            };
            let ended = release.finish(&mut with).map_err(|Malformed| malformed());
            self.queue.send(&mut self.sink);
            decided = decided.and(ended).and(self.queue.result());
        }
        self.lose(); // what the sink has not taken
        (self.trees, self.held, self.queue) = Default::default();
        (self.release, self.incoming) = (None, None);
        self.counter.set_memory(0);
        decided.and(self.sink.finish())
    }
}

impl<S> fmt::Debug for Tail<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("window", &self.window)
            .field("memory", &self.memory)
            .field("asked", &self.asked)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
