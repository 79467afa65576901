//! The way of an event from the caller to the kernel.
//!
//! An event is made in one buffer on the stack, and handed over by one `write`: write index,
//! header, metadata, payload. Rejected: `writev` of three pieces, index, constant part and payload,
//! which saves the copy of the constant part but has the kernel look at three pieces, and copy
//! each. Measured by `cargo bench -p benches --bench tracepoints`, for five numbers and a text,
//! medians of rounds that take turns:
//!
//! | into | `/dev/null` | a file in memory |
//! |---|---|---|
//! | bare `writev` of the finished bytes, in one piece | 300 ns | 741 ns |
//! | the same in three pieces | × 1.03 | × 1.07 |
//! | bare `write` of the finished bytes | × 0.70 | × 0.86 |
//! | an emit, with making the event | × 0.97 | × 0.97 |

use std::{cell::Cell, mem, num::NonZero};

use trace_event::{EventType, NOT_REGISTERED, TraceEvent, registry};

use crate::{
    buffer::{Buffer, INDEX_BYTES},
    counters,
    encoder::EventHeaderEncoder,
    error::Error,
    header::{self, Activity, Preamble},
    state::{self, Channel, KERNEL},
    sync::{AtomicU32, Ordering},
    sys,
};

/// The id of an activity: 16 bytes, unique within a trace; usually those of a UUID.
pub type ActivityId = [u8; 16];

/// What accompanies one event besides its payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    activity: Activity<'a>,
}

impl<'a> Context<'a> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { activity: Activity { id: None, related: None } }
    }

    /// The activity that the event belongs to.
    #[must_use]
    pub const fn activity(mut self, id: &'a ActivityId) -> Self {
        self.activity.id = Some(id);
        self
    }

    /// The activity that this one comes from: said by the event that starts it. Without an
    /// [`activity`](Self::activity) it is left out, for the format has no place for it alone.
    #[must_use]
    pub const fn related(mut self, id: &'a ActivityId) -> Self {
        self.activity.related = Some(id);
        self
    }
}

