//! The flusher: the thread of a session that collects events and hands them to the sink.
//!
//! It works in rounds. [`collect`](Flusher::collect) says how a round can prove the order of what
//! it collects, [`round`] says what goes into which stream, and [`trace`] makes the bytes. A round
//! writes, in this order:
//!
//! 1. Definitions of new event types and threads, if rows follow that need them.
//! 2. Every thread's rows, each chunk as a block. The thread with the oldest first row comes first.
//!    If that row is older than the round's `T`, it carries IsSorted, because nothing older can
//!    follow.
//! 3. The last numbers of threads that ended.
//! 4. A sequence point at `T`, if one is due. Rows at or after `T` then stay for the next round.
//!
//! Rows *in hand* are collected and not written yet. A thread may stay in the middle of an event
//! for longer than [`PATIENCE`], for instance because it was stopped. The round then goes on
//! without what that thread is writing. Such a round claims no order and leaves the sequence point
//! to a later one.

mod ending;
mod ids;
pub(crate) mod notice;
mod output;
mod own_thread;
mod processors;
mod recovery;
mod round;
mod round_barrier;
mod rows;
mod segment;
mod signals;
mod source;
mod spans;
mod timeline;
mod trace;

pub(crate) use self::own_thread::OwnThread;

use std::{panic, sync::Arc, time::Duration};

use nettrace_format::Stage;

use crate::{
    flusher::{
        notice::Notices,
        output::Output,
        recovery::Trouble,
        round::StreamState,
        source::{Collected, Leaving, Source},
        timeline::Timeline,
        trace::{Trace, TraceThread},
    },
    protocol::{
        clock::{Deadline, Stopwatch},
        idle::Sleep,
        record::Sealed,
    },
    shared::{
        Command, Shared,
        channel::{Receiver, RecvError, Sender},
        error::Error,
        local,
        persistent::UnattributedCounter,
        sessions::Slot,
        trace_ids::Ids,
    },
    sink::{Sink, failure::Failure},
    sync::Ordering,
};

/// How long a round waits for threads in the middle of an event. If there are many more threads
/// than processors, a preempted thread may wait this long for a processor.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long it waits if memory runs low and order was proved a short while ago, or if a longer wait
/// was in vain a short while ago.
const LITTLE_PATIENCE: Duration = Duration::from_millis(1);
/// How long it waits if somebody waits for the round.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// How long the flusher sleeps while memory is low.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);
/// How soon it collects again after a round with much data.
const SHORTEST_SLEEP: Duration = Duration::from_micros(250);

/// How often the flusher merges small chunks.
const MERGE_AFTER: Duration = Duration::from_secs(1);
/// The flusher remembers at least this many bytes of stacks, and as many of label lists. If a
/// sixteenth of the budget is more, it remembers that many.
const LEAST_INTERNED: usize = 128 << 10;
/// If no chunk has been in use for this long, the flusher rests. So it looks at least this often.
const REST_AFTER: Duration = Duration::from_millis(100);
/// The longest rest. Some things do not wake the flusher, so it can notice them this much later: a
/// thread that ends, a loss of a thread without a buffer, a file that is old enough to be closed.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A round with this many bytes or more has much data.
const MUCH: u64 = 256 << 10;

/// When rounds and sequence points are due, and how they are written.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) flush_interval: Duration,
    pub(crate) sequence_point_bytes: u64,
    pub(crate) sequence_point_interval: Duration,
    pub(crate) prefault: u32,
}

/// What the trace is made of.
#[derive(Debug)]
pub(crate) struct NewTrace {
    /// What turns version 6 into what the sink gets. `None`: the sink gets version 6.
    pub(crate) stage: Option<Box<dyn Stage>>,
    pub(crate) ids: Ids,
    pub(crate) key_values: Vec<(String, String)>,
}

/// How a session ended.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) result: Result<(), Error>,
    /// Whether the flusher's thread goes on, because another thread is stuck in the middle of an
    /// event.
    pub(crate) stays: bool,
}

