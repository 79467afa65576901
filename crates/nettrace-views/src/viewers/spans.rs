//! The tracks of spans: their thread's, or one of their own.
//!
//! A viewer draws the slices of one track as a tree, so they must be nested. Whether a span is
//! nested in others on its thread is known only when it ends. So the start of a span waits here
//! until then. A span is a slice of its thread if
//!
//! - it ended on the thread on which it began, and its end states at most one poll;
//! - every span that began meanwhile on that thread, and was still under way, named it or one
//!   inside of it as its parent;
//! - no span around it ended before.
//!
//! So a slice's parent on a thread is the span's parent. All other spans are asynchronous: each
//! gets a track of its own. A poll is a slice of the thread that polls.
//!
//! Viewers sort by time, and keep the order of the file among events of the same time. So what
//! begins at the same time as the span around it waits until that span is drawn.

use std::{collections::VecDeque, rc::Rc};

use crate::model::{Key, Part, Role, SpanRef, SpanTable};

/// The number of slices of a thread that are remembered after their end.
const CLOSED: usize = 64;

/// The number of flows to children that a span remembers.
const CHILDREN: usize = 4096;

/// How many bytes wait at most for the begin of one span.
const PENDING: usize = 1 << 16;

/// How many events and slices wait at most for the begin of spans.
const WAITING: usize = 1 << 14;

/// How many buffers of spans that have ended are kept for others, and how large they are at most.
const BUFFERS: usize = 64;
const BUFFER: usize = 1 << 12;

/// About how many bytes an open span takes beside its details.
const SPAN_BYTES: usize = 400;

/// The name of a span.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// The name, in the form of the target.
    pub(crate) bytes: Vec<u8>,
    /// The name of the event, in the form of the target.
    pub(crate) event: Vec<u8>,
    /// The name without the value of a dimension, if that is a part of it.
    pub(crate) without_value: Option<Rc<Name>>,
}

impl Name {
    /// Whether spans with these names are of one kind: the end of a span may state no value.
    fn is_same(&self, other: &Self) -> bool {
        self.kind() == other.kind()
    }

    fn kind(&self) -> &[u8] {
        self.without_value.as_deref().map_or(&self.bytes, |name| &name.bytes)
    }
}

/// The start of a span, or of a poll.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    pub(crate) key: Key,
    pub(crate) alias: Option<Key>,
    pub(crate) parent: Option<Key>,
    /// The number of the thread.
    pub(crate) thread: usize,
    /// Nanoseconds since the start of the trace.
    pub(crate) at: i64,
    pub(crate) process: Option<u64>,
    pub(crate) name: Rc<Name>,
    /// The fields, in the form of the target.
    pub(crate) details: Vec<u8>,
    /// Whether it is of a poll.
    pub(crate) is_poll: bool,
}

impl Begin {
    /// The id of the flow from the parent to this span.
    pub(crate) fn flow(&self) -> u64 {
        match self.key {
            Key::Span(_, id) => id.to_u64(),
            Key::Activity(id) => {
                let id = u128::from_le_bytes(id.to_bytes_le());
                let upper = ((id >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                upper.rotate_left(29) ^ id as u64
            }
        }
    }
}

/// Where a slice is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the track of a thread.
    Thread(usize),
    /// On a track of its own, which has this number.
    Own(u64),
}

/// The flows from a span to its children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flows<'a> {
    /// To children that are drawn elsewhere.
    pub(crate) elsewhere: &'a [u64],
    /// To children that are slices inside of this one. They need no flow.
    pub(crate) inside: &'a [u64],
}

/// Writes slices in the form of a target.
pub(crate) trait Draw {
    /// A span is under way, but no poll.
    fn opened(&mut self, _: &Begin) {}

    /// A span that was under way has ended, and was drawn.
    fn closed(&mut self, _: &Begin) {}

    /// The track for an asynchronous span that ends then, or has no end.
    fn own_track(&mut self, span: &Begin, end: Option<i64>, out: &mut Vec<u8>) -> Place;

