//! What the layer and the subscriber have in common: how spans and events are recorded.

use nettrace_writer::{
    Context, Emit, Level, bridge,
    bridge::{Began, SpanIds},
    event::{EventType, PayloadEncoder, StrEncoding, TraceEvent},
};
use tracing_core::{Event, LevelFilter, Metadata, span};
use tracing_subscriber::filter::Targets;

use crate::{
    callsite::{Callsite, Naming},
    options::Options,
    schema::Part,
    spans::{New, Row, Spans},
    stack, stats,
    sync::{AtomicU64, Ordering, panicking},
    values::{Recorded, Taken},
};

/// Records the spans and events of one subscriber.
#[derive(Debug)]
pub(crate) struct Recorder {
    naming: &'static Naming,
    polls: bool,
    /// What is recorded, if sessions want it.
    directives: Option<Targets>,
    spans: Spans,
    /// A number that no other recorder has.
    number: u64,
}

/// Where a span begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Within {
    /// In whatever is in force on the thread.
    Current,
    /// In the span with this id.
    Span(u64),
    /// Nowhere.
    Nothing,
}

impl Within {
    #[inline]
    pub(crate) fn of(attributes: &span::Attributes<'_>) -> Self {
        match attributes.parent() {
            Some(parent) => Self::Span(parent.into_u64()),
            None if attributes.is_root() => Self::Nothing,
            None => Self::Current,
        }
    }
}

