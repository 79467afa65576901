//! The batches on their way to the sink within.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
};

use crate::{
    sink::{Batch, Sink, StreamEnd, WriteError, failure::is_final},
    tail::{
        blocks::{Malformed, Rows, block_ends, blocks},
        counts,
    },
};

/// Something that the sink within has not taken yet.
#[derive(Debug)]
enum Next {
    Stream {
        header: Vec<u8>,
        end: StreamEnd,
    },
    /// Whole blocks, and how many of their bytes the sink has taken.
    Blocks {
        bytes: Vec<u8>,
        taken: usize,
        gaps: Gaps,
    },
}

/// Which blocks show lost rows, by where they end, and how many.
pub(super) type Gaps = Vec<(usize, u64)>;

/// What is decided and on its way, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    next: VecDeque<Next>,
    /// The sink has not taken everything.
    has_failed: bool,
    /// Why, until that is told.
    failure: Option<io::Error>,
    /// The sink is not called again: its failure was final, or a panic.
    is_over: bool,
    /// How much a new stream takes, with its header.
    room_of_new: Option<u64>,
}

impl Queue {
    /// Notes that the sink has begun its first stream.
    pub(super) fn started(&mut self, sink: &impl Sink, header: &[u8]) {
        self.room_of_new = Some(sink.room().saturating_add(header.len() as u64));
    }

    pub(super) fn stream(&mut self, header: Vec<u8>, end: StreamEnd) {
        self.next.push_back(Next::Stream { header, end });
    }

    pub(super) fn blocks(&mut self, bytes: Vec<u8>, gaps: Gaps) {
        if !bytes.is_empty() {
            self.next.push_back(Next::Blocks { bytes, taken: 0, gaps });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// How many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let bytes = self.next.iter().map(|next| match next {
            Next::Stream { header, .. } => header.capacity(),
            Next::Blocks { bytes, .. } => bytes.capacity(),
        });
        self.next.capacity() * size_of::<Next>() + bytes.sum::<usize>()
    }

    /// Whether a stream is yet to begin.
    pub(super) fn begins_stream(&self) -> bool {
        self.next.iter().any(|next| matches!(next, Next::Stream { .. }))
    }

    /// Room for blocks in the last stream of the queue.
    pub(super) fn room(&self, sink: &impl Sink) -> u64 {
        let new = self.next.iter().rposition(|next| matches!(next, Next::Stream { .. }));
        let (mut room, from) = match new {
            None => (sink.room(), 0),
            Some(at) => (self.room_of_new.unwrap_or(u64::MAX), at),
        };
        for next in self.next.iter().skip(from) {
            room = room.saturating_sub(match next {
                Next::Blocks { bytes, taken, .. } => (bytes.len() - taken) as u64,
                Next::Stream { header, .. } => header.len() as u64,
            });
        }
        room
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether the sink is not called again.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Hands over as much as the sink takes, unless it has failed.
    pub(super) fn send(&mut self, sink: &mut impl Sink) {
        if !self.has_failed {
            self.send_again(sink);
        }
    }

    /// As [`send`](Self::send), also after a failure.
    pub(super) fn send_again(&mut self, sink: &mut impl Sink) {
        if self.is_over {
            return;
        }
        (self.has_failed, self.is_over) = (true, true); // if it panics
        let sent = self.send_all(sink);
        self.has_failed = sent.is_err();
        self.is_over = sent.as_ref().is_err_and(is_final);
        self.failure = sent.err();
    }

    /// The failure, if it has not been told.
    pub(super) fn result(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn send_all(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        while let Some(next) = self.next.front_mut() {
            match next {
                Next::Stream { header, end } => {
                    sink.start(header, *end)?;
                    let room = sink.room().saturating_add(header.len() as u64);
                    self.room_of_new = Some(room);
                }
                Next::Blocks { bytes, taken, .. } => {
                    let rest = &bytes[*taken..];
                    let ends = block_ends(rest).map_err(|Malformed| malformed())?;
                    let pieces = [IoSlice::new(rest)];
                    if let Err(WriteError { source, kept, .. }) =
                        sink.write(&Batch::new(&pieces, &ends))
                    {
                        *taken = bytes.len().min(*taken + kept as usize);
                        if *taken == bytes.len() {
                            self.next.pop_front();
                        }
                        return Err(source);
                    }
                }
            }
            self.next.pop_front();
        }
        Ok(())
    }

    /// Whether the sink has all blocks of its stream, and the next stream is yet to begin.
    pub(super) fn is_before_stream(&self) -> bool {
        matches!(self.next.front(), Some(Next::Stream { .. }))
    }

    /// Drops the blocks of the sink's stream. Returns how many events that were, and those of which
    /// these blocks told that they were lost.
    pub(super) fn clear_stream(&mut self) -> u64 {
        let mut lost = 0;
        while !self.is_before_stream() {
            let Some(next) = self.next.pop_front() else { break };
            if let Next::Blocks { bytes, taken, gaps } = next {
                lost += count_rows(&bytes[taken..]);
                let untold = gaps.iter().filter(|(end, _)| *end > taken);
                lost += untold.map(|(_, gap)| gap).sum::<u64>();
            }
        }
        self.has_failed = false;
        lost
    }

    /// As [`clear_stream`](Self::clear_stream), of all streams.
    pub(super) fn clear(&mut self) -> u64 {
        let mut lost = 0;
        while !self.next.is_empty() {
            lost += self.clear_stream();
            self.next.pop_front();
        }
        self.has_failed = false;
        lost
    }
}

/// The session's events in whole blocks.
pub(super) fn count_rows(bytes: &[u8]) -> u64 {
    let mut count = 0;
    for block in blocks(bytes).flatten() {
        if block.is(nettrace_format::v6::BlockKind::Event) {
            let Ok(mut rows) = Rows::new(block.body) else { continue };
            while let Ok(Some((header, _))) = rows.next_row() {
                count += u64::from(header.metadata_id != counts::TYPE);
            }
        }
    }
    count
}

pub(super) fn malformed() -> io::Error {
    let text = "a tail decision needs a session of version 6, and these are not its blocks";
    io::Error::new(io::ErrorKind::InvalidData, text)
}
