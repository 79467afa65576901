//! The spans of a trace, while it is read.
//!
//! Spans stay in memory until the end, because a child can come after its parent has ended. A limit
//! bounds their memory: one half is for the spans themselves, the other for their details (fields
//! and events). If only some trees are wanted, those that have ended and are not among them
//! [make room](super::room). What still exceeds a half is left out and counted.

use std::{collections::HashMap, mem::size_of};

use nettrace_event::trace_context::TraceId;
use nettrace_views::model::{
    Ids, Key, Part, Role, SpanEdge, SpanRecord, SpanRef, SpanState, SpanTable,
};

use crate::{
    filter::{SpanFacts, Verdict},
    tree::choice::Choice,
};

/// What the table, and the links to parents and children, take for each span.
const LINKS: usize = 176;

/// What a span takes beside its details.
pub(super) const SPAN_BYTES: usize = size_of::<Span>() + LINKS;

/// What a span takes of which something was asked for, with what the allocator adds.
const ASIDE_BYTES: usize = size_of::<Aside>() + 16;

/// What an event inside takes beside its text, with what the allocator adds.
const EVENT_BYTES: usize = 2 * size_of::<Inside>() + 16;

/// A span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) trace: Option<TraceId>,
    /// The span's parent, which may not be in the trace.
    pub(super) parent: Option<Key>,
    /// Its place, if the parent was known when the span began.
    pub(super) parent_at: Option<SpanRef>,
    /// Its place in [`Forest::types`]. `None` if neither start nor stop is in the trace.
    pub(super) ty: Option<u32>,
    /// The place of its type in the source code, among [`Type::places`].
    pub(super) place: u32,
    /// Where its parent is looked for, if it names none.
    pub(super) flow: Option<Flow>,
    pub(super) record: SpanRecord,
    /// What the events of start and stop say, in the form of the output.
    pub(super) start_details: Box<[u8]>,
    pub(super) stop_details: Box<[u8]>,
    /// The events inside, in the order of time.
    pub(super) events: Vec<Inside>,
    /// How many more events there are.
    pub(super) left_out: u64,
    pub(super) aside: Option<Box<Aside>>,
}

/// What a span has only if it was asked for.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// What its start, its end and its records say of the filters.
    pub(super) verdict: Verdict,
    /// The places of the events inside that pass all filters, in their order.
    pub(super) matches: Vec<u32>,
    /// Nanoseconds on a processor.
    pub(super) busy: Option<i64>,
    /// Since when it has been on one.
    busy_since: Option<i64>,
    /// Spans below that made room.
    pub(super) gone: u64,
}

/// A substream of a thread, in a Heph trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    pub(super) thread: u64,
    pub(super) substream: u64,
}

/// An event inside of a span.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) at: i64,
    /// In the form of the output.
    pub(super) text: Box<[u8]>,
}

/// An event that belongs to no span yet.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) flow: Flow,
    pub(super) event: Inside,
}

/// A start, a stop, or an event for a whole span.
#[derive(Debug)]
pub(super) struct Edge<'a> {
    pub(super) of: SpanEdge<'a>,
    pub(super) provider: &'a str,
    pub(super) name: &'a str,
    /// Where its type is in the source code, if that is known.
    pub(super) place: Option<&'a str>,
    pub(super) flow: Option<Flow>,
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
    pub(super) fn shown_place(&self, span: &Span, has_places: bool) -> Option<&str> {
        let is_shown = has_places || self.places.len() > 1;
        let place = self.places.get(span.place as usize).filter(|_| is_shown)?;
        (!place.is_empty()).then_some(&**place)
    }
}

/// All spans so far.
#[derive(Debug)]
pub(super) struct Forest {
    pub(super) spans: SpanTable<Span>,
    /// How many spans there are.
    pub(super) count: usize,
    /// Events whose span is found at the end.
    pub(super) loose: Vec<Loose>,
    /// What there are spans of.
    pub(super) types: Vec<Type>,
    type_index: HashMap<Box<str>, HashMap<Box<str>, u32>>,
    pub(super) detail_bytes: usize,
    half_limit: usize,
    /// Whether no more spans are taken. This stays so: otherwise the events of a span that was left
    /// out would look like those of a span without a start.
    has_all_spans: bool,
    /// Whether no more details are kept.
    has_all_details: bool,
    /// What is wanted.
    pub(super) choice: Choice,
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
    /// Spans that ended and made room, and of how many trees.
    pub(super) spans_gone: u64,
    pub(super) trees_gone: u64,
}

impl Forest {
    /// `limit` is in bytes.
    pub(super) fn new(limit: usize, choice: Choice) -> Self {
        Self {
            // What exceeds the limit is left out: none makes room because it is old.
            spans: SpanTable::new(usize::MAX, usize::MAX),
            count: 0,
            loose: Vec::new(),
            types: Vec::new(),
            type_index: HashMap::new(),
            detail_bytes: 0,
            half_limit: limit / 2,
            has_all_spans: false,
            has_all_details: false,
            choice,
            counts: Counts::default(),
        }
    }

