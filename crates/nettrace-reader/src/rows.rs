//! The rows of Event blocks, compressed and not.

use nettrace_event::payload::primitive::{MAX_VARUINT64, read_varuint, read_varuint32};
use nettrace_format::{
    Cursor, Damage,
    v6::{RowFlags, UNCOMPRESSED_ROW_HEADER},
};

use crate::{error::Read, framing::Format};

/// The header of a row: everything about an event except its payload.
///
/// ```
/// # let file = nettrace_reader::example();
/// let mut reader = nettrace_reader::Reader::new(&file[..])?;
/// let header = *reader.next_event()?.unwrap().header;
/// assert_eq!((header.sequence_number, header.timestamp, header.payload_size), (1, 2_000, 4));
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The id of its event type.
    pub metadata_id: u32,
    /// Its number among the events of its capture thread: from 1, modulo 2^32. Lost events count.
    pub sequence_number: u32,
    /// The index of the thread that recorded it.
    pub capture_thread: u64,
    /// The index of the thread that it is about, usually the one that recorded it.
    pub thread: u64,
    /// The processor that it was recorded on; `u32::MAX` if unknown.
    pub processor: u32,
    /// The id of its stack; 0 for none.
    pub stack_id: u32,
    /// The index of its label list; 0 for none. Versions 4 and 5 have no label lists.
    pub label_list: u32,
    /// The activity that it belongs to, in versions 4 and 5; zeros for none. Version 6 has a label
    /// in its place. A GUID in the byte order of the format.
    pub activity_id: [u8; 16],
    /// A related activity, usually the one that started this one, in versions 4 and 5. See
    /// [`activity_id`](Self::activity_id).
    pub related_activity_id: [u8; 16],
    /// Its time, in ticks.
    pub timestamp: u64,
    /// The size of its payload in bytes.
    pub payload_size: u32,
    /// Whether every later row of the stream has the same timestamp or a later one.
    pub is_sorted: bool,
}

/// The header of an Event block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventBlock {
    pub(crate) min_timestamp: u64,
    pub(crate) max_timestamp: u64,
    /// The rows: where they begin in the body, and how they are encoded.
    pub(crate) rows: Rows,
}

impl EventBlock {
    /// Parses the header. `body` is the whole body of the block, which begins at stream offset
    /// `base`.
    pub(crate) fn parse(format: Format, body: &[u8], base: u64) -> Read<Self> {
        let block = Self::parse_head(format, body, base)?;
        if block.rows.position == body.len() {
            let offset = base + block.rows.position as u64;
            return Err(Damage { offset, what: "it holds no event" });
        }
        Ok(block)
    }

    /// Like [`parse`](Self::parse), for a block that may be empty. The MetadataBlock of versions 4
    /// and 5 has the same header and rows.
    pub(crate) fn parse_head(format: Format, body: &[u8], base: u64) -> Read<Self> {
        let mut cursor = Cursor::new(body, base);
        let size = cursor.u16()?;
        if size < 20 {
            return Err(cursor.damage("its header is shorter than 20 bytes"));
        }
        let flags = cursor.u16()?;
        let min_timestamp = cursor.u64()?;
        let max_timestamp = cursor.u64()?;
        cursor.bytes(usize::from(size) - cursor.position())?;
        let rows = Rows {
            coding: match (format, flags & 1 != 0) {
                (Format::V6, true) => Coding::V6,
                (Format::V6, false) => Coding::PlainV6,
                (Format::V5, true) => Coding::V5,
                (Format::V5, false) => Coding::PlainV5,
            },
            position: cursor.position(),
            header: Header::default(),
            refers_anew: true,
        };
        Ok(Self { min_timestamp, max_timestamp, rows })
    }
}

/// A position among the rows of a block. It is small, and a copy can continue later from the same
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    coding: Coding,
    /// The start of the next row.
    pub(crate) position: usize,
    /// The header of the last row. The next row is encoded as the difference to it.
    pub(crate) header: Header,
    /// Whether the last row may refer to other definitions than the row before it.
    pub(crate) refers_anew: bool,
}

/// The rows that [`Rows::pass_like`] skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Their number. A row has at least two bytes, so a block has fewer than 2^32.
    pub(crate) rows: u32,
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

/// How headers are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Compressed, with label lists.
    V6,
    /// Compressed, with activity ids.
    V5,
    PlainV6,
    PlainV5,
}

impl Default for Rows {
    /// No rows.
    fn default() -> Self {
        Self { coding: Coding::V6, position: 0, header: Header::default(), refers_anew: true }
    }
}

