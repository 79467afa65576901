//! The table of spans.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use arrow_array::{
    ArrayRef, Int64Array,
    builder::{Int64Builder, StringBuilder, UInt64Builder},
    types::UInt64Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nettrace_reader::Event;

use crate::{
    model::{Key, OwnTime, Part, PollTimes, Role, SpanRef, SpanTable, SpanWork, dimension_value},
    tables::{
        BATCH, BATCH_BYTES,
        columns::{
            events::{Row, map_type},
            span_fields::{FieldMaps, FieldTexts},
            times,
        },
        facts::{LabelFacts, ThreadFacts, TypeFacts},
        partition::{Day, day_of},
        runs::Runs,
        size_of,
    },
};

/// About how many bytes a span takes that has not ended, without its labels, fields and thread.
const SPAN_BYTES: usize = 400;

/// Of how many spans that are not known the times of children are kept.
const MOST_AWAITED: usize = size_of(16_384, 4);

/// The start or the end of a span.
#[derive(Clone, Debug)]
struct Edge {
    event: i64,
    time: i64,
    ty: Rc<TypeFacts>,
    thread: Rc<ThreadFacts>,
    labels: Rc<LabelFacts>,
    dimension: Option<String>,
    fields: FieldTexts,
}

impl Edge {
    fn of(row: &Row, event: &Event<'_>, is_end: bool) -> Self {
        Self {
            event: row.event,
            time: row.time,
            ty: Rc::clone(&row.ty),
            thread: Rc::clone(&row.thread),
            labels: Rc::clone(&row.labels),
            dimension: row.ty.dimension.and_then(|field| dimension_value(event, field)),
            fields: FieldTexts::of(event, &row.ty, is_end),
        }
    }

    /// About how many bytes a span takes that begins here.
    fn size(&self) -> usize {
        let dimension = self.dimension.as_ref().map_or(0, String::len);
        SPAN_BYTES + self.labels.size + self.thread.size() + self.fields.size() + dimension
    }
}

/// A span that is under way.
#[derive(Debug)]
struct OpenSpan {
    start: Edge,
    parent: Option<SpanRef>,
    own: OwnTime,
    /// Few spans have events of polls.
    polls: Option<Box<PollTimes>>,
}

/// The times of children whose parent is not known when they end. A span of one event becomes known
/// after its children.
#[derive(Debug, Default)]
struct Awaited {
    by_parent: HashMap<Key, OwnTime>,
    oldest: VecDeque<Key>,
}

/// When such a parent has begun, until that is known.
const EARLIEST: i64 = i64::MIN / 4;

impl Awaited {
    fn child(&mut self, parent: Key, from: i64, to: i64) {
        let oldest = &mut self.oldest;
        let own = self.by_parent.entry(parent).or_insert_with(|| {
            oldest.push_back(parent);
            OwnTime::begin(EARLIEST)
        });
        own.covered(from, to);
        if self.oldest.len() > MOST_AWAITED {
            let oldest = self.oldest.pop_front();
            oldest.map(|oldest| self.by_parent.remove(&oldest));
        }
    }

    /// The own time of a parent.
    fn own(&mut self, keys: [Option<Key>; 2], from: i64, to: i64) -> i64 {
        let lasts = to.saturating_sub(from).max(0);
        let found = keys.into_iter().flatten().find_map(|key| self.by_parent.remove(&key));
        let before = from.saturating_sub(EARLIEST);
        found.map_or(lasts, |mut own| own.end(to).saturating_sub(before).clamp(0, lasts))
    }
}

/// The spans that are under way, and the rows of those that wait to be written.
#[derive(Debug)]
pub(crate) struct Spans {
    open: SpanTable<OpenSpan>,
    awaited: Awaited,
    /// By the day on which they began.
    rows: Vec<(Day, Rows)>,
    waiting: usize,
    /// The bytes of texts in rows.
    waiting_bytes: usize,
    is_partitioned: bool,
    /// The labels that were looked for, and whether their span has their parent.
    last: (Rc<LabelFacts>, bool),
}

