//! Makes a stream of what a recorder file has and the session's own stream has not.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::ToString as _,
    vec,
    vec::Vec,
};

use nettrace_event::{
    keys,
    trace_context::{ActivityId, SpanId},
};

use super::{
    Recorder, RecorderError,
    layout::{chunk, superblock, types},
    ring::Ring,
    rows::{Step, Steps},
    seen::Seen,
    thread::RecordedThread,
    trace::TraceHeader,
};
use crate::{
    Composer, Cursor, FormatError,
    content::{Label, ThreadInfo},
    payload::MAX_PAYLOAD,
    v6::{
        self, EncodedLabels, LAST_LABEL, LabelBytes, RowHeader, ThreadSequence, label_list_row,
        read,
    },
};

/// Rows do not name a processor.
const NO_PROCESSOR: u32 = u32::MAX;
/// Size in bytes from which on a block of rows ends.
const BLOCK: usize = 1 << 20;
/// A row that is later than the one before by more ticks than this has a damaged time.
const MOST_TICKS: u64 = 1 << 60;
/// How many events a gap can tell. A larger one is a step back for readers.
const MOST_LOST: u64 = i32::MAX as u64;
/// So far above all others are the indices of threads that no stream of the session names.
const NEW_INDICES: u64 = 1 << 32;

/// What was recovered from a recorder file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// A whole stream of version 6: the next one of the recording.
    pub stream: Vec<u8>,
    /// How many events it has.
    pub events: u64,
    /// How many events are lost, as the stream says.
    pub lost: u64,
    /// How many chunks could not be read to their end, because the file is damaged. Not so many
    /// events as they have are among those that are lost.
    pub damaged: u64,
    /// How many events are among those that are lost because their type is not in the file.
    pub without_type: u64,
}

/// A chunk that a thread holds.
#[derive(Clone, Copy, Debug)]
struct Held<'a> {
    first_number: u64,
    serial: u32,
    /// What it says of an earlier chunk: its serial, and how many bytes of it are used.
    before: u64,
    /// Where its header is in the file.
    header: usize,
    /// Where it begins in the memory.
    at: usize,
    bytes: &'a [u8],
}

impl<'a> Recorder<'a> {
    /// Makes a stream of the events that the session's own streams do not have. `seen` says what
    /// the last of these has; with `None` it is what a sink has taken for sure, and events can be
    /// in both. If the files have [other numbers](Self::has_other_numbers), only the number of the
    /// last one matters.
    ///
    /// The file should not change meanwhile, so its process must be gone.
    ///
    /// # Errors
    /// [`RecorderError::Damaged`]: what all depends on cannot be read.
    ///
    /// A flight recorder has no stream elsewhere. What it has kept is in its recorder file, and is
    /// the first part of the stream that this makes; `seen` does not matter.
    pub fn recover(&self, seen: Option<&Seen>) -> Result<Recovered, RecorderError> {
        let header = self.header();
        let header = header.ok_or(RecorderError::Damaged { what: "the header of the trace" })?;
        let ring = self.ring();
        let number = match (&ring, seen) {
            (Some(ring), _) => ring.seen.stream,
            (None, seen) => seen.map_or(self.streams(), |seen| seen.stream).saturating_add(1),
        };
        let mut held = self.held();
        let threads = self.threads();
        let known = ring.as_ref().map(|ring| &ring.seen).or(seen).map_or(0, |seen| seen.last_index);
        let seen = seen.filter(|_| !self.has_other_numbers());
        let seen = ring.as_ref().map(|ring| &ring.seen).or(seen);
        let last_index = threads.iter().map(|thread| thread.index).max().unwrap_or(0).max(known);
        let mut stream = Stream {
            base: self.file.word(superblock::ADDRESS),
            file: self,
            first_tick: header.first_tick(),
            process: self.file.half(superblock::PROCESS),
            types: BTreeSet::new(),
            last_index: last_index.saturating_add(NEW_INDICES),
            indices: BTreeSet::new(),
            related: BTreeMap::new(),
            out: Recovered::default(),
            composer: Composer::resume(
                header.pointer_size(),
                ring.as_ref().map_or(0, |ring| ring.stacks),
                ring.as_ref().map_or(0, |ring| ring.labels),
            )
            .with_block_size(BLOCK),
            defined: BTreeSet::new(),
            goes_on: ring.is_some(),
            removed: Vec::new(),
        };
        let made = stream.make(&header, number, ring.as_ref(), &threads, &mut held, seen);
        made.map_err(|_| RecorderError::Damaged { what: "what the trace would have" })?;
        // Those whose holder is gone.
        stream.out.damaged += held.values().map(|held| held.len() as u64).sum::<u64>();
        Ok(stream.out)
    }

