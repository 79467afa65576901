//! Spans that filters judge by all their events, while a trace is read in the order of time.

use std::{io, sync::Arc};

use nettrace_reader::{Event, Trace};
use nettrace_views::{
    model::{
        Clock, EndFields, Ids, Part, PerType, Processes, SpanEdge, SpanRecord, SpanRef, SpanState,
        SpanTable, role_of, span_name, span_of_record,
    },
    text::{EventType, Payload},
};

use crate::{
    dump,
    failure::Failure,
    filter::{EventFilter, Filter, SpanFacts, Verdict},
    spelling,
};

/// What a span takes, with the links of its table.
const SPAN_BYTES: usize = size_of::<JudgedSpan<u64>>() + 176;

/// How many spans are found after their end: by their children, and by events inside of them.
const MOST_ENDED: usize = 1 << 16;

/// The filters of a command, and what they need to know of the trace.
pub(crate) struct Filters {
    pub(crate) filter: Filter,
    clock: Clock,
    processes: Processes,
    version: u32,
}

impl Filters {
    pub(crate) fn new(options: &EventFilter, trace: &Trace, version: u32) -> Result<Self, Failure> {
        let (clock, processes) = (Clock::of(trace), Processes::of(trace));
        let filter = Filter::new(options, clock)?;
        match filter.has_too_many_conditions() {
            true => Err(Failure::TooManyConditions),
            false => Ok(Self { filter, clock, processes, version }),
        }
    }

    #[cfg(unix)]
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether an event passes by itself.
    pub(crate) fn pass(&mut self, event: &Event<'_>, ty: &EventType) -> io::Result<bool> {
        let Self { filter, processes, .. } = self;
        if !filter.passes(event) {
            return Ok(false);
        }
        dump::passes(filter, event, ty, &Payload::of(event, ty), processes)
    }
}

/// Judges spans. `T` is what its user keeps of each.
pub(crate) struct SpanJudge<T> {
    types: PerType<JudgedType>,
    pub(crate) spans: SpanTable<JudgedSpan<T>>,
    /// The latest time.
    last: i64,
}

/// An event type, as far as it matters here.
struct JudgedType {
    ty: EventType,
    of: Arc<SpanType>,
    end: EndFields,
    is_record: bool,
}

/// What spans are of.
#[derive(Debug, PartialEq, Eq)]
struct SpanType {
    provider: Box<str>,
    name: Box<str>,
}

/// A span so far.
pub(crate) struct JudgedSpan<T> {
    record: SpanRecord,
    of: Option<Arc<SpanType>>,
    verdict: Verdict,
    pub(crate) kept: T,
}

#[cfg(unix)]
impl<T> JudgedSpan<T> {
    pub(crate) fn record(&self) -> &SpanRecord {
        &self.record
    }

    /// Its provider and name. `None` if neither its start nor its end is known.
    pub(crate) fn name(&self) -> Option<(&str, &str)> {
        self.of.as_ref().map(|of| (&*of.provider, &*of.name))
    }
}

/// What an event is to the filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// Whether it passes by itself.
    pub(crate) passes: bool,
    /// Its span.
    pub(crate) span: Option<SpanRef>,
    /// Whether it has ended the span.
    pub(crate) is_end: bool,
}

impl<T> SpanJudge<T> {
    /// `limit` is on the memory for spans under way, in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let spans = SpanTable::new(limit, MOST_ENDED);
        Self { types: PerType::default(), spans, last: i64::MIN }
    }

    /// Judges an event. `keep` makes what is kept of a new span, from the span around it.
    pub(crate) fn event(
        &mut self,
        filters: &mut Filters,
        event: &Event<'_>,
        ids: &Ids,
        keep: impl FnOnce(Option<&T>) -> T,
    ) -> io::Result<Judged> {
        let Filters { filter, clock, processes, version } = filters;
        let at = clock.since_start(event.header.timestamp);
        self.last = self.last.max(at);
        let ty = self.types.of(event, |metadata| JudgedType {
            ty: EventType::of(metadata),
            of: Arc::new(SpanType {
                provider: (*metadata.provider).into(),
                name: span_name(&spelling::event_name(metadata)).into(),
            }),
            end: EndFields::of(metadata),
            is_record: span_of_record(metadata).is_some(),
        });
        let payload = Payload::of(event, &ty.ty);
        let verdict = dump::judge(filter, event, &ty.ty, &payload, processes)?;
        let passes = filter.accepts(verdict, None);
        let alone = Judged { passes, span: None, is_end: false };
        let Some(key) = ids.span else { return Ok(alone) };
        let role = role_of(event.metadata(), ids.overrides.opcode, *version);
        let part = match role.is_edge() {
            true => self.spans.part(role, key, |span| {
                let is_known = span.record.state != SpanState::Unknown;
                is_known.then(|| span.of.as_ref() == Some(&ty.of))
            }),
            false => Part::Outside,
        };
        let is_heard = |at: &SpanRef| self.spans[*at].record.state == SpanState::Unknown;
        let met = match part {
            Part::Inside(at) | Part::Stop(at) => Some(at),
            Part::Start(at) => at.filter(is_heard),
            Part::Whole | Part::Outside => self.spans.find(key),
        };
        let span = met.unwrap_or_else(|| {
            let around = ids.related.and_then(|key| self.spans.find(key));
            let kept = keep(around.map(|at| &self.spans[at].kept));
            let new = SpanRecord::new(at);
            let new = JudgedSpan { record: new, of: None, verdict: Verdict::default(), kept };
            self.spans.add(ids.keys(), new)
        });
        let (duration, outcome) = match role.is_edge() {
            true => ty.end.stated(event),
            false => (None, None),
        };
        let edge = SpanEdge::of(event, (key, *ids), at, (duration, outcome.as_deref()));
        let of = Arc::clone(&ty.of);
        let is_record = ty.is_record;
        let judged = Judged { passes, span: Some(span), is_end: false };
        let Some(it) = self.spans.get_mut(span) else { return Ok(alone) };
        let is_of_span = match part {
            Part::Start(_) => {
                it.record.start(&edge);
                it.of = Some(of);
                it.verdict.add(verdict);
                self.spans.open(span, SPAN_BYTES);
                return Ok(judged);
            }
            Part::Stop(_) => {
                it.record.stop(&edge);
                self.spans.end(span);
                true
            }
            Part::Whole => {
                it.record.whole(role, &edge);
                it.of = Some(of);
                true
            }
            Part::Inside(_) | Part::Outside => false,
        };
        if let Some(it) = self.spans.get_mut(span).filter(|_| is_of_span || is_record) {
            it.verdict.add(verdict);
        }
        Ok(Judged { is_end: is_of_span, ..judged })
    }

    /// Keeps something of so many bytes with a span, which counts as one under way from now on.
    #[cfg(unix)]
    pub(crate) fn keep(&mut self, span: SpanRef, bytes: usize, keep: impl FnOnce(&mut T)) {
        self.spans.open(span, SPAN_BYTES);
        self.spans.grow(span, bytes);
        if let Some(span) = self.spans.get_mut(span) {
            keep(&mut span.kept);
        }
    }

    /// Whether a span passes all filters, as far as is known of it now.
    pub(crate) fn accepts(&self, filters: &Filters, span: SpanRef) -> bool {
        self.spans.get(span).is_some_and(|span| {
            let name = span.of.as_ref().map(|of| &*of.name);
            let facts = SpanFacts { record: &span.record, name, last: self.last };
            filters.filter.accepts(span.verdict, Some(&facts))
        })
    }
}
