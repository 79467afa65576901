//! What can be wrong with what is to be written.

use core::fmt;

use crate::{
    payload::{MAX_PAYLOAD, walk::Mismatch},
    v6::BlockKind,
};

/// Why something cannot be written. The output is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A block of more than 16,777,215 bytes: the bound of version 6, kept in versions 4 and 5.
    BlockTooLarge {
        /// What was to be written.
        kind: BlockKind,
        /// Its size in bytes, block header excluded.
        size: usize,
    },
    /// An event block without events, which readers refuse.
    EmptyEventBlock,
    /// An id of 0, which stands for "none".
    ZeroId {
        /// The block whose row has it.
        kind: BlockKind,
    },
    /// Ids beyond 2^32 - 1 (metadata: 2^31 - 1).
    IdTooLarge {
        /// The block whose row has it.
        kind: BlockKind,
        /// The first id that is too large.
        id: u64,
    },
    /// A metadata row of more than 65,535 bytes, or in versions 4 and 5 of more than
    /// [`MAX_METADATA_ROW`](crate::v5::MAX_METADATA_ROW).
    MetadataRowTooLarge {
        /// The event's name.
        event: &'static str,
        /// The row's size in bytes.
        size: usize,
    },
    /// Optional metadata of more than 65,535 bytes.
    OptionalMetadataTooLarge {
        /// The event's name.
        event: &'static str,
        /// The size in bytes.
        size: usize,
    },
    /// The description of an event type, or a part of it, that exceeds 65,535 bytes; or more than
    /// 65,535 fields in it.
    DescriptionTooLarge {
        /// The type's metadata id.
        id: u32,
        /// The size in bytes, or the number of fields.
        size: usize,
    },
    /// More than 65,535 fields in an event or object.
    TooManyFields {
        /// How many there are.
        count: usize,
    },
    /// A field description of more than 65,535 bytes.
    FieldDescriptionTooLarge {
        /// The field's name.
        field: &'static str,
        /// The size in bytes.
        size: usize,
    },
    /// A `RelLoc` or `DataLoc` of elements that are not of fixed size.
    LocationOfVariableSize {
        /// The field's name.
        field: &'static str,
    },
    /// An object without fields inside an array, an option or another object, where readers fail on
    /// it.
    EmptyObject {
        /// The field's name.
        field: &'static str,
    },
    /// A fixed-length array of no elements, which readers take for a counted one.
    EmptyFixedArray {
        /// The field's name.
        field: &'static str,
    },
    /// A fixed-length array whose bytes exceed what a payload or a reader can hold.
    FixedArrayTooLarge {
        /// The field's name.
        field: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// A fixed-length array of more than 32,767 elements, where a version has counted ones only.
    FixedArrayTooLong {
        /// The field's name.
        field: &'static str,
        /// How many elements it has.
        count: u16,
    },
    /// A description of a thread that takes more than 65,535 bytes.
    ThreadRowTooLarge {
        /// The thread's index.
        index: u64,
        /// The row's size in bytes.
        size: usize,
    },
    /// A label list without labels: id 0 stands for it.
    EmptyLabelList {
        /// The id that it was to get.
        id: u32,
    },
    /// A payload of more than [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD) bytes.
    PayloadTooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// A pointer size other than 4 and 8.
    PointerSize {
        /// What was given, in bytes.
        given: u32,
    },
    /// A stack of more than [`MAX_STACK`](crate::v6::MAX_STACK) bytes.
    StackTooDeep {
        /// The stack's id.
        stack: u32,
        /// How many frames it has.
        frames: usize,
    },
    /// An address that does not fit in the trace's 4-byte pointers.
    AddressTooLarge {
        /// The id of the stack.
        stack: u32,
        /// The address.
        address: u64,
    },
    /// A clock rate of zero, or one beyond 2^63 - 1.
    ClockRate {
        /// What was given, in ticks a second.
        ticks_per_second: u64,
    },
    /// The name of an option of a Heph trace that takes more than 65,535 bytes.
    HephOptionNameTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// A description of a Heph event that takes more than 65,535 bytes.
    HephDescriptionTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// The name of an attribute of a Heph event that takes more than 65,535 bytes.
    HephAttributeNameTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// A string in a Heph event that takes more than 65,535 bytes of UTF-8.
    HephStringTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// An array in a Heph event of more than 65,535 elements.
    HephArrayTooLong {
        /// How many it has.
        len: usize,
    },
    /// A Heph packet of more than 2^32 - 1 bytes.
    HephPacketTooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The start or end of a Heph event, of a type that is no time.
    HephTime {
        /// The field's name.
        field: &'static str,
    },
    /// A thread whose index exceeds what a Heph trace can number.
    HephStream {
        /// The thread's index.
        thread: u64,
    },
    /// A payload that is not what its event's fields say.
    PayloadMismatch {
        /// Bytes from the payload's start to where it was noticed.
        offset: usize,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockTooLarge { kind, size } => write!(
                f,
                "a {kind} block of {size} bytes exceeds 16777215, the most there can be; write \
                 fewer or smaller rows at once"
            ),
            Self::EmptyEventBlock => {
                f.write_str("an event block needs at least one event; write none instead")
            }
            Self::ZeroId { kind } => {
                write!(f, "id 0 in a {kind} block stands for \"none\"; count ids from 1")
            }
            Self::IdTooLarge { kind, id } => write!(
                f,
                "id {id} in a {kind} block is beyond what the format can hold; start a new trace, \
                 or after a sequence point count from 1 again"
            ),
            Self::MetadataRowTooLarge { event, size } => write!(
                f,
                "the description of event {event:?} takes {size} bytes, more than the format \
                 allows; shorten names and texts or record fewer fields"
            ),
            Self::OptionalMetadataTooLarge { event, size } => write!(
                f,
                "message, description and key-values of event {event:?} take {size} bytes and the \
                 format allows 65535; shorten them"
            ),
            Self::DescriptionTooLarge { id, size } => write!(
                f,
                "the description of event type {id} or a part of it has a size of {size} and the \
                 format allows 65535; leave out texts or fields"
            ),
            Self::TooManyFields { count } => write!(
                f,
                "{count} fields in one event or object, and the format allows 65535; group them \
                 or leave some out"
            ),
            Self::FieldDescriptionTooLarge { field, size } => write!(
                f,
                "the description of field {field:?} takes {size} bytes and the format allows \
                 65535; shorten names or flatten the type"
            ),
            Self::LocationOfVariableSize { field } => write!(
                f,
                "field {field:?} is a RelLoc or DataLoc of elements that vary in size; use a \
                 counted array"
            ),
            Self::EmptyObject { field } => write!(
                f,
                "field {field:?} holds an object without fields, which readers fail on there; skip \
                 it or give it a field"
            ),
            Self::EmptyFixedArray { field } => write!(
                f,
                "field {field:?} is a fixed-length array of no elements, which readers take for a \
                 counted one; use a counted array"
            ),
            Self::FixedArrayTooLarge { field, size } => write!(
                f,
                "field {field:?} is a fixed-length array of {size} bytes, more than a reader can \
                 hold; use a counted array or fewer elements"
            ),
            Self::FixedArrayTooLong { field, count } => write!(
                f,
                "field {field:?} is an array of {count} elements, and arrays of NetTrace version 5 \
                 have at most 32767; use fewer, or version 6"
            ),
            Self::ThreadRowTooLarge { index, size } => write!(
                f,
                "the description of thread {index} takes {size} bytes and the format allows \
                 65535; shorten its name or key-values"
            ),
            Self::EmptyLabelList { id } => {
                write!(f, "label list {id} has no labels, and the format cannot say so; use list 0")
            }
            Self::PayloadTooLarge { size } => write!(
                f,
                "a payload of {size} bytes exceeds the {MAX_PAYLOAD} that readers take; record less in \
                 one event"
            ),
            Self::PointerSize { given } => {
                write!(f, "a pointer size of {given} bytes is none the format knows; use 4 or 8")
            }
            Self::StackTooDeep { stack, frames } => write!(
                f,
                "stack {stack} has {frames} frames, more than readers survive; leave out frames \
                 beyond {} bytes of addresses",
                crate::v6::MAX_STACK
            ),
            Self::AddressTooLarge { stack, address } => write!(
                f,
                "address {address:#x} of stack {stack} does not fit in 4 bytes; declare a pointer \
                 size of 8 for the trace"
            ),
            Self::HephOptionNameTooLong { size } => write!(
                f,
                "the name of an option takes {size} bytes and a Heph trace allows 65535; shorten it"
            ),
            Self::HephDescriptionTooLong { size } => write!(
                f,
                "the description of an event takes {size} bytes and a Heph trace allows 65535; \
                 shorten it"
            ),
            Self::HephAttributeNameTooLong { size } => write!(
                f,
                "the name of an attribute takes {size} bytes and a Heph trace allows 65535; \
                 shorten names or flatten the type"
            ),
            Self::HephStringTooLong { size } => write!(
                f,
                "a string takes {size} bytes of UTF-8 and a Heph trace allows 65535; shorten it"
            ),
            Self::HephArrayTooLong { len } => {
                write!(f, "an array has {len} elements and a Heph trace allows 65535; record fewer")
            }
            Self::HephPacketTooLarge { size } => write!(
                f,
                "a packet takes {size} bytes and a Heph trace allows 4294967295; record less in \
                 one event"
            ),
            Self::HephTime { field } => write!(
                f,
                "field {field:?} is the start or end of its event, but no time; use SystemTime, \
                 Duration or an integer (nanoseconds since 1970-01-01 UTC)"
            ),
            Self::HephStream { thread } => write!(
                f,
                "thread {thread} is beyond the 4294967295 that a Heph trace can number; start a new \
                 trace"
            ),
            Self::PayloadMismatch { offset } => Mismatch { offset }.fmt(f),
            Self::ClockRate { ticks_per_second } => write!(
                f,
                "a clock of {ticks_per_second} ticks a second cannot be written; use 1 to 2^63 - 1"
            ),
        }
    }
}

impl core::error::Error for FormatError {}

impl From<Mismatch> for FormatError {
    fn from(mismatch: Mismatch) -> Self {
        Self::PayloadMismatch { offset: mismatch.offset }
    }
}
