//! Streams of version 6, composed of events that come one by one.
//!
//! A [`Composer`] takes definitions and rows in the order of the stream. It decides which blocks
//! there are: it groups definitions, and writes them before the rows that need them. Stacks and
//! label lists get their ids by content. After a sequence point the ids begin again, so what later
//! rows need is then defined again.
//!
//! Sequence numbers and the indices of threads are the caller's, because they mean something else
//! in each stream: those of a copy are those of its source, and a gap can be a loss that is yet to
//! be told.
//!
//! # Memory
//!
//! Apart from one row, a composer holds at most [`MOST_DEFINITIONS`] bytes of each kind of
//! definition, as many bytes of rows as its [block size](Composer::with_block_size) for each open
//! block and for [`MOST_SPARE`] that were, and contents up to a [bound](definitions).

mod definitions;

use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;

use self::definitions::Definitions;
use crate::{
    blocks::BlockKind,
    content::{RowHeader, ThreadInfo, ThreadSequence, TraceInfo},
    error::FormatError,
    v6::{
        self, BLOCK_HEADER, EVENT_BLOCK_HEADER, RowEncoder, SequencePointFlags, stack::stack_row,
    },
};

/// Definitions of one kind are written when they take this many bytes.
const MOST_DEFINITIONS: usize = 4 << 20;

/// The default of [`Composer::with_block_size`].
const BLOCK_SIZE: usize = 4 << 20;

/// The largest block size. A row more still has room in a block.
const MOST_BLOCK_SIZE: usize = 15 << 20;

/// The most buffers that are kept for later blocks.
const MOST_SPARE: usize = 16;

/// Composes the blocks of a stream of version 6.
///
/// Blocks go to the end of a `Vec<u8>` of the caller. What is not written yet waits in the
/// composer, at most until [`end_blocks`](Self::end_blocks) or a sequence point.
///
/// ```
/// use nettrace_format::{
///     Composer,
///     v6::{self, RowHeader, SequencePointFlags, ThreadInfo, ThreadSequence},
/// };
/// # use nettrace_format::example::{INFO, SALE};
///
/// // `INFO` is a `TraceInfo`, `SALE` an event type.
/// let (mut composer, mut trace) = (Composer::new(), Vec::new());
/// composer.begin(&INFO, &mut trace)?;
/// let (sale, mut row) = (composer.new_metadata_id(), Vec::new());
/// v6::metadata_row(sale, &SALE, &mut row)?;
/// composer.metadata(&row, &mut trace)?;
/// composer.thread(&ThreadInfo { index: 1, ..ThreadInfo::default() }, &mut trace)?;
/// for sequence in 1..=2 {
///     // The stack is defined once.
///     let stack = composer.stack(&[0x2000, 0x1000], &mut trace)?;
///     let header = RowHeader {
///         metadata_id: sale,
///         sequence,
///         capture_thread: 1,
///         thread: 1,
///         stack,
///         timestamp: 6_000,
///         ..RowHeader::default()
///     };
///     composer.row(&header, &1_250_u32.to_le_bytes(), &mut trace)?;
/// }
/// let threads = [ThreadSequence { thread: 1, sequence: 2 }];
/// composer.sequence_point(7_000, SequencePointFlags::default(), &threads, &mut trace)?;
/// composer.finish(&mut trace)?;
///
/// let mut reader = nettrace_reader::Reader::new(&trace[..])?;
/// reader.read_to_end()?;
/// assert_eq!(reader.totals().events, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Composer {
    pointer_size: u32,
    block_size: usize,
    has_block_per_thread: bool,
    has_shared_blocks: bool,
    last_metadata_id: u32,
    /// Rows of blocks that are not written yet.
    metadata: Vec<u8>,
    threads: Vec<u8>,
    stacks: Definitions,
    label_lists: Definitions,
    /// In the order of their first rows.
    open: Vec<EventBlock>,
    /// The place in `open` of each thread's block, if each has its own.
    places: BTreeMap<u64, usize>,
    /// The place of the last row.
    last_place: usize,
    /// Memory for rows. Pages that are new cost more than to fill them.
    spare: Vec<Vec<u8>>,
    stack_row: Vec<u8>,
}

