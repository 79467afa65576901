//! Event rows: the compressed header, its decoder, and the uncompressed form.
//!
//! A compressed header contains only what changed since the previous row of the same block; before
//! the first row every value is 0. The first byte states which groups follow ([`RowFlags`]):
//!
//! | flag | group | if absent |
//! |---|---|---|
//! | 1 | metadata id, varuint32 | unchanged |
//! | 2 | skipped numbers, varuint32 | 0 |
//! | 2 | then capture thread, varuint64; processor, varuint32 | unchanged |
//! | 4 | thread, varuint64 | unchanged |
//! | 8 | stack, varuint32 | unchanged |
//! | always | timestamp minus the previous one, varuint64 | |
//! | 16 | label list, varuint32 | unchanged |
//! | 64 | none: the row is sorted | not sorted |
//! | 128 | payload size, varuint32 | unchanged |
//!
//! "Skipped numbers" is the sequence number minus the previous one minus 1, modulo 2^32.
//!
//! The reference reader accepts LEB128 numbers that are padded to a fixed width (up to 5 bytes for
//! 32 bits, 10 for 64). A producer can thus reserve room for a number that it does not know yet.

use alloc::vec::Vec;

use crate::{
    content::{RowChange, RowHeader},
    error::FormatError,
    payload::MAX_PAYLOAD,
    primitive::{
        MAX_VARUINT32, MAX_VARUINT64, put_varuint, read_varuint, read_varuint32, varuint32_word,
    },
};

/// The most bytes that a compressed header takes.
pub const MAX_ROW_HEADER: usize = 1 + 6 * MAX_VARUINT32 + 3 * MAX_VARUINT64;

/// Size in bytes of an uncompressed row without its payload, including the EventSize field.
pub const UNCOMPRESSED_ROW_HEADER: usize = 52;

/// The bits of the first byte of a compressed header.
///
/// ```
/// use nettrace_format::v6::{RowEncoder, RowFlags, RowHeader};
///
/// let mut row = Vec::new();
/// let header = RowHeader { metadata_id: 1, stack: 5, sorted: true, ..RowHeader::default() };
/// RowEncoder::new().full_row(&header, &mut row);
/// assert_ne!(row[0] & RowFlags::STACK, 0);
/// assert_ne!(row[0] & RowFlags::SORTED, 0);
/// assert_eq!(row[0] & RowFlags::LABELS, 0);
/// ```
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
    /// Every later event in the file is at least as young.
    pub const SORTED: u8 = 64;
    /// The payload size follows.
    pub const PAYLOAD_LEN: u8 = 128;
}

/// Writes compressed headers. Each Event block needs its own encoder.
///
/// ```
/// use nettrace_format::v6::{RowEncoder, RowHeader};
///
/// let first = RowHeader {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: 1,
///     thread: 1,
///     timestamp: 6_000,
///     payload_len: 4,
///     ..RowHeader::default()
/// };
/// let second = RowHeader { sequence: 2, timestamp: 6_050, ..first };
/// let (mut encoder, mut rows) = (RowEncoder::new(), Vec::new());
/// encoder.full_row(&first, &mut rows);
/// rows.extend(1_250_u32.to_le_bytes());
/// let begin = rows.len();
/// encoder.row(&second, &mut rows);
/// // No flags, and 50 ticks.
/// assert_eq!(rows[begin..], [0, 50]);
/// rows.extend(1_300_u32.to_le_bytes());
/// ```
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

    /// Appends the shortest header for `header`; the caller appends the payload after it.
    ///
    /// The caller must ensure that the payload has at most [`MAX_PAYLOAD`] bytes (65,535 when
    /// copying the rows of another writer) and that the timestamp is not below the previous one.
    /// The format cannot express a smaller timestamp: the difference is taken modulo 2^64.
    #[inline]
    pub fn row(&mut self, header: &RowHeader, out: &mut Vec<u8>) {
        self.encode(header, 0, out);
    }

    /// Appends a header that always contains metadata id, sequence number, capture thread,
    /// processor and payload size. The first row of a block needs it, because later rows are deltas
    /// to it.
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

/// The groups that a [plain row](change_row) does not have.
const CHANGES: u8 = RowFlags::CAPTURE | RowFlags::THREAD | RowFlags::STACK | RowFlags::LABELS;

