//! An event type at run time: its schema, its word of listeners, and the trait that events
//! implement.

#![allow(
    clippy::disallowed_types,
    reason = "the word is a seam of its own: loads only, no protocol"
)]

use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use crate::{encode::PayloadEncoder, schema::EventSchema};

/// The value of [`EventType::enabled`] before registration. The word also has this value while 31
/// sessions and the kernel listen at once; registration then finds the type already registered.
pub const NOT_REGISTERED: u32 = u32::MAX;

/// The bit of [`EventType::enabled`] that the kernel sets and clears through `user_events`.
pub const KERNEL_BIT: u32 = 31;

/// The number of NetTrace sessions that can listen at once: bits 0 to 30 of [`EventType::enabled`].
pub const SESSION_BITS: u32 = 31;

/// One event type, as a `static` that the derive writes.
///
/// ```
/// use nettrace_event::{EventType, registry};
/// # use nettrace_event::example::SALE as SCHEMA;
///
/// // `SCHEMA` is an `EventSchema`.
/// static SALE: EventType = EventType::new(&SCHEMA);
///
/// // Before registration every bit is set, so that the first event takes the slow path.
/// assert!(!SALE.is_registered() && SALE.enabled() != 0);
/// registry::register(&SALE)?;
/// assert!(SALE.is_registered() && SALE.enabled() == 0);
/// # Ok::<(), registry::RegisterError>(())
/// ```
#[derive(Debug)]
pub struct EventType {
    /// One bit for each listener; zero if nobody listens.
    enabled: AtomicU32,
    /// 1 once the word is valid.
    registered: AtomicU32,
    /// The index that the registry assigned, starting at 1; 0 before registration.
    index: AtomicU32,
    /// The index as rows store it: see [`index_in_rows`](Self::index_in_rows).
    index_in_rows: AtomicU32,
    /// The next type in the registry's list.
    pub(crate) next: AtomicPtr<EventType>,
    schema: &'static EventSchema,
}

impl EventType {
    /// An event type that is not yet registered.
    ///
    /// ```
    /// use nettrace_event::EventType;
    /// # use nettrace_event::example::SALE as SCHEMA;
    ///
    /// static SALE: EventType = EventType::new(&SCHEMA);
    /// assert!(!SALE.is_registered());
    /// ```
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

