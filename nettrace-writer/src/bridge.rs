//! For crates that bring the events and spans of another library to sessions, such as
//! `tracing-nettrace`.
//!
//! Such a library has its own idea of when a span begins, who holds it and when it ends. So its
//! spans are no [`Span`](crate::Span)s: the bridge keeps the [ids](SpanIds), and puts them in force
//! where the library says that a span is entered. Spans of both kinds are then parents of each
//! other.
//!
//! Events of types that become known at run time need nothing from here: leak an
//! [`EventType`] and implement [`TraceEvent`]. [`register`] makes such a type known.
//!
//! Nothing here is called for an event of an application that only derives its events.

use std::{
    marker::PhantomData,
    ptr,
    sync::{Arc, OnceLock, Weak},
};

use nettrace_context::{SpanId, TraceId, TraceState};
use nettrace_event::{EventType, Level, TraceEvent, registry::RegisterError};

use crate::{
    context::{
        Context, NotAcrossAwait,
        frames::{self, Above, Begun, Entered, Ids, Snapshot},
    },
    emit::{
        Emit as _,
        apart::{emit_begun, emit_in},
        emit_to as emit_to_sessions, see_listener,
    },
    local,
    session::Session,
    sessions,
    shared::Shared,
    span::{Elapsed, Started},
    stats::Stats,
    sync::{AtomicU64, Ordering},
};

/// The ids of a span that another library keeps: six words, without a reference count.
///
/// ```
/// use nettrace_writer::{
///     Context,
///     bridge::{IdWords, SpanIds, Within},
/// };
///
/// let (outer, _, entry) = SpanIds::begin(Within::Current);
/// assert_eq!(Context::current().span_id(), Some(outer.span_id()));
/// entry.leave(); // The span has begun, and is not entered.
/// assert!(Context::current().span_id().is_none());
///
/// let entry = outer.enter(None);
/// let (inner, _, begun) = SpanIds::begin(Within::Current);
/// begun.leave();
/// assert_eq!(inner.parent_id(), Some(outer.span_id()));
/// entry.leave();
///
/// // A table of spans has them in words that threads share.
/// let words = IdWords::new();
/// words.set(&inner);
/// assert_eq!(words.get(), Some(inner));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    ids: Ids,
    /// The number that the span id was made from, which no other span of the process has.
    number: u64,
}

impl SpanIds {
    /// Makes ids for a span that begins, and the `tracestate` that it inherits. Puts the span in
    /// force as [`enter`](Self::enter) does, for the event that tells of its start.
    #[inline(always)]
    pub fn begin(within: Within<'_>) -> (Self, Option<Arc<TraceState>>, Entry) {
        let mut begun = None;
        let entered = within.above(|above| frames::begin_span(above, &mut begun, None));
        let Some(mut begun) = begun else { unreachable!("it makes one") };
        if begun.is_undecided() {
            begun.decide(&entered, None, false);
        }
        let Begun { ids, number, state } = begun;
        (Self { ids, number }, state, Entry { entered, not_send: PhantomData })
    }

