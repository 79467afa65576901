//! Counts of written, refused and lost events.

use crate::sync::{AtomicU64, Ordering};

/// The counts of this process's events since its start, over all tracepoints.
///
/// Each event that was emitted while its tracepoint was enabled counts in exactly one of `written`,
/// `disabled`, `refused`, `too_large`, `nested`, `panicked` and `failed`. A forked child continues
/// its parent's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Written to the kernel.
    pub written: u64,
    /// The part of `written` whose texts were cut to fit
    /// ([`OnTooLarge::Cut`](crate::OnTooLarge::Cut)).
    pub cut: u64,
    /// Not written, because the last listener left while the event was being encoded. This is not
    /// an error. Also counts the first event of a type if a signal handler emits it while
    /// interrupting that type's registration on the same thread.
    pub disabled: u64,
    /// The event's type was refused: [`register`](crate::register()) and
    /// [`Status::refused`](crate::Status::refused) say why.
    pub refused: u64,
    /// Refused: larger than [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES). The kernel would accept
    /// the event but not deliver it.
    pub too_large: u64,
    /// Refused: emitted while encoding another event, with more than four events nested this way.
    pub nested: u64,
    /// Lost because the encoding panicked. The panic continues in the emitting thread.
    pub panicked: u64,
    /// Refused by the system for another reason: error number (`errno`) and count. Errors that do
    /// not fit in the table have the number 0.
    pub failed: Vec<(i32, u64)>,
}

impl Counters {
    /// The sum of the counts in [`failed`](Self::failed).
    ///
    /// ```
    /// use eventheader_writer::Counters;
    ///
    /// let mut counters = Counters::default();
    /// counters.failed = vec![(5, 2), (28, 1)]; // EIO twice, ENOSPC once
    /// assert_eq!(counters.failed_in_all(), 3);
    /// ```
    #[must_use]
    pub fn failed_in_all(&self) -> u64 {
        self.failed.iter().map(|(_, count)| count).sum()
    }
}

/// The current counts. Each is exact once no thread emits.
///
/// ```
/// let counters = eventheader_writer::counters();
/// println!("{} events were written, {} failed", counters.written, counters.failed_in_all());
/// ```
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
        refused: REFUSED.load(Ordering::Relaxed),
        too_large: TOO_LARGE.load(Ordering::Relaxed),
        nested: NESTED.load(Ordering::Relaxed),
        panicked: PANICKED.load(Ordering::Relaxed),
        failed: failed.collect(),
    }
}

#[inline]
pub(crate) fn count_written() {
    // Relaxed, here and below: these are only counts; nothing is read through them.
    shard().written.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_cut() {
    CUT.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_disabled() {
    count_missed(1);
}

/// Counts events that were emitted when their type could not be registered.
pub fn count_missed(count: u64) {
    DISABLED.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
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

/// A part of the counts. Threads mostly count in different cache lines.
#[repr(align(128))]
struct Shard {
    written: AtomicU64,
}

static SHARDS: [Shard; 16] = [const { Shard { written: AtomicU64::new(0) } }; 16];
static CUT: AtomicU64 = AtomicU64::new(0);
static DISABLED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static TOO_LARGE: AtomicU64 = AtomicU64::new(0);
static NESTED: AtomicU64 = AtomicU64::new(0);
static PANICKED: AtomicU64 = AtomicU64::new(0);
static FAILED: [AtomicU64; 160] = [const { AtomicU64::new(0) }; 160];

/// The current thread's shard, chosen by the address of a thread local.
#[inline]
fn shard() -> &'static Shard {
    thread_local!(static HERE: u8 = const { 0 });
    let address = HERE.with(|here| std::ptr::from_ref(here).addr());
    // Thread locals of different threads are at least a stack or heap block apart.
    &SHARDS[(address >> 12 ^ address >> 16 ^ address >> 23) % SHARDS.len()]
}
