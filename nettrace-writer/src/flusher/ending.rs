//! The end of a session: its last rounds, its final counts, and what happens to its memory.
//!
//! # The last rounds
//!
//! The session is closed first. An event that begins afterwards ends without a row and without a
//! count. The first round ends every event that could still take a chunk. The second collects what
//! those events wrote. The third writes the rows at or after the second's `T`. Then the counts are
//! final. A round that has collected everything shows that no thread can reach the memory any more,
//! so the memory is freed. That must not wait until all threads have released their buffers,
//! because a thread that never emits again keeps its buffer until it ends. (That buffer is half a
//! kibibyte for each slot, and it keeps the rest of the session's state alive.)
//!
//! # A thread that is stuck
//!
//! A thread can stay in the middle of an event longer than anybody waits: it is stopped, or it
//! blocks in its encoding. The session then ends without it, and what the thread wrote counts as
//! lost. Its counts are read once, for the trace and for the session alike, so that both agree even
//! if the thread goes on a moment later. The thread may still write, so the memory must stay. The
//! flusher's thread stays too, and checks now and then whether it can free the memory. Two
//! alternatives were rejected. The stuck thread could free the memory itself, but every event would
//! have to check for that at its end. The next session could do it when it starts, but there may be
//! no next session.
//!
//! # A panic
//!
//! A sink is foreign code. If it panics (or if this crate has a defect) nothing more is written.
//! But threads have chunks, and some wait for room. So the session ends as any other does: it is
//! closed, and the same rounds collect what there is in order to count it.

use std::{io, panic, sync::Arc, time::Duration};

use crate::{
    flusher::{Flusher, LAST_PATIENCE, LITTLE_PATIENCE},
    shared::error::Error,
    sink::{Batch, Sink, StreamEnd, WriteError},
    sync::thread,
};

/// How long a flusher that stays with a stuck thread sleeps: the first time, and at most.
const STUCK_SLEEPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(1)];

impl Flusher {
    /// Does the last rounds and ends the stream. Returns the error, if any, that keeps the stream
    /// from being complete.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.close();
        for _ in 0..2 {
            let _ = self.round(true, LAST_PATIENCE);
        }
        // Rows at or after this `T` come from a clock that went back. Make the third `T` later than
        // they are.
        let latest = self.sources.iter().filter_map(|source| source.segments.back());
        let latest = latest.map(|segment| segment.last_ts).max();
        self.timeline.put_off(latest.unwrap_or(0));
        let complete = self.round(true, LAST_PATIENCE);
        if !complete {
            // A thread is stuck in an event, so there was no sequence point. Tell the threads'
            // numbers nevertheless.
            self.leave_stuck();
            self.tell_last_numbers();
        }
        self.end_stream();
        if self.out.len() > 0 {
            self.write_out();
        }
        let ended = self.sink.finish();
        if let (None, Err(error)) = (&self.failed, &ended) {
            self.session.sink.failed(error);
        }
        if self.sink.is_torn() {
            self.session.take_back(self.last_rows);
        }
        debug_assert!(!complete || self.session.pool.is_unused(), "every chunk has come home");
        self.close_books(complete);
        match (self.trouble().or_else(|| self.untold()), ended) {
            (Some(error), _) => Err(error),
            (None, ended) => ended.map_err(Error::Sink),
        }
    }

    /// Ends a session that nobody has finished when the process exits.
    pub(super) fn finish_at_exit(&mut self) -> Result<(), Error> {
        self.stop_listening();
        self.finish()
    }

    /// Has no type of event say any more that this session listens.
    fn stop_listening(&self) {
        if let Some(slot) = &self.slot {
            slot.stop_listening();
        }
    }

    /// Ends a session whose sink panicked, so that threads with a buffer, and threads that wait,
    /// learn of its end.
    pub(super) fn abandon(&mut self) {
        self.failed = Some(Error::FlusherDied);
        self.stop_listening();
        self.close();
        let mut complete = false;
        for _ in 0..3 {
            (_, complete) = self.collect(LAST_PATIENCE);
            self.give_up();
            self.write_out();
        }
        self.close_books(complete);
        self.asked = None;
    }

    fn close(&mut self) {
        self.is_closing = true;
        self.session.close();
    }

    /// Makes final the counts of the threads that the last round did not wait for.
    fn leave_stuck(&mut self) {
        let session = Arc::clone(&self.session);
        session.with_roster(|roster| {
            for source in self.sources.iter_mut().filter(|source| source.settled.is_none()) {
                source.left_at = Some(roster.leave(&source.buffer));
            }
        });
    }

    /// Makes the counts final. `complete` says whether the last round has collected everything.
    fn close_books(&mut self, complete: bool) {
        // If the trace is complete, this is the number that it shows.
        let unplaced = if self.writes() { self.unplaced.told } else { self.session.unplaced() };
        self.session.close_books(unplaced);
        self.slot = None;
        if complete {
            self.free();
        }
    }

    fn free(&mut self) {
        self.session.pool.free();
        if let Some(file) = &self.session.persistent {
            // What it could tell is in the trace, or counted.
            file.end();
        }
        self.is_freed = true;
    }

    /// Drops the sink. Returns `true` if a thread is stuck: call [`stay`](Self::stay) then.
    pub(super) fn leave_sink(&mut self) -> bool {
        let sink = std::mem::replace(&mut self.sink, Box::new(NoSink));
        // Its destructor is foreign code as well.
        let _ = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(sink)));
        !self.is_freed
    }

    /// Waits until no thread is stuck in the middle of an event, and then frees the memory.
    pub(super) fn stay(mut self) {
        let [mut sleep, longest] = STUCK_SLEEPS;
        while !self.is_freed {
            thread::sleep(sleep);
            sleep = (sleep * 2).min(longest);
            let (_, complete) = self.collect(LITTLE_PATIENCE);
            self.give_up();
            if complete {
                self.free();
            }
        }
    }
}

/// Takes the place of a sink that was dropped.
#[derive(Debug)]
struct NoSink;

impl Sink for NoSink {
    fn start(&mut self, _: &[u8], _: StreamEnd) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn write(&mut self, _: &Batch<'_>) -> Result<(), WriteError> {
        Err(WriteError::new(io::ErrorKind::BrokenPipe.into(), 0))
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
