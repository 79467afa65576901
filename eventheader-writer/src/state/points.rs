//! Where the events of a type or of a run-time tracepoint go, as an emit finds it.

use std::sync::OnceLock;

use nettrace_event::registry;

use crate::{
    header::Preamble,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// The number of types with their points in one allocation.
const LEAF: usize = 128;
type Leaf = Box<[OnceLock<TypePoint>]>;
static POINTS: [OnceLock<Leaf>; registry::MAX_TYPES as usize / LEAF + 1] =
    [const { OnceLock::new() }; registry::MAX_TYPES as usize / LEAF + 1];

/// The place for the point of a type, by its index in the registry.
pub(super) fn slot(index: u32) -> Option<&'static OnceLock<TypePoint>> {
    let leaf = POINTS.get(index as usize / LEAF)?;
    let leaf = leaf.get_or_init(|| (0..LEAF).map(|_| OnceLock::new()).collect());
    leaf.get(index as usize % LEAF)
}

/// Where the events of a tracepoint go: descriptor and write index in one word, so that both are
/// read at once.
#[derive(Debug)]
pub(crate) struct Channel(AtomicU64);

impl Channel {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }

    /// The descriptor and the write index, if set.
    #[inline]
    pub(crate) fn load(&self) -> Option<(i32, u32)> {
        // Relaxed: both numbers are in the one word, and refer to objects of the kernel.
        let value = self.0.load(Ordering::Relaxed);
        (value != u64::MAX).then_some(((value >> 32) as i32, value as u32))
    }

    pub(super) fn write_index(&self) -> Option<u32> {
        self.load().map(|(_, index)| index)
    }

    pub(super) fn store(&self, fd: i32, index: u32) {
        self.0.store(u64::from(fd as u32) << 32 | u64::from(index), Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }
}

/// The constant part of a type's events, and where they go.
#[derive(Debug)]
pub(crate) struct TypePoint {
    pub(crate) preamble: Preamble,
    pub(crate) channel: Channel,
}

/// Where the events of refused types would go. No event is written there, because they have no
/// points.
pub(super) static NOWHERE: Channel = Channel::new();

/// The point of a type, by its index in the registry; `None` if the type is not registered or was
/// refused.
#[inline]
pub(crate) fn type_point(index: u32) -> Option<&'static TypePoint> {
    let leaf = POINTS.get(index as usize / LEAF)?.get()?;
    leaf.get(index as usize % LEAF)?.get()
}

/// A tracepoint that is registered at run time: its word, and where its events go. It is never
/// freed, but reused.
#[derive(Debug)]
pub(crate) struct RuntimePoint {
    pub(crate) word: AtomicU32,
    pub(crate) channel: Channel,
}
