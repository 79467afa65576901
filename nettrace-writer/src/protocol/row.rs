//! The header of a row as a producer writes it: compressed as in the format, but padded for speed.
//!
//! The position of the next byte must not depend on the clock. That matters more than the number of
//! instructions. If the length of the timestamp's delta decided where the next byte goes, each
//! event would wait for the clock of the one before: 17 ns an event were measured, instead of 9.5
//! ns. So the delta is padded, which readers accept: to two bytes below 2^14 ticks, otherwise to
//! four. A branch makes the choice. The processor predicts it, so the position does not wait. A row
//! of the same type as the one before, less than 2^14 ticks later, leaves out the metadata id, and
//! the payload's size if all payloads of the type have one size.
//!
//! A producer writes no sequence number, thread, stack or label list. The flusher inserts them in
//! the first row of a block and after an *escape*. An escape stands before a row and says what is
//! special about it. It begins with a byte that no row begins with (bit 32 of the flags is unused
//! in version 6). The escapes of a chunk are a list, so that the flusher finds them without a walk
//! over the rows.

use nettrace_format::v6::RowFlags;

/// Bytes that must be free for the header of a row.
pub(crate) const HEAD_ROOM: usize = 16;
/// The longest payload that the fast path writes. The size of a longer one takes more than two
/// bytes.
pub(crate) const MAX_SHORT_PAYLOAD: usize = (1 << 14) - 1;
/// Deltas below this take two bytes.
pub(crate) const NEAR: u64 = 1 << 14;
/// Deltas of this or more take the slow path.
pub(crate) const MAX_DELTA: u64 = 1 << 28;

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
    /// The thread is in this span from the next row on: its other labels, as a label list of
    /// version 6 that may be empty, and the ids of the trace, the span and the parent (see
    /// `nettrace_span::frames`).
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
    #[inline]
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

    /// The labels and the ids in an escape for a [span](Escape::Span).
    pub(crate) fn span(&self) -> Option<(&'a [u8], &'a [u8; 32])> {
        if self.kind == Escape::Span { self.data.split_last_chunk() } else { None }
    }

    /// The ids in an escape for a [span](Escape::Span) without labels at a place, and the place of
    /// what follows. If there are not eight more bytes, this may be `None` all the same.
    #[inline]
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

/// The flags of a row that has its metadata id and its payload's size.
pub(crate) const WHOLE: u8 = RowFlags::METADATA | RowFlags::PAYLOAD_LEN;

/// The delta of a row's time, which is below [`MAX_DELTA`], in four bytes.
#[inline]
pub(crate) fn padded4(delta: u64) -> u32 {
    padded2(delta as u32 & 0x3fff) | 0x8000 | padded2(delta as u32 >> 14) << 16
}

/// The header of a row with any metadata id and any `delta`, and how many bytes it has. The
/// payload's size follows, in [three bytes](padded3).
pub(crate) fn long_head(id: u32, mut delta: u64) -> ([u8; 16], usize) {
    let mut head = [0; 16];
    head[0] = WHOLE;
    head[1..3].copy_from_slice(&padded2(id).to_le_bytes()[..2]);
    let mut len = 3;
    while delta >= 0x80 {
        head[len] = delta as u8 | 0x80;
        delta >>= 7;
        len += 1;
    }
    head[len] = delta as u8;
    (head, len + 1)
}

/// Encodes a number below 2^14 in two bytes.
#[inline]
pub(crate) fn padded2(value: u32) -> u32 {
    // Adding the upper seven bits once more shifts them by one.
    value + (value & 0x3f80) + 0x80
}

/// [`padded2`] without the bit that all such numbers have.
#[inline]
pub(crate) fn padded2_bits(value: u32) -> u32 {
    value + (value & 0x3f80)
}

/// Encodes a number below 2^21 in three bytes.
#[inline]
pub(crate) fn padded3(value: u32) -> u32 {
    (value & 0x7f) | 0x80 | (value >> 7 & 0x7f | 0x80) << 8 | (value >> 14) << 16
}

#[cfg(test)]
mod tests {
    use nettrace_format::v6::{RowFlags, RowHeader, RowState, decode_row};

    use nettrace_event::{compact_head, compact_like_head, delta_shift};

    use super::{
        HEAD_ROOM, MAX_DELTA, NEAR, WHOLE, long_head, padded2, padded2_bits, padded3, padded4,
    };

    /// What a reader takes from a header after a row of type 9 with 5 bytes.
    fn read(bytes: &[u8]) -> RowHeader {
        let before = RowHeader { metadata_id: 9, payload_len: 5, ..RowHeader::default() };
        let (row, used) = decode_row(&mut RowState::after(before), bytes).unwrap();
        assert_eq!(used, bytes.len());
        row
    }

    #[test]
    fn every_head_reads_back() {
        let deltas = [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, MAX_DELTA - 1];
        for delta in deltas {
            for (id, size) in [(1, 0), (127, 127), (128, 128), (16_383, 16_383)] {
                let (of_type, shift) = (compact_head(id, size), delta_shift(id));
                assert_eq!(of_type as u8, WHOLE);
                let len = (of_type >> 61) as usize;
                let bytes = if delta < NEAR {
                    let head = of_type | u64::from(padded2_bits(delta as u32)) << shift;
                    head.to_le_bytes()[..len].to_vec()
                } else {
                    let before = shift as usize / 8;
                    let mut bytes = of_type.to_le_bytes()[..before].to_vec();
                    bytes.extend(padded4(delta).to_le_bytes());
                    bytes.extend(&of_type.to_le_bytes()[before + 2..len]);
                    bytes
                };
                assert!(bytes.len() <= HEAD_ROOM);
                let row = read(&bytes);
                assert_eq!((row.metadata_id, row.timestamp, row.payload_len), (id, delta, size));
            }
        }
    }

    #[test]
    fn a_row_like_the_one_before_takes_three_bytes() {
        for delta in [0, 127, 128, NEAR - 1] {
            let delta_bits = u64::from(padded2_bits(delta as u32)) << 8;
            let head = compact_like_head(5) | delta_bits;
            assert_eq!(head >> 61, 3);
            let row = read(&head.to_le_bytes()[..3]);
            assert_eq!((row.metadata_id, row.timestamp, row.payload_len), (9, delta, 5));
            let head = compact_like_head(u32::MAX) | delta_bits;
            assert_eq!(head >> 61, 5);
            let mut bytes = head.to_le_bytes()[..5].to_vec();
            bytes[3..].copy_from_slice(&padded2(300).to_le_bytes()[..2]);
            assert_eq!(read(&bytes).payload_len, 300);
        }
    }

    #[test]
    fn every_long_head_reads_back() {
        for delta in [0, 127, 128, MAX_DELTA, u64::from(u32::MAX), u64::MAX >> 1] {
            for (id, size) in [(1, 0), (127, 1), (16_383, 65_436)] {
                let (head, len) = long_head(id, delta);
                let mut bytes = head[..len].to_vec();
                bytes.extend(&padded3(size).to_le_bytes()[..3]);
                let row = read(&bytes);
                assert_eq!((row.metadata_id, row.timestamp, row.payload_len), (id, delta, size));
            }
        }
    }

    #[test]
    fn padded_sizes_read_back() {
        for size in [0, 127, 128, 16_383, 16_384, 65_535] {
            let mut bytes = vec![RowFlags::PAYLOAD_LEN, 0];
            bytes.extend(&padded3(size).to_le_bytes()[..3]);
            assert_eq!(read(&bytes).payload_len, size);
        }
    }
}
