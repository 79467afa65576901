//! The state of each tree of spans, and whether its rows are kept.
//!
//! A tree is what this process shows of one trace. It asks for a decision if the oldest of its rows
//! is the Start of a span that asks. Such spans are its *roots*: one, or several if a caller makes
//! several requests in one trace. Roots that overlap are decided upon together. Times are ticks.
//!
//! Rows come in the order of the stream: one thread after the other, so a span's Stop may come
//! before its Start. Whatever is decided is decided by the times in the rows.
//!
//! Others choose the ids of traces, and how many roots one has. So everything is in maps that are
//! ordered: a row takes steps in the logarithm of what is known, whatever the ids are, and there is
//! no hash that could be met. The maps have nodes of one size, give them back as they shrink, and
//! never move as a whole. So their memory follows from how many entries they have.

use std::{
    collections::{BTreeMap, BTreeSet, LinkedList},
    time::{Duration, Instant},
};

use nettrace_event::{Outcome, role::Role};
use nettrace_format::v6::RowHeader;

use crate::tail::{blocks::SpanOf, roles::Meaning};

type TraceId = [u8; 16];

/// What a tree has besides its roots, parts and failures.
#[derive(Debug)]
struct Tree {
    /// The oldest row, and whether it is the start of a root.
    oldest: u64,
    /// The last batch with rows of it.
    last_batch: u64,
    /// Rows up to here were written while a root had not ended.
    written: Option<u64>,
    /// How many Stops wait for their Start, and with how many the old ones are looked for.
    stops: u32,
    most_stops: u32,
    asks: bool,
    is_decided: bool,
}

/// The fewest Stops that wait among which the old ones are looked for.
const STOPS: u32 = 64;

/// One end of a root, whose other end has not come.
#[derive(Clone, Copy, Debug)]
enum Root {
    /// When it began.
    Open(u64),
    /// When it ended, of which the Start comes later.
    Ended { ended: u64, failed: bool },
}

/// The time of roots that have ended and overlap, by when it begins. A part also has the rows after
/// it, up to the next part or root. Parts of a tree do not overlap.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// When the last of them ended.
    ended: u64,
    /// A root was slow or failed, something failed within, or rows were written already.
    kept: bool,
    /// Rows were left out already.
    left_out: bool,
}

/// The trees whose rows are held back, or were until recently.
#[derive(Debug, Default)]
pub(super) struct Trees {
    trees: BTreeMap<TraceId, Tree>,
    /// By their span.
    roots: BTreeMap<(TraceId, u64), Root>,
    /// Roots that have not ended, by when they began.
    open: BTreeSet<(TraceId, u64, u64)>,
    parts: BTreeMap<(TraceId, u64), Part>,
    /// When something failed outside of the parts.
    failures: BTreeSet<(TraceId, u64)>,
    /// Trees of which rows are written or left out, and since when.
    decided: LinkedList<(Instant, TraceId)>,
}

impl Trees {
    /// Notes a row of a batch. `span` is what it belongs to.
    pub(super) fn saw(
        &mut self,
        header: &RowHeader,
        payload: &[u8],
        span: SpanOf,
        meaning: Option<&Meaning>,
        batch: u64,
    ) {
        let SpanOf { trace, span } = span;
        let at = header.timestamp;
        let (oldest, begins) = match meaning {
            Some(Meaning { role: Role::Start, asks, .. }) => (at, asks.is_some()),
            Some(meaning @ Meaning { role: Role::Single, asks: Some(_), .. }) => {
                (at.saturating_sub(meaning.duration(payload)), true)
            }
            _ => (at, false),
        };
        self.saw_tree(&trace, oldest, begins, batch);
        let Some(meaning) = meaning else { return };
        let outcome = meaning.outcome(payload);
        let failed = outcome.is_some_and(|outcome| outcome != Outcome::Ok);
        match (meaning.role, meaning.asks) {
            (Role::Start, Some(slow)) => self.starts(trace, span, at, slow),
            (Role::Stop, Some(slow)) => self.stops(trace, span, at, failed, slow),
            (Role::Single, Some(slow)) => {
                self.starts(trace, span, oldest, slow);
                self.stops(trace, span, at, failed, slow);
            }
            (Role::Inside, _) => self.failed(trace, at),
            _ if outcome.is_some_and(Outcome::is_failure) => self.failed(trace, at),
            _ => {}
        }
    }

    /// Notes the time of a row, and whether a root began then.
    fn saw_tree(&mut self, trace: &TraceId, at: u64, begins: bool, batch: u64) {
        let tree = self.trees.entry(*trace).or_insert(Tree {
            oldest: u64::MAX,
            last_batch: 0,
            written: None,
            stops: 0,
            most_stops: STOPS,
            asks: false,
            is_decided: false,
        });
        tree.last_batch = batch;
        if at < tree.oldest || at == tree.oldest && begins {
            (tree.oldest, tree.asks) = (at, begins);
        }
    }

