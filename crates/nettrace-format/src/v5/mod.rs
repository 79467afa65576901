//! NetTrace versions 4 and 5. .NET Core 3.0 writes version 4, .NET 5 to 10 write version 5.
//!
//! A file is a sequence of objects of a serialization library. Most of them are blocks, whose
//! content begins at a multiple of 4 bytes. [`Stream::begin`] starts a file, any number of the
//! other objects follow, and [`Stream::END_OF_STREAM`] ends it. The metadata and stacks that a row
//! refers to must be in an earlier block. Threads need no definition, because rows contain their OS
//! ids.
//!
//! | object | written by |
//! |---|---|
//! | Trace | [`Stream::begin`] |
//! | MetadataBlock | [`Stream::metadata`] |
//! | StackBlock | [`Stream::stack_block`] |
//! | EventBlock | [`Stream::event_block`] and rows by [`RowEncoder`] |
//! | SPBlock | [`Stream::sequence_point`] |
//!
//! # How types are mapped
//!
//! Events are recorded in the types of version 6 (see [`types`](crate::types)). A type that the
//! version has stays unchanged. Every other type becomes the nearest type of the version:
//! [`needs_mapping`] finds such types, and [`map_payload`] converts their payloads. If the result
//! exceeds the limit of a payload, the event is refused, and the recorder counts it.
//!
//! In this table, "same" means the type and payload of version 6.
//!
//! | [`FieldType`](nettrace_event::FieldType) | version 5 | version 4 |
//! |---|---|---|
//! | `Bool`, `U8` … `U64`, `I8` … `I64`, `F32`, `F64` | same | same |
//! | `Guid`, `DateTime`, `UnixNanos`, `DurationNanos`, `Utf16Unit` | same | same |
//! | `U128`, `I128`, `Object` | same: Object (1) | same: Object (1) |
//! | `Bool8` | Boolean (3), 4 bytes | Boolean, 4 bytes |
//! | `VarUInt`, `VarInt` | UInt64 (12), Int64 (11) | UInt64, Int64 |
//! | `Str(Utf16Nul)` | same: String (18), up to a NUL | same |
//! | `Str(Utf16)`, `Char`, `IpAddr`, `SocketAddr` | same: Array (19) of Char (4) | String (18) |
//! | `Str` as UTF-8 or through a location | Array of Char, in place | String |
//! | `Array(T, Counted)` | same, if T is: Array of T | String: `[1, 2, 3]` |
//! | `Array(T, Fixed(n))` | Array of T, counted; n up to 32,767 | String |
//! | `Array(T, RelLoc)`, `Array(T, DataLoc)` | Array of T, counted, in place | String |
//! | `Option(T)` | same, if T is: Array of T, none or one | String: `[]` or `[5]` |
//!
//! Invalid UTF-8 becomes U+FFFD, and so does a NUL in any text.
//!
//! In version 4 a list becomes text: its elements in brackets, separated by commas. The elements
//! look like this:
//!
//! * numbers in decimal (128 bits too): `1.0`, `NaN`, `inf`, `1e300`
//! * booleans as `true` and `false`
//! * GUIDs as `00010203-0405-0607-0809-0a0b0c0d0e0f`
//! * DateTime as `2024-02-29T12:34:56.7890000Z`
//! * objects as `{a: 1, b: 2}`, and lists as lists
//! * text in double quotes, with a backslash before quotes and backslashes
//!
//! An array of `Utf16Unit` is text, because readers show it as text in the other versions. It has
//! quotes only if it is an element.
//!
//! # What else is left out
//!
//! | | version 5 | version 4 |
//! |---|---|---|
//! | opcode of a type | in a tag | no: see below |
//! | ActivityId and RelatedActivityId of an event | in its header | in its header |
//! | span id of an event | in its activity id, if that is the span's | in its activity id |
//! | other labels: trace id, key-values, overrides | no | no |
//! | names and key-values of threads | no | no |
//! | message, description and key-values of a type | no | no |
//! | GUID of a provider | no; readers derive one from its name | no |
//! | key-values of the trace | `ExpectedCPUSamplingRate` only | `ExpectedCPUSamplingRate` only |
//! | the end of a thread | no: see below | no |
//! | events lost before a thread's first | no: see below | no |
//!
//! A [`Transcoder`](crate::Transcoder) to these versions tells the end of a thread, and the losses before a
//! thread's first event, in the numbers of sequence points. The first event of a thread gets the
//! number 1, and the gap before it moves after it. Losses of threads without events show as losses
//! of the thread that wrote last.
//!
//! In version 4, readers derive the opcodes 1 and 2 from event names that end in `Start` and
//! `Stop`.
//!
//! # What readers do
//!
//! Seen with the reference reader 4.0.0, and with 3.1.23 (in `dotnet-trace` 10) where noted.
//! `tests/format/judge_values.rs` and `judge_older.rs` show each fact.
//!
//! * Arrays are known only in the tag of version 5. With the tag, the list of fields before it must
//!   be empty. So a type without arrays is described in that list, for readers that do not know the
//!   tag, and a type with arrays is described in the tag.
//! * An array of Char is shown as text, in version 5 too.
//! * A thread's sequence numbers are counted from its first event. Losses before it are not
//!   noticed.
//! * A sequence number lower than the last one of the same thread id counts as 2,147,483,647 lost
//!   events, even if a new thread has the id of an ended one. So the numbers of an id must
//!   continue, or the new thread needs another id.
//! * Readers keep 5,000 threads. For one more, they forget the number of the thread that was silent
//!   longest, and do not notice its losses after that.
//! * Readers keep 32 bits of a thread's id, and show the processor only where the thread is the
//!   capturing one.
//! * An opcode of 0 in the tag is an opcode: with it `WorkStop` keeps its name.
//! * Bytes after the end of stream are ignored. A stream without an end is refused.
//! * Blocks of 16 MiB are read. The format has 31 bits for their size; this crate keeps to the
//!   limit of version 6.
//!
//! Sources: the specification of versions 4 and 5, real files of .NET (for the layout of the tag),
//! and the readers.

mod map;
mod metadata;
mod numbers;
mod row;
mod stream;
mod text;
mod writer;

pub(crate) use crate::v5::writer::{V4, V5};
pub use crate::v5::{
    map::{map_payload, needs_mapping},
    metadata::{MAX_METADATA_ROW, check},
    row::{ACTIVITY, MAX_ROW_HEADER, RELATED_ACTIVITY, Row, RowEncoder},
    stream::{BLOCK_HEADER, Stream, Version},
};