impl Rows {
    /// Reads the header of the next row of `body` and moves to the end of its payload. Returns the
    /// start of the payload. `base` is the stream offset of the body.
    #[inline]
    pub(crate) fn next(&mut self, body: &[u8], base: u64) -> Read<usize> {
        match self.next_like(body) {
            Some(payload) => Ok(payload),
            None => self.next_other(body, base),
        }
    }

    /// Like [`next`](Self::next), for a row that states nothing but its time and whether it is
    /// sorted, as most rows do. Returns `None` for any other row and for a damaged one, and changes
    /// nothing.
    #[inline(always)]
    pub(crate) fn next_like(&mut self, body: &[u8]) -> Option<usize> {
        let mut at = self.position;
        let flags = *body.get(at)?;
        if flags & !RowFlags::SORTED != 0 || !self.is_compressed() {
            return None;
        }
        at += 1;
        let elapsed = read_varuint(body, &mut at, MAX_VARUINT64)?;
        let size = self.header.payload_size as usize;
        if body.len() - at < size {
            return None;
        }
        let header = &mut self.header;
        header.sequence_number = header.sequence_number.wrapping_add(1);
        header.timestamp = header.timestamp.wrapping_add(elapsed);
        header.is_sorted = flags != 0;
        self.refers_anew = false;
        self.position = at + size;
        Some(at)
    }

    #[inline]
    fn is_compressed(&self) -> bool {
        matches!(self.coding, Coding::V6 | Coding::V5)
    }

    #[inline(never)]
    fn next_other(&mut self, body: &[u8], base: u64) -> Read<usize> {
        let start = self.position;
        let payload = match self.coding {
            Coding::V6 => self.compressed_header::<true>(body),
            Coding::V5 => self.compressed_header::<false>(body),
            Coding::PlainV6 => self.plain_header(body),
            Coding::PlainV5 => return self.plain_v5_row(body, base),
        };
        let Some(payload) = payload else {
            return Err(damaged(
                base,
                start,
                "a row's header is cut off or has a number too large",
            ));
        };
        let size = self.header.payload_size as usize;
        if body.len() - payload < size {
            return Err(damaged(base, start, "a row's payload reaches beyond the block"));
        }
        self.position = payload + size;
        Ok(payload)
    }

    /// Skips rows that state nothing but their time, as most do. Stops before any other row, such
    /// as one that is sorted or damaged.
    #[inline]
    pub(crate) fn pass_like(&mut self, body: &[u8]) -> Passed {
        let mut passed = Passed { rows: 0, earliest: u64::MAX, latest: 0 };
        if !self.is_compressed() {
            return passed;
        }
        let size = self.header.payload_size as usize;
        let (mut position, mut timestamp) = (self.position, self.header.timestamp);
        while let Some(0) = body.get(position) {
            let mut at = position + 1;
            let Some(elapsed) = read_varuint(body, &mut at, MAX_VARUINT64) else { break };
            if body.len() - at < size {
                break;
            }
            position = at + size;
            timestamp = timestamp.wrapping_add(elapsed);
            passed.rows += 1;
            passed.earliest = passed.earliest.min(timestamp);
            passed.latest = passed.latest.max(timestamp);
        }
        if passed.rows > 0 {
            let header = &mut self.header;
            header.sequence_number = header.sequence_number.wrapping_add(passed.rows);
            header.timestamp = timestamp;
            header.is_sorted = false;
            self.refers_anew = false;
            self.position = position;
        }
        passed
    }

    /// The versions differ in two flags: 16 and 32.
    #[inline]
    fn compressed_header<const V6: bool>(&mut self, body: &[u8]) -> Option<usize> {
        let mut at = self.position;
        let flags = *body.get(at)?;
        at += 1;
        let header = &mut self.header;
        self.refers_anew = flags & REFERENCES != 0;
        if flags & RowFlags::METADATA != 0 {
            header.metadata_id = read_varuint32(body, &mut at)?;
        }
        if flags & RowFlags::CAPTURE != 0 {
            let skipped = read_varuint32(body, &mut at)?;
            header.sequence_number = header.sequence_number.wrapping_add(skipped);
            header.capture_thread = read_varuint(body, &mut at, MAX_VARUINT64)?;
            header.processor = read_varuint32(body, &mut at)?;
        }
        // Rows of metadata blocks of version 5 (id 0) are not counted. Their numbers do not matter.
        header.sequence_number = header.sequence_number.wrapping_add(1);
        if flags & RowFlags::THREAD != 0 {
            header.thread = read_varuint(body, &mut at, MAX_VARUINT64)?;
        }
        if flags & RowFlags::STACK != 0 {
            header.stack_id = read_varuint32(body, &mut at)?;
        }
        header.timestamp =
            header.timestamp.wrapping_add(read_varuint(body, &mut at, MAX_VARUINT64)?);
        if V6 {
            if flags & RowFlags::LABELS != 0 {
                header.label_list = read_varuint32(body, &mut at)?;
            }
        } else {
            if flags & ACTIVITY != 0 {
                header.activity_id = guid(body, &mut at)?;
            }
            if flags & RELATED_ACTIVITY != 0 {
                header.related_activity_id = guid(body, &mut at)?;
            }
        }
        header.is_sorted = flags & RowFlags::SORTED != 0;
        if flags & RowFlags::PAYLOAD_LEN != 0 {
            header.payload_size = read_varuint32(body, &mut at)?;
        }
        Some(at)
    }

