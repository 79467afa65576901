//! The clocks of recordings, aligned by spans that cross them.
//!
//! A span of one recording whose parent is in another, such as a request at the server and at the
//! client, neither began before its parent nor ended after it, if the parent waited. So each such
//! pair bounds by how much the clock of one is ahead of the other, on both sides. If no difference
//! is within all bounds, no clock is moved. Otherwise the middle of the bounds is taken. If they
//! contradict each other, because not every parent waits, the tightest pair decides.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use nettrace_reader::{Event, LastLabels, SortedReader};
use nettrace_views::model::{EndFields, Ids, Key, Role, SpanTable, role_of};

use crate::{
    failure::Failure,
    files::{ReadEnd, Recording},
    merge::lanes::{Lane, Lanes, Take, Times},
    read_options::ReadOptions,
    seconds::Seconds,
    source::Bytes,
    spelling::OneLine,
};

/// How many spans are remembered of each kind: those under way, those that have ended, and those
/// that wait for their parents.
const MOST: usize = 1 << 18;

/// Aligns the clocks of recordings. Returns what was done, in sentences.
pub(super) fn align(
    recordings: &[Recording],
    times: &mut Times,
    limits: ReadOptions,
) -> Result<Vec<String>, Failure> {
    if recordings.len() < 2 {
        return Ok(Vec::new());
    }
    // What is damaged is told when the recordings are merged.
    let end = Arc::new(Mutex::new(ReadEnd::default()));
    let mut lanes = Lanes::new(recordings.to_vec(), times.clone(), limits, end);
    let mut pairs = Pairs {
        spans: SpanTable::new(MOST, MOST),
        waiting: HashMap::new(),
        oldest_waiting: VecDeque::new(),
        found: BTreeMap::new(),
    };
    while let Some((at, kept)) = lanes.next(&mut pairs)? {
        if let Some(edge) = kept.edge.take() {
            pairs.edge(edge, at);
        }
    }
    let mut notes = Vec::new();
    let mut is_placed = vec![false; recordings.len()];
    is_placed[0] = true;
    loop {
        // The pair of recordings that tells the most about one that is not placed yet.
        let links = pairs.found.iter().filter(|((a, b), _)| is_placed[*a] != is_placed[*b]);
        let Some(((a, b), bounds)) = links.min_by_key(|(_, bounds)| bounds.tightest.0) else {
            break;
        };
        let ahead = bounds.ahead();
        let (known, moved, by) = match is_placed[*a] {
            true => (*a, *b, ahead),
            false => (*b, *a, -ahead),
        };
        times.shifts[moved] = times.shifts[known] + by;
        is_placed[moved] = true;
        notes.push(format!(
            "clock of {}: moved by {} (by {} spans that cross to or from {})",
            OneLine(recordings[moved].files[0].path.display()),
            Seconds(times.shifts[moved]),
            bounds.count,
            OneLine(recordings[known].files[0].path.display()),
        ));
    }
    for (recording, _) in recordings.iter().zip(is_placed).filter(|(_, is_placed)| !is_placed) {
        let path = recording.files[0].path.display();
        notes.push(format!("clock of {}: not aligned, as no span crosses", OneLine(path)));
    }
    Ok(notes)
}

/// What pairs of spans say about the clocks of two recordings.
#[derive(Debug)]
struct Bounds {
    count: u64,
    /// How much must be added to the times of the second one, at least and at most.
    least: i128,
    most: i128,
    /// The bounds of the pair that is the tightest: how far they are apart, and their middle.
    tightest: (i128, i128),
}

impl Bounds {
    /// What to add to the times of the second one.
    fn ahead(&self) -> i128 {
        match self.least <= self.most {
            true if (self.least..=self.most).contains(&0) => 0,
            true => (self.least + self.most) / 2,
            false => self.tightest.1,
        }
    }
}

/// A span. One that is under way has no end yet.
#[derive(Clone, Copy, Debug)]
struct Span {
    recording: usize,
    parent: Option<Key>,
    start: i128,
    end: i128,
}