    /// Adds what an event says of a span.
    pub(super) fn edge(&mut self, role: Role, edge: &Edge<'_>) -> Step {
        let SpanEdge { span: key, ids, at: time, .. } = edge.of;
        let ty = self.ty(edge.provider, edge.name);
        let part = self.spans.part(role, key, |span| {
            let is_known = span.record.state != SpanState::Unknown;
            is_known.then(|| span.ty == Some(ty))
        });
        let is_heard = |at: &SpanRef| self.spans[*at].record.state == SpanState::Unknown;
        let met = match part {
            Part::Inside(at) => return Step::Inside(at),
            Part::Stop(at) => Some(at),
            // Only events of it came before, or it is another span with the id.
            Part::Start(at) => at.filter(is_heard),
            Part::Whole | Part::Outside => self.spans.find(key),
        };
        let Some(at) = met.or_else(|| self.add(&ids, time)) else {
            match role {
                Role::Stop => self.counts.events_left_out += 1,
                _ => self.counts.spans_left_out += 1,
            }
            return Step::NoRoom;
        };
        let parent = ids.related.and_then(|key| self.spans.find(key)).filter(|it| *it != at);
        let place = (role != Role::Stop).then(|| self.types[ty as usize].place(edge.place));
        let Some(span) = self.spans.get_mut(at) else { return Step::NoRoom };
        span.place = place.unwrap_or(span.place);
        match part {
            Part::Start(_) => {
                span.record.start(&edge.of);
                (span.ty, span.flow) = (Some(ty), edge.flow);
                (span.parent, span.parent_at) = (ids.related, parent);
                self.spans.open(at, 0);
            }
            Part::Stop(_) => {
                span.record.stop(&edge.of);
                self.spans.end(at);
            }
            _ => {
                span.record.whole(role, &edge.of);
                (span.ty, span.flow) = (Some(ty), edge.flow);
            }
        }
        Step::Edge(at, matches!(part, Part::Start(_)))
    }

    /// The span of an event inside. It need not have begun.
    pub(super) fn inside(&mut self, span: Key, ids: &Ids, at: i64) -> Step {
        match self.spans.find(span).or_else(|| self.add(ids, at)) {
            Some(at) => Step::Inside(at),
            None => {
                self.counts.events_left_out += 1;
                Step::NoRoom
            }
        }
    }

    /// Keeps an event inside, unless there is no room.
    pub(super) fn keep_event(&mut self, span: SpanRef, at: i64, text: Vec<u8>) {
        let has_room = self.room(Some(span), text.len() + EVENT_BYTES);
        let Some(span) = self.spans.get_mut(span) else { return };
        if has_room {
            span.events.push(Inside { at, text: text.into() });
        } else {
            span.left_out += 1;
            self.counts.events_left_out += 1;
        }
    }

