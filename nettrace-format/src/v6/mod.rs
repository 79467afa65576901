//! NetTrace version 6: a stream header, then blocks, each of which says its size and kind.
//!
//! A file is [`stream_header`], [`trace_block`], any number of the other blocks, [`END_OF_STREAM`].
//! Whatever a row refers to (metadata, thread, stack, label list) stands in an earlier block.
//!
//! | block | written by |
//! |---|---|
//! | Trace | [`trace_block`] |
//! | Event | [`event_block_header`] and rows by [`RowEncoder`], or [`uncompressed_row`] |
//! | Metadata | rows by [`metadata_row`] or [`description_row`], [`metadata_block`] |
//! | SequencePoint | [`sequence_point`] |
//! | Stack | [`stack_block`] |
//! | Thread | rows by [`thread_row`], [`thread_block`] |
//! | RemoveThread | [`remove_thread_block`] |
//! | LabelList | [`label_list_block`] |

pub(crate) mod block;
mod description;
mod label;
mod metadata;
mod row;
mod sequence_point;
pub(crate) mod stack;
mod thread;
mod trace;
pub mod types;

pub use crate::{
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::{
        block::{
            BLOCK_HEADER, BlockKind, END_OF_STREAM, EVENT_BLOCK_HEADER, MAX_BLOCK_SIZE, block,
            event_block_header,
        },
        description::{FieldDescription, PlainType, TypeCode, TypeDescription, description_row},
        label::label_list_block,
        metadata::{metadata_block, metadata_row},
        row::{
            MAX_ROW_HEADER, RowEncoder, RowFlags, RowState, UNCOMPRESSED_ROW_HEADER, decode_row,
            uncompressed_row,
        },
        sequence_point::{SequencePointFlags, sequence_point},
        stack::{MAX_STACK, stack_block},
        thread::{ThreadSequence, remove_thread_block, thread_block, thread_row},
        trace::{stream_header, trace_block},
    },
};
