//! Everything that the page shows, gathered while the trace is read once.

use std::{cmp::Reverse, collections::BTreeMap};

use foldhash::HashMap;
use nettrace_reader::{Error, Event, LastLabels, SortedReader, Source};

use crate::{
    model::{
        Clock, EndFields, FrameNames, Ids, InstrumentEvent, PerType, Role, SpanCounts, SpanEdge,
        SpanWork, clip, dimension, dimension_value, event_name, is_failure, is_given_up, place,
        process_id, role_of, span_name, span_of_record,
    },
    report::{
        Describe, Options,
        errors::{self, Errors},
        instruments::Instruments,
        samples::Samples,
        spans::{Edge, Spans, Text},
        timeline::Timeline,
    },
};

/// How many providers, and how many threads, have a row of their own.
const MOST_ROWS: usize = 4096;

/// How many event types are distinguished.
const MOST_TYPES: usize = 1 << 16;

/// How many characters of an event's text are kept.
const MOST_TEXT: usize = 2000;

/// What is known of an event type, by its id in the stream.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its place in [`Gathered::types`].
    ty: usize,
    /// The row of its provider.
    row: usize,
    /// The number of its spans' name, once there is a span.
    span: Option<u32>,
    is_sample: bool,
    /// Whether its events are messages.
    is_message: bool,
    /// Whether its events name code.
    is_lesson: bool,
    /// What its events say of instruments.
    instrument: Option<InstrumentEvent>,
    end: EndFields,
    /// The field whose values tell its spans apart.
    dimension: Option<usize>,
    /// Whether that field was asked for.
    is_asked_for: bool,
    /// Whether it became known after the span began, and before it ended.
    is_later: bool,
    /// That of its events without a label that replaces the opcode.
    role: Role,
    /// What stands for the name of its spans.
    counted: u64,
}

/// The counts of an event type.
#[derive(Debug)]
pub(crate) struct TypeCount {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) id: u32,
    /// Its place in the source code.
    pub(crate) place: Option<String>,
    pub(crate) events: u64,
    pub(crate) payload_bytes: u64,
}

/// The counts of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCount {
    pub(crate) index: u64,
    pub(crate) process: Option<u64>,
    pub(crate) id: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// Its row, if it has events.
    pub(crate) row: Option<usize>,
}

/// What tells threads of one index apart.
type ThreadKey = (u64, Option<u64>, Option<u64>);

/// Everything that was gathered.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) clock: Clock,
    version: u32,
    pub(crate) types: Vec<TypeCount>,
    type_index: HashMap<(String, u32, String), usize>,
    known: PerType<Known>,
    pub(crate) timeline: Timeline,
    /// Providers and their rows.
    pub(crate) providers: Vec<(String, usize)>,
    pub(crate) thread_rows: BTreeMap<ThreadKey, usize>,
    last_thread: Option<(ThreadKey, usize)>,
    /// The labels of the last event, and what they say.
    labels: LastLabels,
    ids: Ids,
    /// The name of the field that is the dimension of all types.
    by: Option<String>,
    pub(crate) spans: Spans,
    pub(crate) counts: SpanCounts,
    pub(crate) samples: Samples,
    pub(crate) instruments: Instruments,
    pub(crate) errors: Errors,
    /// What else is logged.
    pub(crate) messages: Errors,
    pub(crate) first: Option<u64>,
    pub(crate) last: u64,
    pub(crate) events: u64,
}

