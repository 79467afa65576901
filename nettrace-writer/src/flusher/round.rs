//! The writes of a round, and their stream.
//!
//! # Streams
//!
//! A sink may bound the size of its streams ([`Sink::room`](crate::sink::Sink::room)). So the
//! flusher writes in *units*, and never divides a unit between two streams. A unit is a segment
//! with the definitions that it needs, the declaration of a thread that has losses to tell, or a
//! sequence point. The flusher first makes a unit. If the unit does not fit, the flusher takes it
//! back, ends the stream and makes the unit again in a new stream, where it needs other
//! definitions. Other threads are not involved, so a new stream can begin at any unit, even while a
//! thread is stuck.
//!
//! *What closes a stream always fits.* After each unit there must be room for a sequence point that
//! names all threads so far, and for their removal. If a sequence point would use this room up, it
//! is the stream's last block.
//!
//! *Losses are told once.* The sequence numbers of a stream continue after the last number that an
//! earlier stream shows ([`TraceThread::owes`]). If a stream ends before it shows a loss, the loss
//! is a gap in the next stream that has a row of the thread or a sequence point. A
//! [stage](nettrace_format::Stage) tells in its own way what its format cannot show so, at the
//! latest when the stream [ends](Flusher::end_stream).
//!
//! *A stream begins with rows or losses*, not with definitions: while nothing happens no stream
//! begins. The age of a stream matters only to rows. So a loss alone begins a stream only if it
//! does not fit into the old one.
//!
//! *A stream's clock begins before its rows.* A thread's rows in hand are no older than the first
//! of them. Its later rows are no older than the `T` of the last round that had all of its rows.
//! The oldest of these times, over all threads, bounds the stream's sync point. If the next row is
//! that old, it carries IsSorted.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use nettrace_format::{FormatError, LeftOut};

use crate::{
    flusher::{
        Flusher, output,
        segment::Segment,
        source::{Leaving, Source},
        trace::{self, Named, Told, Trace, TraceThread},
    },
    protocol::clock::Stopwatch,
    shared::{error::Error, persistent::UnattributedCounter},
    sync::{Ordering, thread},
};

/// For how long after its start a round lets other threads have its processor.
const GIVES_WAY_FOR: Duration = Duration::from_millis(10);

/// The stream that is open in the sink.
#[derive(Clone, Copy, Debug)]
pub(super) enum StreamState {
    /// The sink could not open one.
    Absent,
    /// The stream has only its header.
    Empty,
    Open,
    /// The stream's last block is made.
    Closed,
}

impl StreamState {
    fn is_empty(self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// The state before a unit, to return to if the unit is taken back.
#[derive(Debug)]
struct Before {
    out: output::Mark,
    trace: trace::Mark,
    left_out: LeftOut,
}

/// A thread that the trace knows.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// A thread of the session, by the position of its source.
    Source(usize),
    /// A thread that ended before, by its position.
    Leaving(usize),
    /// The one that stands for events without a thread.
    Unplaced,
    /// The one that stands for threads that readers do not know.
    Forgotten,
}

impl Flusher {
    pub(super) fn write_round(
        &mut self,
        ts: u64,
        complete: bool,
        point: bool,
    ) -> Result<(), FormatError> {
        let session = Arc::clone(&self.session);
        let pool = &session.pool;
        // The thread with the oldest row comes first.
        let mut order: Vec<(u64, usize)> = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(at, source)| Some((source.segments.front()?.first_ts(pool), at)))
            .collect();
        order.sort_unstable();
        let cut = if point && !crate::mutant::takes_out("no_cut") { ts } else { u64::MAX };
        let mut sorted = complete && order.first().is_some_and(|&(first_ts, _)| first_ts < ts);
        for (_, at) in order {
            while let Some(segment) = self.sources[at].segments.pop_front() {
                let (now, later) = segment.split(pool, cut);
                let has_later = later.is_some();
                // Put it back before anything can fail, so that the rest of the chunk is not lost.
                if let Some(later) = later {
                    self.sources[at].segments.push_front(later);
                }
                if let Some(now) = now {
                    self.write_segment(at, now, sorted, complete)?;
                    sorted = false;
                    self.give_way();
                }
                if has_later {
                    break;
                }
                if self.out.is_full() {
                    self.write_out();
                }
            }
        }
        self.count_numbers();
        if point {
            if self.trace.has_stage() {
                // Readers of versions 4 and 5 remember some thousand threads. The stage keeps to
                // that for those that have ended, but names whom it is told.
                self.remove_ended()?;
            }
            self.write_point(ts)?;
            self.last_point = Stopwatch::start();
        }
        self.remove_ended()
    }

