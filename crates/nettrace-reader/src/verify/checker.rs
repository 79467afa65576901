//! The checks of blocks and rows, in constant memory.

use std::collections::HashMap;

use nettrace_format::{
    Cursor, Damage, Field, Metadata, Thread, Trace, Type,
    types::is_type_code,
    v6::{self, SequencePointFlags},
};

use crate::{
    block,
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    framing::{BlockHead, Blocks, Format},
    input::Source,
    metadata,
    options::{Dialect, Options},
    rows::{EventBlock, Header},
    tables::{Number, Slot, Tables},
    value::Fields,
    verify::{
        Report, Rule,
        log::{Log, Stop},
        threads::{Clash, LiveThreads},
    },
};

/// The state of a check.
#[derive(Debug)]
pub(super) struct Checker {
    options: Options,
    log: Log,
    times: Times,
    live: LiveThreads,
    /// The metadata id of each provider's event ids.
    event_ids: HashMap<(String, u32), u32>,
    /// By metadata id: the payload size of event types whose payloads all have the same size.
    sizes: HashMap<u32, Option<u32>>,
}

/// Lower bounds for the times that follow.
#[derive(Debug, Default)]
struct Times {
    /// The start of the trace.
    sync: u64,
    /// The latest event.
    latest: u64,
    /// The latest event that is marked as sorted.
    sorted: u64,
    /// The last sequence point.
    point: Option<u64>,
}

impl Checker {
    pub(super) fn new(options: Options, most: usize) -> Self {
        Self {
            options,
            log: Log { most, ..Log::default() },
            times: Times::default(),
            live: LiveThreads::default(),
            event_ids: HashMap::new(),
            sizes: HashMap::new(),
        }
    }

    pub(super) fn run<R: Source>(mut self, source: R) -> Result<Report> {
        match self.check(source) {
            Err(error) if matches!(error.kind(), ErrorKind::Io(_)) => Err(error),
            Err(error) => {
                self.log.report.bytes = self.log.report.bytes.max(error.offset());
                self.log.add(error.offset(), Rule::Readable, || error.kind().to_string());
                Ok(self.log.report)
            }
            Ok(()) => Ok(self.log.report),
        }
    }

    fn check<R: Source>(&mut self, source: R) -> Result<()> {
        let mut blocks = Blocks::open(source, self.options.block_limit)?;
        let format = blocks.format();
        let head = blocks.next()?;
        if head.kind != BlockKind::Trace {
            return Err(Error::new(head.offset, ErrorKind::NoTraceBlock));
        }
        self.log.report.blocks += 1;
        let trace = block::parse_trace(format, Cursor::new(blocks.body(), head.body))
            .map_err(|damage| Error::malformed(BlockKind::Trace, damage))?;
        self.check_trace(head.offset, &trace);
        let mut tables =
            Tables::new(format, self.options.dialect, trace, self.options.definitions_limit);
        loop {
            let head = blocks.next()?;
            self.log.report.blocks += 1;
            self.log.report.bytes = blocks.offset();
            if head.kind == BlockKind::EndOfStream {
                let offset = blocks.offset();
                if self.options.alone && blocks.another_begins()? {
                    let detail = || "behind the end another stream begins".to_owned();
                    self.log.add(offset, Rule::Alone, detail);
                }
                return Ok(());
            }
            if let Some(flaw) = head.flaw {
                self.log.add(head.offset, Rule::Framing, || flaw.to_owned());
            }
            match self.check_block(format, head, blocks.body(), &mut tables) {
                Ok(()) => {}
                Err(Stop::Error(error)) => return Err(error),
                // The next block can still be found.
                Err(Stop::Damage(damage)) => {
                    let error = Error::malformed(head.kind, damage);
                    self.log.add(error.offset(), Rule::Readable, || error.kind().to_string());
                }
            }
        }
    }