    /// Records an event in the span, as if the span were entered for it.
    #[inline(always)]
    pub fn emit<T: TraceEvent>(&self, state: Option<Arc<TraceState>>, event: &T) {
        let Self { ids, number } = *self;
        let is_done = frames::has_no_labels()
            && emit_in(event, event.event_type(), number, || Some(ids)).is_some();
        if !is_done {
            Self { ids, number }.emit_in_force(state, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_in_force<T: TraceEvent>(self, state: Option<Arc<TraceState>>, event: &T) -> Began {
        let entry = self.enter(state);
        event.emit();
        let began = Began::at_last_event();
        entry.leave();
        began
    }

    /// Puts the span in force on this thread, with the labels that are in force, until the entry is
    /// left. Takes no lock. Does not allocate if as many were in force on this thread before.
    #[inline(always)]
    pub fn enter(&self, state: Option<Arc<TraceState>>) -> Entry {
        let begun = Begun { ids: self.ids, number: self.number, state };
        Entry { entered: frames::enter_span(&begun), not_send: PhantomData }
    }

    /// [`enter`](Self::enter) for ids that are read where they are needed, so that they are copied
    /// once. `span` returns them and the `tracestate`. It must neither emit nor change what is in
    /// force. `None`: `span` has returned `None`.
    ///
    /// ```
    /// use nettrace_writer::{
    ///     Context,
    ///     bridge::{IdWords, SpanIds, Within},
    /// };
    ///
    /// let (ids, _, begun) = SpanIds::begin(Within::Nothing);
    /// begun.leave();
    /// let words = IdWords::new();
    /// words.set(&ids);
    /// let entry = SpanIds::enter_by(|| Some((words.get()?, None)));
    /// assert_eq!(Context::current().span_id(), Some(ids.span_id()));
    /// entry.expect("the words are set").leave();
    /// assert!(SpanIds::enter_by(|| None).is_none());
    /// ```
    #[inline(always)]
    pub fn enter_by(
        span: impl FnOnce() -> Option<(Self, Option<Arc<TraceState>>)>,
    ) -> Option<Entry> {
        let span = || {
            let (Self { ids, number }, state) = span()?;
            Some(Begun { ids, number, state })
        };
        let entered = frames::enter_span_by(span)?;
        Some(Entry { entered, not_send: PhantomData })
    }

    /// A number that no other span of the process has, and that [`unique_number`] never returns.
    /// Not 0.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number & !frames::SAMPLED_OUT
    }

    /// Whether the span is in a tree that is [sampled out](crate::Sampling). It then has the ids of
    /// the tree's root or of the root's caller. Its events need not be emitted: they are left out.
    /// Only its Start counts.
    #[inline]
    #[must_use]
    pub fn is_sampled_out(&self) -> bool {
        self.number & frames::SAMPLED_OUT != 0
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> SpanId {
        self.ids.span
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.ids.trace()
    }

    /// The id of the span that this one began in.
    #[must_use]
    pub fn parent_id(&self) -> Option<SpanId> {
        self.ids.related
    }

    /// The span as a context: to enter it elsewhere, or as the parent of a
    /// [`Span`](crate::Span).
    #[must_use]
    pub fn context(&self, state: Option<Arc<TraceState>>) -> Context {
        Context::of_span(self.ids, state)
    }
}

/// [`SpanIds`] in words that threads share, for a table of spans. Their order with other words is
/// the table's business.
///
/// Each word is stored and loaded by itself. The processor waits for a load of two words that have
/// been stored one by one, and that is how compilers copy what is not atomic.
#[derive(Debug)]
pub struct IdWords([AtomicU64; 6]);

impl IdWords {
    /// No ids.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 6])
    }

    /// The ids. `None` if there are none.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> Option<SpanIds> {
        // Relaxed: see the type.
        let [a, b, c, d, e, number] = &self.0;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let ids = Ids::from_words([load(a), load(b), load(c), load(d), load(e)])?;
        Some(SpanIds { ids, number: load(number) })
    }

    /// Keeps ids.
    #[inline]
    pub fn set(&self, ids: &SpanIds) {
        ids.ids.store(ids.number, &self.0);
    }

    /// [`SpanIds::number`] of the ids.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0[5].load(Ordering::Relaxed) & !frames::SAMPLED_OUT
    }

