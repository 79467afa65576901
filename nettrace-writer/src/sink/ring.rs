//! The last part of a trace, in memory: what a flight recorder keeps.
//!
//! The session writes one stream without an end. It is cut at its sequence points: stacks and label
//! lists are defined again after each, so what follows needs only types and threads from before.
//! These are kept when the rest of a *stretch* between two sequence points is given up. A dump is
//! therefore the header, the types and threads that were kept, and the stretches that are there, as
//! the session wrote them. The first sequence point tells how far the numbers of each thread are,
//! so readers see what was given up as a gap.
//!
//! If a single stretch has no room, its first events are given up, but not what the others may
//! refer to.
//!
//! If the session has a recorder file, the parts are there ([`Log`]), so that they outlive the
//! process. Then each stretch begins with what is known of the threads that live, because whoever
//! reads the file has nothing else of a stretch that was given up. (Types are elsewhere in the
//! file.) If what the events of a single stretch refer to has no room, all is given up, and the
//! session begins another stream.

cfg_if::cfg_if! {
    if #[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))] {
        mod log;
    } else {
        #[path = "ring/no_log.rs"]
        mod log;
    }
}
mod definitions;
pub(crate) mod follow;
mod logged;
mod snapshot;

pub(crate) use self::log::Log;
pub use self::snapshot::{Dump, Past};

use std::{
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind},
    mem,
    ops::Deref,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nettrace_format::v6::{BLOCK_HEADER, BlockKind, read};

use self::{
    definitions::{Definitions, Threads},
    follow::{ANOTHER_STREAM, Queue},
    log::Kept,
};
use crate::{
    protocol::clock::Stopwatch,
    sink::{
        Batch, Sink, StreamEnd, WriteError, complete::batch_size, failure::during,
        stream::not_started,
    },
    sync::Mutex,
};

/// What a flight recorder keeps: the events of the last time, in a bounded memory.
///
/// ```
/// use std::time::Duration;
///
/// use nettrace_writer::Keep;
///
/// let keep = Keep::last(Duration::from_secs(10)).within(32 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Keep {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

impl Keep {
    /// After how many bytes, and after how much time, a session begins a stretch.
    pub(crate) fn stretches(self) -> (u64, Duration) {
        (self.bytes as u64 / 16, (self.time / 8).max(Duration::from_millis(100)))
    }

    /// Keeps at least the events of the last `time`, as far as they fit into 64 MiB.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::Keep;
    /// let keep = Keep::last(Duration::from_secs(10));
    /// ```
    pub const fn last(time: Duration) -> Self {
        Self { time, bytes: 64 << 20 }
    }

    /// Bounds the memory for the events that are kept, in bytes. It is beside the session's
    /// [budget](crate::SessionBuilder::budget), and at least 1 MiB. An event of two
    /// numbers takes about 20 bytes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::Keep;
    /// let keep = Keep::last(Duration::from_secs(60)).within(256 << 20);
    /// ```
    pub const fn within(mut self, bytes: usize) -> Self {
        self.bytes = if bytes < 1 << 20 { 1 << 20 } else { bytes };
        self
    }
}

/// What is kept. The session's thread adds to it, and any thread makes dumps.
#[derive(Debug)]
pub(crate) struct Ring {
    keep: Keep,
    state: Mutex<State>,
    look: Mutex<Option<Box<dyn Look>>>,
}

/// Sees all that is kept, before it is.
pub(crate) trait Look: fmt::Debug + Send {
    /// Whole blocks, as the session wrote them.
    fn look(&mut self, blocks: &[u8]) -> Result<(), read::Malformed>;
}

#[derive(Debug, Default)]
struct State {
    header: Vec<u8>,
    end: Option<StreamEnd>,
    /// From stretches that were given up.
    definitions: Definitions,
    given_up: u64,
    /// The number of the next part. Numbers go on when another stream begins.
    next_part: u64,
    /// The last one is being written.
    stretches: VecDeque<Stretch>,
    bytes: usize,
    /// The memory of a part that was given up. Pages that are new cost more than to fill them.
    spare: Vec<u8>,
    log: Option<Log>,
    /// With a log: the threads that live now.
    alive: Threads,
    /// With a log: a stretch had no room. Nothing is kept until another stream begins.
    is_broken: bool,
    /// Those who get what comes.
    followers: Vec<Arc<Queue>>,
}

/// What was written between two sequence points. It begins with the first of the two.
#[derive(Debug)]
struct Stretch {
    age: Stopwatch,
    /// All that the session recorded later is in this stretch or in a later one.
    begins: SystemTime,
    /// The number of its first part.
    first: u64,
    parts: Vec<Arc<Part>>,
    /// In the log: what parts before it say of threads. As long as somebody has it, the log cannot
    /// take its place.
    defines: Option<Arc<Kept>>,
}

