//! The common part of the layer and the subscriber: how spans and events are recorded.

mod begin;
#[cfg(feature = "opentelemetry")]
mod given;

use std::mem;

use nettrace_writer::{Context, Emit, Level, Outcome, bridge, event::EventType};
use tracing_core::{
    Dispatch, Event, LevelFilter, Metadata,
    callsite::rebuild_interest_cache,
    dispatcher, span,
    subscriber::{Interest, NoSubscriber},
};
use tracing_subscriber::filter::Targets;

use crate::{
    callsite::{Callsite, Naming, is_of_log},
    directives,
    options::Options,
    parts::{Follows, Late, Mark, Stop},
    row::{Row, Told},
    schema::Part,
    shares,
    sites::Site,
    spans::{Found, Spans},
    stack, stats,
    sync::{AtomicU64, OnceLock, Ordering, panicking},
    values::{Recorded, Taken, Values},
    words::Visited,
};

/// Records the spans and events of one subscriber.
#[derive(Debug)]
pub(crate) struct Recorder {
    naming: &'static Naming,
    polls: bool,
    /// What is recorded, if sessions want it.
    directives: Option<Targets>,
    /// Spans up to this level are kept although no session wants them.
    keep: LevelFilter,
    /// The highest level that some session wants (8 bits), and the number of the change that is
    /// known (above).
    level: AtomicU64,
    spans: Spans,
    /// Whether spans have ids of their own, and not those of a registry.
    has_own_ids: bool,
    /// A number that no other recorder has.
    number: u64,
    /// The spans that wait for ids of OpenTelemetry, if spans have those.
    #[cfg(feature = "opentelemetry")]
    given: Option<given::Given>,
}

/// Lets `tracing` ask each callsite's interest again.
///
/// While a process has a single dispatcher, `tracing` asks the one in force on this thread. But the
/// single one may be in force on other threads only. So it gets company for a moment.
fn ask_callsites_again() {
    keep_company();
    if dispatcher::get_default(Dispatch::is::<NoSubscriber>) {
        drop(Dispatch::new(NoSubscriber::default()));
    }
    rebuild_interest_cache();
}

