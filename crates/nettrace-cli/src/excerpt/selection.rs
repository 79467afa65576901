//! The traces of which something passes the filters.
//!
//! A span is judged by all its events, as `nettrace tree` does it. So it is known at its end
//! whether it passes, and then its trace has begun long before. So a file is read twice: first to
//! learn which traces are wanted, then for their events. What has no trace id, as in versions 4 and
//! 5, is of the trace of its outermost span, which has a number here. The second pass counts those
//! again, and so in the same way.

use std::{collections::HashSet, io};

use nettrace_event::trace_context::TraceId;
use nettrace_reader::{Event, Trace, WallTime};
use nettrace_views::{
    model::{Ids, PerType, SpanRef, role_of},
    text::EventType,
};

use super::{
    frames::{Around, Frames},
    judge::{Filters, SpanJudge},
};
use crate::{failure::Failure, filter::EventFilter, read_options::ReadOptions, source::Source};

/// What an id takes in a set.
const ID_BYTES: usize = 40;

/// Which events of a trace are wanted.
pub(super) struct Selection {
    filters: Filters,
    traces: HashSet<TraceId>,
    frames: Frames,
    types: PerType<EventType>,
    version: u32,
    /// The numbers of outermost spans without a trace id.
    trees: HashSet<u64>,
    judge: SpanJudge<u64>,
    /// How many outermost spans without a trace id there were.
    count: u64,
    /// The trace, and how many events the first pass has read.
    pub(super) start: (u64, WallTime),
    pub(super) events: u64,
    /// Why nothing was found.
    pub(super) nothing: Option<String>,
}

impl Selection {
    /// Reads a trace, as far as that is possible: the second pass says what is wrong with it.
    pub(super) fn of(
        source: Source,
        limits: ReadOptions,
        options: &EventFilter,
    ) -> Result<Self, Failure> {
        let mut events = limits.options().open(source)?.sorted();
        let mut selection =
            Self::new(options, events.trace(), events.major_version(), limits.definitions())?;
        let mut traced = SpanJudge::new(limits.definitions() / 2);
        while let Ok(Some(event)) = events.next_event() {
            selection.events += 1;
            selection.learn(&event, &mut traced)?;
            let ids = selection.traces.len() + selection.trees.len() + selection.frames.ids;
            if ids * ID_BYTES > limits.definitions() {
                let what = "the ids of the traces that pass the filters";
                return Err(Failure::TooMuch(what, limits.definitions()));
            }
        }
        selection.end(&mut traced, limits.definitions());
        if selection.count() == 0 {
            selection.nothing = selection.filters.filter.report(options);
        }
        Ok(selection)
    }

    fn new(
        options: &EventFilter,
        trace: &Trace,
        version: u32,
        limit: usize,
    ) -> Result<Self, Failure> {
        Ok(Self {
            filters: Filters::new(options, trace, version)?,
            traces: HashSet::new(),
            frames: Frames::default(),
            types: PerType::default(),
            version,
            trees: HashSet::new(),
            judge: SpanJudge::new(limit / 2),
            count: 0,
            start: super::start(trace),
            events: 0,
            nothing: None,
        })
    }

    /// How many traces are wanted.
    pub(super) fn count(&self) -> usize {
        self.traces.len() + self.trees.len() + self.frames.kept.len()
    }

    /// Takes an event of the first pass.
    fn learn(&mut self, event: &Event<'_>, traced: &mut SpanJudge<Around>) -> io::Result<()> {
        let ids = Ids::of(&event.labels());
        let Some(trace) = ids.trace else { return self.without_trace(event, &ids).map(drop) };
        if self.traces.contains(&trace) {
            return Ok(());
        }
        let judged = traced.event(&mut self.filters, event, &ids, |_| (trace, ids.related))?;
        match judged.span {
            None if judged.passes => {
                self.traces.insert(trace);
            }
            None => {}
            Some(span) => {
                let is_end = judged.is_end;
                if judged.passes || (is_end && traced.accepts(&self.filters, span)) {
                    self.pass(traced, span);
                }
                if is_end && self.frames.ended(traced, span) {
                    self.traces.insert(trace);
                }
            }
        }
        while let Some(oldest) = traced.spans.give_up() {
            if traced.accepts(&self.filters, oldest) {
                self.pass(traced, oldest);
            }
            traced.spans.take(oldest);
        }
        Ok(())
    }

    /// A span passes, or something in it.
    fn pass(&mut self, traced: &SpanJudge<Around>, span: SpanRef) {
        if self.frames.passes(traced, span) {
            self.traces.insert(traced.spans[span].kept.0);
        }
    }

    /// Judges spans that have no end, and begins the second pass.
    fn end(&mut self, traced: &mut SpanJudge<Around>, limit: usize) {
        for open in traced.spans.places() {
            if traced.spans.is_open(open) && traced.accepts(&self.filters, open) {
                self.pass(traced, open);
            }
        }
        self.traces.extend(self.frames.end(traced, &self.traces));
        while let Some(open) = self.judge.spans.oldest() {
            if self.judge.accepts(&self.filters, open) {
                self.trees.insert(self.judge.spans[open].kept);
            }
        }
        (self.judge, self.count) = (SpanJudge::new(limit / 2), 0);
    }

    /// Takes an event of the second pass: whether it is wanted.
    pub(super) fn has(&mut self, event: &Event<'_>) -> io::Result<bool> {
        let ids = Ids::of(&event.labels());
        match ids.trace {
            Some(trace) if self.traces.contains(&trace) => Ok(true),
            Some(trace) if self.frames.are_in(trace) => {
                let role = role_of(event.metadata(), ids.overrides.opcode, self.version);
                match self.frames.has(&ids, role) {
                    Some(has) => Ok(has),
                    None => {
                        let ty = self.types.of(event, EventType::of);
                        self.filters.pass(event, ty)
                    }
                }
            }
            Some(_) => Ok(false),
            None => self.without_trace(event, &ids),
        }
    }

    /// Takes an event without a trace id, in both passes. In the second one, says whether it is
    /// wanted.
    fn without_trace(&mut self, event: &Event<'_>, ids: &Ids) -> io::Result<bool> {
        let Self { filters, trees, judge, count, .. } = self;
        let judged = judge.event(filters, event, ids, |around| {
            around.copied().unwrap_or_else(|| {
                *count += 1;
                *count
            })
        })?;
        let Some(span) = judged.span else { return Ok(judged.passes) };
        let tree = judge.spans[span].kept;
        if judged.passes || (judged.is_end && judge.accepts(filters, span)) {
            trees.insert(tree);
        }
        while let Some(oldest) = judge.spans.give_up() {
            if judge.accepts(filters, oldest) {
                trees.insert(judge.spans[oldest].kept);
            }
            judge.spans.take(oldest);
        }
        Ok(trees.contains(&tree))
    }
}
