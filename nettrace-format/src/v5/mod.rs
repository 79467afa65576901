//! NetTrace versions 4 and 5: objects of a serialization library, most of them blocks whose content
//! begins at a multiple of 4 bytes. .NET Core 3.0 writes version 4, .NET 5 to 10 write version 5.
//!
//! A file is [`Stream::begin`], any number of the other objects, [`Stream::END_OF_STREAM`].
//! Whatever a row refers to (metadata, stack) stands in an earlier block. Threads need no
//! introduction: rows have their ids of the operating system.
//!
//! | object | written by |
//! |---|---|
//! | Trace | [`Stream::begin`] |
//! | MetadataBlock | [`Stream::metadata`] |
//! | StackBlock | [`Stream::stack_block`] |
//! | EventBlock | [`Stream::event_block`] and rows by [`RowEncoder`] |
//! | SPBlock | [`Stream::sequence_point`] |
//!
//! # What becomes of the types
//!
//! Events are recorded in the types of version 6 (see [`types`](crate::types)). What a version has
//! is passed on as it is; the rest becomes the nearest that it has, by [`map_payload`], which
//! [`needs_mapping`] says is needed. An event that exceeds what a payload can hold by then is
//! refused, and counted by whoever records.
//!
//! | [`FieldType`](trace_event::FieldType) | version 5 | version 4 |
//! |---|---|---|
//! | `Bool`, `U8` … `U64`, `I8` … `I64`, `F32`, `F64` | as they are | as they are |
//! | `Guid`, `DateTime`, `UnixNanos`, `DurationNanos`, `Utf16Unit` | as they are | as they are |
//! | `U128`, `I128`, `Object` | as they are: Object (1) | as they are: Object (1) |
//! | `Bool8` | Boolean (3), 4 bytes | Boolean, 4 bytes |
//! | `VarUInt`, `VarInt` | UInt64 (12), Int64 (11) | UInt64, Int64 |
//! | `Str(Utf16Nul)` | as it is: String (18), up to a NUL | as it is |
//! | `Str(Utf16)`, `Char`, `IpAddr`, `SocketAddr` | as they are: Array (19) of Char (4) | String (18) |
//! | `Str` as UTF-8 or behind a location | Array of Char, in place | String |
//! | `Array(T, Counted)` | as it is, if T is: Array of T | String: `[1, 2, 3]` |
//! | `Array(T, Fixed(n))` | Array of T, counted; n up to 32,767 | String |
//! | `Array(T, RelLoc)`, `Array(T, DataLoc)` | Array of T, counted, in place | String |
//! | `Option(T)` | as it is, if T is: Array of T, none or one | String: `[]` or `[5]` |
//!
//! UTF-8 that is not valid becomes U+FFFD where it is not, and so does a NUL in any text.
//!
//! The text of a list in version 4 has its elements in brackets, behind commas. Elements are shown
//! as follows: numbers in decimal (128 bits too; `1.0`, `NaN`, `inf`, `1e300`), booleans as `true`
//! and `false`, GUIDs as `00010203-0405-0607-0809-0a0b0c0d0e0f`, DateTime as
//! `2024-02-29T12:34:56.7890000Z`, objects as `{a: 1, b: 2}`, lists as lists, text in double quotes
//! with a backslash before quotes and backslashes. An array of `Utf16Unit` is text, as readers show
//! it in the other versions: without quotes unless it is an element.
//!
//! # What else is not said
//!
//! | | version 5 | version 4 |
//! |---|---|---|
//! | opcode of a type | in a tag | no; readers derive 1 and 2 from names that end in `Start` and `Stop` |
//! | ActivityId and RelatedActivityId of an event | in its header | in its header |
//! | other labels: trace and span id, key-values, overrides | no | no |
//! | names and key-values of threads | no | no |
//! | message, description and key-values of a type | no | no |
//! | GUID of a provider | no; readers derive one from its name | no |
//! | key-values of the trace | `ExpectedCPUSamplingRate` only | `ExpectedCPUSamplingRate` only |
//! | a thread that is gone | no: see below | no |
//! | events lost before a thread's first | no: see below | no |
//!
//! # What readers do
//!
//! Seen with the reference reader 4.0.0, and 3.1.23 (in `dotnet-trace` 10) where that says
//! anything; `tests/judge_values.rs` and `tests/judge_older.rs` show all of it.
//!
//! * Arrays are known in the tag of version 5 only. With it the list of fields in front must be
//!   empty; so a type without arrays is described there, for readers that do not know the tag, and
//!   one with arrays in the tag.
//! * An array of Char is text to them in version 5, too.
//! * A thread's numbers are counted from its first event: what was lost before that is not noticed.
//! * A number lower than the last of the same thread id counts as 2,147,483,647 events lost, even
//!   where a new thread has got the id of one that is gone. So numbers must go on for an id, or the
//!   new thread needs another id.
//! * They keep 5,000 threads. Of one more they forget the number of that which was silent longest,
//!   and do not notice what it loses after that.
//! * They keep 32 bits of a thread's id, and show the processor only where the thread is the
//!   capturing one.
//! * An opcode of 0 in the tag is one: `WorkStop` then keeps its name.
//! * What stands behind the end of stream is ignored; a stream without it is refused.
//! * Blocks of 16 MiB are read. The format has 31 bits for their size; this crate keeps to the
//!   bound of version 6.
//!
//! Sources: the specification of versions 4 and 5, real files of .NET (for the layout of the tag),
//! and the readers.

mod map;
mod metadata;
mod row;
mod stream;
mod text;

pub use crate::v5::{
    map::{map_payload, needs_mapping},
    metadata::{MAX_METADATA_ROW, check},
    row::{ACTIVITY, MAX_ROW_HEADER, RELATED_ACTIVITY, Row, RowEncoder},
    stream::{BLOCK_HEADER, Stream, Version},
};
