//! The stream that recordings are merged into.
//!
//! Events come in the order of time. Up to [`BATCH`] of them are collected, a block for each
//! thread, because a block of one thread is small and read fast. A sequence point follows, behind
//! which stacks and label lists are defined anew ([`Composer`]). So neither this program nor a
//! reader remembers more of them than a batch has.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    mem,
};

use nettrace_event::{calendar::FILE_TIME_OF_1970, keys};
use nettrace_format::{
    Composer,
    content::{RowHeader, ThreadInfo, TraceInfo},
    v6::{self, SequencePointFlags, ThreadSequence},
};
use nettrace_reader::{
    Event, LastLabels, Metadata, SortedReader, Source, Stack, Thread, ThreadTotals, Trace, WallTime,
};
use nettrace_views::model::{process_of, recording_and_key};

use crate::{
    convert::types,
    event_ids::{EventIds, IdRequest, Sharing},
    failure::Failure,
    files::{Origins, Recording},
    merge::{
        ids::ProcessIds,
        lanes::{Lane, Take, Times},
    },
    source::Bytes,
};

/// How many events are between two sequence points, and how many bytes.
const BATCH: usize = 1 << 14;
const BATCH_BYTES: usize = 4 << 20;

/// A batch that defines more bytes again has so many bytes of rows.
const MOST_AGAIN: usize = 16 << 20;

/// The keys of what is said of one file.
const OF_FILE: [&str; 3] = [Trace::FILE, Trace::RECORDING, keys::CONTAINS];

/// With more threads than this, all are declared again where they are needed, so that those that
/// have ended are forgotten.
const MANY_THREADS: usize = 4096;

/// The first index of a thread. No system gives a thread such an id, which readers could confuse
/// with the index.
const FIRST_INDEX: u64 = 1 << 32;

/// The tick at which the stream begins, if ticks are nanoseconds. Earlier events have room.
const START: i128 = 1 << 40;

/// The merged stream so far.
#[derive(Debug)]
pub(crate) struct Stream {
    /// What is complete and was not fetched yet.
    pub(crate) bytes: Vec<u8>,
    pub(crate) events: u64,
    /// Events that the format cannot hold.
    pub(crate) large_events: u64,
    /// When the stream begins, on the scale of times. `None`: times are ticks.
    first: Option<i128>,
    /// Event types by everything that is said of them.
    types: HashMap<String, u32>,
    event_ids: EventIds,
    composer: Composer,
    threads: Vec<OutThread>,
    processes: ProcessIds,
    /// The process that each recording names.
    own_processes: Vec<Option<u64>>,
    /// The threads of the batch, in the order of their first rows.
    batch: Vec<usize>,
    batch_rows: usize,
    batch_bytes: usize,
    last: u64,
    /// How often threads were forgotten.
    epoch: u64,
    pub(crate) lost: u64,
}

/// A thread of the result.
#[derive(Clone, Copy, Debug, Default)]
struct OutThread {
    emitted: u64,
    lost: u64,
    is_in_batch: bool,
}

impl OutThread {
    fn sequence(&self) -> u32 {
        (self.emitted + self.lost) as u32
    }
}

/// The next event of a recording, and what its ids mean in the result.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By metadata id, in the source's current epoch.
    types: HashMap<u32, u32>,
    epoch: u64,
    /// By the numbers of their definitions: the threads of the result's current epoch, and the
    /// losses that were told.
    threads: HashMap<u64, usize>,
    threads_epoch: u64,
    told: HashMap<u64, u64>,
    labels: LastLabels,
    event: Next,
}

/// An event that waits for its turn. It refers to nothing that can become invalid meanwhile.
#[derive(Debug, Default)]
struct Next {
    ty: u32,
    capture: u64,
    thread: Option<u64>,
    about: Thread,
    recorder: Thread,
    lost: u64,
    processor: u32,
    stack: Vec<u64>,
    labels: Vec<u8>,
    /// The batch in which the labels were looked up last, and their id there.
    list: Option<(u64, u32)>,
    payload: Vec<u8>,
    recording: usize,
}

impl Take for Stream {
    type Kept = Kept;