/// Writing, for everything that derives [`TraceEvent`].
pub trait Emit: TraceEvent {
    /// Writes the event to its tracepoint if somebody listens to that. While nobody does, this is
    /// one load and one branch.
    ///
    /// Never fails, and never panics by itself; what cannot be written is
    /// [counted](crate::counters). Calls the kernel once.
    #[inline(always)]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            let event = self;
            emit_enabled(&event, ty, word);
        }
    }

    /// Writes the event with its activity.
    #[inline]
    fn emit_with(&self, context: &Context<'_>) {
        let ty = self.event_type();
        let word = ty.enabled();
        if word != 0 {
            write_if_enabled(self, ty, word, context);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// Writes an event, whose value is made only if somebody listens.
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

/// Writes the event that `event` makes, which it is asked for only if somebody listens.
#[inline(always)]
pub fn emit_lazy<T: TraceEvent>(event: impl FnOnce() -> T) {
    if T::is_any_enabled() {
        event().emit();
    }
}

/// What becomes of an event beyond [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTooLarge {
    /// It is not written, and counted as [`too_large`](crate::Counters::too_large).
    #[default]
    Refuse,
    /// Its texts are cut to 2,048 bytes, or half of that and so on down to 16, until it fits. A
    /// text that was cut ends with `…`. The event is written and counted as
    /// [`cut`](crate::Counters::cut) as well. If that is not enough it is refused.
    Cut,
}

/// Chooses what becomes of events that are too large, from now on, in the whole process.
pub fn on_too_large(policy: OnTooLarge) {
    // Relaxed: nothing else is read through it.
    CUT.store(u32::from(policy == OnTooLarge::Cut), Ordering::Relaxed);
}

/// The bytes of an event, as the kernel delivers them: from the header on.
///
/// # Errors
/// The type cannot be described, or the event is too large.
pub fn encoded<T: TraceEvent + ?Sized>(event: &T, context: &Context<'_>) -> Result<Vec<u8>, Error> {
    let schema = event.event_type().schema();
    let preamble = Preamble::of_schema(schema)?;
    let mut buffer = Buffer::new();
    make(event, &preamble, 0, context, usize::MAX, &mut buffer);
    if buffer.overflowed() {
        return Err(Error::TooLarge { event: schema.name.to_owned() });
    }
    Ok(buffer.bytes()[INDEX_BYTES..].to_vec())
}

/// Writes an event of which it is known that the kernel's bit, and perhaps more, was in its word.
/// For backends that share the word.
#[doc(hidden)]
#[inline]
pub fn write_if_enabled<T: TraceEvent + ?Sized>(
    event: &T,
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

/// How many events of a thread may be made one within the other: an encoding may emit, and a signal
/// handler. Each takes a buffer's worth of stack, and an event that emits itself would take all.
const MAX_NESTING: u32 = 4;

thread_local! {
    static NESTING: Cell<u32> = const { Cell::new(0) };
}

/// An event that is being made.
struct Nesting;

impl Nesting {
    /// `None`: there are too many already.
    #[inline(always)]
    fn enter() -> Option<Self> {
        let depth = NESTING.get();
        (depth < MAX_NESTING).then(|| {
            NESTING.set(depth + 1);
            Self
        })
    }
}

impl Drop for Nesting {
    #[inline(always)]
    fn drop(&mut self) {
        NESTING.set(NESTING.get() - 1);
    }
}

/// Counts the event if its encoding unwinds.
struct Unwinding;

impl Drop for Unwinding {
    #[cold]
    fn drop(&mut self) {
        counters::count_panicked();
    }
}

/// Hands bytes to the kernel: the write index first. Counts what becomes of them; `true`: written.
#[inline(always)]
fn deliver(fd: i32, bytes: &[u8]) -> bool {
    let result = sys::write(fd, bytes);
    match result {
        Ok(()) => counters::count_written(),
        Err(errno) => not_delivered(errno),
    }
    result.is_ok()
}

/// Whether texts are to be cut.
pub(crate) fn cuts() -> bool {
    CUT.load(Ordering::Relaxed) != 0
}

static CUT: AtomicU32 = AtomicU32::new(0);

static NO_CONTEXT: Context<'static> = Context::new();

/// One function for each type of event, called where somebody listens: the call keeps the disabled
/// path short.
#[inline(never)]
fn emit_enabled<T: TraceEvent + ?Sized>(event: &T, ty: &'static EventType, word: NonZero<u32>) {
    write_if_enabled(event, ty, word.get(), &NO_CONTEXT);
}

/// Registers a type at its first event, if nobody did so a moment ago; returns its word.
#[cold]
fn register_first(ty: &'static EventType) -> u32 {
    if !ty.is_registered() {
        state::install();
        // A type that is refused has the word 0, and `refused_types` and `register` say why.
        let _ = registry::register(ty);
    }
    ty.enabled()
}

#[inline(always)]
fn write<T: TraceEvent + ?Sized>(event: &T, ty: &'static EventType, context: &Context<'_>) {
    let Some(point) = state::type_point(ty.index()) else { return write_later(event, ty, context) };
    let Some((fd, index)) = point.channel.load() else { return write_later(event, ty, context) };
    let mut buffer = Buffer::new();
    make(event, &point.preamble, index, context, usize::MAX, &mut buffer);
    if buffer.overflowed() {
        return write_cut(event, &point.preamble, (fd, index), context);
    }
    deliver(fd, buffer.bytes());
}

#[inline(always)]
fn make<T: TraceEvent + ?Sized>(
    event: &T,
    preamble: &Preamble,
    index: u32,
    context: &Context<'_>,
    text_limit: usize,
    buffer: &mut Buffer,
) {
    preamble.begin(index, &context.activity, buffer);
    event.encode(&mut EventHeaderEncoder::new(buffer, text_limit));
}

/// The kernel has set the word before the registering thread has said where events go.
#[cold]
fn write_later<T: TraceEvent + ?Sized>(event: &T, ty: &'static EventType, context: &Context<'_>) {
    let point = state::settle().then(|| state::type_point(ty.index())).flatten();
    let target = point.and_then(|point| Some((point, point.channel.load()?)));
    let Some((point, (fd, index))) = target else { return counters::count_disabled() };
    let mut buffer = Buffer::new();
    make(event, &point.preamble, index, context, usize::MAX, &mut buffer);
    if buffer.overflowed() {
        return write_cut(event, &point.preamble, (fd, index), context);
    }
    deliver(fd, buffer.bytes());
}

/// The event does not fit.
#[cold]
#[inline(never)]
fn write_cut<T: TraceEvent + ?Sized>(
    event: &T,
    preamble: &Preamble,
    (fd, index): (i32, u32),
    context: &Context<'_>,
) {
    let mut limit = if cuts() { 2_048 } else { 0 };
    let mut buffer = Buffer::new();
    while limit >= 16 {
        buffer.clear();
        make(event, preamble, index, context, limit, &mut buffer);
        if !buffer.overflowed() {
            if deliver(fd, buffer.bytes()) {
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

/// Writes an event that is made at run time: header with metadata, and payload. `false`: it is too
/// large.
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
    let mut buffer = Buffer::new();
    header::begin(described, index, &context.activity, &mut buffer);
    buffer.put(payload);
    if buffer.overflowed() {
        counters::count_too_large();
        return false;
    }
    deliver(fd, buffer.bytes());
    true
}
