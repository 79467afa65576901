//! [`SortedReader`]: events in the order of time.
//!
//! A stream is sorted only within each thread. Events wait in a *lane* for each thread, until the
//! stream states that no earlier event can follow. It does so at an event that is marked as sorted
//! (the earlier events are delivered, then the event itself), at a sequence point, and at its end.
//! The events wait in encoded form, as runs of rows, and are decoded when it is their turn.
//!
//! The format does not define the order of events with equal timestamps on different threads. This
//! reader uses the order of the reference reader, so that the output of both can be compared line
//! by line. The reference reader has a table of threads, uses the free place that became free last,
//! and adds the threads to a binary heap in the order of that table.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use foldhash::HashMap;
use nettrace_format::{Metadata, Trace};

use crate::{
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
    input::Source,
    reader::{Reader, Step, Totals},
    rows::Rows,
    tables::{Definitions, Slot, ThreadTotals, TypeTotals, undefined},
    typed::{EventSource, Events, ReadEvent},
};

/// Reads a stream from front to back and lends its events in the order of time.
///
/// [`Reader::sorted`] creates it. It keeps the events in memory that the stream's order marks do
/// not release yet. [`Options::sort_limit`](crate::Options::sort_limit) limits their size.
///
/// ```
/// # fn main() -> Result<(), nettrace_reader::Error> {
/// # let file = nettrace_reader::example();
/// use nettrace_reader::Reader;
///
/// let mut events = Reader::new(&file[..])?.sorted();
/// let mut last = 0;
/// while let Some(event) = events.next_event()? {
///     assert!(event.header.timestamp >= last);
///     last = event.header.timestamp;
/// }
/// assert_eq!(events.totals().events, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SortedReader<R> {
    reader: Reader<R>,
    /// The lanes with waiting events. Places of empty lanes are used again.
    lanes: Vec<Lane>,
    free_lanes: Vec<usize>,
    lane_of: HashMap<Slot, usize>,
    /// While events are released: the lanes with events to release, by their next timestamp.
    heap: Vec<(u64, usize)>,
    release: Release,
    /// All other lanes with waiting events, by their next timestamp. Most marks release few events
    /// or none, and need not look at every lane.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// What to do after all released events are delivered.
    after: After,
    /// The rows of the current block that are not in a lane yet.
    segment: Option<Segment>,
    /// The lane whose first event was delivered last.
    delivered: Option<usize>,
    /// That lane stays at the top of the heap up to this timestamp.
    until: u64,
    waiting_bytes: usize,
    /// How many joined streams had ended when definitions were last dropped.
    stream: u64,
    /// Buffers of finished runs, for later runs, and their total size.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

/// The waiting events of one capture thread.
#[derive(Debug, Default)]
struct Lane {
    capture_thread: Slot,
    /// The first run. It is empty if no event waits.
    front: Run,
    /// The runs after it.
    rest: VecDeque<Run>,
    /// The definitions that the row before referred to, as far as they were looked up.
    metadata: Option<(u32, Slot)>,
    thread: Option<(u64, Slot)>,
}

/// A run of rows, copied from a block. The header of the next row to deliver is decoded already.
#[derive(Debug, Default)]
struct Run {
    bytes: Vec<u8>,
    base: u64,
    rows: Rows,
    payload: usize,
    /// The definitions that are valid at its place in the stream.
    definitions: Definitions,
}

#[derive(Debug)]
struct Segment {
    capture_thread: Slot,
    /// The start of its rows in the block.
    start: usize,
    /// The first row, decoded, and the start of its payload.
    first: Rows,
    payload: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Release {
    Nothing,
    EarlierThan(u64),
    Everything,
}

#[derive(Debug)]
enum After {
    ReadOn,
    DeliverCurrent,
    PassSequencePoint { flush_threads: bool, flush_metadata: bool },
    End,
    Fail(Error),
}

impl<R: Source> EventSource for SortedReader<R> {
    fn lend_event(&mut self) -> Result<Option<Event<'_>>> {
        self.next_event()
    }
}

