//! Streams as a session writes them, with the times and the order that a test chooses.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{collections::BTreeMap, io::IoSlice};

use nettrace_event::{
    EventSchema, FieldSchema, FieldType, Level, PayloadEncoder as _, Place, ProviderSchema,
    StrEncoding, TraceField,
};
use nettrace_format::{
    payload::{NetTraceEncoder, VecBuffer},
    v6::{
        self, END_OF_STREAM, Label, RowEncoder, RowHeader, SequencePointFlags, SystemTimeParts,
        ThreadInfo, ThreadSequence, TraceInfo,
    },
};
use nettrace_writer::{
    Outcome,
    sink::{Batch, Sink, StreamEnd, WriteError},
};

/// A type of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    RootStart = 1,
    RootStop,
    ChildStart,
    ChildStop,
    Tick,
    Failure,
    Single,
}

/// The time at which each stream begins. Nothing in it is older.
pub(crate) const BEGIN: u64 = 1;
/// The least ticks of a root that are slow: a tick is a microsecond.
pub(crate) const SLOW: u64 = 1_000;
const KEY: (&str, &str) = ("nettrace.tail", "1ms");

const NUMBER: FieldSchema = FieldSchema::new("number", FieldType::U64);
const DURATION: FieldSchema = FieldSchema::new("duration", FieldType::DurationNanos);
const OUTCOME: FieldSchema = FieldSchema::new("outcome", <Outcome as TraceField>::TYPE);

const fn schema(
    name: &'static str,
    id: u16,
    opcode: Option<u8>,
    key_values: &'static [(&'static str, &'static str)],
    fields: &'static [FieldSchema],
) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: "Tail", guid: None, group: None },
        name,
        id,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: if id == 6 { Level::Error } else { Level::Informational },
        keywords: 0,
        opcode,
        tag: 0,
        message: None,
        description: None,
        key_values,
        fields,
    }
}

static SCHEMAS: [EventSchema; 7] = [
    schema("RootStart", 1, Some(1), &[KEY], &[NUMBER]),
    schema("RootStop", 2, Some(2), &[KEY], &[NUMBER, DURATION, OUTCOME]),
    schema("ChildStart", 3, Some(1), &[], &[NUMBER]),
    schema("ChildStop", 4, Some(2), &[], &[NUMBER, DURATION, OUTCOME]),
    schema("Tick", 5, None, &[], &[NUMBER]),
    schema("Failure", 6, None, &[], &[NUMBER]),
    schema("One", 7, None, &[KEY, ("nettrace.span", "single")], &[NUMBER, DURATION, OUTCOME]),
];

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) at: u64,
    pub(crate) ty: Ty,
    /// A number that tells it from all other rows.
    pub(crate) number: u64,
    /// Trace and span.
    pub(crate) span: Option<(u64, u64)>,
    /// Of spans of one event, in ticks.
    pub(crate) duration: u64,
    pub(crate) outcome: Outcome,
}

/// Writes streams into a sink.
pub(crate) struct Source<S> {
    pub(crate) sink: S,
    rows: BTreeMap<u64, Vec<(u32, Row)>>,
    /// The last number of each thread, in this stream.
    numbers: BTreeMap<u64, u32>,
    /// How many threads have ended.
    ended: u64,
    /// The index of each thread.
    indices: BTreeMap<u64, u64>,
    ids: BTreeMap<(u64, u64), u32>,
    bytes: Vec<u8>,
    latest: u64,
}

impl<S: Sink> Source<S> {
    pub(crate) fn new(sink: S) -> Self {
        let mut new = Self {
            sink,
            rows: BTreeMap::new(),
            numbers: BTreeMap::new(),
            ended: 0,
            indices: BTreeMap::new(),
            ids: BTreeMap::new(),
            bytes: Vec::new(),
            latest: 0,
        };
        new.start();
        new
    }

