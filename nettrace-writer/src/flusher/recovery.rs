//! The flusher after a failure of the sink.
//!
//! After a [final](crate::sink::Sink) error nothing more is written. After any other error the
//! flusher waits for a flush interval and then tries again. A flush that somebody asks for tries at
//! once. Meanwhile rounds go on: what they collect counts as lost, and its memory becomes free. So
//! a sink that fails costs one call in each interval, however many events come.
//!
//! What a failed write kept stays in the stream. The trace [goes back](super::trace) to the end of
//! that part. The stream's threads then owe what was lost, and the next row or sequence point shows
//! it as a gap. The first round that tries again ends with a sequence point (if it has collected
//! everything), so that the gap is told even if no other event comes.
//!
//! If the sink could not begin a stream there is none. The flusher does not go back to the old
//! stream, which may have no room. Threads count from what the old stream shows, and the next
//! stream tells the rest.
//!
//! *Threads that end meanwhile* must not pile up. If readers know a thread, it is kept until the
//! stream has removed it; there are no more of these than there were when the sink failed. One
//! thread that stands for all the others tells what they owe.

use std::mem;

use crate::{
    flusher::{Flusher, round::StreamState, segment::Segment, source::Leaving, trace::Trace},
    protocol::clock::Stopwatch,
    shared::{error::Error, persistent::UnattributedCounter},
    sink::failure::{Failure, is_final},
    sync::Ordering,
};

/// A failure of the sink that may pass.
#[derive(Debug)]
pub(super) struct Trouble {
    failure: Failure,
    /// When the sink failed.
    failed: Stopwatch,
    /// Whether nothing is written now: until a flush interval has passed since then.
    waits: bool,
}

impl Flusher {
    /// Whether what is made now goes to the sink.
    pub(super) fn writes(&self) -> bool {
        self.failed.is_none() && !self.waits() && !matches!(self.stream, StreamState::Absent)
    }

