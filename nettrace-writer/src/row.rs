//! The header of a row as a producer writes it: compressed as in the format, but padded for speed.
//!
//! The position of the next byte must not depend on the clock. That matters more than the number of
//! instructions. If the length of the timestamp's delta decided where the next byte goes, each
//! event would wait for the clock of the one before: 17 ns an event were measured, instead of 9.5
//! ns. So the delta is padded, which readers accept: to two bytes below 2^14 ticks, otherwise to
//! four. A branch makes the choice. The processor predicts it, so the position does not wait. The
//! metadata id and the payload size are written only if they differ from the row before. A branch
//! picks out the rows that differ in nothing. Their header has a constant length ([`head_like`]). A
//! row of another type and of a fixed size, a little later, writes both whether its size differs or
//! not ([`head_whole`]): at most a byte or two, and the header's length depends on its type alone.
//! Any other header is put together without a branch ([`head`]).
//!
//! A producer writes no sequence number, thread, stack or label list. The flusher inserts them in
//! the first row of a block and after an *escape*. An escape stands before a row and says what is
//! special about it. It begins with a byte that no row begins with (bit 32 of the flags is unused
//! in version 6). The escapes of a chunk are a list, so that the flusher finds them without a walk
//! over the rows.

use nettrace_format::v6::RowFlags;

/// Bytes that must be free for a row of fixed size, in addition to its payload.
pub(crate) const HEAD_ROOM: usize = 16;
/// The longest payload of variable size that the fast path writes. The size of a longer one takes
/// more than two bytes.
pub(crate) const MAX_SHORT_PAYLOAD: usize = (1 << 14) - 1;
/// Deltas below this take two bytes.
pub(crate) const NEAR: u64 = 1 << 14;
/// Deltas of this or more take the slow path.
pub(crate) const MAX_DELTA: u64 = 1 << 28;

/// Bytes of the header of [`head_like`].
pub(crate) const LIKE_HEAD: usize = 3;

/// First byte of an escape.
pub(crate) const ESCAPE: u8 = 32;

/// Bytes of an escape before its content: [`ESCAPE`], its [kind](Escape), the length of its content
/// (a little-endian u32), and the start of the escapes of the previous row with escapes (a
/// little-endian u32, one more than the offset in the chunk; 0 for none).
pub(crate) const ESCAPE_HEAD: usize = 10;

/// The kinds of escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Escape {
    /// This many numbers before the next row have no row: a u64.
    Gap = 1,
    /// The thread has these labels from the next row on, as a label list of version 6. This and
    /// [`Span`](Self::Span) are the only kinds that can be the last thing in a chunk, and the only
    /// ones before a row of the fast path.
    Labels = 2,
    /// The next row has this stack: u64 addresses, the innermost first.
    Stack = 3,
    /// The next row is about another thread: its process-wide number and its id in the system (u64
    /// each), then its name.
    Thread = 4,
    /// The thread is in this span from the next row on, and has no other labels: the ids of the
    /// trace, the span and the parent (see `context::frames`).
    Span = 5,
}

impl Escape {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Gap,
            2 => Self::Labels,
            3 => Self::Stack,
            4 => Self::Thread,
            5 => Self::Span,
            _ => return None,
        })
    }

    /// The first bytes of an escape with `len` bytes of content.
    #[inline(always)]
    pub(crate) fn head(self, len: usize, previous: u32) -> [u8; ESCAPE_HEAD] {
        let start = u64::from(ESCAPE) | (self as u64) << 8 | u64::from(len as u32) << 16;
        let mut head = [0; ESCAPE_HEAD];
        head[..8].copy_from_slice(&(start | u64::from(previous) << 48).to_le_bytes());
        head[8..].copy_from_slice(&((previous >> 16) as u16).to_le_bytes());
        head
    }
}

/// An escape in a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EscapeBytes<'a> {
    pub(crate) kind: Escape,
    pub(crate) data: &'a [u8],
}

