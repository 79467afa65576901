//! What is known of each tree of spans, and whether its rows are kept.
//!
//! A tree is what this process shows of one trace. It asks for a decision if the oldest of its rows
//! is the Start of a span that asks. Such spans are its *roots*: one, or several if a caller makes
//! several requests in one trace. All of a tree is kept but the rows of roots that have ended fast
//! and well. Times are ticks.
//!
//! Rows come in the order of the stream: one thread after the other, so a span's Stop may come
//! before its Start. Whatever is decided is decided by the times in the rows.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use nettrace_format::v6::RowHeader;

use crate::{
    blocks::SpanOf,
    roles::{Kind, Outcome, Role},
};

/// About how many bytes a tree takes.
pub(crate) const TREE: usize = 256;

/// The most Stops of a tree that wait for their Start.
const MOST_STOPS: usize = 64;

/// A root that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    span: u64,
    started: u64,
}

/// The end of a root.
#[derive(Clone, Copy, Debug)]
struct Stop {
    span: u64,
    ended: u64,
    failed: bool,
}

/// A part of a tree that is kept: from a time to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    from: u64,
    to: u64,
}

#[derive(Debug)]
struct Tree {
    /// The oldest row, and whether it is the start of a root.
    oldest: u64,
    asks: bool,
    open: Vec<Open>,
    /// Stops whose Start has not come.
    stops: Vec<Stop>,
    kept: Option<Kept>,
    /// When the last root began.
    last_started: u64,
    /// The last batch with rows of it.
    last_batch: u64,
    is_decided: bool,
}

impl Tree {
    fn new() -> Self {
        Self {
            oldest: u64::MAX,
            asks: false,
            open: Vec::new(),
            stops: Vec::new(),
            kept: None,
            last_started: 0,
            last_batch: 0,
            is_decided: false,
        }
    }

    /// Notes the time of a row, and whether a root began then.
    fn saw(&mut self, at: u64, begins: bool) {
        if at < self.oldest || at == self.oldest && begins {
            (self.oldest, self.asks) = (at, begins);
        }
    }

    /// Keeps all rows from a time on.
    fn keep_from(&mut self, from: u64) {
        let from = self.kept.map_or(from, |kept| kept.from.min(from));
        self.kept = Some(Kept { from, to: u64::MAX });
    }

    fn starts(&mut self, span: u64, started: u64, slow: u64) {
        if let (true, Some(kept)) = (self.open.is_empty(), &mut self.kept) {
            // What the roots before were kept for is over.
            kept.to = kept.to.min(started.saturating_sub(1).max(kept.from));
        }
        self.last_started = self.last_started.max(started);
        match self.stops.iter().position(|stop| stop.span == span) {
            Some(at) => {
                let stop = self.stops.swap_remove(at);
                self.ends(started, &stop, slow);
            }
            None => self.open.push(Open { span, started }),
        }
    }

    fn ends(&mut self, started: u64, stop: &Stop, slow: u64) {
        if stop.failed || stop.ended.saturating_sub(started) >= slow {
            self.keep_from(started);
        }
    }

    fn stops(&mut self, stop: Stop, slow: u64) {
        match self.open.iter().position(|open| open.span == stop.span) {
            Some(at) => {
                let open = self.open.swap_remove(at);
                self.ends(open.started, &stop, slow);
            }
            None if self.stops.len() < MOST_STOPS => self.stops.push(stop),
            None => {}
        }
    }

    /// Something in it has failed.
    fn failed(&mut self, at: u64) {
        let began = self.open.iter().map(|open| open.started).min();
        self.keep_from(began.unwrap_or(self.last_started).min(at));
    }
}

/// The trees whose rows are held back, or were until recently.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: HashMap<[u8; 16], Tree>,
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
        let tree = self.trees.entry(span.trace).or_insert_with(Tree::new);
        tree.last_batch = batch;
        let at = header.timestamp;
        let Some(role) = role else { return tree.saw(at, false) };
        let outcome = role.outcome(payload);
        match (role.kind, role.asks) {
            (Kind::Start, Some(slow)) => {
                tree.saw(at, true);
                tree.starts(span.span, at, slow);
            }
            (Kind::Stop, Some(slow)) => {
                tree.saw(at, false);
                let failed = !matches!(outcome, Outcome::Ok | Outcome::Unknown);
                tree.stops(Stop { span: span.span, ended: at, failed }, slow);
            }
            (Kind::Single(duration), Some(slow)) => {
                let nanos = duration.and_then(|place| payload.get(place..)?.first_chunk());
                let nanos = nanos.copied().map_or(0, u64::from_le_bytes);
                let started = at.saturating_sub(role.ticks(nanos));
                tree.saw(started, true);
                tree.starts(span.span, started, slow);
                let failed = !matches!(outcome, Outcome::Ok | Outcome::Unknown);
                tree.stops(Stop { span: span.span, ended: at, failed }, slow);
            }
            (Kind::Error, _) => {
                tree.saw(at, false);
                tree.failed(at);
            }
            _ => {
                tree.saw(at, false);
                if outcome == Outcome::Failed {
                    tree.failed(at);
                }
            }
        }
    }

    /// Whether some rows of a trace from the time `from` on may be kept.
    pub(crate) fn keeps_some(&self, trace: &[u8; 16], from: u64) -> bool {
        self.trees.get(trace).is_none_or(|tree| {
            !tree.asks || !tree.open.is_empty() || tree.kept.is_some_and(|kept| kept.to >= from)
        })
    }

    /// Whether a trace's rows of the time `at` are kept. If a root that has not ended is the
    /// reason, its other rows are kept as well, however it ends.
    pub(crate) fn keeps(&mut self, trace: &[u8; 16], at: u64) -> bool {
        let Some(tree) = self.trees.get_mut(trace).filter(|tree| tree.asks) else { return true };
        if tree.kept.is_some_and(|kept| (kept.from..=kept.to).contains(&at)) {
            return true;
        }
        let open = tree.open.iter().map(|open| open.started).min();
        let open = open.filter(|open| *open <= at);
        open.into_iter().for_each(|open| tree.keep_from(open));
        open.is_some()
    }

    /// Whether a root has begun and has not ended.
    pub(crate) fn is_open(&self, root: &SpanOf) -> bool {
        let tree = self.trees.get(&root.trace);
        tree.is_some_and(|tree| tree.open.iter().any(|open| open.span == root.span))
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
                _ => drop(self.trees.remove(&trace)),
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.trees.len() * TREE
    }
}
