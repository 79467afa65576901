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
    collections::{HashMap, VecDeque},
    io::Read,
};

use crate::{
    block::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
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
    lanes: Vec<Option<Lane>>,
    free_lanes: Vec<usize>,
    lane_of: HashMap<Slot, usize>,
    /// While events are released: the lanes that have some to release, by their next timestamp.
    heap: Vec<(u64, usize)>,
    release: Release,
    /// No waiting event is earlier than this: most marks release nothing, and need not look.
    earliest: u64,
    /// What to do when everything that is being released has been delivered.
    after: After,
    /// Rows of the current block that are not in a lane yet.
    segment: Option<Segment>,
    /// The lane whose first event was delivered last.
    delivered: Option<usize>,
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// The events of one capture thread that wait.
#[derive(Debug)]
struct Lane {
    capture_thread: Slot,
    runs: VecDeque<Run>,
    metadata: Option<(u32, Slot)>,
    thread: Option<(u64, Slot)>,
}

/// A stretch of rows, copied from a block. The next row to deliver is decoded already.
#[derive(Debug)]
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

impl<R: Read> SortedReader<R> {
    pub(crate) fn new(reader: Reader<R>) -> Self {
        Self {
            reader,
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            lane_of: HashMap::new(),
            heap: Vec::new(),
            release: Release::Nothing,
            earliest: u64::MAX,
            after: After::ReadOn,
            segment: None,
            delivered: None,
            waiting_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// The next event; `None` at the end of the stream and after an error. When the stream is
    /// damaged, everything that was read before is delivered first, sorted, and then the error.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        loop {
            if let Some(lane) = self.delivered.take() {
                self.advance_heap(lane)?;
            }
            if let Some((_, lane)) = self.heap.first() {
                let lane = *lane;
                self.delivered = Some(lane);
                return self.lane_event(lane).map(Some);
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
        match &mut self.segment {
            Some(segment) if segment.capture_thread == current.capture_thread => {
                segment.end = current.rows.position;
            }
            _ => {
                let segment = Segment {
                    capture_thread: current.capture_thread,
                    start,
                    first: current.rows,
                    payload: current.payload,
                    end: current.rows.position,
                };
                self.end_segment()?;
                self.segment = Some(segment);
            }
        }
        Ok(())
    }

    /// Copies the rows of the segment into the lane of their thread.
    fn end_segment(&mut self) -> Result<()> {
        let Some(segment) = self.segment.take() else { return Ok(()) };
        let start = segment.start;
        let base = self.reader.current.base + start as u64;
        let rows = &self.reader.blocks.body()[start..segment.end];
        let limit = self.reader.options.sort_limit;
        self.waiting_bytes += rows.len() + size_of::<Run>();
        if self.waiting_bytes > limit {
            let what = "sorting the events between two marks of the stream";
            return Err(Error::new(base, ErrorKind::LimitExceeded { what, limit }));
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(rows);
        let mut run = Run { bytes, base, rows: segment.first, payload: segment.payload - start };
        run.rows.position -= start;
        self.earliest = self.earliest.min(run.rows.header.timestamp);
        let lane = match self.lane_of.get(&segment.capture_thread) {
            Some(lane) => *lane,
            None => self.add_lane(segment.capture_thread),
        };
        if let Some(lane) = &mut self.lanes[lane] {
            lane.runs.push_back(run);
        }
        Ok(())
    }

    fn add_lane(&mut self, capture_thread: Slot) -> usize {
        let lane = Lane { capture_thread, runs: VecDeque::new(), metadata: None, thread: None };
        let place = match self.free_lanes.pop() {
            Some(place) => {
                self.lanes[place] = Some(lane);
                place
            }
            None => {
                self.lanes.push(Some(lane));
                self.lanes.len() - 1
            }
        };
        self.lane_of.insert(capture_thread, place);
        place
    }

    fn start_release(&mut self, release: Release) {
        self.release = release;
        self.heap.clear();
        if !release.covers(self.earliest) {
            return;
        }
        // What stays in a lane from which something is released is at the end of the release or
        // later.
        self.earliest = match release {
            Release::EarlierThan(stop) => stop,
            Release::Nothing | Release::Everything => u64::MAX,
        };
        let mut remaining = u64::MAX;
        for (place, lane) in self.lanes.iter().enumerate() {
            if let Some(timestamp) = lane.as_ref().and_then(Lane::timestamp) {
                if release.covers(timestamp) {
                    self.heap.push((timestamp, place));
                } else {
                    remaining = remaining.min(timestamp);
                }
            }
        }
        if self.heap.is_empty() {
            self.earliest = remaining;
        }
        for at in (0..self.heap.len() / 2).rev() {
            sift_down(&mut self.heap, at);
        }
    }

    /// The first event of the lane at the top of the heap has been delivered: the next one takes
    /// its place, or another lane.
    fn advance_heap(&mut self, place: usize) -> Result<()> {
        let Some(lane) = &mut self.lanes[place] else { return Ok(()) };
        if let Some(run) = lane.runs.front_mut() {
            if run.rows.position < run.bytes.len() {
                run.decode()?;
            } else if let Some(run) = lane.runs.pop_front() {
                self.waiting_bytes -= run.bytes.len() + size_of::<Run>();
                if self.spare.len() < SPARE_BUFFERS && run.bytes.capacity() <= SPARE_SIZE {
                    self.spare.push(run.bytes);
                }
            }
        }
        match lane.timestamp() {
            Some(timestamp) if self.release.covers(timestamp) => self.heap[0].0 = timestamp,
            next => {
                if next.is_none() {
                    self.lane_of.remove(&lane.capture_thread);
                    self.lanes[place] = None;
                    self.free_lanes.push(place);
                }
                self.heap.swap_remove(0);
            }
        }
        sift_down(&mut self.heap, 0);
        Ok(())
    }

    fn lane_event(&mut self, place: usize) -> Result<Event<'_>> {
        let tables = &self.reader.tables;
        // A lane in the heap has a run: the fallbacks are never taken.
        let ended = || Error::new(0, ErrorKind::NoEndOfStream);
        let lane = self.lanes[place].as_mut().ok_or_else(ended)?;
        let run = lane.runs.front().ok_or_else(ended)?;
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

/// How many buffers of runs are kept for reuse, and up to which size in bytes.
const SPARE_BUFFERS: usize = 64;
const SPARE_SIZE: usize = 1 << 20;

impl Lane {
    /// When its next event happened.
    fn timestamp(&self) -> Option<u64> {
        self.runs.front().map(|run| run.rows.header.timestamp)
    }
}

impl Run {
    fn decode(&mut self) -> Result<()> {
        self.payload = self
            .rows
            .next(&self.bytes, self.base)
            .map_err(|damage| Error::malformed(BlockKind::Event, damage))?;
        Ok(())
    }
}

impl Release {
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