impl<'a> EscapeBytes<'a> {
    /// For an escape at a place, the start of the escapes of the previous row with escapes, plus 1;
    /// 0 for none.
    #[inline]
    pub(crate) fn previous_at(bytes: &[u8], start: usize) -> Option<u32> {
        let [ESCAPE, _, _, _, _, _, previous @ ..] =
            bytes.get(start..)?.first_chunk::<ESCAPE_HEAD>()?
        else {
            return None;
        };
        Some(u32::from_le_bytes(*previous))
    }

    /// The escape that `bytes` begins with, if it begins with one.
    #[inline]
    pub(crate) fn at(bytes: &'a [u8]) -> Option<Self> {
        let [ESCAPE, kind, l0, l1, l2, l3, _, _, _, _, rest @ ..] = bytes else { return None };
        let len = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        Some(Self { kind: Escape::from_byte(*kind)?, data: rest.get(..len)? })
    }

    /// The ids in an escape for a [span](Escape::Span) at a place, and the place of what follows. If
    /// there are not eight more bytes, this may be `None` all the same.
    #[inline(always)]
    pub(crate) fn span_at(bytes: &[u8], start: usize) -> Option<(&[u8; 32], usize)> {
        const LEN: usize = ESCAPE_HEAD + 32;
        let found = bytes.get(start..)?.first_chunk::<{ LEN + 8 }>()?;
        // All before the start of the previous escapes, in one comparison.
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let is_span = word(found) << 16 == word(&Escape::Span.head(32, 0)) << 16;
        Some((found[ESCAPE_HEAD..].first_chunk()?, start + LEN)).filter(|_| is_span)
    }

    /// How many bytes the escape takes.
    pub(crate) fn len(&self) -> usize {
        ESCAPE_HEAD + self.data.len()
    }
}

/// What rows of the same type and size have in common: the metadata id, as
/// [`EventType::index_in_rows`](nettrace_event::EventType::index_in_rows) has it, and the size of
/// the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: u32,
    pub(crate) len: u32,
}

impl Shape {
    /// A shape that no row has. The row after it writes everything.
    pub(crate) const NONE: Self = Self { id: 0, len: u32::MAX };
}

/// The beginning of a header: flags, metadata id if it changed, and delta. Returns a word to be
/// stored whole, and how many of its bytes count (at most 7).
///
/// `delta` is below [`MAX_DELTA`]. Without `old` the metadata id is written whatever it was.
#[inline(always)]
pub(crate) fn head(id: u32, old: Option<Shape>, delta: u64, len_flag: u8) -> (u64, usize) {
    let (start, start_len) = if old.is_some_and(|old| old.id == id) {
        (0, 1)
    } else {
        ((id & 0xffff) << 8 | u32::from(RowFlags::METADATA), 1 + (id >> 16))
    };
    let delta = delta as u32;
    let (delta, delta_len) = if delta < NEAR as u32 {
        (padded2(delta), 2)
    } else {
        (padded2(delta & 0x3fff) | 0x8000 | padded2(delta >> 14) << 16, 4)
    };
    let head = u64::from(start | u32::from(len_flag)) | u64::from(delta) << (8 * start_len);
    (head, (start_len + delta_len) as usize)
}

/// [`head`] for a row of the same type as the one before. `delta` is below [`NEAR`].
#[inline(always)]
pub(crate) fn head_like(delta: u64, len_flag: u8) -> (u64, usize) {
    (u64::from(padded2(delta as u32) << 8 | u32::from(len_flag)), LIKE_HEAD)
}

/// The header of a row of another type than the one before, with the metadata id and the payload's
/// size. Its length does not depend on the row before. Returns a word to be stored whole, and how
/// many of its bytes count (at most 7). `delta` is below [`NEAR`], `len` is at most
/// [`MAX_SHORT_PAYLOAD`].
#[inline(always)]
pub(crate) fn head_whole(id: u32, delta: u64, len: u32) -> (u64, usize) {
    let (size, size_len) = if len < 0x80 { (len, 1) } else { (padded2(len), 2) };
    let rest = u64::from(padded2(delta as u32) | size << 16);
    let flags = u32::from(RowFlags::METADATA | RowFlags::PAYLOAD_LEN);
    let start = u64::from((id & 0xffff) << 8 | flags);
    let id_len = id >> 16;
    // The flags have a byte.
    (start | rest << 8 << (8 * id_len), (3 + id_len + size_len) as usize)
}

