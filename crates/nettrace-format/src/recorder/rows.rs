//! The rows of a chunk, as a thread wrote them.
//!
//! Between rows stand *escapes*, which say what is special about the next row. See the module
//! `protocol::row` of `nettrace-writer`, which writes them.

use crate::v6::{RowHeader, RowState, decode_row};

/// The first byte of an escape. No row begins with it.
const ESCAPE: u8 = 32;
/// Bytes of an escape before its content.
const ESCAPE_HEAD: usize = 10;

/// A step on the way through a chunk.
pub(super) enum Step<'a> {
    /// So many numbers have no row.
    Gap(u64),
    /// The thread has these labels from now on: a list of version 6.
    Labels(&'a [u8]),
    /// The thread is in this span from now on, and has other labels, if any: a list of version 6.
    Span(&'a [u8], &'a [u8; 32]),
    /// The next row has this stack.
    Stack(&'a [u8]),
    /// The next row is about another thread: number, id in the system, name.
    Thread(u64, u64, &'a [u8]),
    Row(RowHeader, &'a [u8]),
}

/// A way through the rows of a chunk.
pub(super) struct Steps<'a> {
    rest: &'a [u8],
    state: RowState,
}

impl<'a> Steps<'a> {
    pub(super) fn new(rows: &'a [u8], base_ts: u64) -> Self {
        let base = RowHeader { timestamp: base_ts, ..RowHeader::default() };
        Self { rest: rows, state: RowState::after(base) }
    }

    /// Whether there is more, which [`next`](Self::next) cannot read.
    pub(super) fn is_stuck(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        let rest = self.rest;
        let [first, after @ ..] = rest else { return None };
        if *first == ESCAPE {
            let [kind, l0, l1, l2, l3, ..] = after else { return None };
            let len = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
            let end = ESCAPE_HEAD.checked_add(len)?;
            let data = rest.get(ESCAPE_HEAD..end)?;
            let word = |at: usize| {
                data.get(at..).and_then(|data| data.first_chunk()).copied().map(u64::from_le_bytes)
            };
            let step = match kind {
                1 => Step::Gap(word(0)?),
                2 => Step::Labels(data),
                3 => Step::Stack(data),
                4 => Step::Thread(word(0)?, word(8)?, &data[16..]),
                5 => data.split_last_chunk().map(|(labels, ids)| Step::Span(labels, ids))?,
                _ => return None,
            };
            self.rest = &rest[end..];
            return Some(step);
        }
        let mut state = self.state;
        let (row, len) = decode_row(&mut state, rest)?;
        let end = len.checked_add(row.payload_len as usize)?;
        let payload = rest.get(len..end)?;
        (self.state, self.rest) = (state, &rest[end..]);
        Some(Step::Row(row, payload))
    }
}
