//! Whoever follows a ring: gets a dump, and then all that comes.

use std::{
    io::{self, ErrorKind},
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    Part, State,
    snapshot::{Dump, Output, Snapshot},
};
use crate::{
    sink::Sink,
    sync::{Condvar, Mutex},
};

/// Whoever waits looks again after this time, which every system can wait.
const LOOK: Duration = Duration::from_secs(3_600);

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
    parts: Vec<Arc<Part>>,
    bytes: usize,
    is_over: bool,
    is_late: bool,
}

impl Queue {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, waiting: Mutex::default(), changed: Condvar::new() })
    }

    /// Adds a part. Returns `false` if nobody waits for it. A follower that is too late loses all,
    /// because later blocks need what earlier ones define.
    pub(super) fn put(&self, part: &Arc<Part>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_over {
            return false;
        }
        waiting.bytes += part.size();
        if waiting.bytes > self.most {
            *waiting = Waiting { is_over: true, is_late: true, ..Waiting::default() };
        } else {
            waiting.parts.push(Arc::clone(part));
        }
        self.changed.notify_all();
        !waiting.is_over
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.lock().is_over
    }

    /// Says that nothing more comes. What waits is written.
    pub(crate) fn end(&self) {
        self.waiting.lock().is_over = true;
        self.changed.notify_all();
    }

    /// What has come. Waits for it. `None`: nothing more comes.
    fn next(&self) -> io::Result<Option<Vec<Arc<Part>>>> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_late {
                let words = "the sink takes less than the recorder records";
                return Err(io::Error::new(ErrorKind::TimedOut, words));
            }
            if !waiting.parts.is_empty() {
                waiting.bytes = 0;
                return Ok(Some(mem::take(&mut waiting.parts)));
            }
            if waiting.is_over {
                return Ok(None);
            }
            waiting = self.changed.wait_for(waiting, LOOK);
        }
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
        while let Some(parts) = self.0.next()? {
            for part in parts {
                to.write(&part)?;
                to.dump.next = part.number + 1;
            }
        }
        to.sink.finish()?;
        dump.ends = SystemTime::now();
        Ok(dump)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl State {
    /// The stream ends.
    pub(super) fn end_followers(&mut self) {
        self.followers.drain(..).for_each(|follower| follower.end());
    }
}
