//! The interface of each format, and its input.

use alloc::{boxed::Box, vec::Vec};
use core::fmt::Debug;

use nettrace_event::EventSchema;

#[cfg(all(doc, feature = "heph"))]
use crate::heph;
#[cfg(all(doc, feature = "v5"))]
use crate::v5;
#[cfg(doc)]
use crate::{Format, Stage};
use crate::{
    content::{Label, RowHeader, ThreadInfo, ThreadSequence, TraceInfo},
    described::EventType,
    error::FormatError,
    payload::Refusal,
    schema::Metadata,
    stream_end::StreamEnd,
};

/// A row with everything that any format stores of it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "heph"), allow(dead_code, reason = "other rows have ids of them"))]
pub(crate) struct Row<'a> {
    /// The header. Its stack is defined.
    pub(crate) header: RowHeader,
    /// The labels of the list [`RowHeader::labels`].
    pub(crate) labels: &'a [Label<'a>],
    /// The addresses of the stack [`RowHeader::stack`].
    pub(crate) stack: &'a [u64],
    /// The payload as [`NetTraceEncoder`](crate::payload::NetTraceEncoder) writes it.
    pub(crate) payload: &'a [u8],
}

/// Counts what a trace leaves out because its format cannot store it. All counts are 0 for version
/// 6.
///
/// See [`v5`] and [`heph`] for what those formats cannot store.
///
/// [`Stage::left_out`] returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Events whose payload exceeds what the format can hold. They show as gaps in the sequence
    /// numbers of the rows.
    pub events: u64,
    /// How many of these have a payload that does not fit their type.
    pub strange_events: u64,
    /// Events that lost the bytes behind the last field of their type.
    pub longer_events: u64,
    /// Labels of rows.
    pub labels: u64,
    /// Names of threads. The name of a thread that events are about, but that records none itself,
    /// counts once more after each sequence point.
    pub thread_names: u64,
    /// Key-value pairs of the trace and of threads.
    pub key_values: u64,
    /// Event types that lack a part of their description: message template, description,
    /// key-values, opcode or provider GUID.
    pub types: u64,
    /// Times before the start of the trace, which became the start.
    pub early_times: u64,
    /// Spans whose own packet may lack what the packet of their start says: too many spans were
    /// open, or the fields of the start are too large to be said twice. See [`heph`](heph#spans)
    /// for the bounds.
    pub spans: u64,
}

/// Everything that callers of [`Format`] can learn of a format, and what writes it.
pub(crate) struct Definition {
    /// See [`Format::name`].
    pub(crate) name: &'static str,
    /// See [`Format::title`].
    pub(crate) title: &'static str,
    /// See [`Format::about`].
    pub(crate) about: &'static str,
    /// See [`Format::extension`].
    pub(crate) extension: &'static str,
    /// How rows name threads.
    pub(crate) thread_ids: IdRules,
    /// See [`Format::end`].
    pub(crate) end: StreamEnd,
    /// See [`Format::has_stacks_in_rows`].
    pub(crate) has_stacks_in_rows: bool,
    /// Whether readers see nothing of a payload without fields.
    pub(crate) needs_fields: bool,
    /// See [`Format::check`].
    pub(crate) check: fn(&'static EventSchema) -> Result<(), FormatError>,
    /// See [`Format::check_type`].
    pub(crate) check_type: fn(&Metadata) -> Result<(), FormatError>,
    /// Makes the writer of a stream.
    pub(crate) writer: fn(Source) -> Box<dyn Writer>,
}

/// Where the rows of a stream come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Threads that record. No two of them have the same id, even if one has ended.
    Recording,
    /// A trace that is copied. The id of a thread that has ended can be another thread's, which
    /// continues its numbers.
    Trace {
        /// Whether it is of version 4 or 5, in which numbers begin again with another thread.
        is_older: bool,
    },
}

/// How the rows of a format name threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdRules {
    /// Whether rows name threads by their OS ids where they can.
    pub(crate) are_os_ids: bool,
    /// Whether a thread that got an index, because its OS id was another's, is still named by the
    /// OS id where rows are about it.
    pub(crate) has_os_subjects: bool,
    /// The first index for threads that are not named by an OS id.
    pub(crate) first_index: u64,
    /// The largest id.
    pub(crate) most: u64,
}

/// Writes one stream in one format, for a stage.
///
/// The stage speaks in the terms of version 6: threads are defined and removed, the numbers of a
/// thread count its attempts from 1, and stacks and label lists have ids. An implementation tells
/// the same facts in the way of its format. What the format cannot store it counts in the
/// [`LeftOut`] that it is handed.
///
/// The default implementations are for a format that does not need the function.
pub(crate) trait Writer: Debug + Send + Sync {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    /// Describes event types, each under the metadata id of its rows.
    fn define(
        &mut self,
        types: &[(u32, EventType)],
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    /// Notes the name of a thread that rows are about, by its OS id. It applies up to the next
    /// sequence point.
    fn subject(&mut self, _os_id: u64, _name: &str, _left_out: &mut LeftOut) {}

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn stacks(
        &mut self,
        _first_id: u32,
        _stacks: &[&[u64]],
        _pointer_size: u32,
        _out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        Ok(())
    }

    fn label_rows(
        &mut self,
        _first_id: u32,
        _count: u32,
        _rows: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        Ok(())
    }

    /// Appends a row of an event block. The header of a block's first row is complete. The stage
    /// counts refused rows, for which nothing is appended.
    fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal>;

    /// Appends a row of a trace's type whose payload is written as bytes.
    fn opaque_row(
        &mut self,
        _row: &Row<'_>,
        _: &mut LeftOut,
        _: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        Err(Refusal::Malformed)
    }

    /// Whether the rows of a block can be copied as they were recorded, without gaps, after a first
    /// row that has this thread and sequence number.
    fn takes_rows_as_recorded(&self, _thread: u64, _sequence: u32) -> bool {
        false
    }

    /// Notes rows that the stage copies as they were recorded. Their labels equal `labels`.
    fn rows_as_recorded(
        &mut self,
        _thread: u64,
        _labels: &[Label<'_>],
        _rows: u32,
        _left_out: &mut LeftOut,
    ) {
    }

    /// Appends the part of an event block before its `rows_len` bytes of rows, and returns the part
    /// after them.
    fn event_block(
        &mut self,
        _first_ts: u64,
        _last_ts: u64,
        _rows_len: usize,
        _out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        Ok(&[])
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    /// See [`Stage::wants_point`].
    fn wants_point(&self) -> bool {
        false
    }

    /// See [`Stage::untold_losses`].
    fn untold_losses(&self) -> u64 {
        0
    }

    /// Whether a sequence point would tell losses that nothing in the stream shows yet.
    fn has_untold_losses(&self) -> bool {
        false
    }

    /// The most bytes of a sequence point that names all threads so far, and of their removal.
    fn closing_size(&self) -> u64;

    /// Returns a position that only [`rewind`](Self::rewind) can interpret.
    fn mark(&mut self) -> usize;

    fn rewind(&mut self, mark: usize);

    fn settle(&mut self) {}
}
