//! The bytes of a trace: what has been said in it so far, and blocks that say what comes next.

use std::collections::HashMap;

use nettrace_format::{
    FormatError,
    v6::{
        self, Label, RowEncoder, RowHeader, SequencePointFlags, SystemTimeParts, ThreadInfo,
        ThreadSequence, TraceInfo,
    },
};
use trace_event::{EventType, registry};

use crate::{
    flusher::{
        output::Output,
        segment::{Segment, Step, gap_of},
    },
    labels,
    pool::Pool,
    row::Escape,
    shared::Shared,
    sync::thread,
    thread::ThreadRef,
};

/// Thread indices begin here, where no operating system has thread ids: the reference reader forgets threads by OS id when it is
/// told an index.
const FIRST_INDEX: u64 = 1 << 32;
/// An event does not say on which processor it was recorded.
const NO_PROCESSOR: u32 = u32::MAX;

/// A thread, as the trace knows it.
#[derive(Debug)]
pub(super) struct TraceThread {
    pub(super) index: u64,
    /// The number that this stream counts from: what was given before belongs to an earlier one.
    pub(super) base: u64,
    /// The last number that the stream accounts for.
    pub(super) told: u64,
    declared: bool,
    /// The labels in force at its next row, as escapes have them.
    labels: Vec<u8>,
}

/// State of one stream.
#[derive(Debug)]
pub(super) struct Trace {
    key_values: Vec<(String, String)>,
    next_index: u64,
    /// By metadata id.
    defined: Vec<bool>,
    newest_type: Option<&'static EventType>,
    stacks: Interned,
    label_lists: Interned,
    /// Threads that rows refer to without having emitted anything: by number, their indices.
    related: HashMap<u64, u64>,
    scratch: Vec<u8>,
}

/// Ids of byte strings, from one sequence point to the next.
#[derive(Debug, Default)]
struct Interned {
    ids: HashMap<Box<[u8]>, u32>,
    last: u32,
}

/// How many byte strings are remembered. Where there are more between two sequence points (which can be far apart if a thread
/// is stuck) some are defined again, under other ids.
const MAX_INTERNED: usize = 1 << 16;

impl Interned {
    /// The id, and whether it is new.
    fn id(&mut self, bytes: &[u8]) -> (u32, bool) {
        if let Some(&id) = self.ids.get(bytes) {
            return (id, false);
        }
        if self.ids.len() == MAX_INTERNED {
            self.ids.clear();
        }
        self.last += 1;
        self.ids.insert(bytes.into(), self.last);
        (self.last, true)
    }
}