/// What follows the flags of a row of the same type as the one before: the delta and the payload's
/// size, of two bytes each. `delta` is below [`NEAR`], `len` is [`MAX_SHORT_PAYLOAD`] at most.
#[inline(always)]
pub(crate) fn delta_and_size(delta: u64, len: u32) -> u32 {
    // `padded2` for two numbers at once.
    let both = delta as u32 | len << 16;
    both + (both & 0x3f80_3f80) + 0x0080_0080
}

/// The payload size, if it changed. Returns a word to be stored whole, how many of its bytes count,
/// and the flag for it. Without `old` it is written whatever it was.
#[inline(always)]
pub(crate) fn size(len: u32, old: Option<Shape>) -> (u32, usize, u8) {
    let changed = old.is_none_or(|old| old.len != len);
    let (bytes, bytes_len) = match len {
        0..=0x7f => (len, 1),
        0x80..=0x3fff => (padded2(len), 2),
        _ => (padded3(len), 3),
    };
    (bytes, usize::from(changed) * bytes_len, u8::from(changed) * RowFlags::PAYLOAD_LEN)
}

/// Encodes a number below 2^14 in two bytes.
#[inline(always)]
pub(crate) fn padded2(value: u32) -> u32 {
    // Adding the upper seven bits once more shifts them by one.
    value + (value & 0x3f80) + 0x80
}

/// Encodes a number below 2^21 in three bytes.
#[inline(always)]
pub(crate) fn padded3(value: u32) -> u32 {
    (value & 0x7f) | 0x80 | (value >> 7 & 0x7f | 0x80) << 8 | (value >> 14) << 16
}

#[cfg(test)]
mod tests {
    use nettrace_format::v6::{RowHeader, RowState, decode_row};

    use super::{
        HEAD_ROOM, MAX_DELTA, MAX_SHORT_PAYLOAD, NEAR, Shape, delta_and_size, head, head_like,
        head_whole, padded2, size,
    };

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
                    let told = [(id, len), (id, len + 1), (id ^ 1, len), (0, u32::MAX)];
                    for told in told.map(Some).into_iter().chain([None]) {
                        let (old_id, old_len) = told.unwrap_or((id, len));
                        let old = told.map(|(id, len)| Shape { id: in_rows(id), len });
                        let mut state = RowState::after(RowHeader {
                            metadata_id: old_id,
                            payload_len: old_len,
                            ..RowHeader::default()
                        });
                        let (size_bytes, size_len, flag) = size(len, old);
                        let (head_bytes, head_len) = head(in_rows(id), old, delta, flag);
                        if delta < NEAR && old.is_none() && len as usize <= MAX_SHORT_PAYLOAD {
                            let whole = head_bytes | u64::from(size_bytes) << (8 * head_len);
                            assert_eq!(
                                head_whole(in_rows(id), delta, len),
                                (whole, head_len + size_len)
                            );
                        }
                        if delta < NEAR && old.is_some() && old_id == id {
                            assert_eq!(head_like(delta, flag), (head_bytes, head_len));
                            if len as usize <= MAX_SHORT_PAYLOAD {
                                let both = delta_and_size(delta, len).to_le_bytes();
                                assert_eq!(both[..2], head_bytes.to_le_bytes()[1..3]);
                                assert_eq!(both[2..], padded2(len).to_le_bytes()[..2]);
                            }
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
        assert_eq!(head(same.id, Some(same), 3_000, size(16, Some(same)).2).1, 3);
        assert_eq!(size(16, Some(same)).1, 0);
    }
}