    /// A root begins. Its Stop may have come before.
    fn starts(&mut self, trace: TraceId, span: u64, started: u64, slow: u64) {
        match self.roots.remove(&(trace, span)) {
            Some(Root::Ended { ended, failed }) => {
                if let Some(tree) = self.trees.get_mut(&trace) {
                    tree.stops = tree.stops.saturating_sub(1);
                }
                let ended = ended.max(started);
                self.ends(trace, started, ended, failed || ended - started >= slow);
                return;
            }
            // Two of one id: nobody can tell when the first one ends.
            Some(Root::Open(first)) => {
                self.open.remove(&(trace, first, span));
                self.ends(trace, first, started.max(first), true);
            }
            None => {}
        }
        self.roots.insert((trace, span), Root::Open(started));
        self.open.insert((trace, started, span));
    }

    /// A root ends. Its Start may come later.
    fn stops(&mut self, trace: TraceId, span: u64, ended: u64, failed: bool, slow: u64) {
        match self.roots.remove(&(trace, span)) {
            Some(Root::Open(started)) => {
                self.open.remove(&(trace, started, span));
                let ended = ended.max(started);
                self.ends(trace, started, ended, failed || ended - started >= slow);
                return;
            }
            Some(Root::Ended { .. }) => {}
            None => {
                if let Some(tree) = self.trees.get_mut(&trace) {
                    tree.stops += 1;
                }
            }
        }
        self.roots.insert((trace, span), Root::Ended { ended, failed });
    }

    /// Adds the time of a root to the parts.
    fn ends(&mut self, trace: TraceId, mut from: u64, ended: u64, kept: bool) {
        let written = self.trees.get(&trace).and_then(|tree| tree.written);
        let kept = kept || written.is_some_and(|written| from <= written);
        let mut part = Part { ended, kept, left_out: false };
        // What overlaps is next to each other.
        let before = |parts: &BTreeMap<_, Part>, to| {
            let last = parts.range((trace, 0)..=(trace, to)).next_back();
            last.map(|(key, part): (&(TraceId, u64), _)| (*key, *part))
        };
        while let Some((key, other)) = before(&self.parts, part.ended) {
            if other.ended < from {
                break;
            }
            from = from.min(key.1);
            part.ended = part.ended.max(other.ended);
            part.kept |= other.kept;
            self.parts.remove(&key);
        }
        let within = (trace, from)..=(trace, part.ended);
        while let Some(&failure) = self.failures.range(within.clone()).next() {
            self.failures.remove(&failure);
            part.kept = true;
        }
        self.parts.insert((trace, from), part);
    }

    /// Something that is no root has failed.
    fn failed(&mut self, trace: TraceId, at: u64) {
        match self.parts.range_mut((trace, 0)..=(trace, at)).next_back() {
            Some((_, part)) if at <= part.ended => part.kept = true,
            // A part may yet come in between.
            _ => drop(self.failures.insert((trace, at))),
        }
    }

    /// Whether a trace's rows of the time `at` are kept. Whatever is decided about the first of a
    /// part is decided about all. Rows that come later are no older than `horizon`.
    pub(super) fn keeps(&mut self, trace: &TraceId, at: u64, horizon: u64) -> bool {
        let trace = *trace;
        if !self.trees.get(&trace).is_some_and(|tree| tree.asks) {
            return true;
        }
        self.forget_old(trace, horizon);
        let open = self.first_open(trace);
        let is_open = |until: u64| open.is_some_and(|open| open <= until);
        let mut part = self.parts.range((trace, 0)..=(trace, at)).next_back();
        if part.is_none() && !is_open(at) {
            part = self.parts.range((trace, 0)..=(trace, u64::MAX)).next();
        }
        let part = part.map(|(&(_, from), part)| (from, *part));
        let until = part.map_or(at, |(_, part)| part.ended.max(at));
        if is_open(until) {
            // A root has not ended, and this is its part.
            if let Some(tree) = self.trees.get_mut(&trace) {
                tree.written = tree.written.max(Some(until));
            }
        }
        let Some((from, mut part)) = part else { return true };
        if part.left_out {
            return is_open(at);
        }
        part.kept |= is_open(until) || {
            let later = (trace, from.saturating_add(1))..=(trace, u64::MAX);
            let next = self.parts.range(later).next().map_or(u64::MAX, |((_, next), _)| *next);
            let next = next.min(open.unwrap_or(u64::MAX));
            !part.kept && self.failures.range((trace, from)..(trace, next)).next().is_some()
        };
        part.left_out = !part.kept;
        self.parts.insert((trace, from), part);
        part.kept
    }

