//! Event rows: the compressed header.
//!
//! It differs from that of version 6 (see [`v6::RowFlags`](crate::v6::RowFlags)) between timestamp
//! and payload size: it has the two activity ids, flags 16 and 32, instead of a label list. Without
//! labels the headers of all versions are the same.

use alloc::vec::Vec;

use nettrace_event::guid;

use crate::{
    content::RowHeader,
    primitive::{MAX_VARUINT32, MAX_VARUINT64, put_varuint},
    v6::RowFlags,
};

/// The most bytes that a compressed header takes.
pub const MAX_ROW_HEADER: usize = 1 + 5 * MAX_VARUINT32 + 3 * MAX_VARUINT64 + 2 * 16;

/// The header flag that an activity id follows.
pub const ACTIVITY: u8 = 16;

/// The header flag that a related activity id follows.
pub const RELATED_ACTIVITY: u8 = 32;

/// The header of an event's row: everything about the event except its payload.
///
/// [`RowEncoder`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The metadata id of the event's type: 1 to 2^31 - 1.
    pub metadata_id: u32,
    /// The sequence number that the capturing thread gave the event. Readers know threads by their
    /// OS ids, so a thread that gets the id of an ended one must continue its numbers.
    pub sequence: u32,
    /// OS id of the thread that recorded the event.
    pub capture_thread: u64,
    /// The processor that the event was recorded on; 2^32 - 1 if unknown. The reference reader
    /// keeps 8 bits of it.
    pub processor: u32,
    /// OS id of the thread that the event is about.
    pub thread: u64,
    /// Id of the event's stack; 0 for none.
    pub stack: u32,
    /// Time of the event, in ticks.
    pub timestamp: u64,
    /// The activity that the event belongs to: a GUID in the byte order of RFC 4122. `None` is
    /// written as the GUID of zeros.
    pub activity: Option<[u8; 16]>,
    /// The activity that caused that activity: a GUID in the same form.
    pub related: Option<[u8; 16]>,
    /// Whether every later event in the file is at least as young as this one.
    pub sorted: bool,
    /// Size in bytes of the payload that follows the header: at most
    /// [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD).
    pub payload_len: u32,
}

impl From<RowHeader> for Row {
    /// Copies everything except the label list, whose activities the caller must set. The header's
    /// threads must be OS ids.
    fn from(header: RowHeader) -> Self {
        Self {
            metadata_id: header.metadata_id,
            sequence: header.sequence,
            capture_thread: header.capture_thread,
            processor: header.processor,
            thread: header.thread,
            stack: header.stack,
            timestamp: header.timestamp,
            activity: None,
            related: None,
            sorted: header.sorted,
            payload_len: header.payload_len,
        }
    }
}

/// Writes compressed headers. Each event block needs its own encoder.
///
/// ```
/// use nettrace_format::v5::{Row, RowEncoder};
///
/// let first = Row {
///     metadata_id: 1,
///     sequence: 1,
///     capture_thread: 17,
///     thread: 17,
///     timestamp: 6_000,
///     payload_len: 4,
///     ..Row::default()
/// };
/// let second = Row { sequence: 2, timestamp: 6_050, ..first };
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
    previous: Row,
}

impl RowEncoder {
    /// An encoder at the start of a block.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the shortest header for `row`; the caller appends the payload after it.
    ///
    /// The caller must ensure that the payload has at most
    /// [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD) bytes and that the timestamp is not below the
    /// previous one. The format cannot express a smaller timestamp: the difference is taken modulo
    /// 2^64.
    pub fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        self.encode(row, 0, out);
    }

    /// Appends a header that always contains metadata id, sequence number, capture thread,
    /// processor and payload size. The first row of a block needs it, because later rows are deltas
    /// to it.
    pub fn full_row(&mut self, row: &Row, out: &mut Vec<u8>) {
        let explicit = RowFlags::METADATA | RowFlags::CAPTURE | RowFlags::PAYLOAD_LEN;
        self.encode(row, explicit, out);
    }

    fn encode(&mut self, row: &Row, explicit: u8, out: &mut Vec<u8>) {
        debug_assert!(row.payload_len <= u16::MAX.into(), "payload beyond the format");
        debug_assert!(row.metadata_id != 0, "readers do not count rows of metadata id 0");
        let previous = &self.previous;
        let sequence_delta = row.sequence.wrapping_sub(previous.sequence).wrapping_sub(1);
        let capture_changed = sequence_delta != 0
            || row.capture_thread != previous.capture_thread
            || row.processor != previous.processor;
        let guid = |of: Option<[u8; 16]>| of.unwrap_or_default();
        let (activity, related) = (guid(row.activity), guid(row.related));
        let flag = |changed, flag| if changed { flag } else { 0 };
        let flags = explicit
            | flag(row.metadata_id != previous.metadata_id, RowFlags::METADATA)
            | flag(capture_changed, RowFlags::CAPTURE)
            | flag(row.thread != previous.thread, RowFlags::THREAD)
            | flag(row.stack != previous.stack, RowFlags::STACK)
            | flag(activity != guid(previous.activity), ACTIVITY)
            | flag(related != guid(previous.related), RELATED_ACTIVITY)
            | flag(row.sorted, RowFlags::SORTED)
            | flag(row.payload_len != previous.payload_len, RowFlags::PAYLOAD_LEN);

        let mut bytes = [0; MAX_ROW_HEADER];
        bytes[0] = flags;
        let mut at = 1;
        let mut put = |present, value: u64| {
            if present {
                at = put_varuint(&mut bytes, at, value);
            }
        };
        let has = |flag| flags & flag != 0;
        put(has(RowFlags::METADATA), row.metadata_id.into());
        put(has(RowFlags::CAPTURE), sequence_delta.into());
        put(has(RowFlags::CAPTURE), row.capture_thread);
        put(has(RowFlags::CAPTURE), row.processor.into());
        put(has(RowFlags::THREAD), row.thread);
        put(has(RowFlags::STACK), row.stack.into());
        put(true, row.timestamp.wrapping_sub(previous.timestamp));
        for (present, guid) in [(has(ACTIVITY), activity), (has(RELATED_ACTIVITY), related)] {
            if present {
                bytes[at..at + 16].copy_from_slice(&guid::swapped(&guid));
                at += 16;
            }
        }
        if has(RowFlags::PAYLOAD_LEN) {
            at = put_varuint(&mut bytes, at, row.payload_len.into());
        }
        out.extend_from_slice(&bytes[..at]);
        self.previous = *row;
    }
}