    /// Begins a stream. There must be no rows.
    pub(crate) fn start(&mut self) {
        let mut header = Vec::new();
        v6::stream_header(&mut header);
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
            sync_ticks: BEGIN,
            ticks_per_second: 1_000_000,
            pointer_size: 8,
            key_values: &[],
        };
        v6::trace_block(&info, &mut header).unwrap();
        self.sink.start(&header, StreamEnd::new(&END_OF_STREAM)).unwrap();
        (self.numbers, self.ids) = Default::default();
        let mut rows = Vec::new();
        for (schema, id) in SCHEMAS.iter().zip(1..) {
            v6::metadata_row(id, schema, &mut rows).unwrap();
        }
        v6::metadata_block(&rows, &mut self.bytes).unwrap();
    }

    /// Records a row on a thread.
    pub(crate) fn row(&mut self, thread: u64, row: Row) {
        let (index, number) = self.number(thread);
        self.rows.entry(index).or_default().push((number, row));
    }

    /// Loses a row of a thread.
    pub(crate) fn lose(&mut self, thread: u64) {
        self.number(thread);
    }

    /// The index of a thread, and its next number.
    fn number(&mut self, thread: u64) -> (u64, u32) {
        // The index of a thread that has ended is not used again.
        let new = thread + 10 * self.ended;
        let index = *self.indices.entry(thread).or_insert(new);
        if !self.numbers.contains_key(&index) {
            let mut rows = Vec::new();
            v6::thread_row(&ThreadInfo { index, ..ThreadInfo::default() }, &mut rows).unwrap();
            v6::thread_block(&rows, &mut self.bytes).unwrap();
        }
        let number = self.numbers.entry(index).or_default();
        *number += 1;
        (index, *number)
    }

    /// Ends a thread, whose rows must be written.
    pub(crate) fn end(&mut self, thread: u64) {
        let Some(thread) = self.indices.remove(&thread) else { return };
        if let Some(sequence) = self.numbers.remove(&thread) {
            self.ended += 1;
            v6::remove_thread_block(&[ThreadSequence { thread, sequence }], &mut self.bytes)
                .unwrap();
        }
    }

    /// Makes blocks of the rows of all threads: the one with the oldest row comes first.
    pub(crate) fn round(&mut self) {
        let mut threads: Vec<_> = std::mem::take(&mut self.rows).into_iter().collect();
        threads.sort_by_key(|(_, rows)| rows[0].1.at);
        for (at, (thread, rows)) in threads.into_iter().enumerate() {
            self.thread_rows(thread, &rows, at == 0);
        }
    }

    fn thread_rows(&mut self, thread: u64, rows: &[(u32, Row)], is_oldest: bool) {
        let mut new: Vec<[Label<'_>; 2]> = Vec::new();
        let first = self.ids.len() as u32 + 1;
        for span in rows.iter().filter_map(|(_, row)| row.span) {
            let next = self.ids.len() as u32 + 1;
            self.ids.entry(span).or_insert_with(|| {
                let mut trace = [7; 16];
                trace[..8].copy_from_slice(&span.0.to_le_bytes());
                new.push([Label::TraceId(trace), Label::SpanId(span.1)]);
                next
            });
        }
        let lists: Vec<&[Label<'_>]> = new.iter().map(|list| &list[..]).collect();
        v6::label_list_block(first, &lists, &mut self.bytes).unwrap();
        let (mut encoder, mut encoded) = (RowEncoder::new(), Vec::new());
        for (at, (sequence, row)) in rows.iter().enumerate() {
            let payload = payload(row);
            let header = RowHeader {
                metadata_id: row.ty as u32,
                sequence: *sequence,
                capture_thread: thread,
                thread,
                timestamp: row.at,
                labels: row.span.map_or(0, |span| self.ids[&span]),
                sorted: at == 0 && is_oldest,
                payload_len: payload.len() as u32,
                ..RowHeader::default()
            };
            match at {
                0 => encoder.full_row(&header, &mut encoded),
                _ => encoder.row(&header, &mut encoded),
            }
            encoded.extend(payload);
            self.latest = self.latest.max(row.at);
        }
        let (first, last) = (rows[0].1.at, rows[rows.len() - 1].1.at);
        self.bytes.extend(v6::event_block_header(first, last, true, encoded.len()).unwrap());
        self.bytes.extend(encoded);
    }

    /// Adds a sequence point. All rows must be in blocks.
    pub(crate) fn point(&mut self, at: u64) {
        let threads = self.numbers.iter();
        let threads: Vec<_> =
            threads.map(|(&thread, &sequence)| ThreadSequence { thread, sequence }).collect();
        v6::sequence_point(at, SequencePointFlags::default(), &threads, &mut self.bytes).unwrap();
        self.ids.clear();
    }

    /// Hands the blocks over. If the sink does not take them, they stay.
    pub(crate) fn write(&mut self) -> Result<(), WriteError> {
        let (mut ends, mut at) = (Vec::new(), 0);
        while let Some(header) = self.bytes[at..].first_chunk::<4>() {
            at += 4 + (u32::from_le_bytes(*header) & 0xFF_FFFF) as usize;
            ends.push(at as u64);
        }
        let result = self.sink.write(&Batch::new(&[IoSlice::new(&self.bytes)], &ends));
        if result.as_ref().err().is_none_or(|error| error.kept > 0) {
            self.bytes.clear();
        }
        result
    }
}

fn payload(row: &Row) -> Vec<u8> {
    let mut payload = NetTraceEncoder::new(VecBuffer::default());
    payload.u64(row.number);
    if matches!(row.ty, Ty::RootStop | Ty::ChildStop | Ty::Single) {
        payload.duration_nanos(row.duration * 1_000);
        let FieldType::Str(encoding) = <Outcome as TraceField>::TYPE else {
            payload.str(row.outcome.as_str(), StrEncoding::Utf8);
            return payload.finish().into_payload().unwrap();
        };
        payload.str(row.outcome.as_str(), encoding);
    }
    payload.finish().into_payload().unwrap()
}

/// What a trace has: the numbers of its rows, in its order, and the values of the last event that
/// tells what was left out.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) numbers: Vec<u64>,
    pub(crate) told: Option<[u64; 5]>,
    pub(crate) lost: u64,
}

/// Reads a trace. It must keep every promise of a writer.
pub(crate) fn read(bytes: &[u8]) -> Read {
    let report = nettrace_reader::verify(bytes).expect("memory can be read");
    assert!(report.is_sound(), "{report:?}");
    let mut reader = nettrace_reader::Reader::new(bytes).expect("a trace");
    let mut read = Read { lost: report.lost, ..Read::default() };
    while let Some(event) = reader.next_event().expect("a whole trace") {
        let word = |at: usize| u64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap());
        match &*event.metadata().provider {
            nettrace_writer::tail::PROVIDER => read.told = Some([0, 8, 16, 24, 32].map(word)),
            _ => read.numbers.push(word(0)),
        }
    }
    read
}
