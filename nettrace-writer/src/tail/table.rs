//! Stacks and label lists, by the ids that they have until the next sequence point.

use crate::tail::blocks::{self, Malformed, SpanOf};

/// Stacks, or label lists.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// In the order of their ids.
    blocks: Vec<Rows>,
    bytes: usize,
}

/// The rows of one block.
#[derive(Debug)]
struct Rows {
    first: u32,
    rows: Box<[Row]>,
    bytes: Box<[u8]>,
}

/// A stack or a label list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Where it ends in the bytes of its block.
    end: u32,
    /// The stream that has it last, and its id there.
    pub(super) given: (u32, u32),
    /// The span of a label list that has a trace.
    pub(super) span: Option<SpanOf>,
}

impl Table {
    /// Adds the rows of a block.
    pub(super) fn add(&mut self, first: u32, rows: &[blocks::Row<'_>]) -> Result<(), Malformed> {
        let is_next = self
            .blocks
            .last()
            .is_none_or(|last| u64::from(first) >= u64::from(last.first) + last.rows.len() as u64);
        if !is_next {
            return Err(Malformed);
        }
        let mut bytes = Vec::with_capacity(rows.iter().map(|row| row.bytes.len()).sum());
        let rows = rows.iter().map(|row| {
            bytes.extend_from_slice(row.bytes);
            Row { end: bytes.len() as u32, given: (0, 0), span: row.span }
        });
        let rows: Box<[Row]> = rows.collect();
        self.bytes += rows.len() * size_of::<Row>() + bytes.len();
        self.blocks.push(Rows { first, rows, bytes: bytes.into() });
        Ok(())
    }

    /// The row with an id, and its bytes.
    pub(super) fn get(&mut self, id: u32) -> Option<(&mut Row, &[u8])> {
        let block = self.blocks.partition_point(|block| block.first <= id).checked_sub(1)?;
        let Rows { first, rows, bytes } = &mut self.blocks[block];
        let at = (id - *first) as usize;
        let start = at.checked_sub(1).map_or(0, |before| rows[before.min(rows.len() - 1)].end);
        let row = rows.get_mut(at)?;
        let bytes = bytes.get(start as usize..row.end as usize)?;
        Some((row, bytes))
    }

    /// How many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.blocks.capacity() * size_of::<Rows>()
    }
}