impl Default for Composer {
    fn default() -> Self {
        Self::new()
    }
}

impl Composer {
    /// The most bytes of a block besides its rows.
    pub const BLOCK_OVERHEAD: usize = BLOCK_HEADER + EVENT_BLOCK_HEADER;

    /// Composes a stream that has not begun. A block of rows ends where the capture thread changes.
    #[must_use]
    pub fn new() -> Self {
        Self::resume(8, 0, 0)
    }

    /// Composes the rest of a stream that others have begun. Its pointers have `pointer_size`
    /// bytes, and `last_stack` and `last_label_list` are its last ids.
    #[must_use]
    pub fn resume(pointer_size: u32, last_stack: u32, last_label_list: u32) -> Self {
        Self {
            pointer_size,
            block_size: BLOCK_SIZE,
            has_block_per_thread: false,
            has_shared_blocks: false,
            last_metadata_id: 0,
            metadata: Vec::new(),
            threads: Vec::new(),
            stacks: Definitions::after(last_stack, BlockKind::Stack),
            label_lists: Definitions::after(last_label_list, BlockKind::LabelList),
            open: Vec::new(),
            places: BTreeMap::new(),
            last_place: 0,
            spare: Vec::new(),
            stack_row: Vec::new(),
        }
    }

    /// Ends a block of rows when it has this many bytes, at most 15 MiB. The default is 4 MiB.
    #[must_use]
    pub fn with_block_size(self, bytes: usize) -> Self {
        Self { block_size: bytes.min(MOST_BLOCK_SIZE), ..self }
    }

    /// Collects the rows of each thread in a block of its own, for streams in which threads take
    /// turns. Blocks are then in the order of their first rows, so only sequence points divide
    /// earlier from later events, and [`end_blocks`](Self::end_blocks) bounds the memory.
    #[must_use]
    pub fn with_block_per_thread(self) -> Self {
        Self { has_block_per_thread: true, ..self }
    }

    /// Ends a block of rows where the capture thread changes only if the row is not marked as
    /// sorted. So the blocks of a source that has rows of several threads in them stay whole.
    #[must_use]
    pub fn with_shared_blocks(self) -> Self {
        Self { has_shared_blocks: true, ..self }
    }

