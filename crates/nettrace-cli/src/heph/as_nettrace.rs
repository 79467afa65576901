//! A Heph trace as the bytes of a NetTrace V6 trace.
//!
//! | of the Heph trace | in the NetTrace trace |
//! |---|---|
//! | a stream | a thread |
//! | the packet that is a span, as NetTrace for Rust writes it | the end of the span, with its duration; its beginning, if the packet of the end came before |
//! | any other event that takes time | an event that stands for a span, whose id may be made up |
//! | an event without duration | an event |
//! | attributes with `@`, if the event has `@provider` | provider, name, ids, level, labels, stack |
//! | the substream of an event that names no span | label `heph.substream`, in hexadecimal |
//! | other attributes | fields |
//! | gaps in the numbers of a stream | gaps in the numbers of the thread |
//!
//! Packets are approximately in the order of their ends. So events are sorted over [`HELD`] of
//! them, and the memory does not grow with the trace.

mod parsed;

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use nettrace_event::keys;
use nettrace_format::{
    Composer, Field, FormatError, Metadata,
    content::{RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::{self, SequencePointFlags, ThreadSequence, label_list_row},
};
use nettrace_reader::heph::{Kind, Reader, Totals};

use self::parsed::{Edges, FieldType, Parsed, Type};
use crate::{
    event_ids::{EventIds, IdRequest, Sharing},
    source::Bytes,
};

/// The label of an event that names no span: its substream. Times then say what is inside of what.
pub(crate) const SUBSTREAM: &str = "heph.substream";

/// How many events wait to be sorted.
const HELD: usize = 1 << 14;

/// How many bytes of events wait to be sorted.
const HELD_BYTES: usize = 32 << 20;

/// How many events are written together, and how many bytes. A sequence point follows, unless the
/// next event has the same time.
const BATCH: usize = 1 << 12;
const BATCH_BYTES: usize = 4 << 20;

/// What the bytes do not say.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// Why the trace could not be read to its end.
    pub(crate) failure: Option<nettrace_reader::Error>,
    /// How many bytes of the Heph trace were read.
    pub(crate) bytes: u64,
    /// The counts of its own reader.
    pub(crate) totals: Totals,
    /// Events that are too large for NetTrace.
    pub(crate) large_events: u64,
    /// Events with attributes that cannot be decoded.
    pub(crate) damaged: u64,
    /// Why the first of these cannot.
    pub(crate) damage: Option<nettrace_reader::Error>,
}

/// The bytes of a NetTrace trace. They are made while they are read.
pub(crate) struct AsNetTrace {
    reader: Reader<Bytes>,
    aside: Arc<Mutex<Aside>>,
    /// Bytes that are to be read, and how many of them have been.
    out: Vec<u8>,
    read: usize,
    has_begun: bool,
    has_ended: bool,
    /// By time and order.
    held: BTreeMap<(u64, u64), Held>,
    held_bytes: usize,
    number: u64,
    types: HashMap<Type, u32>,
    event_ids: EventIds,
    /// By the ids of streams, so that the same trace becomes the same bytes.
    threads: BTreeMap<u32, Stream>,
    edges: Edges,
    composer: Composer,
    batch: Batch,
    /// Is added to all times, so that the epoch is a whole millisecond.
    rest: u64,
}

/// A stream of the Heph trace.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// The last number of the thread.
    sequence: u32,
    is_defined: bool,
}

/// An event that waits.
struct Held {
    event: Parsed,
    lost_before: u64,
}

/// The events that wait in the composer.
#[derive(Clone, Copy, Default)]
struct Batch {
    events: usize,
    bytes: usize,
    /// The time of the last one.
    last: u64,
}