/// Writes the header of a plain row again, with a change. A plain row has no group but metadata id,
/// timestamp and payload size.
///
/// Appends the header as far as the payload size. Returns how many bytes of `row` that is: the rest
/// of the row follows unchanged. Returns `None`, and appends nothing, if `row` is not a plain row.
///
/// ```
/// use nettrace_format::v6::{RowChange, RowFlags, change_row};
///
/// // No flags, and 50 ticks; the payload follows. The row gets a stack.
/// let change = RowChange { stack: Some(9), ..RowChange::default() };
/// let mut out = Vec::new();
/// assert_eq!(change_row(&[0, 50, 20, 5, 0, 0], &change, &mut out), Some(2));
/// assert_eq!(out, [RowFlags::STACK, 9, 50]);
/// ```
pub fn change_row(row: &[u8], change: &RowChange, out: &mut Vec<u8>) -> Option<usize> {
    let (bytes, len, end) = changed_header(row, change)?;
    out.extend_from_slice(&bytes[..len]);
    Some(end)
}

/// The header of a plain row with a change, its length, and that of what it replaces.
fn changed_header(row: &[u8], change: &RowChange) -> Option<([u8; MAX_ROW_HEADER], usize, usize)> {
    let flags = *row.first()?;
    if flags & CHANGES != 0 {
        return None;
    }
    let mut end = 1;
    let metadata = (flags & RowFlags::METADATA != 0).then(|| read_varuint32(row, &mut end));
    let delta = read_varuint(row, &mut end, MAX_VARUINT64)?;

    let mut bytes = [0; MAX_ROW_HEADER];
    let mut at = 1;
    let mut put = |value: u64| at = put_varuint(&mut bytes, at, value);
    let mut new_flags = flags;
    if let Some(id) = metadata {
        put(id?.into());
    }
    if let Some((skipped, capture_thread, processor)) = change.skipped {
        new_flags |= RowFlags::CAPTURE;
        put(skipped.into());
        put(capture_thread);
        put(processor.into());
    }
    if let Some(thread) = change.thread {
        new_flags |= RowFlags::THREAD;
        put(thread);
    }
    if let Some(stack) = change.stack {
        new_flags |= RowFlags::STACK;
        put(stack.into());
    }
    put(delta);
    if let Some(labels) = change.labels {
        new_flags |= RowFlags::LABELS;
        put(labels.into());
    }
    bytes[0] = new_flags;
    Some((bytes, at, end))
}

/// How many bytes [`relabel_row`] may write.
pub const RELABEL_ROOM: usize = 24;

/// [`change_row`] for a row that has another label list and no other change. Writes to memory that
/// is there, because callers do this for each of many rows.
///
/// Returns how many bytes of `row` the header replaces, and how many bytes it has. What `out` has
/// behind these is arbitrary then.
///
/// ```
/// use nettrace_format::v6::{RELABEL_ROOM, RowFlags, relabel_row};
///
/// // No flags, and 50 ticks; the payload follows.
/// let mut out = [0; RELABEL_ROOM];
/// assert_eq!(relabel_row(&[0, 50, 20, 5, 0, 0, 0, 0], 300, &mut out), Some((2, 4)));
/// assert_eq!(out[..4], [RowFlags::LABELS, 50, 0xAC, 2]);
/// ```
#[inline(always)]
pub fn relabel_row(
    row: &[u8],
    labels: u32,
    out: &mut [u8; RELABEL_ROOM],
) -> Option<(usize, usize)> {
    let slowly = |out| {
        let (replaced, len) = relabel_slowly(row, labels, out)?;
        Some((replaced.into(), len.into()))
    };
    let Some(start) = row.first_chunk::<8>() else { return slowly(out) };
    let (flags, word) = (start[0], u64::from_le_bytes(*start));
    if flags & CHANGES != 0 {
        return None;
    }
    // The highest bit of each byte that is the last of a number. The byte of flags is not.
    let mut ends = !word & 0x8080_8080_8080_8000;
    if flags & RowFlags::METADATA != 0 {
        ends &= ends.wrapping_sub(1);
    }
    if ends == 0 {
        return slowly(out);
    }
    let end = ends.trailing_zeros() as usize / 8 + 1;
    let head = word | u64::from(RowFlags::LABELS);
    let (id, id_len) = varuint32_word(labels);
    // All 8 bytes, so that their number is constant.
    out[..8].copy_from_slice(&head.to_le_bytes());
    out[end..end + 8].copy_from_slice(&id.to_le_bytes());
    Some((end, end + id_len))
}