/// Reads a trace to its end, or as far as it can be read.
pub(crate) fn gather<R: Source>(
    events: &mut SortedReader<R>,
    describe: &mut dyn Describe,
    options: &Options,
) -> (Gathered, Option<Error>) {
    let mut gathered = Gathered::new(events, options);
    let end = loop {
        match events.next_event() {
            Ok(Some(event)) => gathered.event(&event, describe),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (gathered, end)
}

impl Gathered {
    fn new<R: Source>(events: &SortedReader<R>, options: &Options) -> Self {
        Self {
            clock: Clock::of(events.trace()),
            version: events.major_version(),
            types: Vec::new(),
            type_index: HashMap::default(),
            known: PerType::default(),
            timeline: Timeline::default(),
            providers: Vec::new(),
            thread_rows: BTreeMap::new(),
            last_thread: None,
            labels: LastLabels::default(),
            ids: Ids::default(),
            by: options.by.clone(),
            spans: Spans::new(options.slowest),
            counts: SpanCounts::default(),
            samples: Samples::new(),
            instruments: Instruments::default(),
            errors: Errors::default(),
            messages: Errors::default(),
            first: None,
            last: 0,
            events: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>, describe: &mut dyn Describe) {
        let ticks = event.header.timestamp;
        self.events += 1;
        self.first = Some(self.first.map_or(ticks, |first| first.min(ticks)));
        self.last = self.last.max(ticks);
        let known = self.known(event);
        let count = &mut self.types[known.ty];
        count.events += 1;
        count.payload_bytes += event.payload.len() as u64;
        let thread = self.thread_row(event);
        self.timeline.add(ticks, [(known.row, 1), (thread, 1)]);
        if known.is_sample {
            self.samples.take(event, process_id(event));
        } else if known.is_lesson {
            self.samples.names.learn(event);
        } else if let Some(kind) = known.instrument {
            self.instruments.take(kind, event, ticks);
        }
        let at = self.clock.since_start(ticks);
        if event.labels_into(&mut self.labels) {
            self.ids = Ids::of(self.labels.labels());
        }
        let ids = self.ids;
        let Some(span) = ids.span else {
            if let Some(said) = self.said(&known, event) {
                said.event(known.ty, event, errors::At::default());
            }
            return self.spans.outside(at);
        };
        let role = match ids.overrides.opcode {
            None => known.role,
            opcode => role_of(event.metadata(), opcode, self.version),
        };
        self.counts.count_as(role, span, known.counted);
        let target = if !role.is_edge() {
            if matches!(role, Role::Resume | Role::Suspend) {
                self.spans.polled(span, role, at);
            }
            let field = known.dimension.filter(|_| known.is_later);
            if let Some(value) = field.and_then(|field| dimension_value(event, field)) {
                let metadata = event.metadata();
                let name = span_of_record(metadata).unwrap_or_default();
                self.spans.told_later(span, [&metadata.provider, name], &value);
            }
            self.spans.inside(span, at)
        } else {
            let metadata = event.metadata();
            let name = known.span.unwrap_or_else(|| {
                let (name, place) = (event_name(metadata), place(metadata));
                let place = place.as_deref().unwrap_or_default();
                let name = self.spans.name(&metadata.provider, span_name(&name), place);
                self.known.of(event, |_| known).span = Some(name);
                name
            });
            let mut value = known.dimension.and_then(|field| dimension_value(event, field));
            let (duration, outcome) = match role {
                Role::Start => (None, None),
                _ => known.end.stated(event),
            };
            if known.is_asked_for && role == Role::Stop {
                value = Some(value.unwrap_or_default());
            }
            // A request that was cancelled had no response with a status. What the start has said
            // stays.
            let has_no_result = role == Role::Stop && outcome.as_deref().is_some_and(is_given_up);
            value = value.filter(|value| !has_no_result || value != "0");
            let of = SpanEdge::of(event, (span, ids), at, (duration, outcome.as_deref()));
            let work = match role {
                Role::Start => SpanWork::default(),
                _ => known.end.work(event),
            };
            let edge = Edge { of, name, value: value.as_deref(), work };
            let target = self.spans.edge(role, &edge);
            let failure = outcome.as_deref().filter(|outcome| is_failure(outcome));
            if let Some(outcome) = failure.filter(|_| role != Role::Start) {
                let place = self.spans.place_of(span);
                let at = errors::At { span: Some(span), trace: ids.trace, place };
                self.errors.span(known.ty, event, outcome, at);
            }
            target
        };
        if !role.is_edge() && (known.is_message || errors::is_wrong(event)) {
            let place = self.spans.place_of(span);
            let at = errors::At { span: Some(span), trace: ids.trace, place };
            if let Some(said) = self.said(&known, event) {
                said.event(known.ty, event, at);
            }
        }
        let Some(target) = target.filter(|target| self.spans.wants(*target, at)) else { return };
        let text = match target.text {
            Text::Inside => describe.event(event),
            text => describe.details(event, text == Text::Start),
        };
        self.spans.keep(target, at, clip(text.trim(), MOST_TEXT).into());
    }

    /// Where what an event says is counted.
    fn said(&mut self, known: &Known, event: &Event<'_>) -> Option<&mut Errors> {
        match errors::is_wrong(event) {
            true => Some(&mut self.errors),
            false => known.is_message.then_some(&mut self.messages),
        }
    }

    /// What is known of the event's type.
    fn known(&mut self, event: &Event<'_>) -> Known {
        let Self { known, types, type_index, providers, timeline, counts, version, by, .. } = self;
        *known.of(event, |metadata| {
            let row = provider_row(providers, timeline, &metadata.provider);
            let (provider, name, id) = match types.len() < MOST_TYPES {
                true => (&*metadata.provider, event_name(metadata).into_owned(), metadata.event_id),
                false => ("", "(other types)".into(), 0),
            };
            let key = (provider.to_owned(), id, name.clone());
            let ty = *type_index.entry(key).or_insert_with(|| {
                let (provider, place) = (provider.to_owned(), place(metadata));
                types.push(TypeCount { provider, name, id, place, events: 0, payload_bytes: 0 });
                types.len() - 1
            });
            let by = by.as_deref();
            let dimension = dimension(metadata, by);
            let name_of = |field: usize| &*metadata.fields[field].name;
            Known {
                ty,
                row,
                span: None,
                is_sample: FrameNames::is_sample(metadata),
                is_message: errors::is_message(metadata),
                is_lesson: FrameNames::is_lesson(metadata),
                instrument: InstrumentEvent::of(metadata),
                end: EndFields::of(metadata),
                dimension,
                is_asked_for: dimension.is_some_and(|field| Some(name_of(field)) == by),
                is_later: dimension.is_some() && span_of_record(metadata).is_some(),
                role: role_of(metadata, None, *version),
                counted: counts.name(metadata),
            }
        })
    }

    fn thread_row(&mut self, event: &Event<'_>) -> usize {
        let thread = &event.capture_thread().thread;
        let key = (thread.index, thread.process_id, thread.os_thread_id);
        if let Some((_, row)) = self.last_thread.filter(|(last, _)| *last == key) {
            return row;
        }
        let row = match self.thread_rows.get(&key) {
            Some(row) => *row,
            None => {
                let other = (u64::MAX, None, None);
                let key = if self.thread_rows.len() < MOST_ROWS { key } else { other };
                *self.thread_rows.entry(key).or_insert_with(|| self.timeline.add_row())
            }
        };
        self.last_thread = Some((key, row));
        row
    }

    /// The threads: those with losses first, then those with the most events.
    pub(crate) fn threads<R: Source>(&self, events: &SortedReader<R>) -> Vec<ThreadCount> {
        let mut shown = std::collections::HashSet::new();
        let threads = events.live_threads().chain(events.finished_threads());
        let mut threads: Vec<_> = threads
            .map(|totals| {
                let thread = &totals.thread;
                let key = (thread.index, thread.process_id, thread.os_thread_id);
                ThreadCount {
                    index: thread.index,
                    process: thread.process_id,
                    id: thread.os_thread_id,
                    name: thread.name.clone(),
                    events: totals.events,
                    lost: totals.lost,
                    // Threads of equal ids share a row, which the first of them shows.
                    row: self.thread_rows.get(&key).copied().filter(|row| shown.insert(*row)),
                }
            })
            .collect();
        threads.sort_by_key(|it| (it.lost == 0, Reverse(it.events), it.index));
        threads
    }
}

/// The row of a provider.
fn provider_row(
    providers: &mut Vec<(String, usize)>,
    timeline: &mut Timeline,
    provider: &str,
) -> usize {
    let provider = if providers.len() < MOST_ROWS { provider } else { "(other providers)" };
    if let Some((_, row)) = providers.iter().find(|(name, _)| name == provider) {
        return *row;
    }
    let row = timeline.add_row();
    providers.push((provider.to_owned(), row));
    row
}
