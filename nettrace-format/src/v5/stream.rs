//! The stream: what begins it, its objects, and where in it they stand.

use alloc::vec::Vec;
use core::ops::Range;

use trace_event::EventSchema;

use crate::{
    content::TraceInfo,
    error::FormatError,
    v5::metadata,
    v6::{
        BlockKind, MAX_BLOCK_SIZE,
        block::runs,
        stack::{check_ids, id_prefix, stack_rows},
    },
};

/// Which of the two older versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 4: .NET Core 3.0. No arrays, no opcodes.
    V4,
    /// Version 5: .NET 5 and later. Arrays and opcodes, in tags behind the description of a type
    /// that readers of version 4 do not look at. The stream itself says 4, too.
    V5,
}

/// Bytes of the header of event and metadata blocks: its own size (2 bytes), flags, and the first
/// and last timestamp.
pub const BLOCK_HEADER: usize = 20;

/// Writes the objects of one stream, each whole, and knows how far the stream has come: the content
/// of a block begins at a multiple of 4 bytes from the stream's start.
///
/// All that is appended must go into the stream, in the order of the calls. What fails leaves
/// output and position as they were.
#[derive(Clone, Debug)]
pub struct Stream {
    version: Version,
    position: u64,
}

impl Stream {
    /// What a complete stream ends with: a reference to no object. Readers refuse a stream without
    /// it and ignore what stands behind it. It is not counted in [`position`](Self::position),
    /// since the next object takes its place.
    pub const END_OF_STREAM: [u8; 1] = [tag::NULL_REFERENCE];

    /// What stands behind the rows of an event block.
    pub const END_OF_BLOCK: [u8; 1] = [tag::END_OBJECT];

