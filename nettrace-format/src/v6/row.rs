//! Event rows: the compressed header, its decoder, and the uncompressed form.
//!
//! A compressed header says only what changed since the row before it in the same block; before the
//! first row everything is 0. The first byte says which groups follow ([`RowFlags`]):
//!
//! | flag | group | absent |
//! |---|---|---|
//! | 1 | metadata id, varuint32 | as before |
//! | 2 | numbers skipped, varuint32; capture thread, varuint64; processor, varuint32 | none, as before |
//! | 4 | thread, varuint64 | as before |
//! | 8 | stack, varuint32 | as before |
//! | always | timestamp - the one before, varuint64 | |
//! | 16 | label list, varuint32 | as before |
//! | 64 | none: the row is sorted | not sorted |
//! | 128 | payload size, varuint32 | as before |
//!
//! "Numbers skipped" is the sequence number less the one before less 1, modulo 2^32.
//!
//! The reference reader accepts LEB128 numbers that are padded to a fixed width (up to 5 bytes for
//! 32 bits, 10 for 64), so that a producer may leave room for a number that it knows later.

use alloc::vec::Vec;

use crate::{
    content::RowHeader,
    error::FormatError,
    payload::MAX_PAYLOAD,
    primitive::{MAX_VARUINT32, MAX_VARUINT64, put_varuint, read_varuint, read_varuint32},
};

/// The most bytes that a compressed header takes.
pub const MAX_ROW_HEADER: usize = 1 + 6 * MAX_VARUINT32 + 3 * MAX_VARUINT64;

/// Bytes before the payload of an uncompressed row, its EventSize field included.
pub const UNCOMPRESSED_ROW_HEADER: usize = 52;

/// The bits of the first byte of a compressed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFlags;

impl RowFlags {
    /// The metadata id follows.
    pub const METADATA: u8 = 1;
    /// Sequence number, capture thread and processor follow.
    pub const CAPTURE: u8 = 2;
    /// The thread follows.
    pub const THREAD: u8 = 4;
    /// The stack id follows.
    pub const STACK: u8 = 8;
    /// The label list id follows.
    pub const LABELS: u8 = 16;
    /// No later event of the file is older.
    pub const SORTED: u8 = 64;
    /// The payload size follows.
    pub const PAYLOAD_LEN: u8 = 128;
}

/// Writes compressed headers: one encoder for each Event block.
#[derive(Clone, Debug, Default)]
pub struct RowEncoder {
    previous: RowHeader,
}

impl RowEncoder {
    /// An encoder at the start of a block.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the shortest header that says `header`; the payload goes behind it.
    ///
    /// The caller has seen to it that the payload is at most [`MAX_PAYLOAD`] bytes long (65,535
    /// where it copies what another writer has written) and that the timestamp is not below the one
    /// before: the format has no way to say otherwise (the difference is taken modulo 2^64).
    #[inline]
    pub fn row(&mut self, header: &RowHeader, out: &mut Vec<u8>) {
        self.encode(header, 0, out);
    }

    /// Appends a header in which metadata id, sequence number, capture thread, processor and
    /// payload size are explicit whether they changed or not: for the first row of a block, whose
    /// followers are deltas to it.
    #[inline]
    pub fn full_row(&mut self, header: &RowHeader, out: &mut Vec<u8>) {
        let explicit = RowFlags::METADATA | RowFlags::CAPTURE | RowFlags::PAYLOAD_LEN;
        self.encode(header, explicit, out);
    }

