//! One thread of a session as the flusher sees it, and how the flusher collects what it recorded.

use std::{collections::VecDeque, time::Duration};

use crate::{
    flusher::{segment::Segment, timeline::Timeline, trace::TraceThread},
    protocol::{
        barrier::Tour,
        clock::Deadline,
        pool::Pool,
        record::{Asked, Mark, Sealed, Waiting},
    },
    shared::{Shared, buffer::BufferRef},
    sync::thread,
};

/// The threads that have passed a barrier.
#[derive(Debug)]
pub(super) enum Reach {
    /// All threads.
    All,
    /// Threads that execute a fence themselves.
    Payers,
    /// Threads that execute a fence themselves, and those that a tour of the processors has
    /// reached.
    Toured(Tour),
}

impl Reach {
    /// Whether a thread, named by its id in the system, has passed a barrier although it executes
    /// no fence.
    pub(super) fn includes(&self, thread: u64) -> bool {
        match self {
            Self::All => true,
            Self::Payers => false,
            Self::Toured(tour) => tour.has_reached(thread),
        }
    }
}

/// One thread of the session.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) buffer: BufferRef,
    pub(super) trace: TraceThread,
    /// The rows in hand, the oldest first.
    pub(super) segments: VecDeque<Segment>,
    /// What the flusher saw when it asked in this round.
    asked: Option<Asked>,
    /// Whether the owner has passed the barrier that followed.
    is_reached: bool,
    waiting: Option<Waiting>,
    /// `T` of the last round that had all of the thread's rows. No later row is older.
    pub(super) since: u64,
    /// How many of the segments were collected in this round, and the time of the row before them.
    new: usize,
    last_ts: u64,
    /// If it is known in this round: a number up to which all rows are in hand or dropped.
    pub(super) settled: Option<u64>,
    /// The owner's last number, if the session has ended without waiting for the owner.
    pub(super) left_at: Option<u64>,
    /// Whether the owner has ended and all its rows are in hand.
    pub(super) ended: bool,
    /// The record's mark in the last round, if all rows up to there are in hand.
    mark: Option<Mark>,
}

/// The result of collecting from a thread.
pub(super) enum Collected {
    All,
    /// The thread is still in the middle of an event.
    Busy,
    /// The thread must be asked once more.
    MovedOn,
}

/// A thread that ended and whose removal has not reached the sink yet.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) trace: TraceThread,
    /// A recorder file has the thread's counts until the sink has them.
    pub(super) buffer: BufferRef,
}

impl Source {
    /// A thread that joined after the round whose `T` is `since`.
    pub(super) fn new(buffer: BufferRef, trace: TraceThread, since: u64) -> Self {
        Self {
            buffer,
            trace,
            segments: VecDeque::new(),
            asked: None,
            is_reached: false,
            waiting: None,
            since,
            new: 0,
            last_ts: 0,
            settled: None,
            left_at: None,
            ended: false,
            mark: None,
        }
    }

    /// A time such that no row that is yet to be written is older.
    pub(super) fn oldest(&self, pool: &Pool) -> u64 {
        let in_hand = self.segments.front().map(|segment| segment.first_ts(pool));
        self.since.min(in_hand.unwrap_or(u64::MAX))
    }

    /// Whether the owner has counted nothing since the last round, and that round had all its rows.
    pub(super) fn is_unchanged(&self) -> bool {
        self.mark.is_some_and(|mark| mark == self.buffer.record.mark())
    }

    /// Asks for the current chunk. To be called before the heavy barrier.
    pub(super) fn ask(&mut self) {
        (self.settled, self.mark) = (None, None);
        self.asked = Some(self.buffer.record.ask());
    }

    /// Whether the flusher's own fence is not enough.
    pub(super) fn needs_barrier(&self) -> bool {
        self.asked.is_some_and(Asked::needs_barrier)
    }

    /// Notes whether the owner has passed the barrier. To be called after it.
    pub(super) fn reached_by(&mut self, reach: &Reach) {
        self.is_reached = !self.needs_barrier() || reach.includes(self.buffer.thread.os_id());
    }

    /// Notes what to wait for. To be called after the heavy barrier.
    pub(super) fn wait(&mut self) {
        self.waiting = Some(self.buffer.record.wait());
    }

    pub(super) fn collect(
        &mut self,
        session: &Shared,
        deadline: Deadline,
        collected: &mut Vec<Sealed>,
    ) -> Collected {
        let record = &self.buffer.record;
        let (Some(asked), Some(waiting)) = (self.asked, self.waiting) else {
            return Collected::All;
        };
        let result = if !self.is_reached || !wait_until(deadline, || waiting.is_over(record)) {
            // Take what it has sealed. The rest must wait.
            record.take_sealed(&session.pool, collected);
            Collected::Busy
        } else if record.collect(&session.pool, asked, collected) {
            self.settle(asked, false);
            Collected::All
        } else {
            Collected::MovedOn
        };
        self.keep(session, collected);
        result
    }

    /// Collects from a thread that was asked once more. Returns `false` if it is still in the
    /// middle of an event or of sealing.
    pub(super) fn collect_rest(
        &mut self,
        session: &Shared,
        deadline: Deadline,
        collected: &mut Vec<Sealed>,
    ) -> bool {
        let record = &self.buffer.record;
        let (Some(asked), Some(waiting)) = (self.asked, self.waiting) else { return true };
        let all = self.is_reached
            && wait_until(deadline, || waiting.is_over(record))
            && wait_until(deadline, || record.collect_rest(&session.pool, asked, collected));
        if all {
            self.settle(asked, true);
        }
        self.keep(session, collected);
        all
    }

    /// Notes that everything up to what was asked for is in hand.
    fn settle(&mut self, asked: Asked, again: bool) {
        self.settled = Some(asked.settled(again));
        self.ended = asked.exited;
        self.mark = asked.mark(again);
    }

    /// Adds the chunks that were collected to the rows in hand.
    fn keep(&mut self, session: &Shared, collected: &mut Vec<Sealed>) {
        for sealed in collected.drain(..) {
            if sealed.rows == 0 {
                session.pool.give(sealed.chunk);
            } else {
                self.segments.push_back(Segment::new(&sealed));
                self.new += 1;
            }
        }
    }

    /// Checks the times of what was collected in this round. If the thread was waited for, all its
    /// rows older than `ts` are in hand now.
    pub(super) fn end_round(&mut self, timeline: &mut Timeline, ts: u64, pool: &Pool) {
        let old = self.segments.len() - std::mem::take(&mut self.new);
        for segment in self.segments.iter_mut().skip(old) {
            timeline.check(segment, self.last_ts.max(self.since), pool);
            self.last_ts = segment.last_ts;
        }
        if self.settled.is_some() {
            self.since = ts;
        }
    }

    /// Whether the thread has ended and all its rows are written.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.segments.is_empty()
    }
}

/// The first and the longest sleep of a wait for a thread.
const SLEEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Waits until `done`. First it spins, because an event takes nanoseconds. Then it sleeps, because
/// a thread that was preempted in an event takes milliseconds. Each sleep is an eighth longer than
/// the one before, so the wait is at most an eighth longer than it must be, and a thread that is
/// stuck costs little. It does not yield: among many busy threads a yield can take a second.
fn wait_until(deadline: Deadline, mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..100 {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    let [mut sleep, longest] = SLEEPS;
    while !done() {
        if deadline.has_passed() {
            return false;
        }
        thread::sleep(sleep);
        sleep = (sleep + sleep / 8).min(longest);
    }
    true
}