/// A start or an end, before its turn.
#[derive(Debug)]
struct Edge {
    recording: usize,
    role: Role,
    span: Key,
    parent: Option<Key>,
    duration: Option<i64>,
}

#[derive(Debug, Default)]
struct Kept {
    labels: LastLabels,
    edge: Option<Edge>,
}

/// Spans, and the pairs that were found.
#[derive(Debug)]
struct Pairs {
    spans: SpanTable<Span>,
    /// Spans that have ended, by the parents for which they wait.
    waiting: HashMap<Key, Vec<Span>>,
    oldest_waiting: VecDeque<Key>,
    /// By the numbers of two recordings, the lower one first.
    found: BTreeMap<(usize, usize), Bounds>,
}

impl Take for Pairs {
    type Kept = Kept;

    fn take(&mut self, event: &Event<'_>, lane: &Lane, kept: &mut Kept) -> Result<(), Failure> {
        event.labels_into(&mut kept.labels);
        let ids = Ids::of(kept.labels.labels());
        let Some(span) = ids.span else { return Ok(()) };
        let role = role_of(event.metadata(), ids.overrides.opcode, lane.version);
        if role.is_edge() {
            let duration = EndFields::of(event.metadata()).stated(event).0;
            let parent = ids.related;
            kept.edge = Some(Edge { recording: lane.number, role, span, parent, duration });
        }
        Ok(())
    }

    fn end(&mut self, _: &SortedReader<Bytes>, _: &Lane, _: &mut Kept) -> Result<(), Failure> {
        Ok(())
    }
}

impl Pairs {
    fn edge(&mut self, edge: Edge, at: i128) {
        let Edge { recording, role, span, parent, duration } = edge;
        let keys = [Some(span), None];
        match role {
            Role::Start => {
                self.spans.begin(keys, 1, Span { recording, parent, start: at, end: at });
                while let Some(oldest) = self.spans.give_up() {
                    self.spans.take(oldest);
                }
            }
            Role::Stop => {
                let open = self.spans.find(span).filter(|place| self.spans.is_open(*place));
                let Some(started) = open.and_then(|place| self.spans.take(place)) else { return };
                self.ended(span, Span { end: at, ..started });
            }
            _ => {
                if let Some(duration) = duration {
                    let start = at - i128::from(duration);
                    self.ended(span, Span { recording, parent, start, end: at });
                }
            }
        }
    }

    fn ended(&mut self, key: Key, span: Span) {
        for child in self.waiting.remove(&key).unwrap_or_default() {
            self.pair(span, child);
        }
        if let Some(parent) = span.parent {
            let found = self.spans.find(parent);
            let is_open = found.is_some_and(|place| self.spans.is_open(place));
            match found.and_then(|place| self.spans.get(place)).copied() {
                Some(parent) if !is_open => self.pair(parent, span),
                Some(parent) if parent.recording == span.recording => {}
                _ => {
                    self.waiting.entry(parent).or_default().push(span);
                    self.oldest_waiting.push_back(parent);
                    if self.oldest_waiting.len() > MOST {
                        let oldest = self.oldest_waiting.pop_front();
                        oldest.map(|oldest| self.waiting.remove(&oldest));
                    }
                }
            }
        }
        self.spans.add([Some(key), None], span);
    }

    /// Notes a span and its parent, if they are of different recordings.
    fn pair(&mut self, parent: Span, child: Span) {
        let (least, most) = (parent.start - child.start, parent.end - child.end);
        // A parent that is shorter did not wait.
        if parent.recording == child.recording || least > most {
            return;
        }
        // What is to be added to the child's times, turned into what is to be added to those of the
        // second recording.
        let is_turned = child.recording < parent.recording;
        let (least, most) = if is_turned { (-most, -least) } else { (least, most) };
        let tightest = (most - least, (least + most) / 2);
        let (a, b) = (parent.recording, child.recording);
        let new = Bounds { count: 0, least, most, tightest };
        let bounds = self.found.entry((a.min(b), a.max(b))).or_insert(new);
        bounds.count += 1;
        bounds.least = bounds.least.max(least);
        bounds.most = bounds.most.min(most);
        bounds.tightest = bounds.tightest.min(tightest);
    }
}
