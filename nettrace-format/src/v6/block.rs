//! Blocks: four bytes of size and kind, then the content. And the header of the Event block, whose
//! rows callers write themselves.

use alloc::vec::Vec;
use core::{fmt, ops::Range};

use crate::error::FormatError;

/// Size of a block's own header in bytes: 24 bits of size, 8 bits of kind.
pub const BLOCK_HEADER: usize = 4;

/// The most bytes that a block can hold behind its header.
pub const MAX_BLOCK_SIZE: usize = 0xFF_FFFF;

/// Size in bytes of what stands before the rows of an Event block: its HeaderSize field (which
/// counts itself), flags, and the first and last timestamp.
pub const EVENT_BLOCK_HEADER: usize = 20;

/// The block that ends every file: kind 0, no content. Readers ignore what stands behind it, and
/// refuse a file without it.
pub const END_OF_STREAM: [u8; 4] = [0; 4];

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// The end of the file; always empty.
    EndOfStream = 0,
    /// Facts about the whole trace; the first block.
    Trace = 1,
    /// Events.
    Event = 2,
    /// Descriptions of event types.
    Metadata = 3,
    /// A point in time that separates the events before from those after.
    SequencePoint = 4,
    /// Stacks.
    Stack = 5,
    /// Threads.
    Thread = 6,
    /// Threads that are gone.
    RemoveThread = 7,
    /// Label lists.
    LabelList = 8,
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Appends one block whose content `body` appends, and fills in its size.
///
/// # Errors
/// [`FormatError::BlockTooLarge`], or what `body` returns; `out` is then as it was.
pub fn block(
    kind: BlockKind,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let start = out.len();
    out.extend_from_slice(&[0; BLOCK_HEADER]);
    let result = body(out).and_then(|()| header(kind, out.len() - start - BLOCK_HEADER));
    match result {
        Ok(header) => {
            out[start..start + BLOCK_HEADER].copy_from_slice(&header);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The headers of an Event block whose rows, `rows_len` bytes of them, the caller writes behind.
///
/// `first_ts` and `last_ts` are the timestamps of the oldest and the youngest row, in ticks.
/// `compressed` says whether the rows are of [`RowEncoder`](super::RowEncoder) or of
/// [`uncompressed_row`](super::uncompressed_row).
///
/// # Errors
/// [`FormatError::EmptyEventBlock`] where there are no rows, [`FormatError::BlockTooLarge`] where
/// they exceed [`MAX_BLOCK_SIZE`] - [`EVENT_BLOCK_HEADER`].
pub fn event_block_header(
    first_ts: u64,
    last_ts: u64,
    compressed: bool,
    rows_len: usize,
) -> Result<[u8; BLOCK_HEADER + EVENT_BLOCK_HEADER], FormatError> {
    if rows_len == 0 {
        return Err(FormatError::EmptyEventBlock);
    }
    let size = rows_len.saturating_add(EVENT_BLOCK_HEADER);
    let mut bytes = [0; BLOCK_HEADER + EVENT_BLOCK_HEADER];
    bytes[..4].copy_from_slice(&header(BlockKind::Event, size)?);
    bytes[4..6].copy_from_slice(&(EVENT_BLOCK_HEADER as u16).to_le_bytes());
    bytes[6..8].copy_from_slice(&u16::from(compressed).to_le_bytes());
    bytes[8..16].copy_from_slice(&first_ts.to_le_bytes());
    bytes[16..24].copy_from_slice(&last_ts.to_le_bytes());
    Ok(bytes)
}

/// The header of a block with `size` bytes of content.
pub(super) fn header(kind: BlockKind, size: usize) -> Result<[u8; BLOCK_HEADER], FormatError> {
    if size > MAX_BLOCK_SIZE {
        return Err(FormatError::BlockTooLarge { kind, size });
    }
    Ok(((kind as u32) << 24 | size as u32).to_le_bytes())
}

/// Appends rows as one block or, where they do not fit in one, as several.
///
/// `ends` gives the position in `rows` behind each row; `prefix` is what each block starts with,
/// made from the range of the numbers of the rows in it.
pub(super) fn split<const PREFIX: usize>(
    kind: BlockKind,
    rows: &[u8],
    ends: &[usize],
    prefix: impl Fn(Range<usize>) -> [u8; PREFIX],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let start = out.len();
    for (numbers, bytes) in runs(ends, PREFIX) {
        match header(kind, bytes.len() + PREFIX) {
            Ok(header) => out.extend_from_slice(&header),
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
        out.extend_from_slice(&prefix(numbers));
        out.extend_from_slice(&rows[bytes]);
    }
    Ok(())
}

/// Which rows go together into a block that begins with `prefix` bytes: their numbers, and where their
/// bytes are. A row that does not fit alone comes alone, and its block is too large.
pub(crate) fn runs(
    ends: &[usize],
    prefix: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let (mut first, mut first_at) = (0, 0);
    core::iter::from_fn(move || {
        let fitting = ends[first..]
            .iter()
            .take_while(|&&end| end - first_at + prefix <= MAX_BLOCK_SIZE)
            .count();
        let next = first + fitting.max(1);
        let next_at = *ends.get(next - 1)?;
        let run = (first..next, first_at..next_at);
        (first, first_at) = (next, next_at);
        Some(run)
    })
}
