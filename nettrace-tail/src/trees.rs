//! What is known of each tree of spans, and whether its rows are kept.
//!
//! A tree is what this process shows of one trace. It asks for a decision if the oldest of its rows
//! is the Start of a span that asks. Such spans are its *roots*: one, or several if a caller makes
//! several requests in one trace. Roots that overlap are decided upon together. Times are ticks.
//!
//! Rows come in the order of the stream: one thread after the other, so a span's Stop may come
//! before its Start. Whatever is decided is decided by the times in the rows.

use std::{
    collections::{VecDeque, hash_map::Entry},
    time::{Duration, Instant},
};

use nettrace_format::v6::RowHeader;
use nettrace_reader::__shared::{Map, Seeded};

use crate::{
    blocks::SpanOf,
    roles::{Kind, Outcome, Role},
};

/// About how many bytes a tree takes, besides its roots that have not ended.
const TREE: usize = 256;

/// About how many bytes a root takes that has not ended.
const OPEN: usize = 20;

/// The most Stops of a tree that wait for their Start, and the most failures that are remembered.
const MOST: usize = 64;

/// The end of a root.
#[derive(Clone, Copy, Debug)]
struct Stop {
    span: u64,
    ended: u64,
    failed: bool,
}

/// The time of roots that overlap. A part also has the rows after it, up to the next part.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    /// When the last of those that have ended did so.
    ended: u64,
    /// How many have not ended.
    open: u32,
    /// A root was slow or failed, or was written before it ended.
    kept: bool,
    /// Rows were left out already.
    left_out: bool,
}

impl Part {
    fn to(&self) -> u64 {
        if self.open > 0 { u64::MAX } else { self.ended }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from <= other.to() && other.from <= self.to()
    }

    fn with(self, other: &Self) -> Self {
        Self {
            from: self.from.min(other.from),
            ended: self.ended.max(other.ended),
            open: self.open + other.open,
            kept: self.kept || other.kept,
            left_out: self.left_out && other.left_out,
        }
    }
}

#[derive(Debug)]
struct Tree {
    /// The oldest row, and whether it is the start of a root.
    oldest: u64,
    asks: bool,
    /// When each root began that has not ended, by its id.
    open: Map<u64, u64>,
    /// Stops whose Start has not come.
    stops: Vec<Stop>,
    /// In the order of time. They do not overlap.
    parts: Vec<Part>,
    /// When something failed that is no root.
    failures: Vec<u64>,
    /// The last batch with rows of it.
    last_batch: u64,
    is_decided: bool,
}

impl Tree {
    fn new(hashes: Seeded) -> Self {
        Self {
            oldest: u64::MAX,
            asks: false,
            open: Map::with_hasher(hashes),
            stops: Vec::new(),
            parts: Vec::new(),
            failures: Vec::new(),
            last_batch: 0,
            is_decided: false,
        }
    }

    /// Notes a row. `span` is what it belongs to.
    fn saw_row(
        &mut self,
        header: &RowHeader,
        payload: &[u8],
        span: u64,
        role: Option<&Role>,
        batch: u64,
    ) {
        self.last_batch = batch;
        let at = header.timestamp;
        let Some(role) = role else { return self.saw(at, false) };
        let outcome = role.outcome(payload);
        match (role.kind, role.asks) {
            (Kind::Start, Some(slow)) => {
                self.saw(at, true);
                self.starts(span, at, slow);
            }
            (Kind::Stop, Some(slow)) => {
                self.saw(at, false);
                let failed = !matches!(outcome, Outcome::Ok | Outcome::Unknown);
                self.stops(Stop { span, ended: at, failed }, slow);
            }
            (Kind::Single(duration), Some(slow)) => {
                let nanos = duration.and_then(|place| payload.get(place..)?.first_chunk());
                let nanos = nanos.copied().map_or(0, u64::from_le_bytes);
                let started = at.saturating_sub(role.ticks(nanos));
                self.saw(started, true);
                self.starts(span, started, slow);
                let failed = !matches!(outcome, Outcome::Ok | Outcome::Unknown);
                self.stops(Stop { span, ended: at, failed }, slow);
            }
            (Kind::Error, _) => {
                self.saw(at, false);
                self.failed(at);
            }
            _ => {
                self.saw(at, false);
                if outcome == Outcome::Failed {
                    self.failed(at);
                }
            }
        }
    }

    /// Notes the time of a row, and whether a root began then.
    fn saw(&mut self, at: u64, begins: bool) {
        if at < self.oldest || at == self.oldest && begins {
            (self.oldest, self.asks) = (at, begins);
        }
    }

    /// A root begins. Its Stop may have come before.
    fn starts(&mut self, span: u64, started: u64, slow: u64) {
        let stop = self.stops.iter().position(|stop| stop.span == span);
        let part = Part { from: started, ended: started, open: 1, kept: false, left_out: false };
        let part = match stop.map(|at| self.stops.swap_remove(at)) {
            Some(stop) => {
                let ended = stop.ended.max(started);
                Part { ended, open: 0, kept: stop.failed || ended - started >= slow, ..part }
            }
            None => {
                self.open.insert(span, started);
                part
            }
        };
        let mut whole = part;
        // Whatever overlaps with the whole overlaps with this one, or is next to one that does.
        while let Some(at) = self.parts.iter().position(|other| other.overlaps(&whole)) {
            whole = self.parts.remove(at).with(&whole);
        }
        let at = self.parts.partition_point(|other| other.from < whole.from);
        self.parts.insert(at, whole);
    }

