//! The state that the threads of a session, its flusher and its handle share.

mod sink_counters;

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use nettrace_event::{EventType, Level};
use nettrace_format::{Format, FormatError};

use self::sink_counters::SinkCounters;
use crate::{
    process::thread::ThreadRef,
    protocol::{
        barrier::Barrier,
        clock::{Deadline, Source},
        idle::Idle,
        pool::Pool,
        record::{Drops, Floor, MODE_FENCE, MODE_MONOTONIC, Record},
    },
    shared::{
        buffer::{BufferRef, ThreadBuffer},
        channel::{Refused, Sender},
        error::Error,
        filter::ProviderFilter,
        known_types::KnownType,
        locks::{holding_locks, with_locks},
        on_full::OnFull,
        persistent::{Persistent, UnattributedCounter},
        slot_counters::{SampledOutCounts, UNPLACED},
        stats::{SampledOut, Stats},
    },
    sink::ring::Ring,
    sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering, thread},
};

/// Time to wait for threads in the middle of events, for exact counts, when a session is left to a
/// flusher that is held up.
const LEAVE_PATIENCE: Duration = Duration::from_millis(100);

/// A request to the flusher.
#[derive(Debug)]
pub(crate) enum Command {
    /// Begin a round soon, because memory runs low.
    Wake,
    /// Do a round that ends with a sequence point, and answer when the sink has it.
    Flush(Sender<Option<Error>>),
    /// The process exits: do such a round, and end a stream of which the sink holds something back.
    /// Answer when the sink has it.
    Exit(Sender<()>),
    /// Do the last round.
    Finish,
}

/// The state that the threads of a session, its flusher and its handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) slot: u32,
    pub(crate) format: Format,
    pub(crate) pool: Pool,
    pub(crate) source: Source,
    pub(crate) floor: Floor,
    pub(crate) barrier: Barrier,
    pub(crate) on_full: OnFull,
    /// The events that the session records; `None`: all. Changed under the lock of the table of
    /// [`sessions`](crate::shared::sessions) only.
    filters: Mutex<Option<Vec<ProviderFilter>>>,
    /// The types that the session's rows may have, in the order in which they came. It only grows:
    /// see [`add_known_type`](Self::add_known_type).
    known_types: Mutex<Vec<KnownType>>,
    /// The names of values to keep out that nothing in the trace has had so far.
    pub(crate) unredacted: Mutex<Vec<String>>,
    /// The number of names of values that the process kept out of its traces at the session's
    /// start.
    pub(crate) redactions: usize,
    commands: Sender<Command>,
    pub(crate) idle: Idle,
    pub(crate) roster: Mutex<Roster>,
    pub(crate) sink: SinkCounters,
    /// The file that the memory is in, if it outlives the process.
    pub(crate) persistent: Option<Arc<Persistent>>,
    /// Where the events are kept, if the session is a flight recorder and has not ended.
    pub(crate) ring: Weak<Ring>,
    /// The session takes no more events.
    pub(crate) closed: AtomicBool,
    /// A round was asked for and has not begun yet.
    wake_asked: AtomicBool,
    /// The number of buffers of ended threads that the flusher has not finished with.
    ended: AtomicU32,
    /// The number of threads that wait for room.
    waiting: AtomicU32,
    room: Mutex<()>,
    room_changed: Condvar,
}

/// Why a thread gets no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBuffer {
    /// The session is over. If the event has waited it is counted as dropped.
    Closed,
    /// The flusher still has too many buffers of ended threads. The event waits.
    Wait,
    /// As `Wait`, but the event does not wait. It is counted as dropped.
    Dropped,
}

/// The threads of a session.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// The buffers of all threads that may still emit.
    pub(crate) live: Vec<BufferRef>,
    /// Those of `live` that the flusher has not seen yet.
    pub(crate) new: Vec<BufferRef>,
    /// The counts of the threads that have gone: attempted events, and drops.
    gone: (u64, Drops),
    /// Counts of what sampling has left out on threads that have gone.
    gone_sampled_out: SampledOut,
    threads: u64,
    /// The number of events that found no buffer, because there were too many buffers of ended
    /// threads.
    without_buffer: u64,
    /// The number of events that wait for a buffer. They count as `without_buffer` when the session
    /// ends.
    waiting: u64,
    /// Set when the session's counts are final: the trace's number of events that no thread can be
    /// named for.
    unplaced: Option<u64>,
    /// Set then, too: what sampling has left out, over all threads.
    sampled_out: Option<SampledOut>,
}

