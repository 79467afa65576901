//! Copies rows as they were recorded, and completes the headers of a few: producers leave out
//! labels, stacks and related threads there.
//!
//! A row with other labels than the row before, with a stack or with a related thread needs only
//! some bytes more in its header. The rows around it stay as they are. The escapes of a chunk are a
//! list, so nothing walks over plain rows. The work for a segment grows with its escapes, not with
//! its rows.
//!
//! Definitions that the rows need come before their block, all those of a kind in one block.

use nettrace_format::{
    FormatError,
    v6::{
        self, RELABEL_ROOM, RowChange, RowEncoder, RowHeader, RowState, change_row, decode_row,
        relabel_row,
    },
};

use nettrace_span::frames::{IdBytes, IdList, Implied};

use crate::{
    flusher::{
        output::Output,
        rows::Parts,
        segment::{Segment, gap_of},
        trace::{NO_PROCESSOR, Told, Trace, TraceThread},
    },
    protocol::{
        pool::Pool,
        row::{ESCAPE, Escape, EscapeBytes},
    },
    shared::trace_ids::Ids,
};

/// Stacks that have ids, but are not defined yet. Label lists of that kind are in the output.
#[derive(Debug, Default)]
pub(super) struct Pending {
    addresses: Vec<u64>,
    /// Where each stack ends in `addresses`.
    ends: Vec<usize>,
}

/// Buffers for a segment.
#[derive(Debug, Default)]
pub(super) struct Splice {
    /// Where the escapes begin, in descending order.
    escapes: Vec<usize>,
    parts: Parts,
}

/// What a row refers to besides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refers {
    labels: u32,
    stack: u32,
    about: u64,
}

/// A block that is being made of a segment.
struct Block<'a> {
    segment: &'a Segment,
    bytes: &'a [u8],
    /// Up to here, everything is among the rows of the output, or in the parts of `splice`.
    at: usize,
    /// What the last row refers to, or the escapes before the next one say.
    refers: Refers,
    /// How many numbers have no row.
    gaps: u64,
    told: Told,
    splice: Splice,
    /// For a header.
    header: Vec<u8>,
}

