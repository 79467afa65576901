//! Writes rows as they were recorded, and adds to the headers of a few what producers do not write
//! there.
//!
//! A row with other labels than the row before, with a stack or with a related thread needs only
//! some bytes more in its header. The rows around it stay as they are. The escapes of a chunk are a
//! list, so nothing walks over plain rows. The work for a segment grows with its escapes, not with
//! its rows.
//!
//! Definitions that the rows need come before their block, all those of a kind in one block.

use std::ops::Range;

use nettrace_format::{
    FormatError, Row,
    content::RowHeader,
    v6::{RowChange, RowState, decode_row, relabel_row},
};

use nettrace_span::frames::{IdBytes, IdList, Implied};

use crate::{
    flusher::{
        output::Output,
        segment::{Segment, gap_of},
        trace::{InForce, NO_PROCESSOR, Told, Trace, TraceThread, rewriting::addresses_of},
    },
    protocol::{
        pool::Pool,
        row::{ESCAPE, Escape, EscapeBytes},
    },
    shared::choices::Ids,
};

/// Runs of rows up to this size are copied. One more piece in a batch would cost more than the
/// copy.
const COPIED: usize = 1_024;
/// Runs of rows up to this size are copied without a call.
const SHORT: usize = 64;

/// Stacks and label lists that have ids, but are not defined yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    lists: Vec<u8>,
    addresses: Vec<u64>,
    /// Where each stack ends in `addresses`.
    ends: Vec<usize>,
}

/// Buffers for a segment.
#[derive(Debug, Default)]
pub(super) struct Splice {
    /// Where the escapes begin, in descending order.
    escapes: Vec<usize>,
    /// Parts of the chunk that are not copied, and how many copied bytes come before each.
    parts: Vec<(usize, Range<usize>)>,
}

