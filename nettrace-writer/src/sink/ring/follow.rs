//! A client that follows a ring gets a dump, and then all that comes.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    Part, Ring, State, malformed,
    snapshot::{Dump, Output, Past, Snapshot},
};
use crate::{
    sink::Sink,
    sync::{Condvar, Mutex},
};

/// Whoever waits looks again after this time, which every system can wait.
const LOOK: Duration = Duration::from_secs(3_600);

/// How many can follow a recorder at once.
const MOST_FOLLOWERS: usize = 16;

/// Why a follower's trace breaks off.
const TOO_LATE: &str = "the sink takes less than the recorder records";
pub(super) const ANOTHER_STREAM: &str = "the recorder had no room, and has begun anew";

/// Parts that wait for a follower.
#[derive(Debug)]
pub(crate) struct Queue {
    /// How many bytes may wait.
    most: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    parts: VecDeque<Arc<Part>>,
    bytes: usize,
    /// Nothing more comes. What was recorded before this time has come, or there is a reason why
    /// not.
    end: Option<Result<SystemTime, &'static str>>,
}

impl Queue {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, waiting: Mutex::default(), changed: Condvar::new() })
    }

    /// Adds a part. Returns `false` if nobody waits for it. A follower that is too late loses all,
    /// because later blocks need what earlier ones define.
    pub(super) fn put(&self, part: &Arc<Part>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.end.is_some() {
            return false;
        }
        waiting.bytes += part.size();
        if waiting.bytes > self.most {
            *waiting = Waiting { end: Some(Err(TOO_LATE)), ..Waiting::default() };
        } else {
            waiting.parts.push_back(Arc::clone(part));
        }
        self.changed.notify_all();
        waiting.end.is_none()
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.lock().end.is_some()
    }

    /// Says that nothing more comes. What waits is written.
    pub(crate) fn end(&self, end: Result<SystemTime, &'static str>) {
        self.waiting.lock().end.get_or_insert(end);
        self.changed.notify_all();
    }

    /// What comes next. Waits for it. Without a part: when that was said that nothing more comes.
    fn next(&self) -> io::Result<Result<Arc<Part>, SystemTime>> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(part) = waiting.parts.pop_front() {
                waiting.bytes -= part.size();
                return Ok(Ok(part));
            }
            match waiting.end {
                Some(Ok(time)) => return Ok(Err(time)),
                Some(Err(TOO_LATE)) => {
                    return Err(io::Error::new(ErrorKind::TimedOut, TOO_LATE));
                }
                Some(Err(why)) => return Err(io::Error::other(why)),
                None => waiting = self.changed.wait_for(waiting, LOOK),
            }
        }
    }
}

impl Ring {
    /// What is there now, and all that comes.
    pub(crate) fn follow(&self, past: Past) -> io::Result<(Snapshot, Follower)> {
        let mut state = self.state.lock();
        let snapshot = state.snapshot()?;
        state.followers.retain(|follower| !follower.is_over());
        if state.followers.len() >= MOST_FOLLOWERS {
            return Err(io::Error::other(format!("{MOST_FOLLOWERS} others follow the recorder")));
        }
        let queue = Queue::new(self.keep.bytes);
        state.followers.push(Arc::clone(&queue));
        drop(state);
        Ok((snapshot.cut(past).map_err(malformed)?, Follower(queue)))
    }
}

/// The side that writes what comes. The ring notices when it has gone.
#[derive(Debug)]
pub(crate) struct Follower(pub(super) Arc<Queue>);

impl Follower {
    /// Where the other side says that nothing more comes.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.0)
    }

    /// Begins the stream of a dump. [`write`](Self::write) goes on with it.
    pub(crate) fn begin(snapshot: &Snapshot, sink: &mut dyn Sink) -> io::Result<Dump> {
        snapshot.begin(sink, &[], SystemTime::now())
    }

    /// Writes the dump and what comes, until the end.
    pub(crate) fn write(
        self,
        snapshot: Snapshot,
        sink: &mut dyn Sink,
        mut dump: Dump,
    ) -> io::Result<Dump> {
        let mut to = Output { sink, dump: &mut dump, copy: Vec::new() };
        snapshot.write_blocks(&mut to)?;
        drop(snapshot);
        let ends = loop {
            match self.0.next()? {
                Ok(part) => {
                    to.write(&part)?;
                    to.dump.next = part.number + 1;
                }
                Err(time) => break time,
            }
        };
        to.sink.finish()?;
        dump.ends = ends;
        Ok(dump)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.end(Ok(SystemTime::now()));
    }
}

impl State {
    /// The stream ends.
    pub(super) fn end_followers(&mut self, end: &Result<SystemTime, &'static str>) {
        self.followers.drain(..).for_each(|follower| follower.end(*end));
    }
}