    fn take(&mut self, event: &Event<'_>, lane: &Lane, kept: &mut Kept) -> Result<(), Failure> {
        if event.epoch() != kept.epoch {
            kept.types.clear();
            kept.epoch = event.epoch();
        }
        let header = event.header;
        let next = &mut kept.event;
        next.recording = lane.number;
        next.ty = match kept.types.get(&header.metadata_id) {
            Some(ty) => *ty,
            None => {
                let ty = self.ty(event.metadata(), lane.version < 6)?;
                kept.types.insert(header.metadata_id, ty);
                ty
            }
        };
        let capture = event.capture_thread();
        if next.capture != capture.definition {
            next.capture = capture.definition;
            next.recorder.clone_from(&capture.thread);
        }
        next.thread = None;
        if header.thread != header.capture_thread {
            next.thread = Some(event.thread_definition());
            next.about.clone_from(event.thread());
        }
        next.lost = capture.lost;
        next.processor = header.processor;
        next.stack.clear();
        next.stack.extend(event.stack().iter().flat_map(Stack::addresses));
        if event.labels_into(&mut kept.labels) {
            next.list = None;
            next.labels.clear();
            next.labels.extend_from_slice(kept.labels.encoded());
            if kept.labels.encoded().is_empty() {
                let labels = kept.labels.labels().iter().map(|label| label.borrowed());
                v6::label_list_row(labels, &mut next.labels);
            }
        }
        next.payload.clear();
        next.payload.extend_from_slice(event.payload);
        Ok(())
    }

    fn end(
        &mut self,
        reader: &SortedReader<Bytes>,
        lane: &Lane,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        self.end_of_recording(reader, lane.number, kept)
    }
}

impl Stream {
    /// Begins the stream: its header, and what is said of all.
    pub(super) fn begin(recordings: &[Recording], times: &Times) -> Result<Self, Failure> {
        let mut stream = Self::new(times.first());
        let first = &recordings[0].files[0].trace;
        let time = match stream.first {
            // Cut to milliseconds, as the format has it.
            Some(at) => {
                let millis = at.div_euclid(1_000_000);
                stream.first = Some(millis * 1_000_000);
                let units = u64::try_from(millis).ok().and_then(|it| it.checked_mul(10_000));
                let units = units.and_then(|it| it.checked_add(FILE_TIME_OF_1970));
                units.and_then(WallTime::from_file_time).unwrap_or(first.sync_time)
            }
            None => first.sync_time,
        };
        stream.last = if stream.first.is_some() { START as u64 } else { first.sync_ticks };
        let own: Vec<_> = (0..).zip(recordings).map(|(at, it)| stream.own(at, it)).collect();
        let key_values = key_values(&own, recordings);
        let info = TraceInfo {
            sync_utc: (&time).into(),
            sync_ticks: stream.last,
            ticks_per_second: match stream.first {
                Some(_) => 1_000_000_000,
                None => first.ticks_per_second,
            },
            pointer_size: 8,
            key_values: &types::pairs(&key_values),
        };
        stream.composer.begin(&info, &mut stream.bytes)?;
        Ok(stream)
    }

    fn new(first: Option<i128>) -> Self {
        Self {
            bytes: Vec::new(),
            events: 0,
            large_events: 0,
            first,
            types: HashMap::new(),
            event_ids: EventIds::default(),
            composer: Composer::new().with_block_per_thread(),
            threads: Vec::new(),
            processes: ProcessIds::default(),
            own_processes: Vec::new(),
            batch: Vec::new(),
            batch_rows: 0,
            batch_bytes: 0,
            last: 0,
            epoch: 0,
            lost: 0,
        }
    }

    /// Begins a stream of a part of one trace, with its ticks. It has these key-values, but for
    /// those that are about a file.
    pub(crate) fn of_trace(
        trace: &Trace,
        key_values: &[(String, String)],
    ) -> Result<Self, Failure> {
        let mut stream = Self::new(None);
        stream.last = trace.sync_ticks;
        stream.own_processes.push(process_of(trace));
        let mut own = key_values.to_vec();
        own.retain(|(key, _)| !OF_FILE.contains(&&**key));
        let info = TraceInfo {
            sync_utc: (&trace.sync_time).into(),
            sync_ticks: trace.sync_ticks,
            ticks_per_second: trace.ticks_per_second,
            pointer_size: if trace.pointer_size == 4 { 4 } else { 8 },
            key_values: &types::pairs(&own),
        };
        stream.composer.begin(&info, &mut stream.bytes)?;
        Ok(stream)
    }

    /// Writes the next event of the only trace.
    pub(crate) fn add(
        &mut self,
        event: &Event<'_>,
        lane: &Lane,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        self.take(event, lane, kept)?;
        self.event(event.header.timestamp.into(), kept)
    }

    /// Notes how many events the threads of the only trace have lost in all.
    pub(crate) fn end_of<R: Source>(
        &mut self,
        reader: &SortedReader<R>,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        self.end_of_recording(reader, 0, kept)
    }

    fn end_of_recording<R: Source>(
        &mut self,
        reader: &SortedReader<R>,
        recording: usize,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        self.forget_if_many(kept);
        for totals in reader.live_threads().chain(reader.finished_threads()) {
            self.last_losses(totals, recording, kept)?;
        }
        Ok(())
    }