    fn check_trace(&mut self, offset: u64, trace: &Trace) {
        self.times.sync = trace.sync_ticks;
        if !trace.sync_time.is_valid() {
            self.log.add(offset, Rule::Trace, || format!("there is no time {}", trace.sync_time));
        }
        if trace.ticks_per_second == 0 {
            self.log.add(offset, Rule::Trace, || "a second has no ticks".to_owned());
        }
        let size = trace.pointer_size;
        if !matches!(size, 4 | 8) {
            self.log.add(offset, Rule::Trace, || format!("a pointer has {size} bytes, not 4 or 8"));
        }
    }

    fn check_block(
        &mut self,
        format: Format,
        head: BlockHead,
        body: &[u8],
        tables: &mut Tables,
    ) -> std::result::Result<(), Stop> {
        let mut cursor = Cursor::new(body, head.body);
        match head.kind {
            BlockKind::Event => self.check_events(format, head, body, tables),
            BlockKind::Metadata => metadata::parse_metadata(format, body, head.body, |row| {
                if let Some(damage) = row.damage {
                    let error = Error::malformed(head.kind, damage);
                    self.log.add(error.offset(), Rule::Readable, || error.kind().to_string());
                }
                let Some(metadata) = row.metadata else { return Ok(()) };
                self.define_metadata(tables, row.offset, metadata)
            }),
            BlockKind::Thread => v6::read_thread_rows(cursor, |offset, thread| {
                self.define_thread(tables, offset, thread)
            }),
            BlockKind::Stack => {
                v6::read_stacks(&mut cursor, |offset, id, addresses| {
                    let pointer = tables.trace.pointer_size.max(1) as usize;
                    if addresses.len() % pointer != 0 {
                        let detail = || format!("stack {id} has {} bytes", addresses.len());
                        self.log.add(offset, Rule::Readable, detail);
                    }
                    self.log.defined(tables.define_stack(offset, id, addresses))
                })?;
                self.check_end(format, cursor);
                Ok(())
            }
            BlockKind::LabelList => v6::read_label_lists(cursor, |offset, index, list| {
                if tables.define_label_list(offset, index, list).map_err(Stop::Error)? {
                    let (table, id) = (Table::LabelList, index.into());
                    self.log.add(offset, Rule::Duplicate, || {
                        ErrorKind::Duplicate { table, id }.to_string()
                    });
                }
                Ok(())
            }),
            BlockKind::RemoveThread => v6::read_removed_threads(cursor, |offset, last| {
                self.check_number(tables, offset, last.thread, Number::Last(last.sequence))?;
                tables.remove_thread(last.thread);
                tables.forget_removed();
                self.live.remove(last.thread);
                Ok(())
            }),
            BlockKind::SequencePoint => {
                let (time, flags) =
                    block::parse_sequence_point(format, &mut cursor, |offset, last| {
                        self.check_number(tables, offset, last.thread, Number::Bound(last.sequence))
                    })?;
                self.check_end(format, cursor);
                self.check_sequence_point(head, time, flags, tables);
                Ok(())
            }
            BlockKind::Trace => {
                Err(Damage { offset: head.offset, what: "it is the second one" }.into())
            }
            BlockKind::EndOfStream | BlockKind::Unknown(_) | BlockKind::UnknownObject => Ok(()),
        }
    }