impl Recorder {
    pub(crate) fn new(options: Options) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        bridge::on_change(tracing_core::callsite::rebuild_interest_cache);
        Self {
            naming: options.naming.shared(),
            polls: options.polls,
            directives: options.directives,
            spans: Spans::new(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether some session wants a callsite now. Called for each callsite when sessions change.
    pub(crate) fn register(&self, metadata: &'static Metadata<'static>) -> bool {
        let is_wanted = Callsite::of(metadata, self.naming).is_some_and(Callsite::ask);
        is_wanted && self.lets_pass(metadata)
    }

    /// Whether the directives let a callsite pass.
    fn lets_pass(&self, metadata: &Metadata<'_>) -> bool {
        let passes = |targets: &Targets| targets.would_enable(metadata.target(), metadata.level());
        self.directives.as_ref().is_none_or(passes)
    }

    /// Whether some session wanted a callsite at the last change.
    #[inline]
    pub(crate) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let is_wanted = match Callsite::find(metadata, self.naming) {
            Some(callsite) => callsite.is_wanted(),
            // Metadata that is not a callsite's, made to ask whether it would be wanted.
            None => self.max_level() >= *metadata.level(),
        };
        is_wanted && self.lets_pass(metadata)
    }

    /// The lowest of `tracing`'s levels that some session wants.
    pub(crate) fn max_level(&self) -> LevelFilter {
        let of_sessions = match bridge::max_level().map(Level::number) {
            None | Some(0 | 1) => LevelFilter::OFF,
            Some(2) => LevelFilter::ERROR,
            Some(3) => LevelFilter::WARN,
            Some(4) => LevelFilter::INFO,
            Some(_) => LevelFilter::TRACE,
        };
        let levels = |targets: &Targets| {
            let levels = targets.iter().map(|(_, level)| level).chain(targets.default_level());
            levels.max().unwrap_or(LevelFilter::OFF)
        };
        of_sessions.min(self.directives.as_ref().map_or(LevelFilter::TRACE, levels))
    }

    /// Whether nothing of this thread is recorded.
    #[inline]
    fn is_silent(&self) -> bool {
        let is_silent = bridge::is_session_thread();
        if is_silent {
            stats::ON_SESSION_THREAD.add(1);
        }
        is_silent
    }

    #[inline]
    pub(crate) fn event(&self, event: &Event<'_>) {
        if self.is_silent() {
            return;
        }
        let Some(callsite) = Callsite::of(event.metadata(), self.naming) else {
            return stats::EVENTS_REFUSED.add(1);
        };
        let values = Taken::of(|visitor| event.record(visitor));
        let Some(ty) = callsite.event_type(values.signature()) else { return };
        let recorded = Recorded { ty, values: &values };
        if event.is_contextual() {
            return recorded.emit();
        }
        match event.parent() {
            Some(parent) => self.within(parent.into_u64(), || recorded.emit()),
            None => {
                let _scope = Context::none().enter();
                recorded.emit();
            }
        }
    }

    /// Calls `f` with an open span in force. If the span is not recorded, with nothing in force.
    fn within(&self, id: u64, f: impl FnOnce()) {
        let span = self.spans.find(id).and_then(|row| Some((row.ids()?, row.state())));
        match span {
            Some((ids, state)) => {
                let entry = ids.enter(state);
                f();
                entry.leave();
            }
            None => {
                let _scope = Context::none().enter();
                f();
            }
        }
    }

    /// A span begins. Returns its id, which no other span has or will have.
    #[inline]
    pub(crate) fn begin_new(&self, attributes: &span::Attributes<'_>, within: Within) -> u64 {
        let id = bridge::unique_number();
        self.begin(attributes, id, within);
        id
    }

    /// There is one more handle of a span.
    pub(crate) fn cloned(&self, id: u64) {
        if let Some(row) = self.spans.find(id) {
            row.cloned();
        }
    }

    /// There is one handle less. Returns whether it was the last.
    #[inline]
    pub(crate) fn dropped(&self, id: u64) -> bool {
        let is_last = self.spans.find(id).is_some_and(Row::dropped);
        if is_last {
            self.close(id);
        }
        is_last
    }

    /// A span begins under an id that no open span has.
    #[inline]
    pub(crate) fn begin(&self, attributes: &span::Attributes<'_>, id: u64, within: Within) {
        if self.is_silent() {
            return;
        }
        let Some(callsite) = Callsite::of(attributes.metadata(), self.naming) else {
            return stats::SPANS_REFUSED.add(1);
        };
        let values = Taken::of(|visitor| attributes.record(visitor));
        let ty = callsite.event_type(values.signature());
        let parent;
        let within = match within {
            Within::Current => bridge::Within::Current,
            Within::Nothing => bridge::Within::Nothing,
            Within::Span(id) => {
                parent = self.spans.find(id).and_then(|row| Some((row.ids()?, row.state())));
                match &parent {
                    Some((ids, state)) => bridge::Within::Span(ids, state.clone()),
                    None => bridge::Within::Nothing,
                }
            }
        };
        let (ids, state, entry) = SpanIds::begin(within);
        if let Some(ty) = ty {
            Recorded { ty, values: &values }.emit();
        }
        entry.leave();
        let new = New { callsite, ids, state, began: Began::now() };
        if self.spans.open(id, new).is_none() {
            stats::SPANS_REFUSED.add(1);
        }
    }

    /// Fields of an open span become known.
    pub(crate) fn record(&self, id: u64, values: &span::Record<'_>) {
        if self.is_silent() {
            return;
        }
        let Some(row) = self.spans.find(id) else { return };
        let Some(callsite) = row.callsite(self.naming) else { return };
        let values = Taken::of(|visitor| values.record(visitor));
        if values.is_empty() {
            return;
        }
        if let Some(ty) = callsite.record_type(values.signature()) {
            self.within(id, || Recorded { ty, values: &values }.emit());
        }
    }

    #[inline]
    pub(crate) fn enter(&self, id: u64) {
        let Some(row) = self.spans.find(id) else { return };
        let Some(ids) = row.ids() else { return };
        let entry = ids.enter(row.state());
        row.entered();
        stack::push(self.number, id, entry);
        if self.polls {
            self.mark(row.callsite(self.naming), Part::Resume);
        }
    }

    #[inline]
    pub(crate) fn exit(&self, id: u64) {
        let Some(row) = self.spans.find(id) else { return };
        if self.polls {
            self.within(id, || self.mark(row.callsite(self.naming), Part::Suspend));
        }
        if let Some(nanos) = stack::pop(self.number, id) {
            row.left(nanos);
        }
    }

    fn mark(&self, callsite: Option<&'static Callsite>, part: Part) {
        if let Some(ty) = callsite.and_then(|callsite| callsite.other_type(part)) {
            Mark(ty).emit();
        }
    }

    /// The last handle of a span is gone.
    #[inline]
    pub(crate) fn close(&self, id: u64) {
        let Some(row) = self.spans.find(id) else { return };
        if !self.is_silent() {
            let stop = row.callsite(self.naming).and_then(|site| site.other_type(Part::Stop));
            if let (Some(ty), Some(ids)) = (stop, row.ids()) {
                let entry = ids.enter(row.state());
                let (busy, polls) = row.busy();
                Stop { ty, duration: row.began().elapsed().as_nanos(), busy, polls }.emit();
                entry.leave();
            }
        }
        row.close();
    }

    /// The innermost span that this thread has entered.
    pub(crate) fn current(&self) -> Option<(u64, &'static Metadata<'static>)> {
        let id = stack::current(self.number)?;
        Some((id, self.spans.find(id)?.callsite(self.naming)?.metadata))
    }
}

/// An event without fields.
struct Mark(&'static EventType);

impl TraceEvent for Mark {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.0
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, _: &mut E) {}
}

/// The end of a span. Times are nanoseconds.
struct Stop {
    ty: &'static EventType,
    duration: u64,
    busy: u64,
    polls: u32,
}

impl TraceEvent for Stop {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// As [`Part::own_fields`] has it.
    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.duration_nanos(self.duration);
        encoder.str(if panicking() { "panicked" } else { "ok" }, StrEncoding::Utf16);
        encoder.u32(self.polls);
        encoder.duration_nanos(self.busy);
        encoder.duration_nanos(self.duration.saturating_sub(self.busy));
    }
}