    /// Writes an event whose turn it is.
    pub(super) fn event(&mut self, at: i128, kept: &mut Kept) -> Result<(), Failure> {
        let at = match self.first {
            Some(first) => (at - first + START).clamp(0, u64::MAX.into()) as u64,
            None => at.clamp(0, u64::MAX.into()) as u64,
        };
        // An earlier one can only come from a trace that is wrong about its order.
        let at = if self.events > 0 { at.max(self.last) } else { at };
        let is_full = self.batch_rows >= BATCH || self.batch_bytes >= BATCH_BYTES;
        // What a batch defines again costs as much as its rows at most, also with long lists.
        let is_full = is_full && self.batch_bytes >= self.composer.repeated_bytes().min(MOST_AGAIN);
        // Two sequence points are never at the same time.
        if is_full && at > self.last {
            self.end_batch(false)?;
        }
        self.forget_if_many(kept);
        let mut event = mem::take(&mut kept.event);
        let result = self.row(at, &mut event, kept);
        kept.event = event;
        result
    }

    fn row(&mut self, at: u64, event: &mut Next, kept: &mut Kept) -> Result<(), Failure> {
        let capture = self.thread(event.capture, &event.recorder, event.recording, kept)?;
        self.lose(capture, event.lost, kept.told.entry(event.capture));
        if event.payload.len() > u16::MAX.into() {
            self.large_events += 1;
            return Ok(());
        }
        let thread = match event.thread {
            Some(thread) => self.thread(thread, &event.about, event.recording, kept)?,
            None => capture,
        };
        let stack = self.stack(&event.stack)?;
        let labels = match event.list {
            Some((batch, id)) if batch == self.composer.sequence_points() => id,
            _ => self.composer.label_list(&event.labels, &mut self.bytes)?,
        };
        event.list = Some((self.composer.sequence_points(), labels));
        let out = &mut self.threads[capture];
        out.emitted += 1;
        let header = RowHeader {
            metadata_id: event.ty,
            sequence: out.sequence(),
            capture_thread: FIRST_INDEX + capture as u64,
            processor: event.processor,
            thread: FIRST_INDEX + thread as u64,
            stack,
            timestamp: at,
            labels,
            ..RowHeader::default()
        };
        if !mem::replace(&mut out.is_in_batch, true) {
            self.batch.push(capture);
        }
        let size = self.composer.row(&header, &event.payload, &mut self.bytes)?;
        self.batch_rows += 1;
        self.batch_bytes += size;
        self.last = at;
        self.events += 1;
        Ok(())
    }

    /// Writes the rows of the batch, and a sequence point with the numbers of its threads. The last
    /// one has those of all.
    fn end_batch(&mut self, is_last: bool) -> Result<(), Failure> {
        let mut numbers = Vec::with_capacity(self.batch.len());
        for at in self.batch.drain(..) {
            let out = &mut self.threads[at];
            out.is_in_batch = false;
            let thread = FIRST_INDEX + at as u64;
            numbers.push(ThreadSequence { thread, sequence: out.sequence() });
        }
        (self.batch_rows, self.batch_bytes) = (0, 0);
        let flush_threads = self.threads.len() > MANY_THREADS && !is_last;
        if flush_threads || is_last {
            let threads = (FIRST_INDEX..).zip(&self.threads);
            let number =
                |(thread, it): (_, &OutThread)| ThreadSequence { thread, sequence: it.sequence() };
            numbers = threads.map(number).collect();
        }
        if flush_threads {
            self.epoch += 1;
            self.threads.clear();
        }
        let flags = SequencePointFlags { flush_threads, ..SequencePointFlags::default() };
        Ok(self.composer.sequence_point(self.last, flags, &numbers, &mut self.bytes)?)
    }