impl AsNetTrace {
    /// The trace that `reader` reads. `aside` gets what the bytes do not say.
    pub(crate) fn new(reader: Reader<Bytes>, aside: Arc<Mutex<Aside>>) -> Self {
        Self {
            reader,
            aside,
            out: Vec::new(),
            read: 0,
            has_begun: false,
            has_ended: false,
            held: BTreeMap::new(),
            held_bytes: 0,
            number: 0,
            types: HashMap::new(),
            event_ids: EventIds::default(),
            threads: BTreeMap::new(),
            edges: Edges::default(),
            composer: Composer::new().with_block_per_thread(),
            batch: Batch::default(),
            rest: 0,
        }
    }

    /// Makes more bytes, or none if events only wait.
    fn go_on(&mut self) -> Result<(), FormatError> {
        let before = self.reader.totals().lost;
        self.number += 1;
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = self.reader.epoch().unwrap_or(0);
        let mut event = match self.reader.next_event() {
            Ok(Some(event)) => Some(Parsed::of(&event, self.number, epoch, &mut self.edges)),
            Ok(None) => None,
            Err(error) => {
                aside.failure = Some(error);
                None
            }
        };
        (aside.bytes, aside.totals) = (self.reader.offset(), *self.reader.totals());
        if let Some(event) = &mut event {
            if let Some(damage) = event.damage.take() {
                aside.damaged += 1;
                aside.damage.get_or_insert(damage);
            }
            aside.large_events += u64::from(event.is_too_large);
        }
        drop(aside);
        if !self.has_begun {
            self.has_begun = true;
            self.begin()?;
        }
        let lost = self.reader.totals().lost - before;
        let Some(event) = event else { return self.end(lost) };
        if event.is_too_large {
            // It shows as a loss of the thread.
            self.threads.entry(event.stream).or_default().sequence += 1;
            return Ok(());
        }
        self.held_bytes += event.payload.len() + 8 * event.stack.len() + 256;
        let at = event.at.saturating_add(self.rest);
        self.held.insert((at, self.number), Held { event, lost_before: lost });
        while self.held.len() > HELD || self.held_bytes > HELD_BYTES {
            self.write_first()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), FormatError> {
        let epoch = self.reader.epoch().unwrap_or(0);
        self.rest = epoch % 1_000_000;
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis((epoch / 1_000_000) as i64),
            sync_ticks: 0,
            ticks_per_second: 1_000_000_000,
            pointer_size: 8,
            key_values: &[(keys::SOURCE, "heph")],
        };
        self.composer.begin(&info, &mut self.out)
    }

    /// Writes the oldest event that waits.
    fn write_first(&mut self) -> Result<(), FormatError> {
        let Some(((at, _), Held { event, lost_before })) = self.held.pop_first() else {
            return Ok(());
        };
        self.held_bytes -= event.payload.len() + 8 * event.stack.len() + 256;
        if self.batch.events >= BATCH || self.batch.bytes >= BATCH_BYTES {
            // A sequence point is never between two events of one time.
            if at > self.batch.last { self.write_batch(0)? } else { self.write_blocks()? }
        }
        let (composer, out) = (&mut self.composer, &mut self.out);
        let metadata_id = match self.types.get(&event.ty) {
            Some(id) => *id,
            None => {
                let (ty, id) = (&event.ty, composer.new_metadata_id());
                let wanted = IdRequest {
                    provider: &ty.provider,
                    event_id: if ty.id == 0 { id } else { ty.id },
                    version: ty.version,
                    what: format!("{} {:?}", ty.name, ty.fields),
                };
                let event_id = self.event_ids.give(wanted, Sharing::Versions);
                composer.metadata(&describe(ty, id, event_id)?, out)?;
                self.types.insert(ty.clone(), id);
                id
            }
        };
        let stream = self.threads.entry(event.stream).or_default();
        if !stream.is_defined {
            stream.is_defined = true;
            let info = ThreadInfo {
                index: event.stream.into(),
                name: event.thread.as_deref(),
                os_thread_id: Some(event.stream.into()),
                ..ThreadInfo::default()
            };
            composer.thread(&info, out)?;
        }
        stream.sequence = stream.sequence.wrapping_add(1).wrapping_add(lost_before as u32);
        let mut labels = Vec::new();
        label_list_row(event.labels.iter().map(|label| label.borrowed()), &mut labels);
        let header = RowHeader {
            metadata_id,
            sequence: stream.sequence,
            capture_thread: event.stream.into(),
            thread: event.stream.into(),
            processor: event.processor.unwrap_or(u32::MAX),
            timestamp: at,
            labels: composer.label_list(&labels, out)?,
            stack: composer.stack(&event.stack, out)?,
            ..RowHeader::default()
        };
        self.batch.bytes += composer.row(&header, &event.payload, out)?;
        self.batch.events += 1;
        self.batch.last = self.batch.last.max(at);
        Ok(())
    }