impl Trace {
    pub(super) fn new(key_values: Vec<(String, String)>) -> Self {
        Self {
            key_values,
            next_index: FIRST_INDEX,
            defined: Vec::new(),
            newest_type: None,
            stacks: Interned::default(),
            label_lists: Interned::default(),
            related: HashMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Starts a stream: its first bytes. Nothing is defined in it.
    pub(super) fn header(&mut self, session: &Shared) -> Result<Vec<u8>, FormatError> {
        self.defined.clear();
        self.newest_type = None;
        self.stacks = Interned::default();
        self.label_lists = Interned::default();
        self.related.clear();
        let mut out = Vec::new();
        v6::stream_header(&mut out);
        let sync = session.source.sync();
        let processors = thread::available_parallelism().map_or(1, usize::from).to_string();
        let process = std::process::id().to_string();
        let mut key_values = vec![("ProcessId", &*process), ("HardwareThreadCount", &*processors)];
        key_values.extend(self.key_values.iter().map(|(key, value)| (&**key, &**value)));
        let info = TraceInfo {
            sync_utc: SystemTimeParts::from_unix_millis(sync.unix_millis as i64),
            sync_ticks: sync.ticks,
            ticks_per_second: session.source.ticks_per_second(),
            pointer_size: size_of::<usize>() as u32,
            key_values: &key_values,
        };
        v6::trace_block(&info, &mut out)?;
        Ok(out)
    }

    /// A thread that is new to the session. Nothing of it is in the trace yet.
    pub(super) fn thread(&mut self) -> TraceThread {
        let index = self.take_index();
        TraceThread { index, base: 0, told: 0, declared: false, labels: Vec::new() }
    }

    fn take_index(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index - 1
    }

    /// Defines every event type that the session records and that is not defined.
    pub(super) fn metadata(
        &mut self,
        session: &Shared,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        self.scratch.clear();
        let newest = registry::types().next();
        // The list grows at its head: what stands behind the type that was its head is known.
        let known = self.newest_type;
        let new = registry::types()
            .take_while(|ty| !known.is_some_and(|known| std::ptr::eq(*ty, known)))
            .filter(|ty| session.wants(ty));
        for ty in new {
            let index = ty.index() as usize;
            if self.defined.len() <= index {
                self.defined.resize(index + 1, false);
            }
            if !std::mem::replace(&mut self.defined[index], true) {
                // A type that cannot be described was never listened to (see `sessions`), and leaves nothing behind here.
                let _ = v6::metadata_row(ty.index(), ty.schema(), &mut self.scratch);
            }
        }
        self.newest_type = newest;
        if !self.scratch.is_empty() {
            out.own(|out| v6::metadata_block(&self.scratch, out))?;
            out.end_block(0);
        }
        Ok(())
    }

    /// Declares a thread, if it is not.
    pub(super) fn declare(
        &mut self,
        thread: &mut TraceThread,
        who: Option<&ThreadRef>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if std::mem::replace(&mut thread.declared, true) {
            return Ok(());
        }
        let name = who.map_or(Some("(events that no thread could be named for)"), ThreadRef::name);
        let os_id = who.map(ThreadRef::os_id);
        declare(thread.index, name, os_id, out)
    }

    /// The stream begins anew for a thread.
    pub(super) fn restart_thread(&mut self, thread: &mut TraceThread) {
        thread.declared = false;
        thread.base = thread.told;
    }

    /// Writes a segment as one block.
    pub(super) fn events(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if segment.escapes {
            return self.rewritten(thread, segment, sorted, pool, out);
        }
        let mut walk = segment.walk(pool);
        let Some(Step::Row(first, payload)) = walk.next() else { return Ok(()) };
        let labels = self.labels(&thread.labels, out)?;
        let row = RowHeader {
            sequence: (segment.number - thread.base) as u32,
            capture_thread: thread.index,
            thread: thread.index,
            processor: NO_PROCESSOR,
            labels,
            sorted,
            ..first
        };
        self.scratch.clear();
        RowEncoder::new().full_row(&row, &mut self.scratch);
        // What follows the first header is as the producer wrote it.
        let body = walk.at - payload.len();
        let rows_len = self.scratch.len() + (segment.end - body);
        let header = v6::event_block_header(first.timestamp, segment.last_ts, true, rows_len)?;
        out.own(|out| {
            out.extend(header);
            out.extend(&self.scratch);
        });
        out.chunk(segment.chunk, body, segment.end);
        out.end_block(segment.rows);
        Ok(())
    }

    /// Writes a segment that has escapes, row by row.
    fn rewritten(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        let mut encoder = RowEncoder::new();
        let mut walk = segment.walk(pool);
        let mut labels = self.labels(&thread.labels, out)?;
        let (mut number, mut stack, mut about) = (segment.number, 0, thread.index);
        let (mut first_ts, mut last_ts, mut count) = (None, 0, 0);
        while let Some(step) = walk.next() {
            match step {
                Step::Escape(kind, bytes) => match kind {
                    Escape::Gap => number += gap_of(kind, bytes),
                    Escape::Labels => {
                        thread.labels.clear();
                        thread.labels.extend_from_slice(bytes);
                        labels = self.labels(bytes, out)?;
                    }
                    Escape::Stack => stack = self.stack(bytes, out)?,
                    Escape::Thread => about = self.related(bytes, out)?.unwrap_or(thread.index),
                },
                Step::Row(row, payload) => {
                    let header = RowHeader {
                        sequence: (number - thread.base) as u32,
                        capture_thread: thread.index,
                        thread: about,
                        processor: NO_PROCESSOR,
                        stack,
                        labels,
                        sorted: sorted && first_ts.is_none(),
                        ..row
                    };
                    if first_ts.is_none() {
                        encoder.full_row(&header, &mut rows);
                    } else {
                        encoder.row(&header, &mut rows);
                    }
                    rows.extend_from_slice(payload);
                    first_ts.get_or_insert(row.timestamp);
                    last_ts = row.timestamp;
                    (number, stack, about, count) = (number + 1, 0, thread.index, count + 1);
                }
            }
        }
        if let Some(first_ts) = first_ts {
            let header = v6::event_block_header(first_ts, last_ts, true, rows.len())?;
            out.own(|out| {
                out.extend(header);
                out.extend(&rows);
            });
            out.end_block(count);
        }
        self.scratch = rows;
        Ok(())
    }

    /// The id of a label list, which is defined now if it was not.
    fn labels(&mut self, bytes: &[u8], out: &mut Output) -> Result<u32, FormatError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let (id, is_new) = self.label_lists.id(bytes);
        if is_new {
            let list: Vec<Label<'_>> = labels::decode_all(bytes);
            out.own(|out| v6::label_list_block(id, &[&list], out))?;
            out.end_block(0);
        }
        Ok(id)
    }

    /// The id of a stack, which is defined now if it was not.
    fn stack(&mut self, bytes: &[u8], out: &mut Output) -> Result<u32, FormatError> {
        let (id, is_new) = self.stacks.id(bytes);
        if is_new {
            let addresses: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
                .collect();
            let pointer_size = size_of::<usize>() as u32;
            out.own(|out| v6::stack_block(id, &[&addresses], pointer_size, out))?;
            out.end_block(0);
        }
        Ok(id)
    }

    /// The index of the thread that an escape names, which is declared now if it was not.
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
        // A thread may have two entries: one for what it emits, one for what is said of it.
        let index = self.take_index();
        self.related.insert(number, index);
        let name = String::from_utf8_lossy(&bytes[16..]);
        declare(index, (!name.is_empty()).then_some(&*name), Some(os_id), out)?;
        Ok(Some(index))
    }

