//! The kinds of blocks.

use std::fmt;

/// The kind of a block.
///
/// ```
/// use nettrace_reader::{BlockKind, ErrorKind, Reader};
///
/// # let mut file = nettrace_reader::example();
/// # file.truncate(file.len() - 4);
/// # file.extend([2, 0, 0, 3, 1, 2]);
/// // In this file a block of event types is damaged.
/// let error = Reader::new(&file[..])?.read_to_end().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Malformed { block: BlockKind::Metadata, .. }));
/// assert_eq!(BlockKind::Metadata.to_string(), "Metadata");
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// The end of the stream, whatever bytes follow.
    EndOfStream,
    /// Facts about the whole trace; the first block of each stream.
    Trace,
    /// Rows of events.
    Event,
    /// Event types.
    Metadata,
    /// A point in time that separates the events before it from those after it.
    SequencePoint,
    /// Stacks: lists of addresses.
    Stack,
    /// Threads that later rows may refer to.
    Thread,
    /// Threads that no later row refers to.
    RemoveThread,
    /// Lists of labels.
    LabelList,
    /// An unknown kind. The reader skips it, as the format demands.
    Unknown(u8),
    /// An object of versions 4 and 5 of an unknown type. It consists of tagged values, which the
    /// reader skips, as the format demands.
    UnknownObject,
}

impl BlockKind {
    /// The kind with this number in a block header of version 6.
    pub(crate) fn from_v6(kind: u8) -> Self {
        match kind {
            0 => Self::EndOfStream,
            1 => Self::Trace,
            2 => Self::Event,
            3 => Self::Metadata,
            4 => Self::SequencePoint,
            5 => Self::Stack,
            6 => Self::Thread,
            7 => Self::RemoveThread,
            8 => Self::LabelList,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfStream => f.write_str("EndOfStream"),
            Self::Trace => f.write_str("Trace"),
            Self::Event => f.write_str("Event"),
            Self::Metadata => f.write_str("Metadata"),
            Self::SequencePoint => f.write_str("SequencePoint"),
            Self::Stack => f.write_str("Stack"),
            Self::Thread => f.write_str("Thread"),
            Self::RemoveThread => f.write_str("RemoveThread"),
            Self::LabelList => f.write_str("LabelList"),
            Self::Unknown(kind) => write!(f, "kind-{kind}"),
            Self::UnknownObject => f.write_str("unknown"),
        }
    }
}
