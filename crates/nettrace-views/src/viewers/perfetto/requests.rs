//! Where asynchronous spans are drawn: the spans of a request below each other.
//!
//! A request is a trace, or without ids of traces a span with those below it. While it has spans
//! under way it has a *lane*, which another request takes over later. So there are as many lanes as
//! requests were under way at once, and not one for each request.
//!
//! A lane has *rows*. A row is a track of Perfetto, whose slices must be nested. A span is drawn
//! when it ends. It goes into the first row in which nothing is cut by it, and in which everything
//! inside of it are its children. Children of one span that run at the same time are in different
//! rows.

use std::collections::{BTreeSet, VecDeque};

use foldhash::HashMap;
use nettrace_event::trace_context::TraceId;

use crate::{
    model::Key,
    viewers::{perfetto::tracks::Tracks, spans::Begin},
};

/// How many lanes there are at most. Further spans have tracks of their own.
const LANES: usize = 1 << 16;

/// How many rows a lane has at most. Further spans have tracks of their own.
const ROWS: usize = 128;

/// How many runs of slices a row remembers.
const RUNS: usize = 64;

/// How many free lanes are tried before there is a new one.
const TRIES: usize = 64;

/// What makes spans one request, beside their process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Root {
    Trace(TraceId),
    Span(Key),
}

/// A request: its process, and what its spans have in common.
type Request = (Option<u64>, Root);

/// The lanes of all requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// How many spans of a request are under way, and its lane.
    live: HashMap<Request, (usize, usize)>,
    /// The root of each span under way that has no id of a trace.
    roots: HashMap<Key, Root>,
    lanes: Vec<Lane>,
    /// The lane that a request has or had, as long as no other request has it.
    places: HashMap<Request, usize>,
    /// The lanes of each process that no request has.
    free: HashMap<Option<u64>, BTreeSet<usize>>,
    /// The track around the lanes of a process.
    groups: HashMap<Option<u64>, u64>,
}

#[derive(Debug)]
struct Lane {
    request: Request,
    rows: Vec<Row>,
    /// The end of the last slice.
    latest: i64,
}

#[derive(Debug)]
struct Row {
    track: u64,
    /// The last slices that are inside of no other one, in the order of time: a run of those with
    /// the same parent is one.
    runs: VecDeque<Run>,
    /// The end of the slices that are not remembered any more.
    forgotten: i64,
    latest: i64,
}

#[derive(Debug)]
struct Run {
    start: i64,
    end: i64,
    parent: Option<Key>,
}

impl Requests {
    /// A span is under way.
    pub(super) fn opened(&mut self, span: &Begin) {
        let root = self.root(span);
        if let Root::Span(_) = root {
            self.roots.insert(span.key, root);
        }
        let request = (span.process, root);
        if let Some((open, _)) = self.live.get_mut(&request) {
            *open += 1;
            return;
        }
        let Some(lane) = self.lane(request, span.at) else { return };
        if let Some(free) = self.free.get_mut(&span.process) {
            free.remove(&lane);
        }
        self.live.insert(request, (1, lane));
    }

    /// A span that was under way has ended, and was drawn.
    pub(super) fn closed(&mut self, span: &Begin) {
        let request = (span.process, self.root(span));
        self.roots.remove(&span.key);
        let Some((open, lane)) = self.live.get_mut(&request) else { return };
        *open -= 1;
        if *open == 0 {
            self.free.entry(span.process).or_default().insert(*lane);
            self.live.remove(&request);
        }
    }

