//! Encodes an event and writes it to the kernel.
//!
//! An event is encoded in one buffer on the stack and written by one `write`: write index, header,
//! metadata, payload. Rejected: a `writev` of index, constant part and payload. It saves copying
//! the constant part, but the kernel must check and copy three pieces. Measured by `cargo bench -p
//! benches --bench tracepoints`, for five numbers and a text, as medians of interleaved rounds:
//!
//! | write to | `/dev/null` | a file in memory |
//! |---|---|---|
//! | bare `writev` of the encoded bytes, in one piece | 232 ns | 550 ns |
//! | the same in three pieces | × 1.02 | × 1.02 |
//! | bare `write` of the encoded bytes | × 0.67 | × 0.87 |
//! | a whole emit, with encoding | × 0.80 | × 0.93 |
//!
//! An emit takes 320 instructions up to the system call, as `cargo xtask instructions` counts them.
//! Each field is one indirect call, so that all of this exists once, and not for each type.

use std::{cell::Cell, mem, num::NonZero};

use nettrace_event::{AnyEvent, EventType, NOT_REGISTERED, TraceEvent, registry};

use crate::{
    buffer::{Buffer, INDEX_BYTES, Storage},
    counters,
    encoder::EventHeaderEncoder,
    error::Error,
    header::{self, Activity, Preamble},
    state::{self, Channel, KERNEL},
    sync::{AtomicU32, Ordering},
    sys,
};

/// An activity id: 16 bytes, unique within a trace, usually those of a UUID.
///
/// ```
/// use eventheader_writer::ActivityId;
///
/// // From a UUID's number: `uuid.as_u128()`, or its bytes: `*uuid.as_bytes()`.
/// let request: ActivityId = 0xA1A2_A3A4_B1B2_C1C2_D1D2_D3D4_D5D6_D7D8_u128.to_be_bytes();
/// assert_eq!(request[..2], [0xA1, 0xA2]);
/// ```
pub type ActivityId = [u8; 16];

/// The context of one event: what is written besides its payload.
///
/// ```
/// use eventheader_writer::{ActivityId, Context, Emit};
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
/// # struct Slow { micros: u64 }
///
/// let request: ActivityId = [7; 16];
/// let query: ActivityId = [8; 16];
/// // The request has caused the query.
/// Slow { micros: 180 }.emit_with(&Context::new().activity(&query).related(&request));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    activity: Activity<'a>,
}

impl<'a> Context<'a> {
    /// An empty context.
    #[must_use]
    pub const fn new() -> Self {
        Self { activity: Activity { id: None, related: None } }
    }

    /// Sets the activity that the event belongs to.
    ///
    /// ```
    /// use eventheader_writer::{Context, encoded};
    /// # use eventheader_writer::TraceEvent;
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
    /// # struct Slow { micros: u64 }
    ///
    /// let event = Slow { micros: 180 };
    /// let plain = encoded(&event, &Context::new())?;
    /// let in_activity = encoded(&event, &Context::new().activity(&[7; 16]))?;
    /// // An extension: four bytes of header, and the id.
    /// assert_eq!(in_activity.len() - plain.len(), 4 + 16);
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    #[must_use]
    pub const fn activity(mut self, id: &'a ActivityId) -> Self {
        self.activity.id = Some(id);
        self
    }

    /// Sets the activity that caused this one, for the event that starts it. Without an
    /// [`activity`](Self::activity) it is left out, because the format cannot store it alone.
    ///
    /// ```
    /// use eventheader_writer::{Context, encoded};
    /// # use eventheader_writer::TraceEvent;
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
    /// # struct Slow { micros: u64 }
    ///
    /// let event = Slow { micros: 180 };
    /// let context = Context::new().activity(&[8; 16]);
    /// let one = encoded(&event, &context)?;
    /// let both = encoded(&event, &context.related(&[7; 16]))?;
    /// assert_eq!(both.len() - one.len(), 16);
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    #[must_use]
    pub const fn related(mut self, id: &'a ActivityId) -> Self {
        self.activity.related = Some(id);
        self
    }
}

