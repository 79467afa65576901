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
    heph,
    payload::Refusal,
    v5, v6,
};

/// The format of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// NetTrace version 6, which says everything. Readers since 2025: TraceEvent 3.1.22, `dotnet-trace` 10.
    #[default]
    V6,
    /// NetTrace version 5, as .NET 5 to 10 write it. See [`v5`] for what it lacks.
    V5,
    /// NetTrace version 4, as .NET Core 3 writes it: no arrays and no opcodes either.
    V4,
    /// The format of Heph's trace system, version 0.1.0: spans with attributes. See [`heph`] for what becomes of what.
    Heph,
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
///
/// Which those are: see [`v5`] and [`heph`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Events whose payload exceeds what the format can hold. The numbers of the rows show the gaps.
    pub events: u64,
    /// Labels of events.
    pub labels: u64,
    /// Names of threads; that of a thread which events are about once more after each sequence point.
    pub thread_names: u64,
    /// Key-value pairs of the trace.
    pub key_values: u64,
    /// Event types of which something is not said: message template, description, key-values, opcode or provider GUID.
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
    V5(V5),
    Heph(heph::Stream),
}

/// What a stream of version 4 or 5 keeps.
#[derive(Debug)]
struct V5 {
    stream: v5::Stream,
    encoder: v5::RowEncoder,
    /// By metadata id: the types whose payloads are others than were recorded.
    mapped: Vec<Option<&'static EventSchema>>,
    maps_any: bool,
    payload: Vec<u8>,
}

impl V5 {
    fn new(version: v5::Version) -> Self {
        Self {
            stream: v5::Stream::new(version),
            encoder: v5::RowEncoder::new(),
            mapped: Vec::new(),
            maps_any: false,
            payload: Vec::new(),
        }
    }

    fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.metadata(types, out)?;
        for &(id, schema) in types {
            if v5::needs_mapping(self.stream.version(), schema) {
                let at = id as usize;
                self.mapped.resize(self.mapped.len().max(at + 1), None);
                self.mapped[at] = Some(schema);
                self.maps_any = true;
            }
        }
        Ok(())
    }

    /// Appends a row. Returns how many of its labels are not said.
    fn row(&mut self, row: &Row<'_>, is_first: bool, out: &mut Vec<u8>) -> Result<u64, Refusal> {
        let schema = self.mapped.get(row.header.metadata_id as usize).copied().flatten();
        let payload = match schema {
            Some(schema) => {
                self.payload.clear();
                v5::map_payload(self.stream.version(), schema, row.payload, &mut self.payload)?;
                &*self.payload
            }
            None => row.payload,
        };
        let mut header = v5::Row::from(row.header);
        header.payload_len = payload.len() as u32;
        let left_out = put_labels(row.labels, &mut header);
        if is_first {
            self.encoder = v5::RowEncoder::new();
            self.encoder.full_row(&header, out);
        } else {
            self.encoder.row(&header, out);
        }
        out.extend_from_slice(payload);
        Ok(left_out)
    }
}

