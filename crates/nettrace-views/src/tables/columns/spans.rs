//! The table of spans.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use arrow_array::{
    ArrayRef, Int64Array, TimestampNanosecondArray,
    builder::{Int64Builder, StringBuilder, UInt64Builder},
    types::UInt64Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nettrace_reader::Event;

use crate::{
    model::{Part, Role, SpanRef, SpanTable},
    tables::{
        BATCH, BATCH_BYTES,
        columns::{events::Row, payload::timestamp},
        facts::{LabelFacts, ThreadFacts, TypeFacts},
        partition::{Day, day_of},
        runs::Runs,
    },
};

/// About how many bytes a span takes that has not ended, without its labels and its thread.
const SPAN_BYTES: usize = 300;

/// The start or the end of a span.
#[derive(Clone, Debug)]
struct Edge {
    event: i64,
    time: i64,
    ty: Rc<TypeFacts>,
    thread: Rc<ThreadFacts>,
    labels: Rc<LabelFacts>,
}

impl Edge {
    fn of(row: &Row) -> Self {
        Self {
            event: row.event,
            time: row.time,
            ty: Rc::clone(&row.ty),
            thread: Rc::clone(&row.thread),
            labels: Rc::clone(&row.labels),
        }
    }

    /// About how many bytes a span takes that begins here.
    fn size(&self) -> usize {
        SPAN_BYTES + self.labels.size + self.thread.size()
    }
}

/// The spans that are under way, and the rows of those that wait to be written.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Those under way, with their starts.
    open: SpanTable<Edge>,
    /// By the day on which they began.
    rows: Vec<(Day, Rows)>,
    waiting: usize,
    /// The bytes of texts in rows.
    waiting_bytes: usize,
    is_partitioned: bool,
    /// The labels that were looked for, and whether their span has their parent.
    last: (Rc<LabelFacts>, bool),
}

#[derive(Debug, Default)]
struct Rows {
    starts: Vec<Option<i64>>,
    ends: Vec<Option<i64>>,
    durations: Int64Builder,
    types: Runs<Rc<TypeFacts>>,
    outcomes: StringBuilder,
    labels: Runs<Rc<LabelFacts>>,
    threads: Runs<Rc<ThreadFacts>>,
    end_threads: UInt64Builder,
    start_events: Vec<Option<i64>>,
    end_events: Vec<Option<i64>>,
}

impl Spans {
    /// `limit` bounds the memory for spans that are under way, in bytes. Unless `is_partitioned`,
    /// all are of day 0.
    pub(crate) fn new(limit: usize, is_partitioned: bool) -> Self {
        Self {
            open: SpanTable::new(limit, 0),
            rows: Vec::new(),
            waiting: 0,
            waiting_bytes: 0,
            is_partitioned,
            last: Default::default(),
        }
    }

    pub(crate) fn schema() -> SchemaRef {
        let fields = [
            ("start", timestamp(), true),
            ("end", timestamp(), true),
            ("duration_ns", DataType::Int64, true),
            ("provider", DataType::Utf8, false),
            ("name", DataType::Utf8, false),
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
        ];
        let fields = fields.map(|(name, ty, is_null)| Field::new(name, ty, is_null));
        Arc::new(Schema::new(fields.to_vec()))
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
            let start = start.map(|start| start.labels.ids.related);
            self.last = (Rc::clone(labels), start == Some(labels.ids.related));
        }
        self.last.1
    }

    /// What an event says of its span.
    pub(crate) fn event(&mut self, row: &Row, role: Role, event: &Event<'_>) {
        let ids = row.labels.ids;
        let Some(key) = ids.span else { return };
        let part = self.open.part(role, key, |start| {
            Some(start.ty.provider == row.ty.provider && start.ty.span == row.ty.span)
        });
        match part {
            Part::Start(other) => {
                if let Some(other) = other {
                    // Another one with its id.
                    self.open.given_up += 1;
                    self.end_without_stop(other);
                }
                let start = Edge::of(row);
                self.open.begin(ids.keys(), start.size(), start);
                while let Some(oldest) = self.open.give_up() {
                    self.end_without_stop(oldest);
                }
            }
            Part::Stop(place) => {
                let start = self.open.take(place);
                let (_, outcome) = row.ty.end.stated(event);
                self.row(start, Some(Edge::of(row)), None, outcome);
            }
            Part::Whole => {
                let (duration, outcome) = row.ty.end.stated(event);
                self.row(None, Some(Edge::of(row)), duration, outcome);
            }
            Part::Inside(_) | Part::Outside => {}
        }
    }

    fn end_without_stop(&mut self, place: SpanRef) {
        let start = self.open.take(place);
        self.row(start, None, None, None);
    }

    /// Makes rows of the spans that have not ended.
    pub(crate) fn end(&mut self) {
        while let Some(place) = self.open.oldest() {
            self.end_without_stop(place);
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

    fn row(
        &mut self,
        start: Option<Edge>,
        end: Option<Edge>,
        duration: Option<i64>,
        outcome: Option<Cow<'_, str>>,
    ) {
        let ended = end.as_ref().map(|edge| edge.time);
        let started = start.as_ref().map(|edge| edge.time);
        let started = started.or_else(|| Some(ended?.saturating_sub(duration?)));
        let time = started.or(ended).filter(|_| self.is_partitioned);
        let day = time.map_or(0, day_of);
        let at = self.rows.iter().rposition(|(known, _)| *known == day).unwrap_or_else(|| {
            self.rows.push((day, Rows::default()));
            self.rows.len() - 1
        });
        let texts = outcome.as_ref().map_or(0, |text| text.len());
        let size = |edge: &Edge| edge.size() + edge.ty.size();
        self.waiting_bytes += texts + start.iter().chain(&end).map(size).sum::<usize>();
        self.rows[at].1.push(start, end, started, outcome);
        self.waiting += 1;
    }
}

impl Rows {
    fn push(
        &mut self,
        start: Option<Edge>,
        end: Option<Edge>,
        started: Option<i64>,
        outcome: Option<Cow<'_, str>>,
    ) {
        let event = |edge: &Option<Edge>| edge.as_ref().map(|edge| edge.event);
        let ended = end.as_ref().map(|edge| edge.time);
        let Some(edge) = start.as_ref().or(end.as_ref()) else { return };
        self.starts.push(started);
        self.ends.push(ended);
        let took = started.zip(ended).map(|(start, end)| end.saturating_sub(start).max(0));
        self.durations.append_option(took);
        self.types.push(&edge.ty);
        self.outcomes.append_option(outcome.as_deref());
        self.labels.push(&edge.labels);
        self.threads.push(&edge.thread);
        self.end_threads.append_option(end.as_ref().and_then(|end| end.thread.id()));
        self.start_events.push(event(&start));
        self.end_events.push(event(&end));
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        use std::mem::take;
        let time = |times: Vec<Option<i64>>| -> ArrayRef {
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
        };
        let (types, labels, threads) = (&self.types, &self.labels, &self.threads);
        let columns = vec![
            time(take(&mut self.starts)),
            time(take(&mut self.ends)),
            Arc::new(self.durations.finish()),
            types.texts(|ty| Some(Cow::Borrowed(&ty.provider))),
            types.texts(|ty| Some(Cow::Borrowed(&ty.span))),
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
        ];
        self.types.clear();
        self.labels.clear();
        self.threads.clear();
        columns
    }
}
