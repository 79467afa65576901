//! Recordings beside each other: which event is next.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use nettrace_reader::{Event, SortedReader, Trace};
use nettrace_views::model::Clock;

use crate::{
    failure::Failure,
    files::{Joined, ReadEnd, Recording},
    read_options::ReadOptions,
    source::Bytes,
};

/// How long before its stated start a recording is opened, in nanoseconds. Other producers may
/// state a time that is a little late.
const MARGIN: i128 = 1_000_000_000;

/// The times of recordings on one scale.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// For several recordings: when each begins, in nanoseconds since 1970 by its own clock.
    /// Without it the scale is that of the ticks.
    starts: Option<Vec<i128>>,
    /// What is added to the times of each recording.
    pub(super) shifts: Vec<i128>,
}

impl Times {
    pub(super) fn of(recordings: &[Recording]) -> Result<Self, Failure> {
        let shifts = vec![0; recordings.len()];
        if recordings.len() == 1 {
            return Ok(Self { starts: None, shifts });
        }
        let start = |it: &Recording| {
            let file = &it.files[0];
            file.start.ok_or_else(|| Failure::NoStart(file.path.display().to_string()))
        };
        let starts = recordings.iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { starts: Some(starts), shifts })
    }

    /// When a recording begins. `None` if the scale is that of its ticks.
    pub(super) fn start(&self, number: usize) -> Option<i128> {
        Some(self.starts.as_ref()?[number] + self.shifts[number])
    }

    /// When the first recording begins.
    pub(super) fn first(&self) -> Option<i128> {
        (0..self.shifts.len()).filter_map(|number| self.start(number)).min()
    }
}

/// What takes the events of the recordings.
pub(super) trait Take {
    /// What it keeps for each recording: among others the recording's next event.
    type Kept: Default;

    /// Takes the next event of a recording, but not yet in its turn.
    fn take(
        &mut self,
        event: &Event<'_>,
        lane: &Lane,
        kept: &mut Self::Kept,
    ) -> Result<(), Failure>;

    /// Takes what is known at the end of a recording.
    fn end(
        &mut self,
        reader: &SortedReader<Bytes>,
        lane: &Lane,
        kept: &mut Self::Kept,
    ) -> Result<(), Failure>;
}

/// A recording that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// Its number among all.
    pub(super) number: usize,
    /// The major version of its first file.
    pub(super) version: u32,
    clock: Clock,
    /// When it begins; `None` if times are ticks.
    start: Option<i128>,
}

impl Lane {
    /// The only trace of a stream, with its own ticks.
    pub(crate) fn of_one(version: u32, trace: &Trace) -> Self {
        Self { number: 0, version, clock: Clock::of(trace), start: None }
    }

    /// A time on the scale of all.
    fn at(&self, ticks: u64) -> i128 {
        match self.start {
            Some(start) => start + self.clock.exactly(ticks).unwrap_or(0),
            None => ticks.into(),
        }
    }
}

struct Open<T: Take> {
    reader: SortedReader<Bytes>,
    path: PathBuf,
    lane: Lane,
    kept: T::Kept,
}

/// All recordings.
pub(super) struct Lanes<T: Take> {
    limits: ReadOptions,
    times: Times,
    /// Those that have not begun, by the time at which they begin.
    waiting: VecDeque<(usize, Recording)>,
    open: Vec<Option<Open<T>>>,
    /// The times of their next events.
    heap: BinaryHeap<Reverse<(i128, usize)>>,
    /// Whose event was the last one.
    last: Option<usize>,
    end: Arc<Mutex<ReadEnd>>,
}

impl<T: Take> Lanes<T> {
    pub(super) fn new(
        recordings: Vec<Recording>,
        times: Times,
        limits: ReadOptions,
        end: Arc<Mutex<ReadEnd>>,
    ) -> Self {
        let open = recordings.iter().map(|_| None).collect();
        let mut waiting: Vec<_> = recordings.into_iter().enumerate().collect();
        waiting.sort_by_key(|(number, _)| times.start(*number));
        let waiting = waiting.into();
        Self { limits, times, waiting, open, heap: BinaryHeap::new(), last: None, end }
    }

    /// The next event of all: its time, and what `take` has kept of it.
    pub(super) fn next(&mut self, take: &mut T) -> Result<Option<(i128, &mut T::Kept)>, Failure> {
        if let Some(number) = self.last.take() {
            self.read(number, take)?;
        }
        while let Some((number, _)) = self.waiting.front() {
            let now = self.heap.peek().map(|Reverse((at, _))| *at);
            let start = self.times.start(*number);
            if now.zip(start).is_some_and(|(now, start)| start - MARGIN > now) {
                break;
            }
            if let Some((number, recording)) = self.waiting.pop_front() {
                self.begin(number, &recording)?;
                self.read(number, take)?;
            }
        }
        let Some(Reverse((at, number))) = self.heap.pop() else { return Ok(None) };
        self.last = Some(number);
        Ok(self.open[number].as_mut().map(|open| (at, &mut open.kept)))
    }

    fn begin(&mut self, number: usize, recording: &Recording) -> Result<(), Failure> {
        let path = recording.files[0].path.clone();
        let fail = |error| Failure::Open(path.display().to_string(), error);
        let options = self.limits.options().runtime_events(false).keep_thread_totals(true);
        let (bytes, is_joined): (Bytes, _) = if recording.is_joined() {
            (Box::new(Joined::new(recording.parts(), Arc::clone(&self.end))), true)
        } else {
            (Box::new(fs::File::open(&path).map_err(fail)?), false)
        };
        let reader = options.joined(is_joined).open(bytes);
        let reader = reader.map_err(|error| fail(io::Error::other(error)))?.sorted();
        let clock = Clock::of(reader.trace());
        let start = self.times.start(number);
        if start.is_some() && !clock.is_known() {
            return Err(Failure::NoStart(path.display().to_string()));
        }
        let lane = Lane { number, version: reader.major_version(), clock, start };
        self.open[number] = Some(Open { reader, path, lane, kept: T::Kept::default() });
        Ok(())
    }

    /// Reads the next event of a recording. At its end the recording is closed.
    fn read(&mut self, number: usize, take: &mut T) -> Result<(), Failure> {
        let Some(open) = &mut self.open[number] else { return Ok(()) };
        let Open { reader, path, lane, kept } = open;
        match reader.next_event() {
            Ok(Some(event)) => {
                take.take(&event, lane, kept)?;
                self.heap.push(Reverse((lane.at(event.header.timestamp), number)));
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => {
                let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
                end.damaged.push((path.clone(), error.to_string()));
            }
        }
        take.end(reader, lane, kept)?;
        self.open[number] = None;
        Ok(())
    }
}
