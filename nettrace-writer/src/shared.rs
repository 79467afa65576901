//! What the threads of a session, its flusher and its handle share.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::Sender;
use nettrace_format::{Format, FormatError, LeftOut, Stream};
use trace_event::EventType;

use crate::{
    barrier::Barrier,
    clock::Source,
    config::{OnFull, ProviderFilter},
    local::{self, ThreadBuffer},
    pool::Pool,
    record::{Drops, Floor, Record},
    sessions,
    stats::Stats,
    sync::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering},
    thread::ThreadRef,
};

/// [`Record`]'s mode bit: producers pay a fence.
pub(crate) const MODE_FENCE: u32 = 1;
/// [`Record`]'s mode bit: the monotonic clock.
pub(crate) const MODE_MONOTONIC: u32 = 2;

/// What a thread asks of the flusher.
#[derive(Debug)]
pub(crate) enum Command {
    /// A round soon: memory runs low.
    Wake,
    /// A round that ends with a sequence point; answer when the sink has it.
    Flush(Sender<()>),
    /// The last round.
    Finish,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) slot: u32,
    pub(crate) format: Format,
    pub(crate) pool: Pool,
    pub(crate) source: Source,
    pub(crate) floor: Floor,
    pub(crate) barrier: Barrier,
    pub(crate) on_full: OnFull,
    pub(crate) providers: Vec<ProviderFilter>,
    /// Types that earlier sessions in the slot listened to.
    heard: Vec<u32>,
    pub(crate) commands: Sender<Command>,
    pub(crate) roster: Mutex<Roster>,
    pub(crate) sink: SinkCounters,
    /// The session takes no more events.
    pub(crate) closed: AtomicBool,
    /// A round was asked for and has not begun.
    wake_asked: AtomicBool,
    /// Buffers whose threads have ended and that the flusher has not done with.
    ended: AtomicU32,
    /// Events of threads that got no buffer, since there were too many of those.
    without_buffer: AtomicU64,
    /// Threads that wait for room.
    waiting: AtomicU32,
    room: Mutex<()>,
    room_changed: Condvar,
}

/// Why a thread gets no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBuffer {
    /// The session is over.
    Closed,
    /// Too many buffers of threads that ended are still to be written.
    TooMany,
}

/// The threads of a session.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// All that may still emit.
    pub(crate) live: Vec<Arc<ThreadBuffer>>,
    /// Those of them that the flusher has not met.
    pub(crate) new: Vec<Arc<ThreadBuffer>>,
    /// What those that have gone attempted and dropped.
    pub(crate) gone: (u64, Drops),
    pub(crate) threads: u64,
}

/// What the flusher counts.
#[derive(Debug, Default)]
pub(crate) struct SinkCounters {
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Rows that the format cannot hold.
    pub(crate) refused: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) sequence_points: AtomicU64,
    /// What the streams did not say.
    pub(crate) left_out: Mutex<LeftOut>,
}

