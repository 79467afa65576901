//! Events in the order of time.
//!
//! The stream is sorted only thread by thread. Events wait here, thread by thread, until the stream
//! says that nothing earlier can come: at an event marked as sorted (what is earlier than it is
//! delivered, then the event itself), at a sequence point, and at the end. They wait as they stand
//! in the stream, a stretch of rows at a time, and are decoded when their turn comes.
//!
//! Of events with equal timestamps on different threads the format says nothing. The order here is
//! that of the reference reader, so that both can be compared line by line: its threads stand in a
//! table whose free places are used last in first out, and a binary heap takes them up in that
//! order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use crate::{
    block::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
    input::Source,
    reader::{Reader, Step, Totals},
    rows::Rows,
    schema::Metadata,
    tables::{Slot, ThreadTotals, undefined},
    trace::Trace,
};

/// Reads a stream front to back and lends its events in the order of time.
///
/// Made by [`Reader::sorted`]. Memory is bounded by what the stream's own marks demand, and by
/// [`Options::sort_limit`](crate::Options::sort_limit).
#[derive(Debug)]
pub struct SortedReader<R> {
    reader: Reader<R>,
    /// The threads that have events waiting. Places of threads that have none left are reused.
    lanes: Vec<Lane>,
    free_lanes: Vec<usize>,
    lane_of: HashMap<Slot, usize>,
    /// While events are released: the lanes that have some to release, by their next timestamp.
    heap: Vec<(u64, usize)>,
    release: Release,
    /// All other lanes in which events wait, by their next timestamp: most marks release nothing or
    /// little, and need not look at every lane.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// What to do when everything that is being released has been delivered.
    after: After,
    /// Rows of the current block that are not in a lane yet.
    segment: Option<Segment>,
    /// The lane whose first event was delivered last.
    delivered: Option<usize>,
    /// Up to here that lane stays at the top of the heap.
    until: u64,
    waiting_bytes: usize,
    /// Buffers of runs that are over, for those to come, and what they take in all.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

/// The events of one capture thread that wait.
#[derive(Debug, Default)]
struct Lane {
    capture_thread: Slot,
    /// The first run; without bytes where nothing waits.
    front: Run,
    /// The runs behind it.
    rest: VecDeque<Run>,
    /// What the row before referred to, as far as that was looked up.
    metadata: Option<(u32, Slot)>,
    thread: Option<(u64, Slot)>,
}

/// A stretch of rows, copied from a block. The next row to deliver is decoded already.
#[derive(Debug, Default)]
struct Run {
    bytes: Vec<u8>,
    base: u64,
    rows: Rows,
    payload: usize,
}

#[derive(Debug)]
struct Segment {
    capture_thread: Slot,
    /// Where in the block its rows begin.
    start: usize,
    /// The first of them, decoded, and where its payload begins.
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

impl<R: Source> SortedReader<R> {
    pub(crate) fn new(reader: Reader<R>) -> Self {
        Self {
            reader,
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            lane_of: HashMap::new(),
            heap: Vec::new(),
            release: Release::Nothing,
            waiting: BinaryHeap::new(),
            after: After::ReadOn,
            segment: None,
            delivered: None,
            until: 0,
            waiting_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// The next event; `None` at the end of the stream and after an error. When the stream is
    /// damaged, everything that was read before is delivered first, sorted, and then the error.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if let Some(place) = self.delivered {
            let front = &mut self.lanes[place].front;
            // Mostly the same thread goes on.
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

    /// The next event, where it is not known to be of the same thread as the last.
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

    /// Facts about the whole trace.
    pub fn trace(&self) -> &Trace {
        self.reader.trace()
    }

    /// See [`Reader::major_version`].
    pub fn major_version(&self) -> u32 {
        self.reader.major_version()
    }

    /// The minor version of the format that the stream states; 0 before version 6.
    pub fn minor_version(&self) -> u32 {
        self.reader.minor_version()
    }

    /// What was counted so far; events that wait are counted already.
    pub fn totals(&self) -> &Totals {
        self.reader.totals()
    }

    /// The event types that are defined at this point.
    pub fn metadata(&self) -> &[Metadata] {
        self.reader.metadata()
    }

    /// The threads that are defined at this point, in no order.
    pub fn live_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.reader.live_threads()
    }

    /// See [`Reader::finished_threads`].
    pub fn finished_threads(&self) -> &[ThreadTotals] {
        self.reader.finished_threads()
    }

    /// How many bytes of the stream have been read and used.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Reads until there is something to release.
    fn read_on(&mut self) {
        let result = loop {
            let start = self.reader.current.rows.position;
            let result = match self.reader.step() {
                Ok(Step::Row) => self.take_row(start),
                Ok(Step::BlockEnd) => self.end_segment(),
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
                self.reader.tables.forget_removed_threads();
            }
        };
        if let Err(error) = result {
            self.segment = None;
            self.after = After::Fail(error);
            self.start_release(Release::Everything);
        }
    }

    /// The row begins at `start` of the block.
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

    /// Copies the rows of the segment into the lane of their thread.
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
        let mut run = Run { bytes, base, rows: segment.first, payload: segment.payload - start };
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

    /// An empty buffer for so many bytes. Those of runs that are over are used again: to give memory
    /// back and have it again at each mark would take longer than everything else here.
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
        // As the reference reader takes them up.
        self.heap.sort_unstable_by_key(|(_, place)| *place);
        for at in (0..self.heap.len() / 2).rev() {
            sift_down(&mut self.heap, at);
        }
    }

    /// All rows of a lane's first run have been delivered: the next run takes its place.
    fn end_run(&mut self, place: usize) {
        let lane = &mut self.lanes[place];
        let next = lane.rest.pop_front().unwrap_or_default();
        let run = std::mem::replace(&mut lane.front, next);
        self.waiting_bytes -= run.cost();
        let taken = self.waiting_bytes + self.spare_bytes + run.bytes.capacity();
        if taken <= self.reader.options.sort_limit {
            self.spare_bytes += run.bytes.capacity();
            self.spare.push(run.bytes);
        }
    }

    /// An event of the lane at the top of the heap has been delivered, and the next one decoded:
    /// that takes its place, or another lane.
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
                .any_thread_slot(header.thread)
                .ok_or_else(|| undefined(run.base, Table::Thread, header.thread))?,
        };
        lane.thread = Some((header.thread, thread));
        Ok(Event {
            header,
            payload: &run.bytes[run.payload..run.payload + header.payload_size as usize],
            payload_offset: run.base + run.payload as u64,
            tables,
            metadata,
            capture_thread: lane.capture_thread,
            thread,
        })
    }
}

/// Buffers up to this size in bytes are used for any number of bytes that they can hold.
const SMALL_BUFFER: usize = 4096;

impl Lane {
    /// Whether no event waits.
    fn is_empty(&self) -> bool {
        self.front.bytes.is_empty()
    }
}

impl Run {
    /// When its next event happened.
    fn timestamp(&self) -> u64 {
        self.rows.header.timestamp
    }

    /// How many bytes it takes.
    fn cost(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    /// Moves on by one row, if that is there and says nothing but its time, as most do.
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
    /// The latest timestamp that it covers.
    fn last(self) -> u64 {
        match self {
            Self::Nothing => 0,
            // There is something to release, so this is not 0.
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
