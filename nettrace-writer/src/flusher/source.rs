//! One thread of a session, as the flusher sees it: how what it has recorded comes into hand.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    flusher::{segment::Segment, trace::TraceThread},
    local::ThreadBuffer,
    record::{Asked, Sealed, Waiting},
    shared::Shared,
    sync::thread,
};

/// One thread of the session.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) buffer: Arc<ThreadBuffer>,
    pub(super) trace: TraceThread,
    /// Rows in hand, the oldest first.
    pub(super) segments: VecDeque<Segment>,
    /// What was seen of it in this round.
    asked: Option<Asked>,
    waiting: Option<Waiting>,
    /// A number up to which everything is in hand or dropped, if that is known of this round.
    pub(super) settled: Option<u64>,
    /// The owner has gone, and everything of it is in hand.
    pub(super) ended: bool,
}

/// What a visit to a thread brought.
pub(super) enum Collected {
    All,
    /// The thread is still in the middle of an event.
    Busy,
    /// It must be asked once more.
    MovedOn,
}

impl Source {
    pub(super) fn new(buffer: Arc<ThreadBuffer>, trace: TraceThread) -> Self {
        let segments = VecDeque::new();
        Self { buffer, trace, segments, asked: None, waiting: None, settled: None, ended: false }
    }

    /// Before the heavy barrier.
    pub(super) fn ask(&mut self) {
        self.settled = None;
        self.asked = Some(self.buffer.record.ask());
    }

    /// After it.
    pub(super) fn wait(&mut self) {
        self.waiting = Some(self.buffer.record.wait());
    }

    pub(super) fn collect(
        &mut self,
        session: &Shared,
        deadline: Instant,
        collected: &mut Vec<Sealed>,
    ) -> Collected {
        let record = &self.buffer.record;
        let (Some(asked), Some(waiting)) = (self.asked, self.waiting) else {
            return Collected::All;
        };
        let result = if !wait_until(deadline, || waiting.is_over(record)) {
            // What it sealed before can be had; the rest must wait.
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

    /// Collects what an owner wrote that has moved on. `false`: it is in the middle of it.
    pub(super) fn collect_rest(
        &mut self,
        session: &Shared,
        deadline: Instant,
        collected: &mut Vec<Sealed>,
    ) -> bool {
        let record = &self.buffer.record;
        let (Some(asked), Some(waiting)) = (self.asked, self.waiting) else { return true };
        let all = wait_until(deadline, || waiting.is_over(record))
            && wait_until(deadline, || record.collect_rest(&session.pool, asked, collected));
        if all {
            self.settle(asked, true);
        }
        self.keep(session, collected);
        all
    }

    /// Everything up to what was asked for is in hand.
    fn settle(&mut self, asked: Asked, again: bool) {
        self.settled = Some(asked.settled(again));
        self.ended = asked.exited;
    }

    /// Puts what was collected to what is in hand.
    fn keep(&mut self, session: &Shared, collected: &mut Vec<Sealed>) {
        for sealed in collected.drain(..) {
            if sealed.rows == 0 {
                session.pool.give(sealed.chunk);
            } else {
                self.segments.push_back(Segment::new(&sealed));
            }
        }
    }

    /// Whether the thread has ended and everything of it is written.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.segments.is_empty()
    }
}

/// Waits until `done`, first spinning, then sleeping: an event takes nanoseconds, a thread that was preempted in one
/// milliseconds. Not yielding: among many busy threads that can take a second.
fn wait_until(deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..100 {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_micros(50));
    }
    true
}