/// Writes events. Implemented for every type that derives [`TraceEvent`].
///
/// ```
/// use eventheader_writer::{Emit, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso_Checkout")]
/// struct Answered {
///     micros: u64,
/// }
///
/// /// Takes any event, and passes its value on.
/// fn traced<E: TraceEvent>(event: E) -> E {
///     (&event).emit();
///     event
/// }
///
/// assert_eq!(traced(Answered { micros: 180 }).micros, 180);
/// ```
pub trait Emit: TraceEvent {
    /// Writes the event to its tracepoint if somebody listens. While nobody listens, this is one
    /// load and one branch.
    ///
    /// It never fails, and never panics unless the event's own encoding does. An event that cannot
    /// be written is [counted](crate::counters). Makes one system call.
    ///
    /// ```
    /// use eventheader_writer::{Emit, counters};
    /// # use eventheader_writer::TraceEvent;
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
    /// # struct Slow { micros: u64 }
    ///
    /// Slow { micros: 180 }.emit(); // nobody listens
    /// assert_eq!(counters().written, 0);
    /// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
    /// // From here on somebody does.
    /// Slow { micros: 250 }.emit();
    /// assert_eq!(counters().written, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            write_if_enabled(&self, ty, word.get(), &const { Context::new() });
        }
    }

    /// Writes the event with its activity.
    ///
    /// ```
    /// use eventheader_writer::{Context, Emit};
    /// # use eventheader_writer::{TraceEvent, counters};
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
    /// # struct Slow { micros: u64 }
    /// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
    ///
    /// let request = [7; 16];
    /// Slow { micros: 180 }.emit_with(&Context::new().activity(&request));
    /// # assert_eq!(counters().written, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    fn emit_with(&self, context: &Context<'_>) {
        let ty = self.event_type();
        let word = ty.enabled();
        if word != 0 {
            write_if_enabled(&self, ty, word, context);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// Writes an event, evaluating its expression only if somebody listens.
///
/// ```
/// # use eventheader_writer::{TraceEvent, emit};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Snapshot { rows: usize }
/// # fn count_rows() -> usize { 3 }
/// emit!(Snapshot { rows: count_rows() });
/// ```
#[macro_export]
macro_rules! emit {
    ($event:expr) => {
        $crate::emit_lazy(|| $event)
    };
}

/// Writes the event that `event` returns. Calls `event` only if somebody listens.
///
/// ```
/// use eventheader_writer::emit_lazy;
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
/// # struct Slow { micros: u64 }
/// # fn measure() -> u64 { 180 }
/// emit_lazy(|| Slow { micros: measure() });
/// ```
#[inline]
pub fn emit_lazy<T: TraceEvent>(event: impl FnOnce() -> T) {
    if T::is_any_enabled() {
        event().emit();
    }
}

/// The handling of an event larger than [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
///
/// ```
/// use eventheader_writer::{Emit, OnTooLarge, counters, on_too_large};
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs")]
/// # struct Asked { url: String }
/// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
///
/// let url = "x".repeat(10_000);
/// Asked { url: url.clone() }.emit();
/// on_too_large(OnTooLarge::Cut);
/// Asked { url }.emit();
/// let counters = counters();
/// assert_eq!((counters.too_large, counters.written, counters.cut), (1, 1, 1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTooLarge {
    /// Do not write it, and count it as [`too_large`](crate::Counters::too_large).
    #[default]
    Refuse,
    /// Cut its texts to 2,048 bytes, or to half of that and so on down to 16, until it fits. A cut
    /// text ends with `…`. The event is written and also counted as [`cut`](crate::Counters::cut).
    /// An event that still does not fit is refused.
    Cut,
}

/// Sets what to do with events that are too large, from now on, in the whole process.
///
/// ```
/// use eventheader_writer::{OnTooLarge, on_too_large};
///
/// on_too_large(OnTooLarge::Cut);
/// ```
pub fn on_too_large(policy: OnTooLarge) {
    // Relaxed: only this value is read.
    CUT.store(u32::from(policy == OnTooLarge::Cut), Ordering::Relaxed);
}

/// Encodes an event. Returns its bytes as the kernel delivers them, starting with the header.
///
/// ```
/// use eventheader_writer::{Context, encoded, layout::Header};
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
/// # struct Slow { micros: u64 }
///
/// let bytes = encoded(&Slow { micros: 180 }, &Context::new())?;
/// let header = Header::from_bytes(bytes[..8].try_into().unwrap());
/// // Level 3 is a warning.
/// assert_eq!(header.level, 3);
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
///
/// # Errors
/// [`Error`] if the type cannot be described or the event is too large.
pub fn encoded<T: TraceEvent + ?Sized>(event: &T, context: &Context<'_>) -> Result<Vec<u8>, Error> {
    let schema = event.event_type().schema();
    let preamble = Preamble::of_schema(schema)?;
    let mut storage = Storage::new();
    let mut buffer = Buffer::new(&mut storage);
    make(&event, &preamble, 0, context, usize::MAX, &mut buffer);
    match buffer.bytes() {
        Some(bytes) => Ok(bytes[INDEX_BYTES..].to_vec()),
        None => Err(Error::TooLarge { event: schema.name.to_owned() }),
    }
}

/// Writes an event whose word had the kernel's bit set, possibly among others.
pub fn write_if_enabled(
    event: &dyn AnyEvent,
    ty: &'static EventType,
    mut word: u32,
    context: &Context<'_>,
) {
    if word == NOT_REGISTERED {
        word = register_first(ty);
    }
    if word & KERNEL != 0 {
        match Nesting::enter() {
            Some(_nesting) => {
                let unwinding = Unwinding;
                write(event, ty, context);
                mem::forget(unwinding);
            }
            None => counters::count_nested(),
        }
    }
}

/// The most events that one thread may encode at once: an encoding and a signal handler may emit.
/// Each event takes a buffer on the stack, and an event that emits itself would overflow the stack.
const MAX_NESTING: u32 = 4;

