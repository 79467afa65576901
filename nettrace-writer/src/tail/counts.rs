//! Counts of a tail decision, for the application and in the trace.

use std::sync::Arc;

use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};
use nettrace_format::{
    Composer,
    v6::{self, RowHeader, ThreadInfo, ThreadSequence},
};

use crate::{
    sync::{AtomicU64, Ordering::Relaxed},
    tail::blocks::Malformed,
};

/// The provider of the events that tell what was left out.
pub const PROVIDER: &str = "NetTrace-Tail";

/// What a [`Tail`](super::Tail) has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailCounts {
    /// Events that were left out, because their tree was fast and did not fail.
    pub left_out_events: u64,
    /// Spans that asked and were left out.
    pub left_out_spans: u64,
    /// Spans that asked and were kept.
    pub kept_spans: u64,
    /// Those of the kept spans that had not ended when their Start had to be written: they took
    /// longer than the window, or memory was short, or the session ended.
    pub undecided_spans: u64,
    /// Events that are in no stream: they were on their way when the sink asked for a new stream
    /// after an error, or were held back when the session ended while the sink failed. The session
    /// counts them as written. Those that the session had dropped count too, if only what was lost
    /// here would have shown them as a gap.
    pub lost_events: u64,
}

impl TailCounts {
    fn values(&self) -> [u64; 5] {
        let Self { left_out_events, left_out_spans, kept_spans, undecided_spans, lost_events } =
            *self;
        [left_out_events, left_out_spans, kept_spans, undecided_spans, lost_events]
    }
}

/// Reads the counts of a [`Tail`](super::Tail) while a session has it, and afterwards.
///
/// Clones have the same counts. Reading takes no lock, so a process that was forked off may read
/// too.
#[derive(Clone, Debug, Default)]
pub struct TailCounter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// As in [`TailCounts::values`].
    counts: [AtomicU64; 5],
    memory: AtomicU64,
}

impl TailCounter {
    /// The counts so far. While the session writes, some may be newer than others.
    #[must_use]
    pub fn get(&self) -> TailCounts {
        let [left_out_events, left_out_spans, kept_spans, undecided_spans, lost_events] =
            self.0.counts.each_ref().map(|count| count.load(Relaxed));
        TailCounts { left_out_events, left_out_spans, kept_spans, undecided_spans, lost_events }
    }

    /// About how many bytes of memory are in use: for events that are held back, for those that the
    /// sink within has not taken yet, for what is known of trees, and for definitions. It can be a
    /// fifth more than what is taken for trees. See [`Tail::memory`](super::Tail::memory) for the
    /// bound.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.0.memory.load(Relaxed)
    }

    pub(super) fn set(&self, counts: &TailCounts) {
        for (shared, value) in self.0.counts.iter().zip(counts.values()) {
            shared.store(value, Relaxed);
        }
    }

    pub(super) fn set_memory(&self, bytes: usize) {
        self.0.memory.store(bytes as u64, Relaxed);
    }
}

/// The event type and the thread of the counts. Sessions count both from 1, and never come so far.
pub(super) const TYPE: u32 = 0x7FFF_FF00;
const THREAD: u64 = 0x7FFF_FF00;

static SCHEMA: EventSchema = EventSchema {
    provider: ProviderSchema { name: PROVIDER, guid: None, group: None },
    name: "LeftOut",
    id: 1,
    place: Place::UNKNOWN,
    id_is_explicit: true,
    version: 0,
    level: Level::LogAlways,
    keywords: 0,
    opcode: None,
    tag: 0,
    message: Some("{left_out_events} events of {left_out_spans} spans were left out"),
    description: Some("What a tail decision has counted since the session began."),
    key_values: &[],
    fields: &[
        FieldSchema::new("left_out_events", FieldType::U64),
        FieldSchema::new("left_out_spans", FieldType::U64),
        FieldSchema::new("kept_spans", FieldType::U64),
        FieldSchema::new("undecided_spans", FieldType::U64),
        FieldSchema::new("lost_events", FieldType::U64),
    ],
};

/// The most bytes that [`Told::tell`] adds to a stream, and the thread to a sequence point.
pub(super) const MOST: u64 = 1024;

/// What a stream says of the counts.
#[derive(Debug, Default)]
pub(super) struct Told {
    counts: TailCounts,
    sequence: u32,
    is_defined: bool,
}

impl Told {
    /// Begins a new stream, which tells everything again: it may be read alone.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Whether the counts have changed.
    pub(super) fn differs(&self, counts: &TailCounts) -> bool {
        self.counts != *counts
    }

    /// Adds an event with the counts, if they have changed.
    pub(super) fn tell(
        &mut self,
        counts: &TailCounts,
        at: u64,
        composer: &mut Composer,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        if !self.differs(counts) {
            return Ok(());
        }
        self.counts = *counts;
        if !self.is_defined {
            self.is_defined = true;
            let mut row = Vec::new();
            v6::metadata_row(TYPE, &SCHEMA, &mut row)?;
            composer.metadata(&row, out)?;
            let name = Some("(tail decision)");
            composer.thread(&ThreadInfo { index: THREAD, name, ..ThreadInfo::default() }, out)?;
        }
        self.sequence += 1;
        let header = RowHeader {
            metadata_id: TYPE,
            sequence: self.sequence,
            capture_thread: THREAD,
            thread: THREAD,
            timestamp: at,
            ..RowHeader::default()
        };
        composer.row(&header, &counts.values().map(u64::to_le_bytes).concat(), out)?;
        Ok(())
    }

    /// The thread's entry in a sequence point.
    pub(super) fn thread(&self) -> Option<ThreadSequence> {
        self.is_defined.then_some(ThreadSequence { thread: THREAD, sequence: self.sequence })
    }
}
