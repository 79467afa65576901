//! A run of one thread's rows inside one chunk: walking it, cutting it, correcting its times.

use nettrace_format::v6::{RowHeader, RowState, decode_row};

use crate::protocol::{
    memory::Memory,
    pool::Pool,
    record::{Correction, Sealed},
    row::{ESCAPE, Escape, EscapeBytes},
};

/// Rows of a chunk that are yet to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) chunk: u32,
    /// Where the first row begins, or the escape before it.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The state after the row before, which deltas refer to.
    pub(super) before: RowState,
    /// The number of the first row, unless an escape tells of a gap before it.
    pub(super) number: u64,
    pub(super) rows: u64,
    pub(super) last_ts: u64,
    pub(super) end_number: u64,
    /// The epoch in which the chunk was begun, and the epoch's offset.
    pub(super) epoch: u32,
    pub(super) offset: u64,
    /// How to correct the rows' times.
    pub(super) correction: Option<Correction>,
    /// The start of the escapes of the last row with escapes, plus 1. Escapes before `start` belong
    /// to another segment.
    escapes: u32,
    /// Whether the chunk is free once this segment is written.
    pub(super) is_last: bool,
}

/// One step of a walk.
pub(super) enum Step<'a> {
    /// Says something about the next row.
    Escape(EscapeBytes<'a>),
    /// A row: its header as the producer wrote it, and its payload.
    Row(RowHeader, &'a [u8]),
}

impl Segment {
    pub(super) fn new(sealed: &Sealed) -> Self {
        let base_ts = sealed.base_ts.wrapping_add(sealed.offset);
        let base = RowHeader { timestamp: base_ts, ..RowHeader::default() };
        Self {
            chunk: sealed.chunk,
            start: 0,
            end: sealed.len as usize,
            before: RowState::after(base),
            number: sealed.first_number,
            rows: sealed.rows,
            last_ts: sealed.last_ts.wrapping_add(sealed.offset),
            end_number: sealed.end_number,
            epoch: sealed.epoch,
            offset: sealed.offset,
            correction: None,
            escapes: sealed.escapes,
            is_last: true,
        }
    }

    /// The steps of this segment.
    pub(super) fn walk<'a>(&self, pool: &Pool) -> Walk<'a> {
        Walk {
            bytes: self.bytes(pool),
            at: self.start,
            state: self.before,
            correction: self.correction,
        }
    }

    /// The bytes of the chunk up to this segment's end.
    pub(super) fn bytes<'a>(&self, pool: &Pool) -> &'a [u8] {
        Memory::bytes(pool.place(self.chunk), self.end)
    }

    /// Whether the segment may have more than plain rows.
    pub(super) fn has_escapes(&self) -> bool {
        self.escapes as usize > self.start
    }

    /// Finds where each row's escapes begin, in descending order. Skips rows without escapes.
    pub(super) fn escapes(&self, bytes: &[u8], starts: &mut Vec<usize>) {
        starts.clear();
        let mut next = self.escapes as usize;
        while next > self.start {
            let start = next - 1;
            let Some(previous) = EscapeBytes::previous_at(bytes, start) else { break };
            starts.push(start);
            // A producer's list goes backwards. Even if it did not, this loop must end.
            next = start.min(previous as usize);
        }
    }

    /// The time that the first row's delta counts from, which no later row is meant to precede.
    pub(super) fn base_ts(&self) -> u64 {
        self.before.last().timestamp
    }

    /// Makes walks return corrected times.
    pub(super) fn correct(&mut self, correction: Correction, pool: &Pool) {
        self.correction = Some(correction);
        let mut walk = self.walk(pool);
        while let Some(step) = walk.next() {
            if let Step::Row(row, _) = step {
                self.last_ts = row.timestamp;
            }
        }
    }

    /// The timestamp of the first row.
    pub(super) fn first_ts(&self, pool: &Pool) -> u64 {
        let mut walk = self.walk(pool);
        while let Some(step) = walk.next() {
            if let Step::Row(row, _) = step {
                return row.timestamp;
            }
        }
        self.last_ts
    }

    /// Splits the segment at a time. The first part has the rows before `cut`, the second the
    /// others. A part without rows is `None`.
    pub(super) fn split(&self, pool: &Pool, cut: u64) -> (Option<Self>, Option<Self>) {
        if self.last_ts < cut {
            return (Some(*self), None);
        }
        self.split_where(pool, |_, ts| ts >= cut)
    }

    /// Splits the segment after `count` rows. The second part is `None` if there are no more.
    pub(super) fn split_at(&self, pool: &Pool, count: u64) -> (Self, Option<Self>) {
        if self.rows <= count {
            return (*self, None);
        }
        let (first, second) = self.split_where(pool, |rows, _| rows >= count);
        first.map_or((*self, None), |first| (first, second))
    }

    /// Splits before the first row that `is_later`. That function gets the number of rows before
    /// the row, and the row's time.
    fn split_where(
        &self,
        pool: &Pool,
        is_later: impl Fn(u64, u64) -> bool,
    ) -> (Option<Self>, Option<Self>) {
        let mut walk = self.walk(pool);
        let (mut rows, mut number, mut ts) = (0, self.number, self.last_ts);
        // Where the present row begins, its escapes included.
        let mut correction = walk.correction;
        let (mut start, mut before, mut gap) = (walk.at, walk.state, 0);
        // The start of the escapes of the last row with escapes, plus 1. `escapes_so_far` includes
        // escapes that no row has followed yet.
        let (mut escapes, mut escapes_so_far) = (0, 0);
        let mut at = walk.at;
        while let Some(step) = walk.next() {
            match step {
                Step::Escape(escape) => {
                    gap += gap_of(&escape);
                    if at == start {
                        escapes_so_far = at as u32 + 1;
                    }
                }
                Step::Row(row, _) if is_later(rows, row.timestamp) => break,
                Step::Row(row, _) => {
                    (rows, number, ts) = (rows + 1, number + gap + 1, row.timestamp);
                    (start, before, gap) = (walk.at, walk.state, 0);
                    (correction, escapes) = (walk.correction, escapes_so_far);
                }
            }
            at = walk.at;
        }
        if rows == 0 {
            return (None, Some(*self));
        }
        let (end, last_ts, end_number) = (start, ts, number - 1);
        let first = Self { end, rows, last_ts, end_number, escapes, is_last: false, ..*self };
        let rows = self.rows - rows;
        let second = Self { start, before, number, rows, correction, ..*self };
        (Some(first), Some(second))
    }
}

/// How many numbers have no row, according to an escape.
pub(super) fn gap_of(escape: &EscapeBytes<'_>) -> u64 {
    match (escape.kind, escape.data.first_chunk()) {
        (Escape::Gap, Some(count)) => u64::from_le_bytes(*count),
        _ => 0,
    }
}

/// Walks the rows and escapes of a segment.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    state: RowState,
    correction: Option<Correction>,
}

impl<'a> Walk<'a> {
    /// The next step, or `None` at the end. What a producer has written can always be decoded. If
    /// it could not, the walk would end early, and the count of rows would show it.
    pub(super) fn next(&mut self) -> Option<Step<'a>> {
        let rest = &self.bytes[self.at..];
        match rest {
            [] => None,
            [ESCAPE, ..] => {
                let escape = EscapeBytes::at(rest)?;
                self.at += escape.len();
                Some(Step::Escape(escape))
            }
            _ => {
                let (mut row, header) = decode_row(&mut self.state, rest)?;
                let end = header + row.payload_len as usize;
                let payload = rest.get(header..end)?;
                self.at += end;
                if let Some(correction) = &mut self.correction {
                    row.timestamp = correction.apply(row.timestamp);
                }
                Some(Step::Row(row, payload))
            }
        }
    }
}