    fn define_metadata(
        &mut self,
        tables: &mut Tables,
        offset: u64,
        metadata: Metadata,
    ) -> std::result::Result<(), Stop> {
        let id = metadata.id;
        if id == 0 {
            // In versions 4 and 5 the rows of id 0 are descriptions of types.
            let rule = if tables.reuses_ids() { Rule::Reference } else { Rule::MetadataIds };
            self.log.add(offset, rule, || "metadata id 0 stands for none".to_owned());
        }
        let is_numbered = metadata.event_id != 0 || self.is_reference();
        if tables.metadata_slot(id).is_none() {
            let key = (metadata.provider.clone(), metadata.event_id);
            let other = self.event_ids.get(&key).filter(|_| is_numbered);
            if let Some(other) = other.filter(|id| !tables.is_alike(**id, &metadata)) {
                self.log.add(offset, Rule::EventIds, || {
                    let (provider, event_id) = &key;
                    format!("event id {event_id} of {provider:?} is that of metadata {other} too")
                });
            } else {
                self.event_ids.insert(key, id);
            }
            self.sizes.insert(id, payload_size(&metadata.fields));
        }
        // In versions 4 and 5 the type codes are those of .NET.
        let mut codes = metadata.fields.iter().filter_map(|field| field.ty.unknown_code());
        let unknown = codes.find(|code| !is_type_code(*code));
        if let Some(code) = unknown.filter(|_| !tables.reuses_ids()) {
            self.log.add(offset, Rule::Readable, || format!("a field has the unknown type {code}"));
        }
        if metadata.is_deep() {
            self.log.add(offset, Rule::Nesting, || {
                "a field's type is nested more than 48 levels deep, and not followed".to_owned()
            });
        }
        self.check_parts(offset, metadata.has_unknown_parts);
        self.log.defined(tables.define_metadata(offset, metadata))
    }

    fn define_thread(
        &mut self,
        tables: &mut Tables,
        offset: u64,
        thread: Thread,
    ) -> std::result::Result<(), Stop> {
        let index = thread.index;
        if tables.thread_slot(index).is_none() {
            if let Some(clash) = self.live.add(&thread) {
                self.log.add(offset, Rule::ThreadIds, || match clash {
                    Clash::Id(id) => {
                        format!("{id} is the index of one thread and the OS id of another")
                    }
                    Clash::Reused => format!("{index} is the index of a thread that was removed"),
                });
            }
        }
        self.check_parts(offset, thread.has_unknown_parts);
        self.log.defined(tables.define_thread(offset, thread))
    }

    fn is_reference(&self) -> bool {
        self.options.dialect == Dialect::Reference
    }

    /// Reports an optional part of an unknown kind. Readers should skip it, but the reference
    /// reader does not.
    fn check_parts(&mut self, offset: u64, has_unknown: bool) {
        if has_unknown && self.is_reference() {
            let detail = || "it has a part of an unknown kind".to_owned();
            self.log.add(offset, Rule::Readable, detail);
        }
    }

    /// Checks the number that a sequence point or a removal gives for a thread.
    fn check_number(
        &mut self,
        tables: &mut Tables,
        offset: u64,
        index: u64,
        number: Number,
    ) -> std::result::Result<(), Stop> {
        let slot = match tables.numbered_thread_at(offset, index, number) {
            Ok(slot) => slot,
            Err(error) => return self.log.not_found(error),
        };
        let thread = tables.thread_mut(slot);
        let (last, step_backs) = (thread.last_sequence, thread.step_backs);
        self.log.report.lost += u64::from(thread.advance(number));
        if thread.step_backs != step_backs {
            self.log.add(offset, Rule::SequenceNumbers, || match number {
                Number::Last(given) => {
                    format!("its removal gives thread {index} the number {given}, behind {last}")
                }
                Number::Bound(given) | Number::Event(given) => {
                    format!(
                        "a sequence point gives thread {index} the number {given}, behind {last}"
                    )
                }
            });
        }
        Ok(())
    }

    /// Checks that nothing follows the content of an object. (Version 6 allows later additions.)
    fn check_end(&mut self, format: Format, cursor: Cursor<'_>) {
        if format == Format::V5 && !cursor.is_empty() {
            self.log.add(cursor.offset(), Rule::Framing, || {
                format!("{} bytes stand behind the content of the object", cursor.remaining())
            });
        }
    }