    /// Writes the blocks so far.
    fn write_blocks(&mut self) -> Result<(), FormatError> {
        (self.batch.events, self.batch.bytes) = (0, 0);
        self.composer.end_blocks(&mut self.out)
    }

    /// Writes the blocks so far and a sequence point. `lost` events more are lost of some thread.
    fn write_batch(&mut self, lost: u64) -> Result<(), FormatError> {
        let batch = mem::take(&mut self.batch);
        let mut defined = self.threads.values_mut().filter(|stream| stream.is_defined);
        if let Some(stream) = defined.next() {
            stream.sequence = stream.sequence.wrapping_add(lost as u32);
        }
        let defined = self.threads.iter().filter(|(_, stream)| stream.is_defined);
        let number = |(thread, stream): (&u32, &Stream)| ThreadSequence {
            thread: (*thread).into(),
            sequence: stream.sequence,
        };
        let threads: Vec<_> = defined.map(number).collect();
        let (at, flags) = (batch.last.saturating_add(1), SequencePointFlags::default());
        self.composer.sequence_point(at, flags, &threads, &mut self.out)
    }

    fn end(&mut self, lost: u64) -> Result<(), FormatError> {
        self.has_ended = true;
        while !self.held.is_empty() {
            self.write_first()?;
        }
        self.write_batch(lost)?;
        self.composer.finish(&mut self.out)
    }
}

/// Describes an event type, as a row of a Metadata block.
fn describe(ty: &Type, id: u32, event_id: u32) -> Result<Vec<u8>, FormatError> {
    fn described(ty: FieldType) -> nettrace_format::Type {
        use nettrace_format::Type;
        let plain = match ty.kind {
            Kind::U64 => Type::UInt64,
            Kind::I64 => Type::Int64,
            Kind::F64 => Type::Double,
            _ => Type::Array(Box::new(Type::Utf16CodeUnit)),
        };
        if ty.is_array { Type::Array(Box::new(plain)) } else { plain }
    }
    let mut key_values = Vec::new();
    let mut key_value = |(key, value): (&str, &str)| key_values.push((key.into(), value.into()));
    if ty.is_single {
        key_value(keys::SINGLE);
        key_value(keys::STARTED);
    }
    if ty.has_duration {
        key_value(keys::DURATION);
    }
    let fields = ty.fields.iter();
    let description = Metadata {
        id,
        provider: if ty.provider.is_empty() { "heph".into() } else { ty.provider.clone() },
        event_id,
        name: ty.name.clone(),
        fields: fields.map(|(name, ty)| Field::new(name, described(*ty))).collect(),
        opcode: ty.opcode,
        keywords: ty.keywords,
        level: ty.level,
        version: ty.version,
        key_values,
        ..Metadata::default()
    };
    let mut row = Vec::new();
    v6::put_metadata_row(&description, &mut row)?;
    Ok(row)
}

impl Read for AsNetTrace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.out.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.out.clear();
            self.read = 0;
            self.go_on().map_err(io::Error::other)?;
        }
        let count = buffer.len().min(self.out.len() - self.read);
        buffer[..count].copy_from_slice(&self.out[self.read..][..count]);
        self.read += count;
        Ok(count)
    }
}
