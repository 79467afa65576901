//! Event rows: the compressed header.
//!
//! It differs from that of version 6 (see [`v6::RowFlags`](crate::v6::RowFlags)) in what stands
//! between timestamp and payload size: the two activity ids, flags 16 and 32, in the place of a
//! label list. A producer that writes no labels need not know which of the two it writes.

use alloc::vec::Vec;

use crate::{
    content::RowHeader,
    primitive::{self, MAX_VARUINT32, MAX_VARUINT64, put_varuint},
    v6::RowFlags,
};

/// The most bytes that a compressed header takes.
pub const MAX_ROW_HEADER: usize = 1 + 5 * MAX_VARUINT32 + 3 * MAX_VARUINT64 + 2 * 16;

/// The flag of a header in which the activity id follows.
pub const ACTIVITY: u8 = 16;

/// The flag of a header in which the related activity id follows.
pub const RELATED_ACTIVITY: u8 = 32;

/// Everything about one event but its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The metadata id of the event's type: 1 to 2^31 - 1.
    pub metadata_id: u32,
    /// The number that the capturing thread gave the event. Readers know threads by their ids in
    /// the operating system: one that gets the id of another which is gone must go on counting
    /// where that one stopped.
    pub sequence: u32,
    /// The id, in the operating system, of the thread that recorded the event.
    pub capture_thread: u64,
    /// The processor it ran on, 2^32 - 1 where that is not known. The reference reader keeps 8 bits
    /// of it.
    pub processor: u32,
    /// The id, in the operating system, of the thread that the event is about.
    pub thread: u64,
    /// The event's stack, 0 for none.
    pub stack: u32,
    /// When, in ticks.
    pub timestamp: u64,
    /// The activity that the event belongs to: a GUID in the byte order of RFC 4122. `None` is
    /// written as the GUID of zeros.
    pub activity: Option<[u8; 16]>,
    /// The activity that caused it, likewise.
    pub related: Option<[u8; 16]>,
    /// Whether no later event of the file is older than this one.
    pub sorted: bool,
    /// Bytes of payload behind the header: at most [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD).
    pub payload_len: u32,
}

impl From<RowHeader> for Row {
    /// The same row, without activities: what a label list says must be set by the caller. The
    /// header's threads must be ids of the operating system.
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

/// Writes compressed headers: one encoder for each event block.
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

    /// Appends the shortest header that says `row`; the payload goes behind it.
    ///
    /// The caller has seen to it that the payload is at most
    /// [`MAX_PAYLOAD`](crate::payload::MAX_PAYLOAD) bytes long and that the timestamp is not below
    /// the one before: the format has no way to say otherwise (the difference is taken modulo
    /// 2^64).
    pub fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        self.encode(row, 0, out);
    }

    /// Appends a header in which metadata id, sequence number, capture thread, processor and
    /// payload size are explicit whether they changed or not: for the first row of a block, whose
    /// followers are deltas to it.
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
                bytes[at..at + 16].copy_from_slice(&primitive::guid(&guid));
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