/// What is known of a span whose row is made.
#[derive(Debug, Default)]
struct Ended<'a> {
    start: Option<Edge>,
    end: Option<Edge>,
    /// When it began.
    started: Option<i64>,
    own: Option<i64>,
    work: SpanWork,
    outcome: Option<Cow<'a, str>>,
}

#[derive(Debug, Default)]
struct Rows {
    starts: Vec<Option<i64>>,
    ends: Vec<Option<i64>>,
    durations: Int64Builder,
    own: Int64Builder,
    busy: Int64Builder,
    polls: Int64Builder,
    longest_polls: Int64Builder,
    types: Runs<Rc<TypeFacts>>,
    dimensions: StringBuilder,
    outcomes: StringBuilder,
    labels: Runs<Rc<LabelFacts>>,
    threads: Runs<Rc<ThreadFacts>>,
    end_threads: UInt64Builder,
    start_events: Vec<Option<i64>>,
    end_events: Vec<Option<i64>>,
    fields: FieldMaps,
}

impl Spans {
    /// `limit` bounds the memory for spans that are under way, in bytes. Unless `is_partitioned`,
    /// all are of day 0.
    pub(crate) fn new(limit: usize, is_partitioned: bool) -> Self {
        Self {
            open: SpanTable::new(limit, 0),
            awaited: Awaited::default(),
            rows: Vec::new(),
            waiting: 0,
            waiting_bytes: 0,
            is_partitioned,
            last: Default::default(),
        }
    }

