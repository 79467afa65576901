//! Shared by the tests: builds whole files from single events, and runs the reference reader.

use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};
use nettrace_format::{
    payload::{NetTraceEncoder, Refusal, VecBuffer},
    v5,
    v6::{
        self, BlockKind, RowEncoder, RowHeader, SequencePointFlags, SystemTimeParts, ThreadInfo,
        ThreadSequence, TraceInfo,
    },
};
use serde_json::Value;
use testkit::reference::{self, Trace};

/// The clock of the traces that tests write: ticks of 100 ns.
pub(crate) const TICKS_PER_SECOND: u64 = 10_000_000;

/// The thread that records everything, and its OS ids.
pub(crate) const THREAD: u64 = 900_000;
pub(crate) const PROCESS_ID: u64 = 4_242;
pub(crate) const OS_THREAD_ID: u64 = 4_243;

pub(crate) const fn field(name: &'static str, ty: FieldType) -> FieldSchema {
    FieldSchema::new(name, ty)
}

pub(crate) const fn schema(
    id: u16,
    name: &'static str,
    fields: &'static [FieldSchema],
) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: "Test-Format", guid: None, group: None },
        name,
        id,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: Some(0),
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields,
    }
}

/// Encodes a payload by calls of the encoder.
pub(crate) fn encode(
    values: impl FnOnce(&mut NetTraceEncoder<VecBuffer>),
) -> Result<Vec<u8>, Refusal> {
    let mut encoder = NetTraceEncoder::new(VecBuffer::new());
    values(&mut encoder);
    encoder.finish().into_payload()
}

pub(crate) fn trace_info() -> TraceInfo<'static> {
    TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_709_210_096_789),
        sync_ticks: 1_000,
        ticks_per_second: TICKS_PER_SECOND,
        pointer_size: 8,
        key_values: &[("ProcessId", "4242"), ("HardwareThreadCount", "2")],
    }
}

/// The start of a file, up to and including the one thread.
pub(crate) fn start() -> Vec<u8> {
    let mut out = Vec::new();
    v6::stream_header(&mut out);
    v6::trace_block(&trace_info(), &mut out).unwrap();
    let mut rows = Vec::new();
    let thread = ThreadInfo {
        index: THREAD,
        name: Some("main"),
        process_id: Some(PROCESS_ID),
        os_thread_id: Some(OS_THREAD_ID),
        key_values: &[],
    };
    v6::thread_row(&thread, &mut rows).unwrap();
    v6::thread_block(&rows, &mut out).unwrap();
    out
}

/// The header of the `sequence`-th event of the one thread.
pub(crate) fn header(metadata_id: u32, sequence: u32, payload: &[u8]) -> RowHeader {
    RowHeader {
        metadata_id,
        sequence,
        capture_thread: THREAD,
        thread: THREAD,
        timestamp: 1_000 + 10 * u64::from(sequence),
        sorted: sequence == 1,
        payload_len: payload.len() as u32,
        ..RowHeader::default()
    }
}

/// Appends an event block of compressed rows.
pub(crate) fn event_block(rows: &[(RowHeader, Vec<u8>)], out: &mut Vec<u8>) {
    let mut encoder = RowEncoder::new();
    let mut bytes = Vec::new();
    for (index, (header, payload)) in rows.iter().enumerate() {
        match index {
            0 => encoder.full_row(header, &mut bytes),
            _ => encoder.row(header, &mut bytes),
        }
        bytes.extend_from_slice(payload);
    }
    let first = rows[0].0.timestamp;
    let last = rows[rows.len() - 1].0.timestamp;
    out.extend_from_slice(&v6::event_block_header(first, last, true, bytes.len()).unwrap());
    out.extend_from_slice(&bytes);
}

/// A whole file: one event of each type.
pub(crate) fn file(events: &[(EventSchema, Vec<u8>)]) -> Vec<u8> {
    let mut out = start();
    let mut rows = Vec::new();
    for (index, (schema, _)) in events.iter().enumerate() {
        v6::metadata_row(index as u32 + 1, schema, &mut rows).unwrap();
    }
    v6::metadata_block(&rows, &mut out).unwrap();
    let rows: Vec<_> = events
        .iter()
        .zip(1..)
        .map(|((_, payload), number)| (header(number, number, payload), payload.clone()))
        .collect();
    event_block(&rows, &mut out);
    let threads = [ThreadSequence { thread: THREAD, sequence: events.len() as u32 }];
    v6::sequence_point(10_000_000, SequencePointFlags::default(), &threads, &mut out).unwrap();
    v6::remove_thread_block(&threads, &mut out).unwrap();
    out.extend_from_slice(&v6::END_OF_STREAM);
    out
}

/// Bytes given in hexadecimal, UTF-8 in double quotes, UTF-16 with its NUL in single quotes.
pub(crate) fn bytes(given: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut rest, mut digits) = (given, Vec::new());
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '"' | '\'' => {
                let (text, behind) = rest.split_once(first).unwrap();
                if first == '"' {
                    bytes.extend_from_slice(text.as_bytes());
                } else {
                    bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
                }
                rest = behind;
            }
            _ => digits.extend(first.to_digit(16)),
        }
        if let [high, low] = digits[..] {
            bytes.push((high << 4 | low) as u8);
            digits.clear();
        }
    }
    assert!(digits.is_empty(), "{given}");
    bytes
}

/// The facts about the trace of [`stream_at`].
pub(crate) fn older_info() -> TraceInfo<'static> {
    TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_709_210_096_789),
        sync_ticks: 0x0102,
        ticks_per_second: 1_000,
        pointer_size: 8,
        key_values: &[("a", "b"), ("ExpectedCPUSamplingRate", "256")],
    }
}

