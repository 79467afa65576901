//! One trace in any of the formats: what its blocks are called and when they are written is decided
//! by whoever records; how each format says it is decided here and below.
//!
//! A [`Stream`] takes rows whose payloads are those of [`NetTraceEncoder`](crate::payload::NetTraceEncoder),
//! whatever the format: whoever records does not know it. Version 6 takes them as they are. The older ones have
//! payloads of their own for some types, and [`Row`] carries what their rows say in other ways.

use alloc::vec::Vec;

use trace_event::EventSchema;

use crate::{
    content::{Label, RowHeader, ThreadInfo, TraceInfo},
    error::FormatError,
    payload::Refusal,
    v6,
};

/// The format of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// NetTrace version 6, which says everything. Readers since 2025: TraceEvent 3.1.22, `dotnet-trace` 10.
    #[default]
    V6,
}

/// A row with everything that a format may want to say of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The header. Its ids of stack and label list are those that [`Stream::stack`] and [`Stream::labels`] defined.
    pub header: RowHeader,
    /// The labels behind [`RowHeader::labels`].
    pub labels: &'a [Label<'a>],
    /// The addresses behind [`RowHeader::stack`].
    pub stack: &'a [u64],
    /// As [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it.
    pub payload: &'a [u8],
}

/// How many things a trace does not say because its format has no words for them. All are 0 for version 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Events whose payload exceeds in this format what it can hold. The numbers of the rows show the gaps.
    pub events: u64,
    /// Labels of events.
    pub labels: u64,
    /// Names of threads.
    pub thread_names: u64,
    /// Key-value pairs of the trace.
    pub key_values: u64,
    /// Event types whose message template, description, key-values, opcode or provider GUID is not said.
    pub types: u64,
}

/// The blocks of one trace, in the words of its format.
#[derive(Debug)]
pub struct Stream {
    left_out: LeftOut,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    V6(v6::RowEncoder),
}

impl Stream {
    /// A stream in which nothing has been said.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let kind = match format {
            Format::V6 => Kind::V6(v6::RowEncoder::new()),
        };
        Self { left_out: LeftOut::default(), kind }
    }

    /// Whether a type can be described in a format.
    ///
    /// # Errors
    /// Why not.
    pub fn check(format: Format, schema: &'static EventSchema) -> Result<(), FormatError> {
        match format {
            Format::V6 => v6::metadata_row(1, schema, &mut Vec::new()),
        }
    }

    /// What the stream does not say.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// What a complete stream ends with. At most 16 bytes; readers tell it from a block by as many.
    #[must_use]
    pub fn end_of_stream(&self) -> &'static [u8] {
        match self.kind {
            Kind::V6(_) => &v6::END_OF_STREAM,
        }
    }

    /// Whether rows name threads by their ids in the operating system, rather than by an index that [`thread`](Self::thread)
    /// introduces.
    #[must_use]
    pub fn names_threads_by_os_id(&self) -> bool {
        match self.kind {
            Kind::V6(_) => false,
        }
    }

    /// Whether behind the first row of a block the others may stand as they were recorded.
    #[must_use]
    pub fn takes_rows_as_recorded(&self) -> bool {
        match self.kind {
            Kind::V6(_) => true,
        }
    }

    /// Starts a stream: its first bytes. Whatever an earlier one has defined is forgotten.
    ///
    /// # Errors
    /// [`FormatError`], for what `info` holds.
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => {
                v6::stream_header(out);
                v6::trace_block(info, out)
            }
        }
    }

    /// Describes event types, each by the id that rows will have, before the first row that has it.
    ///
    /// # Errors
    /// [`FormatError`] where a type [cannot be described](Self::check).
    pub fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => {
                let mut rows = Vec::new();
                for (id, schema) in types {
                    v6::metadata_row(*id, schema, &mut rows)?;
                }
                v6::metadata_block(&rows, out)
            }
        }
    }

    /// Introduces a thread, before the first row that names it.
    ///
    /// # Errors
    /// [`FormatError`] where its row is too large.
    pub fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => {
                let mut row = Vec::new();
                v6::thread_row(thread, &mut row)?;
                v6::thread_block(&row, out)
            }
        }
    }

    /// Takes leave of threads, with the last number that each had given.
    ///
    /// # Errors
    /// See the formats' own functions.
    pub fn remove_threads(
        &mut self,
        threads: &[v6::ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => v6::remove_thread_block(threads, out),
        }
    }

    /// Defines a stack under an id, up to the next sequence point.
    ///
    /// # Errors
    /// See the formats' own functions.
    pub fn stack(
        &mut self,
        id: u32,
        addresses: &[u64],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => v6::stack_block(id, &[addresses], pointer_size, out),
        }
    }

    /// Defines a label list under an id, up to the next sequence point.
    ///
    /// # Errors
    /// See the formats' own functions.
    pub fn labels(
        &mut self,
        id: u32,
        labels: &[Label<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => v6::label_list_block(id, &[labels], out),
        }
    }

    /// Appends a row of an event block, which the caller frames by [`event_block`](Self::event_block). With the first row of a block the
    /// header says everything; what a later one says is what changed.
    ///
    /// # Errors
    /// Why the payload cannot be told; the row is then counted in [`LeftOut::events`], and nothing is appended.
    pub fn row(&mut self, row: &Row<'_>, is_first: bool, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match &mut self.kind {
            Kind::V6(encoder) => {
                if is_first {
                    *encoder = v6::RowEncoder::new();
                    encoder.full_row(&row.header, out);
                } else {
                    encoder.row(&row.header, out);
                }
                out.extend_from_slice(row.payload);
                Ok(())
            }
        }
    }

    /// Appends what stands before `rows_len` bytes of rows and returns what stands behind them.
    ///
    /// # Errors
    /// See the formats' own functions: rows that are none, or too many.
    pub fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        match &mut self.kind {
            Kind::V6(_) => {
                out.extend(v6::event_block_header(first_ts, last_ts, true, rows_len)?);
                Ok(&[])
            }
        }
    }

    /// Separates what is older than `timestamp` from what follows, with the last number that each thread had given.
    ///
    /// # Errors
    /// See the formats' own functions.
    pub fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[v6::ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match &mut self.kind {
            Kind::V6(_) => {
                v6::sequence_point(timestamp, v6::SequencePointFlags::default(), threads, out)
            }
        }
    }
}
