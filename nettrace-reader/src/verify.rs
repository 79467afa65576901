//! Whether a stream keeps every promise that a writer of the format makes.

use std::fmt;

use crate::{error::Result, input::Source, options::Options, verify::checker::Checker};

mod checker;
mod threads;

/// Reads a stream to its end and checks it; lists the first hundred violations and counts all.
///
/// # Errors
/// Only where the source itself fails. Damage of the stream is a violation.
pub fn verify<R: Source>(source: R) -> Result<Report> {
    verify_with(source, Options::default(), 100)
}

/// [`verify`] with bounds on memory, and with the number of violations to list.
///
/// # Errors
/// Only where the source itself fails. Damage of the stream is a violation.
pub fn verify_with<R: Source>(source: R, options: Options, most: usize) -> Result<Report> {
    Checker::new(options, most).run(source)
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The first violations, in the order of the stream.
    pub violations: Vec<Violation>,
    /// How many there are in all.
    pub count: u64,
    /// Events that were checked.
    pub events: u64,
    /// Events that are missing by the numbers of their threads. Losing events breaks no promise.
    pub lost: u64,
    /// Blocks that were checked, the end of the stream included.
    pub blocks: u64,
    /// Sequence points among them.
    pub sequence_points: u64,
    /// How many bytes the stream has, up to its end-of-stream block.
    pub bytes: u64,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_sound(&self) -> bool {
        self.count == 0
    }
}

/// A promise that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Stream offset in bytes: of the row, field or block at fault.
    pub offset: u64,
    /// The promise.
    pub rule: Rule,
    /// What is wrong, in words.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}: {}", self.offset, self.rule, self.detail)
    }
}

/// The promises of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The stream can be read to its end-of-stream block.
    Readable,
    /// Zeros stand before the content of objects of versions 4 and 5, which begins at a multiple of
    /// four bytes, and their sizes are those of their content.
    Framing,
    /// The Trace block states a time that exists, and a tick frequency.
    Trace,
    /// What is referred to was defined before, and not removed or flushed since.
    Reference,
    /// Nothing is defined twice.
    Duplicate,
    /// The timestamps of one capture thread never decrease.
    ThreadOrder,
    /// A block holds the events of one capture thread; in versions 4 and 5, the thread changes only
    /// at events that are marked as sorted.
    OneThread,
    /// The timestamps in the head of an event block are those of its earliest and latest event.
    BlockTimes,
    /// No event behind one that is marked as sorted is earlier than it.
    IsSorted,
    /// Events lie in time between the sequence points between which they stand.
    BetweenPoints,
    /// The timestamps of sequence points increase.
    PointOrder,
    /// The numbers of a thread never go back, those that sequence points and removals give
    /// included. In versions 4 and 5 they may begin again at 1: another thread has got the id.
    SequenceNumbers,
    /// A provider gives each event id to one event type; or to several of one name and the same
    /// fields, which in version 6 must be versions of one type.
    EventIds,
    /// No thread index is the operating system's id of another live thread.
    ThreadIds,
    /// A payload has at most 65,535 bytes.
    PayloadSize,
    /// A payload has exactly the fields that its event type states. (An event type without fields
    /// may be one whose fields are not stated.)
    PayloadFields,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readable => "readable",
            Self::Framing => "framing",
            Self::Trace => "trace",
            Self::Reference => "reference",
            Self::Duplicate => "duplicate",
            Self::ThreadOrder => "thread-order",
            Self::OneThread => "one-thread",
            Self::BlockTimes => "block-times",
            Self::IsSorted => "is-sorted",
            Self::BetweenPoints => "between-points",
            Self::PointOrder => "point-order",
            Self::SequenceNumbers => "sequence-numbers",
            Self::EventIds => "event-ids",
            Self::ThreadIds => "thread-ids",
            Self::PayloadSize => "payload-size",
            Self::PayloadFields => "payload-fields",
        })
    }
}