impl Trace {
    /// Writes a segment as one block. The rows are copied, or handed to the sink where they are.
    pub(super) fn spliced(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<Told, FormatError> {
        let labels = self.pending_labels(&thread.labels.escape(), &mut out.lists);
        let mut block = Block {
            segment,
            bytes: segment.bytes(pool),
            at: segment.start,
            refers: Refers { labels, ..Refers::plain(thread) },
            gaps: 0,
            told: Told { refused: 0, labels: None },
            splice: std::mem::take(&mut self.splice),
            header: std::mem::take(&mut self.scratch),
        };
        let begin = out.rows.len();
        block.splice.parts.clear();
        segment.escapes(block.bytes, &mut block.splice.escapes);
        if let Some(first) = self.first_row(&mut block, thread, sorted, out)? {
            self.later_rows(&mut block, thread, first.payload_len, out)?;
            self.define_pending(out)?;
            let times = (first.timestamp, segment.last_ts);
            let parts = (segment.chunk, &*block.splice.parts);
            self.event_block(times, begin, parts, block.bytes, out)?;
            // `end_number` includes what was dropped after the rows.
            let last = segment.number + block.gaps + segment.rows - 1;
            block.told.refused = self.end_rows(thread, last, segment.rows, out)?;
        }
        (self.splice, self.scratch) = (block.splice, block.header);
        Ok(block.told)
    }

    /// Writes the header of the first row. Returns what the producer has written of it.
    fn first_row(
        &mut self,
        block: &mut Block<'_>,
        thread: &TraceThread,
        sorted: bool,
        out: &mut Output,
    ) -> Result<Option<RowHeader>, FormatError> {
        block.gaps = self.escapes(block, thread, out)?;
        let Block { segment, refers, .. } = *block;
        let mut state = segment.before;
        let Some((first, len)) = decode_row(&mut state, &block.bytes[block.at..]) else {
            return Ok(None);
        };
        let number = segment.number + block.gaps;
        let header = RowHeader {
            sequence: number.wrapping_sub(thread.said.base) as u32,
            capture_thread: thread.index,
            thread: refers.about,
            processor: NO_PROCESSOR,
            stack: refers.stack,
            labels: refers.labels,
            sorted,
            ..first
        };
        block.header.clear();
        RowEncoder::new().full_row(&header, &mut block.header);
        out.rows.append(&block.header);
        block.at += len;
        Ok(Some(first))
    }

    /// Writes the payload of the first row, which has this length, and all that follows.
    fn later_rows(
        &mut self,
        block: &mut Block<'_>,
        thread: &TraceThread,
        payload_len: u32,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let (plain, end) = (Refers::plain(thread), block.segment.end);
        let mut row_end = block.at + payload_len as usize;
        loop {
            // A stack and a related thread apply to one row only, so the next row's header resets
            // them.
            let is_plain = |refers: Refers| Refers { labels: 0, ..refers } == plain;
            if is_plain(block.refers) && !block.splice.escapes.is_empty() {
                self.relabel(block, out);
            }
            let before = block.refers;
            block.refers = Refers { labels: before.labels, ..plain };
            let next = if is_plain(before) { block.splice.next(block.at, end) } else { row_end };
            out.rows.add(block.bytes, block.at..next, &mut block.splice.parts);
            block.at = next;
            let gap = self.escapes(block, thread, out)?;
            block.gaps += gap;
            if block.at >= end {
                return Ok(());
            }
            let row = &block.bytes[block.at..];
            if !is_plain(block.refers) {
                // Such a row was written in full, with the size of its payload.
                let row = decode_row(&mut RowState::new(), row);
                row_end = block.at + row.map_or(0, |(row, len)| len + row.payload_len as usize);
            }
            let change = block.refers.change(&before, gap, thread);
            if change != RowChange::default() {
                block.header.clear();
                let replaced = change_row(row, &change, &mut block.header);
                debug_assert!(replaced.is_some(), "producers write plain rows");
                out.rows.append(&block.header);
                block.at += replaced.unwrap_or(0);
            }
        }
    }

    /// Copies rows that are plain but for their labels. Stops before a row that differs in more,
    /// and after the last row with escapes.
    #[inline(never)]
    fn relabel(&mut self, block: &mut Block<'_>, out: &mut Output) {
        let (rows, lists) = (&mut out.rows, &mut out.lists);
        let Block { segment, bytes, at: begin, .. } = *block;
        let Splice { escapes, parts } = &mut block.splice;
        // In variables of their own, which can be in registers.
        let (mut at, mut labels, mut left) = (begin, block.refers.labels, &escapes[..]);
        // No row takes more than it does in the chunk: escapes are longer than the ids of lists.
        rows.with_room(segment.end - at, |room| {
            while let Some((&start, rest)) = left.split_last() {
                let span = EscapeBytes::span_at(bytes, start).filter(|_| start >= at);
                if let Some((span, row)) = span.filter(|&(_, row)| bytes[row] != ESCAPE) {
                    // The usual case has code of its own, without calls.
                    room.add(bytes, at..start, parts);
                    at = row;
                    let new = self.pending_span(span, lists);
                    if new != labels {
                        labels = new;
                        at += room.relabel(|out| relabel_row(&bytes[row..], new, out));
                    }
                } else if start >= at {
                    let Some(escape) = bytes.get(start..).and_then(EscapeBytes::at) else { break };
                    let row = start + escape.len();
                    let is_labels = matches!(escape.kind, Escape::Labels | Escape::Span);
                    if !is_labels || row >= segment.end || bytes[row] == ESCAPE {
                        break;
                    }
                    room.add(bytes, at..start, parts);
                    at = row;
                    let new = self.pending_labels(&escape, lists);
                    if new != labels {
                        labels = new;
                        let row = &bytes[row..];
                        let replaced = room.relabel(|out| relabel_row_elsewhere(row, new, out));
                        debug_assert!(replaced > 0, "producers write plain rows");
                        at += replaced;
                    }
                }
                left = rest;
            }
        });
        (block.at, block.refers.labels) = (at, labels);
        // The last escape that is dealt with, unless it was before.
        let left = left.len();
        let last = escapes.get(left).filter(|&&start| start >= begin);
        if let Some((start, escape)) =
            last.and_then(|&start| Some((start, EscapeBytes::at(&bytes[start..])?)))
        {
            let end = start + escape.len();
            block.told.labels = Some((escape.kind, end - escape.data.len()..end));
        }
        escapes.truncate(left);
    }

    /// Reads the escapes before the next row. Returns how many numbers have no row.
    fn escapes(
        &mut self,
        block: &mut Block<'_>,
        thread: &TraceThread,
        out: &mut Output,
    ) -> Result<u64, FormatError> {
        let bytes = block.bytes;
        let Block { at, refers, told, .. } = block;
        let mut gap = 0;
        while let Some(escape) = EscapeBytes::at(&bytes[*at..]) {
            *at += escape.len();
            match escape.kind {
                Escape::Gap => gap += gap_of(&escape),
                Escape::Labels | Escape::Span => {
                    refers.labels = self.pending_labels(&escape, &mut out.lists);
                    told.labels = Some((escape.kind, *at - escape.data.len()..*at));
                }
                Escape::Stack => refers.stack = self.pending_stack(escape.data),
                Escape::Thread => {
                    refers.about = self.related(escape.data, out)?.unwrap_or(thread.index);
                }
            }
        }
        Ok(gap)
    }

    /// The id of the list of labels that an escape says. If it is new,
    /// [`define_pending`](Self::define_pending) defines it.
    pub(super) fn pending_labels(&mut self, escape: &EscapeBytes<'_>, lists: &mut Vec<u8>) -> u32 {
        let span = escape.span();
        match span {
            Some(([], span)) => return self.pending_span(span, lists),
            None if escape.data.is_empty() => return 0,
            _ => {}
        }
        // A list says where it ends, so no list is equal to another with ids after it.
        let (id, is_new) = self.label_lists.id(escape.data);
        let spans = &mut self.label_lists.spans;
        match span {
            _ if !is_new => {}
            Some((labels, span)) => {
                let implied = spans.add_with_labels(span, id);
                IdList::append(span, left_out(implied, self.label_ids), lists);
                lists.extend_from_slice(labels);
            }
            None => spans.append_list(id, escape.data, self.label_ids, lists),
        }
        id
    }

    /// [`pending_labels`](Self::pending_labels) for a span without other labels.
    #[inline(always)]
    fn pending_span(&mut self, span: &IdBytes, lists: &mut Vec<u8>) -> u32 {
        let (id, new) = self.label_lists.id_of_span(span);
        if let Some(implied) = new {
            let implied = left_out(implied, self.label_ids);
            IdList::append_ended(span, implied, lists);
        }
        id
    }

    /// The id of a stack. If it is new, [`define_pending`](Self::define_pending) defines it.
    pub(super) fn pending_stack(&mut self, bytes: &[u8]) -> u32 {
        let (id, is_new) = self.stacks.id(bytes);
        if is_new {
            let words = bytes.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
            self.pending.addresses.extend(words);
            self.pending.ends.push(self.pending.addresses.len());
        }
        id
    }

    /// Defines the stacks and label lists that have ids, but are not defined.
    pub(super) fn define_pending(&mut self, out: &mut Output) -> Result<(), FormatError> {
        let (first, count) = self.label_lists.undefined();
        if count > 0 {
            let header = v6::label_rows_header(first, count, out.undefined_lists())?;
            out.define_lists(&header);
            self.label_lists.define_all();
            self.end_block(0, out)?;
        }
        let (first, count) = self.stacks.undefined();
        if count > 0 {
            let mut start = 0;
            let stacks: Vec<_> = self
                .pending
                .ends
                .iter()
                .map(|&end| &self.pending.addresses[std::mem::replace(&mut start, end)..end])
                .collect();
            let pointer_size = size_of::<usize>() as u32;
            out.own(|out| v6::stack_block(first, &stacks, pointer_size, out))?;
            self.pending.addresses.clear();
            self.pending.ends.clear();
            self.stacks.define_all();
            self.end_block(0, out)?;
        }
        Ok(())
    }
}

/// What the list of a span leaves out of what is implied.
#[inline]
fn left_out(implied: Implied, ids: Ids) -> Implied {
    match ids {
        Ids::Activities => implied,
        Ids::Both => Implied::Nothing,
    }
}

/// [`relabel_row`] off the usual way.
#[inline(never)]
fn relabel_row_elsewhere(
    row: &[u8],
    labels: u32,
    out: &mut [u8; RELABEL_ROOM],
) -> Option<(usize, usize)> {
    relabel_row(row, labels, out)
}

impl Refers {
    /// What a plain row without labels refers to.
    fn plain(thread: &TraceThread) -> Self {
        Self { labels: 0, stack: 0, about: thread.index }
    }

    /// What a row's header says if the row before refers to something else, and `gap` numbers
    /// between them have no row.
    fn change(&self, before: &Self, gap: u64, thread: &TraceThread) -> RowChange {
        RowChange {
            skipped: (gap > 0).then_some((gap as u32, thread.index, NO_PROCESSOR)),
            thread: (self.about != before.about).then_some(self.about),
            stack: (self.stack != before.stack).then_some(self.stack),
            labels: (self.labels != before.labels).then_some(self.labels),
        }
    }
}

impl Splice {
    /// Where the next escapes begin, from a place on, or else the end.
    fn next(&mut self, from: usize, end: usize) -> usize {
        while self.escapes.last().is_some_and(|&start| start < from) {
            self.escapes.pop();
        }
        self.escapes.pop().unwrap_or(end)
    }
}