impl Shared {
    pub(crate) fn new(
        slot: u32,
        format: Format,
        (pool, persistent): (Pool, Option<Arc<Persistent>>),
        source: Source,
        on_full: OnFull,
        filters: Option<Vec<ProviderFilter>>,
        commands: Sender<Command>,
    ) -> Self {
        Self {
            slot,
            format,
            pool,
            source,
            floor: Floor::new(),
            barrier: Barrier::detect(),
            on_full,
            filters: Mutex::new(filters),
            known_types: Mutex::default(),
            unredacted: Mutex::default(),
            redactions: 0,
            commands,
            idle: Idle::new(),
            roster: Mutex::new(Roster::default()),
            sink: SinkCounters::default(),
            persistent,
            ring: Weak::new(),
            closed: AtomicBool::new(false),
            wake_asked: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            room: Mutex::new(()),
            room_changed: Condvar::new(),
        }
    }

    /// Whether the session wants events of a type. Under the lock of the table of [`sessions`](crate::shared::sessions).
    pub(crate) fn wants(&self, ty: &EventType) -> bool {
        let filters = self.filters.lock();
        filters.as_ref().is_none_or(|filters| filters.iter().any(|filter| filter.matches(ty)))
    }

    /// Whether the session wants events of this provider, level and keywords.
    pub(crate) fn selects(&self, provider: &str, level: Level, keywords: u64) -> bool {
        let filters = self.filters.lock();
        let selects = |filter: &ProviderFilter| filter.selects(provider, level, keywords);
        filters.as_ref().is_none_or(|filters| filters.iter().any(selects))
    }

    /// The highest level that the session wants. `None`: it wants nothing.
    pub(crate) fn max_level(&self) -> Option<Level> {
        match &*self.filters.lock() {
            Some(filters) => filters.iter().map(ProviderFilter::max_level).max(),
            None => Some(Level::new(u8::MAX)),
        }
    }

    /// Sets the events that the session wants from now on. Under the lock of the table of
    /// [`sessions`](crate::shared::sessions).
    pub(crate) fn set_filters(&self, filters: Vec<ProviderFilter>) {
        *self.filters.lock() = Some(filters);
    }

    /// A copy of the session's filters; `None`: it records everything.
    pub(crate) fn filters(&self) -> Option<Vec<ProviderFilter>> {
        self.filters.lock().clone()
    }

    /// Makes the flusher define a type from now on. To be called before a thread can see the
    /// session's bit in the type's word.
    ///
    /// A type stays, even if a new filter does not want it any more: rows that were written under
    /// the old one may not have been collected yet.
    ///
    /// *No row comes before its type is here.* A thread records an event because it saw the bit, by
    /// an acquire that pairs with the release in
    /// [`registry::listen`](nettrace_event::registry::listen). The flusher has the row by an
    /// acquire of what that thread released. So this call happened before the flusher looks, and
    /// the lock shows it the type.
    pub(crate) fn add_known_type(&self, known: KnownType) {
        let mut all = self.known_types.lock();
        if let Some(file) = &self.persistent {
            file.add_type(known.ty.index(), known.schema);
        }
        all.push(known);
    }

    /// Calls `f` with the types that came after the first `count`, and returns their number now.
    pub(crate) fn known_types_since(&self, count: usize, f: impl FnMut(KnownType)) -> usize {
        let known = self.known_types.lock();
        known[count.min(known.len())..].iter().copied().for_each(f);
        known.len()
    }

    /// The types that the session's rows may have.
    pub(crate) fn known_types(&self) -> Vec<KnownType> {
        self.known_types.lock().clone()
    }

    /// [`describes`] for this session.
    pub(crate) fn describes(&self, ty: &EventType) -> Result<(), FormatError> {
        describes(self.format, self.ring.strong_count() > 0, ty)
    }

