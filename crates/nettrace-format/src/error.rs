//! The errors of this crate's writing functions.

use crate::{
    blocks::{BlockKind, MAX_STACK},
    payload::{MAX_PAYLOAD, walk::Mismatch},
};

/// Why a value cannot be written. A function that returns an error leaves its output unchanged.
///
/// ```
/// use nettrace_format::{FormatError, v6};
///
/// // A pointer of 3 bytes.
/// let mut out = Vec::new();
/// let error = v6::stack_block(1, &[&[0x1000]], 3, &mut out).unwrap_err();
/// assert_eq!(error, FormatError::PointerSize { given: 3 });
/// assert_eq!(error.to_string(), "the format has no pointers of 3 bytes; use 4 or 8");
/// assert!(out.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A block exceeds 16,777,215 bytes: the limit of version 6, which is kept for versions 4 and
    /// 5.
    #[error(
        "a {kind} block of {size} bytes exceeds the limit of 16777215; write fewer or smaller rows \
         at once"
    )]
    BlockTooLarge {
        /// The kind of block.
        kind: BlockKind,
        /// Its size in bytes, without the block header.
        size: usize,
    },
    /// An event block has no events. Readers refuse such a block.
    #[error("an event block needs at least one event; write none instead")]
    EmptyEventBlock,
    /// An id is 0, which means "none".
    #[error("id 0 in a {kind} block stands for \"none\"; count ids from 1")]
    ZeroId {
        /// The kind of block that the row belongs to.
        kind: BlockKind,
    },
    /// An id exceeds 2^32 - 1 (metadata ids: 2^31 - 1).
    #[error(
        "id {id} in a {kind} block is beyond what the format can hold; start a new trace, or count \
         from 1 again after a sequence point"
    )]
    IdTooLarge {
        /// The kind of block that the row belongs to.
        kind: BlockKind,
        /// The first id that is too large.
        id: u64,
    },
    /// A metadata row exceeds 65,535 bytes, or in versions 4 and 5
    /// [`MAX_METADATA_ROW`](crate::v5::MAX_METADATA_ROW).
    #[error(
        "the description of event {event:?} takes {size} bytes, more than the format allows; \
         shorten names and texts or record fewer fields"
    )]
    MetadataRowTooLarge {
        /// The event's name.
        event: &'static str,
        /// The row's size in bytes.
        size: usize,
    },
    /// An event type's optional metadata exceeds 65,535 bytes.
    #[error(
        "message, description and key-values of event {event:?} take {size} bytes and the format \
         allows 65535; shorten them"
    )]
    OptionalMetadataTooLarge {
        /// The event's name.
        event: &'static str,
        /// The size in bytes.
        size: usize,
    },
    /// The description of an event type, or a part of it, exceeds 65,535 bytes or 65,535 fields.
    #[error(
        "the description of event type {id}, or a part of it, has a size of {size} and the format \
         allows 65535; leave out texts or fields"
    )]
    DescriptionTooLarge {
        /// The type's metadata id.
        id: u32,
        /// The size in bytes, or the number of fields.
        size: usize,
    },
    /// A field of an event type has a type that version 6 has no code for.
    #[error("a field has a type that version 6 has no code for; leave out the type's fields")]
    NoTypeCode,
    /// An event or object has more than 65,535 fields.
    #[error(
        "{count} fields in one event or object, and the format allows 65535; group them or leave \
         some out"
    )]
    TooManyFields {
        /// The number of fields.
        count: usize,
    },
    /// A field description exceeds 65,535 bytes.
    #[error(
        "the description of field {field:?} takes {size} bytes and the format allows 65535; \
         shorten names or flatten the type"
    )]
    FieldDescriptionTooLarge {
        /// The field's name.
        field: &'static str,
        /// The size in bytes.
        size: usize,
    },
    /// A `RelLoc` or `DataLoc` field has elements that vary in size.
    #[error(
        "field {field:?} is a RelLoc or DataLoc of elements that vary in size; use a counted array"
    )]
    LocationOfVariableSize {
        /// The field's name.
        field: &'static str,
    },
    /// An object without fields is nested in an array, an option or another object. Readers fail on
    /// it there.
    #[error(
        "field {field:?} nests an object without fields, which readers fail on; skip the field or \
         give the object a field"
    )]
    EmptyObject {
        /// The field's name.
        field: &'static str,
    },
    /// A fixed-length array has no elements. Readers take it for a counted array.
    #[error(
        "field {field:?} is a fixed-length array without elements, which readers take for a \
         counted array; use a counted array"
    )]
    EmptyFixedArray {
        /// The field's name.
        field: &'static str,
    },
    /// A fixed-length array has more bytes than a payload or a reader can hold.
    #[error(
        "field {field:?} is a fixed-length array of {size} bytes, more than a reader can hold; use \
         a counted array or fewer elements"
    )]
    FixedArrayTooLarge {
        /// The field's name.
        field: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// A fixed-length array has more than 32,767 elements in a version that only has counted
    /// arrays.
    #[error(
        "field {field:?} is an array of {count} elements, and arrays of NetTrace version 5 have at \
         most 32767; use fewer, or version 6"
    )]
    #[cfg(feature = "v5")]
    FixedArrayTooLong {
        /// The field's name.
        field: &'static str,
        /// The number of elements.
        count: u16,
    },
    /// A thread's description exceeds 65,535 bytes.
    #[error(
        "the description of thread {index} takes {size} bytes and the format allows 65535; shorten \
         its name or key-values"
    )]
    ThreadRowTooLarge {
        /// The thread's index.
        index: u64,
        /// The row's size in bytes.
        size: usize,
    },
    /// A label list has no labels. Rows without labels use id 0 instead.
    #[error("label list {id} has no labels; give the row label list id 0 instead")]
    EmptyLabelList {
        /// The id that the list would get.
        id: u32,
    },
    /// A payload exceeds [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD) bytes.
    #[error(
        "a payload of {size} bytes exceeds the {MAX_PAYLOAD} that readers take; record less in one \
         event"
    )]
    PayloadTooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The pointer size is neither 4 nor 8.
    #[error("the format has no pointers of {given} bytes; use 4 or 8")]
    PointerSize {
        /// The given size in bytes.
        given: u32,
    },
    /// A stack exceeds [`MAX_STACK`](crate::v6::MAX_STACK) bytes.
    #[error(
        "stack {stack} has {frames} frames, which makes readers crash; keep it to {} bytes of \
         addresses",
        MAX_STACK
    )]
    StackTooDeep {
        /// The stack's id.
        stack: u32,
        /// The number of frames.
        frames: usize,
    },
    /// An address does not fit in the trace's 4-byte pointers.
    #[error(
        "address {address:#x} of stack {stack} does not fit in 4 bytes; declare a pointer size of \
         8 for the trace"
    )]
    AddressTooLarge {
        /// The stack's id.
        stack: u32,
        /// The address.
        address: u64,
    },
    /// The clock rate is zero or exceeds 2^63 - 1.
    #[error("a clock of {ticks_per_second} ticks per second cannot be written; use 1 to 2^63 - 1")]
    ClockRate {
        /// The given rate in ticks per second.
        ticks_per_second: u64,
    },
    /// The name of an option in a Heph trace exceeds 65,535 bytes.
    #[error("the name of an option takes {size} bytes and a Heph trace allows 65535; shorten it")]
    #[cfg(feature = "heph")]
    HephOptionNameTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// The description of a Heph event exceeds 65,535 bytes.
    #[error(
        "the description of an event takes {size} bytes and a Heph trace allows 65535; shorten it"
    )]
    #[cfg(feature = "heph")]
    HephDescriptionTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// The name of an attribute of a Heph event exceeds 65,535 bytes.
    #[error(
        "the name of an attribute takes {size} bytes and a Heph trace allows 65535; shorten names \
         or flatten the type"
    )]
    #[cfg(feature = "heph")]
    HephAttributeNameTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// The names of all attributes of a Heph event, in the form `outer.inner`, exceed 1 MiB.
    #[error(
        "the names of the attributes of an event take {size} bytes together, with the name of the \
         outer field before that of each inner one, and at most 1048576 are written; shorten \
         names or flatten the type"
    )]
    #[cfg(feature = "heph")]
    HephAttributeNamesTooLong {
        /// Their size in bytes.
        size: usize,
    },
    /// A string in a Heph event exceeds 65,535 bytes of UTF-8.
    #[error("a string takes {size} bytes of UTF-8 and a Heph trace allows 65535; shorten it")]
    #[cfg(feature = "heph")]
    HephStringTooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// An array in a Heph event exceeds 65,535 elements.
    #[error("an array has {len} elements and a Heph trace allows 65535; record fewer")]
    #[cfg(feature = "heph")]
    HephArrayTooLong {
        /// The number of elements.
        len: usize,
    },
    /// A Heph packet exceeds 2^32 - 1 bytes.
    #[error(
        "a packet takes {size} bytes and a Heph trace allows 4294967295; record less in one event"
    )]
    #[cfg(feature = "heph")]
    HephPacketTooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The field with the role start or end of a Heph event has a type that is not a time.
    #[error(
        "field {field:?} is the start or end of its event, but its type is not a time; use \
         SystemTime, Duration or an integer (nanoseconds since 1970-01-01 UTC)"
    )]
    #[cfg(feature = "heph")]
    HephTime {
        /// The field's name.
        field: &'static str,
    },
    /// A thread's index exceeds 2^32 - 1, the highest stream number of a Heph trace.
    #[error(
        "thread index {thread} exceeds 4294967295, the limit of a Heph trace; start a new trace"
    )]
    #[cfg(feature = "heph")]
    HephStream {
        /// The thread's index.
        thread: u64,
    },
    /// Blocks for a [stage](crate::Stage) are not what a session writes in version 6.
    #[error("the blocks are not what a session writes in version 6")]
    MalformedBlock,
    /// A payload does not match the fields of its event type.
    #[error("{}", Mismatch { offset: *.offset })]
    PayloadMismatch {
        /// The offset in bytes from the payload's start at which the mismatch was found.
        offset: usize,
    },
}

impl From<Mismatch> for FormatError {
    fn from(mismatch: Mismatch) -> Self {
        Self::PayloadMismatch { offset: mismatch.offset }
    }
}
