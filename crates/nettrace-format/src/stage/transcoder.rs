//! A stream of version 6 in another format, or without some values.

use alloc::{boxed::Box, vec::Vec};
use core::mem;

use nettrace_event::{EventSchema, keys};

use super::{
    Stage, StageMark,
    tables::Table,
    threads::{Counts, Threads},
};
use crate::{
    blocks::BlockKind,
    content::{Label, RowHeader, TraceInfo},
    cursor::Cursor,
    error::FormatError,
    format::Format,
    redact::Redaction,
    stream::{Mark, Stream},
    stream_end::StreamEnd,
    types,
    v6::{
        EncodedLabels, RowFlags, RowState, labels_in,
        read::{self, Block, Malformed, Rows},
        read_stacks, read_thread_rows,
    },
    writer::{LeftOut, Row},
};

/// The most bytes that it takes to tell the last number of a thread, in any format.
const MOST_OF_NUMBER: usize = 64;

/// Writes a stream of version 6 in another [`Format`], or without the values of a [`Redaction`].
///
/// # Memory
///
/// 32 MiB of label lists, and as many of stacks for formats whose rows have them; the threads of
/// the stream, and 65,536 that it does not define any more; what the format remembers of types,
/// threads and spans; and one block.
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
    stream: Stream,
    redaction: Option<Redaction>,
    has_stacks_in_rows: bool,
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
    stream: Mark,
    log: usize,
    counts: Counts,
}

impl Transcoder {
    /// Writes `format`.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            stream: Stream::new(format),
            redaction: None,
            has_stacks_in_rows: format.has_stacks_in_rows(),
            threads: Threads::new(format),
            label_lists: Table::default(),
            stacks: Table::default(),
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