    /// When the first root began that has not ended.
    fn first_open(&self, trace: TraceId) -> Option<u64> {
        let mut open = self.open.range((trace, 0, 0)..=(trace, u64::MAX, u64::MAX));
        open.next().map(|(_, started, _)| *started)
    }

    /// Forgets of a tree what is older than all rows that are still to come.
    fn forget_old(&mut self, trace: TraceId, horizon: u64) {
        let all = (trace, 0)..=(trace, u64::MAX);
        let open = self.first_open(trace).unwrap_or(u64::MAX);
        loop {
            let mut parts = self.parts.range_mut(all.clone());
            let first = parts.next();
            let next = parts.next().map_or(u64::MAX, |((_, next), _)| *next);
            let next = match &first {
                Some((_, part)) if part.ended < open => next.min(open),
                _ => next,
            };
            // Nothing can come in between any more. What failed while a root was open is written.
            let end = next.min(horizon);
            let mut first = first.map(|(key, part)| (*key, part));
            while let Some(&failure) = self.failures.range((trace, 0)..(trace, end)).next() {
                self.failures.remove(&failure);
                if let Some((_, part)) = &mut first {
                    part.kept = true;
                }
            }
            match first {
                Some((first, _)) if next < horizon => drop(self.parts.remove(&first)),
                _ => break,
            }
        }
        let Some(tree) = self.trees.get_mut(&trace) else { return };
        if tree.stops > tree.most_stops {
            let mut roots = 0;
            let old = self.roots.range(all).filter_map(|(key, root)| {
                roots += 1;
                matches!(root, Root::Ended { ended, .. } if *ended < horizon).then_some(*key)
            });
            let old: Vec<_> = old.collect();
            for key in &old {
                self.roots.remove(key);
            }
            tree.stops -= old.len() as u32;
            tree.most_stops = STOPS.max(roots);
        }
    }

    /// Whether a root has begun and has not ended.
    pub(super) fn is_open(&self, root: &SpanOf) -> bool {
        matches!(self.roots.get(&(root.trace, root.span)), Some(Root::Open(_)))
    }

    /// Notes that rows of a tree are written, or left out.
    pub(super) fn decided(&mut self, trace: &TraceId, now: Instant) {
        let tree = self.trees.get_mut(trace).filter(|tree| !tree.is_decided);
        if let Some(tree) = tree {
            tree.is_decided = true;
            self.decided.push_back((now, *trace));
        }
    }

    /// Forgets the tree that was decided upon first, if that is a window ago, or if memory is low.
    /// Returns `false` if there is none. No batch after `written` is held back: a tree of which
    /// rows are held back is not forgotten, and is decided upon again.
    pub(super) fn forget(
        &mut self,
        now: Instant,
        window: Duration,
        written: u64,
        is_low: bool,
    ) -> bool {
        let Some(&(at, trace)) = self.decided.front() else { return false };
        if !is_low && now.saturating_duration_since(at) < window {
            return false;
        }
        self.decided.pop_front();
        match self.trees.get_mut(&trace) {
            Some(tree) if tree.last_batch > written => tree.is_decided = false,
            _ => self.remove(trace),
        }
        true
    }

    fn remove(&mut self, trace: TraceId) {
        let all = || (trace, 0)..=(trace, u64::MAX);
        self.trees.remove(&trace);
        while let Some((&key, root)) = self.roots.range(all()).next() {
            if let Root::Open(started) = *root {
                self.open.remove(&(trace, started, key.1));
            }
            self.roots.remove(&key);
        }
        while let Some((&key, _)) = self.parts.range(all()).next() {
            self.parts.remove(&key);
        }
        while let Some(&key) = self.failures.range(all()).next() {
            self.failures.remove(&key);
        }
    }

    /// How many bytes of memory all this takes.
    pub(super) fn bytes(&self) -> usize {
        self.trees.len() * in_map(size_of::<(TraceId, Tree)>())
            + self.roots.len() * in_map(size_of::<((TraceId, u64), Root)>())
            + self.open.len() * in_map(size_of::<(TraceId, u64, u64)>())
            + self.parts.len() * in_map(size_of::<((TraceId, u64), Part)>())
            + self.failures.len() * in_map(size_of::<(TraceId, u64)>())
            + self.decided.len() * (size_of::<(Instant, TraceId)>() + 2 * size_of::<usize>())
    }
}

/// How many bytes an entry takes in an ordered map. A node has room for 11. Entries that come in
/// the order of their keys leave 6 in it, and one in the node above; others leave more.
pub(super) const fn in_map(entry: usize) -> usize {
    entry * 7 / 4 + 4
}