    fn check_sequence_point(
        &mut self,
        head: BlockHead,
        time: u64,
        flags: SequencePointFlags,
        tables: &mut Tables,
    ) {
        self.log.report.sequence_points += 1;
        if let Some(last) = self.times.point.filter(|last| time <= *last) {
            self.log.add(head.offset, Rule::PointOrder, || {
                format!("the sequence point is at {time}, the one before at {last}")
            });
        }
        let latest = self.times.latest;
        if latest > time {
            self.log.add(head.offset, Rule::BetweenPoints, || {
                format!("the sequence point is at {time}, but an event before it at {latest}")
            });
        }
        self.times.point = Some(time);
        for forgotten in tables.flush_epoch() {
            self.live.forget(forgotten.thread.index);
        }
        self.live.pass_point();
        if flags.flush_threads {
            tables.flush_threads();
            self.live.clear();
        }
        if flags.flush_metadata {
            tables.flush_metadata();
            self.event_ids.clear();
            self.sizes.clear();
        }
    }

    fn check_events(
        &mut self,
        format: Format,
        head: BlockHead,
        body: &[u8],
        tables: &mut Tables,
    ) -> std::result::Result<(), Stop> {
        let block = EventBlock::parse(format, body, head.body)?;
        let mut rows = block.rows;
        let (mut earliest, mut latest) = (u64::MAX, 0);
        let mut capture_thread = None;
        let mut known = Known::default();
        while rows.position < body.len() {
            let offset = head.body + rows.position as u64;
            let payload = match rows.next(body, head.body) {
                Ok(payload) => payload,
                Err(damage) => {
                    self.keep_timestamp(&known);
                    return Err(damage.into());
                }
            };
            let header = rows.header;
            earliest = earliest.min(header.timestamp);
            latest = latest.max(header.timestamp);
            let first = *capture_thread.get_or_insert(header.capture_thread);
            if first != header.capture_thread {
                capture_thread = Some(header.capture_thread);
                if !header.is_sorted {
                    self.log.add(offset, Rule::OneThread, || {
                        format!(
                            "a block has events of threads {first} and {}",
                            header.capture_thread
                        )
                    });
                }
            }
            self.check_times(offset, &header);
            if rows.refers_anew || !known.is_complete {
                self.keep_timestamp(&known);
                known = self.look_up(offset, &header, tables)?;
            }
            let end = payload + header.payload_size as usize;
            let payload = &body[payload..end];
            let end = end as u64 + head.body;
            self.check_row(offset, end, &header, payload, &mut known, tables);
        }
        self.keep_timestamp(&known);
        if (earliest, latest) != (block.min_timestamp, block.max_timestamp) {
            let (min, max) = (block.min_timestamp, block.max_timestamp);
            self.log.add(head.offset, Rule::BlockTimes, || {
                format!("the block says {min} to {max}, its events {earliest} to {latest}")
            });
        }
        Ok(())
    }

    #[inline]
    fn check_times(&mut self, offset: u64, header: &Header) {
        let Times { sync, latest, sorted, point } = &mut self.times;
        let time = header.timestamp;
        if time < *sync {
            let sync = *sync;
            self.log.add(offset, Rule::SyncTime, || {
                format!("an event is at {time}, but the trace's time begins at {sync}")
            });
        }
        if time < *sorted {
            let sorted = *sorted;
            self.log.add(offset, Rule::IsSorted, || {
                format!("an event is at {time}, but one before it, marked as sorted, at {sorted}")
            });
        }
        if let Some(point) = point.filter(|point| time < *point) {
            self.log.add(offset, Rule::BetweenPoints, || {
                format!("an event is at {time}, but the sequence point before it at {point}")
            });
        }
        *latest = time.max(*latest);
        if header.is_sorted {
            *sorted = time.max(*sorted);
        }
    }