    /// A stream that has not begun.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self { version, position: 0 }
    }

    /// The stream's version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Bytes of the stream so far, the end of stream not counted.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Begins a new stream: `Nettrace`, the name of the serialization, and the Trace object.
    ///
    /// Of the key-values only `ExpectedCPUSamplingRate` has a place, if it is a number; the others
    /// are left out. `process_id` and `processors` are taken as given, not from there.
    ///
    /// # Errors
    /// [`FormatError::PointerSize`] other than 4 or 8, [`FormatError::ClockRate`].
    pub fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        process_id: u32,
        processors: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        const SERIALIZATION: &str = "!FastSerialization.1";
        info.check()?;
        let start = out.len();
        out.extend_from_slice(b"Nettrace");
        text(SERIALIZATION, out);
        object("Trace", 4, out);
        info.put_clock(out);
        out.extend_from_slice(&info.pointer_size.to_le_bytes());
        out.extend_from_slice(&process_id.to_le_bytes());
        out.extend_from_slice(&processors.to_le_bytes());
        let rate = info.key_values.iter().find(|(key, _)| *key == "ExpectedCPUSamplingRate");
        let rate: i32 = rate.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        out.extend_from_slice(&rate.to_le_bytes());
        out.push(tag::END_OBJECT);
        self.position = (out.len() - start) as u64;
        Ok(())
    }

    /// Appends metadata for event types, each under the id that rows refer to it by: one block, or
    /// several where one does not suffice, or none where there are no types.
    ///
    /// # Errors
    /// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`] beyond 2^31 - 1, and what
    /// [`check`](super::check) says of a type.
    pub fn metadata(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut rows = Vec::new();
        let mut ends = Vec::with_capacity(types.len());
        for (id, schema) in types {
            metadata::row(self.version, *id, schema, &mut rows)?;
            ends.push(rows.len());
        }
        self.split(BlockKind::Metadata, &rows, &ends, |_| block_header(0, 0), out)
    }

    /// Appends stacks with the ids `first_id`, `first_id + 1` and so on, up to the next sequence
    /// point: one block, or several, or none where there are no stacks.
    ///
    /// Frames are addresses, leaf first, `pointer_size` bytes each, as the Trace object has it.
    ///
    /// # Errors
    /// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::PointerSize`],
    /// [`FormatError::AddressTooLarge`], [`FormatError::StackTooDeep`].
    pub fn stack_block(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        check_ids(BlockKind::Stack, first_id, stacks.len())?;
        let (rows, ends) = stack_rows(first_id, stacks, pointer_size)?;
        self.split(BlockKind::Stack, &rows, &ends, |range| id_prefix(first_id, range), out)
    }

    /// Appends everything of an event block that stands before its rows, and returns what stands
    /// behind them. The caller puts `rows_len` bytes of rows, and that, behind `out`; all of it is
    /// counted in the position now.
    ///
    /// `first_ts` and `last_ts` are the timestamps of the oldest and the youngest row, in ticks.
    ///
    /// # Errors
    /// [`FormatError::EmptyEventBlock`] where there are no rows, [`FormatError::BlockTooLarge`]
    /// where they exceed [`MAX_BLOCK_SIZE`] - [`BLOCK_HEADER`].
    pub fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<[u8; 1], FormatError> {
        if rows_len == 0 {
            return Err(FormatError::EmptyEventBlock);
        }
        let start = out.len();
        let size = rows_len.saturating_add(BLOCK_HEADER);
        open(BlockKind::Event, size, self.position, out)?;
        out.extend_from_slice(&block_header(first_ts, last_ts));
        let tail = Self::END_OF_BLOCK;
        self.position += (out.len() - start + rows_len + tail.len()) as u64;
        Ok(tail)
    }

    /// Appends a sequence point at `timestamp` (ticks): for each thread named, its id in the
    /// operating system and the last number that it gave.
    ///
    /// Stack ids are free again behind it. The timestamps of successive sequence points must
    /// increase. A thread that is left out is not checked for losses here.
    ///
    /// # Errors
    /// [`FormatError::BlockTooLarge`] with more than 1,398,100 threads, which cannot be split: name
    /// the rest in a later one.
    pub fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[(u64, u32)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        const ENTRY: usize = 12;
        let start = out.len();
        let size = threads.len().saturating_mul(ENTRY).saturating_add(12);
        open(BlockKind::SequencePoint, size, self.position, out)?;
        out.extend_from_slice(&timestamp.to_le_bytes());
        // The block's size bounds the count long before 32 bits do.
        out.extend_from_slice(&(threads.len() as u32).to_le_bytes());
        for (thread, sequence) in threads {
            out.extend_from_slice(&thread.to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        out.push(tag::END_OBJECT);
        self.position += (out.len() - start) as u64;
        Ok(())
    }

    /// Appends rows as one block or, where they do not fit in one, as several.
    ///
    /// `ends` gives the position in `rows` behind each row; `prefix` is what each block starts
    /// with, made from the range of the numbers of the rows in it.
    fn split<const PREFIX: usize>(
        &mut self,
        kind: BlockKind,
        rows: &[u8],
        ends: &[usize],
        prefix: impl Fn(Range<usize>) -> [u8; PREFIX],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let start = out.len();
        for (numbers, bytes) in runs(ends, PREFIX) {
            let position = self.position + (out.len() - start) as u64;
            if let Err(error) = open(kind, bytes.len() + PREFIX, position, out) {
                out.truncate(start);
                return Err(error);
            }
            out.extend_from_slice(&prefix(numbers));
            out.extend_from_slice(&rows[bytes]);
            out.push(tag::END_OBJECT);
        }
        self.position += (out.len() - start) as u64;
        Ok(())
    }
}

/// The bytes that set objects apart.
mod tag {
    pub(super) const NULL_REFERENCE: u8 = 1;
    pub(super) const BEGIN_PRIVATE_OBJECT: u8 = 5;
    pub(super) const END_OBJECT: u8 = 6;
}

/// The start of a block at `position` of the stream, up to where its content begins: at a multiple
/// of 4, which padding sees to that the size does not count.
fn open(kind: BlockKind, size: usize, position: u64, out: &mut Vec<u8>) -> Result<(), FormatError> {
    if size > MAX_BLOCK_SIZE {
        return Err(FormatError::BlockTooLarge { kind, size });
    }
    let name = match kind {
        BlockKind::Metadata => "MetadataBlock",
        BlockKind::Stack => "StackBlock",
        BlockKind::SequencePoint => "SPBlock",
        _ => "EventBlock",
    };
    let start = out.len();
    object(name, 2, out);
    out.extend_from_slice(&(size as u32).to_le_bytes());
    let position = position + (out.len() - start) as u64;
    let padding = position.next_multiple_of(4) - position;
    out.resize(out.len() + padding as usize, 0);
    Ok(())
}

/// The header of event and metadata blocks whose rows are compressed.
fn block_header(first_ts: u64, last_ts: u64) -> [u8; BLOCK_HEADER] {
    const COMPRESSED: u16 = 1;
    let mut bytes = [0; BLOCK_HEADER];
    bytes[..2].copy_from_slice(&(BLOCK_HEADER as u16).to_le_bytes());
    bytes[2..4].copy_from_slice(&COMPRESSED.to_le_bytes());
    bytes[4..12].copy_from_slice(&first_ts.to_le_bytes());
    bytes[12..].copy_from_slice(&last_ts.to_le_bytes());
    bytes
}

/// The start of an object: the tag, and its type, which is an object of no type.
fn object(type_name: &str, version: u32, out: &mut Vec<u8>) {
    let begin = tag::BEGIN_PRIVATE_OBJECT;
    out.extend_from_slice(&[begin, begin, tag::NULL_REFERENCE]);
    // Its version, and that of the oldest reader that can read it.
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    text(type_name, out);
    out.push(tag::END_OBJECT);
}

/// Text as the serialization has it: a count of bytes in 4 bytes, UTF-8.
fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
