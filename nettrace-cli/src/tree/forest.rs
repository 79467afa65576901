//! The spans of a trace, while it is read.
//!
//! Spans stay in memory until the end, because a child can come after its parent has ended. A limit
//! bounds their memory: one half is for the spans themselves, the other for their details (fields
//! and events). If only the slowest roots are wanted, trees that have ended and are not among them
//! make room. What still exceeds a half is left out and counted.

use std::{cmp::Reverse, collections::HashMap, mem::size_of};

use nettrace_event::trace_context::TraceId;
use nettrace_views::model::{Ids, Key, Known, Part, Role};

use crate::tree::nesting::Loose;

/// What an index, and the links to parents and children, take for each span.
const LINKS: usize = 160;

/// What a span takes beside its details.
const SPAN_BYTES: usize = size_of::<Span>() + LINKS;

/// What an event inside takes beside its text, with what the allocator adds.
const EVENT_BYTES: usize = 2 * size_of::<Inside>() + 16;

/// A span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) key: Key,
    pub(super) trace: Option<TraceId>,
    /// 0 if it is not known.
    pub(super) process: u32,
    /// The span's parent, which may not be in the trace.
    pub(super) parent: Option<Key>,
    /// Its place in [`Forest::spans`], if the parent was known when the span began.
    pub(super) parent_at: Option<u32>,
    /// Its place in [`Forest::types`]. `None` if neither start nor stop is in the trace.
    pub(super) ty: Option<u32>,
    /// The place of its type in the source code, among [`Type::places`].
    place: u32,
    pub(super) thread: Option<u64>,
    /// Where its parent is looked for, if it names none.
    pub(super) flow: Option<Flow>,
    /// Nanoseconds since the start of the trace. If only the stop is in the trace, the start is
    /// computed from the duration that the stop states, if it states one.
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    /// When the span's first event came.
    pub(super) seen: i64,
    pub(super) state: State,
    pub(super) outcome: Option<Box<str>>,
    /// What the events of start and stop say, in the form of the output.
    pub(super) start_details: Box<[u8]>,
    pub(super) stop_details: Box<[u8]>,
    /// The events inside, in the order of time.
    pub(super) events: Vec<Inside>,
    /// How many more events there are.
    pub(super) left_out: u64,
}

/// A substream of a thread, in a Heph trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    pub(super) thread: u64,
    pub(super) substream: u64,
}

/// What is in the trace of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Neither start nor stop, only events inside.
    Unknown,
    Started,
    /// The stop without the start.
    OnlyStopped,
    Ended,
    /// One event that stands for the whole span.
    Single,
}

/// An event inside of a span.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) at: i64,
    /// In the form of the output.
    pub(super) text: Box<[u8]>,
}

/// A start, a stop, or an event for a whole span.
#[derive(Debug)]
pub(super) struct Edge<'a> {
    pub(super) span: Key,
    pub(super) ids: Ids,
    pub(super) at: i64,
    pub(super) provider: &'a str,
    pub(super) name: &'a str,
    /// Where its type is in the source code, if that is known.
    pub(super) place: Option<&'a str>,
    pub(super) process: u32,
    pub(super) thread: Option<u64>,
    pub(super) flow: Option<Flow>,
    /// The duration and outcome that the event states.
    pub(super) duration: Option<i64>,
    pub(super) outcome: Option<&'a str>,
}

/// What spans are of.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) provider: Box<str>,
    pub(super) name: Box<str>,
    /// Where the types of the spans are in the source code.
    places: Vec<Box<str>>,
}

impl Type {
    /// The number of a place. Beyond the most that are kept, all are one.
    fn place(&mut self, place: Option<&str>) -> u32 {
        const MOST: usize = 1_000;
        let place = place.unwrap_or_default();
        let known = self.places.iter().position(|known| **known == *place);
        let at = known.unwrap_or_else(|| {
            self.places.push(place.into());
            self.places.len() - 1
        });
        self.places.truncate(MOST);
        at as u32
    }

    /// The place of a span's type, if that tells it from another one.
    pub(super) fn shown_place(&self, span: &Span) -> Option<&str> {
        let is_one_of_many = self.places.len() > 1;
        let place = self.places.get(span.place as usize).filter(|_| is_one_of_many)?;
        (!place.is_empty()).then_some(&**place)
    }
}

