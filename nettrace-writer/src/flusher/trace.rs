//! The bytes of a trace: what has been said in it so far, and blocks that say what comes next.

use std::collections::HashMap;

use nettrace_format::{
    Format, FormatError, LeftOut, Row, Stream,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    v6::ThreadSequence,
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
    sink::Padding,
    sync::thread,
    thread::ThreadRef,
};

/// An event does not say on which processor it was recorded.
const NO_PROCESSOR: u32 = u32::MAX;

/// A thread, as the trace knows it.
#[derive(Debug)]
pub(super) struct TraceThread {
    /// The number by which rows name the thread that recorded them.
    index: u64,
    /// The number by which they name the thread that they are about.
    subject: u64,
    /// The number that this stream counts from: what was given before belongs to an earlier one.
    pub(super) base: u64,
    /// The last number that the stream accounts for.
    pub(super) told: u64,
    declared: bool,
    /// Whether a row of it is in the stream.
    has_rows: bool,
    /// The labels in force at its next row, as escapes have them.
    labels: Vec<u8>,
}

impl TraceThread {
    /// Its last number in the stream.
    fn sequence(&self) -> ThreadSequence {
        let sequence = self.told.wrapping_sub(self.base) as u32;
        ThreadSequence { thread: self.index, sequence }
    }
}

/// State of one stream.
#[derive(Debug)]
pub(super) struct Trace {
    stream: Stream,
    key_values: Vec<(String, String)>,
    next_index: u64,
    os_ids: OsIds,
    /// Threads that ended and that the next sequence point is to name, and events that were lost of threads without a row: only
    /// where the format does not introduce threads.
    gone: Vec<ThreadSequence>,
    owed: u64,
    /// The thread that wrote last, with the number that a sequence point told of it.
    latest: ThreadSequence,
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
    pub(super) fn new(format: Format, key_values: Vec<(String, String)>) -> Self {
        let stream = Stream::new(format);
        Self {
            // Where no operating system has thread ids: the reference reader forgets threads by OS id when it is told an index.
            next_index: stream.first_thread_index(),
            stream,
            key_values,
            os_ids: OsIds::default(),
            gone: Vec::new(),
            owed: 0,
            latest: ThreadSequence { thread: 0, sequence: 0 },
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
        self.gone.clear();
        // What is owed stays: a stream without a row had no place for it.
        self.latest = ThreadSequence { thread: 0, sequence: 0 };
        self.stacks = Interned::default();
        self.label_lists = Interned::default();
        self.related.clear();
        let mut out = Vec::new();
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
        self.stream.begin(&info, &mut out)?;
        Ok(out)
    }

    pub(super) fn end_of_stream(&self) -> &'static [u8] {
        self.stream.end_of_stream()
    }

    pub(super) fn padding(&self) -> Option<Padding> {
        self.stream.padding()
    }

    /// Whether a sequence point should come soon: the reference reader remembers 4,999 threads where none are introduced, and what was
    /// lost of the others it does not count.
    pub(super) fn wants_point(&self) -> bool {
        self.gone.len() >= 1_000
    }

    /// Whether it is sequence points that tell the last numbers of threads that ended.
    pub(super) fn removes_threads_at_points(&self) -> bool {
        !self.stream.introduces_threads()
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.stream.left_out()
    }

    /// A thread that is new to the session. Nothing of it is in the trace yet.
    pub(super) fn thread(&mut self, who: Option<&ThreadRef>) -> TraceThread {
        let os_id = who.map_or(0, ThreadRef::os_id);
        let by_os_id = self.stream.names_threads_by_os_id();
        // Numbers count the events of one index: another thread's must not go on where the last one's with the same id ended.
        let index = if by_os_id && self.os_ids.claim(os_id) { os_id } else { self.take_index() };
        // Where a thread is introduced its index says all.
        let has_name = by_os_id && !self.stream.introduces_threads() && self.is_name(os_id);
        let subject = if has_name { os_id } else { index };
        TraceThread {
            index,
            subject,
            base: 0,
            told: 0,
            declared: false,
            has_rows: false,
            labels: Vec::new(),
        }
    }