    /// Begins the stream.
    ///
    /// # Errors
    /// Those of [`v6::trace_block`].
    pub fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.pointer_size = info.pointer_size;
        v6::stream_header(out);
        v6::trace_block(info, out)
    }

    /// An id for an event type, the next after the last one.
    pub fn new_metadata_id(&mut self) -> u32 {
        self.last_metadata_id += 1;
        self.last_metadata_id
    }

    /// Describes event types by whole rows of a Metadata block, which have the types' ids.
    ///
    /// # Errors
    /// Those of [`v6::metadata_block`].
    pub fn metadata(&mut self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.metadata.extend_from_slice(rows);
        if self.metadata.len() >= MOST_DEFINITIONS { self.definitions(out) } else { Ok(()) }
    }

    /// Defines a thread.
    ///
    /// # Errors
    /// [`FormatError::ThreadRowTooLarge`].
    pub fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        v6::thread_row(thread, &mut self.threads)?;
        if self.threads.len() >= MOST_DEFINITIONS { self.definitions(out) } else { Ok(()) }
    }

    /// Defines threads by whole rows of a Thread block.
    ///
    /// # Errors
    /// Those of [`v6::thread_block`].
    pub fn thread_rows(&mut self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.threads.extend_from_slice(rows);
        if self.threads.len() >= MOST_DEFINITIONS { self.definitions(out) } else { Ok(()) }
    }

    /// The id of a stack, which is defined unless it is known; 0 for a stack without addresses.
    ///
    /// # Errors
    /// Those of [`v6::stack_block`].
    pub fn stack(&mut self, addresses: &[u64], out: &mut Vec<u8>) -> Result<u32, FormatError> {
        if addresses.is_empty() {
            return Ok(0);
        }
        self.stack_row.clear();
        let id = self.stacks.next_id()?;
        stack_row(id, addresses.iter().copied(), self.pointer_size, &mut self.stack_row)?;
        self.stacks.id_of(&self.stack_row, out)
    }

    /// Defines a stack by a row of a Stack block, and returns its id: the next one, also if the
    /// same stack has an id already.
    ///
    /// # Errors
    /// Those of [`v6::stack_block`].
    pub fn new_stack(&mut self, row: &[u8], out: &mut Vec<u8>) -> Result<u32, FormatError> {
        self.stacks.define_next(row, out)
    }

    /// Defines a stack under an id of the caller.
    ///
    /// # Errors
    /// Those of [`v6::stack_block`].
    pub fn stack_with_id(
        &mut self,
        id: u32,
        addresses: impl IntoIterator<Item = u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stack_row.clear();
        stack_row(id, addresses, self.pointer_size, &mut self.stack_row)?;
        self.stacks.define(id, &self.stack_row, out)
    }

    /// The id of a label list, which is defined unless it is known; 0 for an empty one. `labels` is
    /// its row, as [`v6::label_list_row`] writes it.
    ///
    /// # Errors
    /// Those of [`v6::label_rows_header`].
    pub fn label_list(&mut self, labels: &[u8], out: &mut Vec<u8>) -> Result<u32, FormatError> {
        if labels.is_empty() { Ok(0) } else { self.label_lists.id_of(labels, out) }
    }

    /// Defines a label list by its row, and returns its id: the next one, also if the same list has
    /// an id already.
    ///
    /// # Errors
    /// [`FormatError::EmptyLabelList`], and those of [`v6::label_rows_header`].
    pub fn new_label_list(&mut self, labels: &[u8], out: &mut Vec<u8>) -> Result<u32, FormatError> {
        let id = self.label_lists.next_id()?;
        self.label_list_with_id(id, labels, out)?;
        Ok(id)
    }

    /// Defines a label list, by its row, under an id of the caller.
    ///
    /// # Errors
    /// [`FormatError::EmptyLabelList`], and those of [`v6::label_rows_header`].
    pub fn label_list_with_id(
        &mut self,
        id: u32,
        labels: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if labels.is_empty() {
            return Err(FormatError::EmptyLabelList { id });
        }
        self.label_lists.define(id, labels, out)
    }

    /// Counts the bytes of stacks and label lists that were defined since the last sequence point,
    /// and between it and the one before, too.
    #[must_use]
    pub fn repeated_bytes(&self) -> usize {
        self.stacks.repeated() + self.label_lists.repeated()
    }

    /// How many sequence points there are. Ids of stacks and label lists apply up to the next.
    #[must_use]
    pub fn sequence_points(&self) -> u64 {
        self.stacks.epoch()
    }

    /// Adds a row, and returns how many bytes it takes. The size in its header is that of
    /// `payload`. What it refers to must be defined.
    ///
    /// # Errors
    /// [`FormatError::PayloadTooLarge`] beyond 65,535 bytes, and [`FormatError::BlockTooLarge`].
    pub fn row(
        &mut self,
        header: &RowHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, FormatError> {
        if payload.len() > u16::MAX.into() {
            return Err(FormatError::PayloadTooLarge { size: payload.len() });
        }
        let place = self.place(header, out)?;
        if self.open[place].rows.len() >= self.block_size {
            self.definitions(out)?;
            self.open[place].write(out)?;
        }
        Ok(self.open[place].add(header, payload))
    }

    /// The most bytes of the blocks that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        let [stacks, label_lists] = [&self.stacks, &self.label_lists].map(Definitions::waiting);
        let definitions = [self.metadata.len(), self.threads.len(), stacks, label_lists];
        let rows = self.open.iter().map(|block| block.rows.len());
        let parts = definitions.into_iter().chain(rows).filter(|len| *len > 0);
        parts.map(|len| len + Self::BLOCK_OVERHEAD).sum()
    }

    /// Gives back the memory that is kept for later blocks.
    pub fn shrink(&mut self) {
        self.spare = Vec::new();
        self.metadata.shrink_to_fit();
        self.threads.shrink_to_fit();
        self.stacks.shrink();
        self.label_lists.shrink();
    }

    /// Writes everything that waits.
    ///
    /// # Errors
    /// [`FormatError::BlockTooLarge`].
    pub fn end_blocks(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.definitions(out)?;
        for mut block in self.open.drain(..) {
            block.write(out)?;
            if self.spare.len() < MOST_SPARE {
                self.spare.push(block.rows);
            }
        }
        self.places.clear();
        self.last_place = 0;
        Ok(())
    }

    /// Removes threads that have ended, each with its last number, after [writing what
    /// waits](Self::end_blocks).
    ///
    /// # Errors
    /// [`FormatError::BlockTooLarge`].
    pub fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.end_blocks(out)?;
        v6::remove_thread_block(threads, out)
    }

    /// Writes what waits, and a sequence point. Stacks and label lists are forgotten.
    ///
    /// # Errors
    /// Those of [`v6::sequence_point`].
    pub fn sequence_point(
        &mut self,
        timestamp: u64,
        flags: SequencePointFlags,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.end_blocks(out)?;
        v6::sequence_point(timestamp, flags, threads, out)?;
        self.stacks.restart();
        self.label_lists.restart();
        Ok(())
    }

    /// Writes what waits, and the end.
    ///
    /// # Errors
    /// [`FormatError::BlockTooLarge`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.end_blocks(out)?;
        out.extend_from_slice(&v6::END_OF_STREAM);
        Ok(())
    }

    /// Writes the definitions that wait.
    fn definitions(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        v6::metadata_block(&self.metadata, out)?;
        self.metadata.clear();
        v6::thread_block(&self.threads, out)?;
        self.threads.clear();
        self.stacks.write(out)?;
        self.label_lists.write(out)
    }

    /// The place of the block for a thread's rows.
    fn place(&mut self, header: &RowHeader, out: &mut Vec<u8>) -> Result<usize, FormatError> {
        let thread = header.capture_thread;
        match self.open.get_mut(self.last_place) {
            Some(block) if block.thread == thread => return Ok(self.last_place),
            Some(block) if self.has_shared_blocks && header.sorted => {
                block.thread = thread;
                return Ok(self.last_place);
            }
            Some(_) if !self.has_block_per_thread => self.end_blocks(out)?,
            _ => {}
        }
        let mut place = self.open.len();
        if self.has_block_per_thread {
            place = *self.places.entry(thread).or_insert(place);
        }
        if place == self.open.len() {
            self.open.push(EventBlock::new(thread, self.spare.pop().unwrap_or_default()));
        }
        self.last_place = place;
        Ok(place)
    }
}

