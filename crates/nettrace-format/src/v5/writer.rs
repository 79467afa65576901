//! Writes the objects of a stage in version 4 or 5.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    activity,
    content::{Label, ThreadInfo, TraceInfo},
    described::{EventDescription, EventType},
    error::FormatError,
    payload::Refusal,
    schema::Metadata,
    stream_end::StreamEnd,
    types,
    v5::{self, RowEncoder, Stream, Version, metadata, numbers::Numbers},
    v6::ThreadSequence,
    writer::{Definition, IdRules, LeftOut, Row, Source, Writer},
};

/// NetTrace version 5.
pub(crate) static V5: Definition = Definition {
    name: "v5",
    title: "NetTrace V5",
    about: "NetTrace version 5, as .NET 5 to 10 write it",
    check: |schema| v5::check(Version::V5, schema),
    check_type: |of| check_type(Version::V5, of),
    writer: |source| Box::new(Objects::new(Version::V5, source)),
    ..OLDER
};

/// NetTrace version 4.
pub(crate) static V4: Definition = Definition {
    name: "v4",
    title: "NetTrace V4",
    about: "NetTrace version 4, as .NET Core 3 writes it",
    ..OLDER
};

/// What the two versions have in common, with the functions of version 4.
const OLDER: Definition = Definition {
    name: "",
    title: "",
    about: "",
    extension: "nettrace",
    thread_ids: IdRules {
        are_os_ids: true,
        has_os_subjects: true,
        first_index: 1 << 32,
        most: u64::MAX,
    },
    end: StreamEnd::new(&Stream::END_OF_STREAM),
    has_stacks_in_rows: false,
    needs_fields: false,
    check: |schema| v5::check(Version::V4, schema),
    check_type: |of| check_type(Version::V4, of),
    writer: |source| Box::new(Objects::new(Version::V4, source)),
};

#[derive(Debug)]
struct Objects {
    stream: Stream,
    source: Source,
    encoder: RowEncoder,
    /// By metadata id: the types whose payloads must be converted.
    mapped: Vec<Option<EventType>>,
    maps_any: bool,
    payload: Vec<u8>,
    numbers: Numbers,
    /// The positions of the stream at the marks of `numbers`.
    positions: Vec<u64>,
}

impl Objects {
    fn new(version: Version, source: Source) -> Self {
        Self {
            stream: Stream::new(version),
            source,
            encoder: RowEncoder::new(),
            mapped: Vec::new(),
            maps_any: false,
            payload: Vec::new(),
            numbers: Numbers::default(),
            positions: Vec::new(),
        }
    }

    /// The number of a row, and how many losses before it no reader notices yet.
    fn number(&self, row: &Row<'_>) -> (u32, u32) {
        let (thread, sequence) = (row.header.capture_thread, row.header.sequence);
        if self.keeps_numbers() { (sequence, 0) } else { self.numbers.of_row(thread, sequence) }
    }

    /// Whether ids of threads and their numbers are those of the source, which is of version 4 or
    /// 5.
    fn keeps_numbers(&self) -> bool {
        self.source == Source::Trace { is_older: true }
    }

    fn write_point(
        &mut self,
        timestamp: u64,
        entries: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let entries: Vec<_> = entries.iter().map(|entry| (entry.thread, entry.sequence)).collect();
        self.stream.sequence_point(timestamp, &entries, out)
    }
}

