//! A stream of version 6 in another format, or without some values.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::mem;

use nettrace_event::{EventSchema, keys};

use super::{
    Stage, StageMark,
    output::{EventRows, Output, OutputMark},
    read_types::ReadType,
    tables::{MOST_BYTES, Table},
    threads::{Counts, Threads},
};
use crate::{
    blocks::BlockKind,
    content::{Label, RowHeader, TraceInfo},
    cursor::Cursor,
    described::EventType,
    error::FormatError,
    format::Format,
    redact::Redaction,
    schema::Metadata,
    stream_end::StreamEnd,
    types,
    v6::{
        EncodedLabels, RowFlags, RowState, labels_in,
        read::{self, Block, Malformed, Rows},
        read_stacks, read_thread_rows,
    },
    writer::{LeftOut, Row, Source},
};

/// The most bytes that it takes to tell the last number of a thread, in any format.
const MOST_OF_NUMBER: usize = 64;

/// Writes a stream of version 6 in another [`Format`], or without the values of a [`Redaction`].
///
/// # Memory
///
/// 32 MiB of label lists, and as many of stacks for formats whose rows have them; the threads of
/// the stream, and 65,536 that it does not define any more; what the format remembers of types,
/// threads and spans; and one block. For a [copy](Self::copying) the caller bounds threads and
/// types.
///
/// ```
/// use nettrace_format::{
///     Composer, Format, Stage, Transcoder,
///     v6::{RowHeader, ThreadInfo},
/// };
/// # use nettrace_format::example::{INFO, SALE};
///
/// let (mut stage, mut trace) = (Transcoder::new(Format::V5), Vec::new());
/// stage.begin(&INFO, &mut trace)?;
/// // `SALE` is an event type.
/// stage.define(&[(1, &SALE)], &mut trace)?;
///
/// let (mut composer, mut blocks) = (Composer::new(), Vec::new());
/// let main = ThreadInfo { index: 1 << 32, os_thread_id: Some(17), ..ThreadInfo::default() };
/// composer.thread(&main, &mut blocks)?;
/// let header = RowHeader {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: 1 << 32,
///     thread: 1 << 32,
///     timestamp: 6_000,
///     ..RowHeader::default()
/// };
/// composer.row(&header, &1_250_u32.to_le_bytes(), &mut blocks)?;
/// composer.end_blocks(&mut blocks)?;
/// assert_eq!(stage.blocks(&blocks, &mut trace)?, 0);
///
/// stage.finish(&mut trace)?;
/// trace.extend(stage.end().bytes());
/// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
/// // Version 5 names a thread by its id in the operating system.
/// assert_eq!(reader.next_event()?.map(|event| event.header.thread), Some(17));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transcoder {
    output: Output,
    redaction: Option<Redaction>,
    /// Whether threads get other ids than those of the input.
    renames: bool,
    /// Whether rows, and what they refer to, are other than those of version 6.
    has_own_rows: bool,
    has_stacks_in_rows: bool,
    /// The types of a copy, by the metadata ids of rows.
    read_types: Vec<Option<ReadType>>,
    /// Whether one of these has dates. Rows may then not be copied as they were recorded.
    reads_dates: bool,
    threads: Threads,
    label_lists: Table,
    stacks: Table,
    pointer_size: u32,
    /// The latest time so far.
    last_ts: u64,
    /// How many refused rows streams before do not tell.
    untold: u64,
    rows: Vec<u8>,
    addresses: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TranscoderMark {
    output: OutputMark,
    log: usize,
    counts: Counts,
}

