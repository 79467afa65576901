//! What became of events.

use crate::sync::{AtomicU64, Ordering};

/// What became of the events of this process since its start, all tracepoints together.
///
/// An event that was emitted while its tracepoint was enabled is in exactly one of `written`,
/// `disabled`, `too_large`, `nested`, `panicked` and `failed`. A forked child goes on from the
/// numbers of its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Handed to the kernel.
    pub written: u64,
    /// Of those written: with texts cut to fit ([`OnTooLarge::Cut`](crate::OnTooLarge::Cut)).
    pub cut: u64,
    /// Not taken because the last listener went while the event was being made; no error. Or because
    /// it is the first of its type, in a signal handler that interrupted its thread's registering.
    pub disabled: u64,
    /// Refused: beyond [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES), which the kernel would take and
    /// not deliver.
    pub too_large: u64,
    /// Refused: emitted by the encoding of an event that was emitted by the encoding of another,
    /// and so on, more than four deep.
    pub nested: u64,
    /// Lost because their encoding panicked; the panic goes on to who emitted them.
    pub panicked: u64,
    /// Refused by the system for another reason: number of the error (`errno`), and how many.
    /// Numbers that do not fit the table are 0.
    pub failed: Vec<(i32, u64)>,
}

impl Counters {
    /// All of [`failed`](Self::failed).
    #[must_use]
    pub fn failed_in_all(&self) -> u64 {
        self.failed.iter().map(|(_, count)| count).sum()
    }
}

/// The counters as they are now. Each is exact once no thread emits.
#[must_use]
pub fn counters() -> Counters {
    let sum = |count: fn(&Shard) -> &AtomicU64| {
        SHARDS.iter().map(|shard| count(shard).load(Ordering::Relaxed)).sum()
    };
    let failed = FAILED.iter().enumerate().filter_map(|(errno, count)| {
        let count = count.load(Ordering::Relaxed);
        (count > 0).then_some((errno as i32, count))
    });
    Counters {
        written: sum(|shard| &shard.written),
        cut: CUT.load(Ordering::Relaxed),
        disabled: DISABLED.load(Ordering::Relaxed),
        too_large: TOO_LARGE.load(Ordering::Relaxed),
        nested: NESTED.load(Ordering::Relaxed),
        panicked: PANICKED.load(Ordering::Relaxed),
        failed: failed.collect(),
    }
}

#[inline(always)]
pub(crate) fn count_written() {
    // Relaxed, here and below: numbers, through which nothing is read.
    shard().written.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_cut() {
    CUT.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_disabled() {
    count_missed(1);
}

/// Counts events that came where their type could not be registered. For backends that share the
/// word.
#[doc(hidden)]
pub fn count_missed(count: u64) {
    DISABLED.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn count_too_large() {
    TOO_LARGE.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_nested() {
    NESTED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_panicked() {
    PANICKED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_failed(errno: i32) {
    let at = usize::try_from(errno).ok().filter(|&at| at < FAILED.len()).unwrap_or(0);
    FAILED[at].fetch_add(1, Ordering::Relaxed);
}

/// Threads count in different cache lines, mostly.
#[repr(align(128))]
struct Shard {
    written: AtomicU64,
}

static SHARDS: [Shard; 16] = [const { Shard { written: AtomicU64::new(0) } }; 16];
static CUT: AtomicU64 = AtomicU64::new(0);
static DISABLED: AtomicU64 = AtomicU64::new(0);
static TOO_LARGE: AtomicU64 = AtomicU64::new(0);
static NESTED: AtomicU64 = AtomicU64::new(0);
static PANICKED: AtomicU64 = AtomicU64::new(0);
static FAILED: [AtomicU64; 160] = [const { AtomicU64::new(0) }; 160];

/// A thread's shard: the address of a thread local tells threads apart.
#[inline(always)]
fn shard() -> &'static Shard {
    thread_local!(static HERE: u8 = const { 0 });
    let address = HERE.with(|here| std::ptr::from_ref(here).addr());
    // Thread locals of different threads are stacks or heap blocks apart.
    &SHARDS[(address >> 12 ^ address >> 16 ^ address >> 23) % SHARDS.len()]
}
