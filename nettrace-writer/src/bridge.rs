//! For crates that bring the spans and events of another library to sessions, as
//! `tracing-nettrace` does.
//!
//! Such a library has its own idea of when a span begins, who holds it and when it ends. So its
//! spans are no [`Span`](crate::Span)s. The bridge keeps the [ids](SpanIds) of each open span, and
//! does five things:
//!
//! | the library says | the bridge calls |
//! |---|---|
//! | a span begins | [`SpanIds::new`], or [`SpanIds::given`] if the library has made ids, and [`SpanIds::emit`] with the Start |
//! | something happens in the span | [`SpanIds::emit`] |
//! | this thread enters the span | [`SpanIds::enter`] |
//! | this thread leaves the span | [`Entry::leave`] |
//! | the span ends | [`SpanIds::emit`] with the Stop |
//!
//! A table that threads share has [`KeptIds`], which do the same in fewer steps.
//!
//! Spans of both kinds are parents of each other, and events that the application emits while a
//! span is entered are in it.
//!
//! Start and Stop are events like any other. Readers make a span of two events with the same span
//! id, of which the first has opcode 1 and the second opcode 2. Their names end with `Start` and
//! `Stop`. The types can be derived. A type that becomes known at run time is an [`EventType`] that
//! is leaked, and a value that implements [`TraceEvent`] and names it. [`register`] makes such a
//! type known before its first event.
//!
//! # What is listened to
//!
//! [`is_wanted`] says whether some session records such an event. It takes a lock, so a bridge
//! keeps the answer for as long as [`changes`] returns the same, or until [`on_change`] calls it.
//! If the answer is no, the bridge need not make anything. A session that begins while spans are
//! open does not know their Starts: [`begun_after`] says which sessions these are, and [`emit_to`]
//! tells them alone, while the span is entered. Such a late Start is of a type of its own, with the
//! key-value `nettrace.span` = `late` and a duration `age`.
//!
//! # Errors, threads, panics
//!
//! Recording never fails and never panics: an event that cannot be recorded is counted in the
//! session's [`Stats`](crate::Stats). Spans can begin and events be recorded on any thread, also in
//! a signal handler. An [`Entry`] stays on its thread. A bridge whose library is also used by sinks
//! should record nothing on [a session's own thread](is_session_thread).
//!
//! # Example
//!
//! A library that says when spans begin and end, and which thread is in them:
//!
//! ```
//! use nettrace_writer::{
//!     Elapsed, Level, Session, TraceEvent,
//!     bridge::{self, Began, SpanIds, Within},
//!     sink::MemorySink,
//! };
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Docs-Spans", opcode = Start)]
//! struct SpanStart<'a> {
//!     name: &'a str,
//! }
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Docs-Spans", opcode = Stop)]
//! struct SpanStop {
//!     duration: Elapsed,
//! }
//!
//! /// What is kept of an open span.
//! struct Open {
//!     ids: SpanIds,
//!     began: Began,
//! }
//!
//! fn on_start(name: &str, parent: Option<&Open>) -> Option<Open> {
//!     if !bridge::is_wanted("Docs-Spans", Level::Informational, 0) {
//!         return None;
//!     }
//!     let ids = SpanIds::new(parent.map_or(Within::Current, |open| Within::Span(&open.ids)));
//!     let began = ids.emit(&SpanStart { name });
//!     Some(Open { ids, began })
//! }
//!
//! fn on_end(open: &Open) {
//!     open.ids.emit(&SpanStop { duration: open.began.elapsed() });
//! }
//!
//! assert!(on_start("unheard", None).is_none());
//! let session = Session::builder().sink(MemorySink::new()).start()?;
//! let outer = on_start("outer", None).expect("a session listens");
//! let entry = outer.ids.enter();
//! let inner = on_start("inner", None).expect("a session listens");
//! assert_eq!(inner.ids.parent_id(), Some(outer.ids.span_id()));
//! on_end(&inner);
//! entry.leave();
//! on_end(&outer);
//! assert_eq!(session.finish()?.written, 4);
//! # Ok::<(), nettrace_writer::Error>(())
//! ```

mod kept_ids;

use std::{marker::PhantomData, sync::Arc};

use nettrace_event::{
    AnyEvent, EventType, Level, TraceEvent,
    registry::RegisterError,
    trace_context::{SpanId, TraceContext, TraceId, TraceState},
};
use nettrace_span::{
    Context, Elapsed,
    backend::{NotAcrossAwait, Started},
    frames::{self, Above, Begun, Entered, Ids, Snapshot},
};

use crate::{
    emit::{
        self, attach, emit_any, emit_to as emit_to_sessions, lose_untyped, other_span::emit_in,
    },
    shared::{local, refused_types, sessions, watchers},
};

pub use nettrace_event::Made;

pub use self::kept_ids::KeptIds;
pub use crate::emit::is_left_out;