    /// A root ends. Its Start may come later.
    fn stops(&mut self, stop: Stop, slow: u64) {
        let Some(started) = self.open.remove(&stop.span) else {
            if self.stops.len() < MOST {
                self.stops.push(stop);
            }
            return;
        };
        if let Some(part) = self.part(started) {
            part.open = part.open.saturating_sub(1);
            part.ended = part.ended.max(stop.ended);
            part.kept |= stop.failed || stop.ended.saturating_sub(started) >= slow;
        }
    }

    /// Something that is no root has failed.
    fn failed(&mut self, at: u64) {
        if self.failures.len() == MOST {
            // One stands for all that are as old: more is kept than must be.
            self.failures.sort_unstable();
            self.failures.drain(1..MOST / 2);
        }
        self.failures.push(at);
    }

    /// The part that has the rows of a time.
    fn part(&mut self, at: u64) -> Option<&mut Part> {
        let next = self.parts.partition_point(|part| part.from <= at);
        self.parts.get_mut(next.saturating_sub(1))
    }

    /// Whether the rows of the part with the index are kept.
    fn keeps(&self, at: usize) -> bool {
        let part = &self.parts[at];
        let to = self.parts.get(at + 1).map_or(u64::MAX, |next| next.from - 1);
        let has_failed = || self.failures.iter().any(|failed| (part.from..=to).contains(failed));
        !part.left_out && (part.kept || part.open > 0 || has_failed())
    }

    fn bytes(&self) -> usize {
        TREE + self.open.capacity() * OPEN
    }

    /// Forgets parts all of whose rows are older than those of the time `from`.
    fn forget(&mut self, from: u64) {
        while let [first, next, ..] = &*self.parts {
            if first.open > 0 || next.from >= from {
                break;
            }
            let next = next.from;
            self.parts.remove(0);
            self.failures.retain(|failed| *failed >= next);
        }
    }
}

/// The trees whose rows are held back, or were until recently.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: Map<[u8; 16], Tree>,
    /// The sum of their bytes.
    bytes: usize,
    /// For the maps of trees.
    hashes: Seeded,
    /// When to look whether a tree can be forgotten.
    decided: VecDeque<(Instant, [u8; 16])>,
}

impl Trees {
    /// Notes a row. `span` is what it belongs to.
    pub(crate) fn saw(
        &mut self,
        header: &RowHeader,
        payload: &[u8],
        span: SpanOf,
        role: Option<&Role>,
        batch: u64,
    ) {
        let tree = match self.trees.entry(span.trace) {
            Entry::Occupied(tree) => tree.into_mut(),
            Entry::Vacant(place) => {
                self.bytes += TREE;
                place.insert(Tree::new(self.hashes))
            }
        };
        let before = tree.bytes();
        tree.saw_row(header, payload, span.span, role, batch);
        self.bytes = self.bytes + tree.bytes() - before;
    }

    /// Whether some rows of a trace from the time `from` on may be kept.
    pub(crate) fn keeps_some(&mut self, trace: &[u8; 16], from: u64) -> bool {
        let Some(tree) = self.trees.get_mut(trace).filter(|tree| tree.asks) else { return true };
        tree.forget(from);
        (0..tree.parts.len()).any(|at| tree.keeps(at))
    }

    /// Whether a trace's rows of the time `at` are kept. Whatever is decided about the first of a
    /// part is decided about all. `can` is false if their labels are left out.
    pub(crate) fn keeps(&mut self, trace: &[u8; 16], at: u64, can: bool) -> bool {
        let Some(tree) = self.trees.get_mut(trace).filter(|tree| tree.asks) else { return can };
        let next = tree.parts.partition_point(|part| part.from <= at);
        let index = next.saturating_sub(1);
        let keeps = can && index < tree.parts.len() && tree.keeps(index);
        if let Some(part) = tree.parts.get_mut(index) {
            part.kept |= keeps;
            part.left_out |= !keeps;
        }
        keeps
    }

    /// Whether a root has begun and has not ended.
    pub(crate) fn is_open(&self, root: &SpanOf) -> bool {
        let tree = self.trees.get(&root.trace);
        tree.is_some_and(|tree| tree.open.contains_key(&root.span))
    }

    /// Notes that rows of a tree are written, or left out.
    pub(crate) fn decided(&mut self, trace: &[u8; 16], now: Instant) {
        let tree = self.trees.get_mut(trace).filter(|tree| !tree.is_decided);
        if let Some(tree) = tree {
            tree.is_decided = true;
            self.decided.push_back((now, *trace));
        }
    }

    /// Forgets trees of which no row has come for a while after they were decided. No batch after
    /// `written` is held back.
    pub(crate) fn forget(&mut self, now: Instant, window: Duration, written: u64, is_low: bool) {
        for _ in 0..self.decided.len() {
            let Some(&(at, trace)) = self.decided.front() else { return };
            if !is_low && now.saturating_duration_since(at) < window {
                return;
            }
            self.decided.pop_front();
            match self.trees.get(&trace) {
                Some(tree) if tree.last_batch > written => self.decided.push_back((now, trace)),
                _ => {
                    let tree = self.trees.remove(&trace);
                    self.bytes -= tree.as_ref().map_or(0, Tree::bytes);
                }
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
