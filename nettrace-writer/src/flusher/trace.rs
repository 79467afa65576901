//! The bytes of a trace: what the stream has said so far, and the blocks that say what comes next.
//!
//! They are of version 6. A [stage](Stage) turns each block into what the sink gets, if the trace
//! has another format or lacks some values.

mod rewriting;
mod rollback;
mod splicing;

pub(super) use rollback::Mark;

use std::{collections::HashMap, ops::Range};

use nettrace_event::keys;
use nettrace_format::{
    Format, FormatError, LeftOut, Stage, StreamEnd, ThreadIds,
    v6::{self, SequencePointFlags, SystemTimeParts, ThreadInfo, ThreadSequence, TraceInfo},
};

use crate::{
    flusher::{
        NewTrace,
        ids::{Interned, at_random},
        output::Output,
        processors,
        segment::{Segment, Step},
        trace::{
            rollback::{Change, Said},
            splicing::{Pending, Splice},
        },
    },
    process::thread::ThreadRef,
    protocol::{
        clock::Sync,
        pool::Pool,
        row::{Escape, EscapeBytes},
    },
    shared::{Shared, known_types::KnownType, trace_ids::Ids},
};

/// Rows do not name a processor.
const NO_PROCESSOR: u32 = u32::MAX;

/// A thread, as the trace knows it.
#[derive(Debug)]
pub(super) struct TraceThread {
    /// The number with which rows name this thread.
    index: u64,
    /// The last number that is accounted for: it has a row, or its event is known to be lost.
    pub(super) told: u64,
    said: Said,
    labels: InForce,
    /// If it is in a recorder file: the number of its slot.
    pub(super) slot: Option<u32>,
}

/// The labels in force at a thread's next row, as the last escape with labels says them.
#[derive(Debug)]
struct InForce {
    kind: Escape,
    data: Vec<u8>,
}

impl InForce {
    const NOTHING: Self = Self { kind: Escape::Labels, data: Vec::new() };

    /// Takes over what an [escape](Escape::Labels) says.
    fn set(&mut self, kind: Escape, data: &[u8]) {
        self.kind = kind;
        self.data.clear();
        self.data.extend_from_slice(data);
    }

    fn escape(&self) -> EscapeBytes<'_> {
        EscapeBytes { kind: self.kind, data: &self.data }
    }
}

impl TraceThread {
    /// Whether events are missing that no stream shows as a gap yet.
    pub(super) fn owes(&self) -> bool {
        self.told > self.said.shown
    }

    pub(super) fn is_declared(&self) -> bool {
        self.said.declared
    }

    /// The number with which rows name this thread.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// The last number that the streams show.
    pub(super) fn shown(&self) -> u64 {
        self.said.shown
    }

    /// How many events are missing that no stream shows as a gap yet.
    pub(super) fn owed(&self) -> u64 {
        self.told - self.said.shown
    }

    /// The thread's last number in the stream.
    fn sequence(&self) -> ThreadSequence {
        let sequence = self.told.wrapping_sub(self.said.base) as u32;
        ThreadSequence { thread: self.index, sequence }
    }
}

