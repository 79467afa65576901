//! The thread that collects events and hands them to the sink.
//!
//! A round is one collection: see [`collect`](Flusher::collect) for what makes its order provable, [`trace`] for the bytes. A round writes
//!
//! 1. definitions of event types and threads that are new;
//! 2. every thread's rows, the thread with the oldest first row first, each chunk as a block. The very first
//!    row carries IsSorted, if it is older than the round's `T`: then nothing that is still to come can be older;
//! 3. what is known of threads that ended;
//! 4. if one is due, a sequence point at `T`. Then rows at or after `T` stay behind for the next round.
//!
//! A thread that stays in the middle of an event beyond [`PATIENCE`] (it was stopped, say) does not hold up the others: the round goes on without
//! what it is writing, claims no order, and leaves the sequence point to a later one.

mod output;
mod segment;
mod signals;
mod source;
mod trace;

use std::{
    collections::HashSet,
    panic,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::{
    error::Error,
    flusher::{
        output::Output,
        source::{Collected, Source},
        trace::{Trace, TraceThread},
    },
    local,
    record::Sealed,
    shared::{Command, Shared},
    sink::Sink,
    sync::{Ordering, thread},
};

/// How long a round waits for threads that are in the middle of an event: with many more threads than processors, one that was
/// preempted may have to wait as long for its turn.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long it does where memory runs low and order was proved a short while ago.
const LITTLE_PATIENCE: Duration = Duration::from_millis(1);
/// How long it does where somebody waits for the round.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// How often the flusher looks whether memory runs low.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);
/// How soon it looks again after a round that brought much.
const SHORTEST_SLEEP: Duration = Duration::from_micros(250);

/// How many bytes of a round are much.
const MUCH: u64 = 256 << 10;

/// When rounds and sequence points are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) flush_interval: Duration,
    pub(crate) sequence_point_bytes: u64,
    pub(crate) sequence_point_interval: Duration,
    pub(crate) prefault: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Flusher {
    session: Arc<Shared>,
    sink: Box<dyn Sink>,
    commands: Receiver<Command>,
    schedule: Schedule,
    trace: Trace,
    sources: Vec<Source>,
    /// Events without a thread, as a thread of their own.
    unplaced: TraceThread,
    out: Output,
    collected: Vec<Sealed>,
    /// The first error; nothing is written after it.
    failed: Option<Error>,
    last_round: Instant,
    last_point: Instant,
    /// The last `T`.
    last_ts: u64,
    /// When a round last had much patience, and whether it was in vain.
    last_wait: Instant,
    waited_in_vain: bool,
    /// When a round last had everything.
    last_complete: Instant,
    /// Bytes and whether anything was written since the last sequence point.
    since_point: u64,
    dirty: bool,
    round_bytes: u64,
}

impl std::fmt::Debug for dyn Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

impl Flusher {
    /// Starts the stream.
    pub(crate) fn start(
        session: Arc<Shared>,
        sink: Box<dyn Sink>,
        commands: Receiver<Command>,
        schedule: Schedule,
        key_values: Vec<(String, String)>,
    ) -> Result<Self, Error> {
        let mut trace = Trace::new(session.format, key_values);
        let unplaced = trace.thread(None);
        let mut flusher = Self {
            session,
            sink,
            commands,
            schedule,
            trace,
            sources: Vec::new(),
            unplaced,
            out: Output::default(),
            collected: Vec::new(),
            failed: None,
            last_round: Instant::now(),
            last_point: Instant::now(),
            last_complete: Instant::now(),
            last_ts: 0,
            last_wait: Instant::now(),
            waited_in_vain: false,
            since_point: 0,
            dirty: false,
            round_bytes: 0,
        };
        flusher.start_stream()?;
        Ok(flusher)
    }

    fn start_stream(&mut self) -> Result<(), Error> {
        let header = self.trace.header(&self.session)?;
        let end = self.trace.end_of_stream();
        let started = match self.trace.padding() {
            Some(padding) => self.sink.start_padded(&header, padding),
            None => self.sink.start(&header, end),
        };
        started.map_err(Error::Sink)?;
        let bytes = header.len() + end.len();
        self.session.sink.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Runs on a thread of its own, which takes no signals: they belong to the application's threads, and a write to a closed pipe must
    /// be an error even where the application has restored SIGPIPE.
    pub(crate) fn spawn(self) -> std::io::Result<thread::JoinHandle<Result<(), Error>>> {
        let session = Arc::clone(&self.session);
        signals::blocked(|| {
            thread::Builder::new().name("nettrace-flusher".into()).spawn(move || {
                // A sink is anybody's code. If it panics the application must go on.
                panic::catch_unwind(panic::AssertUnwindSafe(|| self.run())).unwrap_or_else(|_| {
                    session.abandon();
                    Err(Error::FlusherDied)
                })
            })
        })
    }

    /// Runs until told to finish; returns the first error.
    fn run(mut self) -> Result<(), Error> {
        local::set_flusher();
        self.session.pool.prefault(self.schedule.prefault);
        let mut sleep = LONGEST_SLEEP;
        loop {
            let sleep_now = sleep.min(self.schedule.flush_interval);
            match self.commands.recv_timeout(sleep_now) {
                Ok(Command::Flush(answer)) => {
                    let _ = self.round(true, LAST_PATIENCE);
                    let _ = answer.send(());
                }
                Ok(Command::Finish) | Err(RecvTimeoutError::Disconnected) => return self.finish(),
                Ok(Command::Wake) => {
                    let _ = self.round(false, self.patience());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let is_due = self.last_round.elapsed() >= self.schedule.flush_interval;
                    if is_due || self.session.is_low() || sleep < LONGEST_SLEEP {
                        let _ = self.round(false, self.patience());
                    }
                }
            }
            // While much comes the next round is soon, so that chunks return while they are in the caches.
            let much = self.round_bytes >= MUCH;
            sleep = if much { SHORTEST_SLEEP } else { (sleep * 2).min(LONGEST_SLEEP) };
        }
    }

    fn patience(&self) -> Duration {
        let is_proved = self.last_complete.elapsed() < self.schedule.sequence_point_interval;
        // A thread that is stuck for good is waited for once in a while only.
        let is_in_vain =
            self.waited_in_vain && self.last_wait.elapsed() < self.schedule.sequence_point_interval;
        let is_little = is_in_vain || (is_proved && self.session.is_low());
        if is_little { LITTLE_PATIENCE } else { PATIENCE }
    }

    fn finish(mut self) -> Result<(), Error> {
        self.session.closed.store(true, Ordering::Relaxed);
        self.adopt();
        for source in &self.sources {
            source.buffer.record.close();
        }
        self.session.room_made();
        // The first round ends every event that could still take a chunk, the second collects what those wrote, the third
        // writes what was at or after the second's `T`.
        for _ in 0..2 {
            let _ = self.round(true, LAST_PATIENCE);
        }
        // What is at or after even that `T` comes from a clock that went back.
        let latest = self.sources.iter().filter_map(|source| source.segments.back());
        let latest = latest.map(|segment| segment.last_ts).max();
        self.session.floor.raise(latest.unwrap_or(0));
        let complete = self.round(true, LAST_PATIENCE);
        if !complete {
            // A thread is stuck in an event, so that there was no sequence point. The others' numbers are told all the same.
            self.tell_settled();
        }
        let ended = self.sink.finish();
        self.session.settle();
        debug_assert!(
            !complete || self.session.pool.use_of_chunks().0 == 0,
            "every chunk has come home"
        );
        if self.sources.iter().all(|source| source.buffer.record.is_idle()) {
            // Threads keep their buffers until they emit again or end; the memory is not needed for that.
            self.session.pool.discard();
        }
        match (self.failed.take(), ended) {
            (Some(error), _) => Err(error),
            (None, ended) => ended.map_err(Error::Sink),
        }
    }

    /// Collects and writes once. `point`: a sequence point is wanted, so that whatever was emitted before can be seen.
    ///
    /// Returns whether everything is in hand that is older than the round.
    fn round(&mut self, point: bool, patience: Duration) -> bool {
        self.last_round = Instant::now();
        self.round_bytes = 0;
        self.session.awake();
        self.session.sink.rounds.fetch_add(1, Ordering::Relaxed);
        let (ts, complete) = self.collect(patience);
        if complete {
            self.last_complete = Instant::now();
            self.waited_in_vain = false;
        } else if patience > LITTLE_PATIENCE {
            self.last_wait = Instant::now();
            self.waited_in_vain = true;
        }
        let in_hand =
            u64::from(self.session.pool.use_of_chunks().0) * self.session.pool.chunk_size() as u64;
        let restart = self.failed.is_none() && self.sink.wants_restart(in_hand);
        let is_due = point
            || restart
            || self.trace.wants_point()
            || self.since_point >= self.schedule.sequence_point_bytes
            || self.last_point.elapsed() >= self.schedule.sequence_point_interval;
        let point = complete && is_due;
        if let Err(error) = self.write_round(ts, complete, point) {
            self.fail(error.into());
            self.give_up();
        }
        self.write_out();
        if restart && point {
            self.restart();
        }
        self.session.pool.prefault(self.prefault_missing());
        complete
    }

    /// Nothing more is written: what is in hand is lost (and counted, in the end), its chunks are free.
    fn give_up(&mut self) {
        let in_hand = self.sources.iter_mut().flat_map(|source| source.segments.drain(..));
        for segment in in_hand.filter(|segment| segment.is_last) {
            self.session.pool.give(segment.chunk);
        }
    }

    /// Takes leave of every thread of which everything is written, so that its last number is in the trace.
    fn tell_settled(&mut self) {
        for source in &mut self.sources {
            if source.settled.is_some() && source.segments.is_empty() {
                source.ended = true;
            }
        }
        let told = self.tell_numbers(true).and_then(|()| self.remove_ended()).and_then(|()| {
            self.trace.remove_thread(&mut self.unplaced, &mut self.out)?;
            if self.trace.removes_threads_at_points() {
                // Claims an order that holds: whatever is in hand is written, and nothing else is to come.
                let ts = self.session.floor.raise(0);
                self.trace.sequence_point(ts, std::iter::empty(), &mut self.out)?;
            }
            Ok(())
        });
        if let Err(error) = told {
            self.fail(error.into());
        }
        self.write_out();
    }

    /// How many chunks should be touched, so that a burst finds pages.
    fn prefault_missing(&self) -> u32 {
        let (used, _) = self.session.pool.use_of_chunks();
        (used + self.schedule.prefault).saturating_sub(self.session.pool.touched()).min(64)
    }

    /// Takes from every thread what it has. Returns `T` and whether everything older than `T` is in hand.
    fn collect(&mut self, patience: Duration) -> (u64, bool) {
        // A clock that went back must not lead to a sequence point before the last.
        let ts = self.session.floor.raise(self.session.source.now());
        self.last_ts = ts;
        // After `T`: a thread with an event older than that has put itself on the roster before.
        self.adopt();
        self.sources.iter_mut().for_each(Source::ask);
        self.session.barrier.heavy();
        self.sources.iter_mut().for_each(Source::wait);
        let deadline = Instant::now() + patience;
        let mut complete = true;
        let mut moved_on = Vec::new();
        for (position, source) in self.sources.iter_mut().enumerate() {
            match source.collect(&self.session, deadline, &mut self.collected) {
                Collected::All => {}
                Collected::Busy => complete = false,
                Collected::MovedOn => moved_on.push(position),
            }
        }
        if moved_on.is_empty() {
            return (ts, complete);
        }
        moved_on.iter().for_each(|&position| self.sources[position].ask());
        self.session.barrier.heavy();
        moved_on.iter().for_each(|&position| self.sources[position].wait());
        for position in moved_on {
            let source = &mut self.sources[position];
            complete &= source.collect_rest(&self.session, deadline, &mut self.collected);
        }
        (ts, complete)
    }

    /// Meets threads that are new.
    fn adopt(&mut self) {
        let new = std::mem::take(&mut self.session.roster.lock().new);
        for buffer in new {
            let trace = self.trace.thread(Some(&buffer.thread));
            self.sources.push(Source::new(buffer, trace));
        }
    }

    fn write_round(
        &mut self,
        ts: u64,
        complete: bool,
        point: bool,
    ) -> Result<(), nettrace_format::FormatError> {
        let session = Arc::clone(&self.session);
        let pool = &session.pool;
        self.trace.metadata(&session, &mut self.out)?;

        // The oldest first.
        let mut order: Vec<(u64, usize)> = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(at, source)| Some((source.segments.front()?.first_ts(pool), at)))
            .collect();
        order.sort_unstable();
        let cut = if point && !cfg!(nettrace_mutant = "no_cut") { ts } else { u64::MAX };
        let mut sorted = complete && order.first().is_some_and(|&(first_ts, _)| first_ts < ts);
        for (_, at) in order {
            while let Some(segment) = self.sources[at].segments.pop_front() {
                let source = &mut self.sources[at];
                let (now, later) = segment.split(pool, cut);
                let has_later = later.is_some();
                // Before anything can fail: whatever becomes of the rows, their chunk is somebody's.
                if let Some(later) = later {
                    source.segments.push_front(later);
                }
                if let Some(now) = now {
                    let out = &mut self.out;
                    if now.is_last {
                        out.finish_chunk(now.chunk);
                    }
                    self.trace.declare(&mut source.trace, Some(&source.buffer.thread), out)?;
                    let refused = self.trace.events(&mut source.trace, &now, sorted, pool, out)?;
                    session.sink.refused.fetch_add(refused, Ordering::Relaxed);
                    source.trace.told = now.end_number;
                    self.dirty = true;
                    sorted = false;
                }
                if has_later {
                    break;
                }
                if self.out.is_full() {
                    self.write_out();
                }
            }
        }
        self.tell_numbers(point)?;
        if point && self.trace.removes_threads_at_points() {
            self.remove_ended()?;
        }
        if point && self.dirty {
            let threads = self.sources.iter_mut().map(|source| &mut source.trace);
            let threads = threads.chain([&mut self.unplaced]);
            self.trace.sequence_point(ts, threads, &mut self.out)?;
            self.session.sink.sequence_points.fetch_add(1, Ordering::Relaxed);
            self.since_point = 0;
            self.dirty = false;
        }
        if point {
            self.last_point = Instant::now();
        }
        self.remove_ended()
    }

    /// Brings up to date which numbers the trace accounts for.
    fn tell_numbers(&mut self, point: bool) -> Result<(), nettrace_format::FormatError> {
        for source in &mut self.sources {
            let told = match (source.segments.front(), source.settled) {
                // What is in hand is told when it is written; what was dropped before it now.
                (Some(next), _) => next.number - 1,
                (None, Some(settled)) => settled.max(source.trace.told),
                (None, None) => source.trace.told,
            };
            self.dirty |= told > source.trace.told;
            source.trace.told = told;
            // Threads that dropped everything are declared as well, once they are to be listed.
            if (point || source.ended) && source.trace.told != source.trace.base {
                self.trace.declare(
                    &mut source.trace,
                    Some(&source.buffer.thread),
                    &mut self.out,
                )?;
            }
        }
        let unplaced = self.session.unplaced();
        if point && unplaced > self.unplaced.told {
            self.unplaced.told = unplaced;
            self.trace.declare(&mut self.unplaced, None, &mut self.out)?;
            self.dirty = true;
        }
        Ok(())
    }

    /// Takes leave of threads that ended.
    fn remove_ended(&mut self) -> Result<(), nettrace_format::FormatError> {
        if !self.sources.iter().any(Source::is_done) {
            return Ok(());
        }
        let mut result = Ok(());
        let mut gone = HashSet::new();
        let mut roster = self.session.roster.lock();
        self.sources.retain_mut(|source| {
            if !source.is_done() {
                return true;
            }
            if let Err(error) = self.trace.remove_thread(&mut source.trace, &mut self.out) {
                result = Err(error);
            }
            let (attempted, drops) = source.buffer.record.counts();
            roster.gone.0 += attempted;
            roster.gone.1.add(&drops);
            gone.insert(Arc::as_ptr(&source.buffer));
            false
        });
        self.session.buffers_gone(gone.len());
        roster.live.retain(|live| !gone.contains(&Arc::as_ptr(live)));
        result
    }

    /// Hands what was made to the sink.
    fn write_out(&mut self) {
        self.since_point += self.out.len();
        self.round_bytes += self.out.len();
        let written = self.out.write(&mut *self.sink, self.failed.is_some(), &self.session.pool);
        self.session.count(written.rows, written.lost, written.bytes);
        *self.session.sink.left_out.lock() = self.trace.left_out();
        if let Some(error) = written.error {
            self.fail(Error::Sink(error));
        }
        self.session.room_made();
    }

    /// Goes on in a new stream.
    fn restart(&mut self) {
        for source in &mut self.sources {
            self.trace.restart_thread(&mut source.trace);
        }
        self.trace.restart_thread(&mut self.unplaced);
        if let Err(error) = self.start_stream() {
            self.fail(error);
        }
        self.since_point = 0;
        self.dirty = false;
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }
}
