//! Checks whether a stream keeps every promise that a writer of the format makes.

use std::fmt;

use crate::{error::Result, input::Source, options::Options, verify::checker::Checker};

mod checker;
mod log;
mod threads;

/// Reads a stream to its end and checks it. Lists the first 100 violations and counts all.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if the source fails. Damage in the stream is a
/// violation, not an error.
///
/// ```
/// # fn main() -> Result<(), nettrace_reader::Error> {
/// # let file = nettrace_reader::example();
/// let report = nettrace_reader::verify(&file[..])?;
/// assert!(report.is_sound(), "{:?}", report.violations);
/// assert_eq!(report.events, 2);
///
/// // Without its end the stream is damaged.
/// let report = nettrace_reader::verify(&file[..file.len() - 4])?;
/// println!("{}", report.violations[0]);
/// assert!(!report.is_sound());
/// # Ok(())
/// # }
/// ```
pub fn verify<R: Source>(source: R) -> Result<Report> {
    verify_with(source, Options::default(), 100)
}

/// Like [`verify`], with limits on memory and the number of violations to list.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if the source fails. Damage in the stream is a
/// violation, not an error.
///
/// ```
/// use nettrace_reader::{Options, Rule, verify_with};
///
/// # let mut file = nettrace_reader::example();
/// # let end = file.len() - 4;
/// # file.truncate(end);
/// // A file whose end is missing, and at most one violation to list.
/// let report = verify_with(&file[..], Options::default(), 1)?;
/// assert_eq!(report.violations[0].rule, Rule::Readable);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
pub fn verify_with<R: Source>(source: R, options: Options, most: usize) -> Result<Report> {
    Checker::new(options, most).run(source)
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The first violations, in the order of the stream.
    pub violations: Vec<Violation>,
    /// The number of all violations.
    pub count: u64,
    /// How many of them are of rules of the format itself: see [`Basis`].
    pub format_count: u64,
    /// The number of events.
    pub events: u64,
    /// The number of lost events. A loss that the sequence numbers show breaks no promise.
    pub lost: u64,
    /// The number of blocks, including the end-of-stream block.
    pub blocks: u64,
    /// The number of sequence points.
    pub sequence_points: u64,
    /// The size of the stream in bytes, up to its end-of-stream block.
    pub bytes: u64,
}

impl Report {
    /// Whether the stream keeps every promise.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let report = nettrace_reader::verify(&file[..])?;
    /// assert!(report.is_sound());
    /// assert_eq!((report.count, report.violations.len()), (0, 0));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.count == 0
    }

    /// Whether the stream keeps the rules of the format. It may still break what the reference
    /// reader needs, or what this project promises beyond the format.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// assert!(nettrace_reader::verify(&file[..])?.keeps_format());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn keeps_format(&self) -> bool {
        self.format_count == 0
    }
}

/// A promise that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The position of the row, field or block at fault, in bytes from the start of the stream.
    pub offset: u64,
    /// The promise.
    pub rule: Rule,
    /// A description of what is wrong.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}: {}", self.offset, self.rule, self.detail)?;
        f.write_str(self.rule.basis().remark())
    }
}

/// Where a [`Rule`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Basis {
    /// The specification demands it.
    Format,
    /// The specification allows otherwise, but the reference reader then refuses or misreads the
    /// stream, always or in certain cases.
    Reader,
    /// The writers of this project promise it. Other producers do otherwise, and readers live with
    /// it.
    Project,
}

impl Basis {
    /// What follows the description of a violation.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Format => "",
            Self::Reader => " (the format allows it, the reference reader does not)",
            Self::Project => " (the format allows it, this project does not)",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "format",
            Self::Reader => "reader",
            Self::Project => "project",
        })
    }
}

impl Rule {
    /// Where it comes from.
    ///
    /// ```
    /// use nettrace_reader::{Basis, Rule};
    ///
    /// assert_eq!(Rule::ThreadOrder.basis(), Basis::Format);
    /// assert_eq!(Rule::OneThread.basis(), Basis::Reader);
    /// ```
    #[must_use]
    pub fn basis(self) -> Basis {
        match self {
            Self::OneThread | Self::ThreadIds | Self::PayloadSize => Basis::Reader,
            Self::SyncTime
            | Self::MetadataIds
            | Self::Nesting
            | Self::PayloadFields
            | Self::Alone => Basis::Project,
            _ => Basis::Format,
        }
    }
}

/// The promises of a writer: what the specification demands, what the reference reader needs, and
/// what this project promises. [`Rule::basis`] tells them apart.
/// [`Dialect::Reference`](crate::Dialect::Reference) adds what that reader misreads.
///
/// ```
/// // A rule has a short name, which reports and scripts can use.
/// assert_eq!(nettrace_reader::Rule::ThreadOrder.to_string(), "thread-order");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The stream can be read to its end-of-stream block.
    Readable,
    /// In versions 4 and 5, the content of an object begins at a multiple of four bytes, the
    /// padding before it is zero, and its stated size is its actual size.
    Framing,
    /// The Trace block states an existing time, a tick frequency, and a pointer size of 4 or 8
    /// bytes.
    Trace,
    /// No event is earlier than the start of the trace.
    SyncTime,
    /// Whatever a row refers to is defined before it, and not removed or flushed since.
    Reference,
    /// Nothing is defined twice.
    Duplicate,
    /// The timestamps of one capture thread never decrease.
    ThreadOrder,
    /// The capture thread changes within a block only at events that are marked as sorted.
    OneThread,
    /// The header of an event block states the times of its earliest and latest event.
    BlockTimes,
    /// No event after one that is marked as sorted is earlier than it.
    IsSorted,
    /// The time of an event is between those of the sequence points before and after it.
    BetweenPoints,
    /// The timestamps of sequence points increase.
    PointOrder,
    /// The sequence numbers of a thread never go back, including the number of its removal. A
    /// number in a sequence point is a lower bound. In versions 4 and 5 the numbers may begin again
    /// at 1, because another thread has got the id.
    SequenceNumbers,
    /// A provider gives an event id to one event type, or to several with the same name and fields.
    /// In version 6 these must be different versions of one type. Event id 0 means "no id".
    EventIds,
    /// In version 6, no metadata id is 0.
    MetadataIds,
    /// The types of fields are nested at most 48 levels deep. This crate does not follow deeper
    /// ones.
    Nesting,
    /// No thread index is that of a removed thread or equals the OS id of another thread, even of
    /// one that was removed. A sequence point that flushes threads makes the ids available again.
    ThreadIds,
    /// A payload has at most 65,535 bytes.
    PayloadSize,
    /// A payload has exactly the fields of its event type. (If the event type has no fields, the
    /// payload may have any content.)
    PayloadFields,
    /// Behind the end of the stream no other one begins. Checked with
    /// [`Options::alone`](crate::Options::alone).
    Alone,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readable => "readable",
            Self::Framing => "framing",
            Self::Trace => "trace",
            Self::SyncTime => "sync-time",
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
            Self::MetadataIds => "metadata-ids",
            Self::Nesting => "nesting",
            Self::PayloadFields => "payload-fields",
            Self::Alone => "alone",
        })
    }
}