/// The state of a session's flusher.
#[derive(Debug)]
pub(crate) struct Flusher {
    session: Arc<Shared>,
    /// Reserved until this session's counts are final, because some counts are kept by slot.
    slot: Option<Arc<Slot>>,
    sink: Box<dyn Sink>,
    commands: Receiver<Command>,
    /// Who waits for the flush in progress. If the sink panics in it, they hear of it when the
    /// session is known to have died.
    asked: Option<Sender<Option<Error>>>,
    schedule: Schedule,
    trace: Trace,
    sources: Vec<Source>,
    /// Stands for events without a thread.
    unplaced: TraceThread,
    /// Stands for threads that ended while nothing could be written: it tells what they lost.
    forgotten: TraceThread,
    /// How many numbers a recorder file has of these besides: so many events of threads that have
    /// ended were held back by the sink at most.
    forgotten_extra: u64,
    /// Threads that ended and whose removal has not reached the sink yet.
    leaving: Vec<Leaving>,
    timeline: Timeline,
    out: Output,
    collected: Vec<Sealed>,
    stream: StreamState,
    /// How many bytes of blocks are in the stream, and how many rows are in the last block.
    stream_len: u64,
    last_rows: u64,
    /// A final error: nothing is written after it.
    failed: Option<Error>,
    trouble: Option<Trouble>,
    /// The last failure of the sink that could pass, whether or not it has.
    last_failure: Option<Failure>,
    notices: Notices,
    /// How many names of values to keep out the session was told of that nothing had.
    unredacted: usize,
    last_round: Stopwatch,
    /// When the next round is due, counted from the last one.
    due_after: Duration,
    /// When a chunk was last seen in use.
    last_used: Stopwatch,
    last_point: Stopwatch,
    /// The last `T`.
    last_ts: u64,
    /// When a round last waited in vain for a thread, for longer than [`LITTLE_PATIENCE`].
    last_wait: Stopwatch,
    waited_in_vain: bool,
    /// When small chunks were last merged, and a buffer for the free ones.
    last_merge: Stopwatch,
    free_chunks: Vec<u32>,
    /// When a round last collected everything.
    last_complete: Stopwatch,
    /// How many bytes were written since the last sequence point, and whether there is anything to
    /// tell in the next.
    since_point: u64,
    dirty: bool,
    round_bytes: u64,
    /// Whether this flusher has closed the session. A barrier has followed when a round reads this.
    is_closing: bool,
    /// Whether the session's memory is freed, because no thread can reach it any more.
    is_freed: bool,
}

impl std::fmt::Debug for dyn Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

/// What stands for events without a thread, and for threads that readers do not know.
fn nobodies(trace: &mut Trace, session: &Shared) -> [TraceThread; 2] {
    UnattributedCounter::ALL.map(|nobody| {
        let mut thread = trace.thread();
        if let Some(file) = &session.persistent {
            file.set_index(nobody.slot(), thread.index());
            thread.slot = Some(nobody.slot());
        }
        thread
    })
}

impl Flusher {
    /// Starts the first stream.
    pub(crate) fn start(
        session: Arc<Shared>,
        slot: Arc<Slot>,
        sink: Box<dyn Sink>,
        commands: Receiver<Command>,
        schedule: Schedule,
        trace: NewTrace,
        notices: Notices,
    ) -> Result<Self, Error> {
        let budget = session.pool.chunks() as usize * session.pool.chunk_size();
        let most_interned = (budget / 16).max(LEAST_INTERNED);
        let mut trace = Trace::new(trace, most_interned);
        let [unplaced, forgotten] = nobodies(&mut trace, &session);
        let out = trace.output();
        let mut flusher = Self {
            timeline: Timeline::new(session.source),
            session,
            slot: Some(slot),
            sink,
            commands,
            asked: None,
            due_after: schedule.flush_interval,
            schedule,
            trace,
            sources: Vec::new(),
            unplaced,
            forgotten,
            forgotten_extra: 0,
            leaving: Vec::new(),
            out,
            collected: Vec::new(),
            stream: StreamState::Empty,
            stream_len: 0,
            last_rows: 0,
            failed: None,
            trouble: None,
            last_failure: None,
            notices,
            unredacted: 0,
            last_round: Stopwatch::start(),
            last_used: Stopwatch::start(),
            last_point: Stopwatch::start(),
            last_complete: Stopwatch::start(),
            last_merge: Stopwatch::start(),
            free_chunks: Vec::new(),
            last_ts: 0,
            last_wait: Stopwatch::start(),
            waited_in_vain: false,
            since_point: 0,
            dirty: false,
            round_bytes: 0,
            is_closing: false,
            is_freed: false,
        };
        if let Some(file) = &flusher.session.persistent {
            if flusher.sink.takes_rows_apart() {
                file.numbers_are_noted();
            }
        }
        // No row will be older than this.
        flusher.last_ts = flusher.timeline.begin_round(&flusher.session.floor);
        flusher.start_stream(flusher.last_ts)?;
        flusher.note_unredacted();
        Ok(flusher)
    }