    /// Whether the flusher still waits before its next try.
    pub(super) fn waits(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.waits)
    }

    /// Tries again, if it is time or if somebody waits for it. Returns whether this round is such a
    /// try.
    pub(super) fn try_again(&mut self, is_asked: bool) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let Some(trouble) = &mut self.trouble else { return false };
        if !is_asked && trouble.failed.elapsed() < self.schedule.flush_interval {
            return false;
        }
        trouble.waits = false;
        if matches!(self.stream, StreamState::Absent) {
            self.open_stream(self.last_ts);
        }
        self.writes()
    }

    /// Calls the sink even if a try has nothing to write, so that it can complete what it has.
    pub(super) fn finish_try(&mut self) {
        if self.writes() && self.trouble.is_some() {
            self.hand_over();
        }
    }

    /// Hands the batch to the sink.
    pub(super) fn write_out(&mut self) {
        if self.writes() && self.out.len() == 0 && !self.sink.holds_back() {
            // Nothing is left to write, so nothing will have to be taken back.
            self.settle();
        } else {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.since_point += self.out.len();
        self.round_bytes += self.out.len();
        let sink = self.writes().then_some(&mut self.sink);
        let is_handed_over = sink.is_some();
        let written = self.out.write(sink, &self.session.pool);
        if is_handed_over && written.error.is_none() {
            // Before the chunks are free, so that none of their events is lost if the process is
            // killed here.
            self.note_done();
        }
        self.out.give_back(&self.session.pool);
        self.session.add_written(written.rows, written.lost, written.bytes);
        self.stream_len += written.bytes;
        if written.blocks > 0 {
            self.last_rows = written.last_rows;
        }
        match written.error {
            None if is_handed_over => {
                self.settle();
                self.trouble = None;
            }
            None => {}
            Some(error) => {
                self.keep_blocks(written.blocks);
                self.sink_failed(error);
            }
        }
        *self.session.sink.left_out.lock() = self.trace.left_out();
        self.session.room_made();
    }

    /// Notes that everything that was made has reached the sink.
    fn settle(&mut self) {
        self.trace.settle();
        self.leaving.retain(|leaving| leaving.trace.is_declared());
    }

    /// Notes in a recorder file what the sink has, if it has no file that says so.
    fn note_done(&mut self) {
        let is_apart = self.sink.takes_rows_apart();
        let has_no_file = |_: &&_| is_apart || self.sink.file().is_none();
        let Some(file) = self.session.persistent.as_ref().filter(has_no_file) else { return };
        let held_back = |thread| if is_apart { self.sink.held_back(thread) } else { 0 };
        let sources = self.sources.iter().map(|source| &source.trace);
        let leaving = self.leaving.iter().map(|leaving| &leaving.trace);
        // Others are forgotten as soon as this is noted.
        let leaving = leaving.filter(|trace| trace.is_declared());
        let mut rest = held_back(None);
        for thread in sources.chain(leaving).chain([&self.unplaced]) {
            if let Some(slot) = thread.slot {
                let held_back = held_back(Some(thread.index()));
                rest = rest.saturating_sub(held_back);
                file.set_done(slot, thread.shown().saturating_sub(held_back));
            }
        }
        // What is held back of threads that have ended counts as theirs that were forgotten.
        let extra = self.forgotten_extra.max(rest);
        file.set_attempted(UnattributedCounter::Forgotten, self.forgotten.told + extra);
        if let Some(slot) = self.forgotten.slot {
            file.set_done(slot, (self.forgotten.shown() + extra).saturating_sub(rest));
        }
        self.forgotten_extra = extra;
    }

    /// Goes back to the end of the blocks that the sink kept of the last batch.
    fn keep_blocks(&mut self, blocks: usize) {
        let sources = self.sources.iter_mut().map(|source| &mut source.trace);
        let leaving = self.leaving.iter_mut().map(|leaving| &mut leaving.trace);
        let threads = sources.chain(leaving).chain([&mut self.unplaced, &mut self.forgotten]);
        let points = self.trace.keep_blocks(blocks, threads);
        self.session.sink.sequence_points.fetch_sub(points, Ordering::Relaxed);
        self.stream = match self.stream {
            _ if self.stream_len == 0 => StreamState::Empty,
            // The block that closed the stream may be lost.
            StreamState::Closed if points > 0 => StreamState::Open,
            state => state,
        };
        self.dirty = true;
        // Threads that readers know are removed again, with their present state.
        for leaving in mem::take(&mut self.leaving) {
            self.part_from(leaving);
        }
    }

    /// Keeps a thread that ended until it is removed from the stream, by this batch or by a later
    /// one. If readers do not know it, only what it owes is kept.
    pub(super) fn part_from(&mut self, leaving: Leaving) {
        let is_told = !leaving.trace.owes();
        if leaving.trace.is_declared() || is_told && self.writes() {
            self.leaving.push(leaving);
        } else {
            self.forget(leaving);
            self.dirty |= self.forgotten.owes();
        }
    }

    /// Keeps only what a thread owes that ended.
    pub(super) fn forget(&mut self, leaving: Leaving) {
        self.forgotten.told += leaving.trace.owed();
        if let Some(file) = &self.session.persistent {
            file.set_attempted(
                UnattributedCounter::Forgotten,
                self.forgotten.told + self.forgotten_extra,
            );
        }
        // Only now, so that a recorder file always has the losses.
        drop(leaving.buffer);
    }

    /// Counts a segment as lost.
    pub(super) fn lose_segment(&mut self, at: usize, segment: &Segment) {
        let pool = &self.session.pool;
        Trace::lose(&mut self.sources[at].trace, segment, pool);
        if segment.is_last {
            pool.give(segment.chunk);
        }
        self.session.add_written(0, segment.rows, 0);
        self.round_bytes += (segment.end - segment.start) as u64;
        self.dirty = true;
    }

    /// Notes an error of the sink.
    pub(super) fn sink_failed(&mut self, error: std::io::Error) {
        self.session.sink.failed(&error);
        if is_final(&error) {
            self.trouble = None;
            self.fail(Error::Sink(error));
            return;
        }
        let (failure, failed) = (Failure::of(&error), Stopwatch::start());
        self.last_failure = Some(failure.clone());
        self.trouble = Some(Trouble { failure, failed, waits: true });
        let is_begun = matches!(self.stream, StreamState::Empty | StreamState::Open);
        if is_begun && self.sink.wants_restart() {
            // The next stream can tell the losses even if no row comes.
            self.stream = StreamState::Closed;
        }
    }

    /// The last failure of the sink, if no stream could tell what was lost.
    pub(super) fn untold(&self) -> Option<Error> {
        let failure = self.last_failure.as_ref()?;
        (self.trace.untold_losses() > 0).then(|| Error::Sink(failure.error()))
    }

    /// The error, if any, that keeps the sink from having received everything.
    pub(super) fn trouble(&self) -> Option<Error> {
        match (&self.failed, &self.trouble) {
            (Some(Error::Sink(error)), _) => Some(Error::Sink(Failure::of(error).error())),
            (Some(Error::Format(error)), _) => Some(Error::Format(*error)),
            (Some(_), _) => Some(Error::FlusherDied),
            (None, Some(trouble)) => Some(Error::Sink(trouble.failure.error())),
            (None, None) => None,
        }
    }
}
