//! The header of a row as a producer writes it: the compressed form of the format, with liberties.
//!
//! What costs time is not the number of instructions but a position that depends on the clock: if the length of the
//! timestamp's delta decides where the next byte goes, each event waits for the clock of the one before (17 ns an event instead of 9.5
//! measured). So the delta is padded, which readers accept: two bytes below 2^14 ticks, then three, four; the
//! choice is a branch, which is predicted, and the position does not wait. The metadata id and the payload size are written
//! when they differ from the row before, without a branch: event types may alternate at random.
//!
//! A producer writes no sequence number, thread, stack or label list. They are the flusher's to insert: at the first row of a
//! block, and behind an *escape*, which stands before a row and says what is special about it. An escape begins with a byte that
//! no row begins with (bit 32 of the flags is unused in version 6).

use nettrace_format::v6::RowFlags;

/// Bytes that must be free before a row of fixed size, besides its payload.
pub(crate) const HEAD_ROOM: usize = 16;
/// Payloads of variable size that are longer take the slow path: their size takes more than two bytes.
pub(crate) const MAX_SHORT_PAYLOAD: usize = (1 << 14) - 1;
/// Deltas from here take the slow path.
pub(crate) const MAX_DELTA: u64 = 1 << 28;

/// First byte of an escape.
pub(crate) const ESCAPE: u8 = 32;

/// What an escape says. Its number stands behind [`ESCAPE`], then a u32 of little-endian length, then that many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Escape {
    /// So many numbers before the next row have none: u64.
    Gap = 1,
    /// From the next row on the thread has these labels: see `labels`.
    Labels = 2,
    /// The next row has this stack: u64 addresses, leaf first.
    Stack = 3,
    /// The next row is about another thread: its u64 process-wide number.
    Thread = 4,
}

impl Escape {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Gap, Self::Labels, Self::Stack, Self::Thread].into_iter().find(|e| *e as u8 == byte)
    }
}

/// Metadata id and payload size: what rows of a kind have in common.
#[inline(always)]
pub(crate) fn shape(metadata_id: u32, payload_len: usize) -> u64 {
    u64::from(metadata_id) | (payload_len as u64) << 32
}

/// Flags, metadata id if it changed, and delta: as a word to be stored whole, and how many of its bytes count (at most 7).
///
/// `metadata_id` is below 2^14, `delta` below [`MAX_DELTA`].
#[inline(always)]
pub(crate) fn head(metadata_id: u32, old_shape: u64, delta: u64, len_flag: u8) -> (u64, usize) {
    let changed = u32::from(old_shape as u32 != metadata_id);
    let flags = changed as u64 * u64::from(RowFlags::METADATA) | u64::from(len_flag);
    let long = u32::from(metadata_id >= 1 << 7);
    let id = if long != 0 { padded2(metadata_id) } else { metadata_id };
    let id_len = changed * (1 + long);
    // All ones if it changed.
    let id = u64::from(id) & u64::from(changed).wrapping_neg();
    let delta = delta as u32;
    let (delta, delta_len) = if delta < 1 << 14 {
        (padded2(delta), 2)
    } else if delta < 1 << 21 {
        (padded2(delta & 0x3fff) | 0x8000 | (delta >> 14) << 16, 3)
    } else {
        (padded2(delta & 0x3fff) | 0x8000 | (delta >> 14 & 0x7f | 0x80) << 16 | (delta >> 21) << 24, 4)
    };
    let head = flags | id << 8 | u64::from(delta) << (8 + 8 * id_len);
    (head, (1 + id_len + delta_len) as usize)
}

/// The payload size, if it changed: as a word to be stored whole, how many of its bytes count, and its flag.
#[inline(always)]
pub(crate) fn size(payload_len: usize, old_shape: u64) -> (u32, usize, u8) {
    let changed = usize::from(old_shape >> 32 != payload_len as u64);
    let (bytes, len) = match payload_len {
        0..=0x7f => (payload_len as u32, 1),
        0x80..=0x3fff => (padded2(payload_len as u32), 2),
        _ => (padded3(payload_len), 3),
    };
    (bytes, changed * len, changed as u8 * RowFlags::PAYLOAD_LEN)
}

/// A number below 2^14 in two bytes.
#[inline(always)]
pub(crate) fn padded2(value: u32) -> u32 {
    (value & 0x7f) | 0x80 | (value >> 7) << 8
}

/// A number below 2^21 in three bytes.
#[inline(always)]
pub(crate) fn padded3(value: usize) -> u32 {
    let value = value as u32;
    (value & 0x7f) | 0x80 | (value >> 7 & 0x7f | 0x80) << 8 | (value >> 14) << 16
}

#[cfg(test)]
mod tests {
    use nettrace_format::v6::{RowState, decode_row};

    use super::{HEAD_ROOM, MAX_DELTA, head, shape, size};

    #[test]
    fn every_head_reads_back() {
        let deltas = [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, MAX_DELTA - 1];
        let ids = [1, 127, 128, 16_383];
        let sizes = [0, 1, 127, 128, 16_383, 16_384, 65_535];
        for delta in deltas {
            for id in ids {
                for len in sizes {
                    for old in [shape(id, len), shape(id, len + 1), shape(id ^ 1, len), u64::MAX] {
                        let mut state = RowState::after(nettrace_format::v6::RowHeader {
                            metadata_id: old as u32,
                            payload_len: (old >> 32) as u32,
                            ..Default::default()
                        });
                        let (size_bytes, size_len, flag) = size(len, old);
                        let (head_bytes, head_len) = head(id, old, delta, flag);
                        assert!(head_len <= 7 && size_len <= 3 && head_len + 4 <= HEAD_ROOM);
                        let mut bytes = head_bytes.to_le_bytes()[..head_len].to_vec();
                        bytes.extend(&size_bytes.to_le_bytes()[..size_len]);
                        let (row, used) = decode_row(&mut state, &bytes).unwrap();
                        assert_eq!(used, bytes.len());
                        assert_eq!(
                            (row.metadata_id, row.timestamp, row.payload_len),
                            (id, delta, len as u32)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_type_a_microsecond_apart_takes_three_bytes() {
        let ticks = 3_000;
        assert_eq!(head(1, shape(1, 16), ticks, size(16, shape(1, 16)).2).1, 3);
    }
}
