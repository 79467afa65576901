//! An event type at run time: its schema, its word of listeners, and the trait that events
//! implement.

#![allow(
    clippy::disallowed_types,
    reason = "the word is a seam of its own: loads only, no protocol"
)]

use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use crate::{
    encode::PayloadEncoder,
    schema::{EventSchema, FieldType},
};

/// The value of [`EventType::enabled`] before registration. The word also has this value while 30
/// sessions and the kernel listen at once and one of them loses the type's events; registration
/// then finds the type already registered.
pub const NOT_REGISTERED: u32 = u32::MAX;

/// The bit of [`EventType::enabled`] that the kernel sets and clears through `user_events`.
pub const KERNEL_BIT: u32 = 31;

/// The bit of [`EventType::enabled`] that is set while a session listens that [loses the type's
/// events](EventType::lost). So the word of such a type never names one session alone, and its
/// events never take the way of those that can be recorded.
pub const LOST_BIT: u32 = 30;

/// The number of NetTrace sessions that can listen at once: bits 0 to 29 of [`EventType::enabled`].
pub const SESSION_BITS: u32 = 30;

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
    /// [`REGISTERED`] or [`REFUSED`] once the word is valid.
    state: AtomicU32,
    /// The index that the registry assigned, starting at 1; 0 before registration.
    index: AtomicU32,
    /// The id that the registry assigned; 0 before registration.
    id: AtomicU32,
    /// The bits of the sessions that lose the type's events.
    lost: AtomicU32,
    /// The size of every payload; see [`payload_size`](Self::payload_size).
    payload_size: AtomicU32,
    /// See [`delta_shift`](Self::delta_shift).
    delta_shift: AtomicU32,
    /// The bytes that rows store before and after the time; see [`row_head`](Self::row_head).
    row_head: AtomicU64,
    /// See [`like_head`](Self::like_head).
    like_head: AtomicU64,
    /// The next type in the registry's list.
    pub(crate) next: AtomicPtr<EventType>,
    /// The next type among those that the registry finds by the same hash.
    pub(crate) next_by_id: AtomicPtr<EventType>,
    /// The next type among those that were met while nobody was attached.
    pub(crate) next_set_aside: AtomicPtr<EventType>,
    schema: &'static EventSchema,
}

/// Values of [`EventType::state`].
const REGISTERED: u32 = 1;
const REFUSED: u32 = 2;

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
            state: AtomicU32::new(0),
            index: AtomicU32::new(0),
            id: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            payload_size: AtomicU32::new(PAYLOADS_VARY),
            delta_shift: AtomicU32::new(0),
            row_head: AtomicU64::new(0),
            like_head: AtomicU64::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            next_by_id: AtomicPtr::new(ptr::null_mut()),
            next_set_aside: AtomicPtr::new(ptr::null_mut()),
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
    #[inline]
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
    #[inline]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// The id that the type has within its provider. It is the one that the [schema](EventSchema)
    /// wants, unless another type of the provider has that. Before registration it is the wanted
    /// one. An id that nobody gave changes if a type comes later that was given it.
    ///
    /// ```
    /// # use nettrace_event::{EventSchema, EventType, Place, derived_id, registry};
    /// # use nettrace_event::example::SALE as SCHEMA;
    /// // Two types with the same name, in two modules.
    /// const HERE: Place = Place { module: "shop::here", ..Place::UNKNOWN };
    /// const THERE: Place = Place { module: "shop::there", ..HERE };
    /// const ID: u16 = derived_id("Sale");
    /// const SALE: EventSchema = EventSchema { id: ID, id_is_explicit: false, ..SCHEMA };
    /// static ONE: EventType = EventType::new(&EventSchema { place: HERE, ..SALE });
    /// static OTHER: EventType = EventType::new(&EventSchema { place: THERE, ..SALE });
    ///
    /// registry::register(&ONE)?;
    /// registry::register(&OTHER)?;
    /// assert_eq!(ONE.id(), ID);
    /// assert_ne!(OTHER.id(), ID);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> u16 {
        match self.id.load(Ordering::Relaxed) {
            0 => self.schema.id,
            id => id as u16,
        }
    }

    pub(crate) fn set_id(&self, id: u16) {
        self.id.store(id.into(), Ordering::Relaxed);
    }

    /// The bits of those sessions that lose the type's events, because it was refused or because
    /// their format cannot describe it: they count the events. A bit whose session has stopped
    /// listening may still be set here.
    ///
    /// [`registry::lose`](crate::registry::lose) has an example.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn change_lost(&self, set: u32, clear: u32) {
        // Relaxed: whoever changes this then changes the word by a release.
        let _ = self
            .lost
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lost| Some(lost & !clear | set));
    }

    /// The size in bytes of every payload of this type in NetTrace, computed at registration.
    /// [`PAYLOADS_VARY`] if payloads differ in size or have 2^14 bytes or more, and before
    /// registration.
    ///
    /// ```
    /// # use nettrace_event::{EventType, example::SALE as SCHEMA, registry};
    /// # static SALE: EventType = EventType::new(&SCHEMA);
    /// registry::register(&SALE)?;
    /// // A sale has one field, a `u32`.
    /// assert_eq!(SALE.payload_size(), 4);
    /// # Ok::<(), registry::RegisterError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn payload_size(&self) -> u32 {
        self.payload_size.load(Ordering::Relaxed)
    }

    /// The common part of the headers of all rows of this type, for the writer of rows: see
    /// [`compact_head`]. 0 before registration.
    #[inline]
    #[must_use]
    pub fn row_head(&self) -> u64 {
        self.row_head.load(Ordering::Relaxed)
    }

    /// The header of a row that follows one of the same type: see [`compact_like_head`].
    #[inline]
    #[must_use]
    pub fn like_head(&self) -> u64 {
        self.like_head.load(Ordering::Relaxed)
    }

    /// From which bit of [`row_head`](Self::row_head) on the time is.
    #[inline]
    #[must_use]
    pub fn delta_shift(&self) -> u32 {
        self.delta_shift.load(Ordering::Relaxed)
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
        self.state() == REGISTERED
    }

    /// Whether the type was refused. It has no index then.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.state() == REFUSED
    }

    /// Whether the type was registered or refused, so that its word is valid.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.state() != 0
    }

    fn state(&self) -> u32 {
        // Acquire pairs with the releases below, which publish the index, the id and the word.
        self.state.load(Ordering::Acquire)
    }

    pub(crate) fn set_registered(&self) {
        self.state.store(REGISTERED, Ordering::Release);
    }

    pub(crate) fn set_refused(&self) {
        self.state.store(REFUSED, Ordering::Release);
    }

    pub(crate) fn set_index(&self, index: u32) {
        self.index.store(index, Ordering::Relaxed);
        let size = FieldType::Object(self.schema.fields).fixed_size();
        let size = size.and_then(|size| u32::try_from(size).ok()).filter(|&size| size < 1 << 14);
        let size = size.unwrap_or(PAYLOADS_VARY);
        self.payload_size.store(size, Ordering::Relaxed);
        self.row_head.store(compact_head(index, size), Ordering::Relaxed);
        self.delta_shift.store(delta_shift(index), Ordering::Relaxed);
        self.like_head.store(compact_like_head(size), Ordering::Relaxed);
    }
}

