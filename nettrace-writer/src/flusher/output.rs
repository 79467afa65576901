//! A batch for the sink: bytes of its own and pieces of chunks, in order, with the ends of blocks.

use std::{io::IoSlice, mem, ops::Range};

use crate::{
    flusher::rows::{COPIED, Rows},
    protocol::{memory::Memory, pool::Pool},
    sink::{Batch, Sink, WriteError},
};

/// A batch of whole blocks that is being made.
#[derive(Debug, Default)]
pub(super) struct Output {
    own: Vec<u8>,
    /// What comes before a stage: the block of version 6 that is being made.
    unstaged: Option<Vec<u8>>,
    /// Rows that were copied from chunks, apart from what is around them: a block's header says how
    /// long they are.
    pub(super) rows: Rows,
    /// Label lists, apart for the same reason.
    pub(super) lists: Vec<u8>,
    /// Where the lists begin that no block has yet.
    undefined: usize,
    pieces: Vec<Piece>,
    block_ends: Vec<u64>,
    /// How many rows there are up to each of the ends.
    row_ends: Vec<u64>,
    len: u64,
    total_rows: u64,
    /// Chunks whose last rows are in this batch or in an earlier one.
    finished: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A range of `own`.
    Own(usize, usize),
    /// A range of `rows`.
    Rows(usize, usize),
    /// A range of `lists`.
    Lists(usize, usize),
    /// A range of a chunk.
    Chunk(u32, usize, usize),
}

/// A place between two blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    own: usize,
    rows: usize,
    lists: usize,
    pieces: usize,
    /// The last piece before the mark. It may grow afterwards.
    last_piece: Option<Piece>,
    block_ends: usize,
    len: u64,
    total_rows: u64,
    finished: usize,
}

/// The result of a write.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) lost: u64,
    pub(super) bytes: u64,
    /// How many blocks the sink kept, and how many rows the last of them has.
    pub(super) blocks: usize,
    pub(super) last_rows: u64,
    pub(super) error: Option<std::io::Error>,
}

impl Output {
    /// A batch in front of which there is a stage: what is added waits for
    /// [`stage`](Self::stage).
    pub(super) fn staged() -> Self {
        Self { unstaged: Some(Vec::new()), ..Self::default() }
    }

    /// Calls `convert` with the block of version 6 that waits, and adds the bytes that it appends.
    pub(super) fn stage<R>(&mut self, convert: impl FnOnce(&[u8], &mut Vec<u8>) -> R) -> R {
        let mut block = self.unstaged.take().unwrap_or_default();
        let result = self.own(|out| convert(&block, out));
        block.clear();
        self.unstaged = Some(block);
        result
    }

    /// Adds the bytes that `write` appends.
    pub(super) fn own<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if let Some(block) = &mut self.unstaged {
            return write(block);
        }
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

    /// Adds a part of a chunk, which has these bytes.
    pub(super) fn chunk(
        &mut self,
        (chunk, bytes): (u32, &[u8]),
        Range { start, end }: Range<usize>,
    ) {
        if let Some(block) = &mut self.unstaged {
            block.extend_from_slice(&bytes[start..end]);
        } else if end > start {
            self.pieces.push(Piece::Chunk(chunk, start, end));
            self.len += (end - start) as u64;
        }
    }

    /// Adds a range of the rows.
    pub(super) fn copied(&mut self, range: Range<usize>) {
        if range.len() > COPIED && self.unstaged.is_none() {
            self.len += range.len() as u64;
            self.pieces.push(Piece::Rows(range.start, range.end));
        } else {
            let mut rows = mem::take(&mut self.rows);
            self.own(|out| out.extend_from_slice(rows.bytes(range.clone())));
            if range.end == rows.len() {
                rows.truncate(range.start);
            }
            self.rows = rows;
        }
    }

    /// How many bytes the lists take that no block has yet.
    pub(super) fn undefined_lists(&self) -> usize {
        self.lists.len() - self.undefined
    }

    /// Adds the lists that no block has yet, behind the `header` of their block.
    pub(super) fn define_lists(&mut self, header: &[u8]) {
        let (start, end) = (self.undefined, self.lists.len());
        self.own(|out| out.extend_from_slice(header));
        if end - start > COPIED && self.unstaged.is_none() {
            self.len += (end - start) as u64;
            self.pieces.push(Piece::Lists(start, end));
            self.undefined = end;
        } else {
            let mut lists = mem::take(&mut self.lists);
            self.own(|out| out.extend_from_slice(&lists[start..]));
            lists.truncate(start);
            self.lists = lists;
        }
    }

