//! Which spans are slices of their thread, and which have a track of their own.
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

use nettrace_reader::__shared::Map;

use crate::model::Key;

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
    /// Makes a track for an asynchronous span.
    fn own_track(&mut self, span: &Begin, out: &mut Vec<u8>) -> Place;

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

/// A place in [`Spans::open`] that may have been taken by another span since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ref {
    slot: usize,
    number: u64,
}

#[derive(Debug)]
struct Open {
    begin: Begin,
    number: u64,
    is_live: bool,
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
    stack: Vec<Ref>,
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
    open: Vec<Open>,
    free: Vec<usize>,
    by_key: Map<Key, usize>,
    lanes: Vec<Lane>,
    /// In the order of their starts; some have ended.
    oldest: VecDeque<Ref>,
    number: u64,
    live: usize,
    /// How many events and slices wait for the begin of spans.
    waiting: usize,
    bytes: usize,
    limit: usize,
    /// Buffers that are empty.
    buffers: Vec<Vec<u8>>,
    lists: Vec<Vec<u64>>,
    /// Spans whose start was written as an event, because too many were under way.
    pub(crate) given_up: u64,
    /// Flows that were left out, because the parent has too many children.
    pub(crate) flows_left_out: u64,
}

impl Spans {
    /// `limit` bounds the memory, in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            open: Vec::new(),
            free: Vec::new(),
            by_key: Map::default(),
            lanes: Vec::new(),
            oldest: VecDeque::new(),
            number: 0,
            live: 0,
            waiting: 0,
            bytes: 0,
            limit,
            buffers: Vec::new(),
            lists: Vec::new(),
            given_up: 0,
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
        let Some(slot) = self.top(thread).map(|top| top.slot) else { return out };
        let span = &mut self.open[slot];
        if span.begin.at != at || span.pending.len() >= PENDING || self.waiting >= WAITING {
            return out;
        }
        span.waiting += 1;
        self.waiting += 1;
        &mut span.pending
    }

    /// Whether an event with this id and name says something of a span that is under way, or of
    /// none. Otherwise it is an event inside of that span, whatever its opcode.
    pub(crate) fn is_of_span(&self, key: Key, name: &Name) -> bool {
        let slot = self.by_key.get(&key);
        slot.is_none_or(|slot| self.open[*slot].begin.name.bytes == name.bytes)
    }

    /// A span begins.
    pub(crate) fn start(&mut self, mut begin: Begin, draw: &mut impl Draw, out: &mut Vec<u8>) {
        begin.at = self.lane(begin.thread).forward(begin.at);
        if let Some(slot) = self.by_key.get(&begin.key).copied() {
            // Another one with its id.
            self.give_up(slot, draw, out);
        }
        self.unwind(begin.thread, begin.parent, out);
        let in_parent = self.top(begin.thread).is_some();
        let flow = begin.flow();
        if let Some(parent) = begin.parent.and_then(|key| self.by_key.get(&key).copied()) {
            self.add_flow(parent, flow, in_parent);
        }
        let (key, alias) = (begin.key, begin.alias);
        let slot = self.insert(begin, in_parent);
        self.by_key.insert(key, slot);
        if let Some(alias) = alias {
            self.by_key.entry(alias).or_insert(slot);
        }
        while self.bytes > self.limit {
            let Some(oldest) = self.oldest.pop_front() else { break };
            if self.is_live(oldest) {
                self.give_up(oldest.slot, draw, out);
            }
        }
    }

    /// A span ends. Returns whether its start was known.
    pub(crate) fn stop(&mut self, end: &End<'_>, draw: &mut impl Draw, out: &mut Vec<u8>) -> bool {
        let Some(slot) = self.by_key.get(&end.key).copied() else { return false };
        let span = &self.open[slot];
        let is_sync = span.on_stack && span.begin.thread == end.thread && !end.had_pauses;
        self.draw(slot, is_sync, (end.at, end.details), draw, out);
        true
    }

    /// A poll of a span begins.
    pub(crate) fn resume(&mut self, mut begin: Begin, out: &mut Vec<u8>) {
        begin.at = self.lane(begin.thread).forward(begin.at);
        begin.is_poll = true;
        self.unwind(begin.thread, Some(begin.key), out);
        self.insert(begin, true);
    }

    /// A poll of a span ends. Returns whether its start was known.
    pub(crate) fn suspend(
        &mut self,
        end: &End<'_>,
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(lane) = self.lanes.get(end.thread) else { return false };
        let is_it = |place: &&Ref| {
            let span = &self.open[place.slot];
            span.number == place.number
                && span.is_live
                && span.begin.is_poll
                && span.begin.key == end.key
        };
        let Some(poll) = lane.stack.iter().rev().find(is_it).copied() else { return false };
        let is_sync = self.open[poll.slot].on_stack;
        self.draw(poll.slot, is_sync, (end.at, end.details), draw, out);
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
        let around = self.top(begin.thread).map(|top| self.open[top.slot].begin.at);
        let is_inside = around.is_none_or(|around| around <= begin.at);
        let is_sync = is_inside && !end.had_pauses && self.lane(end.thread).has_room(begin.at);
        let in_parent = around.is_some();
        let flow = begin.flow();
        if let Some(parent) = begin.parent.and_then(|key| self.by_key.get(&key).copied()) {
            self.add_flow(parent, flow, in_parent && is_sync);
        }
        let slot = self.insert(begin, in_parent);
        self.draw(slot, is_sync, (end.at, end.details), draw, out);
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
        for at in 0..self.oldest.len() {
            let place = self.oldest[at];
            if self.is_live(place) {
                let is_sync = self.open[place.slot].on_stack;
                self.draw_begin(place.slot, is_sync, draw, out);
            }
        }
    }

    fn draw_begin(&mut self, slot: usize, is_sync: bool, draw: &mut impl Draw, out: &mut Vec<u8>) {
        let Open { begin, pending, flows, nested, .. } = &mut self.open[slot];
        let place = if is_sync { Place::Thread(begin.thread) } else { draw.own_track(begin, out) };
        if !is_sync {
            flows.append(nested);
        }
        let flows = Flows { elsewhere: flows, inside: nested };
        draw.begin(place, begin, flows, None, out);
        out.append(pending);
        self.remove(slot);
    }

    fn draw(
        &mut self,
        slot: usize,
        is_sync: bool,
        end: (i64, &[u8]),
        draw: &mut impl Draw,
        out: &mut Vec<u8>,
    ) {
        let thread = self.open[slot].begin.thread;
        if is_sync {
            // Those that began inside and go on are asynchronous.
            while let Some(top) = self.top(thread).filter(|top| top.slot != slot) {
                self.leave_stack(top.slot, out);
            }
            self.lane(thread).stack.pop();
        } else if self.open[slot].on_stack {
            self.leave_stack(slot, out);
        }
        self.open[slot].on_stack = false;
        let mut bytes = self.buffer();
        let (at, details) = end;
        let start = self.open[slot].begin.at;
        let at = if is_sync { self.lane(thread).forward(at) } else { at.max(start) };
        let Open { begin, flows, nested, pending, .. } = &mut self.open[slot];
        let place = if is_sync { Place::Thread(thread) } else { draw.own_track(begin, out) };
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
        self.remove(slot);
    }

    /// Takes the spans from the stack of a thread that are not under way on it any more, if a span
    /// with this parent is.
    fn unwind(&mut self, thread: usize, parent: Option<Key>, out: &mut Vec<u8>) {
        while let Some(top) = self.top(thread) {
            let span = &self.open[top.slot].begin;
            if parent.is_some() && (parent == Some(span.key) || parent == span.alias) {
                return;
            }
            self.leave_stack(top.slot, out);
        }
    }

    /// A span turns out to be asynchronous.
    fn leave_stack(&mut self, slot: usize, out: &mut Vec<u8>) {
        let span = &mut self.open[slot];
        span.on_stack = false;
        let (thread, at) = (span.begin.thread, span.begin.at);
        let mut pending = std::mem::take(&mut span.pending);
        self.waiting -= std::mem::take(&mut span.waiting);
        let took_part = std::mem::take(&mut span.in_parent) && !span.begin.is_poll;
        let (flow, parent) = (span.begin.flow(), span.begin.parent);
        if let Some(parent) = parent.filter(|_| took_part).and_then(|key| self.by_key.get(&key)) {
            // Its parent took it for one inside.
            let Open { nested, flows, .. } = &mut self.open[*parent];
            if let Some(at) = nested.iter().rposition(|id| *id == flow) {
                nested.swap_remove(at);
                flows.push(flow);
            }
        }
        let lane = &mut self.lanes[thread];
        lane.dead += 1;
        if lane.dead > 16 && lane.dead * 2 > lane.stack.len() {
            let open = &self.open;
            lane.stack.retain(|place| {
                let span = &open[place.slot];
                span.number == place.number && span.is_live && span.on_stack
            });
            lane.dead = 0;
        }
        if !pending.is_empty() {
            self.at(thread, at, out).append(&mut pending);
        }
        keep(&mut self.buffers, &mut pending);
    }

    /// The innermost span of a thread.
    fn top(&mut self, thread: usize) -> Option<Ref> {
        let lane = self.lanes.get_mut(thread)?;
        while let Some(top) = lane.stack.last().copied() {
            let span = &self.open[top.slot];
            if span.number == top.number && span.is_live && span.on_stack {
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
        let Some(slot) = self.by_key.get(&from).copied() else { return false };
        let before = self.flows_left_out;
        self.add_flow(slot, flow, false);
        self.flows_left_out == before
    }

    fn add_flow(&mut self, parent: usize, flow: u64, is_inside: bool) {
        let parent = &mut self.open[parent];
        if parent.flows.len() + parent.nested.len() >= CHILDREN {
            self.flows_left_out += u64::from(!is_inside);
            return;
        }
        self.bytes += 8;
        if is_inside { parent.nested.push(flow) } else { parent.flows.push(flow) }
    }

    fn insert(&mut self, begin: Begin, in_parent: bool) -> usize {
        self.bytes += SPAN_BYTES + begin.details.len();
        self.number += 1;
        self.live += 1;
        let (number, thread) = (self.number, begin.thread);
        let open = Open {
            begin,
            number,
            is_live: true,
            on_stack: true,
            in_parent,
            pending: self.buffer(),
            waiting: 0,
            flows: self.lists.pop().unwrap_or_default(),
            nested: self.lists.pop().unwrap_or_default(),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.open[slot] = open;
                slot
            }
            None => {
                self.open.push(open);
                self.open.len() - 1
            }
        };
        let place = Ref { slot, number };
        self.lane(thread).stack.push(place);
        if self.oldest.len() > 2 * self.live + 1024 {
            let open = &self.open;
            self.oldest.retain(|place| {
                open[place.slot].number == place.number && open[place.slot].is_live
            });
        }
        self.oldest.push_back(place);
        slot
    }

    fn remove(&mut self, slot: usize) {
        let span = &mut self.open[slot];
        span.is_live = false;
        let children = 8 * (span.flows.len() + span.nested.len());
        self.bytes = self.bytes.saturating_sub(SPAN_BYTES + span.begin.details.len() + children);
        self.live -= 1;
        self.waiting -= span.waiting;
        let (is_poll, key, alias) = (span.begin.is_poll, span.begin.key, span.begin.alias);
        keep(&mut self.buffers, &mut span.begin.details);
        keep(&mut self.buffers, &mut span.pending);
        keep(&mut self.lists, &mut span.flows);
        keep(&mut self.lists, &mut span.nested);
        for key in [Some(key), alias].into_iter().flatten().filter(|_| !is_poll) {
            if self.by_key.get(&key) == Some(&slot) {
                self.by_key.remove(&key);
            }
        }
        self.free.push(slot);
    }

    /// Writes the start of a span as an event, and forgets the span.
    fn give_up(&mut self, slot: usize, draw: &mut impl Draw, out: &mut Vec<u8>) {
        if self.open[slot].on_stack {
            self.leave_stack(slot, out);
        }
        draw.instant(&self.open[slot].begin, out);
        self.given_up += 1;
        self.remove(slot);
    }

    fn is_live(&self, place: Ref) -> bool {
        let span = &self.open[place.slot];
        span.number == place.number && span.is_live
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