    /// Writes the begin of a slice. `end` is the
    /// time and the details of the end, if the span has ended: [`Draw::end`] gets them again, when
    /// what must be between the two is written.
    fn begin(
        &mut self,
        place: Place,
        span: &Begin,
        flows: Flows<'_>,
        end: Option<(i64, &[u8])>,
        out: &mut Vec<u8>,
    );

    /// Writes the end of a slice.
    fn end(&mut self, place: Place, at: i64, details: &[u8], out: &mut Vec<u8>);

    /// Writes the start of a span as an event without duration.
    fn instant(&mut self, span: &Begin, out: &mut Vec<u8>);
}

/// The end of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub(crate) key: Key,
    pub(crate) thread: usize,
    pub(crate) at: i64,
    /// Whether it states that the span had pauses between its polls.
    pub(crate) had_pauses: bool,
    pub(crate) details: &'a [u8],
}

#[derive(Debug)]
struct Open {
    begin: Begin,
    /// Whether it began in the trace, and is no poll.
    is_found: bool,
    /// Whether it may still be a slice of its thread.
    on_stack: bool,
    /// Whether its parent was the innermost span of its thread when it began.
    in_parent: bool,
    /// What must be written after its begin.
    pending: Vec<u8>,
    /// How many events and slices that is.
    waiting: usize,
    /// The flows to children that are drawn elsewhere.
    flows: Vec<u64>,
    /// The flows to children that are slices inside of this one, if this is one.
    nested: Vec<u64>,
}

/// The spans of a thread.
#[derive(Debug, Default)]
struct Lane {
    /// The outermost first. Some may have ended elsewhere.
    stack: Vec<SpanRef>,
    /// How many of them have.
    dead: usize,
    /// The last slices that are inside of no other ended one: their start and end.
    closed: VecDeque<(i64, i64)>,
    /// The end of the slices that are not remembered any more.
    forgotten: i64,
    /// The time of the last begin or end. In a damaged trace, times can go back.
    latest: Option<i64>,
}

/// The spans that are under way.
#[derive(Debug)]
pub(crate) struct Spans {
    open: SpanTable<Open>,
    lanes: Vec<Lane>,
    /// How many events and slices wait for the begin of spans.
    waiting: usize,
    /// Buffers that are empty.
    buffers: Vec<Vec<u8>>,
    lists: Vec<Vec<u64>>,
    /// Flows that were left out, because the parent has too many children.
    pub(crate) flows_left_out: u64,
}