/// All spans so far.
#[derive(Debug)]
pub(super) struct Forest {
    pub(super) spans: Vec<Span>,
    /// Events whose span is found at the end.
    pub(super) loose: Vec<Loose>,
    /// What there are spans of.
    pub(super) types: Vec<Type>,
    type_index: HashMap<Box<str>, HashMap<Box<str>, u32>>,
    /// The latest span of each key.
    by_key: HashMap<Key, u32>,
    span_bytes: usize,
    detail_bytes: usize,
    half_limit: usize,
    /// Whether no more spans are taken. This stays so: otherwise the events of a span that was left
    /// out would look like those of a span without a start.
    has_all_spans: bool,
    /// Whether no more details are kept.
    has_all_details: bool,
    /// How many roots are wanted.
    slow: Option<usize>,
    pub(super) counts: Counts,
}

/// The counts of the summary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Spans that began when there was no room.
    pub(super) spans_left_out: u64,
    /// Other events for which there was no room: those inside, and stops.
    pub(super) events_left_out: u64,
    /// Starts and stops whose fields had no room.
    pub(super) fields_left_out: u64,
    /// Spans that ended and made room, and how many of them were roots.
    pub(super) spans_gone: u64,
    pub(super) roots_gone: u64,
}

impl Forest {
    /// `limit` is in bytes.
    pub(super) fn new(limit: usize, slow: Option<usize>) -> Self {
        Self {
            spans: Vec::new(),
            loose: Vec::new(),
            types: Vec::new(),
            type_index: HashMap::new(),
            by_key: HashMap::new(),
            span_bytes: 0,
            detail_bytes: 0,
            half_limit: limit / 2,
            has_all_spans: false,
            has_all_details: false,
            slow,
            counts: Counts::default(),
        }
    }

    /// The span with this key, if there is one.
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Adds what an event says of a span.
    pub(super) fn edge(&mut self, role: Role, edge: &Edge<'_>) -> Step {
        let ty = self.ty(edge.provider, edge.name);
        let met = self.find(&edge.span);
        let known = met.map(|at| &self.spans[at as usize]);
        let known = known.filter(|span| span.state != State::Unknown).map(|span| Known {
            is_open: span.state == State::Started,
            has_name: span.ty == Some(ty),
        });
        let part = role.part(known);
        let at = match (part, met) {
            (Part::Inside, Some(at)) => return Step::Inside(at),
            (Part::Start, Some(_)) if known.is_some() => None,
            // Its start came before, or only events.
            (_, met) => met,
        };
        let Some(at) = at.or_else(|| self.add(edge.span, &edge.ids, edge.at)) else {
            match role {
                Role::Stop => self.counts.events_left_out += 1,
                _ => self.counts.spans_left_out += 1,
            }
            return Step::NoRoom;
        };
        let parent_at = edge.ids.related.and_then(|key| self.find(&key)).filter(|it| *it != at);
        let span = &mut self.spans[at as usize];
        match part {
            Part::Start => {
                span.begin(edge, ty, State::Started);
                span.parent = edge.ids.related;
                span.parent_at = parent_at;
                span.start = Some(edge.at);
            }
            Part::Stop => {
                span.state = State::Ended;
                span.end = Some(edge.at);
                span.outcome = edge.outcome.map(Into::into);
            }
            _ if role == Role::Single => span.end_at(edge, ty, State::Single),
            _ => span.end_at(edge, ty, State::OnlyStopped),
        }
        if role != Role::Stop {
            span.place = self.types[ty as usize].place(edge.place);
        }
        Step::Edge(at)
    }

    /// The span of an event inside. It need not have begun.
    pub(super) fn inside(&mut self, span: Key, ids: &Ids, at: i64) -> Step {
        match self.find(&span).or_else(|| self.add(span, ids, at)) {
            Some(at) => Step::Inside(at),
            None => {
                self.counts.events_left_out += 1;
                Step::NoRoom
            }
        }
    }

