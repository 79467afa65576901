//! How many spans a Heph trace has, and how many of them did not end in it.

use std::{
    cmp::Ordering,
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
};

use nettrace_reader::heph::{Event, Span, SpanPart};

/// How many spans can be open at the same time. They take up to 64 MiB.
const MOST_OPEN: usize = 1_000_000;

/// The spans of a trace, counted in the order of its packets.
#[derive(Debug, Default)]
pub(super) struct Spans {
    pub(super) count: u64,
    /// Starts less ends that are not part of a whole span, by a hash of what both have in common.
    open: HashMap<u64, i64>,
    hasher: RandomState,
    /// Starts and ends that were not counted because too many spans were open.
    pub(super) uncounted: u64,
}

impl Spans {
    pub(super) fn count(&mut self, event: &Event<'_>) {
        let Some(span) = event.span() else {
            // Those of other writers are spans if they take time.
            self.count += u64::from(event.end > event.start);
            return;
        };
        let Span { part, provider, name, trace, id, .. } = span;
        let key = self.hasher.hash_one((provider, name, trace, id));
        let before = self.open.get(&key).copied().unwrap_or(0);
        let after = match part {
            // The packet of the other event came before.
            SpanPart::Whole => before - before.signum(),
            SpanPart::Start => before + 1,
            _ => before - 1,
        };
        if before == 0 && after != 0 && self.open.len() >= MOST_OPEN {
            self.uncounted += 1;
            return;
        }
        self.count += u64::from(part == SpanPart::Whole && before == 0);
        self.count += u64::from(after.abs() > before.abs());
        match after {
            0 => _ = self.open.remove(&key),
            _ => _ = self.open.insert(key, after),
        }
    }

    pub(super) fn without_end(&self) -> u64 {
        self.sum(Ordering::Greater)
    }

    pub(super) fn without_start(&self) -> u64 {
        self.sum(Ordering::Less)
    }

    fn sum(&self, side: Ordering) -> u64 {
        let open = self.open.values().filter(|open| open.cmp(&&0) == side);
        open.map(|open| open.unsigned_abs()).sum()
    }
}

/// The counts as text.
pub(super) struct Shown {
    pub(super) count: u64,
    pub(super) without_end: u64,
    pub(super) without_start: u64,
    pub(super) uncounted: u64,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, without_end, without_start, uncounted } = self;
        write!(f, "{count} ({without_end} without an end, {without_start} without a start)")?;
        match uncounted {
            0 => Ok(()),
            _ => write!(f, "; {uncounted} starts and stops had no room and are not counted"),
        }
    }
}