    /// The track for a span that ends then, or has no end.
    pub(super) fn track(
        &mut self,
        span: &Begin,
        end: Option<i64>,
        tracks: &mut Tracks,
        out: &mut Vec<u8>,
    ) -> u64 {
        let request = (span.process, self.root(span));
        let lane = match self.live.get(&request) {
            Some((_, lane)) => Some(*lane),
            None => self.lane(request, span.at),
        };
        let end = end.unwrap_or(i64::MAX);
        let found = lane.and_then(|number| {
            let group = match self.groups.get(&span.process) {
                Some(group) => *group,
                None => {
                    let group = tracks.requests(span.process, out);
                    self.groups.insert(span.process, group);
                    group
                }
            };
            let lane = &mut self.lanes[number];
            lane.latest = lane.latest.max(end);
            lane.row(span, end, |first, row| match first {
                None => tracks.row(group, &format!("request lane {}", number + 1), number, out),
                Some(first) => tracks.row(first, &format!("in parallel {row}"), row, out),
            })
        });
        found.unwrap_or_else(|| tracks.span(span.process, &span.name.text, out))
    }

    fn root(&self, span: &Begin) -> Root {
        match span.key {
            Key::Span(Some(trace), _) => Root::Trace(trace),
            key => {
                let known = self.roots.get(&key);
                let above = || span.parent.and_then(|parent| self.roots.get(&parent));
                known.or_else(above).copied().unwrap_or(Root::Span(key))
            }
        }
    }

    /// The lane of a request that is not under way: the one that it had, one that was free at the
    /// time, or a new one.
    fn lane(&mut self, request: Request, at: i64) -> Option<usize> {
        if let Some(lane) = self.places.get(&request) {
            return Some(*lane);
        }
        let free = self.free.entry(request.0).or_default();
        let was_free = |lane: &&usize| self.lanes[**lane].latest <= at;
        let lane = match free.iter().take(TRIES).find(was_free) {
            Some(lane) => *lane,
            None if self.lanes.len() < LANES => {
                self.lanes.push(Lane { request, rows: Vec::new(), latest: i64::MIN });
                free.insert(self.lanes.len() - 1);
                self.lanes.len() - 1
            }
            None => return None,
        };
        let before = std::mem::replace(&mut self.lanes[lane].request, request);
        self.places.remove(&before);
        self.places.insert(request, lane);
        Some(lane)
    }
}

impl Lane {
    /// The track of the first row that has room for a span, or of a new one, which `describe` makes
    /// below the first one. `None` if there are too many.
    fn row(
        &mut self,
        span: &Begin,
        end: i64,
        describe: impl FnOnce(Option<u64>, usize) -> u64,
    ) -> Option<u64> {
        let place = match self.rows.iter().position(|row| row.has_room(span, end)) {
            Some(place) => place,
            None if self.rows.len() < ROWS => {
                let first = self.rows.first().map(|row| row.track);
                let track = describe(first, self.rows.len() + 1);
                let (runs, forgotten) = (VecDeque::new(), i64::MIN);
                self.rows.push(Row { track, runs, forgotten, latest: i64::MIN });
                self.rows.len() - 1
            }
            None => return None,
        };
        let row = &mut self.rows[place];
        row.close(span, end);
        Some(row.track)
    }
}

impl Row {
    /// Whether a slice would cut no other one, and have none but its children inside.
    fn has_room(&self, span: &Begin, end: i64) -> bool {
        // In a damaged trace, times can go back.
        if end < self.latest {
            return false;
        }
        for run in self.runs.iter().rev() {
            if run.end <= span.at && run.start < span.at {
                return true;
            }
            // Not at the same time: viewers keep the order of the file then.
            let is_inside = run.start > span.at && run.parent.is_some();
            if !is_inside || (run.parent != Some(span.key) && run.parent != span.alias) {
                return false;
            }
        }
        self.forgotten <= span.at
    }

    fn close(&mut self, span: &Begin, end: i64) {
        while self.runs.back().is_some_and(|run| run.start > span.at) {
            self.runs.pop_back();
        }
        self.latest = end;
        if let Some(run) = self.runs.back_mut().filter(|run| run.parent == span.parent) {
            run.end = end;
            return;
        }
        if self.runs.len() == RUNS {
            if let Some(run) = self.runs.pop_front() {
                self.forgotten = self.forgotten.max(run.end);
            }
        }
        self.runs.push_back(Run { start: span.at, end, parent: span.parent });
    }
}