impl<R: Source> SortedReader<R> {
    pub(crate) fn new(reader: Reader<R>) -> Self {
        Self {
            reader,
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            lane_of: HashMap::default(),
            heap: Vec::new(),
            release: Release::Nothing,
            waiting: BinaryHeap::new(),
            after: After::ReadOn,
            segment: None,
            delivered: None,
            until: 0,
            waiting_bytes: 0,
            stream: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// The next event. Returns `None` at the end of the stream, and after an error. If the stream
    /// is damaged, the reader first delivers all events before the damage, sorted, and then the
    /// error.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut events = nettrace_reader::Reader::new(&file[..])?.sorted();
    /// let first = events.next_event()?.unwrap();
    /// assert_eq!((first.header.timestamp, &*first.metadata().name), (2_000, "Sale"));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if let Some(place) = self.delivered {
            let front = &mut self.lanes[place].front;
            // Usually the next event is of the same thread.
            if front.decode_like() || front.decode_other()? {
                if front.timestamp() <= self.until {
                    return self.lane_event(place).map(Some);
                }
            } else {
                self.end_run(place);
            }
        }
        self.next_of_another()
    }

    /// The next event, if it may be of another thread than the last one.
    fn next_of_another(&mut self) -> Result<Option<Event<'_>>> {
        loop {
            if let Some(place) = self.delivered.take() {
                self.advance_heap(place);
            }
            if let Some((_, place)) = self.heap.first() {
                let place = *place;
                self.delivered = Some(place);
                let others = self.heap.iter().skip(1).take(2).map(|(timestamp, _)| *timestamp);
                self.until = others.fold(self.release.last(), u64::min);
                return self.lane_event(place).map(Some);
            }
            self.release = Release::Nothing;
            match std::mem::replace(&mut self.after, After::ReadOn) {
                After::ReadOn => self.read_on(),
                After::DeliverCurrent => return Ok(Some(self.reader.current_event())),
                After::PassSequencePoint { flush_threads, flush_metadata } => {
                    self.reader.pass_sequence_point(flush_threads, flush_metadata);
                }
                After::End => {
                    self.after = After::End;
                    return Ok(None);
                }
                After::Fail(error) => {
                    self.after = After::End;
                    return Err(error);
                }
            }
        }
    }

    /// The events of one type in the order of time, as values: see [`ReadEvent`].
    pub fn events<T: ReadEvent>(&mut self) -> Events<'_, Self, T> {
        Events::new(self)
    }

    /// Facts about the whole trace.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut events = nettrace_reader::Reader::new(&file[..])?.sorted();
    /// let start = events.trace().sync_ticks;
    /// let first = events.next_event()?.expect("there are events");
    /// assert_eq!(first.header.timestamp - start, 1_000);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn trace(&self) -> &Trace {
        self.reader.trace()
    }

    /// See [`Reader::major_version`], which has an example.
    pub fn major_version(&self) -> u32 {
        self.reader.major_version()
    }

    /// See [`Reader::minor_version`].
    pub fn minor_version(&self) -> u32 {
        self.reader.minor_version()
    }

    /// The counts so far. They include waiting events.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut events = nettrace_reader::Reader::new(&file[..])?.sorted();
    /// events.next_event()?;
    /// // The reader has read on, to know that no earlier event follows.
    /// assert!(events.totals().events >= 1);
    /// while events.next_event()?.is_some() {}
    /// assert_eq!(events.totals().events, 2);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn totals(&self) -> &Totals {
        self.reader.totals()
    }

    /// The event types that are defined at this point. [`Reader::metadata`] has an example.
    pub fn metadata(&self) -> &[Metadata] {
        self.reader.metadata()
    }

    /// The threads that are defined at this point, in no particular order.
    /// [`Reader::live_threads`] has an example.
    pub fn live_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.reader.live_threads()
    }

    /// See [`Reader::finished_threads`].
    pub fn finished_threads(&self) -> &[ThreadTotals] {
        self.reader.finished_threads()
    }

    /// What was read of each event type. [`Reader::type_totals`] has an example.
    pub fn type_totals(&self) -> impl Iterator<Item = TypeTotals> + '_ {
        self.reader.type_totals()
    }

    /// How many bytes of the stream the reader has used. [`Reader::offset`] has an example.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Reads until there are events to release.
    fn read_on(&mut self) {
        let result = loop {
            let start = self.reader.current.rows.position;
            let result = match self.reader.step() {
                Ok(Step::Row) => self.take_row(start),
                Ok(Step::BlockEnd | Step::LeftOut) => self.end_segment(),
                Ok(Step::SequencePoint { flush_threads, flush_metadata }) => {
                    self.after = After::PassSequencePoint { flush_threads, flush_metadata };
                    self.start_release(Release::Everything);
                    Ok(())
                }
                Ok(Step::End) => {
                    self.after = After::End;
                    self.start_release(Release::Everything);
                    Ok(())
                }
                Err(error) => self.end_segment().and(Err(error)),
            };
            if result.is_err() || !matches!(self.after, After::ReadOn) {
                break result;
            }
            if self.lane_of.is_empty() && self.segment.is_none() {
                self.reader.tables.forget_removed();
            } else if self.stream != self.reader.tables.stream() {
                self.stream = self.reader.tables.stream();
                let waiting = self.lanes.iter().filter(|lane| !lane.is_empty());
                let oldest = waiting.map(|lane| lane.front.definitions).min();
                self.reader.tables.forget_older(oldest.unwrap_or(u64::MAX));
            }
        };
        if let Err(error) = result {
            self.segment = None;
            self.after = After::Fail(error);
            self.start_release(Release::Everything);
        }
    }

    /// Adds the row that begins at `start` of the block.
    #[inline]
    fn take_row(&mut self, start: usize) -> Result<()> {
        let current = &self.reader.current;
        if current.rows.header.is_sorted {
            let timestamp = current.rows.header.timestamp;
            self.end_segment()?;
            self.after = After::DeliverCurrent;
            self.start_release(Release::EarlierThan(timestamp));
            return Ok(());
        }
        let goes_on = match &self.segment {
            Some(segment) => segment.capture_thread == current.capture_thread,
            None => false,
        };
        if !goes_on {
            let segment = Segment {
                capture_thread: current.capture_thread,
                start,
                first: current.rows,
                payload: current.payload,
                end: start,
            };
            self.end_segment()?;
            self.segment = Some(segment);
        }
        self.reader.pass_like_rows();
        if let Some(segment) = &mut self.segment {
            segment.end = self.reader.current.rows.position;
        }
        Ok(())
    }

    /// Copies the rows of the segment to the lane of their thread.
    fn end_segment(&mut self) -> Result<()> {
        let Some(segment) = self.segment.take() else { return Ok(()) };
        let start = segment.start;
        let base = self.reader.current.base + start as u64;
        let size = segment.end - start;
        let limit = self.reader.options.sort_limit;
        if self.waiting_bytes + size + size_of::<Run>() > limit {
            let what = "sorting the events between two marks of the stream";
            return Err(Error::new(base, ErrorKind::LimitExceeded { what, limit }));
        }
        let mut bytes = self.buffer(size);
        let rows = &self.reader.blocks.body()[start..segment.end];
        bytes.extend_from_slice(rows);
        let mut run = Run {
            bytes,
            base,
            rows: segment.first,
            payload: segment.payload - start,
            definitions: self.reader.tables.definitions(),
        };
        run.rows.position -= start;
        self.waiting_bytes += run.cost();
        while self.waiting_bytes + self.spare_bytes > limit {
            let Some(spare) = self.spare.pop() else { break };
            self.spare_bytes -= spare.capacity();
        }
        let place = match self.lane_of.get(&segment.capture_thread) {
            Some(place) => *place,
            None => self.add_lane(segment.capture_thread),
        };
        let lane = &mut self.lanes[place];
        if lane.is_empty() {
            self.waiting.push(Reverse((run.timestamp(), place)));
            lane.front = run
        } else {
            lane.rest.push_back(run)
        }
        Ok(())
    }

    /// An empty buffer of the given capacity, if possible from a finished run. Freeing and
    /// allocating memory at each mark would take longer than everything else here.
    fn buffer(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = match self.spare.pop() {
            Some(bytes) => {
                self.spare_bytes -= bytes.capacity();
                bytes
            }
            None => Vec::new(),
        };
        bytes.clear();
        if bytes.capacity() < size || bytes.capacity() / 2 > size.max(SMALL_BUFFER) {
            bytes = Vec::with_capacity(size);
        }
        bytes
    }

    fn add_lane(&mut self, capture_thread: Slot) -> usize {
        let place = self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes.push(Lane::default());
            self.lanes.len() - 1
        });
        self.lanes[place].capture_thread = capture_thread;
        self.lane_of.insert(capture_thread, place);
        place
    }

    fn start_release(&mut self, release: Release) {
        self.release = release;
        self.heap.clear();
        while let Some(Reverse((timestamp, place))) = self.waiting.peek().copied() {
            if !release.covers(timestamp) {
                break;
            }
            self.waiting.pop();
            self.heap.push((timestamp, place));
        }
        // In the order of the reference reader.
        self.heap.sort_unstable_by_key(|(_, place)| *place);
        for at in (0..self.heap.len() / 2).rev() {
            sift_down(&mut self.heap, at);
        }
    }

    /// Replaces a lane's first run, whose rows are all delivered, by the next one.
    fn end_run(&mut self, place: usize) {
        let lane = &mut self.lanes[place];
        let next = lane.rest.pop_front().unwrap_or_default();
        if next.definitions != lane.front.definitions {
            lane.thread = None;
        }
        let run = std::mem::replace(&mut lane.front, next);
        self.waiting_bytes -= run.cost();
        let taken = self.waiting_bytes + self.spare_bytes + run.bytes.capacity();
        if taken <= self.reader.options.sort_limit {
            self.spare_bytes += run.bytes.capacity();
            self.spare.push(run.bytes);
        }
    }

    /// Restores the order of the heap after an event of the lane at the top was delivered and the
    /// next one decoded.
    fn advance_heap(&mut self, place: usize) {
        let lane = &mut self.lanes[place];
        let is_over = lane.is_empty();
        if !is_over && self.release.covers(lane.front.timestamp()) {
            self.heap[0].0 = lane.front.timestamp();
        } else {
            if is_over {
                self.lane_of.remove(&lane.capture_thread);
                *lane = Lane::default();
                self.free_lanes.push(place);
            } else {
                self.waiting.push(Reverse((lane.front.timestamp(), place)));
            }
            self.heap.swap_remove(0);
        }
        sift_down(&mut self.heap, 0);
    }

    #[inline]
    fn lane_event(&mut self, place: usize) -> Result<Event<'_>> {
        let tables = &self.reader.tables;
        let lane = &mut self.lanes[place];
        let run = &lane.front;
        let header = &run.rows.header;
        let metadata = match lane.metadata {
            Some((id, slot)) if id == header.metadata_id => slot,
            _ => tables
                .metadata_slot(header.metadata_id)
                .ok_or_else(|| undefined(run.base, Table::Metadata, header.metadata_id.into()))?,
        };
        lane.metadata = Some((header.metadata_id, metadata));
        let thread = match lane.thread {
            Some((index, slot)) if index == header.thread => slot,
            _ if header.thread == header.capture_thread => lane.capture_thread,
            _ => tables
                .thread_slot_among(run.definitions, header.thread)
                .ok_or_else(|| undefined(run.base, Table::Thread, header.thread))?,
        };
        lane.thread = Some((header.thread, thread));
        Ok(Event {
            header,
            payload: &run.bytes[run.payload..run.payload + header.payload_size as usize],
            payload_offset: run.base + run.payload as u64,
            tables,
            definitions: run.definitions,
            metadata,
            capture_thread: lane.capture_thread,
            thread,
        })
    }
}

