//! NetTrace version 6: a stream header, then blocks. Each block begins with its size and kind.
//!
//! A file is [`stream_header`], [`trace_block`], any number of the other blocks, [`END_OF_STREAM`].
//! The metadata, thread, stack and label list that a row refers to must be in an earlier block.
//!
//! | block | written by | read by |
//! |---|---|---|
//! | Trace | [`trace_block`] | [`read_trace`] |
//! | Event | [`event_block_header`] and rows by [`RowEncoder`], or [`uncompressed_row`] | [`RowState`] |
//! | Metadata | rows by [`metadata_row`] or [`put_metadata_row`], [`metadata_block`] | [`read_metadata_rows`] |
//! | SequencePoint | [`sequence_point`] | [`read_sequence_point`] |
//! | Stack | [`stack_block`] | [`read_stacks`] |
//! | Thread | rows by [`thread_row`], [`thread_block`] | [`read_thread_rows`] |
//! | RemoveThread | [`remove_thread_block`] | [`read_removed_threads`] |
//! | LabelList | [`label_list_block`], or rows by [`label_list_row`], [`label_rows_header`] | [`read_label_lists`] |
//!
//! # Example
//!
//! A whole trace with one event:
//!
//! ```
//! use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};
//! use nettrace_format::v6::{
//!     END_OF_STREAM, RowEncoder, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo,
//!     event_block_header, metadata_block, metadata_row, stream_header, thread_block, thread_row,
//!     trace_block,
//! };
//!
//! static SALE: EventSchema = EventSchema {
//!     provider: ProviderSchema { name: "Shop", guid: None, group: None },
//!     name: "Sale",
//!     id: 1,
//!     place: Place::UNKNOWN,
//!     id_is_explicit: true,
//!     version: 0,
//!     level: Level::Informational,
//!     keywords: 0,
//!     opcode: None,
//!     tag: 0,
//!     message: None,
//!     description: None,
//!     key_values: &[],
//!     fields: &[FieldSchema::new("cents", FieldType::U32)],
//! };
//!
//! let mut trace = Vec::new();
//! stream_header(&mut trace);
//! let info = TraceInfo {
//!     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
//!     sync_ticks: 5_000,
//!     ticks_per_second: 1_000_000_000,
//!     pointer_size: 8,
//!     key_values: &[("ProcessId", "17")],
//! };
//! trace_block(&info, &mut trace)?;
//!
//! let mut rows = Vec::new();
//! metadata_row(1, &SALE, &mut rows)?;
//! metadata_block(&rows, &mut trace)?;
//!
//! let mut rows = Vec::new();
//! thread_row(&ThreadInfo { index: 1, name: Some("main"), ..ThreadInfo::default() }, &mut rows)?;
//! thread_block(&rows, &mut trace)?;
//!
//! let header = RowHeader {
//!     metadata_id: 1,
//!     sequence: 1,
//!     capture_thread: 1,
//!     thread: 1,
//!     timestamp: 6_000,
//!     sorted: true,
//!     payload_len: 4,
//!     ..RowHeader::default()
//! };
//! let mut rows = Vec::new();
//! RowEncoder::new().full_row(&header, &mut rows);
//! rows.extend(1_250_u32.to_le_bytes());
//! trace.extend(event_block_header(6_000, 6_000, true, rows.len())?);
//! trace.extend(rows);
//! trace.extend(END_OF_STREAM);
//!
//! let mut reader = nettrace_reader::Reader::new(&trace[..])?;
//! assert_eq!(reader.next_event()?.map(|event| event.header.timestamp), Some(6_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rust types in key-values
//!
//! Version 6 describes a `Duration` as `UInt64`, a `SystemTime` as `Int64` and an `Option` as an
//! array. [`metadata_row`] adds a key-value for each such field, so that a reader can show it as
//! what it is. The key is [`RUST_TYPE`](nettrace_event::keys::RUST_TYPE) and the field's name, or
//! for a field of an object the path (`nettrace.type.order.took`). The value is the type:
//! `Duration`, `SystemTime` (both in nanoseconds), `Option<T>`, `[T]` for an array, `_` for a type
//! that version 6 describes.

pub(crate) mod block;
mod label_lists;
mod metadata;
pub mod read;
mod row;
mod rust_types;
mod sequence_point;
pub(crate) mod stack;
mod thread;
mod trace;
pub mod types;
mod writer;

pub(crate) use crate::v6::{label_lists::append_label, writer::V6};
pub use crate::{
    blocks::{BlockKind, MAX_STACK},
    content::{
        Label, RowChange, RowHeader, SystemTimeParts, ThreadInfo, ThreadSequence, TraceInfo,
    },
    v6::{
        block::{
            BLOCK_HEADER, END_OF_STREAM, EVENT_BLOCK_HEADER, MAX_BLOCK_SIZE, block,
            event_block_header,
        },
        label_lists::{
            EncodedLabels, LAST_LABEL, LabelBytes, label_list_block, label_list_row,
            label_rows_header, labels_in, put_label, read_label, read_label_lists, split_label,
        },
        metadata::{
            MetadataRow, metadata_block, metadata_row, put_metadata_row, read_metadata_rows,
        },
        row::{
            MAX_ROW_HEADER, RELABEL_ROOM, RowEncoder, RowFlags, RowState, UNCOMPRESSED_ROW_HEADER,
            change_row, decode_row, relabel_row, uncompressed_row,
        },
        sequence_point::{SequencePointFlags, closing_size, read_sequence_point, sequence_point},
        stack::{read_stacks, stack_block, takes_address},
        thread::{
            read_removed_threads, read_thread_rows, remove_thread_block, thread_block, thread_row,
        },
        trace::{
            more_key_values, put_text, read_trace, read_trace_head, stream_header, trace_block,
        },
    },
};
