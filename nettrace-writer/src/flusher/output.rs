//! What one write hands to the sink: own bytes and pieces of chunks, in order, with the ends of blocks.

use std::io::IoSlice;

use crate::{
    memory::Memory,
    pool::Pool,
    sink::{Batch, Sink, WriteError},
};

/// Whole blocks in the making.
#[derive(Debug, Default)]
pub(super) struct Output {
    own: Vec<u8>,
    pieces: Vec<Piece>,
    block_ends: Vec<u64>,
    /// Rows up to each of the ends.
    rows: Vec<u64>,
    len: u64,
    total_rows: u64,
    /// Chunks whose rows are all in here or before.
    finished: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A range of `own`.
    Own(usize, usize),
    /// A range of a chunk.
    Chunk(u32, usize, usize),
}

/// What became of a write.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) lost: u64,
    pub(super) bytes: u64,
    pub(super) error: Option<std::io::Error>,
}

impl Output {
    /// Adds bytes that `write` appends.
    pub(super) fn own<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.own.len();
        let result = write(&mut self.own);
        let end = self.own.len();
        self.len += (end - start) as u64;
        match self.pieces.last_mut() {
            Some(Piece::Own(_, last)) if *last == start => *last = end,
            _ if end > start => self.pieces.push(Piece::Own(start, end)),
            _ => {}
        }
        result
    }

    /// Adds a part of a chunk.
    pub(super) fn chunk(&mut self, chunk: u32, start: usize, end: usize) {
        if end > start {
            self.pieces.push(Piece::Chunk(chunk, start, end));
            self.len += (end - start) as u64;
        }
    }

    /// A block (or several) ends here, with this many rows.
    pub(super) fn end_block(&mut self, rows: u64) {
        if self.block_ends.last().copied().unwrap_or(0) == self.len {
            return;
        }
        self.total_rows += rows;
        self.block_ends.push(self.len);
        self.rows.push(self.total_rows);
    }

    /// The chunk is not needed once this is written.
    pub(super) fn finish_chunk(&mut self, chunk: u32) {
        self.finished.push(chunk);
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is time to hand over: large writes are cheap, but chunks should come back while they are in the caches.
    pub(super) fn is_full(&self) -> bool {
        self.len >= 1 << 20 || self.pieces.len() >= 512
    }

    /// Hands everything to the sink (unless it has failed before) and gives the chunks back.
    pub(super) fn write(&mut self, sink: &mut dyn Sink, failed: bool, pool: &Pool) -> Written {
        let mut written = Written::default();
        if failed {
            written.lost = self.total_rows;
        } else if self.len > 0 {
            let pieces: Vec<_> = self
                .pieces
                .iter()
                .map(|piece| match *piece {
                    Piece::Own(start, end) => IoSlice::new(&self.own[start..end]),
                    Piece::Chunk(chunk, start, end) => {
                        IoSlice::new(&Memory::bytes(pool.place(chunk), end)[start..])
                    }
                })
                .collect();
            let batch = Batch { pieces: &pieces, block_ends: &self.block_ends };
            match sink.write(&batch) {
                Ok(()) => (written.rows, written.bytes) = (self.total_rows, self.len),
                Err(WriteError { source, kept }) => {
                    let kept_blocks = self.block_ends.partition_point(|&end| end <= kept);
                    written.rows = kept_blocks.checked_sub(1).map_or(0, |last| self.rows[last]);
                    written.lost = self.total_rows - written.rows;
                    written.bytes = kept;
                    written.error = Some(source);
                }
            }
        }
        for chunk in self.finished.drain(..) {
            pool.give(chunk);
        }
        self.own.clear();
        self.pieces.clear();
        self.block_ends.clear();
        self.rows.clear();
        (self.len, self.total_rows) = (0, 0);
        written
    }
}
