//! An event type at run time: its schema, the word that decides, and the trait that events implement.

#![allow(
    clippy::disallowed_types,
    reason = "the word is a seam of its own: loads only, no protocol"
)]

use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use crate::{encode::PayloadEncoder, schema::EventSchema};

/// The value of [`EventType::enabled`] before registration. With 31 sessions and the kernel listening
/// at once the word has this value as well; registration then finds that it was done.
pub const NOT_REGISTERED: u32 = u32::MAX;

/// The bit of [`EventType::enabled`] that the kernel sets and clears through `user_events`.
pub const KERNEL_BIT: u32 = 31;

/// How many NetTrace sessions can listen at once: bits 0 to 30 of [`EventType::enabled`].
pub const SESSION_BITS: u32 = 31;

/// One event type, as a `static` that the derive writes.
#[derive(Debug)]
pub struct EventType {
    /// One bit for each listener: zero means that nobody listens.
    enabled: AtomicU32,
    /// 1 once the word is final.
    registered: AtomicU32,
    /// The number that the registry gave: 1 for the first type, and so on; 0 before.
    index: AtomicU32,
    /// The same as rows hold it: see [`index_in_rows`](Self::index_in_rows).
    index_in_rows: AtomicU32,
    /// The next type of the registry's list.
    pub(crate) next: AtomicPtr<EventType>,
    schema: &'static EventSchema,
}

impl EventType {
    /// An event type that is not yet registered.
    #[must_use]
    pub const fn new(schema: &'static EventSchema) -> Self {
        Self {
            enabled: AtomicU32::new(NOT_REGISTERED),
            registered: AtomicU32::new(0),
            index: AtomicU32::new(0),
            index_in_rows: AtomicU32::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            schema,
        }
    }

    /// The constant part.
    #[inline]
    #[must_use]
    pub const fn schema(&self) -> &'static EventSchema {
        self.schema
    }

    /// The word that decides: one relaxed load, and a branch on zero.
    #[inline(always)]
    #[must_use]
    pub fn enabled(&self) -> u32 {
        // Relaxed: a listener that came or went a moment ago may be missed or met, which is all that
        // switching a session on or off promises; what the listener owns is published by its own means.
        self.enabled.load(Ordering::Relaxed)
    }

    /// The word itself, for backends: sessions set and clear their bits, the kernel its own.
    #[inline]
    #[must_use]
    pub const fn enabled_word(&self) -> &AtomicU32 {
        &self.enabled
    }

    /// The number that the registry gave this type in this process; 0 before registration. Dense,
    /// starting at 1, so that backends can use it as a table index and as a metadata id.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// The index as a backend that writes compact rows wants it, so that no event has to compute it: LEB128 in the low two bytes,
    /// its length (1 or 2 bytes) in the third; 0 before registration.
    #[inline(always)]
    #[must_use]
    pub fn index_in_rows(&self) -> u32 {
        self.index_in_rows.load(Ordering::Relaxed)
    }

    /// Whether registration is complete (and did not refuse the type).
    #[must_use]
    pub fn is_registered(&self) -> bool {
        // Acquire pairs with the release in `set_registered`: the index and the word are seen.
        self.registered.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_registered(&self) {
        self.registered.store(1, Ordering::Release);
    }

    pub(crate) fn set_index(&self, index: u32) {
        self.index.store(index, Ordering::Relaxed);
        let bytes = if index < 1 << 7 {
            index | (1 << 16)
        } else {
            (index + (index & 0x3f80) + 0x80) | (2 << 16)
        };
        self.index_in_rows.store(bytes, Ordering::Relaxed);
    }
}

/// A value that can be recorded as an event. Implemented by `#[derive(TraceEvent)]`.
///
/// A struct is one event type; of an enum each variant is one.
pub trait TraceEvent {
    /// Every event type that values of this Rust type can have: one for a struct.
    const TYPES: &'static [&'static EventType];

    /// The event type of this value.
    fn event_type(&self) -> &'static EventType;

    /// Hands the fields to an encoder, in the order of the schema.
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E);

    /// Whether anybody listens to any of the types (or registration is still to come).
    #[inline(always)]
    fn is_any_enabled() -> bool {
        Self::TYPES.iter().any(|ty| ty.enabled() != 0)
    }
}

impl<T: TraceEvent + ?Sized> TraceEvent for &T {
    const TYPES: &'static [&'static EventType] = T::TYPES;

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        (**self).event_type()
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        (**self).encode(encoder);
    }
}