    /// Makes a buffer for a thread that has none. `can_wait` says whether the event can wait for
    /// one.
    ///
    /// The buffer of a thread that has ended stays until the flusher has written its rows. If a
    /// sink holds the flusher up, such buffers pile up, and they are not part of the budget. So
    /// [`most_ended`](Self::most_ended) bounds their number.
    pub(crate) fn attach(
        self: &Arc<Self>,
        thread: &ThreadRef,
        can_wait: bool,
    ) -> Result<BufferRef, NoBuffer> {
        // The flusher takes this lock after it has closed the session. So it sees this buffer and
        // these counts, or this call sees the session closed.
        let mut roster = self.roster.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(NoBuffer::Closed);
        }
        if self.has_too_many_ended() {
            if can_wait && self.on_full == OnFull::Block {
                roster.waiting += 1;
                return Err(NoBuffer::Wait);
            }
            roster.without_buffer += 1;
            if let Some(file) = &self.persistent {
                file.set_attempted(UnattributedCounter::Unplaced, self.unplaced_in(&roster));
            }
            return Err(NoBuffer::Dropped);
        }
        Ok(self.enlist(&mut roster, self.record(), thread))
    }

    /// [`attach`](Self::attach) for an event that has waited.
    pub(crate) fn attach_after_wait(
        self: &Arc<Self>,
        thread: &ThreadRef,
    ) -> Result<BufferRef, NoBuffer> {
        let mut roster = self.roster.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(NoBuffer::Closed);
        }
        if self.has_too_many_ended() {
            return Err(NoBuffer::Wait);
        }
        roster.waiting -= 1;
        // If the session ends before the event is written, the mark has the event counted.
        let record = self.record();
        record.wait_begins();
        Ok(self.enlist(&mut roster, record, thread))
    }

    /// Ends the wait of an event for a buffer. Returns `false` if the session is over: the event is
    /// counted as dropped then.
    pub(crate) fn wait_ends(&self) -> bool {
        let mut roster = self.roster.lock();
        let is_open = !self.closed.load(Ordering::Relaxed);
        roster.waiting -= u64::from(is_open);
        is_open
    }

    fn record(&self) -> Record {
        let fence = if self.barrier.owners_pay() { MODE_FENCE } else { 0 };
        let clock = if self.source.is_counter() { 0 } else { MODE_MONOTONIC };
        Record::of(1 << self.slot, fence | clock)
    }

    fn enlist(
        self: &Arc<Self>,
        roster: &mut Roster,
        record: Record,
        thread: &ThreadRef,
    ) -> BufferRef {
        let buffer = BufferRef::new(self, record, thread);
        roster.live.push(buffer.clone());
        roster.new.push(buffer.clone());
        roster.threads += 1;
        // Here, because the flusher may get no processor while threads come.
        self.pool.set_threads(roster.live.len());
        buffer
    }

    /// Counts the buffer of a thread that has ended. The flusher has it from now on.
    pub(crate) fn buffer_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes buffers of ended threads off the count: the flusher has finished with them.
    pub(crate) fn buffers_gone(&self, count: usize) {
        // Not below zero: at the end of a session the flusher also gives up buffers of threads that
        // go on.
        let _ = self.ended.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ended| {
            Some(ended.saturating_sub(count as u32))
        });
    }

    /// The largest number of buffers of ended threads. Each takes about half a kibibyte. The bound
    /// is above the number of pieces of chunks, because a thread's piece comes back a little before
    /// its buffer. So threads find no memory before they find no buffer.
    fn most_ended(&self) -> u32 {
        512 + self.pool.pieces()
    }

    fn has_too_many_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) >= self.most_ended()
    }

    /// The number of events that no thread can be named for.
    pub(crate) fn unplaced(&self) -> u64 {
        self.with_roster(|roster| self.unplaced_in(roster))
    }

    fn unplaced_in(&self, roster: &Roster) -> u64 {
        roster.without_buffer + self.interrupting()
    }

    /// The number of events from handlers that interrupted the taking of locks.
    fn interrupting(&self) -> u64 {
        UNPLACED[self.slot as usize].load(Ordering::Relaxed)
    }

    /// Asks for a round if memory runs low.
    pub(crate) fn wake_if_low(&self) {
        if self.is_low() {
            let _ = holding_locks(|| self.wake());
        }
    }

    /// Asks for a round, unless one is asked for: the inbox must keep room for other commands.
    fn wake(&self) {
        if !self.wake_asked.swap(true, Ordering::Relaxed) {
            // An event does not wait. If the flusher is at the lock, it looks at the memory by
            // itself.
            if !self.try_send(Command::Wake, Duration::ZERO) {
                self.wake_asked.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Sends a command, and waits for room in the inbox if it must. Returns `false` if the flusher
    /// has gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        self.idle.call();
        sent
    }

    /// As [`send`](Self::send), but waits for `patience` at most. Returns `false` if the inbox was
    /// full all that time.
    pub(crate) fn send_within(&self, command: Command, patience: Duration) -> bool {
        let sent = self.commands.send_timeout(command, patience);
        self.idle.call();
        sent != Err(Refused::Full)
    }

    /// Sends a command, unless the inbox is full, or its lock is held for longer than `patience`,
    /// or the flusher has gone. Returns whether it did.
    pub(crate) fn try_send(&self, command: Command, patience: Duration) -> bool {
        let sent = self.commands.try_send(command, patience).is_ok();
        self.idle.call();
        sent
    }

    /// Notes that a round begins.
    pub(crate) fn awake(&self) {
        self.wake_asked.store(false, Ordering::Relaxed);
    }

    /// Whether a quarter or more is in use: of the chunks, of the jumbo chunks, or of the buffers
    /// that ended threads may leave.
    pub(crate) fn is_low(&self) -> bool {
        self.pool.is_low() || self.has_many_ended()
    }

    /// Whether there are a quarter or more of the buffers that ended threads may leave.
    pub(crate) fn has_many_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) >= self.most_ended().div_ceil(4)
    }

    /// Closes the session: it takes no more events, and threads that wait for room stop waiting.
    /// Which events belong to the session is final after a heavy barrier that follows, and the wait
    /// for events under way.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.with_roster(|roster| {
            roster.live.iter().for_each(|buffer| buffer.record.close());
            roster.without_buffer += mem::take(&mut roster.waiting);
        });
        self.room_made();
    }

    /// Leaves the session to its flusher, which the sink holds up. Threads go on without the
    /// session. The counts include what they recorded.
    pub(crate) fn leave(&self) {
        self.close();
        // Without the barrier the counts may miss an event that is under way.
        let _ = self.barrier.heavy();
        let deadline = Deadline::after(LEAVE_PATIENCE);
        let live = self.with_roster(|roster| roster.live.clone());
        for buffer in live {
            while !buffer.record.is_idle() && !deadline.has_passed() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Makes the counts final and releases the threads' buffers. `unplaced` is the trace's number
    /// of events that no thread can be named for.
    ///
    /// What was neither written nor counted as dropped counts as lost: what the flusher had in hand
    /// when it gave up, and the rows of a thread that stayed in the middle of an event to the end.
    pub(crate) fn close_books(&self, unplaced: u64) {
        self.with_roster(|roster| {
            for buffer in mem::take(&mut roster.live) {
                roster.retire(&buffer);
            }
            roster.new = Vec::new();
            roster.unplaced = Some(unplaced);
            roster.sampled_out = Some(self.sampled_out(roster));
            let stats = self.count(roster);
            let accounted = stats.written + stats.dropped();
            self.sink.lost.fetch_add(stats.attempted.saturating_sub(accounted), Ordering::Relaxed);
            // A thread that is stuck may have counted why it dropped its event before it counted
            // the event.
            roster.gone.0 += accounted.saturating_sub(stats.attempted);
        });
    }

    /// Waits until a chunk may be free again or the session is over. The caller must not be in the
    /// middle of an event.
    pub(crate) fn wait_for_room(&self) {
        let room = self.room.lock();
        // SeqCst pairs with the flusher's load in `room_made`: the flusher sees the waiter, or the
        // waiter's next try sees the chunk. If both miss, the wait soon ends by itself.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.wake();
        if !self.closed.load(Ordering::Relaxed) {
            drop(self.room_changed.wait_for(room, Duration::from_millis(5)));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the threads that wait for room: chunks were given back.
    pub(crate) fn room_made(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            with_locks(|| drop(self.room.lock()));
            self.room_changed.notify_all();
        }
    }

    /// Adds the result of a write to the counts.
    pub(crate) fn add_written(&self, rows: u64, lost: u64, bytes: u64) {
        self.sink.written.fetch_add(rows, Ordering::Relaxed);
        self.sink.lost.fetch_add(lost, Ordering::Relaxed);
        self.sink.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts rows as lost that were counted as written.
    pub(crate) fn take_back(&self, rows: u64) {
        self.sink.written.fetch_sub(rows, Ordering::Relaxed);
        self.sink.lost.fetch_add(rows, Ordering::Relaxed);
    }

    /// The session's counts now. They are exact once it has finished.
    pub(crate) fn stats(&self) -> Stats {
        holding_locks(|| self.count(&self.roster.lock())).unwrap_or_default()
    }

    fn count(&self, roster: &Roster) -> Stats {
        let (mut attempted, mut drops) = roster.gone;
        for buffer in &roster.live {
            let (own, own_drops) = buffer.record.counts();
            attempted += own;
            drops.add(&own_drops);
        }
        let unplaced = roster.unplaced.unwrap_or_else(|| self.unplaced_in(roster));
        drops.no_room += roster.without_buffer;
        drops.reentrant += unplaced.saturating_sub(roster.without_buffer);
        let (sink_errors, last_sink_error) = *self.sink.errors.lock();
        Stats {
            sampled_out: self.sampled_out(roster),
            attempted: attempted + unplaced,
            written: self.sink.written.load(Ordering::Relaxed),
            drops,
            lost_in_sink: self.sink.lost.load(Ordering::Relaxed),
            sink_errors,
            last_sink_error,
            not_in_format: self.sink.refused.load(Ordering::Relaxed),
            left_out: *self.sink.left_out.lock(),
            bytes: self.sink.bytes.load(Ordering::Relaxed),
            flushes: self.sink.rounds.load(Ordering::Relaxed),
            sequence_points: self.sink.sequence_points.load(Ordering::Relaxed),
            threads: roster.threads,
            pays_fences: self.barrier.owners_pay(),
            memory_touched: u64::from(self.pool.touched()) * self.pool.chunk_size() as u64,
        }
    }

    fn sampled_out(&self, roster: &Roster) -> SampledOut {
        roster.sampled_out.unwrap_or_else(|| {
            let mut all = roster.gone_sampled_out;
            all.add(SampledOutCounts::of(self.slot).get());
            roster.live.iter().for_each(|buffer| all.add(buffer.record.sampled_out().into()));
            all
        })
    }

    /// Calls `f` with the roster. The thread must hold no lock of this crate.
    pub(crate) fn with_roster<R>(&self, f: impl FnOnce(&mut Roster) -> R) -> R {
        with_locks(|| f(&mut self.roster.lock()))
    }
}

/// Whether a session can describe a type: its format can, and so can version 6 if the session is a
/// flight recorder, which keeps that.
pub(crate) fn describes(
    format: Format,
    is_recorder: bool,
    ty: &EventType,
) -> Result<(), FormatError> {
    if is_recorder {
        Format::V6.check(ty.schema())?;
    }
    format.check(ty.schema())
}

impl Roster {
    /// Adds the counts of a thread whose buffer is released. Returns how many events it attempted.
    pub(crate) fn retire(&mut self, buffer: &ThreadBuffer) -> u64 {
        let (attempted, drops) = buffer.record.counts();
        self.gone.0 += attempted;
        self.gone.1.add(&drops);
        self.gone_sampled_out.add(buffer.record.sampled_out().into());
        attempted
    }

    /// Takes the present counts of a thread that is in the middle of an event as its final ones.
    /// Returns its last number.
    pub(crate) fn leave(&mut self, buffer: &BufferRef) -> u64 {
        self.live.retain(|live| live.as_ptr() != buffer.as_ptr());
        self.retire(buffer)
    }
}
