//! The buffer protocol between one thread and the flusher, for one session.
//!
//! A [`Record`] is what a thread and a session's flusher share. The thread is the record's *owner*:
//! it emits events. `owner` has the owner's half, `collector` the flusher's.
//!
//! # The protocol
//!
//! The owner writes rows into its current chunk. It handles an event in three steps:
//!
//! 1. [`begin`](Record::begin): set `busy`, then execute the [light
//!    barrier](crate::protocol::barrier::light).
//! 2. Read the clock. Write a row at `pos` if that is not beyond `limit`, and if the row does not
//!    exceed the chunk.
//! 3. [`add`](Record::add) advances `pos`, `ts` and `own`. [`end`](Record::end) clears `busy`
//!    (release).
//!
//! The flusher controls the owner through `limit`. While the owner may write, it holds the end
//! address of the chunk, less what a row's header may take. It holds [`SEIZED`] if the flusher has
//! asked for the chunk, or if there is no chunk. It holds [`ATTENTION`] if the owner left itself a
//! note. Unless it holds an address, the next event takes the slow path.
//!
//! The flusher handles a round in four steps:
//!
//! 1. Read `T` from the clock.
//! 2. [`ask`](Record::ask) every record: read how many numbers it has given out and which chunk is
//!    current, then set `limit` to [`SEIZED`].
//! 3. Execute the [heavy barrier](crate::protocol::barrier::Barrier::heavy).
//! 4. For every record, wait until the event that was under way at the barrier [is
//!    over](Waiting::is_over). Then [`collect`](Record::collect): take the list of chunks that the
//!    owner sealed, and seize the chunk that was current in step 2 by a compare-and-exchange of
//!    `chunk`.
//!
//! An event that was under way in step 2 may have sealed that chunk and written into a new one. The
//! flusher then repeats steps 2 to 4 for that record, once: see
//! [`collect_rest`](Record::collect_rest).
//!
//! # Why it is correct
//!
//! *An event that the flusher does not wait for is not older than `T`.* The heavy barrier takes
//! effect on the owner's processor at some point of the owner's program. If an event sets `busy`
//! before that point, then step 4 sees it as busy and waits for it, or it has already ended. If an
//! event sets `busy` after that point, then it also reads the clock after it, and the flusher had
//! read `T` by then.
//!
//! *The owner never writes into a chunk that was seized.* The flusher waits for an event that began
//! before the barrier. An event that begins after it sees [`SEIZED`] and takes the slow path. There
//! the owner must first take its own chunk back by a swap of `chunk`. Either the owner or the
//! flusher gets the chunk, never both. An owner that gets it seals it, and does not use it as its
//! current chunk again until the flusher has recycled it. The flusher recycles chunks only outside
//! of steps 2 to 4 of a round. So the flusher's exchange cannot succeed on a chunk that has come
//! back (no ABA).
//!
//! *Nothing overwrites [`SEIZED`] for the chunk that it was meant for.* The owner sets `limit` to
//! an address in two places. The first is after it installed a new chunk. It stores `limit` before
//! `chunk` (release). If the flusher saw the new chunk in step 2 (acquire), its own store comes
//! later in the modification order of `limit`. If it saw the old chunk, its exchange fails. The
//! second place is after the owner has dealt with a note. There it exchanges [`ATTENTION`] for the
//! address, which fails if the flusher has asked meanwhile.
//!
//! *The flusher reads what the owner wrote last in a chunk that it seizes.* The owner's last stores
//! come before it cleared `busy` (release), which step 4 read (acquire). The flusher loads the
//! values before its exchange, and the exchange's release half keeps the loads there. If the
//! exchange succeeds, the values are current: the owner changes them only after its own swap of
//! `chunk`, which would have made the exchange fail.
//!
//! *A round may skip asking if no chunk is in use and no record has counted anything since the
//! round before.* Such a round needs neither the wait nor the heavy barrier. Consider an event
//! whose row the flusher does not have. The event has not taken a chunk that the flusher can see,
//! because that chunk would count as in use. So it takes its chunk after the flusher's fence, in
//! the order of the two fences. Its own fence follows and shows it the floor ([`Record::install`]).
//! Its row, and all later rows of that chunk, are at or after `T`. The numbers that are accounted
//! for stay those of the round before. The last rounds of a session always ask: they must know that
//! no event is under way.
//!
//! *If the heavy barrier fails, owners execute a fence of their own from then on.* An owner
//! announces that by a bit of `busy`, which it sets on its slow path. The flusher's own fence then
//! stands in for the heavy barrier in two cases. In the first, the flusher saw the bit *before* it
//! asked: it then sees the event that set the bit as busy, or that event is over. In the second,
//! the owner had no chunk when it was asked: its next event takes the slow path, which has a full
//! fence between the store of `busy` and its loads. From any other record the flusher takes only
//! what the owner has sealed: see [`barrier`](crate::protocol::barrier).
//!
//! *A clock that goes back does no harm.* (The counter of another processor may be behind.) The
//! flusher keeps `T` in a [`Floor`], where it only grows, and stores it there before it asks
//! anybody. No chunk begins with a time before the floor. An event that the round does not wait for
//! begins a new chunk, because it sees [`SEIZED`] by the barrier. By the same barrier it sees the
//! floor. After that its thread's own last time is the lower bound, as usual.
//!
//! *A clock that jumps does little harm.* (The machine slept, or a virtual machine moved to another
//! host.) Without a remedy, threads would keep to a time in the future for as long as the clock is
//! behind it. So the flusher, which sees the jump when it reads the clock for the next round,
//! begins an *epoch*. An epoch has its own floor, and its own offset from the clock's ticks to the
//! trace's. Both are in the [`Floor`] before the flusher asks anybody. So each thread's first event
//! that the round does not wait for begins a chunk of the new epoch. There the thread's last time,
//! which is of another epoch, does not bind the event. In the trace's time `T` grows from round to
//! round in every epoch; the floor is `T` less the offset. So the statements above hold for rows of
//! the new epoch. The round that begins the epoch collects the rows of earlier epochs, and writes
//! none of them with a time at or after the epoch's first `T`: see `flusher::timeline`. If it does
//! not wait for a thread, a later round collects that thread's rows, and several epochs may have
//! begun by then. So no thread's order follows from epochs alone. The flusher itself moves a row
//! that is earlier than the thread's row before ([`Correction`]).
//!
//! *A signal handler, a `Drop` or a formatter that emits while its thread is busy* finds `busy`
//! set. The event is counted in `nested` and leaves a note, so that the next row shows the gap.
//!
//! *An event that waits for room when the session ends is counted.* Its owner is not busy during
//! the wait, so the flusher does not wait for it. Instead the owner sets a mark
//! ([`wait_begins`](Record::wait_begins)). It clears the mark when it writes or drops the event,
//! and leaves it set if it finds the session closed. The flusher closes the session, executes a
//! heavy barrier and waits for events under way. After that the mark is final: an event that began
//! before the barrier is over, and an event that begins after it sees the session closed. If the
//! mark is set, the flusher counts one dropped event, with the number after the thread's last one.
//!
//! The models in `loom_tests` check these statements under every interleaving. They fail if the
//! barrier or the wait is taken out.
//!
//! # What a killed process leaves
//!
//! Records and chunks can be in a [recorder file](crate::shared::persistent), which outlives the
//! process. A thread that is killed has executed its stores up to some instruction, on every
//! architecture. The compiler keeps their order at a `compiler_fence`, as for a signal handler. So
//! whoever reads the file finds the state between two stores, in which the following hold:
//!
//! - *Rows before `pos` are whole*, and the row of each event that has ended is before `pos`.
//! - *A chunk has a holder as long as its rows count.* The owner names itself when the chunk's
//!   header is complete, and `start` and `pos` are at the chunk's beginning. Before that, bytes of
//!   its last holder would count as rows. [`Pool::give`] clears the name.
//! - *A chunk ends at `pos` if it is the owner's last (`start`).* Otherwise its end is in `before`
//!   of the record, or of the next chunk that is not empty. So the owner stores `before`, then
//!   `start`, then `pos`: between the last two, neither chunk ends at `pos`. The flusher gives the
//!   chunks of an owner that are not empty back in their order, so the next one is held as long as
//!   this one. (`len` would not do: the flusher stores it after it has seized a chunk, and the
//!   owner can install the next one before that.)
//! - *The first row of each chunk tells the labels in force*, unless the thread never had any. The
//!   chunk that told them before may have been given back.
//!
//! The tests in `tests/persistent` stop a thread after each of its instructions, and read the file.
//!
//! [`Pool::give`]: crate::protocol::pool::Pool::give
//!
//! # Why it is correct on AArch64
//!
//! x86-64 makes stores visible in program order and executes loads in program order. AArch64 does
//! neither without an instruction that says so. So the argument must not depend on either.
//!
//! - *The heavy barrier* interrupts each processor that runs a thread of the process. The interrupt
//!   handler executes `dmb ish`: the flusher then sees what the owner did before it, and the owner
//!   sees what the flusher did before its call. A thread that is not running passes a barrier of
//!   the kernel when it is scheduled. So accesses that must be seen across the barrier may be
//!   relaxed: `busy` in one direction; `limit`, `closed` and the floor in the other.
//! - *The counter is not memory.* No barrier orders a read of it, and a processor may read it
//!   early: even before other processors see the owner's `busy`. After the heavy barrier this
//!   cannot happen. The owner returns from the kernel, which is a context synchronisation event:
//!   nothing after it executes before it. The flusher has read `T` by then
//!   ([`now`](crate::protocol::clock::Source::now) ends with an `isb`), and all processors read the
//!   same counter. If owners execute a fence instead, no such event stands between `busy` and the
//!   counter, because `isb` does not wait for a store. Then an event that the flusher does not wait
//!   for may read a time before `T`. But it sees [`SEIZED`], so it takes the slow path, where the
//!   floor bounds its time.
//! - *Rows are written by plain stores.* They are published to the flusher in two ways. Either the
//!   release of `own` or of `busy` publishes them to the flusher that waits for one of these
//!   (acquire), or the release of `sealed` publishes them to the flusher that takes the list
//!   (acquire). The flusher reads the rows and gives the chunk back by a release. The acquire of
//!   the chunk's next owner pairs with it, even if other threads took and gave chunks in between:
//!   their exchanges continue the release sequence. So no two threads have a chunk's bytes or
//!   header at the same time.
//! - *Relaxed suffices for what only one thread stores*: the owner's `pos`, `ts`, `last`,
//!   `gap` and counts. The flusher reads them after one of the acquires above, or for
//!   statistics, which may be late.