    /// Opens a stream in the sink. Nothing in it may be older than `oldest`.
    fn start_stream(&mut self, oldest: u64) -> Result<(), Error> {
        let sync = self.timeline.sync_before(oldest);
        let header = self.trace.header(sync)?;
        let end = self.trace.end();
        let number = self.trace.next_number();
        if let Some(file) = &self.session.persistent {
            file.begin_stream(number, &header).map_err(Error::Recorder)?;
        }
        self.sink.start(&header, end).map_err(Error::Sink)?;
        if let (Some(file), Some(path)) = (&self.session.persistent, self.sink.file()) {
            file.set_path(number, path);
        }
        self.trace.has_begun();
        let bytes = header.len() + end.bytes().len();
        self.session.sink.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Runs a flusher on a thread of its own, once it is handed over. The thread ends if the other
    /// side of `handed_over` is dropped instead. It takes no signals: they are meant for the
    /// application's threads, and a write to a closed pipe must be an error even if the application
    /// has restored SIGPIPE.
    ///
    /// Sends to `report` how the session ended.
    pub(crate) fn spawn(
        handed_over: Receiver<Self>,
        report: Sender<Report>,
    ) -> std::io::Result<OwnThread> {
        OwnThread::start(c"nettrace-flusher", move || {
            let Ok(mut flusher) = handed_over.recv() else { return };
            // A sink is foreign code. If it panics the application must go on.
            let run = panic::catch_unwind(panic::AssertUnwindSafe(|| flusher.run()));
            let result = run.unwrap_or_else(|_| {
                flusher.abandon();
                Err(Error::FlusherDied)
            });
            flusher.notices.end(&flusher.session, &result);
            let stays = flusher.leave_sink();
            // This fails if nobody waits for the report any more.
            let _ = report.send(Report { result, stays });
            if stays {
                flusher.stay();
            }
        })
    }

    /// Runs until it is told to finish. Returns the first error.
    fn run(&mut self) -> Result<(), Error> {
        local::set_flusher();
        self.session.idle.set_flusher();
        let mut sleep = LONGEST_SLEEP;
        loop {
            if self.session.closed.load(Ordering::Relaxed) {
                // The session's handle has given up waiting for the sink and left.
                return self.finish();
            }
            self.note_use();
            self.prefault();
            let command = if self.last_used.elapsed() >= REST_AFTER {
                self.rest()
            } else {
                let until_due = self.due_after.saturating_sub(self.last_round.elapsed());
                let command = self.wait(sleep, until_due);
                // The sleep may have been long, and the round gives chunks back.
                self.note_use();
                command
            };
            match command {
                Some(Command::Flush(answer)) => {
                    self.asked = Some(answer);
                    let _ = self.round(true, LAST_PATIENCE);
                    let trouble = self.trouble();
                    if let Some(answer) = self.asked.take() {
                        let _ = answer.send(trouble);
                    }
                }
                Some(Command::Exit(answer)) => {
                    let _ = self.round(true, LAST_PATIENCE);
                    let ended = self.sink.holds_back().then(|| self.finish_at_exit());
                    let _ = answer.send(());
                    if let Some(result) = ended {
                        return result;
                    }
                }
                Some(Command::Finish) => return self.finish(),
                Some(Command::Wake) => {
                    let _ = self.round(false, self.patience());
                }
                None => {
                    let is_due = self.last_round.elapsed() >= self.due_after;
                    if is_due || self.session.is_low() || sleep < LONGEST_SLEEP {
                        let _ = self.round(false, self.patience());
                    }
                }
            }
            // After much data the next round is soon, so that chunks come back while they are in
            // the caches.
            let much = self.round_bytes >= MUCH;
            sleep = if much { SHORTEST_SLEEP } else { (sleep * 2).min(LONGEST_SLEEP) };
        }
    }

    /// Sleeps until somebody emits or sends a command, or until `LONGEST_REST` is over.
    fn rest(&mut self) -> Option<Command> {
        let mut longest = LONGEST_REST;
        // Do not wake for a sequence point that cannot be written.
        if self.dirty && self.writes() {
            let until_point = self.schedule.sequence_point_interval;
            let until_point = until_point.saturating_sub(self.last_point.elapsed());
            // Only a round writes it, so do not wake before the next one is due.
            let until_round = self.due_after.saturating_sub(self.last_round.elapsed());
            longest = longest.min(until_point.max(until_round));
        }
        let (session, commands) = (&self.session, &self.commands);
        let is_quiet = || session.pool.is_unused() && commands.is_empty();
        let is_woken = session.idle.sleep(Sleep::Rest, longest, is_quiet);
        let is_woken = is_woken || !session.pool.is_unused();
        if let Some(command) = self.command() {
            return Some(command);
        }
        if is_woken {
            // An event has come, so the usual rhythm begins. The event waits half an interval for
            // the next round, as long as events wait on average. Everything before the event was
            // collected.
            let now = Stopwatch::start();
            (self.last_round, self.last_complete, self.last_used) = (now, now, now);
            self.due_after = self.schedule.flush_interval / 2;
        }
        None
    }

    /// Notes that chunks are in use, if they are.
    fn note_use(&mut self) {
        if !self.session.pool.is_unused() {
            self.last_used = Stopwatch::start();
        }
    }

    /// Sleeps until somebody sends a command, memory runs low, or a round is due. If memory is low
    /// or much data comes, it sleeps for `short` at most.
    fn wait(&mut self, short: Duration, until_due: Duration) -> Option<Command> {
        self.command().or_else(|| {
            let (session, commands) = (&self.session, &self.commands);
            if short < LONGEST_SLEEP || session.is_low() {
                session.idle.sleep(Sleep::Wait, short.min(until_due), || commands.is_empty());
            } else {
                let is_quiet = || commands.is_empty() && !session.is_low();
                session.idle.sleep(Sleep::Watch, until_due.min(REST_AFTER), is_quiet);
            }
            self.command()
        })
    }

    fn command(&self) -> Option<Command> {
        match self.commands.try_recv() {
            Ok(command) => Some(command),
            Err(RecvError::Late) => None,
            // The session's other ends are gone, so nobody can emit.
            Err(RecvError::Gone) => Some(Command::Finish),
        }
    }

    fn patience(&self) -> Duration {
        let is_proved = self.last_complete.elapsed() < self.schedule.sequence_point_interval;
        // A thread may be stuck for good. So wait long for it only once in a while.
        let is_in_vain =
            self.waited_in_vain && self.last_wait.elapsed() < self.schedule.sequence_point_interval;
        let is_little = is_in_vain || (is_proved && self.session.is_low());
        if is_little { LITTLE_PATIENCE } else { PATIENCE }
    }

    /// Collects and writes once. `point` asks for a sequence point, so that readers see everything
    /// that was emitted before.
    ///
    /// Returns whether the round has collected everything that is older than its `T`.
    fn round(&mut self, point: bool, patience: Duration) -> bool {
        self.last_round = Stopwatch::start();
        self.due_after = self.schedule.flush_interval;
        self.round_bytes = 0;
        self.session.awake();
        self.session.sink.rounds.fetch_add(1, Ordering::Relaxed);
        let (ts, complete) = self.collect(patience);
        if complete {
            self.last_complete = Stopwatch::start();
            self.waited_in_vain = false;
        } else if patience > LITTLE_PATIENCE {
            self.last_wait = Stopwatch::start();
            self.waited_in_vain = true;
        }
        let tries = self.try_again(point);
        let wants_point = self.trace.wants_point();
        self.dirty |= wants_point;
        let is_due = point
            || tries
            || wants_point
            || self.since_point >= self.schedule.sequence_point_bytes
            || self.last_point.elapsed() >= self.schedule.sequence_point_interval;
        let point = complete && is_due && self.writes();
        if let Err(error) = self.write_round(ts, complete, point) {
            self.fail(error.into());
            self.give_up();
        }
        self.write_out();
        self.finish_try();
        if self.last_merge.elapsed() >= MERGE_AFTER {
            self.session.pool.merge(&mut self.free_chunks);
            self.last_merge = Stopwatch::start();
        }
        if let Some(file) = &self.session.persistent {
            file.set_attempted(UnattributedCounter::Unplaced, self.session.unplaced());
        }
        self.note_unredacted();
        self.tell_application();
        complete
    }

    /// Notes which names of values to keep out nothing has had so far, for warnings.
    fn note_unredacted(&mut self) {
        let names = self.trace.unredacted();
        // They only become fewer.
        if names.len() != self.unredacted {
            self.unredacted = names.len();
            *self.session.unredacted.lock() = names.into_iter().map(ToOwned::to_owned).collect();
        }
    }

    /// Tells the application when the sink begins to fail, and when it takes events again.
    fn tell_application(&mut self) {
        let is_final = self.failed.is_some();
        let fails = is_final || self.trouble.is_some();
        if self.notices.is_news(&self.session, fails, is_final) {
            let error = self.trouble();
            self.notices.tell(&self.session, error.as_ref(), is_final);
        }
    }

    /// Drops what is in hand, because nothing more is written. The rows count as lost in the end,
    /// and their chunks become free.
    fn give_up(&mut self) {
        let in_hand = self.sources.iter_mut().flat_map(|source| source.segments.drain(..));
        for segment in in_hand.filter(|segment| segment.is_last) {
            self.session.pool.give(segment.chunk);
        }
    }

    /// Touches chunks, so that a burst finds chunks with pages. Commands go first: a program that
    /// ends at once does not wait for memory that it never uses.
    fn prefault(&self) {
        let pool = &self.session.pool;
        let missing = (pool.in_use() + self.schedule.prefault).saturating_sub(pool.touched());
        pool.prefault(missing, || self.commands.is_empty());
    }

    /// Takes from every thread what it has recorded. Returns `T`, and whether everything older than
    /// `T` is in hand.
    fn collect(&mut self, patience: Duration) -> (u64, bool) {
        let ts = self.timeline.begin_round(&self.session.floor);
        // After `T`: a thread with an event older than `T` was on the roster before `T` was read.
        self.adopt();
        self.last_ts = ts;
        if self.nobody_emitted() {
            self.sources.iter_mut().for_each(|source| source.since = ts);
            return (ts, true);
        }
        self.sources.iter_mut().for_each(Source::ask);
        let all = 0..self.sources.len();
        round_barrier::execute(&self.session, &mut self.sources, all);
        self.sources.iter_mut().for_each(Source::wait);
        let deadline = Deadline::after(patience);
        let mut complete = true;
        let mut moved_on = Vec::new();
        for (position, source) in self.sources.iter_mut().enumerate() {
            match source.collect(&self.session, deadline, &mut self.collected) {
                Collected::All => {}
                Collected::Busy => complete = false,
                Collected::MovedOn => moved_on.push(position),
            }
        }
        if !moved_on.is_empty() {
            moved_on.iter().for_each(|&position| self.sources[position].ask());
            round_barrier::execute(&self.session, &mut self.sources, moved_on.iter().copied());
            moved_on.iter().for_each(|&position| self.sources[position].wait());
        }
        for position in moved_on {
            let source = &mut self.sources[position];
            complete &= source.collect_rest(&self.session, deadline, &mut self.collected);
        }
        self.timeline.end_collecting();
        for source in &mut self.sources {
            source.end_round(&mut self.timeline, ts, &self.session.pool);
        }
        (ts, complete)
    }

    /// Whether the round may skip asking: no chunk is in use, and no thread has counted an event
    /// since the last round. The counts must be read before the look at the chunks: see
    /// [`record`](crate::protocol::record).
    fn nobody_emitted(&self) -> bool {
        !self.session.closed.load(Ordering::Relaxed)
            && self.sources.iter().all(Source::is_unchanged)
            && self.session.pool.is_unused()
    }

    /// Takes over threads that are new on the roster.
    fn adopt(&mut self) {
        let new = self.session.with_roster(|roster| {
            self.session.pool.set_threads(roster.live.len());
            std::mem::take(&mut roster.new)
        });
        for buffer in new {
            let mut trace = self.trace.thread();
            trace.slot = buffer.record.place.checked_sub(1);
            if let (Some(file), Some(slot)) = (&self.session.persistent, trace.slot) {
                file.set_index(slot, trace.index());
            }
            self.sources.push(Source::new(buffer, trace, self.last_ts));
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }
}
