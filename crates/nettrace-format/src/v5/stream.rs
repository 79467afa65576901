//! Writes the objects of a stream and tracks their positions.

use alloc::vec::Vec;
use core::ops::Range;

use nettrace_event::EventSchema;

use crate::{
    content::TraceInfo,
    described::EventType,
    error::FormatError,
    types,
    v5::metadata,
    v6::{
        BlockKind, MAX_BLOCK_SIZE,
        block::runs,
        stack::{check_ids, id_prefix, stack_rows},
    },
};

/// One of the two older versions.
///
/// [`Stream`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 4: .NET Core 3.0. It has no arrays and no opcodes.
    V4,
    /// Version 5: .NET 5 and later. It has arrays and opcodes, in tags after the description of a
    /// type that readers of version 4 skip. The stream itself states version 4, too.
    V5,
}

/// Size in bytes of the header of event and metadata blocks: its own size (2 bytes), flags, and the
/// first and last timestamp.
pub const BLOCK_HEADER: usize = 20;

/// Writes the objects of one stream and tracks its length, because the content of a block must
/// begin at a multiple of 4 bytes from the stream's start.
///
/// The caller must write everything that a call appends to the stream, in the order of the calls. A
/// call that fails leaves output and position unchanged.
///
/// ```
/// use nettrace_format::{
///     content::{SystemTimeParts, TraceInfo},
///     v5::{Row, RowEncoder, Stream, Version},
/// };
/// # use nettrace_format::example::SALE;
///
/// let (mut stream, mut trace) = (Stream::new(Version::V5), Vec::new());
/// let info = TraceInfo {
///     sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
///     sync_ticks: 5_000,
///     ticks_per_second: 1_000_000_000,
///     pointer_size: 8,
///     key_values: &[],
/// };
/// stream.begin(&info, 17, 2, &mut trace)?;
/// // `SALE` is an `EventSchema` with one field of 4 bytes.
/// stream.metadata(&[(1, &SALE)], &mut trace)?;
///
/// let row = Row {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: 17,
///     thread: 17,
///     timestamp: 6_000,
///     sorted: true,
///     payload_len: 4,
///     ..Row::default()
/// };
/// let mut rows = Vec::new();
/// RowEncoder::new().full_row(&row, &mut rows);
/// rows.extend(1_250_u32.to_le_bytes());
/// let tail = stream.event_block(6_000, 6_000, rows.len(), &mut trace)?;
/// trace.extend(rows);
/// trace.extend(tail);
///
/// stream.sequence_point(7_000, &[(17, 1)], &mut trace)?;
/// assert_eq!(stream.position(), trace.len() as u64);
/// trace.extend(Stream::END_OF_STREAM);
///
/// assert_eq!(stream.version(), Version::V5);
/// assert!(nettrace_reader::verify(&trace[..])?.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    version: Version,
    position: u64,
}

impl Stream {
    /// Ends a complete stream: a reference to no object. Readers refuse a stream without it and
    /// ignore what follows it. [`position`](Self::position) does not count it, because the next
    /// object replaces it.
    pub const END_OF_STREAM: [u8; 1] = [tag::NULL_REFERENCE];

    /// Follows the rows of an event block.
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

    /// Size of the stream so far in bytes, without the end of stream.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Goes back to an earlier [`position`](Self::position). Call it when the objects after it did
    /// not reach the stream.
    pub(crate) const fn rewind(&mut self, position: u64) {
        self.position = position;
    }