impl Stretch {
    /// For a dump, which knows the threads otherwise.
    fn without_threads(&self) -> Self {
        let Self { age, begins, first, parts, .. } = self;
        Self { age: *age, begins: *begins, first: *first, parts: parts.clone(), defines: None }
    }
}

/// Whole blocks.
#[derive(Debug)]
struct Part {
    /// Changes from the log to memory, if a dump has the part when it is given up.
    bytes: Mutex<Arc<Store>>,
    /// Where each block ends.
    ends: Vec<u64>,
    events: u64,
    number: u64,
}

/// Where bytes are.
#[derive(Debug)]
enum Store {
    Memory(Vec<u8>),
    Log(Kept),
}

impl Part {
    /// A part that gets its number when it is added.
    fn new(bytes: Store, ends: Vec<u64>, events: u64) -> Self {
        Self { bytes: Mutex::new(Arc::new(bytes)), ends, events, number: 0 }
    }

    /// The blocks that have no events. Later events may need their stacks and label lists.
    fn without_events(&self) -> Result<Self, read::Malformed> {
        let (mut rest, mut ends) = (Vec::new(), Vec::new());
        for block in read::blocks(&self.bytes()) {
            let block = block?;
            if !block.is(BlockKind::Event) {
                rest.extend_from_slice(block.whole);
                ends.push(rest.len() as u64);
            }
        }
        rest.shrink_to_fit();
        let number = self.number;
        Ok(Self { number, ..Self::new(Store::Memory(rest), ends, 0) })
    }

    fn bytes(&self) -> Arc<Store> {
        Arc::clone(&self.bytes.lock())
    }

    fn into_bytes(self) -> Arc<Store> {
        self.bytes()
    }

    /// How much of the ring's memory it takes.
    fn size(&self) -> usize {
        match &**self.bytes.lock() {
            Store::Memory(bytes) => bytes.capacity(),
            Store::Log(kept) => kept.len(),
        }
    }
}

impl Deref for Store {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Log(kept) => kept,
        }
    }
}

impl Ring {
    pub(crate) fn new(keep: Keep) -> Arc<Self> {
        Arc::new(Self { keep, state: Mutex::default(), look: Mutex::default() })
    }

    /// Keeps in a log what comes from now on.
    #[cfg_attr(not(feature = "persistent"), allow(dead_code, reason = "for recorder files"))]
    pub(crate) fn keep_in(&self, log: Log) {
        self.state.lock().log = Some(log);
    }

    /// Has `look` see what comes from now on.
    pub(crate) fn show(&self, look: Box<dyn Look>) {
        *self.look.lock() = Some(look);
    }

    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }
}

impl State {
    fn size(&self) -> usize {
        self.header.len() + self.definitions.size() + self.bytes
    }

    /// Gives up the oldest stretch, but for the definitions that later ones need.
    fn give_up_oldest(&mut self) -> Result<(), read::Malformed> {
        let Some(stretch) = self.stretches.pop_front() else { return Ok(()) };
        self.give_up_in_log(&stretch);
        for part in stretch.parts {
            self.bytes -= part.size();
            self.given_up += part.events;
            self.definitions.take_over(&part.bytes())?;
            // A dump may still have it.
            let bytes = Arc::into_inner(part).map(Part::into_bytes);
            if let Some(Some(Store::Memory(bytes))) = bytes.map(Arc::into_inner) {
                self.spare = bytes;
            }
        }
        Ok(())
    }