impl Shared {
    pub(crate) fn new(
        slot: u32,
        format: Format,
        pool: Pool,
        source: Source,
        on_full: OnFull,
        providers: Vec<ProviderFilter>,
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
            providers,
            heard: sessions::heard(slot),
            commands,
            roster: Mutex::new(Roster::default()),
            sink: SinkCounters::default(),
            closed: AtomicBool::new(false),
            wake_asked: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            without_buffer: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            room: Mutex::new(()),
            room_changed: Condvar::new(),
        }
    }

    /// Whether the session wants events of a type.
    pub(crate) fn wants(&self, ty: &EventType) -> bool {
        let schema = ty.schema();
        self.providers.is_empty() || self.providers.iter().any(|filter| filter.matches(schema))
    }

    /// Whether rows of a type may be among the session's: it wants the type, or [an earlier session](sessions::heard) did.
    pub(crate) fn may_meet(&self, ty: &EventType) -> bool {
        self.wants(ty) || self.heard.binary_search(&ty.index()).is_ok()
    }

    /// Whether the session's format can describe a type.
    pub(crate) fn describes(&self, ty: &EventType) -> Result<(), FormatError> {
        Stream::check(self.format, ty.schema())
    }

    /// A buffer for a thread that has none.
    ///
    /// Buffers of threads that have ended stay until the flusher has written what they left. Should it be held up (by a sink that stalls)
    /// they are not to pile up beside the budget: see [`most_ended`](Self::most_ended).
    pub(crate) fn attach(
        self: &Arc<Self>,
        thread: &ThreadRef,
    ) -> Result<Arc<ThreadBuffer>, NoBuffer> {
        if self.ended.load(Ordering::Relaxed) >= self.most_ended() {
            return Err(NoBuffer::TooMany);
        }
        let fence = if self.barrier == Barrier::Fences { MODE_FENCE } else { 0 };
        let clock = if self.source.is_counter() { 0 } else { MODE_MONOTONIC };
        let record = Record::new(fence | clock);
        let buffer =
            Arc::new(ThreadBuffer { record, session: Arc::clone(self), thread: thread.clone() });
        let mut roster = self.roster.lock();
        // Under the lock, which the flusher takes after it has set this: it meets the buffer, or there is none.
        if self.closed.load(Ordering::Relaxed) {
            return Err(NoBuffer::Closed);
        }
        roster.live.push(Arc::clone(&buffer));
        roster.new.push(Arc::clone(&buffer));
        roster.threads += 1;
        Ok(buffer)
    }

    /// A thread has ended: the flusher has its buffer from now on.
    pub(crate) fn buffer_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// The flusher is done with the buffers of so many threads that ended.
    pub(crate) fn buffers_gone(&self, count: usize) {
        // Not below zero: at the end of a session the flusher takes leave of threads that live on.
        let _ = self.ended.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ended| {
            Some(ended.saturating_sub(count as u32))
        });
    }

    /// How many buffers of ended threads there may be: about half a kibibyte each. More than there are chunks, which come back a little sooner.
    fn most_ended(&self) -> u32 {
        512 + 2 * self.pool.use_of_chunks().1
    }

    /// Counts an event of a thread that got no buffer.
    pub(crate) fn drop_without_buffer(&self) {
        self.without_buffer.fetch_add(1, Ordering::Relaxed);
    }

    /// How many events no thread can be named for.
    pub(crate) fn unplaced(&self) -> u64 {
        let unplaced = sessions::UNPLACED[self.slot as usize].load(Ordering::Relaxed);
        unplaced + self.without_buffer.load(Ordering::Relaxed)
    }

    /// Asks for a round if memory runs low.
    pub(crate) fn wake_if_low(&self) {
        if self.is_low() {
            let _ = local::holding_locks(|| self.wake());
        }
    }

    /// Asks for a round, once: the inbox must have room for what matters more.
    fn wake(&self) {
        if !self.wake_asked.swap(true, Ordering::Relaxed) {
            let _ = self.commands.try_send(Command::Wake);
        }
    }

    /// A round begins.
    pub(crate) fn awake(&self) {
        self.wake_asked.store(false, Ordering::Relaxed);
    }

    /// Whether a quarter of the chunks of either size or more is in use, or a quarter of the buffers that ended threads may leave.
    pub(crate) fn is_low(&self) -> bool {
        self.pool.is_low() || self.has_many_ended()
    }

    /// Whether there is a quarter of the buffers that ended threads may leave, or more.
    pub(crate) fn has_many_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) >= self.most_ended().div_ceil(4)
    }

    /// The flusher has died: threads that wait or have a buffer must not go on as if it lived.
    pub(crate) fn abandon(&self) {
        sessions::hush(self.slot);
        self.closed.store(true, Ordering::Relaxed);
        for buffer in &self.roster.lock().live {
            buffer.record.close();
            // Whatever the thread emits next finds that out.
            let _ = buffer.record.ask();
        }
        self.room_made();
        self.settle();
    }

    /// Waits until a chunk may be free again, or the session is over. The caller is in no event.
    pub(crate) fn wait_for_room(&self) {
        let room = self.room.lock();
        // SeqCst with the flusher's load in `room_made`: it sees the waiter, or the waiter's next try sees the chunk. Should
        // both miss, the wait ends by itself soon.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.wake();
        if !self.closed.load(Ordering::Relaxed) {
            drop(self.room_changed.wait_for(room, Duration::from_millis(5)));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Chunks were given back.
    pub(crate) fn room_made(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.room.lock());
            self.room_changed.notify_all();
        }
    }

    /// Adds what became of a write.
    pub(crate) fn count(&self, rows: u64, lost: u64, bytes: u64) {
        self.sink.written.fetch_add(rows, Ordering::Relaxed);
        self.sink.lost.fetch_add(lost, Ordering::Relaxed);
        self.sink.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// After the last round: what was neither written nor counted as dropped is lost. That is nothing, unless a
    /// thread stayed in the middle of an event to the end.
    pub(crate) fn settle(&self) {
        let stats = self.stats();
        let missing = stats.attempted.saturating_sub(stats.written + stats.dropped());
        self.sink.lost.fetch_add(missing, Ordering::Relaxed);
    }

    /// What is known of the session now; exact once it has finished.
    pub(crate) fn stats(&self) -> Stats {
        local::holding_locks(|| self.count_all()).unwrap_or_default()
    }

    fn count_all(&self) -> Stats {
        let roster = self.roster.lock();
        let (mut attempted, mut drops) = roster.gone;
        for buffer in &roster.live {
            let (own, own_drops) = buffer.record.counts();
            attempted += own;
            drops.add(&own_drops);
        }
        let without_buffer = self.without_buffer.load(Ordering::Relaxed);
        let interrupting = sessions::UNPLACED[self.slot as usize].load(Ordering::Relaxed);
        drops.no_room += without_buffer;
        drops.reentrant += interrupting;
        let unplaced = without_buffer + interrupting;
        Stats {
            attempted: attempted + unplaced,
            written: self.sink.written.load(Ordering::Relaxed),
            dropped: drops,
            lost_in_sink: self.sink.lost.load(Ordering::Relaxed),
            not_in_format: self.sink.refused.load(Ordering::Relaxed),
            left_out: *self.sink.left_out.lock(),
            bytes: self.sink.bytes.load(Ordering::Relaxed),
            flushes: self.sink.rounds.load(Ordering::Relaxed),
            sequence_points: self.sink.sequence_points.load(Ordering::Relaxed),
            threads: roster.threads,
            memory_touched: u64::from(self.pool.touched()) * self.pool.chunk_size() as u64,
        }
    }
}