    /// Lets a thread run that waits for this processor, in a round that is young and has time.
    ///
    /// A round can take milliseconds. An application whose threads use all processors would see
    /// that as latency: with this, the 99th percentile of the example service at 4,000 requests a
    /// second is 1.06 times that without a session, and 1.14 times without this. It is bounded,
    /// because each time can take as long as all threads that wait. Rejected: a lower priority for
    /// the thread. It would hold when memory runs low as well.
    fn give_way(&self) {
        if !self.session.is_low() && self.last_round.elapsed() < GIVES_WAY_FOR {
            thread::yield_now();
        }
    }

    /// Writes a segment as one block, or as several if one does not fit into a stream. `sorted`
    /// says that nothing older than its first row is still to be written. `complete` says that
    /// everything older than `T` is in hand. That decides whether the same holds for the first row
    /// of a new stream.
    fn write_segment(
        &mut self,
        at: usize,
        mut segment: Segment,
        mut sorted: bool,
        complete: bool,
    ) -> Result<(), FormatError> {
        let session = Arc::clone(&self.session);
        let pool = &session.pool;
        let mut most_rows = segment.rows;
        loop {
            if !self.writes() {
                self.lose_segment(at, &segment);
                return Ok(());
            }
            let (now, later) = segment.split_at(pool, most_rows);
            let leave = match self.stream {
                StreamState::Absent | StreamState::Empty => false,
                StreamState::Open => self.sink.wants_restart(),
                StreamState::Closed => true,
            };
            if leave {
                sorted = self.begin_stream_for(&now, complete);
                if !self.writes() {
                    continue;
                }
            }
            let before = self.before();
            let (told, defined) = match self.put_segment(at, &now, sorted) {
                Ok(told) => told,
                Err(error) => {
                    if let Some(later) = later {
                        self.sources[at].segments.push_front(later);
                    }
                    return Err(error);
                }
            };
            // Fewer rows do not help an empty stream if there is only one row, or if the
            // definitions alone do not fit.
            let is_least = self.stream.is_empty() && (now.rows <= 1 || !self.has_room(defined));
            if self.has_room(self.out.len()) || is_least {
                session.sink.refused.fetch_add(told.refused, Ordering::Relaxed);
                Trace::keep(&mut self.sources[at].trace, &now, &told, pool);
                self.dirty = true;
                self.stream = StreamState::Open;
                sorted = false;
                match later {
                    Some(later) => segment = later,
                    None => return Ok(()),
                }
                continue;
            }
            self.take_back(&before);
            if self.stream.is_empty() {
                most_rows = now.rows / 2;
            } else {
                sorted = self.begin_stream_for(&now, complete);
            }
        }
    }

    /// Makes the blocks of a segment. Returns the result for its rows, and the length of the batch
    /// before them.
    fn put_segment(
        &mut self,
        at: usize,
        segment: &Segment,
        sorted: bool,
    ) -> Result<(Told, u64), FormatError> {
        let Self { session, trace, sources, out, .. } = self;
        let source = &mut sources[at];
        if segment.is_last {
            out.finish_chunk(segment.chunk);
        }
        trace.metadata(session, out)?;
        trace.declare(&mut source.trace, Named::Thread(&source.buffer.thread), out)?;
        let defined = out.len();
        let told = trace.events(&mut source.trace, segment, sorted, &session.pool, out)?;
        Ok((told, defined))
    }

    /// Whether the stream has room for a batch of that length, and for the blocks that may have to
    /// close the stream after it.
    fn has_room(&self, len: u64) -> bool {
        len.saturating_add(self.trace.closing_size()) <= self.sink.room()
    }

    /// Notes the state that [`take_back`](Self::take_back) returns to.
    fn before(&mut self) -> Before {
        let left_out = self.trace.left_out();
        Before { out: self.out.mark(), trace: self.trace.mark(), left_out }
    }

    /// Takes back what was made since `before`.
    fn take_back(&mut self, before: &Before) {
        self.out.take_back(&before.out);
        let sources = self.sources.iter_mut().map(|source| &mut source.trace);
        let leaving = self.leaving.iter_mut().map(|leaving| &mut leaving.trace);
        let threads = sources.chain(leaving).chain([&mut self.unplaced, &mut self.forgotten]);
        self.trace.rewind(&before.trace, threads);
        // The rows are made again, and those that the format cannot hold are counted again.
        self.trace.set_left_out(before.left_out);
    }

    /// Begins a new stream for a segment that is in none yet. Returns whether nothing older than
    /// its first row is still to be written.
    fn begin_stream_for(&mut self, segment: &Segment, complete: bool) -> bool {
        let first_ts = segment.first_ts(&self.session.pool);
        let oldest = self.begin_stream(first_ts);
        complete && first_ts <= oldest && first_ts < self.last_ts
    }