/// The same for good in a process that captures events: there any test, with a subscriber or
/// without, may be the first to meet a callsite.
fn keep_company() {
    static COMPANY: OnceLock<Dispatch> = OnceLock::new();
    if bridge::has_captured() {
        COMPANY.get_or_init(|| Dispatch::new(NoSubscriber::default()));
    }
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
        bridge::on_change(ask_callsites_again);
        keep_company();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            naming: options.naming.shared(),
            polls: options.polls,
            directives: options.directives.or_else(directives::of_environment),
            keep: options.keep,
            level: AtomicU64::new(u64::MAX),
            spans: Spans::new(number, options.span_memory),
            has_own_ids: false,
            number,
            #[cfg(feature = "opentelemetry")]
            given: options.opentelemetry.then(given::Given::default),
        }
    }

    /// The same, for spans whose ids are chosen here.
    pub(crate) fn with_own_ids(self) -> Self {
        Self {
            has_own_ids: true,
            #[cfg(feature = "opentelemetry")]
            given: None,
            ..self
        }
    }

    fn row(&self, id: u64) -> Option<Found<'_>> {
        if self.has_own_ids { self.spans.at(id) } else { self.spans.find(id) }
    }

    /// Calls `f` with the [`row`](Self::row) of a span, if there is one. The caller knows whether
    /// spans have ids of their own.
    #[inline]
    fn with_row<const OWN_IDS: bool, R>(&self, id: u64, f: impl FnOnce(&Row) -> R) -> Option<R> {
        let near = if OWN_IDS { self.spans.at_place(id) } else { self.spans.find_near(id) };
        let found;
        let row = match near {
            Some(row) => row,
            None => {
                found = self.row_elsewhere(id)?;
                &*found
            }
        };
        Some(f(row))
    }

    #[cold]
    #[inline(never)]
    fn row_elsewhere(&self, id: u64) -> Option<Found<'_>> {
        self.row(id)
    }

    /// What `tracing` is to keep of whether a callsite is wanted. Called for each callsite when
    /// sessions change.
    ///
    /// In a process that captures events it keeps nothing, and asks [`wants`](Self::wants) each
    /// time. What is wanted changes with each test, and threads that register callsites meanwhile
    /// would leave old answers behind.
    pub(crate) fn register(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.is_wanted(metadata) {
            _ if bridge::has_captured() => Interest::sometimes(),
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    /// Whether some session wants a callsite now.
    fn is_wanted(&self, metadata: &'static Metadata<'static>) -> bool {
        if is_of_log(metadata) {
            return *metadata.level() <= self.max_level();
        }
        let is_wanted = match Callsite::of(metadata, self.naming) {
            Some(callsite) => callsite.is_wanted(),
            // Its events are counted as lost.
            None => self.naming.is_wanted(metadata.target(), *metadata.level()),
        };
        (is_wanted || self.keeps(metadata)) && self.lets_pass(metadata)
    }

    /// Whether a span is kept although no session wants it.
    fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && *metadata.level() <= self.keep
    }

    /// Whether the directives let a callsite pass.
    fn lets_pass(&self, metadata: &Metadata<'_>) -> bool {
        is_of_log(metadata) || self.lets_target_pass(metadata.target(), *metadata.level())
    }

    fn lets_target_pass(&self, target: &str, level: tracing_core::Level) -> bool {
        let passes = |targets: &Targets| targets.would_enable(target, &level);
        self.directives.as_ref().is_none_or(passes)
    }

    /// Whether a record of this target and level may be recorded.
    #[cfg(feature = "log")]
    pub(crate) fn passes(&self, target: &str, level: tracing_core::Level) -> bool {
        level <= self.max_level() && self.lets_target_pass(target, level)
    }

    /// Whether some session wanted a callsite at the last change.
    #[inline]
    pub(crate) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let is_wanted = match Callsite::find(metadata, self.naming) {
            Some(callsite) if !callsite.is_of_log => callsite.is_wanted(),
            // Metadata that is not a callsite's, made to ask whether it would be wanted.
            _ => *metadata.level() <= self.max_level(),
        };
        (is_wanted || self.keeps(metadata)) && self.lets_pass(metadata)
    }

    /// The level for `tracing` and `log` to keep: [`max_level`](Self::max_level), or the lowest of
    /// all for the same reason as in [`register`](Self::register).
    pub(crate) fn max_level_hint(&self) -> LevelFilter {
        if bridge::has_captured() { self.most_of(LevelFilter::TRACE) } else { self.max_level() }
    }

    /// The lowest of `tracing`'s levels that some session wants.
    pub(crate) fn max_level(&self) -> LevelFilter {
        // Relaxed: the word is the whole state.
        let known = self.level.load(Ordering::Relaxed);
        let of_sessions = if known >> 8 == u64::from(bridge::changes()) {
            known as u8
        } else {
            let changes = bridge::changes();
            let level = bridge::max_level().map_or(0, Level::number);
            self.level.store(u64::from(changes) << 8 | u64::from(level), Ordering::Relaxed);
            level
        };
        let of_sessions = match of_sessions {
            0 | 1 => LevelFilter::OFF,
            2 => LevelFilter::ERROR,
            3 => LevelFilter::WARN,
            4 => LevelFilter::INFO,
            _ => LevelFilter::TRACE,
        };
        self.most_of(of_sessions.max(self.keep))
    }

    /// The part of a level that the directives let pass.
    fn most_of(&self, level: LevelFilter) -> LevelFilter {
        let levels = |targets: &Targets| {
            let levels = targets.iter().map(|(_, level)| level).chain(targets.default_level());
            levels.max().unwrap_or(LevelFilter::OFF)
        };
        level.min(self.directives.as_ref().map_or(LevelFilter::TRACE, levels))
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
            let metadata = event.metadata();
            return self.naming.lose(metadata.target(), *metadata.level());
        };
        if callsite.has_words() {
            let mut visited = Visited::new();
            match visited.visit(|visitor| event.record(visitor)) {
                Ok(words) => {
                    self.event_of(event, callsite, words);
                    mem::forget(visited); // there is nothing to drop
                }
                Err(values) => self.event_of_values(event, callsite, values),
            }
        } else {
            self.event_of_values(event, callsite, Taken::of(|visitor| event.record(visitor)));
        }
    }

    #[inline(always)]
    fn event_of_values(&self, event: &Event<'_>, callsite: &'static Callsite, values: Taken) {
        if callsite.is_of_log {
            self.event_of_log(event, values);
        } else {
            self.event_of(event, callsite, &*values);
        }
    }

    #[inline(always)]
    fn event_of(&self, event: &Event<'_>, callsite: &'static Callsite, values: &impl Recorded) {
        #[cfg(feature = "log")]
        crate::log::note(callsite.metadata);
        if callsite.tells_error {
            self.note_error(event);
        }
        let Some(ty) = callsite.event_type(values.signature()) else { return };
        self.tell_entered();
        if event.is_contextual() {
            values.emit(ty);
        } else {
            self.event_elsewhere(event, ty, values);
        }
    }

    /// An event whose one field is `error`. If it has the place of the innermost span, it is what
    /// `#[instrument(err)]` says of the error that the call returns.
    #[cold]
    #[inline(never)]
    fn note_error(&self, event: &Event<'_>) {
        let place = |it: &Metadata<'static>| (it.file(), it.line(), it.module_path());
        let event = place(event.metadata());
        let row = stack::current(self.number).and_then(|id| self.row(id));
        let Some(row) = row.filter(|_| event.1.is_some()) else { return };
        if row.callsite(self.naming).is_some_and(|span| place(span.metadata) == event) {
            row.fail();
        }
    }

    /// An event that says which span it is in.
    #[inline(never)]
    fn event_elsewhere(&self, event: &Event<'_>, ty: &'static EventType, values: &impl Recorded) {
        match event.parent() {
            Some(parent) => self.within(parent.into_u64(), || values.emit(ty)),
            None => {
                let _scope = Context::none().enter();
                values.emit(ty);
            }
        }
    }

    /// An event that `tracing-log` has made of a record of the crate `log`.
    #[cold]
    #[inline(never)]
    fn event_of_log(&self, event: &Event<'_>, mut values: Taken) {
        // As `tracing-log` has it: the message, and where it comes from.
        let (target, module, file) = (values.text(1), values.text(2), values.text(3));
        let site = Site {
            target: target.as_deref().unwrap_or("log"),
            module: module.as_deref(),
            file: file.as_deref(),
            line: values.number(4).and_then(|line| line.try_into().ok()),
            level: *event.metadata().level(),
        };
        if !self.lets_target_pass(site.target, site.level) {
            return;
        }
        let is_wanted = || self.naming.is_wanted(site.target, site.level);
        let metadata = site.metadata(|_| {}, is_wanted);
        values.keep_first();
        self.record_of_log(&site, metadata, || values);
    }

    /// A record of the crate `log`. `values` makes its values.
    #[cfg(feature = "log")]
    pub(crate) fn log(
        &self,
        site: &Site<'_>,
        keys: impl Fn(&mut dyn FnMut(&str)),
        values: impl FnOnce() -> Taken,
    ) {
        if self.is_silent() {
            return;
        }
        let is_wanted = || self.naming.is_wanted(site.target, site.level);
        let metadata = site.metadata(keys, is_wanted);
        self.record_of_log(site, metadata, values);
    }

    /// A record from a place with this metadata, if there is room for it. `values` makes its
    /// values.
    fn record_of_log(
        &self,
        site: &Site<'_>,
        metadata: Option<&'static Metadata<'static>>,
        values: impl FnOnce() -> Taken,
    ) {
        let Some(callsite) = metadata.and_then(|it| Callsite::of(it, self.naming)) else {
            shares::explain_records(site);
            return self.naming.lose(site.target, site.level);
        };
        if !callsite.is_wanted() {
            return;
        }
        let values = values();
        if let Some(ty) = callsite.event_type(values.signature()) {
            self.tell_entered();
            values.emit(ty);
        }
    }

    /// Gives a span its ids if it waits for them: only those of OpenTelemetry are waited for.
    #[cfg(not(feature = "opentelemetry"))]
    #[inline]
    fn start(&self, _: u64) {}

    /// Calls `f` with an open span in force. If the span is not recorded, with nothing in force.
    fn within(&self, id: u64, f: impl FnOnce()) {
        self.start(id);
        match self.row(id).and_then(|row| row.ids()) {
            Some(ids) => {
                let entry = ids.enter();
                f();
                entry.leave();
            }
            None => {
                let _scope = Context::none().enter();
                f();
            }
        }
    }

    /// There is one more handle of a span.
    pub(crate) fn cloned(&self, id: u64) {
        if let Some(row) = self.row(id) {
            row.cloned();
        }
    }

    /// There is one handle less of a span with an id of its own. Returns whether it was the last.
    #[inline]
    pub(crate) fn dropped(&self, id: u64) -> bool {
        let is_last = self.with_row::<true, _>(id, |row| {
            let is_last = row.dropped();
            if is_last {
                self.close_row::<true>(id, row);
            }
            is_last
        });
        is_last.unwrap_or(false)
    }

    /// Fields of an open span become known.
    pub(crate) fn record(&self, id: u64, record: &span::Record<'_>) {
        if self.is_silent() {
            return;
        }
        let values = Taken::of(|visitor| record.record(visitor));
        #[cfg(feature = "opentelemetry")]
        let Some(values) = self.record_later(id, values) else { return };
        self.record_values(id, &values);
    }

    fn record_values(&self, id: u64, values: &Values) {
        let Some(row) = self.row(id) else { return stats::EVENTS_REFUSED.add(1) };
        let Some(callsite) = row.callsite(self.naming) else { return };
        if values.signature() == 0 {
            return;
        }
        if let Some(ty) = callsite.record_type(values.signature()) {
            self.tell_late(&row);
            self.within(id, || values.emit(ty));
        }
    }

    /// A span follows from another one.
    pub(crate) fn follows(&self, id: u64, from: u64) {
        if self.is_silent() {
            return;
        }
        self.start(id);
        self.start(from);
        let Some(row) = self.row(id) else { return stats::EVENTS_REFUSED.add(1) };
        let Some(from) = self.row(from).and_then(|row| row.ids()) else { return };
        let callsite = row.callsite(self.naming);
        if let Some(ty) = callsite.and_then(|callsite| callsite.other_type(Part::Follows)) {
            self.tell_late(&row);
            self.within(id, || Follows { ty, from }.emit());
        }
    }

    /// Tells sessions that began after the spans that this thread has entered of those.
    #[inline]
    fn tell_entered(&self) {
        stack::after_change(bridge::changes(), |owner, id| {
            if owner == self.number {
                if let Some(row) = self.row(id) {
                    self.tell_late(&row);
                }
            }
        });
    }

    /// Tells sessions that began after a span of its start.
    #[inline]
    fn tell_late(&self, row: &Row) {
        if row.told().changes != bridge::changes() {
            self.tell_late_now(row);
        }
    }

    #[cold]
    fn tell_late_now(&self, row: &Row) {
        let (told, changes) = (row.told(), bridge::changes());
        let callsite = row.callsite(self.naming);
        let late = callsite.filter(|callsite| callsite.is_wanted());
        let late = late.and_then(|callsite| callsite.other_type(Part::Late));
        let listening = late.map_or(0, EventType::enabled);
        // Those that have begun since then have the bits of others that have ended.
        let new = listening & (bridge::begun_after(told.changes) | !told.sessions);
        let sessions = told.sessions & !bridge::begun_after(told.changes) | listening;
        if !row.tell(told, Told { changes, sessions }) {
            return;
        }
        if let (Some(ty), Some(ids)) = (late, row.ids()) {
            let entry = ids.enter();
            let age = row.began().elapsed().as_nanos();
            bridge::emit_to(&Late { ty, age }, new);
            entry.leave();
        }
    }

    #[inline]
    pub(crate) fn enter<const OWN_IDS: bool>(&self, id: u64) {
        if !OWN_IDS {
            self.start(id);
        }
        self.with_row::<OWN_IDS, _>(id, |row| {
            self.tell_late(row);
            if stack::push(self.number, id, || row.enter()) && self.polls {
                self.mark(row, Part::Resume);
            }
        });
    }

    #[inline]
    pub(crate) fn exit<const OWN_IDS: bool>(&self, id: u64) {
        self.with_row::<OWN_IDS, _>(id, |row| {
            let Some(nanos) = stack::pop(self.number, id) else { return };
            row.left(nanos);
            if self.polls {
                self.within(id, || self.mark(row, Part::Suspend));
            }
        });
    }

    #[inline(never)]
    fn mark(&self, row: &Row, part: Part) {
        let callsite = row.callsite(self.naming);
        if let Some(ty) = callsite.and_then(|callsite| callsite.other_type(part)) {
            Mark(ty).emit();
        }
    }

    /// The last handle of a registry's span is gone.
    #[inline]
    pub(crate) fn close(&self, id: u64) {
        self.start(id);
        self.with_row::<false, _>(id, |row| self.close_row::<false>(id, row));
    }

    #[inline]
    fn close_row<const OWN_IDS: bool>(&self, id: u64, row: &Row) {
        if !self.is_silent() {
            self.tell_late(row);
            let stop = row.callsite(self.naming).and_then(|site| site.other_type(Part::Stop));
            if let Some(ty) = stop {
                match row.plain_ids() {
                    Some(ids) if !panicking() => {
                        ids.emit(&Stop::<true> { ty, row, outcome: Outcome::Ok });
                    }
                    _ => Self::stop_otherwise(ty, row),
                }
            }
        }
        if OWN_IDS {
            self.spans.close_at(id, row);
        } else {
            self.spans.close(id, row);
        }
    }

    /// Records the Stop of a span that has failed, or that is not plain.
    #[inline(never)]
    fn stop_otherwise(ty: &'static EventType, row: &Row) {
        let outcome = match row.has_failed() {
            _ if panicking() => Outcome::Panicked,
            true => Outcome::Err,
            false => Outcome::Ok,
        };
        if let Some(ids) = row.ids() {
            ids.emit(&Stop::<false> { ty, row, outcome });
        }
    }

    /// The innermost span that this thread has entered.
    pub(crate) fn current(&self) -> Option<(u64, &'static Metadata<'static>)> {
        let id = stack::current(self.number)?;
        Some((id, self.row(id)?.callsite(self.naming)?.metadata))
    }
}