    /// Makes ids as [`SpanIds::begin`] does, keeps them, and records the event that tells of the
    /// span's start. Nothing is in force afterwards. Returns the `tracestate` that the span
    /// inherits, and the time of the event.
    ///
    /// ```
    /// use nettrace_writer::{
    ///     Session, TraceEvent,
    ///     bridge::{IdWords, Within},
    ///     sink::MemorySink,
    /// };
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs", opcode = 1)]
    /// struct WorkStart;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs", opcode = 2)]
    /// struct WorkStop;
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let words = IdWords::new();
    /// let (state, _began) = words.begin(Within::Current, &WorkStart);
    /// words.get().expect("they are set").emit(state, &WorkStop);
    /// assert_eq!(session.finish()?.written, 2);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline(always)]
    pub fn begin<T: TraceEvent>(
        &self,
        within: Within<'_>,
        start: &T,
    ) -> (Option<Arc<TraceState>>, Began) {
        let ty = start.event_type();
        if let Within::Current = within {
            let word = ty.enabled();
            see_listener();
            if let Some(buffer) = frames::begin_apart(&self.0, word) {
                return match emit_begun(start, ty, buffer) {
                    Some(at) => (None, Began(Started::at_event(at))),
                    None => self.emit_in_force(None, start),
                };
            }
        }
        self.begin_otherwise(within, start)
    }

    /// [`begin`](Self::begin) if it is not the usual: a span in a plain one of this thread, and one
    /// session.
    #[inline(never)]
    fn begin_otherwise<T: TraceEvent>(
        &self,
        within: Within<'_>,
        start: &T,
    ) -> (Option<Arc<TraceState>>, Began) {
        let made = within.above(|above| frames::new_ids(above, &self.0));
        let Some(state) = made else { return self.begin_in_force(within, start) };
        let number = self.0[5].load(Ordering::Relaxed);
        match emit_in(start, start.event_type(), number, || Some(self.get()?.ids)) {
            Some(at) => (state, Began(Started::at_event(at))),
            None => self.emit_in_force(state, start),
        }
    }

