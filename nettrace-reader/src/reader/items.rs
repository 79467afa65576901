//! Everything that stands in a stream, in its order: for whoever writes it again.

use crate::{
    block::{self, BlockKind},
    cursor::Cursor,
    error::{Damage, Error, Result},
    event::Event,
    input::Source,
    labels::{self, LabelList},
    metadata,
    reader::{Reader, State, Step},
    schema::Metadata,
    trace::{Stack, Thread},
};

/// One thing that a stream says. What it defines, the reader knows already: events that follow
/// refer to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// An event block begins: the events up to the next item that is none are its rows.
    EventBlock,
    /// A row.
    Event(Event<'a>),
    /// Event types, of one block.
    Metadata(Vec<Metadata>),
    /// Threads, of one block. Versions 4 and 5 do not introduce threads.
    Threads(Vec<Thread>),
    /// Threads that are gone: the index of each, and its last number.
    RemovedThreads(Vec<(u64, u32)>),
    /// Stacks, of one block: the id of each, and its frames.
    Stacks(Vec<(u32, Stack<'a>)>),
    /// Label lists, of one block: the index of each, and its labels.
    LabelLists(Vec<(u32, LabelList)>),
    /// A sequence point. What it makes invalid, the reader has forgotten.
    SequencePoint(SequencePoint),
}

/// A point in time that separates what stands before it from what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequencePoint {
    /// When, in ticks.
    pub timestamp: u64,
    /// From here on threads are introduced again.
    pub flush_threads: bool,
    /// From here on event types are described again.
    pub flush_metadata: bool,
    /// Threads, by index, and the last number that each had given.
    pub threads: Vec<(u64, u32)>,
}

impl<R: Source> Reader<R> {
    /// The next thing that the stream says; `None` at its end and after an error. Blocks of unknown
    /// kinds are passed over. Use this or [`next_event`](Self::next_event), not both by turns.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        loop {
            match self.step()? {
                Step::Row => return Ok(Some(Item::Event(self.current_event()))),
                Step::SequencePoint { flush_threads, flush_metadata } => {
                    self.pass_sequence_point(flush_threads, flush_metadata);
                }
                Step::End => return Ok(None),
                Step::BlockEnd => self.tables.forget_removed_threads(),
            }
            if self.is_at_item() {
                return self.item().map(Some);
            }
        }
    }

    /// Whether the block that was read last is to be shown, and was not.
    fn is_at_item(&self) -> bool {
        match self.blocks.head().map(|head| head.kind) {
            // The other step that ends here is the end of the block.
            Some(BlockKind::Event) => self.state == State::InEventBlock,
            Some(
                BlockKind::EndOfStream
                | BlockKind::Trace
                | BlockKind::Unknown(_)
                | BlockKind::UnknownObject,
            )
            | None => false,
            Some(_) => true,
        }
    }

    /// The block that was read last, parsed once more: this time what is in it is kept.
    fn item(&self) -> Result<Item<'_>> {
        let Some(head) = self.blocks.head() else { return Ok(Item::EventBlock) };
        self.parse_item(head.kind, head.body).map_err(|damage| Error::malformed(head.kind, damage))
    }

    fn parse_item(&self, kind: BlockKind, base: u64) -> std::result::Result<Item<'_>, Damage> {
        let format = self.blocks.format();
        let body = self.blocks.body();
        let mut cursor = Cursor::new(body, base);
        Ok(match kind {
            BlockKind::Metadata => {
                let mut types = Vec::new();
                metadata::parse_metadata(format, body, base, |_, metadata| {
                    types.push(metadata);
                    Ok::<_, Damage>(())
                })?;
                Item::Metadata(types)
            }
            BlockKind::Thread => {
                let mut threads = Vec::new();
                block::parse_threads(cursor, |_, thread| {
                    threads.push(thread);
                    Ok::<_, Damage>(())
                })?;
                Item::Threads(threads)
            }
            BlockKind::RemoveThread => {
                let mut threads = Vec::new();
                block::parse_removals(cursor, |_, index, sequence| {
                    threads.push((index, sequence));
                    Ok::<_, Damage>(())
                })?;
                Item::RemovedThreads(threads)
            }
            BlockKind::Stack => Item::Stacks(self.stacks(cursor)?),
            BlockKind::LabelList => {
                let mut lists = Vec::new();
                labels::parse_label_lists(cursor, |_, index, list| {
                    lists.push((index, list));
                    Ok::<_, Damage>(())
                })?;
                Item::LabelLists(lists)
            }
            BlockKind::SequencePoint => {
                let mut threads = Vec::new();
                let point =
                    block::parse_sequence_point(format, &mut cursor, |_, index, number| {
                        threads.push((index, number));
                        Ok::<_, Damage>(())
                    })?;
                Item::SequencePoint(SequencePoint {
                    timestamp: point.timestamp,
                    flush_threads: point.flush_threads,
                    flush_metadata: point.flush_metadata,
                    threads,
                })
            }
            _ => Item::EventBlock,
        })
    }

    /// The stacks of a block that defines some. They are in the tables already.
    fn stacks(&self, mut cursor: Cursor<'_>) -> std::result::Result<Vec<(u32, Stack<'_>)>, Damage> {
        let mut ids = Vec::new();
        block::parse_stacks(&mut cursor, |_, id, _| {
            ids.push(id);
            Ok::<_, Damage>(())
        })?;
        Ok(ids.into_iter().filter_map(|id| Some((id, self.tables.stack(id)?))).collect())
    }
}
