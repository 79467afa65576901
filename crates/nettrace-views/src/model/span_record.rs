//! The record of one span, made of its events, for all that show spans one by one.

use nettrace_reader::Event;

use crate::model::{Ids, Key, Role, process_id};

/// A start, a stop, or an event for a whole span.
#[derive(Clone, Copy, Debug)]
pub struct SpanEdge<'a> {
    /// The span.
    pub span: Key,
    /// The ids of the event.
    pub ids: Ids,
    /// Nanoseconds since the start of the trace.
    pub at: i64,
    /// 0 if it is not known.
    pub process: u32,
    /// The id of the thread in the system.
    pub thread: Option<u64>,
    /// The duration that the event states, in nanoseconds.
    pub duration: Option<i64>,
    /// The outcome that the event states.
    pub outcome: Option<&'a str>,
}

impl<'a> SpanEdge<'a> {
    /// An event of a span, with what it states of the end.
    #[must_use]
    pub fn of(
        event: &Event<'_>,
        (span, ids): (Key, Ids),
        at: i64,
        (duration, outcome): (Option<i64>, Option<&'a str>),
    ) -> Self {
        let process = process_id(event).and_then(|id| id.try_into().ok()).unwrap_or(0);
        Self { span, ids, at, process, thread: event.thread().os_thread_id, duration, outcome }
    }
}

/// What is in a trace of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanState {
    /// Neither start nor stop, only events inside.
    Unknown,
    /// The start without the stop.
    Started,
    /// The stop without the start.
    OnlyStopped,
    /// Both.
    Ended,
    /// One event that stands for the whole span.
    Single,
}

impl SpanState {
    /// The name in JSON and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Started => "without_end",
            Self::OnlyStopped => "without_start",
            Self::Ended => "ended",
            Self::Single => "single",
        }
    }
}

/// What the events of a span say of it.
#[derive(Clone, Debug)]
pub struct SpanRecord {
    /// The process in which it began; 0 if that is not known.
    pub process: u32,
    /// The thread on which it began.
    pub thread: Option<u64>,
    /// Nanoseconds since the start of the trace. If only the stop is in the trace, the start is
    /// computed from the duration that the stop states, if it states one.
    pub start: Option<i64>,
    /// Nanoseconds since the start of the trace.
    pub end: Option<i64>,
    /// When the span's first event came.
    pub seen: i64,
    /// Which of its events there are.
    pub state: SpanState,
    /// How it ended.
    pub outcome: Option<Box<str>>,
}

impl SpanRecord {
    /// A span of which one event inside is known, or nothing yet.
    #[must_use]
    pub fn new(seen: i64) -> Self {
        Self {
            process: 0,
            thread: None,
            start: None,
            end: None,
            seen,
            state: SpanState::Unknown,
            outcome: None,
        }
    }

    /// The span starts.
    pub fn start(&mut self, edge: &SpanEdge<'_>) {
        (self.process, self.thread) = (edge.process, edge.thread);
        (self.start, self.state) = (Some(edge.at), SpanState::Started);
    }

    /// The span, of which the start is known, stops.
    pub fn stop(&mut self, edge: &SpanEdge<'_>) {
        (self.end, self.state) = (Some(edge.at), SpanState::Ended);
        self.outcome = edge.outcome.map(Into::into);
    }

    /// The span becomes known at its end: by one event for all of it, or by its stop alone.
    pub fn whole(&mut self, role: Role, edge: &SpanEdge<'_>) {
        self.start(edge);
        self.stop(edge);
        self.start = edge.duration.map(|duration| edge.at.saturating_sub(duration));
        self.state = match role {
            Role::Single => SpanState::Single,
            _ => SpanState::OnlyStopped,
        };
    }

    /// Nanoseconds from start to end, if both are known.
    #[must_use]
    pub fn duration(&self) -> Option<i64> {
        Some(self.end?.saturating_sub(self.start?))
    }

    /// How long a span lasts at least that has no end in the trace, if it lasts still at `last`,
    /// the time of the last event.
    #[must_use]
    pub fn at_least(&self, last: i64) -> Option<i64> {
        let start = self.start.filter(|_| self.state == SpanState::Started)?;
        Some(last.saturating_sub(start).max(0))
    }

    /// The first time at which the span is known to exist.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.start.unwrap_or(self.seen)
    }
}