    fn block(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<u64, FormatError> {
        let Self { stream, redaction, threads, .. } = self;
        if block.is(BlockKind::Event) {
            return self.events(block, out);
        } else if block.is(BlockKind::Thread) {
            let mut result = Ok(());
            read_thread_rows(Cursor::new(block.body, 0), |_, mut thread| {
                if let Some(redaction) = redaction {
                    redaction.thread(&mut thread);
                }
                result = result.and_then(|()| threads.define(thread, stream, out));
                Ok::<_, Malformed>(())
            })?;
            result?;
        } else if block.is(BlockKind::RemoveThread) {
            let gone = read::thread_sequences(block.body)?;
            let numbers = threads.numbers(&gone, stream, out)?;
            if !numbers.is_empty() {
                stream.remove_threads(&numbers, out)?;
            }
            gone.iter().for_each(|gone| threads.remove(gone.thread));
        } else if block.is(BlockKind::Stack) {
            self.define_stacks(block, out)?;
        } else if block.is(BlockKind::LabelList) {
            self.define_label_lists(block, out)?;
        } else if block.is(BlockKind::SequencePoint) {
            let point = read::point(block.body)?;
            let numbers = threads.numbers(&point.threads, stream, out)?;
            stream.sequence_point(point.timestamp, &numbers, out)?;
            let tables = [mem::take(&mut self.stacks), mem::take(&mut self.label_lists)];
            self.threads.end_tables(tables);
            self.last_ts = self.last_ts.max(point.timestamp);
        } else {
            return Err(FormatError::MalformedBlock);
        }
        Ok(0)
    }

    fn define_stacks(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let Self { stream, stacks, addresses, pointer_size, .. } = self;
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
        stream.stacks(first, &all, *pointer_size, out)
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
        if !self.threads.has_own_ids() {
            return self.stream.label_rows(first, count, rows, out);
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
        if !redacts && !self.threads.has_own_ids() {
            let last_ts = block.body.get(12..).and_then(|rest| rest.first_chunk());
            let last_ts = last_ts.copied().map(u64::from_le_bytes).ok_or(Malformed)?;
            self.last_ts = self.last_ts.max(last_ts);
            out.extend_from_slice(block.whole);
            return Ok(0);
        }
        let mut rows = Rows::new(block.body)?;
        let Some((first, payload)) = rows.next_row()? else { return Ok(0) };
        let id = self.threads.recorder(first.capture_thread, &mut self.stream, out)?;
        if !redacts && self.stream.takes_rows_as_recorded(id, first.sequence) {
            if let Some((last_ts, more)) = plain_rows(&rows) {
                return self.copy(&first, id, payload, (rows.rest(), more, last_ts), out);
            }
        }
        let Self { stream, redaction, threads, label_lists, stacks, addresses, last_ts, .. } = self;
        let mut written = mem::take(&mut self.rows);
        written.clear();
        let (mut list, mut list_id, mut lacks_list) = (Vec::new(), 0, false);
        let (mut of, mut refused, mut times) = ((first.capture_thread, id), 0, None);
        let mut next = Some((first, payload));
        while let Some((header, payload)) = next {
            if header.labels != list_id && threads.has_own_ids() {
                list_id = header.labels;
                lacks_list = label_lists.lacks(list_id);
                list.clear();
                list.extend(label_lists.get(list_id).into_iter().flat_map(labels).flatten());
            }
            stream.leave_out_labels(u64::from(lacks_list));
            if self.has_stacks_in_rows {
                let stack = stacks.get(header.stack).unwrap_or_default();
                addresses.clear();
                addresses.extend(words(stack, self.pointer_size));
            }
            if header.capture_thread != of.0 {
                let id = threads.recorder(header.capture_thread, stream, out)?;
                of = (header.capture_thread, id);
            }
            let thread = threads.subject(&header, of.1, stream, out)?;
            let redacted =
                redaction.as_mut().and_then(|it| it.payload(header.metadata_id, payload));
            let payload = match &redacted {
                None => Some(payload),
                Some(Ok(payload)) => Some(&**payload),
                Some(Err(_)) => None,
            };
            let is_written = if let Some(payload) = payload {
                let payload_len = payload.len() as u32;
                let row = RowHeader { capture_thread: of.1, thread, payload_len, ..header };
                let row = Row { header: row, labels: &list, stack: addresses, payload };
                stream.row(&row, times.is_none(), &mut written).is_ok()
            } else {
                stream.refuse();
                false
            };
            if is_written {
                let at = header.timestamp;
                let (first, last) = times.unwrap_or((at, at));
                times = Some((first.min(at), last.max(at)));
                threads.catch_up(header.capture_thread);
            } else {
                threads.refuse(&header);
                refused += 1;
            }
            *last_ts = header.timestamp.max(*last_ts);
            next = rows.next_row()?;
        }
        if let Some((first_ts, last_ts)) = times {
            let tail = stream.event_block(first_ts, last_ts, written.len(), out)?;
            out.extend_from_slice(&written);
            out.extend_from_slice(tail);
        }
        self.rows = written;
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
        let Self { stream, threads, label_lists, rows, .. } = self;
        let list = label_lists.get(first.labels).into_iter().flat_map(labels).flatten();
        let list: Vec<_> = list.collect();
        let thread = threads.subject(first, id, stream, out)?;
        let header = RowHeader { capture_thread: id, thread, ..*first };
        rows.clear();
        let row = Row { header, labels: &list, stack: &[], payload };
        let taken = stream.row(&row, true, rows);
        debug_assert!(taken.is_ok(), "what is taken as recorded has no payload of its own");
        stream.rows_as_recorded(id, &list, count);
        let lacks_list = u64::from(label_lists.lacks(first.labels));
        stream.leave_out_labels(lacks_list * (1 + u64::from(count)));
        threads.catch_up(first.capture_thread);
        self.last_ts = self.last_ts.max(last_ts);
        let len = rows.len() + more.len();
        let tail = stream.event_block(first.timestamp, last_ts, len, out)?;
        out.extend_from_slice(rows);
        out.extend_from_slice(more);
        out.extend_from_slice(tail);
        Ok(0)
    }
}

impl Stage for Transcoder {
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.untold += self.threads.begin();
        (self.label_lists, self.stacks) = Default::default();
        (self.pointer_size, self.last_ts) = (info.pointer_size, info.sync_ticks);
        // Only version 6 has a place for what a session itself says of its streams.
        let own: &[_] =
            if self.threads.has_own_ids() { &[keys::RECORDING, keys::FILE] } else { &[] };
        let others = info.key_values.iter().filter(|(key, _)| !own.contains(key));
        let key_values: Vec<_> = others.copied().collect();
        let info = TraceInfo { key_values: &key_values, ..*info };
        match &mut self.redaction {
            Some(redaction) => redaction.begin(&info, |info| self.stream.begin(info, out)),
            None => self.stream.begin(&info, out),
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
        self.stream.define(types, out)
    }

    fn blocks(&mut self, blocks: &[u8], out: &mut Vec<u8>) -> Result<u64, FormatError> {
        read::blocks(blocks).try_fold(0, |refused, block| Ok(refused + self.block(&block?, out)?))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let behind = self.threads.behind();
        if behind.is_empty() && !self.stream.has_untold_losses() {
            return Ok(());
        }
        let numbers = self.threads.numbers(&behind, &mut self.stream, out)?;
        self.last_ts = self.last_ts.saturating_add(1);
        self.stream.sequence_point(self.last_ts, &numbers, out)
    }

    fn end(&self) -> StreamEnd {
        self.stream.end()
    }

    fn closing_size(&self) -> u64 {
        let Counts { defined, introduced } = self.threads.counts;
        let others = (defined.saturating_sub(introduced) * MOST_OF_NUMBER) as u64;
        2 * self.stream.closing_size() + others
    }

    fn wants_point(&self) -> bool {
        let is_half_full = self.label_lists.is_half_full() || self.stacks.is_half_full();
        is_half_full || self.stream.wants_point() || self.stream.has_untold_losses()
    }

    fn untold_losses(&self) -> u64 {
        self.stream.untold_losses() + self.untold
    }

    fn left_out(&self) -> LeftOut {
        self.stream.left_out()
    }

    fn set_left_out(&mut self, left_out: LeftOut) {
        self.stream.set_left_out(left_out);
    }

    fn unused_names(&self) -> Vec<&str> {
        self.redaction.iter().flat_map(Redaction::unused).collect()
    }

    fn mark(&mut self) -> StageMark {
        let (stream, log) = (self.stream.mark(), self.threads.mark());
        StageMark(TranscoderMark { stream, log, counts: self.threads.counts })
    }

    fn rewind(&mut self, StageMark(mark): &StageMark) {
        while let Some(tables) = self.threads.undo(mark.log) {
            if let Some(tables) = tables {
                [self.stacks, self.label_lists] = tables;
            }
        }
        self.threads.counts = mark.counts;
        self.stream.rewind(&mark.stream);
    }

    fn settle(&mut self) {
        self.threads.settle();
        self.stream.settle();
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