/// What a bridge keeps of a span: its ids, and the `tracestate` that it has inherited.
///
/// A clone costs no more than a reference count. A table that threads share has [`KeptIds`].
///
/// ```
/// use nettrace_writer::{
///     Context,
///     bridge::{SpanIds, Within},
/// };
///
/// let outer = SpanIds::new(Within::Nothing);
/// assert!(Context::current().span_id().is_none(), "it is not entered");
/// let entry = outer.enter();
/// assert_eq!(Context::current().span_id(), Some(outer.span_id()));
/// let inner = SpanIds::new(Within::Current);
/// assert_eq!(inner.parent_id(), Some(outer.span_id()));
/// entry.leave();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanIds(Begun);

impl SpanIds {
    /// Makes ids for a span that begins. Puts nothing in force and records nothing. Does not
    /// allocate.
    #[inline]
    #[must_use]
    pub fn new(within: Within<'_>) -> Self {
        attach();
        Self(match within {
            Within::Current => frames::new_ids(&Above::Current),
            Within::Nothing => frames::new_ids(&Above::Nothing(None)),
            Within::Span(Self(span)) => frames::new_ids(&Above::Snapshot(&Snapshot::from(span))),
        })
    }

    /// The ids that another library has made for a span of this process: trace, span, flags and
    /// `tracestate`, and the span that it began in. So a trace is found by the same ids in whatever
    /// else records that library's spans.
    ///
    /// The library has decided that the span is recorded. [Sampling](crate::Sampling) leaves out
    /// neither its events nor those of spans that begin in it.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceContext;
    /// use nettrace_writer::bridge::{SpanIds, Within};
    ///
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let made_elsewhere = TraceContext::from_traceparent(header).unwrap();
    /// let outer = SpanIds::given(&made_elsewhere, None);
    /// assert_eq!(outer.span_id(), made_elsewhere.span_id());
    /// let inner = SpanIds::new(Within::Span(&outer));
    /// assert_eq!(inner.trace_id(), made_elsewhere.trace_id());
    /// ```
    #[must_use]
    pub fn given(span: &TraceContext, parent: Option<SpanId>) -> Self {
        let mut ids = Ids::new(span.trace_id(), span.span_id(), span.flags());
        ids.related = parent;
        Self(Begun { ids, number: frames::inherit(frames::unique()), state: span.shared_state() })
    }

    /// Records an event in the span, as if the span were entered for it. Returns the time of the
    /// event, for [durations](Began::elapsed).
    ///
    /// The labels that are in force on the thread are the event's as well.
    #[inline]
    pub fn emit<T: TraceEvent>(&self, event: &T) -> Began {
        self.emit_dyn(event, event.event_type())
    }

    /// [`emit`](Self::emit) for an event whose type is given beside it.
    #[inline(never)]
    pub fn emit_dyn(&self, event: &dyn AnyEvent, ty: &'static EventType) -> Began {
        let Self(Begun { ids, number, .. }) = self;
        let is_simple = frames::has_no_labels();
        let encode = |room: &mut [u8], at| event.encode_into(room, at);
        match is_simple.then(|| emit_in(ty, *number, || Some(*ids), encode)).flatten() {
            Some(at) => Began(Started::at_event(at)),
            None => self.emit_in_force(event, ty),
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_in_force(&self, event: &dyn AnyEvent, ty: &'static EventType) -> Began {
        let entry = self.enter();
        emit_any(event, ty);
        let began = Began(Started::at_last_event());
        entry.leave();
        began
    }

    /// Puts the span in force on this thread, with the labels that are in force, until the entry is
    /// left. Takes no lock. Does not allocate if as many were in force on this thread before.
    #[inline]
    pub fn enter(&self) -> Entry {
        Entry { entered: frames::enter_span_in_line(&self.0), not_send: PhantomData }
    }

    /// A number that no other span of the process has, and that [`unique_number`] never returns.
    /// Not 0.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number & !frames::MARKS
    }

    /// Whether the span is in a tree that is [sampled out](crate::Sampling). It then has the ids of
    /// the tree's root or of the root's caller. Its events need not be emitted: they are left out.
    /// Only its Start counts.
    #[inline]
    #[must_use]
    pub fn is_sampled_out(&self) -> bool {
        !self.0.is_recorded()
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> SpanId {
        self.0.ids.span
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.0.ids.trace()
    }

    /// The id of the span that this one began in.
    #[must_use]
    pub fn parent_id(&self) -> Option<SpanId> {
        self.0.ids.related
    }

    /// What services along the way have added to the trace.
    #[inline]
    #[must_use]
    pub fn state(&self) -> Option<&Arc<TraceState>> {
        self.0.state.as_ref()
    }

    /// The span as a context: as the parent of a [`Span`](crate::Span), or for the headers of a
    /// request.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::from(&self.0)
    }
}

/// Where a span of another library begins.
#[derive(Clone, Copy, Debug)]
pub enum Within<'a> {
    /// In the span that is in force on this thread, of whatever kind. If none is, the span begins a
    /// trace.
    Current,
    /// Nowhere: the span begins a trace.
    Nothing,
    /// In another span of that library.
    Span(&'a SpanIds),
}

/// Says that a span of another library is in force on this thread.
///
/// It does not end when it is dropped, because the other library says when. Ends that come in
/// another order than the begins are no error: whatever is within the scope that
/// [ends](Self::leave) ends with it, as at the end of a poll.
#[derive(Debug)]
#[must_use = "the span is in force until `leave` is called"]
pub struct Entry {
    entered: Entered,
    not_send: PhantomData<NotAcrossAwait>,
}

impl Entry {
    /// Ends it, and what is within it. Does nothing if it has ended with a scope around it.
    #[inline]
    pub fn leave(self) {
        frames::close_in_line(self.entered);
    }
}

/// When something began, by the clock of [durations](Elapsed).
#[derive(Clone, Copy, Debug)]
pub struct Began(Started);

impl Began {
    /// Now.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        // A session may start while this goes on.
        attach();
        Self(Started::now())
    }

