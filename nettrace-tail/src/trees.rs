//! What is known of each tree of spans, and whether its rows are kept.
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

use nettrace_format::v6::RowHeader;

use crate::{
    blocks::SpanOf,
    roles::{Kind, Outcome, Role},
};

type TraceId = [u8; 16];

/// What a tree has besides its roots, parts and failures.
#[derive(Debug)]
struct Tree {
    /// The oldest row, and whether it is the start of a root.
    oldest: u64,
    /// The last batch with rows of it.
    last_batch: u64,
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

/// The time of roots that overlap, by when it begins. A part also has the rows after it, up to the
/// next part. Parts of a tree do not overlap.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// When the last of those that have ended did so.
    ended: u64,
    /// How many have not ended.
    open: u32,
    /// A root was slow or failed, something failed within, or rows were written already.
    kept: bool,
    /// Rows were left out already.
    left_out: bool,
}

impl Part {
    fn to(&self) -> u64 {
        if self.open > 0 { u64::MAX } else { self.ended }
    }

    fn with(self, other: &Self) -> Self {
        Self {
            ended: self.ended.max(other.ended),
            open: self.open + other.open,
            kept: self.kept || other.kept,
            left_out: self.left_out && other.left_out,
        }
    }
}

/// The trees whose rows are held back, or were until recently.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: BTreeMap<TraceId, Tree>,
    /// By their span.
    roots: BTreeMap<(TraceId, u64), Root>,
    parts: BTreeMap<(TraceId, u64), Part>,
    /// When something failed after a part, or before there was one.
    failures: BTreeSet<(TraceId, u64)>,
    /// Trees of which rows are written or left out, and since when.
    decided: LinkedList<(Instant, TraceId)>,
}

impl Trees {
    /// Notes a row of a batch. `span` is what it belongs to.
    pub(crate) fn saw(
        &mut self,
        header: &RowHeader,
        payload: &[u8],
        span: SpanOf,
        role: Option<&Role>,
        batch: u64,
    ) {
        let SpanOf { trace, span } = span;
        let at = header.timestamp;
        let is_root = role.is_some_and(|role| role.asks.is_some());
        let (oldest, begins) = match role {
            Some(Role { kind: Kind::Start, .. }) => (at, is_root),
            Some(role @ Role { kind: Kind::Single(duration), .. }) if is_root => {
                let nanos = duration.and_then(|place| payload.get(place..)?.first_chunk());
                let nanos = nanos.copied().map_or(0, u64::from_le_bytes);
                (at.saturating_sub(role.ticks(nanos)), true)
            }
            _ => (at, false),
        };
        self.saw_tree(&trace, oldest, begins, batch);
        let Some(role) = role else { return };
        let outcome = role.outcome(payload);
        let failed = !matches!(outcome, Outcome::Ok | Outcome::Unknown);
        match (role.kind, role.asks) {
            (Kind::Start, Some(slow)) => self.starts(trace, span, at, slow),
            (Kind::Stop, Some(slow)) => self.stops(trace, span, at, failed, slow),
            (Kind::Single(_), Some(slow)) => {
                self.starts(trace, span, oldest, slow);
                self.stops(trace, span, at, failed, slow);
            }
            (Kind::Error, _) => self.failed(trace, at),
            _ if outcome == Outcome::Failed => self.failed(trace, at),
            _ => {}
        }
    }