mod collector;
mod correction;
mod floor;
mod owner;

pub(crate) use self::{
    collector::{Asked, Mark, Sealed, Waiting},
    correction::Correction,
    floor::Floor,
    owner::Reason,
};

use std::mem::offset_of;

use crate::{
    protocol::{chunk_header::NONE, row},
    sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
};

/// Bit of [`Record::mode`]: the owner executes a fence for each event.
pub(crate) const MODE_FENCE: u32 = 1;
/// Bit of [`Record::mode`]: the owner reads the monotonic clock instead of the counter.
pub(crate) const MODE_MONOTONIC: u32 = 2;

/// Value of `limit`: there is no chunk, or the flusher has asked for it.
pub(crate) const SEIZED: usize = 0;
/// Value of `limit`: the owner has a chunk, but must do something else before the next row.
pub(crate) const ATTENTION: usize = 1;

/// The position before there is a chunk: above what is no address in `limit`, as every position.
const NOWHERE: *mut u8 = std::ptr::without_provenance_mut(64);

/// A version that labels never have: the next row tells of them again.
const LABELS_AGAIN: u64 = u64::MAX;

/// The value of `limit` for a chunk: a row with so many bytes of payload fits if it begins so many
/// bytes before that address. Its header takes at most [`HEAD_ROOM`](row::HEAD_ROOM) bytes.
fn limit_of(start: *mut u8, size: usize) -> usize {
    start as usize + size - row::HEAD_ROOM
}