    /// The definitions to which a row refers. An undefined one is a violation.
    fn look_up(
        &mut self,
        offset: u64,
        header: &Header,
        tables: &mut Tables,
    ) -> std::result::Result<Known, Stop> {
        let log = &mut self.log;
        let violations = log.report.count;
        if header.thread != header.capture_thread {
            if let Err(error) = tables.thread_at(offset, header.thread) {
                log.not_found(error)?;
            }
        }
        if !tables.has_stack(header.stack_id) {
            log.undefined(offset, Table::Stack, header.stack_id.into());
        }
        if !tables.has_label_list(header.label_list) {
            log.undefined(offset, Table::LabelList, header.label_list.into());
        }
        let (index, number) = (header.capture_thread, Number::Event(header.sequence_number));
        let slot = match tables.numbered_thread_at(offset, index, number) {
            Ok(slot) => {
                if tables.reuses_ids() {
                    self.live.see(&tables.thread(slot).thread);
                }
                Some(slot)
            }
            Err(error) => {
                log.not_found(error)?;
                None
            }
        };
        let metadata = tables.metadata_slot(header.metadata_id);
        if metadata.is_none() {
            log.undefined(offset, Table::Metadata, header.metadata_id.into());
        }
        Ok(Known {
            has_fields: metadata.is_some_and(|slot| tables.has_fields(slot)),
            capture: slot.map(|slot| Capture {
                slot,
                index: header.capture_thread,
                last_timestamp: self.live.last_timestamp(header.capture_thread).map_or(0, |at| *at),
            }),
            metadata,
            size: self.sizes.get(&header.metadata_id).copied().flatten(),
            is_complete: violations == log.report.count,
        })
    }

    fn keep_timestamp(&mut self, known: &Known) {
        if let Some(capture) = &known.capture {
            if let Some(last) = self.live.last_timestamp(capture.index) {
                *last = capture.last_timestamp;
            }
        }
    }

    /// Checks a row. `end` is the stream offset of the payload's end.
    #[inline]
    fn check_row(
        &mut self,
        offset: u64,
        end: u64,
        header: &Header,
        payload: &[u8],
        known: &mut Known,
        tables: &mut Tables,
    ) {
        let log = &mut self.log;
        log.report.events += 1;
        if let Some(Capture { slot, index, last_timestamp }) = &mut known.capture {
            let sequence = header.sequence_number;
            let thread = tables.thread_mut(*slot);
            let (last, step_backs) = (thread.last_sequence, thread.step_backs);
            log.report.lost += u64::from(thread.advance(Number::Event(sequence)));
            thread.events += 1;
            if thread.step_backs != step_backs {
                log.add(offset, Rule::SequenceNumbers, || {
                    format!("thread {index} has event {sequence} behind number {last}")
                });
            }
            let (before, time) = (*last_timestamp, header.timestamp);
            *last_timestamp = time;
            if time < before {
                log.add(offset, Rule::ThreadOrder, || {
                    format!("thread {index} has an event at {time} behind one at {before}")
                });
            }
        }
        let size = header.payload_size;
        if size > u16::MAX.into() {
            log.add(offset, Rule::PayloadSize, || format!("a payload has {size} bytes"));
        }
        if known.size == Some(size) || !known.has_fields {
            return;
        }
        if let Some(slot) = known.metadata {
            let fields = Fields::new(tables.metadata(slot), payload, end - u64::from(size));
            log.check_fields(fields, payload, end);
        }
    }
}

/// The definitions to which rows refer, kept as long as successive rows refer to the same ones.
#[derive(Debug, Default)]
struct Known {
    capture: Option<Capture>,
    metadata: Option<Slot>,
    /// Whether the event type states its fields.
    has_fields: bool,
    /// The payload size, if it is always the same.
    size: Option<u32>,
    /// Whether everything is defined. If not, each row is a violation of its own.
    is_complete: bool,
}

#[derive(Debug)]
struct Capture {
    slot: Slot,
    index: u64,
    last_timestamp: u64,
}

/// The size of every payload with these fields, if all have the same.
fn payload_size(fields: &[Field]) -> Option<u32> {
    fn has_location(ty: &Type) -> bool {
        match ty {
            Type::RelLoc(_) | Type::DataLoc(_) => true,
            Type::Object(fields) => fields.iter().any(|field| has_location(&field.ty)),
            _ => ty.element().is_some_and(has_location),
        }
    }
    fields.iter().try_fold(0_u32, |sum, field| {
        sum.checked_add(
            field.ty.fixed_size().filter(|_| !has_location(&field.ty) && !field.ty.has_dates())?,
        )
    })
}