    /// The chunks that threads hold, by slot.
    fn held(&self) -> BTreeMap<u32, Vec<Held<'a>>> {
        let headers = self.file.place(superblock::CHUNKS_AT);
        let memory = self.file.place(superblock::MEMORY_AT);
        let mut held: BTreeMap<u32, Vec<Held<'a>>> = BTreeMap::new();
        for number in 0..self.division.headers() {
            let header = headers + number * chunk::SIZE;
            let holder = self.file.word(header + chunk::HOLDER);
            let Some(of) = ((holder >> 32) as u32).checked_sub(1) else { continue };
            let Some((at, size)) = self.division.place(holder as u32, number) else { continue };
            held.entry(of).or_default().push(Held {
                first_number: self.file.word(header + chunk::FIRST_NUMBER),
                serial: self.file.half(header + chunk::SERIAL),
                before: self.file.word(header + chunk::BEFORE),
                header,
                at,
                bytes: self.file.part(memory + at, size),
            });
        }
        for chunks in held.values_mut() {
            chunks.sort_by_key(|held| (held.first_number, held.serial));
        }
        held
    }

    /// The rows that describe types, and their ids.
    pub(super) fn types(&self) -> (Vec<u8>, BTreeSet<u32>) {
        let at = self.file.place(superblock::TYPES_AT);
        let used = self.file.place(superblock::TYPES_USED).min(types::SIZE);
        let (mut rows, mut ids) = (Vec::new(), BTreeSet::new());
        let mut rest = self.file.part(at, used);
        while let Ok(size) = read::word16(rest, 0) {
            let Some((row, after)) = rest.split_at_checked(2 + size as usize) else { break };
            let id = read::thread_rows(row).ok().and_then(|row| u32::try_from(row.first()?.0).ok());
            let Some(id) = id.filter(|id| *id > 0) else { break };
            if ids.insert(id) {
                rows.extend_from_slice(row);
            }
            rest = after;
        }
        (rows, ids)
    }
}

struct Stream<'r, 'a> {
    file: &'r Recorder<'a>,
    base: u64,
    first_tick: u64,
    process: u32,
    types: BTreeSet<u32>,
    last_index: u64,
    /// Those that the stream has.
    indices: BTreeSet<u64>,
    /// Threads that rows are about, by their numbers.
    related: BTreeMap<u64, u64>,
    out: Recovered,
    composer: Composer,
    /// The threads that what a flight recorder has kept defines, and whether the stream goes on
    /// from there.
    defined: BTreeSet<u64>,
    goes_on: bool,
    removed: Vec<ThreadSequence>,
}

/// What is in force at the next row.
#[derive(Clone, Debug, Default)]
struct InForce {
    labels: u32,
    stack: u32,
    about: Option<u64>,
}