impl Stream {
    /// A stream in which nothing has been said.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let kind = match format {
            Format::V6 => Kind::V6(v6::RowEncoder::new()),
            Format::V5 => Kind::V5(V5::new(v5::Version::V5)),
            Format::V4 => Kind::V5(V5::new(v5::Version::V4)),
            Format::Heph => Kind::Heph(heph::Stream::new()),
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
            Format::V5 => v5::check(v5::Version::V5, schema),
            Format::V4 => v5::check(v5::Version::V4, schema),
            Format::Heph => heph::check(schema),
        }
    }

    /// What the stream does not say.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// What a complete stream ends with. At most 16 bytes; readers tell it from a block by as many. Empty where a stream is complete
    /// behind each of its blocks.
    #[must_use]
    pub fn end_of_stream(&self) -> &'static [u8] {
        match self.kind {
            Kind::V6(_) => &v6::END_OF_STREAM,
            Kind::V5(_) => &v5::Stream::END_OF_STREAM,
            Kind::Heph(_) => &[],
        }
    }

    /// How so many bytes begin that readers skip, whatever the others are; only where there is no
    /// [end of stream](Self::end_of_stream).
    #[must_use]
    pub fn padding(&self) -> Option<fn(u32) -> [u8; heph::PADDING]> {
        match self.kind {
            Kind::V6(_) | Kind::V5(_) => None,
            Kind::Heph(_) => Some(heph::padding),
        }
    }

    /// Whether rows name threads by their ids in the operating system, rather than by an index that [`thread`](Self::thread)
    /// introduces.
    #[must_use]
    pub fn names_threads_by_os_id(&self) -> bool {
        match self.kind {
            Kind::V6(_) => false,
            Kind::V5(_) | Kind::Heph(_) => true,
        }
    }

    /// Where the indices begin of threads that are not named by an id of the operating system. Ids from there on must not be used as
    /// indices: they could be a second thread's.
    #[must_use]
    pub fn first_thread_index(&self) -> u64 {
        match self.kind {
            Kind::V6(_) | Kind::V5(_) => 1 << 32,
            // An index has 32 bits. Linux gives no id beyond 22.
            Kind::Heph(_) => 1 << 22,
        }
    }

    /// Whether behind the first row of a block the others may stand as they were recorded.
    #[must_use]
    pub fn takes_rows_as_recorded(&self) -> bool {
        match &self.kind {
            Kind::V6(_) => true,
            Kind::V5(v5) => !v5.maps_any,
            Kind::Heph(_) => false,
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
            Kind::V5(v5) => {
                v5.mapped.clear();
                v5.maps_any = false;
                let number = |key| {
                    let pair = info.key_values.iter().find(|(name, _)| *name == key);
                    pair.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
                };
                let (process, processors) = (number("ProcessId"), number("HardwareThreadCount"));
                v5.stream.begin(info, process, processors, out)?;
                let said = ["ProcessId", "HardwareThreadCount", "ExpectedCPUSamplingRate"];
                let unsaid = info.key_values.iter().filter(|(key, _)| !said.contains(key));
                self.left_out.key_values += unsaid.count() as u64;
                Ok(())
            }
            Kind::Heph(heph) => {
                heph.begin(info, out)?;
                self.left_out.key_values += info.key_values.len() as u64;
                Ok(())
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
            Kind::V5(v5) => {
                v5.define(types, out)?;
                let version = v5.stream.version();
                let unsaid = types.iter().filter(|(_, schema)| !v5_says_all(version, schema));
                self.left_out.types += unsaid.count() as u64;
                Ok(())
            }
            Kind::Heph(heph) => {
                heph.define(types)?;
                let unsaid = types.iter().filter(|(_, schema)| has_more_than_values(schema));
                self.left_out.types += unsaid.count() as u64;
                Ok(())
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
            Kind::V5(_) => {
                self.left_out.thread_names += u64::from(thread.name.is_some());
                Ok(())
            }
            Kind::Heph(heph) => {
                heph.thread(thread);
                Ok(())
            }
        }
    }

    /// Takes note of a thread that rows will be about, up to the next sequence point, and that they name by its id in the operating
    /// system.
    pub fn subject(&mut self, os_id: u64, name: Option<&str>) {
        let Some(name) = name else { return };
        match &mut self.kind {
            Kind::V6(_) => {}
            Kind::V5(_) => self.left_out.thread_names += 1,
            Kind::Heph(heph) => heph.subject(os_id, name),
        }
    }

    /// Whether threads are introduced and taken leave of. Where they are not, what readers know of a thread begins with the number
    /// of its first row, and its last number is to be told by a sequence point.
    #[must_use]
    pub fn introduces_threads(&self) -> bool {
        match self.kind {
            Kind::V6(_) | Kind::Heph(_) => true,
            Kind::V5(_) => false,
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
            Kind::V5(_) => Ok(()),
            Kind::Heph(heph) => heph.remove_threads(numbers(threads), out),
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
            Kind::V5(v5) => v5.stream.stack_block(id, &[addresses], pointer_size, out),
            // Rows have it with them.
            Kind::Heph(_) => Ok(()),
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
            Kind::V5(_) | Kind::Heph(_) => Ok(()),
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
            Kind::V5(v5) => {
                let told = v5.row(row, is_first, out);
                self.left_out.labels += *told.as_ref().unwrap_or(&0);
                self.left_out.events += u64::from(told.is_err());
                told.map(drop)
            }
            Kind::Heph(heph) => {
                let told = heph.row(&row.header, row.labels, row.stack, row.payload, out);
                self.left_out.events += u64::from(told.is_err());
                told
            }
        }
    }

    /// Takes note of rows that stand behind one as they were recorded, all with its labels. Only where
    /// the stream [takes such](Self::takes_rows_as_recorded).
    pub fn rows_as_recorded(&mut self, labels: &[Label<'_>], rows: u64) {
        if let Kind::V5(_) = self.kind {
            self.left_out.labels += rows * put_labels(labels, &mut v5::Row::default());
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
            Kind::V5(v5) => {
                v5.stream.event_block(first_ts, last_ts, rows_len, out)?;
                Ok(&v5::Stream::END_OF_BLOCK)
            }
            Kind::Heph(_) => Ok(&[]),
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
            Kind::V5(v5) => {
                let threads: Vec<_> = numbers(threads).collect();
                v5.stream.sequence_point(timestamp, &threads, out)
            }
            Kind::Heph(heph) => {
                heph.forget_subjects();
                heph.numbers(numbers(threads), out)
            }
        }
    }
}

fn numbers(threads: &[v6::ThreadSequence]) -> impl Iterator<Item = (u64, u32)> + Clone {
    threads.iter().map(|thread| (thread.thread, thread.sequence))
}

/// Says in a row's header what it can of labels. Returns how many that leaves out: of each
/// activity id a row has one, the last.
fn put_labels(labels: &[Label<'_>], row: &mut v5::Row) -> u64 {
    let mut left_out = 0;
    for label in labels {
        let unsaid = match label {
            Label::ActivityId(id) => row.activity.replace(*id),
            Label::RelatedActivityId(id) => row.related.replace(*id),
            _ => Some([0; 16]),
        };
        left_out += u64::from(unsaid.is_some());
    }
    left_out
}

/// Whether versions 4 and 5 say everything that version 6 would of a type.
fn v5_says_all(version: v5::Version, schema: &EventSchema) -> bool {
    !has_more_than_values(schema) && (schema.opcode.is_none() || version == v5::Version::V5)
}

/// Whether a type says something of itself that is in none of its events.
fn has_more_than_values(schema: &EventSchema) -> bool {
    schema.message.is_some()
        || schema.description.is_some()
        || !schema.key_values.is_empty()
        || schema.provider.guid.is_some()
}