    /// Whether an id of the operating system can stand for its thread.
    fn is_name(&self, os_id: u64) -> bool {
        os_id != 0 && os_id < self.stream.first_thread_index()
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
        let mut types = Vec::new();
        let newest = registry::types().next();
        // The list grows at its head: what stands behind the type that was its head is known.
        let known = self.newest_type;
        let new = registry::types()
            .take_while(|ty| !known.is_some_and(|known| std::ptr::eq(*ty, known)))
            .filter(|ty| session.may_meet(ty));
        for ty in new {
            let index = ty.index() as usize;
            if self.defined.len() <= index {
                self.defined.resize(index + 1, false);
            }
            // A type that cannot be described was never listened to (see `sessions`).
            if !std::mem::replace(&mut self.defined[index], true) && session.describes(ty).is_ok() {
                types.push((ty.index(), ty.schema()));
            }
        }
        self.newest_type = newest;
        if !types.is_empty() {
            out.own(|out| self.stream.define(&types, out))?;
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
        declare(&mut self.stream, thread.index, name, os_id, out)
    }

    /// The stream begins anew for a thread.
    pub(super) fn restart_thread(&mut self, thread: &mut TraceThread) {
        (thread.declared, thread.has_rows) = (false, false);
        thread.base = thread.told;
    }

    /// Writes a segment as one block. Says how many of its rows the format cannot hold.
    pub(super) fn events(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<u64, FormatError> {
        let first_number = segment.number.wrapping_sub(thread.base) as u32;
        let is_late = !thread.has_rows && !self.stream.introduces_threads() && first_number != 1;
        if segment.escapes || is_late || !self.stream.takes_rows_as_recorded() {
            return self.rewritten(thread, segment, sorted, pool, out);
        }
        thread.has_rows = true;
        self.latest.thread = thread.index;
        let mut walk = segment.walk(pool);
        let Some(Step::Row(first, payload)) = walk.next() else { return Ok(0) };
        let list = labels::decode_all(&thread.labels);
        let header = RowHeader {
            sequence: first_number,
            capture_thread: thread.index,
            thread: thread.subject,
            processor: NO_PROCESSOR,
            labels: self.labels(&thread.labels, &list, out)?,
            sorted,
            ..first
        };
        let row = Row { header, labels: &list, stack: &[], payload };
        self.scratch.clear();
        let told = self.stream.row(&row, true, &mut self.scratch);
        debug_assert!(told.is_ok(), "what is taken as recorded has no payload of its own");
        // What follows the first row is as the producer wrote it.
        self.stream.rows_as_recorded(&list, segment.rows.saturating_sub(1));
        let rows_len = self.scratch.len() + (segment.end - walk.at);
        let tail = out.own(|out| {
            let tail = self.stream.event_block(first.timestamp, segment.last_ts, rows_len, out)?;
            out.extend(&self.scratch);
            Ok::<_, FormatError>(tail)
        })?;
        out.chunk(segment.chunk, walk.at, segment.end);
        out.own(|out| out.extend(tail));
        out.end_block(segment.rows);
        Ok(0)
    }

    /// Writes a segment row by row: it has escapes, or the format has rows of its own.
    fn rewritten(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        mut sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<u64, FormatError> {
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        let mut walk = segment.walk(pool);
        let mut list = labels::decode_all(&thread.labels);
        let mut labels = self.labels(&thread.labels, &list, out)?;
        let (mut number, mut stack, mut about) = (segment.number, 0, thread.subject);
        let mut addresses = Vec::new();
        let (mut first_ts, mut last_ts, mut count, mut refused) = (None, 0, 0, 0);
        let mut latest = None;
        while let Some(step) = walk.next() {
            match step {
                Step::Escape(kind, bytes) => match kind {
                    Escape::Gap => number += gap_of(kind, bytes),
                    Escape::Labels => {
                        latest = Some(bytes);
                        list = labels::decode_all(bytes);
                        labels = self.labels(bytes, &list, out)?;
                    }
                    Escape::Stack => {
                        addresses = addresses_of(bytes);
                        stack = self.stack(bytes, &addresses, out)?;
                    }
                    Escape::Thread => {
                        about = self.related(bytes, out)?.unwrap_or(thread.subject);
                    }
                },
                Step::Row(row, payload) => {
                    // Readers count what is missing from the first number on that they see: where threads are not introduced that
                    // is 1, and what was lost before is missing behind it.
                    let is_first_of_all = !thread.has_rows && !self.stream.introduces_threads();
                    let header = RowHeader {
                        sequence: if is_first_of_all {
                            1
                        } else {
                            number.wrapping_sub(thread.base) as u32
                        },
                        capture_thread: thread.index,
                        thread: about,
                        processor: NO_PROCESSOR,
                        stack,
                        labels,
                        sorted: sorted && first_ts.is_none(),
                        ..row
                    };
                    let row = Row { header, labels: &list, stack: &addresses, payload };
                    if self.stream.row(&row, first_ts.is_none(), &mut rows).is_ok() {
                        thread.has_rows = true;
                        self.latest.thread = thread.index;
                        first_ts.get_or_insert(header.timestamp);
                        last_ts = header.timestamp;
                        count += 1;
                    } else {
                        // The mark belonged to this row alone: another thread's may be older than the next one here.
                        sorted = false;
                        refused += 1;
                    }
                    addresses.clear();
                    (number, stack, about) = (number + 1, 0, thread.subject);
                }
            }
        }
        if let Some(first_ts) = first_ts {
            out.own(|out| {
                let tail = self.stream.event_block(first_ts, last_ts, rows.len(), out)?;
                out.extend(&rows);
                out.extend(tail);
                Ok::<_, FormatError>(())
            })?;
            out.end_block(count);
        }
        if let Some(bytes) = latest {
            thread.labels.clear();
            thread.labels.extend_from_slice(bytes);
        }
        self.scratch = rows;
        Ok(refused)
    }

    /// The id of a label list, which is defined now if it was not.
    fn labels(
        &mut self,
        bytes: &[u8],
        list: &[Label<'_>],
        out: &mut Output,
    ) -> Result<u32, FormatError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let (id, is_new) = self.label_lists.id(bytes);
        if is_new {
            out.own(|out| self.stream.labels(id, list, out))?;
            out.end_block(0);
        }
        Ok(id)
    }

    /// The id of a stack, which is defined now if it was not.
    fn stack(
        &mut self,
        bytes: &[u8],
        addresses: &[u64],
        out: &mut Output,
    ) -> Result<u32, FormatError> {
        let (id, is_new) = self.stacks.id(bytes);
        if is_new {
            let pointer_size = size_of::<usize>() as u32;
            out.own(|out| self.stream.stack(id, addresses, pointer_size, out))?;
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
        let name = String::from_utf8_lossy(&bytes[16..]);
        let name = (!name.is_empty()).then_some(&*name);
        if self.stream.names_threads_by_os_id() && self.is_name(os_id) {
            self.related.insert(number, os_id);
            self.stream.subject(os_id, name);
            return Ok(Some(os_id));
        }
        // A thread may have two entries: one for what it emits, one for what is said of it.
        let index = self.take_index();
        self.related.insert(number, index);
        declare(&mut self.stream, index, name, Some(os_id), out)?;
        Ok(Some(index))
    }

    /// Ends an epoch: everything older than `ts` stands before this point, with the numbers that were given up to it.
    pub(super) fn sequence_point<'a>(
        &mut self,
        ts: u64,
        threads: impl Iterator<Item = &'a mut TraceThread>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        let mut threads: Vec<_> = threads.filter(|thread| thread.declared).collect();
        if !self.stream.introduces_threads() {
            threads
                .iter_mut()
                .filter(|thread| !thread.has_rows)
                .for_each(|thread| self.owe(thread));
            threads.retain(|thread| thread.has_rows);
        }
        let mut entries = std::mem::take(&mut self.gone);
        for thread in threads {
            if thread.index == self.latest.thread {
                // What others owe is told by the thread that readers remember best: then at least the sum is right.
                thread.base = thread.base.wrapping_sub(std::mem::take(&mut self.owed));
            }
            entries.push(thread.sequence());
        }
        if !self.stream.introduces_threads() {
            self.tell_owed(&mut entries);
        }
        out.own(|out| self.stream.sequence_point(ts, &entries, out))?;
        out.end_block(0);
        self.stacks = Interned::default();
        self.label_lists = Interned::default();
        // What was only spoken of is introduced again when it is needed again, so that the table does not grow for ever.
        let first = self.stream.first_thread_index();
        let related = self.related.drain().filter(|&(_, thread)| thread >= first);
        let related: Vec<_> =
            related.map(|(_, thread)| ThreadSequence { thread, sequence: 0 }).collect();
        self.remove(&related, out)
    }

    /// A thread has ended, and everything of it was written.
    pub(super) fn remove_thread(
        &mut self,
        thread: &mut TraceThread,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        if !thread.declared {
            return Ok(());
        }
        if self.stream.introduces_threads() {
            return self.remove(&[thread.sequence()], out);
        }
        if thread.has_rows {
            self.gone.push(thread.sequence());
        } else {
            self.owe(thread);
        }
        Ok(())
    }

    /// Has the thread that wrote last tell what is owed, also if it ended before the last sequence point.
    fn tell_owed(&mut self, entries: &mut Vec<ThreadSequence>) {
        let latest = self.latest.thread;
        let owed = std::mem::take(&mut self.owed);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.thread == latest) {
            entry.sequence = entry.sequence.wrapping_add(owed as u32);
            self.latest = *entry;
        } else if owed > 0 && latest != 0 {
            self.latest.sequence = self.latest.sequence.wrapping_add(owed as u32);
            entries.push(self.latest);
        } else {
            self.owed = owed;
        }
    }

    /// Readers that do not know a thread take no notice of what was lost of it.
    fn owe(&mut self, thread: &mut TraceThread) {
        self.owed += thread.told.wrapping_sub(thread.base);
        thread.base = thread.told;
    }

    fn remove(&mut self, threads: &[ThreadSequence], out: &mut Output) -> Result<(), FormatError> {
        if !threads.is_empty() {
            out.own(|out| self.stream.remove_threads(threads, out))?;
            out.end_block(0);
        }
        Ok(())
    }
}

fn declare(
    stream: &mut Stream,
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
    out.own(|out| stream.thread(&thread, out))?;
    out.end_block(0);
    Ok(())
}

/// The addresses in an escape.
fn addresses_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// Which ids of the operating system have been taken as indices of threads. Systems give them again, at least those that
/// count them up to a bound; beyond that bound none is taken.
#[derive(Debug, Default)]
struct OsIds {
    taken: Vec<u64>,
}

impl OsIds {
    /// Linux gives no higher one. The table takes 512 KiB at most.
    const BOUND: u64 = 1 << 22;

    /// Whether the id can be an index: nobody had it before.
    fn claim(&mut self, id: u64) -> bool {
        if id == 0 || id >= Self::BOUND {
            return false;
        }
        let (word, bit) = ((id / 64) as usize, 1 << (id % 64));
        if self.taken.len() <= word {
            self.taken.resize(word + 1, 0);
        }
        let is_new = self.taken[word] & bit == 0;
        self.taken[word] |= bit;
        is_new
    }
}