    /// Writes what is left, and the end.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.end_batch(true)?;
        Ok(self.composer.finish(&mut self.bytes)?)
    }

    /// Forgets the threads of a recording, if the stream has forgotten all.
    fn forget_if_many(&mut self, kept: &mut Kept) {
        if kept.threads_epoch != self.epoch {
            kept.threads_epoch = self.epoch;
            kept.threads.clear();
        }
    }

    /// Notes how many events a thread has lost in all.
    fn last_losses(
        &mut self,
        totals: &ThreadTotals,
        recording: usize,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        if totals.lost > 0 {
            let definition = totals.definition;
            let at = self.thread(definition, &totals.thread, recording, kept)?;
            self.lose(at, totals.lost, kept.told.entry(definition));
        }
        Ok(())
    }

    /// Notes how many events a thread has lost so far.
    fn lose(&mut self, thread: usize, lost: u64, told: Entry<'_, u64, u64>) {
        if lost > 0 {
            let told = told.or_default();
            // A larger gap is a step back, so the rest is told before the next event.
            let more = lost.saturating_sub(*told).min(i32::MAX as u64);
            *told += more;
            self.threads[thread].lost += more;
            self.lost += more;
        }
    }

    /// The thread of the result for one of a recording.
    fn thread(
        &mut self,
        definition: u64,
        thread: &Thread,
        recording: usize,
        kept: &mut Kept,
    ) -> Result<usize, Failure> {
        if let Some(at) = kept.threads.get(&definition) {
            return Ok(*at);
        }
        let at = self.threads.len();
        let process = thread.process_id.or(self.own_processes[recording]);
        let info = ThreadInfo {
            index: FIRST_INDEX + at as u64,
            name: thread.name.as_deref(),
            process_id: process.map(|id| self.processes.of(recording, id)),
            os_thread_id: thread.os_thread_id,
            key_values: &types::pairs(&thread.key_values),
        };
        self.composer.thread(&info, &mut self.bytes)?;
        self.threads.push(OutThread::default());
        kept.threads.insert(definition, at);
        Ok(at)
    }

    /// The key-values of a recording, which has the id of its process in the result.
    fn own(&mut self, number: usize, recording: &Recording) -> Vec<(String, String)> {
        self.own_processes.push(process_of(&recording.files[0].trace));
        let all = recording.files[0].trace.key_values.iter();
        let own = all.filter(|(key, _)| !OF_FILE.contains(&&**key));
        own.map(|(key, value)| {
            let process = value.parse().ok().filter(|_| recording_and_key(key).1 == "ProcessId");
            let value = match process {
                Some(id) => self.processes.of(number, id).to_string(),
                None => value.clone(),
            };
            (key.clone(), value)
        })
        .collect()
    }

    fn stack(&mut self, addresses: &[u64]) -> Result<u32, Failure> {
        // No reader takes a larger one.
        if addresses.len() * 8 > v6::MAX_STACK {
            return Ok(0);
        }
        Ok(self.composer.stack(addresses, &mut self.bytes)?)
    }

    /// The event type of the result that is the same.
    fn ty(&mut self, of: &Metadata, is_older: bool) -> Result<u32, Failure> {
        let mut of = Metadata { id: 0, ..of.clone() };
        if of.is_from_table {
            // Readers know the fields from a table, as this one does.
            of.fields.clear();
        }
        // Another build of a program has its types at other lines.
        let is_place = |key: &str| types::PLACE.contains(&key);
        let others = of.key_values.iter().filter(|(key, _)| !is_place(key)).cloned().collect();
        let placeless = Metadata { key_values: others, ..of.clone() };
        let text = format!("{is_older} {placeless:?}");
        if let Some(id) = self.types.get(&text) {
            return Ok(*id);
        }
        // The versions of a type share an id, also if they have other fields.
        let wanted = IdRequest { what: of.name.clone(), ..IdRequest::from(&of) };
        of.event_id = self.event_ids.give(wanted, Sharing::Versions);
        of.id = self.composer.new_metadata_id();
        let mut rows = Vec::new();
        types::put_description(&of, is_older, &mut rows)?;
        self.composer.metadata(&rows, &mut self.bytes)?;
        self.types.insert(text, of.id);
        Ok(of.id)
    }
}

/// Whether a key-value is of one recording even if others have the same one: the number in its key
/// counts the recordings of that trace, and processes of several traces may have one id.
fn is_own(key: &str) -> bool {
    let (recording, key) = recording_and_key(key);
    !recording.is_empty() || key == "ProcessId"
}

/// The key-values of the result, of those that each recording has of its own.
fn key_values(each: &[Vec<(String, String)>], recordings: &[Recording]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let sets: Vec<HashSet<_>> = each.iter().map(|own| own.iter().collect()).collect();
    for (number, own) in (1..).zip(each) {
        for pair in own {
            let is_alone = each.len() == 1;
            let is_common = is_alone || !is_own(&pair.0) && sets.iter().all(|it| it.contains(pair));
            match (is_common, number) {
                (true, 1) => all.push(pair.clone()),
                (true, _) => {}
                (false, _) => all.push((format!("{number}/{}", pair.0), pair.1.clone())),
            }
        }
    }
    let files: usize = recordings.iter().map(|recording| recording.files.len()).sum();
    all.push((keys::MERGED.into(), format!("{files} files")));
    all.extend(Origins::of(recordings.iter().flat_map(|it| &it.files)).key_value());
    let gaps = recordings.iter().flat_map(Recording::gaps);
    all.extend(gaps.map(|gap| (keys::MISSING.into(), gap.to_string())));
    all
}