/// A buffer of up to this size, in bytes, is used again for any smaller size.
const SMALL_BUFFER: usize = 4096;

impl Lane {
    /// Whether no event waits.
    fn is_empty(&self) -> bool {
        self.front.bytes.is_empty()
    }
}

impl Run {
    /// The timestamp of its next event.
    fn timestamp(&self) -> u64 {
        self.rows.header.timestamp
    }

    /// The memory that it takes, in bytes.
    fn cost(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    /// Moves on by one row, if there is one and it states nothing but its time, as most rows do.
    #[inline(always)]
    fn decode_like(&mut self) -> bool {
        let payload = self.rows.next_like(&self.bytes);
        self.payload = payload.unwrap_or(self.payload);
        payload.is_some()
    }

    /// Moves on by one row, if there is one.
    #[inline(never)]
    fn decode_other(&mut self) -> Result<bool> {
        if self.rows.position == self.bytes.len() {
            return Ok(false);
        }
        self.payload = self
            .rows
            .next(&self.bytes, self.base)
            .map_err(|damage| Error::malformed(BlockKind::Event, damage))?;
        Ok(true)
    }
}

impl Release {
    /// The latest timestamp to release.
    fn last(self) -> u64 {
        match self {
            Self::Nothing => 0,
            // There are events to release, so this is not 0.
            Self::EarlierThan(stop) => stop.saturating_sub(1),
            Self::Everything => u64::MAX,
        }
    }

    fn covers(self, timestamp: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::EarlierThan(stop) => timestamp < stop,
            Self::Everything => true,
        }
    }
}

/// Moves the entry at `at` down to its place in a binary heap whose smallest timestamp is on top.
fn sift_down(heap: &mut [(u64, usize)], mut at: usize) {
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && heap[child].0 < heap[least].0 {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}