/// What a thread of the trace stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named<'a> {
    Thread(&'a ThreadRef),
    /// No thread of its own, but something with this name.
    Nobody(&'static str),
}

/// The result of writing a segment.
#[derive(Debug)]
pub(super) struct Told {
    /// How many rows the format cannot hold.
    pub(super) refused: u64,
    /// The last escape with labels in the segment: its kind, and where in the chunk its data are.
    labels: Option<(Escape, Range<usize>)>,
}

/// How many related threads are remembered: rows are about them, but they recorded none.
const MOST_RELATED: usize = 1 << 14;

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Trace {
    stage: Option<Box<dyn Stage>>,
    key_values: Vec<(String, String)>,
    /// What readers tell the streams of one recording by, and the number of the stream that begins
    /// next.
    recording: String,
    number: u64,
    ids: ThreadIds,
    /// How many threads are declared.
    declared: usize,
    /// Whether a type is defined, by its metadata id.
    defined: Vec<bool>,
    /// How many of the [types that the session has met](Shared::met_since) are defined.
    known_types: usize,
    stacks: Interned,
    label_lists: Interned,
    label_ids: Ids,
    /// Threads that recorded nothing, but that rows are about: their indices, by their numbers.
    related: HashMap<u64, u64>,
    scratch: Vec<u8>,
    pending: Pending,
    splice: Splice,
    /// What has changed since everything had reached the sink, the mark of that state, and a mark
    /// after each block since.
    changes: Vec<Change>,
    settled: Option<Mark>,
    marks: Vec<Mark>,
}

impl Trace {
    /// A trace that remembers `most_interned` bytes of stacks, and as many of label lists.
    pub(super) fn new(new: NewTrace, most_interned: usize) -> Self {
        let NewTrace { stage, ids: label_ids, key_values } = new;
        Self {
            stage,
            key_values,
            recording: format!("{:016x}", at_random()),
            number: 1,
            ids: ThreadIds::new(Format::V6),
            declared: 0,
            defined: Vec::new(),
            known_types: 0,
            stacks: Interned::new(most_interned),
            label_lists: Interned::new(most_interned / 2),
            label_ids,
            related: HashMap::new(),
            scratch: Vec::new(),
            pending: Pending::default(),
            splice: Splice::default(),
            changes: Vec::new(),
            settled: None,
            marks: Vec::new(),
        }
    }

    /// Begins a stream in which nothing will be older than `sync`. Returns its first bytes. They
    /// define nothing.
    pub(super) fn header(&mut self, sync: Sync) -> Result<Vec<u8>, FormatError> {
        self.defined.clear();
        (self.known_types, self.declared) = (0, 0);
        self.stacks.begin();
        self.label_lists.begin();
        self.related.clear();
        let mut out = Vec::new();
        let processors = processors::online().to_string();
        let process = std::process::id().to_string();
        let number = self.number.to_string();
        let mut key_values = vec![
            ("ProcessId", &*process),
            ("HardwareThreadCount", &processors),
            (keys::RECORDING, &self.recording),
            (keys::FILE, &number),
        ];
        key_values.extend(self.key_values.iter().map(|(key, value)| (&**key, &**value)));
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis(sync.unix_millis as i64),
            sync_ticks: sync.ticks,
            ticks_per_second: sync.ticks_per_second,
            pointer_size: size_of::<usize>() as u32,
            key_values: &key_values,
        };
        match &mut self.stage {
            Some(stage) => stage.begin(&info, &mut out)?,
            None => {
                v6::stream_header(&mut out);
                v6::trace_block(&info, &mut out)?;
            }
        }
        self.settle();
        Ok(out)
    }

    /// The number of the stream that begins next.
    pub(super) fn next_number(&self) -> u64 {
        self.number
    }

    /// Notes that the sink has begun the stream of the last [`header`](Self::header).
    pub(super) fn has_begun(&mut self) {
        self.number += 1;
    }

    pub(super) fn end(&self) -> StreamEnd {
        self.stage.as_ref().map_or(StreamEnd::new(&v6::END_OF_STREAM), |stage| stage.end())
    }

    /// Whether a sequence point should come soon: see [`Stage::wants_point`].
    pub(super) fn wants_point(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.wants_point())
    }

    /// The largest number of bytes that it takes to end the stream now: to tell every thread's last
    /// number, and to remove the threads.
    pub(super) fn closing_size(&self) -> u64 {
        let own = || v6::closing_size(self.declared);
        self.stage.as_ref().map_or_else(own, |stage| stage.closing_size())
    }

    /// Whether a stage makes something else of the trace.
    pub(super) fn has_stage(&self) -> bool {
        self.stage.is_some()
    }

    /// Writes what a stage must still tell in the stream.
    pub(super) fn end_stream(&mut self, out: &mut Output) -> Result<(), FormatError> {
        if let Some(stage) = &mut self.stage {
            out.stage(|_, out| stage.finish(out))?;
            self.end_block(0, out)?;
        }
        Ok(())
    }

    /// How many lost events no stream has told, because a stage could not.
    pub(super) fn untold_losses(&self) -> u64 {
        self.stage.as_ref().map_or(0, |stage| stage.untold_losses())
    }

    /// The names of values to keep out that nothing has had so far.
    pub(super) fn unredacted(&self) -> Vec<&str> {
        self.stage.as_ref().map(|stage| stage.unused_names()).unwrap_or_default()
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.stage.as_ref().map(|stage| stage.left_out()).unwrap_or_default()
    }

    /// Restores what [`left_out`](Self::left_out) returned, because the stream that was begun since
    /// does not exist.
    pub(super) fn set_left_out(&mut self, left_out: LeftOut) {
        if let Some(stage) = &mut self.stage {
            stage.set_left_out(left_out);
        }
    }

    /// A batch for what this trace writes.
    pub(super) fn output(&self) -> Output {
        if self.stage.is_some() { Output::staged() } else { Output::default() }
    }

    /// A thread that is new to the session. The trace says nothing of it yet.
    pub(super) fn thread(&mut self) -> TraceThread {
        TraceThread {
            index: self.ids.index(),
            told: 0,
            said: Said::default(),
            labels: InForce::NOTHING,
            slot: None,
        }
    }

    /// Defines the event types that rows of the session may have and that are not defined yet.
    pub(super) fn metadata(
        &mut self,
        session: &Shared,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let mut types = Vec::new();
        let (defined, changes) = (&mut self.defined, &mut self.changes);
        self.known_types =
            session.known_types_since(self.known_types, |KnownType { ty, schema }| {
                let index = ty.index() as usize;
                if defined.len() <= index {
                    defined.resize(index + 1, false);
                }
                // No session records a type that its format cannot describe (see `sessions`).
                if !std::mem::replace(&mut defined[index], true) && session.describes(ty).is_ok() {
                    types.push((ty.index(), schema));
                    changes.push(Change::Type(index));
                }
            });
        if types.is_empty() {
            return Ok(());
        }
        if let Some(stage) = &mut self.stage {
            out.stage(|_, out| stage.define(&types, out))?;
        } else {
            let mut rows = Vec::new();
            for (id, schema) in types {
                v6::metadata_row(id, schema, &mut rows)?;
            }
            out.own(|out| v6::metadata_block(&rows, out))?;
        }
        self.end_block(0, out).map(drop)
    }

    /// Declares a thread, unless it is declared.
    pub(super) fn declare(
        &mut self,
        thread: &mut TraceThread,
        who: Named<'_>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if thread.said.declared {
            return Ok(());
        }
        self.note(thread);
        thread.said.declared = true;
        match who {
            Named::Thread(who) => {
                self.introduce(thread.index, who.name(), Some(who.os_id()), who.key_values(), out)
            }
            Named::Nobody(name) => self.introduce(thread.index, Some(name), None, &[], out),
        }
    }

    fn introduce(
        &mut self,
        index: u64,
        name: Option<&str>,
        os_thread_id: Option<u64>,
        key_values: &[(String, String)],
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let key_values: Vec<_> =
            key_values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let thread = ThreadInfo {
            index,
            name,
            process_id: Some(u64::from(std::process::id())),
            os_thread_id: os_thread_id.filter(|&id| id != 0),
            key_values: &key_values,
        };
        let mut row = Vec::new();
        v6::thread_row(&thread, &mut row)?;
        out.own(|out| v6::thread_block(&row, out))?;
        self.declared += 1;
        self.end_block(0, out).map(drop)
    }

    /// Ends a block (or several) with this many rows. Returns how many of them a stage refuses.
    fn end_block(&mut self, rows: u64, out: &mut Output) -> Result<u64, FormatError> {
        let mut refused = 0;
        if let Some(stage) = &mut self.stage {
            refused = out.stage(|blocks, out| stage.blocks(blocks, out))?;
        }
        if out.end_block(rows.saturating_sub(refused)) {
            self.mark_block();
        }
        Ok(refused)
    }

    /// Forgets what the last stream said of a thread, because a new stream begins.
    pub(super) fn restart_thread(&mut self, thread: &mut TraceThread) {
        let shown = thread.said.shown;
        thread.said = Said { base: shown, shown, ..Said::default() };
    }

    /// Notes the result of [`events`](Self::events) for a segment that stays in the stream.
    pub(super) fn keep(thread: &mut TraceThread, segment: &Segment, told: &Told, pool: &Pool) {
        thread.told = segment.end_number;
        if let Some((kind, data)) = &told.labels {
            thread.labels.set(*kind, &segment.bytes(pool)[data.clone()]);
        }
    }

    /// Notes that a segment's rows are lost.
    pub(super) fn lose(thread: &mut TraceThread, segment: &Segment, pool: &Pool) {
        thread.told = segment.end_number;
        let mut walk = segment.walk(pool);
        while let Some(step) = walk.next().filter(|_| segment.has_escapes()) {
            if let Step::Escape(EscapeBytes { kind, data, .. }) = step {
                if matches!(kind, Escape::Labels | Escape::Span) {
                    thread.labels.set(kind, data);
                }
            }
        }
    }

    /// Writes a segment as one block. If the block stays in the stream, call [`keep`](Self::keep)
    /// with the result.
    pub(super) fn events(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<Told, FormatError> {
        if self.related.len() >= MOST_RELATED {
            // Do it now, while no block is being made whose rows refer to them.
            self.forget_related(out)?;
        }
        match segment.correction {
            None => self.spliced(thread, segment, sorted, pool, out),
            Some(_) => self.rewritten(thread, segment, sorted, pool, out),
        }
    }

    /// Writes a block of rows from one time to another: those of the output from `begin` on, and
    /// parts of a chunk, which has these bytes, among them.
    fn event_block(
        &mut self,
        (first_ts, last_ts): (u64, u64),
        begin: usize,
        (chunk, parts): (u32, &[(usize, Range<usize>)]),
        bytes: &[u8],
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let end = out.rows.len();
        let len = end - begin + parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        let header = v6::event_block_header(first_ts, last_ts, true, len)?;
        out.own(|out| out.extend(header));
        let mut copied = begin;
        for (until, part) in parts {
            out.copied(copied..*until);
            out.chunk((chunk, bytes), part.clone());
            copied = *until;
        }
        out.copied(copied..end);
        Ok(())
    }

    /// Ends a block of rows of a thread. `last` is the number that the last row shows. Returns how
    /// many rows a stage refuses.
    fn end_rows(
        &mut self,
        thread: &mut TraceThread,
        last: u64,
        rows: u64,
        out: &mut Output,
    ) -> Result<u64, FormatError> {
        self.note(thread);
        thread.said.shown = last;
        self.end_block(rows, out)
    }

    /// The index of the thread that an escape names. Declares the thread if it is not declared.
    fn related(&mut self, bytes: &[u8], out: &mut Output) -> Result<Option<u64>, FormatError> {
        let (Some(number), Some(os_id)) =
            (bytes.first_chunk(), bytes.get(8..).and_then(<[u8]>::first_chunk))
        else {
            return Ok(None);
        };
        let (number, os_id) = (u64::from_le_bytes(*number), u64::from_le_bytes(*os_id));
        if let Some(&index) = self.related.get(&number) {
            return Ok(Some(index));
        }
        self.define_pending(out)?;
        let name = String::from_utf8_lossy(&bytes[16..]);
        let name = (!name.is_empty()).then_some(&*name);
        self.changes.push(Change::Related(number));
        // A thread may have two entries: one as a recorder, one as a subject.
        let index = self.ids.index();
        self.introduce(index, name, Some(os_id), &[], out)?;
        self.related.insert(number, index);
        Ok(Some(index))
    }

    /// Writes a sequence point: everything older than `ts` comes before it, and it tells the
    /// numbers that were given out up to there.
    pub(super) fn sequence_point<'a>(
        &mut self,
        ts: u64,
        threads: impl Iterator<Item = &'a mut TraceThread>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let mut entries = Vec::new();
        for thread in threads.filter(|thread| thread.said.declared) {
            self.note(thread);
            thread.said.shown = thread.told;
            entries.push(thread.sequence());
        }
        let flags = SequencePointFlags::default();
        out.own(|out| v6::sequence_point(ts, flags, &entries, out))?;
        let before = [self.stacks.begin(), self.label_lists.begin()];
        self.changes.push(Change::Point(Box::new(before)));
        self.end_block(0, out)?;
        self.forget_related(out)
    }

    /// Removes threads that recorded nothing, so that the table does not grow without bound. They
    /// are introduced again when rows need them again.
    fn forget_related(&mut self, out: &mut Output) -> Result<(), FormatError> {
        let related: Vec<_> = self.related.drain().collect();
        let removed = related.iter().map(|&(_, thread)| ThreadSequence { thread, sequence: 0 });
        let removed: Vec<_> = removed.collect();
        self.changes.push(Change::RelatedGone(related));
        self.remove(&removed, out)
    }

    /// Removes a thread that has ended. All its rows must be written.
    pub(super) fn remove_thread(
        &mut self,
        thread: &mut TraceThread,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if !thread.said.declared {
            return Ok(());
        }
        self.note(thread);
        thread.said.declared = false;
        thread.said.shown = thread.told;
        self.remove(&[thread.sequence()], out)
    }

    fn remove(&mut self, threads: &[ThreadSequence], out: &mut Output) -> Result<(), FormatError> {
        if !threads.is_empty() {
            out.own(|out| v6::remove_thread_block(threads, out))?;
            self.declared = self.declared.saturating_sub(threads.len());
            self.end_block(0, out)?;
        }
        Ok(())
    }
}