    /// Ends an epoch: everything older than `ts` stands before this point, with the numbers that were given up to it.
    pub(super) fn sequence_point<'a>(
        &mut self,
        ts: u64,
        threads: impl Iterator<Item = &'a TraceThread>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let entries: Vec<_> = threads
            .filter(|thread| thread.declared)
            .map(|thread| ThreadSequence {
                thread: thread.index,
                sequence: (thread.told - thread.base) as u32,
            })
            .collect();
        out.own(|out| v6::sequence_point(ts, SequencePointFlags::default(), &entries, out))?;
        out.end_block(0);
        self.stacks = Interned::default();
        self.label_lists = Interned::default();
        // What was only spoken of is introduced again when it is needed again, so that the table does not grow for ever.
        let related: Vec<_> = self
            .related
            .drain()
            .map(|(_, thread)| ThreadSequence { thread, sequence: 0 })
            .collect();
        self.remove(&related, out)
    }

    /// A thread has ended, and everything of it was written.
    pub(super) fn remove_thread(
        &mut self,
        thread: &TraceThread,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if !thread.declared {
            return Ok(());
        }
        let sequence = (thread.told - thread.base) as u32;
        self.remove(&[ThreadSequence { thread: thread.index, sequence }], out)
    }

    fn remove(&mut self, threads: &[ThreadSequence], out: &mut Output) -> Result<(), FormatError> {
        if !threads.is_empty() {
            out.own(|out| v6::remove_thread_block(threads, out))?;
            out.end_block(0);
        }
        Ok(())
    }
}

fn declare(
    index: u64,
    name: Option<&str>,
    os_thread_id: Option<u64>,
    out: &mut Output,
) -> Result<(), FormatError> {
    let thread = ThreadInfo {
        index,
        name,
        process_id: Some(u64::from(std::process::id())),
        os_thread_id: os_thread_id.filter(|&id| id != 0),
        key_values: &[],
    };
    let mut row = Vec::new();
    v6::thread_row(&thread, &mut row)?;
    out.own(|out| v6::thread_block(&row, out))?;
    out.end_block(0);
    Ok(())
}