    /// Writes what was made for the old stream, and begins a new one. The new stream begins with
    /// something of the time `next`. Returns a bound: nothing in the new stream will be older.
    fn begin_stream(&mut self, next: u64) -> u64 {
        self.end_stream();
        self.write_out();
        self.stream = StreamState::Absent;
        for leaving in mem::take(&mut self.leaving) {
            self.forget(leaving);
        }
        let sources = self.sources.iter_mut().map(|source| &mut source.trace);
        self.dirty = false;
        for thread in sources.chain([&mut self.unplaced, &mut self.forgotten]) {
            self.trace.restart_thread(thread);
            self.dirty |= thread.owes();
            if let (Some(file), Some(slot)) = (&self.session.persistent, thread.slot) {
                file.set_base(slot, self.trace.next_number(), thread.shown());
            }
        }
        self.since_point = 0;
        self.open_stream(next)
    }

    /// Has a stage tell what is untold. Not after a failure of the sink: that stream may be broken,
    /// and the next one tells it.
    pub(super) fn end_stream(&mut self) {
        if self.writes() && self.trouble.is_none() && !self.stream.is_empty() {
            if let Err(error) = self.trace.end_stream(&mut self.out) {
                self.fail(error.into());
            }
        }
    }

    /// Opens a stream that begins with something of the time `next`. Returns a bound: nothing in
    /// the stream will be older.
    pub(super) fn open_stream(&mut self, next: u64) -> u64 {
        let pool = &self.session.pool;
        let in_hand = self.sources.iter().map(|source| source.oldest(pool));
        let oldest = in_hand.fold(self.last_ts.min(next), u64::min);
        // Writing what was made for the old stream may have failed.
        if self.failed.is_none() && !self.waits() {
            let left_out = self.trace.left_out();
            self.timeline.measure_pace();
            match self.start_stream(oldest) {
                Ok(()) => {
                    (self.stream, self.stream_len) = (StreamState::Empty, 0);
                    self.trouble = None;
                }
                Err(error) => {
                    self.trace.set_left_out(left_out);
                    match error {
                        Error::Sink(error) => self.sink_failed(error),
                        error => self.fail(error),
                    }
                }
            }
        }
        oldest
    }

    /// Updates which numbers are accounted for.
    fn count_numbers(&mut self) {
        for source in &mut self.sources {
            let told = match (source.segments.front(), source.settled) {
                // The numbers in hand are told when they are written; those dropped before them are
                // told now.
                (Some(next), _) => next.number - 1,
                (None, Some(settled)) => {
                    let left = self.is_closing && source.buffer.record.is_left_waiting();
                    (settled + u64::from(left)).max(source.trace.told)
                }
                (None, None) => source.left_at.unwrap_or(0).max(source.trace.told),
            };
            source.trace.told = told;
            self.dirty |= source.trace.owes();
        }
    }

    /// Writes a sequence point at `ts`, if anything has happened since the last one. Everything
    /// older must be written. The point tells what was lost.
    fn write_point(&mut self, ts: u64) -> Result<(), FormatError> {
        let unplaced = self.session.unplaced();
        self.unplaced.told = self.unplaced.told.max(unplaced);
        self.dirty |= self.unplaced.owes();
        while self.dirty && self.writes() {
            let is_all = self.declare_who_owes()?;
            if !matches!(self.stream, StreamState::Closed) {
                let threads = self.sources.iter_mut().map(|source| &mut source.trace);
                let threads = threads.chain([&mut self.unplaced, &mut self.forgotten]);
                self.trace.sequence_point(ts, threads, &mut self.out)?;
                self.session.sink.sequence_points.fetch_add(1, Ordering::Relaxed);
                self.since_point = 0;
                let is_last = !self.has_room(self.out.len());
                self.stream = if is_last { StreamState::Closed } else { StreamState::Open };
            }
            self.dirty = !is_all;
            if !is_all {
                self.begin_stream(ts);
            }
        }
        Ok(())
    }

