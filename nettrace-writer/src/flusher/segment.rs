//! A run of one thread's rows inside one chunk: walking, cutting, rewriting.

use nettrace_format::v6::{RowHeader, RowState, decode_row};

use crate::{
    memory::Memory,
    pool::Pool,
    record::Sealed,
    row::{ESCAPE, Escape},
};

/// Rows of a chunk that are still to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) chunk: u32,
    /// Where the first row (or the escape before it) begins.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What the row before said, as far as deltas refer to it.
    pub(super) before: RowState,
    /// Number of the first row, gaps before it that are told by escapes aside.
    pub(super) number: u64,
    pub(super) rows: u64,
    pub(super) last_ts: u64,
    pub(super) end_number: u64,
    pub(super) escapes: bool,
    /// Whether the chunk is free once this is written.
    pub(super) is_last: bool,
}

/// One step of a walk.
pub(super) enum Step<'a> {
    /// Something about the next row.
    Escape(Escape, &'a [u8]),
    /// A row: its header as the producer knew it, and its payload.
    Row(RowHeader, &'a [u8]),
}

impl Segment {
    pub(super) fn new(sealed: &Sealed) -> Self {
        let base = RowHeader { timestamp: sealed.base_ts, ..RowHeader::default() };
        Self {
            chunk: sealed.chunk,
            start: 0,
            end: sealed.len as usize,
            before: RowState::after(base),
            number: sealed.first_number,
            rows: sealed.rows,
            last_ts: sealed.last_ts,
            end_number: sealed.end_number,
            escapes: sealed.escapes,
            is_last: true,
        }
    }

    /// The steps of this segment.
    pub(super) fn walk<'a>(&self, pool: &Pool) -> Walk<'a> {
        Walk {
            bytes: Memory::bytes(pool.place(self.chunk), self.end),
            at: self.start,
            state: self.before,
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

    /// Splits off the rows from the time `cut` on. The first part has the earlier ones; either may have none.
    pub(super) fn split(&self, pool: &Pool, cut: u64) -> (Option<Self>, Option<Self>) {
        if self.last_ts < cut {
            return (Some(*self), None);
        }
        let mut walk = self.walk(pool);
        let (mut rows, mut number, mut ts) = (0, self.number, self.last_ts);
        // Where the row that is being looked at begins, its escapes included.
        let (mut start, mut before, mut gap) = (walk.at, walk.state, 0);
        while let Some(step) = walk.next() {
            match step {
                Step::Escape(kind, bytes) => gap += gap_of(kind, bytes),
                Step::Row(row, _) if row.timestamp >= cut => break,
                Step::Row(row, _) => {
                    (rows, number, ts) = (rows + 1, number + gap + 1, row.timestamp);
                    (start, before, gap) = (walk.at, walk.state, 0);
                }
            }
        }
        if rows == 0 {
            return (None, Some(*self));
        }
        let first =
            Self { end: start, rows, last_ts: ts, end_number: number - 1, is_last: false, ..*self };
        let second = Self { start, before, number, rows: self.rows - rows, ..*self };
        (Some(first), Some(second))
    }
}

/// How many numbers an escape says are missing.
pub(super) fn gap_of(kind: Escape, bytes: &[u8]) -> u64 {
    match (kind, bytes.first_chunk()) {
        (Escape::Gap, Some(count)) => u64::from_le_bytes(*count),
        _ => 0,
    }
}

/// Walks the rows and escapes of a segment.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    state: RowState,
}

impl<'a> Walk<'a> {
    /// The next step; `None` at the end. What a producer wrote always reads back; should it not, the walk ends and the count of
    /// rows shows it.
    pub(super) fn next(&mut self) -> Option<Step<'a>> {
        let rest = &self.bytes[self.at..];
        match rest {
            [] => None,
            [ESCAPE, kind, l0, l1, l2, l3, ..] => {
                let len = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
                let data = rest.get(6..6 + len)?;
                self.at += 6 + len;
                Some(Step::Escape(Escape::from_byte(*kind)?, data))
            }
            _ => {
                let (row, header) = decode_row(&mut self.state, rest)?;
                let end = header + row.payload_len as usize;
                let payload = rest.get(header..end)?;
                self.at += end;
                Some(Step::Row(row, payload))
            }
        }
    }
}