    /// The time since then. It ends when it is asked for, or recorded.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Elapsed {
        self.0.elapsed()
    }

    /// As a number, for [`from_word`](Self::from_word).
    #[inline]
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0.to_word()
    }

    /// From its [word](Self::to_word).
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(Started::from_word(word))
    }
}

/// A number that nobody else in the process gets, and not 0. A thread takes them in blocks, so
/// this mostly touches memory of the thread alone.
#[inline]
#[must_use]
pub fn unique_number() -> u64 {
    frames::unique()
}

/// Registers an event type, as its first event would. Its
/// [word](nettrace_event::EventType::enabled) is exact from then on.
///
/// # Errors
///
/// [`RegisterError`] if the type is refused. Sessions count its events as lost then. With
/// [`RegisterError::Busy`] the call came from a signal handler, and nothing has changed.
pub fn register(ty: &'static EventType) -> Result<(), RegisterError> {
    emit::register(ty)
}

/// Records an event in some of the sessions that listen to it: those whose bit is set in
/// `sessions`. The bits are those of the type's [word](nettrace_event::EventType::enabled).
pub fn emit_to<T: TraceEvent>(event: &T, sessions: u32) {
    emit_to_sessions(event, event.event_type(), sessions);
}

/// Counts an event that the bridge has no type for, and cannot record, in each session that would
/// record it by its provider, level and keywords: as attempted, and as lost among
/// [`Drops::refused`](crate::Drops::refused). The trace shows a gap in its place. Takes a lock.
///
/// Returns whether there is such a session.
///
/// ```
/// use nettrace_writer::{Level, Session, bridge, sink::MemorySink};
///
/// assert!(!bridge::lose("Docs-Lost", Level::Warning, 0), "nobody listens");
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// assert!(bridge::lose("Docs-Lost", Level::Warning, 0));
/// let stats = session.finish()?;
/// assert_eq!((stats.attempted, stats.written, stats.drops.refused), (1, 0, 1));
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[allow(clippy::must_use_candidate, reason = "most callers want the count alone")]
pub fn lose(provider: &str, level: Level, keywords: u64) -> bool {
    lose_untyped(provider, level, keywords)
}

/// Adds a message to [`refused_types`](crate::refused_types), once: why events are
/// [lost](lose). Sessions have it as a [warning](crate::Warning::TypeRefused).
pub fn explain_loss(message: String) {
    refused_types::note_message(message);
}

/// Whether some session records events of this provider, level and keywords. Takes a lock. In a
/// signal handler that interrupted this crate, the answer is `true`.
#[must_use]
pub fn is_wanted(provider: &str, level: Level, keywords: u64) -> bool {
    sessions::is_wanted(provider, level, keywords)
}

/// The highest level that some session records. `None` while there is no session. Takes a lock. In
/// a signal handler that interrupted this crate, the answer is the highest level of all.
#[must_use]
pub fn max_level() -> Option<Level> {
    sessions::max_level()
}

/// How often the answer of [`is_wanted`] may have changed so far: one load.
#[inline]
#[must_use]
pub fn changes() -> u32 {
    sessions::changes()
}

/// The sessions that have begun after so many [changes], as bits of the words of event
/// types. Takes no lock.
#[must_use]
pub fn begun_after(changes: u32) -> u32 {
    sessions::begun_after(changes)
}

/// Whether a test of this process has captured events, by the feature `testing`. From then on, what
/// is wanted changes with each test, and tests run beside each other. So a bridge should leave no
/// answer of [`is_wanted`] with its library, where it could be an old one.
///
/// When this becomes `true`, [`on_change`] tells so.
#[inline]
#[must_use]
pub fn has_captured() -> bool {
    #[cfg(feature = "testing")]
    return sessions::captures::has_begun();
    #[cfg(not(feature = "testing"))]
    return false;
}

/// Whether this thread is a session's own, which writes to the session's sink.
#[inline]
#[must_use]
pub fn is_session_thread() -> bool {
    local::is_flusher()
}

/// Calls `f` after each change of what sessions record: when a session begins, ends, or gets other
/// filters. The thread that makes the change calls it and holds no lock of this crate. When `f` is
/// called, [`is_wanted`] has the new answer. Several threads may call it at once.
///
/// Nobody calls it when a `fork` leaves the child without sessions.
///
/// Returns `false` if there are eight such functions already. A function that is given twice counts
/// once.
pub fn on_change(f: fn()) -> bool {
    watchers::add(f)
}