    fn encode(&mut self, header: &RowHeader, explicit: u8, out: &mut Vec<u8>) {
        debug_assert!(header.payload_len <= u16::MAX.into(), "payload beyond the format");
        let previous = &self.previous;
        let sequence_delta = header.sequence.wrapping_sub(previous.sequence).wrapping_sub(1);
        let capture_changed = sequence_delta != 0
            || header.capture_thread != previous.capture_thread
            || header.processor != previous.processor;
        let flag = |changed, flag| if changed { flag } else { 0 };
        let flags = explicit
            | flag(header.metadata_id != previous.metadata_id, RowFlags::METADATA)
            | flag(capture_changed, RowFlags::CAPTURE)
            | flag(header.thread != previous.thread, RowFlags::THREAD)
            | flag(header.stack != previous.stack, RowFlags::STACK)
            | flag(header.labels != previous.labels, RowFlags::LABELS)
            | flag(header.sorted, RowFlags::SORTED)
            | flag(header.payload_len != previous.payload_len, RowFlags::PAYLOAD_LEN);

        let mut bytes = [0; MAX_ROW_HEADER];
        bytes[0] = flags;
        let mut at = 1;
        let mut put = |value: u64| at = put_varuint(&mut bytes, at, value);
        if flags & RowFlags::METADATA != 0 {
            put(header.metadata_id.into());
        }
        if flags & RowFlags::CAPTURE != 0 {
            put(sequence_delta.into());
            put(header.capture_thread);
            put(header.processor.into());
        }
        if flags & RowFlags::THREAD != 0 {
            put(header.thread);
        }
        if flags & RowFlags::STACK != 0 {
            put(header.stack.into());
        }
        put(header.timestamp.wrapping_sub(previous.timestamp));
        if flags & RowFlags::LABELS != 0 {
            put(header.labels.into());
        }
        if flags & RowFlags::PAYLOAD_LEN != 0 {
            put(header.payload_len.into());
        }
        out.extend_from_slice(&bytes[..at]);
        self.previous = *header;
    }
}

/// Where a walk over compressed rows stands: what the last row said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowState {
    last: RowHeader,
}

impl RowState {
    /// The state at the start of a block.
    #[must_use]
    pub const fn new() -> Self {
        Self::after(RowHeader {
            metadata_id: 0,
            sequence: 0,
            capture_thread: 0,
            processor: 0,
            thread: 0,
            stack: 0,
            timestamp: 0,
            labels: 0,
            sorted: false,
            payload_len: 0,
        })
    }

    /// The state behind a row that said `last`.
    #[must_use]
    pub const fn after(last: RowHeader) -> Self {
        Self { last }
    }

    /// What the last row said; all zero before the first.
    #[must_use]
    pub const fn last(&self) -> &RowHeader {
        &self.last
    }