impl Spans {
    /// `limit` bounds the memory, in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            open: SpanTable::new(limit, 0),
            lanes: Vec::new(),
            waiting: 0,
            buffers: Vec::new(),
            lists: Vec::new(),
            flows_left_out: 0,
        }
    }

    /// An empty buffer, for the details of a span.
    #[inline]
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Where to write what happens on a thread at a time: after the begin of the span around it.
    pub(crate) fn at<'o>(
        &'o mut self,
        thread: usize,
        at: i64,
        out: &'o mut Vec<u8>,
    ) -> &'o mut Vec<u8> {
        let Some(top) = self.top(thread) else { return out };
        let Some(span) = self.open.get_mut(top) else { return out };
        if span.begin.at != at || span.pending.len() >= PENDING || self.waiting >= WAITING {
            return out;
        }
        span.waiting += 1;
        self.waiting += 1;
        &mut span.pending
    }

    /// What an event is to the span with its id. `name` is that of the event's spans.
    pub(crate) fn part(&self, role: Role, key: Key, name: &Name) -> Part {
        self.open.part(role, key, |span| Some(span.begin.name.is_same(name)))
    }

    /// Spans whose start was written as an event, because too many were under way.
    pub(crate) fn given_up(&self) -> u64 {
        self.open.given_up
    }

    /// A span begins. `other` is one with its id.
    pub(crate) fn start(
        &mut self,
        mut begin: Begin,
        other: Option<SpanRef>,
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) {
        begin.at = self.lane(begin.thread).forward(begin.at);
        if let Some(other) = other {
            self.open.given_up += 1;
            self.give_up(other, draw, out);
        }
        self.unwind(begin.thread, begin.parent, out);
        let in_parent = self.top(begin.thread).is_some();
        self.add_flow_from_parent(&begin, in_parent);
        let keys = [Some(begin.key), begin.alias];
        draw.opened(&begin);
        self.insert(begin, keys, in_parent);
        while let Some(oldest) = self.open.give_up() {
            self.give_up(oldest, draw, out);
        }
    }

    /// A span that is known ends.
    pub(crate) fn stop(
        &mut self,
        place: SpanRef,
        end: &End<'_>,
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) {
        let Some(span) = self.open.get(place) else { return };
        let is_sync = span.on_stack && span.begin.thread == end.thread && !end.had_pauses;
        self.draw(place, is_sync, (end.at, end.details), draw, out);
    }

    /// A poll of a span begins.
    pub(crate) fn resume(&mut self, mut begin: Begin, out: &mut Vec<u8>) {
        begin.at = self.lane(begin.thread).forward(begin.at);
        begin.is_poll = true;
        self.unwind(begin.thread, Some(begin.key), out);
        self.insert(begin, [None; 2], true);
    }

    /// A poll of a span ends. Returns whether its start was known.
    pub(crate) fn suspend(
        &mut self,
        end: &End<'_>,
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(lane) = self.lanes.get(end.thread) else { return false };
        let poll = |place: &SpanRef| {
            let span = self.open.get(*place)?;
            let is_it = span.begin.is_poll && span.begin.key == end.key;
            is_it.then_some((*place, span.on_stack))
        };
        let Some((poll, is_sync)) = lane.stack.iter().rev().find_map(poll) else { return false };
        self.draw(poll, is_sync, (end.at, end.details), draw, out);
        true
    }

    /// A span whose start is not in the trace, or that one event stands for, has ended.
    pub(crate) fn whole(
        &mut self,
        begin: Begin,
        end: &End<'_>,
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) {
        self.unwind(begin.thread, begin.parent, out);
        let around = self.top(begin.thread).and_then(|top| Some(self.open.get(top)?.begin.at));
        let is_inside = around.is_none_or(|around| around <= begin.at);
        let is_sync = is_inside && !end.had_pauses && self.lane(end.thread).has_room(begin.at);
        let in_parent = around.is_some();
        self.add_flow_from_parent(&begin, in_parent && is_sync);
        let place = self.insert(begin, [None; 2], in_parent);
        self.draw(place, is_sync, (end.at, end.details), draw, out);
    }

    /// Nothing more happens on a thread.
    pub(crate) fn end_thread(&mut self, thread: usize, out: &mut Vec<u8>) {
        self.unwind(thread, None, out);
        if let Some(lane) = self.lanes.get_mut(thread) {
            *lane = Lane::default();
        }
    }

    /// Writes the spans that have not ended.
    pub(crate) fn finish(&mut self, draw: &mut impl Draw, out: &mut Vec<u8>) {
        // A span's begin must come before those inside of it.
        while let Some(place) = self.open.oldest() {
            let Some(mut span) = self.open.take(place) else { continue };
            let Open { begin, on_stack, pending, flows, nested, .. } = &mut span;
            let place = match on_stack {
                true => Place::Thread(begin.thread),
                false => {
                    flows.append(nested);
                    draw.own_track(begin, None, out)
                }
            };
            draw.begin(place, begin, Flows { elsewhere: flows, inside: nested }, None, out);
            out.append(pending);
            self.keep(span);
        }
    }

    fn draw(
        &mut self,
        place: SpanRef,
        is_sync: bool,
        (at, details): (i64, &[u8]),
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) {
        let Some(thread) = self.open.get(place).map(|span| span.begin.thread) else { return };
        if is_sync {
            // Those that began inside and go on are asynchronous.
            while let Some(top) = self.top(thread).filter(|top| *top != place) {
                self.leave_stack(top, out);
            }
            self.lane(thread).stack.pop();
        } else {
            self.leave_stack(place, out);
        }
        let Some(mut span) = self.open.take(place) else { return };
        self.waiting -= span.waiting;
        let mut bytes = self.buffer();
        let start = span.begin.at;
        let at = if is_sync { self.lane(thread).forward(at) } else { at.max(start) };
        let Open { begin, flows, nested, pending, .. } = &mut span;
        let place =
            if is_sync { Place::Thread(thread) } else { draw.own_track(begin, Some(at), out) };
        if !is_sync {
            flows.append(nested);
        }
        let flows = Flows { elsewhere: flows, inside: nested };
        draw.begin(place, begin, flows, Some((at, details)), &mut bytes);
        bytes.append(pending);
        let into = if is_sync { self.at(thread, start, out) } else { &mut *out };
        into.append(&mut bytes);
        keep(&mut self.buffers, &mut bytes);
        let into = if is_sync { self.at(thread, at, out) } else { out };
        draw.end(place, at, details, into);
        if is_sync {
            self.lane(thread).close(start, at);
        }
        if span.is_found {
            draw.closed(&span.begin);
        }
        self.keep(span);
    }

    /// Takes the spans from the stack of a thread that are not under way on it any more, if a span
    /// with this parent is.
    fn unwind(&mut self, thread: usize, parent: Option<Key>, out: &mut Vec<u8>) {
        while let Some(top) = self.top(thread) {
            let is_parent = |span: &Open| {
                let Begin { key, alias, .. } = span.begin;
                parent.is_some() && (parent == Some(key) || parent == alias)
            };
            if self.open.get(top).is_some_and(is_parent) {
                return;
            }
            self.leave_stack(top, out);
        }
    }

    /// A span turns out to be asynchronous.
    fn leave_stack(&mut self, place: SpanRef, out: &mut Vec<u8>) {
        let Some(span) = self.open.get_mut(place).filter(|span| span.on_stack) else { return };
        span.on_stack = false;
        let (thread, at) = (span.begin.thread, span.begin.at);
        let mut pending = std::mem::take(&mut span.pending);
        self.waiting -= std::mem::take(&mut span.waiting);
        let took_part = std::mem::take(&mut span.in_parent) && !span.begin.is_poll;
        let (flow, parent) = (span.begin.flow(), span.begin.parent);
        let parent = parent.filter(|_| took_part).and_then(|key| self.open.find(key));
        if let Some(Open { nested, flows, .. }) = parent.and_then(|it| self.open.get_mut(it)) {
            // Its parent took it for one inside.
            if let Some(at) = nested.iter().rposition(|id| *id == flow) {
                nested.swap_remove(at);
                flows.push(flow);
            }
        }
        let lane = &mut self.lanes[thread];
        lane.dead += 1;
        if lane.dead > 16 && lane.dead * 2 > lane.stack.len() {
            let open = &self.open;
            lane.stack.retain(|place| open.get(*place).is_some_and(|span| span.on_stack));
            lane.dead = 0;
        }
        if !pending.is_empty() {
            self.at(thread, at, out).append(&mut pending);
        }
        keep(&mut self.buffers, &mut pending);
    }

    /// The innermost span of a thread.
    fn top(&mut self, thread: usize) -> Option<SpanRef> {
        let lane = self.lanes.get_mut(thread)?;
        while let Some(top) = lane.stack.last().copied() {
            if self.open.get(top).is_some_and(|span| span.on_stack) {
                return Some(top);
            }
            lane.stack.pop();
            lane.dead = lane.dead.saturating_sub(1);
        }
        None
    }

    fn lane(&mut self, thread: usize) -> &mut Lane {
        if self.lanes.len() <= thread {
            self.lanes.resize_with(thread + 1, Lane::default);
        }
        &mut self.lanes[thread]
    }

    /// Adds a flow from a span that is under way to something that is drawn elsewhere. Returns
    /// whether there is such a span, and room.
    pub(crate) fn link(&mut self, from: Key, flow: u64) -> bool {
        let Some(from) = self.open.find(from) else { return false };
        let before = self.flows_left_out;
        self.add_flow(from, flow, false);
        self.flows_left_out == before
    }

    fn add_flow_from_parent(&mut self, begin: &Begin, is_inside: bool) {
        if let Some(parent) = begin.parent.and_then(|key| self.open.find(key)) {
            self.add_flow(parent, begin.flow(), is_inside);
        }
    }

    fn add_flow(&mut self, place: SpanRef, flow: u64, is_inside: bool) {
        let Some(parent) = self.open.get_mut(place) else { return };
        if parent.flows.len() + parent.nested.len() >= CHILDREN {
            self.flows_left_out += u64::from(!is_inside);
            return;
        }
        if is_inside {
            parent.nested.push(flow)
        } else {
            parent.flows.push(flow)
        }
        self.open.grow(place, 8);
    }

    /// Adds a span. Only those that have begun are found by their ids: neither polls nor those that
    /// become known at their ends.
    fn insert(&mut self, begin: Begin, keys: [Option<Key>; 2], in_parent: bool) -> SpanRef {
        let (size, thread) = (SPAN_BYTES + begin.details.len(), begin.thread);
        let open = Open {
            begin,
            is_found: keys[0].is_some(),
            on_stack: true,
            in_parent,
            pending: self.buffer(),
            waiting: 0,
            flows: self.lists.pop().unwrap_or_default(),
            nested: self.lists.pop().unwrap_or_default(),
        };
        let place = self.open.begin(keys, size, open);
        self.lane(thread).stack.push(place);
        place
    }

    /// Keeps the memory of a span that was drawn for others.
    fn keep(&mut self, mut span: Open) {
        keep(&mut self.buffers, &mut span.begin.details);
        keep(&mut self.buffers, &mut span.pending);
        keep(&mut self.lists, &mut span.flows);
        keep(&mut self.lists, &mut span.nested);
    }

    /// Writes the start of a span as an event, and forgets the span.
    fn give_up(&mut self, place: SpanRef, draw: &mut impl Draw, out: &mut Vec<u8>) {
        self.leave_stack(place, out);
        let Some(span) = self.open.take(place) else { return };
        draw.instant(&span.begin, out);
        if span.is_found {
            draw.closed(&span.begin);
        }
        self.keep(span);
    }
}

