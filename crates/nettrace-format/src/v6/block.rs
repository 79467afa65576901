//! Blocks and their headers: four bytes of size and kind before the content. Also the header of
//! Event blocks, whose rows the caller writes.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{blocks::BlockKind, error::FormatError};

/// Size in bytes of a block's header: 24 bits of size, 8 bits of kind.
pub const BLOCK_HEADER: usize = 4;

/// The most bytes that a block can hold after its header.
pub const MAX_BLOCK_SIZE: usize = 0xFF_FFFF;

/// Size in bytes of the part of an Event block before its rows: its HeaderSize field (which counts
/// itself), flags, and the first and last timestamp.
pub const EVENT_BLOCK_HEADER: usize = 20;

/// The block that ends every file: kind 0, no content. Readers ignore what follows it, and refuse a
/// file without it.
pub const END_OF_STREAM: [u8; 4] = [0; 4];

/// Appends one block. `body` appends its content; this function fills in its size.
///
/// ```
/// use nettrace_format::v6::{BlockKind, block};
///
/// let mut out = Vec::new();
/// block(BlockKind::Stack, &mut out, |content| {
///     content.extend_from_slice(&[1, 2, 3]);
///     Ok(())
/// })?;
/// // The size has 24 bits, the kind 8.
/// assert_eq!(out, [3, 0, 0, BlockKind::Stack as u8, 1, 2, 3]);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::BlockTooLarge`], and any error of `body`. An error leaves `out` unchanged.
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

/// Returns the block header and event header of an Event block with `rows_len` bytes of rows, which
/// the caller appends.
///
/// `first_ts` and `last_ts` are the timestamps of the oldest and the youngest row, in ticks.
/// `compressed` states whether the rows come from [`RowEncoder`](super::RowEncoder) or from
/// [`uncompressed_row`](super::uncompressed_row).
///
/// ```
/// use nettrace_format::v6::{RowEncoder, RowHeader, event_block_header};
///
/// let row = RowHeader {
///     metadata_id: 1,
///     sequence: 1,
///     timestamp: 6_000,
///     payload_len: 4,
///     ..RowHeader::default()
/// };
/// let mut rows = Vec::new();
/// RowEncoder::new().full_row(&row, &mut rows);
/// rows.extend(1_250_u32.to_le_bytes());
///
/// let mut block = event_block_header(6_000, 6_000, true, rows.len())?.to_vec();
/// block.extend(rows);
/// // The first three bytes are the size of what follows the first four.
/// assert_eq!(u32::from_le_bytes([block[0], block[1], block[2], 0]) as usize, block.len() - 4);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::EmptyEventBlock`] if there are no rows, and [`FormatError::BlockTooLarge`] if
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

/// Appends rows as one block, or as several if one cannot hold them.
///
/// `ends` holds the end of each row in `rows`. `prefix` returns the first bytes of a block, from
/// the range of its row indices.
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

/// Groups rows into blocks that begin with `prefix` bytes. Returns for each block the range of its
/// row indices and the range of their bytes. A row too large for a block is a group of its own, and
/// that block is then too large.
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