/// An Event block that is being made.
#[derive(Debug)]
struct EventBlock {
    thread: u64,
    rows: Vec<u8>,
    encoder: RowEncoder,
    /// The times of its oldest and of its youngest row.
    first: u64,
    last: u64,
}

impl EventBlock {
    /// A block without rows, in memory that is empty.
    fn new(thread: u64, rows: Vec<u8>) -> Self {
        Self { thread, rows, encoder: RowEncoder::new(), first: 0, last: 0 }
    }

    fn add(&mut self, header: &RowHeader, payload: &[u8]) -> usize {
        let header = &RowHeader { payload_len: payload.len() as u32, ..*header };
        let (at, start) = (header.timestamp, self.rows.len());
        if self.rows.is_empty() {
            (self.first, self.last) = (at, at);
            self.encoder.full_row(header, &mut self.rows);
        } else {
            (self.first, self.last) = (self.first.min(at), self.last.max(at));
            self.encoder.row(header, &mut self.rows);
        }
        self.rows.extend_from_slice(payload);
        self.rows.len() - start
    }

    /// Writes the block, unless it has no rows, and begins the next.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if !self.rows.is_empty() {
            let rows = &self.rows;
            out.extend(v6::event_block_header(self.first, self.last, true, rows.len())?);
            out.extend_from_slice(rows);
            *self = Self::new(self.thread, mem::take(&mut self.rows));
            self.rows.clear();
        }
        Ok(())
    }
}
