//! The parts of version 6 that errors name: the kinds of its blocks, and how large a stack can be.

use core::fmt;

/// The most bytes that one stack can have: 8,190 frames of 8 bytes.
///
/// The format has 32 bits for the size. But the reference reader adds 8 and keeps 16 bits of the
/// sum. With a deeper stack it loses frames, or its process crashes (4.0.0, at 8,191 frames).
pub const MAX_STACK: usize = 65_527;

/// The content of a block.
///
/// ```
/// use nettrace_format::v6::BlockKind;
///
/// // The kind is the last byte of a block's header.
/// assert_eq!(BlockKind::LabelList as u8, 8);
/// assert_eq!(BlockKind::LabelList.to_string(), "LabelList");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// The end of the file; always empty.
    EndOfStream = 0,
    /// Facts about the whole trace. It is the first block.
    Trace = 1,
    /// Events.
    Event = 2,
    /// Descriptions of event types.
    Metadata = 3,
    /// A point in time that separates earlier from later events.
    SequencePoint = 4,
    /// Stacks.
    Stack = 5,
    /// Threads.
    Thread = 6,
    /// Threads that have ended.
    RemoveThread = 7,
    /// Label lists.
    LabelList = 8,
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