    /// Notes the time of a row, and whether a root began then.
    fn saw_tree(&mut self, trace: &TraceId, at: u64, begins: bool, batch: u64) {
        let tree = self.trees.entry(*trace).or_insert(Tree {
            oldest: u64::MAX,
            last_batch: 0,
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
        let mut part = Part { ended: started, open: 1, kept: false, left_out: false };
        match self.roots.insert((trace, span), Root::Open(started)) {
            Some(Root::Ended { ended, failed }) => {
                self.roots.remove(&(trace, span));
                if let Some(tree) = self.trees.get_mut(&trace) {
                    tree.stops = tree.stops.saturating_sub(1);
                }
                (part.open, part.ended) = (0, ended.max(started));
                part.kept = failed || part.ended - started >= slow;
            }
            // Two of one id: nobody can tell when the first one ends.
            Some(Root::Open(first)) => self.ends(trace, first, started, true),
            None => {}
        }
        let mut from = started;
        // What overlaps is next to each other.
        while let Some((&key, other)) =
            self.parts.range((trace, 0)..=(trace, part.to())).next_back()
        {
            if other.to() < from {
                break;
            }
            part = part.with(other);
            from = from.min(key.1);
            self.parts.remove(&key);
        }
        let within = (trace, from)..=(trace, part.to());
        while let Some(&failure) = self.failures.range(within.clone()).next() {
            self.failures.remove(&failure);
            part.kept = true;
        }
        self.parts.insert((trace, from), part);
    }

    /// A root ends. Its Start may come later.
    fn stops(&mut self, trace: TraceId, span: u64, ended: u64, failed: bool, slow: u64) {
        let root = Root::Ended { ended, failed };
        match self.roots.insert((trace, span), root) {
            Some(Root::Open(started)) => {
                self.roots.remove(&(trace, span));
                let is_slow = ended.saturating_sub(started) >= slow;
                self.ends(trace, started, ended, failed || is_slow);
            }
            Some(Root::Ended { .. }) => {}
            None => {
                if let Some(tree) = self.trees.get_mut(&trace) {
                    tree.stops += 1;
                }
            }
        }
    }

    /// Ends a root in the part that has it.
    fn ends(&mut self, trace: TraceId, started: u64, ended: u64, kept: bool) {
        if let Some((_, part)) = self.parts.range_mut((trace, 0)..=(trace, started)).next_back() {
            part.open = part.open.saturating_sub(1);
            part.ended = part.ended.max(ended);
            part.kept |= kept;
        }
    }

    /// Something that is no root has failed.
    fn failed(&mut self, trace: TraceId, at: u64) {
        match self.parts.range_mut((trace, 0)..=(trace, at)).next_back() {
            Some((_, part)) if at <= part.to() => part.kept = true,
            // A part may yet come in between.
            _ => drop(self.failures.insert((trace, at))),
        }
    }

    /// Whether a trace's rows of the time `at` are kept. Whatever is decided about the first of a
    /// part is decided about all. Rows that come later are no older than `horizon`.
    pub(crate) fn keeps(&mut self, trace: &TraceId, at: u64, horizon: u64) -> bool {
        if !self.trees.get(trace).is_some_and(|tree| tree.asks) {
            return true;
        }
        self.forget_old(*trace, horizon);
        let all = (*trace, 0)..=(*trace, u64::MAX);
        let mut part = self.parts.range_mut((*trace, 0)..=(*trace, at)).next_back();
        if part.is_none() {
            part = self.parts.range_mut(all).next();
        }
        let Some((&(_, from), part)) = part else { return true };
        if !part.left_out && !part.kept && part.open == 0 {
            let mut later = self.parts.range((*trace, from.saturating_add(1))..=(*trace, u64::MAX));
            let to = later.next().map_or(u64::MAX, |((_, next), _)| next - 1);
            let failure = self.failures.range((*trace, from)..=(*trace, to)).next();
            let keeps = failure.is_some();
            if let Some(part) = self.parts.get_mut(&(*trace, from)) {
                (part.kept, part.left_out) = (keeps, !keeps);
            }
            return keeps;
        }
        part.kept |= !part.left_out;
        part.kept && !part.left_out
    }

    /// Forgets of a tree what is older than all rows that are still to come.
    fn forget_old(&mut self, trace: TraceId, horizon: u64) {
        let all = (trace, 0)..=(trace, u64::MAX);
        loop {
            let mut parts = self.parts.range_mut(all.clone());
            let Some((&first, part)) = parts.next() else { break };
            let next = parts.next().map(|((_, next), _)| *next);
            // Nothing can come in between any more.
            let end = next.unwrap_or(u64::MAX).min(horizon);
            while let Some(&failure) = self.failures.range((trace, 0)..(trace, end)).next() {
                self.failures.remove(&failure);
                part.kept = true;
            }
            if next.is_none_or(|next| next >= horizon) {
                break;
            }
            self.parts.remove(&first);
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
    pub(crate) fn is_open(&self, root: &SpanOf) -> bool {
        matches!(self.roots.get(&(root.trace, root.span)), Some(Root::Open(_)))
    }

    /// Notes that rows of a tree are written, or left out.
    pub(crate) fn decided(&mut self, trace: &TraceId, now: Instant) {
        let tree = self.trees.get_mut(trace).filter(|tree| !tree.is_decided);
        if let Some(tree) = tree {
            tree.is_decided = true;
            self.decided.push_back((now, *trace));
        }
    }

    /// Forgets the tree that was decided upon first, if that is a window ago, or if memory is low.
    /// Returns `false` if there is none. No batch after `written` is held back: a tree of which
    /// rows are held back is not forgotten, and is decided upon again.
    pub(crate) fn forget(
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
        while let Some((&key, _)) = self.roots.range(all()).next() {
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
    pub(crate) fn bytes(&self) -> usize {
        self.trees.len() * in_map(size_of::<(TraceId, Tree)>())
            + self.roots.len() * in_map(size_of::<((TraceId, u64), Root)>())
            + self.parts.len() * in_map(size_of::<((TraceId, u64), Part)>())
            + self.failures.len() * in_map(size_of::<(TraceId, u64)>())
            + self.decided.len() * (size_of::<(Instant, TraceId)>() + 2 * size_of::<usize>())
    }
}

/// How many bytes an entry takes in an ordered map. A node has room for 11. Entries that come in
/// the order of their keys leave 6 in it, and one in the node above; others leave more.
pub(crate) const fn in_map(entry: usize) -> usize {
    entry * 7 / 4 + 4
}