impl Writer for Objects {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.mapped.clear();
        self.maps_any = false;
        self.numbers.begin();
        self.positions.clear();
        let number = |key| info.value(key).and_then(|value| value.parse().ok()).unwrap_or(0);
        let (process, processors) = (number("ProcessId"), number("HardwareThreadCount"));
        self.stream.begin(info, process, processors, out)?;
        let stored = ["ProcessId", "HardwareThreadCount", "ExpectedCPUSamplingRate"];
        let missing = info.key_values.iter().filter(|(key, _)| !stored.contains(key));
        left_out.key_values += missing.count() as u64;
        Ok(())
    }

    fn define(
        &mut self,
        types: &[(u32, EventType)],
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.types(types, out)?;
        let version = self.stream.version();
        for (id, ty) in types {
            let (is_mapped, is_whole) = match ty {
                EventType::Own(of) => (v5::needs_mapping(version, *of), stores_all(version, *of)),
                EventType::Read(of) => {
                    (v5::needs_mapping(version, &**of), stores_all(version, &**of))
                }
            };
            if is_mapped {
                let at = *id as usize;
                self.mapped.resize(self.mapped.len().max(at + 1), None);
                self.mapped[at] = Some(ty.clone());
                self.maps_any = true;
            }
            left_out.types += u64::from(!is_whole);
        }
        Ok(())
    }

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        left_out: &mut LeftOut,
        _: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        left_out.thread_names += u64::from(thread.name.is_some());
        left_out.key_values += thread.key_values.len() as u64;
        Ok(())
    }

    fn subject(&mut self, _: u64, _: &str, left_out: &mut LeftOut) {
        left_out.thread_names += 1;
    }

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        _: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        match self.source {
            _ if self.keeps_numbers() => {}
            Source::Recording => self.numbers.remove(threads),
            Source::Trace { .. } => self.numbers.release(threads),
        }
        Ok(())
    }

    fn stacks(
        &mut self,
        first_id: u32,
        stacks: &[&[u64]],
        pointer_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.stream.stack_block(first_id, stacks, pointer_size, out)
    }

    fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mapped = self.mapped.get(row.header.metadata_id as usize).and_then(Option::as_ref);
        let payload = match mapped {
            Some(ty) => {
                let (version, payload) = (self.stream.version(), &mut self.payload);
                payload.clear();
                let used = match ty {
                    EventType::Own(of) => v5::map_payload(version, *of, row.payload, payload),
                    EventType::Read(of) => v5::map_payload(version, &**of, row.payload, payload),
                };
                left_out.longer_events += u64::from(used? < row.payload.len());
                &*self.payload
            }
            None => row.payload,
        };
        let number = self.number(row);
        let mut header = v5::Row::from(row.header);
        header.sequence = number.0;
        header.payload_len = payload.len() as u32;
        left_out.labels += put_labels(row.labels, &mut header);
        if is_first {
            self.encoder = RowEncoder::new();
            self.encoder.full_row(&header, out);
        } else {
            self.encoder.row(&header, out);
        }
        out.extend_from_slice(payload);
        if !self.keeps_numbers() {
            self.numbers.wrote(row.header.capture_thread, number);
        }
        Ok(())
    }

    fn takes_rows_as_recorded(&self, thread: u64, sequence: u32) -> bool {
        let shows_all = self.keeps_numbers() || self.numbers.of_row(thread, sequence).1 == 0;
        !self.maps_any && shows_all
    }

    fn rows_as_recorded(
        &mut self,
        thread: u64,
        labels: &[Label<'_>],
        rows: u32,
        left_out: &mut LeftOut,
    ) {
        left_out.labels += u64::from(rows) * put_labels(labels, &mut v5::Row::default());
        if !self.keeps_numbers() {
            self.numbers.wrote_more(thread, rows);
        }
    }

    fn event_block(
        &mut self,
        first_ts: u64,
        last_ts: u64,
        rows_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        self.stream.event_block(first_ts, last_ts, rows_len, out)?;
        self.numbers.end_block();
        Ok(&Stream::END_OF_BLOCK)
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if self.keeps_numbers() {
            return self.write_point(timestamp, threads, out);
        }
        let entries = self.numbers.point(threads);
        self.write_point(timestamp, &entries, out)
    }

    fn wants_point(&self) -> bool {
        self.numbers.wants_point()
    }

    fn untold_losses(&self) -> u64 {
        self.numbers.owed()
    }

    fn has_untold_losses(&self) -> bool {
        self.numbers.has_untold_losses()
    }

    fn closing_size(&self) -> u64 {
        // An object has 28 bytes and up to 3 of padding, the fixed part of a sequence point 12.
        28 + 3 + 12 + 12 * self.numbers.most_named() as u64
    }

    fn mark(&mut self) -> usize {
        let mark = self.numbers.mark();
        self.positions.truncate(mark);
        self.positions.push(self.stream.position());
        mark
    }

    fn rewind(&mut self, mark: usize) {
        self.numbers.rewind(mark);
        if let Some(&position) = self.positions.get(mark) {
            self.stream.rewind(position);
        }
    }

    fn settle(&mut self) {
        self.numbers.settle();
    }
}

/// Copies the labels that fit into a row's header. Returns how many do not fit: a row has one
/// activity id and one related activity id, and the last of each wins. A span id fits if the
/// activity id holds it.
fn put_labels(labels: &[Label<'_>], row: &mut v5::Row) -> u64 {
    let mut left_out = 0;
    for label in labels {
        let missing = match label {
            Label::ActivityId(id) => row.activity.replace(*id),
            Label::RelatedActivityId(id) => row.related.replace(*id),
            _ => Some([0; 16]),
        };
        left_out += u64::from(missing.is_some());
    }
    let span = row.activity.and_then(|id| activity::span_id(&id));
    let held = |label: &&Label<'_>| matches!(label, Label::SpanId(id) if Some(*id) == span);
    left_out - labels.iter().filter(held).count() as u64
}

/// Whether a version stores everything about a type that version 6 would.
fn stores_all(version: Version, of: &impl EventDescription) -> bool {
    let facts = of.facts();
    !facts.is_descriptive && (facts.opcode.is_none() || version == Version::V5)
}

/// Checks whether a version can describe a type of a trace.
fn check_type(version: Version, of: &Metadata) -> Result<(), FormatError> {
    types::check_described(&of.fields)?;
    metadata::row(version, 1, of, &mut Vec::new())
}