/// What a row refers to besides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refers {
    labels: u32,
    stack: u32,
    about: u64,
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
        let mut told = Told { refused: 0, labels: None };
        let bytes = segment.bytes(pool);
        let mut splice = std::mem::take(&mut self.splice);
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        splice.parts.clear();
        segment.escapes(bytes, &mut splice.escapes);

        let plain = Refers { labels: 0, stack: 0, about: thread.subject };
        let mut refers = Refers { labels: self.pending_labels(&thread.labels), ..plain };
        let (mut at, mut gaps) = (segment.start, 0);
        let first_gap = self.escapes(bytes, &mut at, &mut refers, &mut told, thread, out)?;
        gaps += first_gap;
        let mut state = segment.before;
        let Some((first, len)) = decode_row(&mut state, &bytes[at..]) else {
            (self.splice, self.scratch) = (splice, rows);
            return Ok(told);
        };
        let number = segment.number + first_gap;
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
        let row = Row { header, labels: &[], stack: &[], payload: &[] };
        let taken = self.stream.row(&row, true, &mut rows);
        debug_assert!(taken.is_ok(), "what takes changes has no payload of its own");
        at += len;
        let mut row_end = at + first.payload_len as usize;
        // What follows up to `at` is in `rows` or `parts`.
        loop {
            if refers == (Refers { labels: refers.labels, ..plain }) {
                let mut run = at..segment.end;
                let labels = &mut refers.labels;
                self.relabel(bytes, &mut run, labels, &mut told, &mut splice, &mut rows);
                at = run.start;
            }
            // A stack and a related thread apply to one row only, so the next row's header resets
            // them.
            let before = refers;
            refers = Refers { labels: before.labels, ..plain };
            let next = if before == refers {
                while splice.escapes.last().is_some_and(|&start| start < at) {
                    splice.escapes.pop();
                }
                splice.escapes.pop().unwrap_or(segment.end)
            } else {
                row_end
            };
            splice.copy(&mut rows, bytes, at..next);
            at = next;
            let gap = self.escapes(bytes, &mut at, &mut refers, &mut told, thread, out)?;
            gaps += gap;
            if at >= segment.end {
                break;
            }
            let change = RowChange {
                skipped: (gap > 0).then_some((gap as u32, thread.index, NO_PROCESSOR)),
                thread: (refers.about != before.about).then_some(refers.about),
                stack: (refers.stack != before.stack).then_some(refers.stack),
                labels: (refers.labels != before.labels).then_some(refers.labels),
            };
            if refers.stack != 0 || refers.about != plain.about {
                // Such a row was written in full, with the size of its payload.
                let row = decode_row(&mut RowState::new(), &bytes[at..]);
                row_end = at + row.map_or(0, |(row, len)| len + row.payload_len as usize);
            }
            if change != RowChange::default() {
                let replaced = self.stream.change_row(&bytes[at..], &change, &mut rows);
                debug_assert!(replaced.is_some(), "producers write plain rows");
                at += replaced.unwrap_or(0);
            }
        }
        self.define_pending(out)?;
        let parts_len: usize = splice.parts.iter().map(|(_, part)| part.len()).sum();
        let tail = out.own(|out| {
            let len = rows.len() + parts_len;
            self.stream.event_block(first.timestamp, segment.last_ts, len, out)
        })?;
        let mut copied = 0;
        for (end, part) in splice.parts.drain(..) {
            out.own(|out| out.extend_from_slice(&rows[copied..end]));
            out.chunk(segment.chunk, part.start, part.end);
            copied = end;
        }
        out.own(|out| {
            out.extend_from_slice(&rows[copied..]);
            out.extend_from_slice(tail);
        });
        // `end_number` includes what was dropped after the rows.
        let last = segment.number + gaps + segment.rows - 1;
        self.end_rows(thread, last, segment.rows, out);
        (self.splice, self.scratch) = (splice, rows);
        Ok(told)
    }

    /// Copies rows from a place on, which are plain but for their labels, and moves the place past
    /// them. Stops before a row that differs in more, and after the last row with escapes.
    #[inline(never)]
    fn relabel(
        &mut self,
        bytes: &[u8],
        run: &mut Range<usize>,
        labels: &mut u32,
        told: &mut Told,
        splice: &mut Splice,
        rows: &mut Vec<u8>,
    ) {
        while let Some(&start) = splice.escapes.last() {
            let span = EscapeBytes::span_at(bytes, start).filter(|_| start >= run.start);
            if let Some((span, row)) = span.filter(|&(_, row)| bytes[row] != ESCAPE) {
                // The usual case has code of its own, without calls.
                splice.copy(rows, bytes, run.start..start);
                run.start = row;
                let new = self.pending_span_here(span);
                told.labels = Some((Escape::Span, row - span.len()..row));
                if new != *labels {
                    *labels = new;
                    run.start += relabel_row(&bytes[row..], new, rows).unwrap_or(0);
                }
            } else if start >= run.start {
                let Some(escape) = bytes.get(start..).and_then(EscapeBytes::at) else { return };
                let row = start + escape.len();
                let is_labels = matches!(escape.kind, Escape::Labels | Escape::Span);
                if !is_labels || row >= run.end || bytes[row] == ESCAPE {
                    return;
                }
                splice.copy(rows, bytes, run.start..start);
                run.start = row;
                let new = self.pending_escape(&escape);
                told.labels = Some((escape.kind, row - escape.data.len()..row));
                if new != *labels {
                    *labels = new;
                    let replaced = relabel_row_elsewhere(&bytes[row..], new, rows);
                    debug_assert!(replaced.is_some(), "producers write plain rows");
                    run.start += replaced.unwrap_or(0);
                }
            }
            splice.escapes.pop();
        }
    }

    /// Reads the escapes at a place, and moves the place past them. Returns how many numbers have
    /// no row.
    fn escapes(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        refers: &mut Refers,
        told: &mut Told,
        thread: &TraceThread,
        out: &mut Output,
    ) -> Result<u64, FormatError> {
        let mut gap = 0;
        while let Some(escape) = EscapeBytes::at(&bytes[*at..]) {
            *at += escape.len();
            match escape.kind {
                Escape::Gap => gap += gap_of(&escape),
                Escape::Labels | Escape::Span => {
                    refers.labels = self.pending_escape(&escape);
                    told.labels = Some((escape.kind, *at - escape.data.len()..*at));
                }
                Escape::Stack => refers.stack = self.pending_stack(escape.data),
                Escape::Thread => {
                    refers.about = self.related(escape.data, out)?.unwrap_or(thread.subject);
                }
            }
        }
        Ok(gap)
    }

    /// The id of the list of labels in force. If it is new,
    /// [`define_pending`](Self::define_pending) defines it.
    pub(super) fn pending_labels(&mut self, labels: &InForce) -> u32 {
        match &labels.span {
            Some(span) => self.pending_span(span),
            None => self.pending_list(&labels.list),
        }
    }

    /// [`pending_labels`](Self::pending_labels) for labels that an escape has.
    pub(super) fn pending_escape(&mut self, escape: &EscapeBytes<'_>) -> u32 {
        match escape.data.first_chunk() {
            Some(span) if escape.kind == Escape::Span => self.pending_span(span),
            _ => self.pending_list(escape.data),
        }
    }

    /// [`pending_list`](Self::pending_list) for the labels of a span.
    #[inline(never)]
    fn pending_span(&mut self, span: &IdBytes) -> u32 {
        self.pending_span_here(span)
    }

    /// [`pending_span`](Self::pending_span) in the code of the caller.
    #[inline(always)]
    fn pending_span_here(&mut self, span: &IdBytes) -> u32 {
        let (id, new) = self.label_lists.id_of_span(span);
        if let Some(implied) = new {
            let implied = match self.label_ids {
                Ids::Activities => implied,
                Ids::Both => Implied::Nothing,
            };
            IdList::append_ended(span, implied, &mut self.pending.lists);
        }
        id
    }

    /// The id of a label list. If it is new, [`define_pending`](Self::define_pending) defines it.
    fn pending_list(&mut self, bytes: &[u8]) -> u32 {
        if bytes.is_empty() {
            return 0;
        }
        let (id, is_new) = self.label_lists.id(bytes);
        if is_new {
            let lists = &mut self.pending.lists;
            self.label_lists.spans.append_list(id, bytes, self.label_ids, lists);
        }
        id
    }

    /// The id of a stack. If it is new, [`define_pending`](Self::define_pending) defines it.
    pub(super) fn pending_stack(&mut self, bytes: &[u8]) -> u32 {
        let (id, is_new) = self.stacks.id(bytes);
        if is_new {
            self.pending.addresses.extend(addresses_of(bytes));
            self.pending.ends.push(self.pending.addresses.len());
        }
        id
    }

    /// Defines the stacks and label lists that have ids, but are not defined.
    pub(super) fn define_pending(&mut self, out: &mut Output) -> Result<(), FormatError> {
        let (first, count) = self.label_lists.undefined();
        if count > 0 {
            out.own(|out| self.stream.label_rows(first, count, &self.pending.lists, out))?;
            self.pending.lists.clear();
            self.label_lists.define_all();
            self.end_block(0, out);
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
            out.own(|out| self.stream.stacks(first, &stacks, pointer_size, out))?;
            self.pending.addresses.clear();
            self.pending.ends.clear();
            self.stacks.define_all();
            self.end_block(0, out);
        }
        Ok(())
    }
}

/// [`relabel_row`] off the usual way.
#[inline(never)]
fn relabel_row_elsewhere(row: &[u8], labels: u32, out: &mut Vec<u8>) -> Option<usize> {
    relabel_row(row, labels, out)
}

impl Splice {
    /// Adds a run of rows.
    #[inline(always)]
    fn copy(&mut self, rows: &mut Vec<u8>, bytes: &[u8], run: Range<usize>) {
        let len = run.len();
        if let Some(bytes) = bytes[run.start..].first_chunk::<SHORT>().filter(|_| len <= SHORT) {
            // All of them, so that their number is constant.
            let end = rows.len() + len;
            rows.extend_from_slice(bytes);
            rows.truncate(end);
        } else if len <= COPIED {
            rows.extend_from_slice(&bytes[run]);
        } else {
            self.parts.push((rows.len(), run));
        }
    }
}
