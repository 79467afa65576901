//! The header of a row as a producer writes it: the compressed form of the format, with liberties.
//!
//! What costs time is not the number of instructions but a position that depends on the clock: if the length of the
//! timestamp's delta decides where the next byte goes, each event waits for the clock of the one before (17 ns an event instead of 9.5
//! measured). So the delta is padded, which readers accept: two bytes below 2^14 ticks, else four; the
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
/// Deltas below this take two bytes.
pub(crate) const NEAR: u64 = 1 << 14;
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

/// What rows of a type have in common: its metadata id, as [`EventType::index_in_rows`](trace_event::EventType::index_in_rows) has it, and the size
/// of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: u32,
    pub(crate) len: u32,
}

impl Shape {
    /// A shape that no row has, so that the next row says everything.
    pub(crate) const NONE: Self = Self { id: 0, len: u32::MAX };
}

/// Flags, metadata id if it changed, and delta: as a word to be stored whole, and how many of its bytes count (at most 7).
///
/// `delta` is below [`MAX_DELTA`] if `FAR`, else below [`NEAR`].
#[inline(always)]
pub(crate) fn head<const FAR: bool>(id: u32, old: Shape, delta: u64, len_flag: u8) -> (u64, usize) {
    let (start, start_len) = if old.id == id {
        (0, 1)
    } else {
        ((id & 0xffff) << 8 | u32::from(RowFlags::METADATA), 1 + (id >> 16))
    };
    let delta = delta as u32;
    let (delta, delta_len) = if !FAR || delta < NEAR as u32 {
        (padded2(delta), 2)
    } else {
        (padded2(delta & 0x3fff) | 0x8000 | padded2(delta >> 14) << 16, 4)
    };
    let head = u64::from(start | u32::from(len_flag)) | u64::from(delta) << (8 * start_len);
    (head, (start_len + delta_len) as usize)
}

/// The payload size, if it changed: as a word to be stored whole, how many of its bytes count, and its flag.
#[inline(always)]
pub(crate) fn size(len: u32, old: Shape) -> (u32, usize, u8) {
    let changed = old.len != len;
    let (bytes, bytes_len) = match len {
        0..=0x7f => (len, 1),
        0x80..=0x3fff => (padded2(len), 2),
        _ => (padded3(len), 3),
    };
    (bytes, usize::from(changed) * bytes_len, u8::from(changed) * RowFlags::PAYLOAD_LEN)
}

/// A number below 2^14 in two bytes.
#[inline(always)]
pub(crate) fn padded2(value: u32) -> u32 {
    // Adding the upper seven bits once more moves them up by one.
    value + (value & 0x3f80) + 0x80
}

/// A number below 2^21 in three bytes.
#[inline(always)]
pub(crate) fn padded3(value: u32) -> u32 {
    (value & 0x7f) | 0x80 | (value >> 7 & 0x7f | 0x80) << 8 | (value >> 14) << 16
}

#[cfg(test)]
mod tests {
    use nettrace_format::v6::{RowHeader, RowState, decode_row};

    use super::{HEAD_ROOM, MAX_DELTA, NEAR, Shape, head, padded2, size};

    fn in_rows(id: u32) -> u32 {
        if id < 1 << 7 { id | 1 << 16 } else { padded2(id) | 2 << 16 }
    }

    #[test]
    fn every_head_reads_back() {
        let deltas = [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, MAX_DELTA - 1];
        let sizes = [0, 1, 127, 128, 16_383, 16_384, 65_535];
        for delta in deltas {
            for id in [1, 127, 128, 16_383] {
                for len in sizes {
                    for (old_id, old_len) in
                        [(id, len), (id, len + 1), (id ^ 1, len), (0, u32::MAX)]
                    {
                        let old = Shape { id: in_rows(old_id), len: old_len };
                        let mut state = RowState::after(RowHeader {
                            metadata_id: old_id,
                            payload_len: old_len,
                            ..RowHeader::default()
                        });
                        let (size_bytes, size_len, flag) = size(len, old);
                        let (head_bytes, head_len) = head::<true>(in_rows(id), old, delta, flag);
                        if delta < NEAR {
                            let near = head::<false>(in_rows(id), old, delta, flag);
                            assert_eq!(near, (head_bytes, head_len));
                        }
                        assert!(head_len <= 7 && size_len <= 3 && head_len + 4 <= HEAD_ROOM);
                        let mut bytes = head_bytes.to_le_bytes()[..head_len].to_vec();
                        bytes.extend(&size_bytes.to_le_bytes()[..size_len]);
                        let (row, used) = decode_row(&mut state, &bytes).unwrap();
                        assert_eq!(used, bytes.len());
                        assert_eq!(
                            (row.metadata_id, row.timestamp, row.payload_len),
                            (id, delta, len)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_type_a_microsecond_apart_takes_three_bytes() {
        let same = Shape { id: in_rows(1), len: 16 };
        assert_eq!(head::<false>(same.id, same, 3_000, size(16, same).2).1, 3);
        assert_eq!(size(16, same).1, 0);
    }
}