/// [`relabel_row`] for any row. The numbers are small, so that they come in a register.
#[cold]
#[inline(never)]
fn relabel_slowly(row: &[u8], labels: u32, out: &mut [u8; RELABEL_ROOM]) -> Option<(u8, u8)> {
    let change = RowChange { labels: Some(labels), ..RowChange::default() };
    let (bytes, len, end) = changed_header(row, &change)?;
    // Flags, two ids and a time are fewer bytes.
    out.get_mut(..len)?.copy_from_slice(&bytes[..len]);
    Some((end as u8, len as u8))
}

/// The state of a walk over compressed rows: the last row's header.
///
/// ```
/// use nettrace_format::v6::{RowEncoder, RowHeader, RowState};
///
/// // Two rows with payloads of one byte.
/// let first = RowHeader { metadata_id: 1, sequence: 1, payload_len: 1, ..RowHeader::default() };
/// let second = RowHeader { sequence: 2, timestamp: 50, ..first };
/// let (mut encoder, mut rows) = (RowEncoder::new(), Vec::new());
/// for header in [&first, &second] {
///     encoder.row(header, &mut rows);
///     rows.push(7);
/// }
///
/// let (mut state, mut at, mut times) = (RowState::new(), 0, Vec::new());
/// while at < rows.len() {
///     at += state.advance(&rows[at..]).expect("the rows are whole");
///     at += state.last().payload_len as usize;
///     times.push(state.last().timestamp);
/// }
/// assert_eq!(times, [0, 50]);
/// ```
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

    /// The state after a row with the header `last`.
    ///
    /// ```
    /// use nettrace_format::v6::{RowHeader, RowState};
    ///
    /// // Goes on in the middle of a block, at a row without flags, 50 ticks later.
    /// let last = RowHeader { sequence: 6, timestamp: 100, ..RowHeader::default() };
    /// let mut state = RowState::after(last);
    /// assert_eq!(state.advance(&[0, 50]), Some(2));
    /// assert_eq!((state.last().sequence, state.last().timestamp), (7, 150));
    /// ```
    #[must_use]
    pub const fn after(last: RowHeader) -> Self {
        Self { last }
    }

    /// The last row's header; all zero before the first row.
    #[must_use]
    pub const fn last(&self) -> &RowHeader {
        &self.last
    }

    /// Reads the header at the start of `bytes` and returns its length in bytes. The payload, of
    /// `self.last().payload_len` bytes, follows it and is not read.
    ///
    /// Returns `None` if the bytes are not a header: they end early, or a number is too large. The
    /// state is then unchanged. Numbers may be padded.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        // The most common form: flags and a short timestamp. It has a branch of its own, and the
        // other forms are not inlined, so that the processor can predict the length and go on to
        // the next row.
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

/// Calls [`RowState::advance`] and also returns the row's header.
///
/// ```
/// use nettrace_format::v6::{RowState, decode_row};
///
/// let mut state = RowState::new();
/// let (header, len) = decode_row(&mut state, &[0, 50, 1]).expect("a header of two bytes");
/// assert_eq!((header.sequence, header.timestamp, len), (1, 50, 2));
/// assert_eq!(decode_row(&mut state, &[]), None);
/// ```
#[inline]
pub fn decode_row(state: &mut RowState, bytes: &[u8]) -> Option<(RowHeader, usize)> {
    let header_len = state.advance(bytes)?;
    Some((state.last, header_len))
}

/// Appends a row in the uncompressed form: [`UNCOMPRESSED_ROW_HEADER`] bytes and the payload.
///
/// The length of `payload` is written; the header's `payload_len` is ignored. The high bit of the
/// MetadataId field follows the reference reader, which takes it as set on rows that are *not*
/// sorted. The specification's text states the opposite.
///
/// # Errors
/// [`FormatError::PayloadTooLarge`]. An error leaves `out` unchanged.
///
/// ```
/// use nettrace_format::v6::{
///     RowHeader, UNCOMPRESSED_ROW_HEADER, event_block_header, uncompressed_row,
/// };
///
/// let header =
///     RowHeader { metadata_id: 1, sequence: 1, timestamp: 6_000, ..RowHeader::default() };
/// let mut rows = Vec::new();
/// uncompressed_row(&header, &1_250_u32.to_le_bytes(), &mut rows)?;
/// assert_eq!(rows.len(), UNCOMPRESSED_ROW_HEADER + 4);
/// let mut block = event_block_header(6_000, 6_000, false, rows.len())?.to_vec();
/// block.extend(rows);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
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