    /// Declares the threads that a sequence point must name because they have lost events. Returns
    /// `false` if the stream has no room for all of them.
    fn declare_who_owes(&mut self) -> Result<bool, FormatError> {
        let sources = (0..self.sources.len()).map(Who::Source);
        for who in sources.chain([Who::Unplaced, Who::Forgotten]) {
            if self.thread(who).owes() && !self.declare(who)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Declares a thread, unless it is declared. Returns `false` if the stream has no room for it.
    /// An empty stream always declares it.
    fn declare(&mut self, who: Who) -> Result<bool, FormatError> {
        if matches!(self.stream, StreamState::Closed) {
            return Ok(false);
        }
        if self.thread(who).is_declared() {
            return Ok(true);
        }
        let before = self.before();
        let (thread, named) = match who {
            Who::Source(at) => {
                let Source { buffer, trace, .. } = &mut self.sources[at];
                (trace, Named::Thread(&buffer.thread))
            }
            Who::Leaving(at) => {
                let Leaving { trace, buffer } = &mut self.leaving[at];
                (trace, Named::Thread(&buffer.thread))
            }
            Who::Unplaced => {
                (&mut self.unplaced, Named::Nobody(UnattributedCounter::Unplaced.name()))
            }
            Who::Forgotten => {
                (&mut self.forgotten, Named::Nobody(UnattributedCounter::Forgotten.name()))
            }
        };
        self.trace.declare(thread, named, &mut self.out)?;
        if !self.stream.is_empty() && !self.has_room(self.out.len()) {
            self.take_back(&before);
            return Ok(false);
        }
        self.stream = StreamState::Open;
        Ok(true)
    }

    fn thread(&self, who: Who) -> &TraceThread {
        match who {
            Who::Source(at) => &self.sources[at].trace,
            Who::Leaving(at) => &self.leaving[at].trace,
            Who::Unplaced => &self.unplaced,
            Who::Forgotten => &self.forgotten,
        }
    }

    /// Removes threads that ended from the stream.
    fn remove_ended(&mut self) -> Result<(), FormatError> {
        let mut removed = self.remove_leaving();
        let ended: Vec<_> =
            (0..self.sources.len()).filter(|&at| self.sources[at].is_done()).collect();
        if ended.is_empty() {
            return removed;
        }
        for at in ended {
            removed = removed.and_then(|()| self.remove(Who::Source(at)));
        }
        let (ended, others) = mem::take(&mut self.sources).into_iter().partition(Source::is_done);
        self.sources = others;
        self.retire(ended);
        removed
    }

    /// Releases threads that ended. Their removal is in the stream, if that was possible.
    fn retire(&mut self, ended: Vec<Source>) {
        let mut gone = HashSet::new();
        let session = Arc::clone(&self.session);
        session.with_roster(|roster| {
            for Source { buffer, trace, .. } in ended {
                roster.retire(&buffer);
                gone.insert(buffer.as_ptr());
                self.part_from(Leaving { trace, buffer });
            }
            roster.live.retain(|live| !gone.contains(&live.as_ptr()));
        });
        session.buffers_gone(gone.len());
    }

    /// Removes from the stream the threads that could not be removed when they ended, and those
    /// whose removal did not reach the sink.
    fn remove_leaving(&mut self) -> Result<(), FormatError> {
        let mut at = 0;
        while at < self.leaving.len() {
            if self.leaving[at].trace.is_declared() {
                self.remove(Who::Leaving(at))?;
            }
            at += 1;
        }
        Ok(())
    }

    /// Removes a thread from the stream, with its last number. All its rows must be written.
    fn remove(&mut self, who: Who) -> Result<(), FormatError> {
        if !self.writes() {
            return Ok(());
        }
        if self.thread(who).owes() {
            if !self.declare(who)? {
                self.begin_stream(self.last_ts);
                if matches!(who, Who::Leaving(_)) || !self.writes() {
                    return Ok(()); // its losses are told with those of other threads
                }
                self.declare(who)?;
            }
        } else if matches!(self.stream, StreamState::Closed) {
            return Ok(());
        }
        let thread = match who {
            Who::Source(at) => &mut self.sources[at].trace,
            Who::Leaving(at) => &mut self.leaving[at].trace,
            Who::Unplaced => &mut self.unplaced,
            Who::Forgotten => &mut self.forgotten,
        };
        self.trace.remove_thread(thread, &mut self.out)
    }

    /// Removes every thread, so that its last number is in the trace. Those whose rows are all
    /// written are released as well.
    pub(super) fn tell_last_numbers(&mut self) {
        for source in &mut self.sources {
            if source.settled.is_some() && source.segments.is_empty() {
                source.ended = true;
            }
        }
        let told = self.write_last_numbers();
        if let Err(error) = told {
            self.fail(error.into());
        }
        self.write_out();
    }

    fn write_last_numbers(&mut self) -> Result<(), FormatError> {
        self.count_numbers();
        self.remove_ended()?;
        for at in 0..self.sources.len() {
            if self.sources[at].left_at.is_some() {
                self.remove(Who::Source(at))?;
            }
        }
        self.unplaced.told = self.unplaced.told.max(self.session.unplaced());
        self.remove(Who::Unplaced)?;
        self.remove(Who::Forgotten)
    }
}
