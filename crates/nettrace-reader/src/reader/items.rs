//! [`Item`]: everything in a stream, in its order, for programs that write the stream again.

use nettrace_format::{Cursor, Damage, Metadata, Stack, Thread, v6};

use crate::{
    block,
    block_kind::BlockKind,
    error::{Error, Result},
    event::Event,
    input::Source,
    labels::LabelLists,
    metadata,
    reader::{Reader, State, Step},
    runtime,
};

/// One item of a stream. The reader has already noted its definitions, so later events refer to
/// them.
///
/// ```
/// # fn main() -> Result<(), nettrace_reader::Error> {
/// # let file = nettrace_reader::example();
/// use nettrace_reader::{Item, Reader};
///
/// let mut reader = Reader::new(&file[..])?;
/// while let Some(item) = reader.next_item()? {
///     match item {
///         Item::Metadata(types) => println!("{} event types", types.len()),
///         Item::Event(event) => println!("  event {}", event.metadata().name),
///         Item::SequencePoint(point) => println!("sequence point at {}", point.timestamp),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The start of an event block. Its rows are the events up to the next item of another kind.
    EventBlock,
    /// An event.
    Event(Event<'a>),
    /// The event types of one block.
    Metadata(Vec<Metadata>),
    /// The threads of one block. Versions 4 and 5 do not define threads.
    Threads(Vec<Thread>),
    /// The threads that one block removes: the index of each, and its last sequence number.
    RemovedThreads(Vec<(u64, u32)>),
    /// The stacks of one block: the id and the frames of each.
    Stacks(Vec<(u32, Stack<'a>)>),
    /// The label lists of one block: the index and the labels of each.
    LabelLists(LabelLists<'a>),
    /// A sequence point. The reader has already dropped the definitions that it makes invalid.
    SequencePoint(SequencePoint),
}

/// A point in time that separates the events before it in the stream from those after it.
///
/// ```
/// use nettrace_reader::{Item, Reader};
///
/// # let file = nettrace_reader::example();
/// let mut reader = Reader::new(&file[..])?;
/// let mut points = Vec::new();
/// while let Some(item) = reader.next_item()? {
///     if let Item::SequencePoint(point) = item {
///         points.push(point);
///     }
/// }
/// // At tick 3,000 the thread with the index 5 had recorded two events.
/// assert_eq!((points[0].timestamp, &points[0].threads[..]), (3_000, &[(5, 2)][..]));
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequencePoint {
    /// Its time, in ticks.
    pub timestamp: u64,
    /// Whether all threads must be defined again after it.
    pub flush_threads: bool,
    /// Whether all event types must be described again after it.
    pub flush_metadata: bool,
    /// The index and the last sequence number of each thread.
    pub threads: Vec<(u64, u32)>,
}

impl<R: Source> Reader<R> {
    /// The next item. Returns `None` at the end of the stream, and after an error. Blocks of
    /// unknown kinds are skipped. Use either this or [`next_event`](Self::next_event), not both by
    /// turns.
    ///
    /// # Errors
    /// Those of [`next_event`](Self::next_event).
    ///
    /// ```
    /// use nettrace_reader::{Item, Reader};
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Reader::new(&file[..])?;
    /// let Some(Item::Threads(threads)) = reader.next_item()? else { panic!("no threads") };
    /// assert_eq!(threads[0].process_id, Some(17));
    /// let Some(Item::Metadata(types)) = reader.next_item()? else { panic!("no event types") };
    /// assert_eq!(types[0].provider, "Shop");
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        loop {
            match self.step()? {
                Step::Row => return Ok(Some(Item::Event(self.current_event()))),
                Step::SequencePoint { flush_threads, flush_metadata } => {
                    self.pass_sequence_point(flush_threads, flush_metadata);
                }
                Step::End => return Ok(None),
                Step::BlockEnd => self.tables.forget_removed(),
                Step::LeftOut => continue,
            }
            if self.is_at_item() {
                return self.item().map(Some);
            }
        }
    }

    /// Whether the caller must still get the block that was read last.
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

    /// Parses the block that was read last once more, and keeps its content.
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
                metadata::parse_metadata(format, body, base, |row| {
                    types.extend(row.metadata);
                    if let Some(last) = types.last_mut() {
                        runtime::correct(last);
                    }
                    Ok::<_, Damage>(())
                })?;
                Item::Metadata(types)
            }
            BlockKind::Thread => {
                let mut threads = Vec::new();
                v6::read_thread_rows(cursor, |_, thread| {
                    threads.push(thread);
                    Ok::<_, Damage>(())
                })?;
                Item::Threads(threads)
            }
            BlockKind::RemoveThread => {
                let mut threads = Vec::new();
                v6::read_removed_threads(cursor, |_, last| {
                    threads.push((last.thread, last.sequence));
                    Ok::<_, Damage>(())
                })?;
                Item::RemovedThreads(threads)
            }
            BlockKind::Stack => Item::Stacks(self.stacks(cursor)?),
            BlockKind::LabelList => Item::LabelLists(LabelLists::of(cursor)?),
            BlockKind::SequencePoint => {
                let mut threads = Vec::new();
                let (timestamp, flags) =
                    block::parse_sequence_point(format, &mut cursor, |_, last| {
                        threads.push((last.thread, last.sequence));
                        Ok::<_, Damage>(())
                    })?;
                Item::SequencePoint(SequencePoint {
                    timestamp,
                    flush_threads: flags.flush_threads,
                    flush_metadata: flags.flush_metadata,
                    threads,
                })
            }
            _ => Item::EventBlock,
        })
    }

    /// The stacks of a block. The tables already have them.
    fn stacks(&self, mut cursor: Cursor<'_>) -> std::result::Result<Vec<(u32, Stack<'_>)>, Damage> {
        let mut ids = Vec::new();
        v6::read_stacks(&mut cursor, |_, id, _| {
            ids.push(id);
            Ok::<_, Damage>(())
        })?;
        Ok(ids
            .into_iter()
            .filter_map(|id| Some((id, self.tables.stack(self.tables.definitions(), id)?)))
            .collect())
    }
}