    /// Keeps an event inside, unless there is no room.
    pub(super) fn keep_event(&mut self, span: u32, at: i64, text: Vec<u8>) {
        let (span, has_room) = self.room(Some(span), text.len() + EVENT_BYTES);
        let Some(span) = span.map(|span| &mut self.spans[span as usize]) else { return };
        if has_room {
            span.events.push(Inside { at, text: text.into() });
        } else {
            span.left_out += 1;
            self.counts.events_left_out += 1;
        }
    }

    /// Keeps what a start or a stop says, unless there is no room.
    pub(super) fn keep_details(&mut self, span: u32, is_start: bool, text: Vec<u8>) {
        let (span, has_room) = self.room(Some(span), text.len());
        let Some(span) = span.filter(|_| has_room) else {
            self.counts.fields_left_out += 1;
            return;
        };
        let span = &mut self.spans[span as usize];
        if is_start {
            span.start_details = text.into();
        } else {
            span.stop_details = text.into();
        }
    }

    fn ty(&mut self, provider: &str, name: &str) -> u32 {
        if let Some(ty) = self.type_index.get(provider).and_then(|names| names.get(name)) {
            return *ty;
        }
        let ty = self.types.len() as u32;
        self.types.push(Type { provider: provider.into(), name: name.into(), places: Vec::new() });
        self.type_index.entry(provider.into()).or_default().insert(name.into(), ty);
        ty
    }

    /// Adds a span of which nothing is known but its ids.
    fn add(&mut self, span: Key, ids: &Ids, seen: i64) -> Option<u32> {
        if self.has_all_spans {
            return None;
        }
        if self.span_bytes + SPAN_BYTES > self.half_limit {
            self.make_room(None);
            self.has_all_spans = self.is_nearly_full(self.span_bytes);
            if self.has_all_spans {
                return None;
            }
        }
        self.span_bytes += SPAN_BYTES;
        let at = u32::try_from(self.spans.len()).ok()?;
        // Every event of a span of ours names the parent. In other traces only the start does.
        let parent = ids.related.filter(|_| matches!(span, Key::Span(..)));
        self.spans.push(Span::new(span, ids.trace, seen, parent));
        self.by_key.insert(span, at);
        if let Some(alias) = ids.alias {
            self.by_key.insert(alias, at);
        }
        Some(at)
    }

    /// Keeps an event whose span is found at the end, unless there is no room.
    pub(super) fn keep_loose(&mut self, flow: Flow, at: i64, text: Vec<u8>) {
        if self.room(None, text.len() + EVENT_BYTES + 2 * size_of::<Flow>()).1 {
            self.loose.push(Loose { flow, event: Inside { at, text: text.into() } });
        } else {
            self.counts.events_left_out += 1;
        }
    }

    /// Takes room for details, of a span if it is known. Returns the place of the span, which can
    /// change, and whether there was room.
    fn room(&mut self, mut span: Option<u32>, bytes: usize) -> (Option<u32>, bool) {
        if !self.has_all_details && self.detail_bytes + bytes > self.half_limit {
            span = self.make_room(span);
            self.has_all_details = self.is_nearly_full(self.detail_bytes + bytes);
        }
        if !self.has_all_details {
            self.detail_bytes += bytes;
        }
        (span, !self.has_all_details)
    }

    /// Whether so little of a half is free that it is not worth the time to make room again.
    fn is_nearly_full(&self, bytes: usize) -> bool {
        bytes >= self.half_limit / 4 * 3
    }