    fn plain_header(&mut self, body: &[u8]) -> Option<usize> {
        let end = self.position + UNCOMPRESSED_ROW_HEADER;
        let mut cursor = Cursor::new(body.get(self.position..end)?, 0);
        let (size, mut header) = plain_head(&mut cursor).ok()?;
        header.label_list = cursor.u32().ok()?;
        header.payload_size = cursor.u32().ok()?;
        // The size counts everything after it.
        if u64::from(size) != u64::from(header.payload_size) + UNCOMPRESSED_ROW_HEADER as u64 - 4 {
            return None;
        }
        self.header = header;
        self.refers_anew = true;
        Some(end)
    }
}

impl Rows {
    /// Reads an uncompressed row of version 4 or 5. The specification demands zeros after the
    /// payload, up to a multiple of four bytes from the start of the stream. The reference reader
    /// does not skip them. The next row shows whether they are there.
    #[cold]
    fn plain_v5_row(&mut self, body: &[u8], base: u64) -> Read<usize> {
        let start = self.position;
        let damaged = |what| Damage { offset: base + start as u64, what };
        let Some(head) = PlainV5::read(&body[start..]) else {
            return Err(damaged("a row's header is cut off, or its sizes contradict each other"));
        };
        let payload = start + PLAIN_V5_HEADER;
        let size = head.header.payload_size as usize;
        let Some(behind) = body[payload..].get(size..) else {
            return Err(damaged("a row's payload reaches beyond the block"));
        };
        self.header = head.header;
        self.refers_anew = true;
        let end = payload + size;
        let padding = match head.padding {
            0 => ((base + end as u64).wrapping_neg() % 4) as usize,
            stated => stated,
        };
        let padding = padding.min(behind.len());
        let is_padded = head.padding > 0
            || behind[..padding].iter().all(|byte| *byte == 0)
                && (behind.len() < 4 || PlainV5::read(&behind[padding..]).is_some());
        self.position = if is_padded { end + padding } else { end };
        Ok(payload)
    }
}

/// What the headers of all uncompressed rows begin with: the row's size, and the fields up to its
/// time.
///
/// The high bit of the metadata id means "not sorted", as in the reference reader. The
/// specification says the opposite.
fn plain_head(cursor: &mut Cursor<'_>) -> Read<(u32, Header)> {
    let size = cursor.u32()?;
    let metadata_id = cursor.u32()?;
    let header = Header {
        metadata_id: metadata_id & 0x7FFF_FFFF,
        is_sorted: metadata_id & 0x8000_0000 == 0,
        sequence_number: cursor.u32()?,
        thread: cursor.u64()?,
        capture_thread: cursor.u64()?,
        processor: cursor.u32()?,
        stack_id: cursor.u32()?,
        timestamp: cursor.u64()?,
        ..Header::default()
    };
    Ok((size, header))
}

/// The header of an uncompressed row of version 4 or 5.
struct PlainV5 {
    header: Header,
    /// The number of padding bytes that its size includes.
    padding: usize,
}

impl PlainV5 {
    fn read(row: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(row, 0);
        let (size, mut header) = plain_head(&mut cursor).ok()?;
        header.activity_id = cursor.array().ok()?;
        header.related_activity_id = cursor.array().ok()?;
        header.payload_size = cursor.u32().ok()?;
        let least = u64::from(header.payload_size) + PLAIN_V5_HEADER as u64 - 4;
        let padding = u64::from(size).checked_sub(least).filter(|padding| *padding < 4)?;
        Some(Self { header, padding: padding as usize })
    }
}

/// The flags of a compressed header for event type, threads, stack and label list.
const REFERENCES: u8 =
    RowFlags::METADATA | RowFlags::CAPTURE | RowFlags::THREAD | RowFlags::STACK | RowFlags::LABELS;