    /// Ends a block (or several) with this many rows. Returns `false` if there are no bytes since
    /// the last end.
    pub(super) fn end_block(&mut self, rows: u64) -> bool {
        if self.block_ends.last().copied().unwrap_or(0) == self.len {
            return false;
        }
        self.total_rows += rows;
        self.block_ends.push(self.len);
        self.row_ends.push(self.total_rows);
        true
    }

    /// A mark at the present end.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            own: self.own.len(),
            rows: self.rows.len(),
            lists: self.undefined,
            pieces: self.pieces.len(),
            last_piece: self.pieces.last().copied(),
            block_ends: self.block_ends.len(),
            len: self.len,
            total_rows: self.total_rows,
            finished: self.finished.len(),
        }
    }

    /// Takes back what was added since a mark. There must not have been a write since.
    pub(super) fn take_back(&mut self, mark: &Mark) {
        self.own.truncate(mark.own);
        self.rows.truncate(mark.rows);
        self.lists.truncate(mark.lists);
        self.undefined = mark.lists;
        self.pieces.truncate(mark.pieces);
        if let (Some(last), Some(before)) = (self.pieces.last_mut(), mark.last_piece) {
            *last = before;
        }
        self.block_ends.truncate(mark.block_ends);
        self.row_ends.truncate(mark.block_ends);
        (self.len, self.total_rows) = (mark.len, mark.total_rows);
        self.finished.truncate(mark.finished);
    }

    /// Notes that a chunk is free once this batch is written.
    pub(super) fn finish_chunk(&mut self, chunk: u32) {
        self.finished.push(chunk);
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether to hand the batch over now. Large writes are cheap, but chunks should come back
    /// while they are in the caches.
    pub(super) fn is_full(&self) -> bool {
        self.len >= 1 << 20 || self.pieces.len() >= 512
    }

    /// Hands the batch to the sink. Without a sink all rows are lost. Call
    /// [`give_back`](Self::give_back) then.
    pub(super) fn write(&mut self, sink: Option<&mut Box<dyn Sink>>, pool: &Pool) -> Written {
        let mut written = Written { lost: self.total_rows, ..Written::default() };
        if let Some(sink) = sink {
            let pieces: Vec<_> = self
                .pieces
                .iter()
                .map(|piece| match *piece {
                    Piece::Own(start, end) => IoSlice::new(&self.own[start..end]),
                    Piece::Rows(start, end) => IoSlice::new(self.rows.bytes(start..end)),
                    Piece::Lists(start, end) => IoSlice::new(&self.lists[start..end]),
                    Piece::Chunk(chunk, start, end) => {
                        IoSlice::new(&Memory::bytes(pool.place(chunk), end)[start..])
                    }
                })
                .collect();
            let (block_ends, rows) = (&self.block_ends[..], &self.row_ends[..]);
            let batch = Batch { pieces: &pieces, block_ends, rows };
            let kept = match sink.write(&batch) {
                Ok(()) => self.len,
                Err(WriteError { source, kept }) => {
                    written.error = Some(source);
                    // The counts stay right even if a sink says nonsense.
                    kept.min(self.len)
                }
            };
            written.blocks = self.block_ends.partition_point(|&end| end <= kept);
            let rows_of =
                |blocks: usize| blocks.checked_sub(1).map_or(0, |last| self.row_ends[last]);
            written.rows = rows_of(written.blocks);
            written.last_rows = written.rows - rows_of(written.blocks.saturating_sub(1));
            written.lost = self.total_rows - written.rows;
            written.bytes = kept;
        }
        written
    }

    /// Gives the batch's chunks back, and begins another one.
    pub(super) fn give_back(&mut self, pool: &Pool) {
        for chunk in self.finished.drain(..) {
            pool.give(chunk);
        }
        self.own.clear();
        self.rows.truncate(0);
        self.lists.clear();
        self.undefined = 0;
        self.pieces.clear();
        self.block_ends.clear();
        self.row_ends.clear();
        (self.len, self.total_rows) = (0, 0);
    }
}