impl<'a> Stream<'_, 'a> {
    fn make(
        &mut self,
        header: &TraceHeader<'a>,
        number: u64,
        ring: Option<&Ring>,
        threads: &[RecordedThread<'a>],
        held: &mut BTreeMap<u32, Vec<Held<'a>>>,
        seen: Option<&Seen>,
    ) -> Result<(), FormatError> {
        let mut changes =
            vec![(keys::FILE, number.to_string()), (keys::RECOVERED, self.process.to_string())];
        if let Some(ring) = ring {
            changes.push((keys::GIVEN_UP, ring.given_up.to_string()));
        }
        header.write(&changes, &mut self.out.stream)?;
        let (rows, ids) = self.file.types();
        self.types = ids;
        if !rows.is_empty() {
            v6::metadata_block(&rows, &mut self.out.stream)?;
        }
        if let Some(ring) = ring {
            self.out.stream.extend_from_slice(&ring.blocks);
            self.out.events += ring.events;
            // Those that were given up, and those that were dropped.
            let attempted = ring.seen.threads.values().sum::<u64>();
            self.out.lost += attempted.saturating_sub(ring.events);
            self.out.damaged += u64::from(ring.is_damaged);
            self.defined.clone_from(&ring.threads);
        }
        for thread in threads {
            let chunks = held.remove(&thread.number).unwrap_or_default();
            self.thread(thread, &chunks, number, thread.shown(seen))?;
        }
        self.composer.remove_threads(&self.removed, &mut self.out.stream)?;
        self.composer.finish(&mut self.out.stream)
    }

    /// Writes what a thread has recorded after the number `shown`.
    fn thread(
        &mut self,
        thread: &RecordedThread<'a>,
        chunks: &[Held<'a>],
        number: u64,
        shown: u64,
    ) -> Result<(), FormatError> {
        // Two threads have one index only if the file is damaged.
        let is_new = thread.index == 0 || !self.indices.insert(thread.index);
        let index = if is_new { self.new_index() } else { thread.index };
        let is_named = !is_new && self.defined.contains(&index);
        let base = if self.goes_on { thread.base(number) } else { shown };
        let mut walk = Walk { index, base, last: shown, ts: self.first_tick, is_named };
        let mut labels = 0;
        // Where chunks end, by their serials.
        let ends = chunks.iter().map(|held| held.before).chain([thread.before]);
        let ends = ends.map(|before| ((before >> 32) as u32, before as u32)).collect();
        for held in chunks {
            let len = self.used(thread, held, &ends);
            self.chunk(thread, held, &held.bytes[..len], &mut walk, &mut labels)?;
        }
        let last = thread.attempted.max(walk.last);
        if last > shown || is_named {
            self.name(thread, &mut walk)?;
            self.composer.end_blocks(&mut self.out.stream)?;
            self.out.lost += walk.lose(last - walk.last);
            let sequence = last.wrapping_sub(walk.base) as u32;
            self.removed.push(ThreadSequence { thread: index, sequence });
        }
        Ok(())
    }

    /// How many bytes of a chunk have rows.
    fn used(
        &self,
        thread: &RecordedThread<'a>,
        held: &Held<'a>,
        ends: &BTreeMap<u32, u32>,
    ) -> usize {
        let start = self.base.wrapping_add(held.at as u64);
        let len = match ends.get(&held.serial) {
            _ if thread.start == start => thread.pos.wrapping_sub(start),
            Some(end) => u64::from(*end),
            // It is empty. Or the thread was about to make it its own.
            None => 0,
        };
        if len <= held.bytes.len() as u64 { len as usize } else { 0 }
    }

    /// Adds the rows of a chunk.
    fn chunk(
        &mut self,
        thread: &RecordedThread<'a>,
        held: &Held<'a>,
        rows: &'a [u8],
        walk: &mut Walk,
        labels: &mut u32,
    ) -> Result<(), FormatError> {
        let header = held.header;
        let base_ts = self.file.file.word(header + chunk::BASE_TS);
        let base_ts = base_ts.wrapping_add(self.file.file.word(header + chunk::OFFSET));
        let mut number = held.first_number;
        let mut in_force = InForce { labels: *labels, ..InForce::default() };
        let mut steps = Steps::new(rows, base_ts);
        for step in steps.by_ref() {
            match step {
                Step::Gap(gap) => number = number.saturating_add(gap),
                Step::Labels(list) => in_force.labels = self.labels(list)?,
                Step::Span(labels, ids) => {
                    let list = self.span(ids, labels);
                    in_force.labels = self.labels(&list)?;
                }
                Step::Stack(addresses) => in_force.stack = self.stack(addresses)?,
                Step::Thread(number, os_id, name) => {
                    in_force.about = Some(self.related(number, os_id, name)?);
                }
                Step::Row(row, payload) => {
                    if number > thread.attempted.saturating_add(1) {
                        self.out.damaged += 1;
                        return Ok(());
                    }
                    if number > walk.last && self.takes(&row) {
                        self.name(thread, walk)?;
                        self.row(row, payload, number, &in_force, walk)?;
                    }
                    (in_force.stack, in_force.about) = (0, None);
                    number = number.saturating_add(1);
                }
            }
        }
        self.out.damaged += u64::from(steps.is_stuck());
        *labels = in_force.labels;
        Ok(())
    }

    /// Whether a row can be in the stream.
    fn takes(&mut self, row: &RowHeader) -> bool {
        let has_type = self.types.contains(&row.metadata_id);
        self.out.without_type += u64::from(!has_type);
        has_type && row.payload_len as usize <= MAX_PAYLOAD
    }

    fn row(
        &mut self,
        row: RowHeader,
        payload: &[u8],
        number: u64,
        in_force: &InForce,
        walk: &mut Walk,
    ) -> Result<(), FormatError> {
        let is_damaged = row.timestamp < walk.ts || row.timestamp - walk.ts > MOST_TICKS;
        walk.ts = if is_damaged { walk.ts } else { row.timestamp };
        self.out.lost += walk.lose(number - walk.last - 1);
        let header = RowHeader {
            metadata_id: row.metadata_id,
            sequence: number.wrapping_sub(walk.base) as u32,
            capture_thread: walk.index,
            processor: NO_PROCESSOR,
            thread: in_force.about.unwrap_or(walk.index),
            stack: in_force.stack,
            timestamp: walk.ts,
            labels: in_force.labels,
            ..RowHeader::default()
        };
        self.composer.row(&header, payload, &mut self.out.stream)?;
        self.out.events += 1;
        walk.last = number;
        Ok(())
    }

    /// Defines a thread, unless that is done.
    fn name(&mut self, thread: &RecordedThread<'a>, walk: &mut Walk) -> Result<(), FormatError> {
        if walk.is_named {
            return Ok(());
        }
        walk.is_named = true;
        self.introduce(walk.index, thread.name, thread.os_id, &thread.key_values())
    }

    fn introduce(
        &mut self,
        index: u64,
        name: Option<&str>,
        os_id: u64,
        key_values: &[(&str, &str)],
    ) -> Result<(), FormatError> {
        let info = ThreadInfo {
            index,
            name,
            process_id: Some(self.process.into()),
            os_thread_id: (os_id != 0).then_some(os_id),
            key_values,
        };
        self.composer.thread(&info, &mut self.out.stream)
    }

    /// The index of a thread that a row is about.
    fn related(&mut self, number: u64, os_id: u64, name: &[u8]) -> Result<u64, FormatError> {
        if let Some(index) = self.related.get(&number) {
            return Ok(*index);
        }
        let index = self.new_index();
        let name = core::str::from_utf8(name).ok().filter(|name| !name.is_empty());
        self.introduce(index, name, os_id, &[])?;
        self.related.insert(number, index);
        Ok(index)
    }

    fn new_index(&mut self) -> u64 {
        loop {
            self.last_index = self.last_index.wrapping_add(1);
            if self.last_index != 0 && self.indices.insert(self.last_index) {
                return self.last_index;
            }
        }
    }

    /// The id of a label list; 0 for none.
    fn labels(&mut self, list: &[u8]) -> Result<u32, FormatError> {
        if !list.is_empty() && !is_label_list(list) {
            self.out.damaged += 1;
            return Ok(0);
        }
        self.composer.label_list(list, &mut self.out.stream)
    }

    /// The label list of a span: the activity, that of its parent, the trace and the span, and
    /// others.
    fn span(&self, ids: &[u8; 32], others: &[u8]) -> Vec<u8> {
        let word = |at: usize| ids[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let activity = |at: usize| {
            Some(ActivityId::from_span_id(SpanId::from_u64(word(at))?, self.process).to_bytes())
        };
        let trace = ids.first_chunk().copied().unwrap_or_default();
        let labels = [
            activity(16).map(Label::ActivityId),
            activity(24).map(Label::RelatedActivityId),
            Some(Label::TraceId(trace)),
            Some(Label::SpanId(word(16))),
        ];
        let mut list = Vec::new();
        label_list_row(labels.into_iter().flatten(), &mut list);
        if !others.is_empty() {
            // The last label has a kind and 8 bytes.
            let last = list.len() - 9;
            list[last] &= !LAST_LABEL;
        }
        list.extend_from_slice(others);
        list
    }

    /// The id of a stack; 0 if the trace cannot have it, because it is damaged.
    fn stack(&mut self, bytes: &[u8]) -> Result<u32, FormatError> {
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| word.first_chunk().map_or(0, |it| u64::from_le_bytes(*it)));
        let stack: Vec<u64> = words.collect();
        match self.composer.stack(&stack, &mut self.out.stream) {
            Err(FormatError::AddressTooLarge { .. } | FormatError::StackTooDeep { .. }) => Ok(0),
            id => id,
        }
    }
}

/// How far a thread's events are written.
struct Walk {
    index: u64,
    /// The stream's numbers count from here.
    base: u64,
    /// The number of the last row.
    last: u64,
    /// The time of the last row.
    ts: u64,
    is_named: bool,
}

impl Walk {
    /// How many of so many lost events a gap tells. The numbers close up for the others.
    fn lose(&mut self, count: u64) -> u64 {
        let told = count.min(MOST_LOST);
        self.base = self.base.wrapping_add(count - told);
        told
    }
}

/// Whether these are the bytes of one label list, to its end.
fn is_label_list(list: &[u8]) -> bool {
    let mut cursor = Cursor::new(list, 0);
    EncodedLabels::read(&mut cursor).is_ok_and(|read| {
        let is_text = |(_, label): (usize, LabelBytes<'_>)| core::str::from_utf8(label.key).is_ok();
        cursor.rest().is_empty() && read.labels().all(is_text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_of_a_label_list_is_text() {
        let mut list = Vec::new();
        label_list_row([Label::Str("first", "x"), Label::Str("last", "y")], &mut list);
        assert!(is_label_list(&list));
        assert!(!is_label_list(&list[..list.len() - 1]), "cut off");
        assert!(!is_label_list(&[&list[..], &[0]].concat()), "followed by something");
        for key in ["first", "last"] {
            let mut damaged = list.clone();
            let at = list.windows(key.len()).position(|part| part == key.as_bytes()).unwrap();
            damaged[at] = 0xFF;
            assert!(!is_label_list(&damaged), "{key}");
        }
    }
}