    /// Keeps what a start or a stop says, unless there is no room.
    pub(super) fn keep_details(&mut self, span: SpanRef, is_start: bool, text: Vec<u8>) {
        let has_room = self.room(Some(span), text.len());
        let Some(span) = self.spans.get_mut(span).filter(|_| has_room) else {
            self.counts.fields_left_out += 1;
            return;
        };
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
    fn add(&mut self, ids: &Ids, seen: i64) -> Option<SpanRef> {
        if self.has_all_spans {
            return None;
        }
        if (self.count + 1) * SPAN_BYTES > self.half_limit {
            self.make_room(None);
            self.has_all_spans = self.is_nearly_full(self.count * SPAN_BYTES);
            if self.has_all_spans {
                return None;
            }
        }
        self.count += 1;
        // Every event of a span of ours names the parent. In other traces only the start does.
        let parent = ids.related.filter(|_| matches!(ids.span, Some(Key::Span(..))));
        Some(self.spans.add(ids.keys(), Span::new(ids.trace, seen, parent)))
    }

    /// Keeps an event whose span is found at the end, unless there is no room.
    pub(super) fn keep_loose(&mut self, flow: Flow, at: i64, text: Vec<u8>) {
        if self.room(None, text.len() + EVENT_BYTES + 2 * size_of::<Flow>()) {
            self.loose.push(Loose { flow, event: Inside { at, text: text.into() } });
        } else {
            self.counts.events_left_out += 1;
        }
    }

    /// Takes room for details, of a span if it is known. Returns whether there was room.
    fn room(&mut self, span: Option<SpanRef>, bytes: usize) -> bool {
        if !self.has_all_details && self.detail_bytes + bytes > self.half_limit {
            self.make_room(span);
            self.has_all_details = self.is_nearly_full(self.detail_bytes + bytes);
        }
        if !self.has_all_details {
            self.detail_bytes += bytes;
        }
        !self.has_all_details
    }

    /// Whether so little of a half is free that it is not worth the time to make room again.
    pub(super) fn is_nearly_full(&self, bytes: usize) -> bool {
        bytes >= self.half_limit / 4 * 3
    }

    /// Whether a span is one of those that are ranked.
    pub(super) fn is_unit(&self, span: &Span) -> bool {
        let ty = span.ty.map(|ty| &self.types[ty as usize]);
        ty.is_some_and(|ty| self.choice.ranks(&ty.provider, &ty.name))
    }

    /// Whether a span, or an event inside, passes all filters. `last` is the time of the last
    /// event.
    pub(super) fn matches(&self, span: &Span, last: i64) -> bool {
        self.accepts(span, last) || span.has_match_inside()
    }

    /// Whether a span passes all filters.
    pub(super) fn accepts(&self, span: &Span, last: i64) -> bool {
        if self.choice.is_open && (span.is_over() || span.ty.is_none()) {
            return false;
        }
        let name = span.ty.map(|ty| &*self.types[ty as usize].name);
        let facts = SpanFacts { record: &span.record, name, last };
        self.choice.accepts(span.aside.as_ref().map(|aside| aside.verdict), &facts)
    }

    /// What is kept of a span because it was asked for.
    pub(super) fn aside(&mut self, at: SpanRef) -> Option<&mut Aside> {
        let aside = &mut self.spans.get_mut(at)?.aside;
        if aside.is_none() {
            self.detail_bytes += ASIDE_BYTES;
        }
        Some(aside.get_or_insert_default())
    }

    /// Notes what an event says of the filters, before it is kept: one inside of a span, or one
    /// that tells of the span itself.
    pub(super) fn judged(&mut self, at: SpanRef, verdict: Verdict, is_of_span: bool) {
        if verdict.is_nothing() {
            return;
        }
        let is_match = self.choice.accepts_event(verdict);
        let place = self.spans.get(at).map_or(0, |span| span.events.len() as u32);
        if !is_of_span && !is_match {
            return;
        }
        let Some(aside) = self.aside(at) else { return };
        if is_of_span {
            aside.verdict.add(verdict);
        } else {
            aside.matches.push(place);
            self.detail_bytes += size_of::<u32>();
        }
    }

    /// A span comes onto a processor, or leaves it.
    pub(super) fn polled(&mut self, span: SpanRef, role: Role, at: i64) {
        let Some(aside) = self.aside(span) else { return };
        match role {
            Role::Resume => aside.busy_since = Some(at),
            _ => {
                let since = aside.busy_since.take().unwrap_or(at);
                aside.busy = Some(aside.busy.unwrap_or(0).saturating_add(at.saturating_sub(since)));
            }
        }
    }

    /// A span's parent, if it is in the trace.
    pub(super) fn parent_of(&self, at: SpanRef) -> Option<SpanRef> {
        let span = &self.spans[at];
        let known = span.parent_at.filter(|parent| self.spans.get(*parent).is_some());
        known.or_else(|| self.spans.find(span.parent?)).filter(|it| *it != at)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It began this span, or ended it: whether it began it.
    Edge(SpanRef, bool),
    /// It is one inside of this span.
    Inside(SpanRef),
    NoRoom,
}

impl Span {
    /// The process on which it began, if the trace states it.
    pub(super) fn process_id(&self) -> Option<u64> {
        (self.record.process != 0).then_some(self.record.process.into())
    }

    fn new(trace: Option<TraceId>, seen: i64, parent: Option<Key>) -> Self {
        Self {
            trace,
            parent,
            parent_at: None,
            ty: None,
            place: u32::MAX,
            flow: None,
            record: SpanRecord::new(seen),
            start_details: Box::default(),
            stop_details: Box::default(),
            events: Vec::new(),
            left_out: 0,
            aside: None,
        }
    }

    /// What its details take.
    pub(super) fn detail_bytes(&self) -> usize {
        let inside: usize = self.events.iter().map(|it| it.text.len() + EVENT_BYTES).sum();
        let aside = self.aside.as_ref();
        let aside = aside.map_or(0, |it| ASIDE_BYTES + it.matches.len() * size_of::<u32>());
        inside + self.start_details.len() + self.stop_details.len() + aside
    }

    /// Whether its end is in the trace.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self.record.state, SpanState::Started | SpanState::Unknown)
    }

    /// Whether one of the events inside passes all filters.
    pub(super) fn has_match_inside(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.matches.is_empty())
    }

    /// Whether an event inside passes all filters.
    pub(super) fn is_match(&self, event: usize) -> bool {
        let aside = self.aside.as_ref();
        aside.is_some_and(|it| it.matches.binary_search(&(event as u32)).is_ok())
    }
}