impl Transcoder {
    /// Writes `format`.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let renames = format.definition().thread_ids.are_os_ids;
        Self::of(format, Source::Recording, renames, MOST_BYTES)
    }

    /// Writes a trace of another producer in `format`. Ids and numbers of threads are those of the
    /// input: a thread can have the id of one that has ended, and then continues its numbers.
    /// `is_older` says that they are of a trace of version 4 or 5, where numbers begin again
    /// instead. Label lists may take `most_bytes`, and so may stacks.
    ///
    /// Types are those of [`define_types`](Self::define_types). Payloads need not be as sessions
    /// write them.
    ///
    /// ```
    /// use nettrace_format::{
    ///     Composer, Field, Format, Metadata, Stage, Transcoder, Type,
    ///     v6::{RowHeader, ThreadInfo},
    /// };
    /// # use nettrace_format::example::INFO;
    ///
    /// let (mut stage, mut trace) = (Transcoder::copying(Format::V5, false, 1 << 20), Vec::new());
    /// stage.begin(&INFO, &mut trace)?;
    /// let fields = vec![Field::new("cents", Type::VarUInt)];
    /// let sale = Metadata { id: 1, name: "Sale".into(), fields, ..Metadata::default() };
    /// stage.define_types(vec![sale], &mut trace)?;
    ///
    /// let (mut composer, mut blocks) = (Composer::new(), Vec::new());
    /// composer.thread(&ThreadInfo { index: 7, ..ThreadInfo::default() }, &mut blocks)?;
    /// let header = RowHeader {
    ///     metadata_id: 1,
    ///     sequence: 1,
    ///     capture_thread: 7,
    ///     thread: 7,
    ///     timestamp: 6_000,
    ///     ..RowHeader::default()
    /// };
    /// composer.row(&header, &[0xE2, 0x09], &mut blocks)?;
    /// composer.end_blocks(&mut blocks)?;
    /// stage.blocks(&blocks, &mut trace)?;
    /// stage.finish(&mut trace)?;
    /// trace.extend(stage.end().bytes());
    ///
    /// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
    /// let event = reader.next_event()?.expect("there is one event");
    /// assert_eq!(event.payload, 1_250_u64.to_le_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn copying(format: Format, is_older: bool, most_bytes: usize) -> Self {
        Self::of(format, Source::Trace { is_older }, false, most_bytes)
    }

    fn of(format: Format, source: Source, renames: bool, most_bytes: usize) -> Self {
        let definition = format.definition();
        Self {
            output: Output::new(format, source),
            redaction: None,
            renames,
            has_own_rows: definition.thread_ids.are_os_ids,
            has_stacks_in_rows: definition.has_stacks_in_rows,
            read_types: Vec::new(),
            reads_dates: false,
            threads: Threads::new(format, renames),
            label_lists: Table::new(most_bytes),
            stacks: Table::new(most_bytes),
            pointer_size: 8,
            last_ts: 0,
            untold: 0,
            rows: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// The stage that makes `format` of version 6. `None` for version 6 itself.
    ///
    /// ```
    /// use nettrace_format::{Format, Transcoder};
    ///
    /// assert!(Transcoder::stage(Format::Heph).is_some());
    /// assert!(Transcoder::stage(Format::V6).is_none());
    /// ```
    #[must_use]
    pub fn stage(format: Format) -> Option<Box<dyn Stage>> {
        (format != Format::V6).then(|| Box::new(Self::new(format)) as Box<dyn Stage>)
    }

    /// Also replaces the values that a redaction chooses. An event that it cannot take apart is
    /// left out and counted, as one that the format cannot store.
    #[must_use]
    pub fn redacted(self, redaction: Redaction) -> Self {
        Self { redaction: Some(redaction), ..self }
    }

    /// Describes types of a trace, each under its metadata id. Ids should follow one another.
    ///
    /// # Errors
    /// [`FormatError`] if a type [cannot be described](Format::check_type).
    pub fn define_types(
        &mut self,
        types: Vec<Metadata>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let shared: Vec<_> = types.into_iter().map(|ty| (ty.id, Arc::new(ty))).collect();
        let known = shared.iter().map(|(id, ty)| (*id, EventType::Read(Arc::clone(ty))));
        let known: Vec<_> = known.collect();
        let Output { writer, left_out, .. } = &mut self.output;
        writer.define(&known, left_out, out)?;
        for (id, ty) in shared {
            let at = id as usize;
            if self.read_types.len() <= at {
                self.read_types.resize_with(at + 1, || None);
            }
            let ty = ReadType::new(ty);
            self.reads_dates |= ty.has_dates;
            self.read_types[at] = Some(ty);
        }
        Ok(())
    }

    fn block(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<u64, FormatError> {
        let Self { output, redaction, threads, .. } = self;
        if block.is(BlockKind::Event) {
            return self.events(block, out);
        } else if block.is(BlockKind::Thread) {
            let mut result = Ok(());
            read_thread_rows(Cursor::new(block.body, 0), |_, mut thread| {
                if let Some(redaction) = redaction {
                    redaction.thread(&mut thread);
                }
                result = result.and_then(|()| threads.define(thread, output, out));
                Ok::<_, Malformed>(())
            })?;
            result?;
        } else if block.is(BlockKind::RemoveThread) {
            let gone = read::thread_sequences(block.body)?;
            let numbers = threads.numbers(&gone, output, out)?;
            if !numbers.is_empty() {
                output.writer.remove_threads(&numbers, out)?;
            }
            gone.iter().for_each(|gone| threads.remove(gone.thread));
        } else if block.is(BlockKind::Stack) {
            self.define_stacks(block, out)?;
        } else if block.is(BlockKind::LabelList) {
            self.define_label_lists(block, out)?;
        } else if block.is(BlockKind::SequencePoint) {
            let point = read::point(block.body)?;
            let numbers = threads.numbers(&point.threads, output, out)?;
            output.writer.sequence_point(point.timestamp, &numbers, out)?;
            let tables = [self.stacks.take(), self.label_lists.take()];
            self.threads.end_tables(tables);
            self.last_ts = self.last_ts.max(point.timestamp);
        } else {
            return Err(FormatError::MalformedBlock);
        }
        Ok(0)
    }

    fn define_stacks(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let Self { output, stacks, addresses, pointer_size, .. } = self;
        let (mut first, mut ends) = (0, Vec::new());
        addresses.clear();
        read_stacks(&mut Cursor::new(block.body, 0), |_, id, bytes| {
            if self.has_stacks_in_rows {
                stacks.set(id, bytes);
            } else {
                first = if ends.is_empty() { id } else { first };
                addresses.extend(words(bytes, *pointer_size));
                ends.push(addresses.len());
            }
            Ok::<_, Malformed>(())
        })?;
        if ends.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        let stack = |end: &usize| &addresses[mem::replace(&mut start, *end)..*end];
        let all: Vec<_> = ends.iter().map(stack).collect();
        output.writer.stacks(first, &all, *pointer_size, out)
    }

    fn define_label_lists(
        &mut self,
        block: &Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let (first, count) = (read::word32(block.body, 0)?, read::word32(block.body, 4)?);
        let mut rows = block.body.get(8..).ok_or(Malformed)?;
        let redacted = self.redaction.as_mut().map(|redaction| redaction.label_lists(rows));
        let redacted = redacted.transpose()?;
        rows = redacted.as_deref().unwrap_or(rows);
        if !self.has_own_rows {
            return self.output.writer.label_rows(first, count, rows, out);
        }
        let mut lists = Cursor::new(rows, 0);
        for id in (first..=u32::MAX).take(count as usize) {
            let list = EncodedLabels::read(&mut lists).map_err(Malformed::from)?.bytes();
            if labels(list).any(|label| label.is_none()) {
                return Err(Malformed.into());
            }
            self.label_lists.set(id, list);
        }
        Ok(())
    }

    /// Converts a block of rows. Returns how many were refused.
    fn events(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<u64, FormatError> {
        let redacts = self.redaction.as_ref().is_some_and(Redaction::has_types);
        if !redacts && !self.has_own_rows {
            let last_ts = block.body.get(12..).and_then(|rest| rest.first_chunk());
            let last_ts = last_ts.copied().map(u64::from_le_bytes).ok_or(Malformed)?;
            self.last_ts = self.last_ts.max(last_ts);
            out.extend_from_slice(block.whole);
            return Ok(0);
        }
        let mut rows = Rows::new(block.body)?;
        let Some((first, payload)) = rows.next_row()? else { return Ok(0) };
        let id = self.threads.recorder(first.capture_thread, &mut self.output, out)?;
        let may_copy = !redacts && !self.reads_dates;
        if may_copy && self.output.writer.takes_rows_as_recorded(id, first.sequence) {
            if let Some((last_ts, more)) = plain_rows(&rows) {
                return self.copy(&first, id, payload, (rows.rest(), more, last_ts), out);
            }
        }
        let Self { output, redaction, threads, label_lists, stacks, addresses, last_ts, .. } = self;
        let mut written = EventRows::new(mem::take(&mut self.rows));
        let (mut list, mut list_id, mut lacks_list) = (Vec::new(), 0, false);
        let (mut of, mut refused, mut stack_id) = ((first.capture_thread, id), 0, None);
        let mut next = Some((first, payload));
        while let Some((header, payload)) = next {
            if header.labels != list_id && self.has_own_rows {
                list_id = header.labels;
                lacks_list = label_lists.lacks(list_id);
                list.clear();
                list.extend(label_lists.get(list_id).into_iter().flat_map(labels).flatten());
            }
            output.left_out.labels += u64::from(lacks_list);
            if self.has_stacks_in_rows && stack_id.replace(header.stack) != Some(header.stack) {
                let stack = stacks.get(header.stack).unwrap_or_default();
                addresses.clear();
                addresses.extend(words(stack, self.pointer_size));
            }
            if header.capture_thread != of.0 {
                let id = threads.recorder(header.capture_thread, output, out)?;
                of = (header.capture_thread, id);
            }
            let thread = threads.subject(&header, of.1, output, out)?;
            if written.end_before(of.1, header.sorted) {
                written.end_block(output, out)?;
            }
            let redacted =
                redaction.as_mut().and_then(|it| it.payload(header.metadata_id, payload));
            let payload = match &redacted {
                None => Ok(payload),
                Some(Ok(payload)) => Ok(&**payload),
                Some(Err(refusal)) => Err(*refusal),
            };
            let result = payload.and_then(|payload| {
                let payload_len = payload.len() as u32;
                let row = RowHeader { capture_thread: of.1, thread, payload_len, ..header };
                let row = Row { header: row, labels: &list, stack: addresses, payload };
                let ty = self.read_types.get(header.metadata_id as usize);
                let (is_first, rows) = (written.times.is_none(), &mut written.bytes);
                match ty.and_then(Option::as_ref) {
                    None => output.row(&row, is_first, rows),
                    Some(ty) => ty.write(output, &row, is_first, rows),
                }
            });
            match result {
                Ok(()) => {
                    written.note(of.1, header.timestamp);
                    threads.catch_up(header.capture_thread);
                }
                Err(refusal) => {
                    output.refuse(refusal);
                    threads.refuse(&header);
                    refused += 1;
                }
            }
            *last_ts = header.timestamp.max(*last_ts);
            next = rows.next_row()?;
        }
        written.end_block(output, out)?;
        self.rows = written.bytes;
        Ok(refused)
    }

    /// Copies the rows after the first as they are: their bytes, their number, and the last time.
    /// `id` is that of their thread.
    fn copy(
        &mut self,
        first: &RowHeader,
        id: u64,
        payload: &[u8],
        (more, count, last_ts): (&[u8], u32, u64),
        out: &mut Vec<u8>,
    ) -> Result<u64, FormatError> {
        let Self { output, threads, label_lists, rows, .. } = self;
        let list = label_lists.get(first.labels).into_iter().flat_map(labels).flatten();
        let list: Vec<_> = list.collect();
        let thread = threads.subject(first, id, output, out)?;
        let header = RowHeader { capture_thread: id, thread, ..*first };
        rows.clear();
        let row = Row { header, labels: &list, stack: &[], payload };
        let taken = output.row(&row, true, rows);
        debug_assert!(taken.is_ok(), "what is taken as recorded has no payload of its own");
        output.writer.rows_as_recorded(id, &list, count, &mut output.left_out);
        let lacks_list = u64::from(label_lists.lacks(first.labels));
        output.left_out.labels += lacks_list * (1 + u64::from(count));
        threads.catch_up(first.capture_thread);
        self.last_ts = self.last_ts.max(last_ts);
        let len = rows.len() + more.len();
        let tail = output.writer.event_block(first.timestamp, last_ts, len, out)?;
        out.extend_from_slice(rows);
        out.extend_from_slice(more);
        out.extend_from_slice(tail);
        Ok(0)
    }
}

impl Stage for Transcoder {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.untold += self.threads.begin();
        drop([self.label_lists.take(), self.stacks.take()]);
        self.read_types.clear();
        self.reads_dates = false;
        (self.pointer_size, self.last_ts) = (info.pointer_size, info.sync_ticks);
        // Only version 6 has a place for what a session itself says of its streams.
        let own: &[_] = if self.renames { &[keys::RECORDING, keys::FILE] } else { &[] };
        let others = info.key_values.iter().filter(|(key, _)| !own.contains(key));
        let key_values: Vec<_> = others.copied().collect();
        let info = TraceInfo { key_values: &key_values, ..*info };
        let Output { writer, left_out, .. } = &mut self.output;
        match &mut self.redaction {
            Some(redaction) => redaction.begin(&info, |info| writer.begin(info, left_out, out)),
            None => writer.begin(&info, left_out, out),
        }
    }

    fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if let Some(redaction) = &mut self.redaction {
            for (id, schema) in types {
                redaction.define(*id, schema.name, &types::described(schema.fields));
            }
        }
        let types = types.iter().map(|(id, schema)| (*id, EventType::Own(schema)));
        let Output { writer, left_out, .. } = &mut self.output;
        writer.define(&types.collect::<Vec<_>>(), left_out, out)
    }

    fn blocks(&mut self, blocks: &[u8], out: &mut Vec<u8>) -> Result<u64, FormatError> {
        read::blocks(blocks).try_fold(0, |refused, block| Ok(refused + self.block(&block?, out)?))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let behind = self.threads.behind();
        if behind.is_empty() && !self.output.writer.has_untold_losses() {
            return Ok(());
        }
        let numbers = self.threads.numbers(&behind, &mut self.output, out)?;
        self.last_ts = self.last_ts.saturating_add(1);
        self.output.writer.sequence_point(self.last_ts, &numbers, out)
    }

    fn end(&self) -> StreamEnd {
        self.output.format.definition().end
    }

    fn closing_size(&self) -> u64 {
        let Counts { defined, introduced } = self.threads.counts;
        let others = (defined.saturating_sub(introduced) * MOST_OF_NUMBER) as u64;
        2 * self.output.writer.closing_size() + others
    }

    fn wants_point(&self) -> bool {
        let is_half_full = self.label_lists.is_half_full() || self.stacks.is_half_full();
        let writer = &self.output.writer;
        is_half_full || writer.wants_point() || writer.has_untold_losses()
    }

    fn untold_losses(&self) -> u64 {
        self.output.writer.untold_losses() + self.untold
    }

    fn left_out(&self) -> LeftOut {
        self.output.left_out
    }

    fn set_left_out(&mut self, left_out: LeftOut) {
        self.output.left_out = left_out;
    }

    fn unused_names(&self) -> Vec<&str> {
        self.redaction.iter().flat_map(Redaction::unused).collect()
    }

    fn mark(&mut self) -> StageMark {
        let (output, log) = (self.output.mark(), self.threads.mark());
        StageMark(TranscoderMark { output, log, counts: self.threads.counts })
    }

    fn rewind(&mut self, StageMark(mark): &StageMark) {
        while let Some(tables) = self.threads.undo(mark.log) {
            if let Some(tables) = tables {
                [self.stacks, self.label_lists] = tables;
            }
        }
        self.threads.counts = mark.counts;
        self.output.rewind(&mark.output);
    }

    fn settle(&mut self) {
        self.threads.settle();
        self.output.writer.settle();
    }
}

/// The labels of a sound list. `None` for one whose texts are not UTF-8.
fn labels(list: &[u8]) -> impl Iterator<Item = Option<Label<'_>>> {
    labels_in(list).map(|(_, label)| label.decode(|text| core::str::from_utf8(text).ok()))
}

/// Addresses of this size.
fn words(bytes: &[u8], pointer_size: u32) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(pointer_size.max(1) as usize).map(|bytes| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        u64::from_le_bytes(word)
    })
}

/// The last time of the rows to come and their number, if they say nothing of threads, stacks and
/// labels. The formats before version 6 have such rows as they are.
fn plain_rows(rows: &Rows<'_>) -> Option<(u64, u32)> {
    const OTHER: u8 = RowFlags::CAPTURE
        | RowFlags::THREAD
        | RowFlags::STACK
        | RowFlags::LABELS
        | RowFlags::SORTED;
    let (mut rest, mut state, mut count) = (rows.rest(), RowState::after(*rows.last()), 0);
    while let Some(flags) = rest.first() {
        let len = (flags & OTHER == 0).then(|| state.advance(rest))??;
        rest = rest.get(len + state.last().payload_len as usize..)?;
        count += 1;
    }
    Some((state.last().timestamp, count))
}