thread_local! {
    static NESTING: Cell<u32> = const { Cell::new(0) };
}

/// A level of nesting: an event that is being encoded.
struct Nesting;

impl Nesting {
    /// Returns `None` if too many events are being encoded.
    #[inline]
    fn enter() -> Option<Self> {
        let depth = NESTING.get();
        (depth < MAX_NESTING).then(|| {
            NESTING.set(depth + 1);
            Self
        })
    }
}

impl Drop for Nesting {
    #[inline]
    fn drop(&mut self) {
        NESTING.set(NESTING.get() - 1);
    }
}

/// Counts the event if its encoding panics.
struct Unwinding;

impl Drop for Unwinding {
    #[cold]
    fn drop(&mut self) {
        counters::count_panicked();
    }
}

/// Writes bytes, which begin with the write index, to the kernel. Counts the result; `true` if
/// written.
#[inline]
fn deliver(fd: i32, bytes: &[u8]) -> bool {
    let result = sys::write(fd, bytes);
    match result {
        Ok(()) => counters::count_written(),
        Err(errno) => not_delivered(errno),
    }
    result.is_ok()
}

/// Whether texts that do not fit are cut.
pub(crate) fn cuts() -> bool {
    CUT.load(Ordering::Relaxed) != 0
}

static CUT: AtomicU32 = AtomicU32::new(0);

/// Registers a type at its first event, unless another thread has just done so. Returns its word.
#[cold]
fn register_first(ty: &'static EventType) -> u32 {
    if !ty.is_settled() {
        state::install();
        // Of a refused type there is no tracepoint; `register` reports the reason.
        let _ = registry::register(ty);
    }
    ty.enabled()
}

fn write(event: &dyn AnyEvent, ty: &'static EventType, context: &Context<'_>) {
    let Some(point) = state::type_point(ty.index()) else { return write_later(event, ty, context) };
    let Some(target) = point.channel.load() else { return write_later(event, ty, context) };
    write_whole(event, &point.preamble, target, context);
}

/// Writes an event to a descriptor, with a write index.
fn write_whole(
    event: &dyn AnyEvent,
    preamble: &Preamble,
    (fd, index): (i32, u32),
    context: &Context<'_>,
) {
    let mut storage = Storage::new();
    let mut buffer = Buffer::new(&mut storage);
    make(event, preamble, index, context, usize::MAX, &mut buffer);
    match buffer.bytes() {
        Some(bytes) => {
            deliver(fd, bytes);
        }
        None => write_cut(event, preamble, (fd, index), context),
    }
}

fn make(
    event: &dyn AnyEvent,
    preamble: &Preamble,
    index: u32,
    context: &Context<'_>,
    text_limit: usize,
    buffer: &mut Buffer<'_>,
) {
    preamble.begin(index, &context.activity, buffer);
    event.encode_with(&mut EventHeaderEncoder::new(buffer, text_limit));
}

/// Writes an event that saw the kernel's bit before the registering thread published its channel.
#[cold]
fn write_later(event: &dyn AnyEvent, ty: &'static EventType, context: &Context<'_>) {
    if ty.is_refused() {
        return counters::count_refused();
    }
    if !state::settle() {
        return counters::count_disabled();
    }
    // Without a point, its metadata was refused.
    let Some(point) = state::type_point(ty.index()) else { return counters::count_refused() };
    let Some(target) = point.channel.load() else { return counters::count_disabled() };
    write_whole(event, &point.preamble, target, context);
}

/// Handles an event that does not fit.
#[cold]
#[inline(never)]
fn write_cut(
    event: &dyn AnyEvent,
    preamble: &Preamble,
    (fd, index): (i32, u32),
    context: &Context<'_>,
) {
    let mut limit = if cuts() { 2_048 } else { 0 };
    let mut storage = Storage::new();
    let mut buffer = Buffer::new(&mut storage);
    while limit >= 16 {
        buffer.clear();
        make(event, preamble, index, context, limit, &mut buffer);
        if let Some(bytes) = buffer.bytes() {
            if deliver(fd, bytes) {
                counters::count_cut();
            }
            return;
        }
        limit /= 2;
    }
    counters::count_too_large();
}

#[cold]
fn not_delivered(errno: i32) {
    if errno == sys::EBADF { counters::count_disabled() } else { counters::count_failed(errno) }
}

/// Writes an event that was built at run time: header with metadata, and payload. Returns `false`
/// if it is too large.
pub(crate) fn write_runtime(
    channel: &Channel,
    described: &[u8],
    payload: &[u8],
    context: &Context<'_>,
) -> bool {
    let Some((fd, index)) = channel.load() else {
        counters::count_disabled();
        return true;
    };
    let mut storage = Storage::new();
    let mut buffer = Buffer::new(&mut storage);
    header::begin(described, index, &context.activity, &mut buffer);
    buffer.put(payload);
    let Some(bytes) = buffer.bytes() else {
        counters::count_too_large();
        return false;
    };
    deliver(fd, bytes);
    true
}