/// The [payload size](EventType::payload_size) of a type whose payloads differ in size.
pub const PAYLOADS_VARY: u32 = u32::MAX;

/// The flags of a row that has its metadata id and its payload's size, and of one that has its
/// size.
const WHOLE: u64 = 0x81;
const SIZED: u64 = 0x80;

/// The bit of a time in two bytes that says that a second byte follows.
const TWO_BYTES: u64 = 0x80;

/// Where a header has its length.
const LEN: u32 = 61;

/// The header of a row in a `.nettrace` file of version 6, as one store writes it: flags, metadata
/// id, the time in two bytes of LEB128, and the size of the payload. The time is 0: the bits of
/// another one are added from [`delta_shift`] on. The highest three bits say how many bytes there
/// are, at most seven.
///
/// The id and the size are below 2^14. If payloads vary in size, that takes two bytes of 0.
#[must_use]
pub const fn compact_head(index: u32, size: u32) -> u64 {
    let (id, id_len) = leb128(index);
    let (size, size_len) = if size == PAYLOADS_VARY { (0, 2) } else { leb128(size) };
    let (time_at, size_at) = (8 + 8 * id_len, 24 + 8 * id_len);
    let len = 3 + id_len + size_len;
    WHOLE | id << 8 | TWO_BYTES << time_at | size << size_at | len << LEN
}

/// From which bit of that header on the time is.
#[must_use]
pub const fn delta_shift(index: u32) -> u32 {
    8 + 8 * leb128(index).1 as u32
}

/// The same of a row after one of the same type: flags, time, and the size if payloads vary in it.
#[must_use]
pub const fn compact_like_head(size: u32) -> u64 {
    let time = TWO_BYTES << 8;
    if size == PAYLOADS_VARY { SIZED | time | 5 << LEN } else { time | 3 << LEN }
}

/// A number below 2^14 as LEB128, and how many bytes that takes.
const fn leb128(number: u32) -> (u64, u64) {
    let number = number as u64;
    if number < 1 << 7 { (number, 1) } else { (number + (number & 0x3f80) + 0x80, 2) }
}

/// A value that can be recorded as an event. `#[derive(TraceEvent)]` implements it.
///
/// A struct is one event type. In an enum, each variant is one.
///
/// ```
/// use nettrace_event::{EventType, PayloadEncoder, TraceEvent};
/// use nettrace_event::{EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema};
///
/// static SCHEMA: EventSchema = EventSchema {
///     provider: ProviderSchema { name: "Shop", guid: None, group: None },
///     name: "Sale",
///     place: Place::UNKNOWN,
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

    /// Whether anybody listens to any of the types. Also true before registration.
    #[inline]
    #[must_use]
    fn is_any_enabled() -> bool {
        Self::event_types().iter().any(|ty| ty.enabled() != 0)
    }
}

impl<T: TraceEvent + ?Sized> TraceEvent for &T {
    #[inline]
    fn event_types() -> &'static [&'static EventType] {
        T::event_types()
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        (**self).event_type()
    }

    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        (**self).encode(encoder);
    }
}

/// An event that a function makes each time it is needed. For the code of `#[traced]`: each
/// function has its own type. So the compiler knows which variant of an enum is recorded. If it was
/// not hidden, each message of the compiler about what is no event would name it.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "a function shows nothing")]
pub struct Made<F>(pub F);

impl<T: TraceEvent, F: Fn() -> T> TraceEvent for Made<F> {
    #[inline]
    fn event_types() -> &'static [&'static EventType] {
        T::event_types()
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        (self.0)().event_type()
    }

    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        (self.0)().encode(encoder);
    }
}