/// A stream whose next block begins at `position`, if a block can begin there.
pub(crate) fn stream_at(version: v5::Version, position: u64) -> v5::Stream {
    let mut stream = v5::Stream::new(version);
    stream.begin(&older_info(), 1, 1, &mut Vec::new()).unwrap();
    let ahead = position - stream.position();
    // 30 bytes of start, padding, header, rows, the end.
    let mut out = Vec::new();
    stream.event_block(0, 0, ahead as usize - 56 - 3, &mut out).unwrap();
    while stream.position() < position {
        stream = {
            let mut longer = v5::Stream::new(version);
            longer.begin(&older_info(), 1, 1, &mut Vec::new()).unwrap();
            let rows = ahead as usize - 56 - 3 + (position - stream.position()) as usize;
            longer.event_block(0, 0, rows, &mut out).unwrap();
            longer
        };
    }
    assert_eq!(stream.position(), position);
    stream
}

/// The start of a file of version 4 or 5, and the stream to continue it.
pub(crate) fn older_start(version: v5::Version) -> (v5::Stream, Vec<u8>) {
    let mut stream = v5::Stream::new(version);
    let mut out = Vec::new();
    stream.begin(&trace_info(), PROCESS_ID as u32, 2, &mut out).unwrap();
    (stream, out)
}

/// The `sequence`-th row of the one thread, in versions 4 and 5.
pub(crate) fn older_row(metadata_id: u32, sequence: u32, payload: &[u8]) -> v5::Row {
    let ids = RowHeader {
        capture_thread: OS_THREAD_ID,
        thread: OS_THREAD_ID,
        ..header(metadata_id, sequence, payload)
    };
    v5::Row::from(ids)
}

/// Appends an event block of version 4 or 5.
pub(crate) fn older_event_block(
    stream: &mut v5::Stream,
    rows: &[(v5::Row, Vec<u8>)],
    out: &mut Vec<u8>,
) {
    let mut encoder = v5::RowEncoder::new();
    let mut bytes = Vec::new();
    for (index, (row, payload)) in rows.iter().enumerate() {
        match index {
            0 => encoder.full_row(row, &mut bytes),
            _ => encoder.row(row, &mut bytes),
        }
        bytes.extend_from_slice(payload);
    }
    let (first, last) = (rows[0].0.timestamp, rows[rows.len() - 1].0.timestamp);
    let tail = stream.event_block(first, last, bytes.len(), out).unwrap();
    out.extend_from_slice(&bytes);
    out.extend_from_slice(&tail);
    assert_eq!(stream.position(), out.len() as u64);
}

/// A whole file of version 4 or 5: one event of each type, with payloads in the types of version 6.
pub(crate) fn older_file(version: v5::Version, events: &[(EventSchema, Vec<u8>)]) -> Vec<u8> {
    let (mut stream, mut out) = older_start(version);
    let schemas: &'static [EventSchema] =
        events.iter().map(|(schema, _)| *schema).collect::<Vec<_>>().leak();
    let types: Vec<_> = (1..).zip(schemas).collect();
    stream.metadata(&types, &mut out).unwrap();
    let rows: Vec<_> = events
        .iter()
        .zip(1..)
        .map(|((schema, payload), number)| {
            let mut mapped = Vec::new();
            v5::map_payload(version, schema, payload, &mut mapped).unwrap();
            if !v5::needs_mapping(version, schema) {
                assert_eq!(mapped, *payload, "{}", schema.name);
            }
            (older_row(number, number, &mapped), mapped)
        })
        .collect();
    older_event_block(&mut stream, &rows, &mut out);
    let threads = [(OS_THREAD_ID, events.len() as u32)];
    stream.sequence_point(10_000_000, &threads, &mut out).unwrap();
    assert_eq!(stream.position(), out.len() as u64);
    out.extend_from_slice(&v5::Stream::END_OF_STREAM);
    out
}

/// One block of any kind with the given bytes.
pub(crate) fn raw_block(kind: BlockKind, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    v6::block(kind, &mut out, |out| {
        out.extend_from_slice(content);
        Ok(())
    })
    .unwrap();
    out
}

/// The reference reader's output for a file.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The events, one JSON object each.
    pub(crate) events: Vec<Value>,
    /// The last line of its output.
    pub(crate) summary: String,
    /// Its standard error.
    pub(crate) errors: String,
    /// Whether it read to the end.
    pub(crate) accepted: bool,
}

impl Verdict {
    /// Asserts that the file was read to its end with nothing lost or out of order.
    pub(crate) fn assert_clean(&self) -> &Self {
        assert!(self.accepted, "{}\n{}", self.summary, self.errors);
        assert!(self.summary.contains(" lost=0 "), "{}", self.summary);
        assert!(self.summary.contains(" unsorted=0 "), "{}", self.summary);
        self
    }
}

/// Runs the reference reader on a file.
pub(crate) fn judge_events(file: &[u8]) -> Option<Verdict> {
    if !testkit::effort::in_full() {
        println!("the reference reader is not asked: `cargo xtask judge` does");
        return None;
    }
    let verdict = reference::ask(&["events", "--types"], Trace::Bytes(file))?;
    let events = verdict.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reference::Verdict { totals: summary, errors, accepted, .. } = verdict;
    Some(Verdict { events, summary, errors, accepted })
}

/// Opens a file with `dotnet-trace`, which uses an older library than the reference reader. Panics
/// if it refuses the file.
pub(crate) fn dotnet_trace_opens(file: &[u8]) {
    reference::dotnet_trace_opens(&Trace::Bytes(file));
}