/// Keeps the memory of a list for another one.
fn keep<T>(kept: &mut Vec<Vec<T>>, list: &mut Vec<T>) {
    let mut list = std::mem::take(list);
    let size = list.capacity() * size_of::<T>();
    if size > 0 && size <= BUFFER && kept.len() < BUFFERS {
        list.clear();
        kept.push(list);
    }
}

impl Lane {
    /// The time of a begin or end: not before the last one.
    fn forward(&mut self, at: i64) -> i64 {
        let at = self.latest.map_or(at, |latest| latest.max(at));
        self.latest = Some(at);
        at
    }

    /// Whether a slice that ends now can have begun then without cutting another one.
    fn has_room(&self, at: i64) -> bool {
        let around = self.closed.iter().rev().find(|(start, _)| *start < at);
        match around {
            Some((_, end)) => *end <= at,
            None => self.forgotten <= at,
        }
    }

    fn close(&mut self, start: i64, end: i64) {
        while self.closed.back().is_some_and(|(inside, _)| *inside >= start) {
            self.closed.pop_back();
        }
        if self.closed.len() == CLOSED {
            if let Some((_, end)) = self.closed.pop_front() {
                self.forgotten = self.forgotten.max(end);
            }
        }
        self.closed.push_back((start, end));
    }
}