    /// Removes the trees that have ended and are not wanted: only the slowest roots are. Returns
    /// the new place of the span `current`, whose tree stays.
    fn make_room(&mut self, current: Option<u32>) -> Option<u32> {
        let Some(slow) = self.slow else { return current };
        let roots = self.roots();
        let mut durations: Vec<_> = (0..self.spans.len())
            .filter(|at| roots[*at] == *at as u32)
            .filter_map(|at| Some((Reverse(self.spans[at].duration()?), at)))
            .collect();
        durations.sort_unstable();
        let mut is_gone = vec![false; self.spans.len()];
        for (_, at) in durations.into_iter().skip(slow) {
            is_gone[at] = true;
        }
        let is_over = |span: &Span| matches!(span.state, State::Ended | State::Single);
        for (at, span) in self.spans.iter().enumerate() {
            if !is_over(span) || current == Some(at as u32) {
                is_gone[roots[at] as usize] = false;
            }
        }
        // Where the spans go that stay.
        let mut places = Vec::with_capacity(self.spans.len());
        let mut next = 0;
        for (at, root) in roots.iter().enumerate() {
            let stays = !is_gone[*root as usize];
            places.push(stays.then_some(next));
            next += u32::from(stays);
            if !stays {
                self.detail_bytes -= self.spans[at].detail_bytes();
                self.span_bytes -= SPAN_BYTES;
                self.counts.spans_gone += 1;
                self.counts.roots_gone += u64::from(*root == at as u32);
            }
        }
        let mut at = 0;
        self.spans.retain_mut(|span| {
            at += 1;
            span.parent_at = span.parent_at.and_then(|parent| places[parent as usize]);
            places[at - 1].is_some()
        });
        self.by_key.retain(|_, at| match places[*at as usize] {
            Some(place) => {
                *at = place;
                true
            }
            None => false,
        });
        places[current? as usize]
    }

    /// The place of each span's parent.
    pub(super) fn parent_of(&self, at: usize) -> Option<usize> {
        let span = &self.spans[at];
        let found = span.parent_at.or_else(|| self.find(&span.parent?));
        found.map(|it| it as usize).filter(|it| *it != at)
    }

    /// The place of each span's root. In a cycle, which only a damaged trace has, any of them.
    fn roots(&self) -> Vec<u32> {
        const NONE: u32 = u32::MAX;
        let mut roots = vec![NONE; self.spans.len()];
        let mut path = Vec::new();
        for start in 0..self.spans.len() {
            let mut at = start;
            let root = loop {
                if roots[at] != NONE {
                    break roots[at];
                }
                // A span that is met again is its own root until the path is done.
                roots[at] = at as u32;
                path.push(at);
                match self.parent_of(at) {
                    Some(parent) => at = parent,
                    None => break at as u32,
                }
            };
            path.drain(..).for_each(|at| roots[at] = root);
        }
        roots
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It began or ended this span.
    Edge(u32),
    /// It is one inside of this span.
    Inside(u32),
    NoRoom,
}

impl Span {
    /// The process on which it began, if the trace states it.
    pub(super) fn process_id(&self) -> Option<u64> {
        (self.process != 0).then_some(self.process.into())
    }

    fn new(key: Key, trace: Option<TraceId>, seen: i64, parent: Option<Key>) -> Self {
        Self {
            key,
            trace,
            process: 0,
            parent,
            parent_at: None,
            ty: None,
            place: u32::MAX,
            thread: None,
            flow: None,
            start: None,
            end: None,
            seen,
            state: State::Unknown,
            outcome: None,
            start_details: Box::default(),
            stop_details: Box::default(),
            events: Vec::new(),
            left_out: 0,
        }
    }

    fn begin(&mut self, edge: &Edge<'_>, ty: u32, state: State) {
        self.ty = Some(ty);
        self.state = state;
        self.process = edge.process;
        self.thread = edge.thread;
        self.flow = edge.flow;
    }

    /// Takes all that is known of a span from its last event.
    fn end_at(&mut self, edge: &Edge<'_>, ty: u32, state: State) {
        self.begin(edge, ty, state);
        self.end = Some(edge.at);
        self.start = edge.duration.map(|duration| edge.at.saturating_sub(duration));
        self.outcome = edge.outcome.map(Into::into);
    }

    /// Nanoseconds from start to end, if both are known.
    pub(super) fn duration(&self) -> Option<i64> {
        Some(self.end?.saturating_sub(self.start?))
    }

    /// The first time at which the span is known to exist. Every span has an event.
    pub(super) fn first(&self) -> i64 {
        self.start.unwrap_or(self.seen)
    }

    /// What its details take.
    fn detail_bytes(&self) -> usize {
        let inside: usize = self.events.iter().map(|it| it.text.len() + EVENT_BYTES).sum();
        inside + self.start_details.len() + self.stop_details.len()
    }
}