    /// Reads the header that `bytes` begin with and returns its length in bytes; the payload, of
    /// `self.last().payload_len` bytes, stands behind it and is not looked at.
    ///
    /// `None` where the bytes are no header (they end early, or a number is too large); the state
    /// is then as it was. Numbers may be padded.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        // Flags and a short timestamp, the commonest form. It is a branch of its own, and the rest
        // is not inlined, so that the processor guesses the length and goes on to the next row.
        match *bytes {
            [flags @ (0 | RowFlags::SORTED), delta @ 0..0x80, ..] => {
                self.next_in_time(flags, delta.into());
                Some(2)
            }
            [flags @ (0 | RowFlags::SORTED), low, high @ 0..0x80, ..] => {
                self.next_in_time(flags, u64::from(low & 0x7f) | u64::from(high) << 7);
                Some(3)
            }
            _ => self.advance_same_thread(bytes),
        }
    }

    #[inline(never)]
    fn advance_same_thread(&mut self, bytes: &[u8]) -> Option<usize> {
        const RARE: u8 = RowFlags::CAPTURE | RowFlags::THREAD | RowFlags::STACK | RowFlags::LABELS;
        let flags = *bytes.first()?;
        if flags & RARE != 0 {
            return self.advance_any(bytes);
        }
        let mut at = 1;
        let mut metadata_id = self.last.metadata_id;
        let mut payload_len = self.last.payload_len;
        if flags & RowFlags::METADATA != 0 {
            metadata_id = read_varuint32(bytes, &mut at)?;
        }
        let delta = read_varuint(bytes, &mut at, MAX_VARUINT64)?;
        if flags & RowFlags::PAYLOAD_LEN != 0 {
            payload_len = read_varuint32(bytes, &mut at)?;
        }
        self.last.metadata_id = metadata_id;
        self.last.payload_len = payload_len;
        self.next_in_time(flags, delta);
        Some(at)
    }

    #[inline(always)]
    fn next_in_time(&mut self, flags: u8, delta: u64) {
        let last = &mut self.last;
        last.sequence = last.sequence.wrapping_add(1);
        last.timestamp = last.timestamp.wrapping_add(delta);
        last.sorted = flags & RowFlags::SORTED != 0;
    }

    #[inline(never)]
    fn advance_any(&mut self, bytes: &[u8]) -> Option<usize> {
        let flags = *bytes.first()?;
        let mut row = self.last;
        let mut at = 1;
        row.sequence = row.sequence.wrapping_add(1);
        row.sorted = flags & RowFlags::SORTED != 0;
        if flags & RowFlags::METADATA != 0 {
            row.metadata_id = read_varuint32(bytes, &mut at)?;
        }
        if flags & RowFlags::CAPTURE != 0 {
            row.sequence = row.sequence.wrapping_add(read_varuint32(bytes, &mut at)?);
            row.capture_thread = read_varuint(bytes, &mut at, MAX_VARUINT64)?;
            row.processor = read_varuint32(bytes, &mut at)?;
        }
        if flags & RowFlags::THREAD != 0 {
            row.thread = read_varuint(bytes, &mut at, MAX_VARUINT64)?;
        }
        if flags & RowFlags::STACK != 0 {
            row.stack = read_varuint32(bytes, &mut at)?;
        }
        let delta = read_varuint(bytes, &mut at, MAX_VARUINT64)?;
        row.timestamp = row.timestamp.wrapping_add(delta);
        if flags & RowFlags::LABELS != 0 {
            row.labels = read_varuint32(bytes, &mut at)?;
        }
        if flags & RowFlags::PAYLOAD_LEN != 0 {
            row.payload_len = read_varuint32(bytes, &mut at)?;
        }
        self.last = row;
        Some(at)
    }
}

/// [`RowState::advance`] that also returns what the row says.
#[inline]
pub fn decode_row(state: &mut RowState, bytes: &[u8]) -> Option<(RowHeader, usize)> {
    let header_len = state.advance(bytes)?;
    Some((state.last, header_len))
}

/// Appends a row in the uncompressed form: [`UNCOMPRESSED_ROW_HEADER`] bytes and the payload.
///
/// `payload_len` of the header is ignored: the payload's own length counts. The high bit of the
/// MetadataId field is written as the reference reader takes it, which is set on rows that are
/// *not* sorted; the specification's text has it the other way round.
///
/// # Errors
/// [`FormatError::PayloadTooLarge`]; `out` is then as it was.
pub fn uncompressed_row(
    header: &RowHeader,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    const NOT_SORTED: u32 = 1 << 31;
    if payload.len() > MAX_PAYLOAD {
        return Err(FormatError::PayloadTooLarge { size: payload.len() });
    }
    let payload_len = payload.len() as u32;
    let event_size = UNCOMPRESSED_ROW_HEADER as u32 - 4 + payload_len;
    let mark = if header.sorted { 0 } else { NOT_SORTED };
    out.extend_from_slice(&event_size.to_le_bytes());
    out.extend_from_slice(&(header.metadata_id & !NOT_SORTED | mark).to_le_bytes());
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.thread.to_le_bytes());
    out.extend_from_slice(&header.capture_thread.to_le_bytes());
    out.extend_from_slice(&header.processor.to_le_bytes());
    out.extend_from_slice(&header.stack.to_le_bytes());
    out.extend_from_slice(&header.timestamp.to_le_bytes());
    out.extend_from_slice(&header.labels.to_le_bytes());
    out.extend_from_slice(&payload_len.to_le_bytes());
    out.extend_from_slice(payload);
    Ok(())
}