    /// An empty buffer for `len` bytes, of which not more than half stays empty.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.spare);
        if !(len..=2 * len).contains(&bytes.capacity()) {
            return Vec::with_capacity(len);
        }
        bytes.clear();
        bytes
    }

    /// Makes room. Returns `false` if there is nothing to give up.
    fn give_up_something(&mut self) -> Result<bool, read::Malformed> {
        if self.stretches.len() > 1 {
            self.give_up_oldest()?;
            return Ok(true);
        }
        if self.log.is_some() {
            return self.strip_oldest();
        }
        let parts = self.stretches.front_mut().map(|stretch| &mut stretch.parts);
        let Some(part) = parts.into_iter().flatten().find(|part| part.events > 0) else {
            return Ok(false);
        };
        let without = part.without_events()?;
        self.bytes -= part.size() - without.size();
        self.given_up += part.events;
        *part = Arc::new(without);
        Ok(true)
    }

    /// Begins a stretch.
    fn begin(&mut self) -> Result<(), read::Malformed> {
        let (age, begins) = (Stopwatch::start(), SystemTime::now());
        let defines = self.put_threads()?;
        let (first, parts) = (self.next_part, Vec::new());
        self.stretches.push_back(Stretch { age, begins, first, parts, defines });
        Ok(())
    }

    fn add(&mut self, mut part: Part) -> Result<(), read::Malformed> {
        if self.stretches.is_empty() {
            self.begin()?;
        }
        part.number = self.next_part;
        self.next_part += 1;
        self.bytes += part.size();
        let part = Arc::new(part);
        self.followers.retain(|follower| follower.put(&part));
        let Some(last) = self.stretches.back_mut() else { unreachable!("one was begun") };
        last.parts.push(part);
        Ok(())
    }

    /// Adds a batch. Sequence points begin stretches.
    fn write(
        &mut self,
        batch: &Batch<'_>,
        keep: Keep,
        look: Option<&mut (dyn Look + 'static)>,
    ) -> Result<(), read::Malformed> {
        let len = batch.pieces.iter().map(|piece| piece.len()).sum();
        while self.size() + len > keep.bytes && self.give_up_something()? {}
        if self.is_broken {
            // Nothing refers to it in the stream that begins next.
            self.give_up_batch(rows_before_all(batch));
            return Ok(());
        }
        let mut bytes = self.buffer(len);
        batch.pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        look.map_or(Ok(()), |look| look.look(&bytes))?;
        let rows_before = |block: usize| match block {
            0 => 0,
            block => batch.rows.get(block - 1).copied().unwrap_or(0),
        };
        // Where the blocks of the part begin that is being cut out.
        let (mut from, mut first) = (0, 0);
        for at in 0..=batch.block_ends.len() {
            let start = at.checked_sub(1).map_or(0, |before| batch.block_ends[before] as usize);
            let kind = bytes.get(start..).and_then(|rest| rest.get(BLOCK_HEADER - 1));
            let is_point = kind == Some(&(BlockKind::SequencePoint as u8));
            if (is_point || at == batch.block_ends.len()) && start > from {
                let ends = batch.block_ends[first..at].iter().map(|end| end - from as u64);
                let ends: Vec<_> = ends.collect();
                if self.log.is_some() {
                    let rows = (first..=at).map(|block| rows_before(block) - rows_before(first));
                    self.add_to_log(&bytes[from..start], &ends, &rows.collect::<Vec<_>>())?;
                } else {
                    let is_all = (from, start) == (0, len);
                    let bytes =
                        if is_all { mem::take(&mut bytes) } else { bytes[from..start].to_vec() };
                    let events = rows_before(at) - rows_before(first);
                    self.add(Part::new(Store::Memory(bytes), ends, events))?;
                }
                (from, first) = (start, at);
            }
            if is_point {
                self.begin()?;
            }
        }
        if self.log.is_some() {
            self.spare = bytes;
        }
        // The second stretch alone reaches back far enough.
        while self.stretches.get(1).is_some_and(|second| second.age.elapsed() >= keep.time) {
            self.give_up_oldest()?;
        }
        Ok(())
    }
}

/// How many events a batch has.
fn rows_before_all(batch: &Batch<'_>) -> u64 {
    batch.rows.last().copied().unwrap_or(0)
}

fn malformed(error: read::Malformed) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// The sink of a session with a flight recorder.
#[derive(Debug)]
pub(crate) struct RingSink(pub(crate) Arc<Ring>);

impl Sink for RingSink {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let events = state.stretches.iter().flat_map(|stretch| &stretch.parts);
        let given_up = state.given_up + events.map(|part| part.events).sum::<u64>();
        let mut log = state.log.take();
        if let Some(log) = &mut log {
            log.clear();
        }
        state.end_followers(&Err(ANOTHER_STREAM));
        let (header, end, next_part) = (header.to_vec(), Some(end), state.next_part);
        *state = State { header, end, given_up, next_part, log, ..State::default() };
        Ok(())
    }

    fn wants_restart(&mut self) -> bool {
        self.0.state.lock().is_broken
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let mut state = self.0.state.lock();
        let Some(end) = state.end else { return Err(not_started().into()) };
        batch_size(batch, end.bytes())?;
        state
            .write(batch, self.0.keep, self.0.look.lock().as_deref_mut())
            .map_err(|error| during("keep events", malformed(error)).into())
    }

    /// Whoever still has the ring finds nothing in it.
    fn finish(&mut self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        state.end_followers(&Ok(SystemTime::now()));
        *state = State::default();
        Ok(())
    }
}