/// The flags of a compressed header of version 5 for activity ids.
const ACTIVITY: u8 = 16;
const RELATED_ACTIVITY: u8 = 32;

/// The size of an uncompressed header in versions 4 and 5.
const PLAIN_V5_HEADER: usize = 80;

#[cold]
fn damaged(base: u64, position: usize, what: &'static str) -> Damage {
    Damage { offset: base + position as u64, what }
}

#[inline]
fn guid(body: &[u8], at: &mut usize) -> Option<[u8; 16]> {
    let bytes = body.get(*at..*at + 16)?.try_into().ok()?;
    *at += 16;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{EventBlock, Format, Header};

    fn block(flags: u8, rows: &[u8]) -> Vec<u8> {
        let mut body = vec![22, 0, flags, 0];
        body.extend(5_u64.to_le_bytes());
        body.extend(9_u64.to_le_bytes());
        body.extend([0xAA, 0xBB]); // reserved for later versions
        body.extend(rows);
        body
    }

    #[test]
    fn compressed_rows_are_differences() {
        #[rustfmt::skip]
        let body = block(1, &[
            0xDF, 7, 2, 0x81, 1, 3, 4, 5, 6, 8, 2, 0x11, 0x22, // everything, sorted
            0x00, 1, 0x33, 0x44, // nothing but the time
            0x02, 0, 9, 1, 0x80, 1, 0x55, 0x66, // another capture thread
        ]);
        let block = EventBlock::parse(Format::V6, &body, 1000).unwrap();
        assert_eq!((block.min_timestamp, block.max_timestamp), (5, 9));
        let mut rows = block.rows;
        assert_eq!(rows.next(&body, 1000), Ok(22 + 11));
        let first = Header {
            metadata_id: 7,
            sequence_number: 3,
            capture_thread: 129,
            thread: 4,
            processor: 3,
            stack_id: 5,
            label_list: 8,
            timestamp: 6,
            payload_size: 2,
            is_sorted: true,
            ..Header::default()
        };
        assert_eq!(rows.header, first);
        assert_eq!(rows.next(&body, 1000), Ok(22 + 15));
        let second = Header { sequence_number: 4, timestamp: 7, is_sorted: false, ..first };
        assert_eq!(rows.header, second);
        assert_eq!(rows.next(&body, 1000), Ok(22 + 23));
        let third = Header {
            sequence_number: 5,
            capture_thread: 9,
            processor: 1,
            timestamp: 135,
            ..second
        };
        assert_eq!(rows.header, third);
        assert_eq!(rows.position, body.len());
    }

    #[test]
    fn plain_rows() {
        let mut row = vec![51, 0, 0, 0, 7, 0, 0, 0x80, 1, 0, 0, 0];
        row.extend(4_u64.to_le_bytes());
        row.extend(5_u64.to_le_bytes());
        row.extend([6, 0, 0, 0, 8, 0, 0, 0]);
        row.extend(99_u64.to_le_bytes());
        row.extend([10, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
        let body = block(0, &row);
        let mut rows = EventBlock::parse(Format::V6, &body, 0).unwrap().rows;
        assert_eq!(rows.next(&body, 0), Ok(22 + 52));
        let header = Header {
            metadata_id: 7,
            sequence_number: 1,
            capture_thread: 5,
            thread: 4,
            processor: 6,
            stack_id: 8,
            label_list: 10,
            timestamp: 99,
            payload_size: 3,
            is_sorted: false,
            ..Header::default()
        };
        assert_eq!(rows.header, header);
        assert_eq!(rows.position, body.len());
        row[0] = 50;
        let body = block(0, &row);
        assert_eq!(
            EventBlock::parse(Format::V6, &body, 0)
                .unwrap()
                .rows
                .next(&body, 0)
                .unwrap_err()
                .offset,
            22
        );
    }

    #[test]
    fn damage() {
        assert!(EventBlock::parse(Format::V6, &block(1, &[]), 0).is_err());
        assert!(EventBlock::parse(Format::V6, &[19, 0, 1, 0], 0).is_err());
        for rows in [&[0_u8][..], &[0x80, 1, 5, 0], &[0x02, 0xFF, 0xFF], &[0, 0x80], &[1]] {
            let body = block(1, rows);
            let mut cursor = EventBlock::parse(Format::V6, &body, 0).unwrap().rows;
            assert_eq!(cursor.next(&body, 0).unwrap_err().offset, 22, "{rows:x?}");
        }
    }
}