/// Why events were not recorded, counted by the thread that emitted them.
///
/// ```
/// use nettrace_writer::{Session, sink::MemorySink};
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let drops = session.finish()?.drops;
/// if drops.no_room > 0 {
///     eprintln!("{} events found no room; give the session a larger budget", drops.no_room);
/// }
/// assert!(drops.total() >= drops.no_room);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drops {
    /// The memory budget was spent.
    pub no_room: u64,
    /// The payload exceeded what readers take (65,436 bytes) or a limit of its fields.
    pub too_large: u64,
    /// Emitted while the same thread was in the middle of another event: by a signal handler, a
    /// `Drop` or a formatter.
    pub reentrant: u64,
    /// The event's own encoding panicked.
    pub panicked: u64,
    /// The event's type was refused, or the trace's format cannot describe it:
    /// [`refused_types`](crate::refused_types) says why.
    pub refused: u64,
}

impl Drops {
    /// The sum of all reasons.
    ///
    /// ```
    /// let mut drops = nettrace_writer::Drops::default();
    /// drops.no_room = 3;
    /// drops.reentrant = 1;
    /// assert_eq!(drops.total(), 4);
    /// ```
    #[must_use]
    pub fn total(&self) -> u64 {
        self.no_room + self.too_large + self.reentrant + self.panicked + self.refused
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.no_room += other.no_room;
        self.too_large += other.too_large;
        self.reentrant += other.reentrant;
        self.panicked += other.panicked;
        self.refused += other.refused;
    }
}