    /// Begins a new stream: appends `Nettrace`, the name of the serialization, and the Trace
    /// object.
    ///
    /// Of the key-values, only a number under `ExpectedCPUSamplingRate` is written; the others are
    /// left out. `process_id` and `processors` are written as given, not from the key-values.
    ///
    /// # Errors
    /// [`FormatError::PointerSize`] unless it is 4 or 8, [`FormatError::ClockRate`].
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
        let rate = info.value("ExpectedCPUSamplingRate");
        let rate: i32 = rate.and_then(|value| value.parse().ok()).unwrap_or(0);
        out.extend_from_slice(&rate.to_le_bytes());
        out.push(tag::END_OBJECT);
        self.position = (out.len() - start) as u64;
        Ok(())
    }

    /// Appends metadata for event types, each under the id of its rows. Writes no block without
    /// types, and several if one block cannot hold them.
    ///
    /// # Errors
    /// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`] beyond 2^31 - 1, and those of
    /// [`check`](super::check).
    pub fn metadata(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let types: Vec<_> = types.iter().map(|(id, of)| (*id, EventType::Own(of))).collect();
        self.types(&types, out)
    }

    /// [`metadata`](Self::metadata) for types of any source.
    pub(super) fn types(
        &mut self,
        types: &[(u32, EventType)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut rows = Vec::new();
        let mut ends = Vec::with_capacity(types.len());
        for (id, ty) in types {
            match ty {
                EventType::Own(of) => {
                    types::field_descriptions(of.fields, &mut Vec::new())?;
                    metadata::row(self.version, *id, *of, &mut rows)?;
                }
                EventType::Read(of) => metadata::row(self.version, *id, &**of, &mut rows)?,
            }
            ends.push(rows.len());
        }
        self.split(BlockKind::Metadata, &rows, &ends, |_| block_header(0, 0), out)
    }

    /// Appends stacks with the ids `first_id`, `first_id + 1` and so on. The ids apply up to the
    /// next sequence point. Writes no block without stacks, and several if one block cannot hold
    /// them.
    ///
    /// Frames are addresses, leaf first, of `pointer_size` bytes each, as in the Trace object.
    ///
    /// ```
    /// use nettrace_format::v5::{Stream, Version};
    ///
    /// // The ids 1 and 2. The second stack has two frames.
    /// let (mut stream, mut out) = (Stream::new(Version::V4), Vec::new());
    /// stream.stack_block(1, &[&[0x1000], &[0x2000, 0x1000]], 8, &mut out)?;
    /// assert_eq!(stream.position(), out.len() as u64);
    /// # Ok::<(), nettrace_format::FormatError>(())
    /// ```
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

    /// Appends the part of an event block before its rows, and returns the part after them. The
    /// caller must append `rows_len` bytes of rows and then the returned bytes. The position counts
    /// all of it now.
    ///
    /// `first_ts` and `last_ts` are the timestamps of the oldest and the youngest row, in ticks.
    ///
    /// # Errors
    /// [`FormatError::EmptyEventBlock`] if there are no rows, and [`FormatError::BlockTooLarge`] if
    /// they exceed [`MAX_BLOCK_SIZE`] - [`BLOCK_HEADER`].
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

    /// Appends a sequence point at `timestamp` (ticks), with the OS id and the last sequence number
    /// of each thread named.
    ///
    /// Stack ids can be used again after it. The timestamps of successive sequence points must
    /// increase. Readers do not check a thread that is left out for losses here.
    ///
    /// # Errors
    /// [`FormatError::BlockTooLarge`] with more than 1,398,100 threads, because a sequence point
    /// cannot be split. Name the other threads in a later one.
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
        // The block's size limits the count to far less than 32 bits.
        out.extend_from_slice(&(threads.len() as u32).to_le_bytes());
        for (thread, sequence) in threads {
            out.extend_from_slice(&thread.to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        out.push(tag::END_OBJECT);
        self.position += (out.len() - start) as u64;
        Ok(())
    }

    /// Appends rows as one block, or as several if one cannot hold them.
    ///
    /// `ends` holds the end of each row in `rows`. `prefix` returns the first bytes of a block,
    /// from the range of its row indices.
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

/// The tags that delimit objects.
mod tag {
    pub(super) const NULL_REFERENCE: u8 = 1;
    pub(super) const BEGIN_PRIVATE_OBJECT: u8 = 5;
    pub(super) const END_OBJECT: u8 = 6;
}

/// Appends the start of a block at `position` of the stream, up to its content. Padding moves the
/// content to a multiple of 4; the block's size does not count it.
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

/// The header of event and metadata blocks with compressed rows.
fn block_header(first_ts: u64, last_ts: u64) -> [u8; BLOCK_HEADER] {
    const COMPRESSED: u16 = 1;
    let mut bytes = [0; BLOCK_HEADER];
    bytes[..2].copy_from_slice(&(BLOCK_HEADER as u16).to_le_bytes());
    bytes[2..4].copy_from_slice(&COMPRESSED.to_le_bytes());
    bytes[4..12].copy_from_slice(&first_ts.to_le_bytes());
    bytes[12..].copy_from_slice(&last_ts.to_le_bytes());
    bytes
}

/// Appends the start of an object: the tag, then its type, which is an object without a type.
fn object(type_name: &str, version: u32, out: &mut Vec<u8>) {
    let begin = tag::BEGIN_PRIVATE_OBJECT;
    out.extend_from_slice(&[begin, begin, tag::NULL_REFERENCE]);
    // The object's version, and the version of the oldest reader that can read it.
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    text(type_name, out);
    out.push(tag::END_OBJECT);
}

/// Appends text as the serialization stores it: a byte count of 4 bytes, then UTF-8.
fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