    /// Records an event in the span, as [`SpanIds::emit`] does. `state` returns the `tracestate`.
    /// Both are read only if they are needed: mostly the event before this one has the same ids. If
    /// there are no ids, nothing is recorded.
    ///
    /// ```
    /// use nettrace_writer::{
    ///     Session, TraceEvent,
    ///     bridge::{IdWords, Within},
    ///     sink::MemorySink,
    /// };
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs")]
    /// struct Work;
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let words = IdWords::new();
    /// words.emit(|| None, &Work); // There is no span.
    /// let (state, _began) = words.begin(Within::Current, &Work);
    /// words.emit(|| state, &Work);
    /// assert_eq!(session.finish()?.written, 2);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[inline(always)]
    pub fn emit<T: TraceEvent>(&self, state: impl FnOnce() -> Option<Arc<TraceState>>, event: &T) {
        let number = self.0[5].load(Ordering::Relaxed);
        let is_done = frames::has_no_labels()
            && emit_in(event, event.event_type(), number, || Some(self.get()?.ids)).is_some();
        if !is_done {
            self.emit_otherwise(state, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_otherwise<T: TraceEvent>(
        &self,
        state: impl FnOnce() -> Option<Arc<TraceState>>,
        event: &T,
    ) {
        if let Some(ids) = self.get() {
            ids.emit_in_force(state(), event);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_in_force<T: TraceEvent>(
        &self,
        within: Within<'_>,
        start: &T,
    ) -> (Option<Arc<TraceState>>, Began) {
        let (ids, state, entry) = SpanIds::begin(within);
        self.set(&ids);
        start.emit();
        let began = Began::at_last_event();
        entry.leave();
        (state, began)
    }

    #[cold]
    #[inline(never)]
    fn emit_in_force<T: TraceEvent>(
        &self,
        state: Option<Arc<TraceState>>,
        start: &T,
    ) -> (Option<Arc<TraceState>>, Began) {
        let began = match self.get() {
            Some(ids) => ids.emit_in_force(state.clone(), start),
            None => Began::now(),
        };
        (state, began)
    }
}

impl Default for IdWords {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a span of another library begins.
#[derive(Clone, Debug)]
pub enum Within<'a> {
    /// In the span that is in force on this thread, of whatever kind. If none is, the span begins a
    /// trace.
    Current,
    /// Nowhere: the span begins a trace.
    Nothing,
    /// In another span of that library, which has this `tracestate`.
    Span(&'a SpanIds, Option<Arc<TraceState>>),
}

impl Within<'_> {
    /// Calls `f` with the same, as the frames have it.
    #[inline(always)]
    fn above<R>(&self, f: impl FnOnce(Above<'_>) -> R) -> R {
        match self {
            Self::Current => f(Above::Current),
            Self::Nothing => f(Above::Nothing(None)),
            Self::Span(span, state) => {
                f(Above::Snapshot(&Snapshot::of_span(span.ids, state.clone())))
            }
        }
    }
}

/// Says that a span of another library is in force on this thread.
///
/// It does not end when it is dropped, because the other library says when. Ends that come in
/// another order than the begins are no error: whatever is within the scope that
/// [ends](Self::leave) ends with it.
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
        frames::leave(&self.entered);
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
        Self(Started::now())
    }

    /// The time of this thread's last event, if that is cheaper to know. To be called at once after
    /// an event, within the scope that was entered for it.
    #[inline]
    #[must_use]
    pub fn at_last_event() -> Self {
        Self(Started::at_last_event())
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
    let registered = sessions::register_now(ty);
    match registered {
        Ok(()) | Err(RegisterError::Busy { .. }) => {}
        Err(error) => sessions::note_refused(error.into()),
    }
    registered
}

/// Records an event in some of the sessions that listen to it: those whose bit is set in
/// `sessions`. The bits are those of the type's [word](nettrace_event::EventType::enabled).
pub fn emit_to<T: TraceEvent>(event: &T, sessions: u32) {
    emit_to_sessions(event, sessions);
}

/// Records events in one session alone.
///
/// Clones are cheap, and none keeps the session from ending.
#[derive(Clone, Debug)]
pub struct OnlyIn {
    session: Weak<Shared>,
    slot: u32,
}

impl OnlyIn {
    /// The session that is given.
    #[must_use]
    pub fn new(session: &Session) -> Self {
        let session = session.shared();
        Self { session: Arc::downgrade(session), slot: session.slot }
    }

    /// Whether the session still records.
    #[must_use]
    pub fn is_live(&self) -> bool {
        sessions::session(self.slot)
            .is_some_and(|session| ptr::eq(Arc::as_ptr(&session), self.session.as_ptr()))
    }

    /// Records an event if the session is live and its filters select the event.
    pub fn emit<T: TraceEvent>(&self, event: &T) {
        if self.is_live() {
            emit_to_sessions(event, 1 << self.slot);
        }
    }
}

/// The counts of all live sessions, each with a number that no other session of the process has.
#[must_use]
pub fn session_stats() -> Vec<(u32, Stats)> {
    sessions::live().into_iter().map(|(number, session)| (number, session.stats())).collect()
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

/// Whether this thread is a session's own, which writes to the session's sink.
#[inline]
#[must_use]
pub fn is_session_thread() -> bool {
    local::is_flusher()
}

/// The most functions that [`on_change`] takes.
const MAX_WATCHERS: usize = 8;

static WATCHERS: [OnceLock<fn()>; MAX_WATCHERS] = [const { OnceLock::new() }; MAX_WATCHERS];

/// Calls `f` after each change of what sessions record: when a session begins, ends, or gets other
/// filters. The thread that makes the change calls it and holds no lock of this crate. When `f` is
/// called, [`is_wanted`] has the new answer. Several threads may call it at once.
///
/// Nobody calls it when a `fork` leaves the child without sessions.
///
/// Returns `false` if there are eight such functions already. A function that is given twice counts
/// once.
pub fn on_change(f: fn()) -> bool {
    let is_f = |watcher: &OnceLock<fn()>| {
        watcher.set(f).is_ok() || watcher.get().is_some_and(|other| std::ptr::fn_addr_eq(*other, f))
    };
    WATCHERS.iter().any(is_f)
}

/// Says that what sessions record has changed. The caller holds no lock.
pub(crate) fn changed() {
    WATCHERS.iter().filter_map(OnceLock::get).for_each(|watcher| watcher());
}