    pub(crate) fn schema() -> SchemaRef {
        let mut fields = Vec::new();
        for name in ["start", "end"] {
            fields.extend(times::fields([name.to_owned(), times::nanos_name(name)], true));
        }
        for (name, ty, is_null) in [
            ("duration_ns", DataType::Int64, true),
            ("own_ns", DataType::Int64, true),
            ("busy_ns", DataType::Int64, true),
            ("polls", DataType::Int64, true),
            ("longest_poll_ns", DataType::Int64, true),
            ("service", DataType::Utf8, true),
            ("provider", DataType::Utf8, false),
            ("name", DataType::Utf8, false),
            ("dimension", DataType::Utf8, true),
            ("outcome", DataType::Utf8, true),
            ("trace_id", DataType::Utf8, true),
            ("span_id", DataType::Utf8, true),
            ("parent_id", DataType::Utf8, true),
            ("process", DataType::UInt64, true),
            ("thread", DataType::UInt64, true),
            ("thread_name", DataType::Utf8, true),
            ("end_thread", DataType::UInt64, true),
            ("start_event", DataType::Int64, true),
            ("end_event", DataType::Int64, true),
            ("fields", map_type(), false),
        ] {
            fields.push(Arc::new(Field::new(name, ty, is_null)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Whether a row says as the parent of the event's span what the event is related to.
    #[inline]
    pub(crate) fn has_parent(&mut self, labels: &Rc<LabelFacts>, role: Role) -> bool {
        let (Some(span), Some(_)) = (labels.ids.span, labels.ids.related) else { return false };
        if role.is_edge() {
            return true;
        }
        if !Rc::ptr_eq(&self.last.0, labels) {
            let start = self.open.find(span).and_then(|place| self.open.get(place));
            let start = start.map(|it| it.start.labels.ids.related);
            self.last = (Rc::clone(labels), start == Some(labels.ids.related));
        }
        self.last.1
    }

    /// What an event says of its span.
    pub(crate) fn event(&mut self, row: &Row, role: Role, event: &Event<'_>) {
        let ids = row.labels.ids;
        let Some(key) = ids.span else { return };
        let part = self.open.part(role, key, |span| {
            let ty = &span.start.ty;
            Some(ty.provider == row.ty.provider && ty.span == row.ty.span)
        });
        match part {
            Part::Start(other) => {
                if let Some(other) = other {
                    // Another one with its id.
                    self.open.given_up += 1;
                    self.end_without_stop(other, row.time);
                }
                let start = Edge::of(row, event, false);
                let parent = ids.related.and_then(|key| self.open.find(key));
                if let Some(parent) = parent.and_then(|parent| self.open.get_mut(parent)) {
                    parent.own.child_begins(row.time);
                }
                let (size, own) = (start.size(), OwnTime::begin(row.time));
                self.open.begin(ids.keys(), size, OpenSpan { start, parent, own, polls: None });
                while let Some(oldest) = self.open.give_up() {
                    self.end_without_stop(oldest, row.time);
                }
            }
            Part::Stop(place) => self.stop(place, row, event),
            Part::Whole => self.whole(row, event),
            Part::Inside(place) => {
                if matches!(role, Role::Resume | Role::Suspend) {
                    if let Some(span) = self.open.get_mut(place) {
                        span.polls.get_or_insert_default().event(role, row.time);
                    }
                }
            }
            Part::Outside => {}
        }
    }

    fn stop(&mut self, place: SpanRef, row: &Row, event: &Event<'_>) {
        let Some(OpenSpan { start, parent, mut own, polls }) = self.open.take(place) else {
            return;
        };
        let (from, to) = (start.time, row.time);
        match parent {
            Some(parent) => self.child_ends(parent, to),
            None => self.awaits(start.labels.ids.related, from, to),
        }
        let (_, outcome) = row.ty.end.stated(event);
        let work = row.ty.end.work(event).or(polls.unwrap_or_default().work);
        self.row(Ended {
            started: Some(from),
            own: Some(own.end(to)),
            start: Some(start),
            end: Some(Edge::of(row, event, true)),
            work,
            outcome,
        });
    }

    /// A span becomes known at its end.
    fn whole(&mut self, row: &Row, event: &Event<'_>) {
        let (ids, to) = (row.labels.ids, row.time);
        let (duration, outcome) = row.ty.end.stated(event);
        let started = duration.map(|duration| to.saturating_sub(duration));
        if let Some(from) = started {
            let parent = ids.related.and_then(|key| self.open.find(key));
            match parent.and_then(|parent| self.open.get_mut(parent)) {
                Some(parent) => parent.own.covered(from, to),
                None => self.awaits(ids.related, from, to),
            }
        }
        let own = started.map(|from| self.awaited.own(ids.keys(), from, to));
        self.row(Ended {
            started,
            own,
            start: None,
            end: Some(Edge::of(row, event, true)),
            work: row.ty.end.work(event),
            outcome,
        });
    }

    fn end_without_stop(&mut self, place: SpanRef, at: i64) {
        let Some(OpenSpan { start, parent, polls, .. }) = self.open.take(place) else { return };
        if let Some(parent) = parent {
            self.child_ends(parent, at);
        }
        let work = polls.unwrap_or_default().work;
        self.row(Ended { started: Some(start.time), start: Some(start), work, ..Ended::default() });
    }

    fn child_ends(&mut self, parent: SpanRef, at: i64) {
        if let Some(parent) = self.open.get_mut(parent) {
            parent.own.child_ends(at);
        }
    }

    /// Notes a child whose parent is not known.
    fn awaits(&mut self, parent: Option<Key>, from: i64, to: i64) {
        if let Some(parent) = parent {
            self.awaited.child(parent, from, to);
        }
    }

    /// Makes rows of the spans that have not ended.
    pub(crate) fn end(&mut self) {
        while let Some(place) = self.open.oldest() {
            self.end_without_stop(place, i64::MAX);
        }
    }

    /// How many spans have no end because too many were under way.
    pub(crate) fn given_up(&self) -> u64 {
        self.open.given_up
    }

    /// Whether the rows that wait take much memory.
    pub(crate) fn is_large(&self) -> bool {
        self.waiting_bytes >= BATCH * SPAN_BYTES + BATCH_BYTES
    }

    /// How many rows wait to be written.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Takes the rows that wait, by their days.
    pub(crate) fn finish(&mut self) -> Vec<(Day, Vec<ArrayRef>)> {
        (self.waiting, self.waiting_bytes) = (0, 0);
        let days = std::mem::take(&mut self.rows);
        days.into_iter().map(|(day, mut rows)| (day, rows.finish())).collect()
    }

    fn row(&mut self, span: Ended<'_>) {
        let ended = span.end.as_ref().map(|edge| edge.time);
        let time = span.started.or(ended).filter(|_| self.is_partitioned);
        let day = time.map_or(0, day_of);
        let at = self.rows.iter().rposition(|(known, _)| *known == day).unwrap_or_else(|| {
            self.rows.push((day, Rows::default()));
            self.rows.len() - 1
        });
        let texts = span.outcome.as_ref().map_or(0, |text| text.len());
        let size = |edge: &Edge| edge.size() + edge.ty.size();
        self.waiting_bytes += texts + span.start.iter().chain(&span.end).map(size).sum::<usize>();
        self.rows[at].1.push(&span);
        self.waiting += 1;
    }
}

impl Rows {
    fn push(&mut self, span: &Ended<'_>) {
        let Ended { start, end, started, own, work, outcome } = span;
        let Some(edge) = start.as_ref().or(end.as_ref()) else { return };
        let nanos = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        let event = |edge: &Option<Edge>| edge.as_ref().map(|edge| edge.event);
        let ended = end.as_ref().map(|edge| edge.time);
        self.starts.push(*started);
        self.ends.push(ended);
        let took = started.zip(ended).map(|(start, end)| end.saturating_sub(start).max(0));
        self.durations.append_option(took);
        self.own.append_option(*own);
        self.busy.append_option(work.busy.map(nanos));
        self.polls.append_option(work.polls.map(nanos));
        self.longest_polls.append_option(work.longest_poll.map(nanos));
        self.types.push(&edge.ty);
        // The end knows better.
        let mut dimensions = end.iter().chain(start).filter_map(|edge| edge.dimension.as_deref());
        self.dimensions.append_option(dimensions.next());
        self.outcomes.append_option(outcome.as_deref());
        self.labels.push(&edge.labels);
        self.threads.push(&edge.thread);
        self.end_threads.append_option(end.as_ref().and_then(|end| end.thread.id()));
        self.start_events.push(event(start));
        self.end_events.push(event(end));
        let [start, end] =
            [start, end].map(|edge| edge.as_ref().map(|edge| (&*edge.ty, &edge.fields)));
        self.fields.push(start, end);
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        use std::mem::take;
        let (types, labels, threads) = (&self.types, &self.labels, &self.threads);
        let [start, start_ns] = times::columns(take(&mut self.starts).into());
        let [end, end_ns] = times::columns(take(&mut self.ends).into());
        let columns: Vec<ArrayRef> = vec![
            start,
            start_ns,
            end,
            end_ns,
            Arc::new(self.durations.finish()),
            Arc::new(self.own.finish()),
            Arc::new(self.busy.finish()),
            Arc::new(self.polls.finish()),
            Arc::new(self.longest_polls.finish()),
            threads.texts(|thread| thread.service.as_deref().map(Cow::Borrowed)),
            types.texts(|ty| Some(Cow::Borrowed(&ty.provider))),
            types.texts(|ty| Some(Cow::Borrowed(&ty.span))),
            Arc::new(self.dimensions.finish()),
            Arc::new(self.outcomes.finish()),
            labels.texts(|labels| labels.trace()),
            labels.texts(|labels| labels.span()),
            labels.texts(|labels| labels.related()),
            threads.numbers::<UInt64Type>(|thread| thread.process),
            threads.numbers::<UInt64Type>(|thread| thread.id()),
            threads.texts(|thread| thread.name().map(Cow::Borrowed)),
            Arc::new(self.end_threads.finish()),
            Arc::new(Int64Array::from(take(&mut self.start_events))),
            Arc::new(Int64Array::from(take(&mut self.end_events))),
            self.fields.finish(),
        ];
        self.types.clear();
        self.labels.clear();
        self.threads.clear();
        columns
    }
}