    /// The constant part of the event type.
    ///
    /// ```
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    /// let schema = SALE.schema();
    /// assert_eq!((schema.provider.name, schema.name), ("Shop", "Sale"));
    /// ```
    #[inline]
    #[must_use]
    pub const fn schema(&self) -> &'static EventSchema {
        self.schema
    }

    /// The word of listeners: one relaxed load. Zero means that nobody listens.
    ///
    /// ```
    /// use nettrace_event::KERNEL_BIT;
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    ///
    /// registry::register(&SALE)?;
    /// assert_eq!(SALE.enabled(), 0);
    /// // `perf` comes: the kernel sets its bit, and then a session sets its own.
    /// # registry::listen(&SALE, 1 << KERNEL_BIT | 1 << 4, 0);
    /// assert_eq!(SALE.enabled(), 1 << KERNEL_BIT | 1 << 4);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn enabled(&self) -> u32 {
        // Relaxed: an event may miss a listener that has just come, or meet one that has just gone.
        // Switching a session on or off promises no more. The listener publishes its own data by
        // its own means.
        self.enabled.load(Ordering::Relaxed)
    }

    /// The word itself, for backends: sessions set and clear their bits, the kernel sets and clears
    /// its own.
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// # use nettrace_event::{EventType, KERNEL_BIT, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    ///
    /// registry::register(&SALE)?;
    /// // What the kernel does at this address, which it was given.
    /// SALE.enabled_word().fetch_or(1 << KERNEL_BIT, Ordering::Relaxed);
    /// assert_ne!(SALE.enabled(), 0);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn enabled_word(&self) -> &AtomicU32 {
        &self.enabled
    }

    /// The index that the registry assigned to this type in this process; 0 before registration.
    /// Indices start at 1 without gaps, so backends can use them as table indices and metadata ids.
    ///
    /// ```
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    /// assert_eq!(SALE.index(), 0);
    /// registry::register(&SALE)?;
    /// // The first type of this process.
    /// assert_eq!(SALE.index(), 1);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// The index in the form that compact rows store, precomputed so that no event has to compute
    /// it: LEB128 in the low two bytes, its length (1 or 2 bytes) in the third; 0 before
    /// registration.
    ///
    /// ```
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    /// registry::register(&SALE)?;
    /// // Index 1 takes one byte.
    /// assert_eq!(SALE.index_in_rows().to_le_bytes(), [1, 0, 1, 0]);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn index_in_rows(&self) -> u32 {
        self.index_in_rows.load(Ordering::Relaxed)
    }

    /// Whether the type was registered and not refused.
    ///
    /// ```
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    /// assert!(!SALE.is_registered());
    /// registry::register(&SALE)?;
    /// assert!(SALE.is_registered());
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[must_use]
    pub fn is_registered(&self) -> bool {
        // Acquire pairs with the release in `set_registered`, which publishes the index and the
        // word.
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

/// A value that can be recorded as an event. `#[derive(TraceEvent)]` implements it.
///
/// A struct is one event type. In an enum, each variant is one.
///
/// ```
/// use nettrace_event::{EventType, PayloadEncoder, TraceEvent};
/// use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, ProviderSchema};
///
/// static SCHEMA: EventSchema = EventSchema {
///     provider: ProviderSchema { name: "Shop", guid: None, group: None },
///     name: "Sale",
///     id: 1,
///     id_is_explicit: true,
///     version: 0,
///     level: Level::Informational,
///     keywords: 0,
///     opcode: None,
///     tag: 0,
///     message: None,
///     description: None,
///     key_values: &[],
///     fields: &[FieldSchema::new("cents", FieldType::U32)],
/// };
/// static SALE: EventType = EventType::new(&SCHEMA);
///
/// /// What the derive writes for a struct with one field.
/// struct Sale {
///     cents: u32,
/// }
///
/// impl TraceEvent for Sale {
///     fn event_types() -> &'static [&'static EventType] {
///         static TYPES: [&EventType; 1] = [&SALE];
///         &TYPES
///     }
///
///     fn event_type(&self) -> &'static EventType {
///         &SALE
///     }
///
///     fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
///         encoder.u32(self.cents);
///     }
/// }
///
/// assert_eq!(Sale { cents: 1_250 }.event_type().schema().name, "Sale");
/// assert_eq!(Sale::event_types().len(), 1);
/// // Nobody has registered the type yet, so its first event takes the slow path.
/// assert!(Sale::is_any_enabled());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "an event is a struct or enum with `#[derive(TraceEvent)]`"
)]
pub trait TraceEvent {
    /// All event types that values of this Rust type can have: one for a struct.
    ///
    /// This is a function because the oldest supported Rust rejects a constant that refers to
    /// statics with atomics.
    fn event_types() -> &'static [&'static EventType];

    /// The event type of this value.
    fn event_type(&self) -> &'static EventType;

    /// Passes the fields to an encoder, in the order of the schema.
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E);

    /// Whether the event before this one is hardly ever of the same type. Recording then does not
    /// try the shortest way first. For the code of spans.
    #[doc(hidden)]
    const COMES_ALONE: bool = false;

    /// Whether the row of such an event leaves out what it has in common with the row before. That
    /// is worth a comparison only if there is something. For the code of spans.
    #[doc(hidden)]
    const LEAVES_OUT: bool = true;

    /// Whether anybody listens to any of the types. Also true before registration.
    #[inline(always)]
    #[must_use]
    fn is_any_enabled() -> bool {
        Self::event_types().iter().any(|ty| ty.enabled() != 0)
    }
}

impl<T: TraceEvent + ?Sized> TraceEvent for &T {
    const COMES_ALONE: bool = T::COMES_ALONE;
    const LEAVES_OUT: bool = T::LEAVES_OUT;

    #[inline(always)]
    fn event_types() -> &'static [&'static EventType] {
        T::event_types()
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        (**self).event_type()
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        (**self).encode(encoder);
    }
}

/// An event that a function makes each time it is needed. For the code of `#[traced]`: each
/// function has its own type. So the compiler knows which variant of an enum is recorded.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "a function shows nothing")]
pub struct Made<F>(pub F);

impl<T: TraceEvent, F: Fn() -> T> TraceEvent for Made<F> {
    // A Start comes after another event than a Start of the same span, and so on.
    const COMES_ALONE: bool = true;
    const LEAVES_OUT: bool = false;

    #[inline(always)]
    fn event_types() -> &'static [&'static EventType] {
        T::event_types()
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        (self.0)().event_type()
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        (self.0)().encode(encoder);
    }
}