/// What one thread shares with the flusher of one session: see the [module](self).
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Record {
    // Every event touches these: one pair of cache lines, written by the owner.
    /// Bit 0: the owner is in the middle of an event. The other bits are the [mode](Self::mode), 0
    /// for the usual one. Only the owner stores here. It changes the mode at most once: see
    /// [`pay_fences`](Self::pay_fences).
    busy: AtomicU32,
    /// The session's bit in the words of event types. Constant.
    pub(crate) word: u32,
    /// [`limit_of`] the chunk, [`SEIZED`] or [`ATTENTION`].
    limit: AtomicUsize,
    /// Where the next row goes.
    pos: AtomicPtr<u8>,
    /// The time of the last row.
    ts: AtomicU64,
    /// How many numbers this thread's events have been given, those of nested events not included.
    own: AtomicU64,
    /// The address of the last row's type; 0 if the next row cannot leave anything out.
    last: AtomicUsize,
    /// The current chunk.
    chunk: AtomicU32,
    // The slow path touches these.
    /// The list of chunks that the owner sealed, the last one first.
    sealed: AtomicU32,
    /// How many events were refused because they were nested.
    nested: AtomicU64,
    /// How many of the `nested` events have been given numbers.
    folded: AtomicU64,
    /// How many numbers directly before the next row have no row.
    gap: AtomicU64,
    /// Where the owner's last chunk begins.
    start: AtomicPtr<u8>,
    /// Whether the owner has filled a chunk since the flusher last took one.
    filled: AtomicBool,
    /// Whether the owner's next chunk is to be a large one.
    large: AtomicBool,
    /// The epoch that `ts` belongs to.
    epoch: AtomicU32,
    /// The start of the escapes of the last row with escapes in the current chunk, plus 1. 0: all
    /// its rows are plain.
    escapes: AtomicU32,
    /// If the record is in a recorder file: the number of its slot, plus 1. Constant.
    pub(crate) place: u32,
    /// The version of the thread's labels that was written last.
    labels: AtomicU64,
    /// In a recorder file, the last chunk before the current one that is not empty: as
    /// [`ChunkHeader::before`](crate::protocol::chunk_header::ChunkHeader::before).
    before: AtomicU64,
    /// In a recorder file: how many chunks the record has had.
    serial: AtomicU32,
    /// How long the row that was encoded last is after the one before, while the record is busy.
    delta: AtomicU32,
    no_room: AtomicU64,
    too_large: AtomicU64,
    panicked: AtomicU64,
    refused: AtomicU64,
    /// Starts and other events that sampling left out.
    sampled_out: [AtomicU64; 2],
    /// The owner has ended.
    exited: AtomicBool,
    /// The session is over.
    closed: AtomicBool,
    /// The owner is in the middle of an event, but not busy: it waits for room.
    waits: AtomicBool,
}

/// As `nettrace_span::frames::nobody` has it.
#[cfg(not(nettrace_loom))]
const _: () = assert!(offset_of!(Record, busy) == 0);

impl Record {
    /// Where `pos`, `own`, `nested`, `start` and `before` are.
    #[cfg(not(nettrace_loom))]
    #[allow(dead_code, reason = "for recorder files")]
    pub(crate) const PLACES: [usize; 5] = [
        offset_of!(Self, pos),
        offset_of!(Self, own),
        offset_of!(Self, nested),
        offset_of!(Self, start),
        offset_of!(Self, before),
    ];

    /// A record in the session whose bit in the words of event types is `word`.
    pub(crate) fn of(word: u32, mode: u32) -> Self {
        Self { word, ..Self::new(mode) }
    }

    pub(crate) fn new(mode: u32) -> Self {
        Self {
            busy: AtomicU32::new(mode << 1),
            word: 0,
            limit: AtomicUsize::new(SEIZED),
            pos: AtomicPtr::new(NOWHERE),
            ts: AtomicU64::new(0),
            own: AtomicU64::new(0),
            delta: AtomicU32::new(0),
            last: AtomicUsize::new(0),
            chunk: AtomicU32::new(NONE),
            sealed: AtomicU32::new(NONE),
            nested: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            gap: AtomicU64::new(0),
            start: AtomicPtr::new(NOWHERE),
            filled: AtomicBool::new(false),
            large: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            escapes: AtomicU32::new(0),
            place: 0,
            labels: AtomicU64::new(0),
            before: AtomicU64::new(0),
            serial: AtomicU32::new(0),
            no_room: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            sampled_out: [AtomicU64::new(0), AtomicU64::new(0)],
            exited: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        }
    }
}
