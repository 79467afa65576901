//! The data of a page, which becomes JSON.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
};

use nettrace_reader::{SortedReader, Source};
use serde::Serialize;

use crate::{
    model::{Clock, Key, Processes, Time, clip},
    report::{
        Options,
        errors::{Errors, Group},
        flame::Flame,
        gather::{Gathered, TypeCount},
        instruments,
        spans::Named,
        trees::Tree,
    },
    text::level as level_name,
};

/// How many rows a table has at most.
const MOST_ROWS: usize = 200;

/// How many of the rows over time are shown.
const MOST_LINES: usize = 100;

/// How many spans of a tree are shown.
const MOST_SPANS: usize = 200;

/// How many frames a flame graph has.
const MOST_FRAMES: usize = 4000;

/// How many characters of a name are shown.
const MOST_NAME: usize = 300;

/// Everything that the page shows.
#[derive(Debug, Serialize)]
pub(crate) struct Data {
    pub(crate) title: String,
    version: &'static str,
    pub(crate) format: String,
    pub(crate) start: String,
    pub(crate) start_unix_ms: Option<i64>,
    pub(crate) has_clock: bool,
    first: Option<Moment>,
    last: Option<Moment>,
    key_values: Vec<(String, String)>,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    step_backs: u64,
    payload_bytes: u64,
    undefined_stacks: u64,
    pub(crate) spans: u64,
    pub(crate) spans_without_end: u64,
    spans_without_start: u64,
    uncounted_spans: u64,
    pub(crate) damage: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) followed: Option<Followed>,
    rate: Option<Rate>,
    types: Vec<Type>,
    /// Provider, name and events of all types.
    #[serde(skip)]
    pub(crate) all_types: Vec<(String, String, u64)>,
    other_types: Others,
    threads: Vec<Thread>,
    other_threads: Others,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) other_latencies: usize,
    /// Errors, warnings and spans that failed: the most severe first, then the most frequent.
    pub(crate) errors: Vec<Wrong>,
    pub(crate) other_errors: u64,
    /// What else `tracing` and `log` say: the most frequent first.
    pub(crate) messages: Vec<Wrong>,
    pub(crate) other_messages: u64,
    pub(crate) slowest: Vec<Slow>,
    /// The first trees whose root has no start or no end, and how many there are.
    cut: Vec<Slow>,
    cut_trees: u64,
    flame: Option<Frames>,
    samples: Option<Frames>,
    pub(crate) instruments: Option<instruments::Shown>,
}

/// A page that a server replaces.
#[derive(Debug, Serialize)]
pub(crate) struct Followed {
    pub(crate) number: u64,
    pub(crate) made_unix_ms: u64,
    pub(crate) every_ms: u64,
}

#[derive(Debug, Serialize)]
struct Moment {
    time: Option<String>,
    since_start_ns: i64,
}

#[derive(Debug, Serialize)]
struct Rate {
    /// When the first interval begins, in nanoseconds since the start.
    first_ns: i64,
    interval_ns: f64,
    /// The providers with the most events.
    providers: Vec<Line>,
    /// All others together.
    others: Option<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    events: u64,
    counts: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Type {
    provider: String,
    name: String,
    id: u32,
    /// Its place in the source code, if that tells it from another type with its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    events: u64,
    payload_bytes: u64,
}

/// What a table leaves out.
#[derive(Debug, Default, Serialize)]
struct Others {
    rows: u64,
    events: u64,
    payload_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Thread {
    name: Option<String>,
    process: Option<u64>,
    /// What tells its process from others in the trace.
    process_name: Option<String>,
    id: Option<u64>,
    index: u64,
    events: u64,
    lost: u64,
    counts: Option<Vec<u64>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) provider: String,
    pub(crate) name: String,
    /// Spans whose duration is known.
    pub(crate) count: u64,
    pub(crate) open: u64,
    pub(crate) outcomes: Vec<(String, u64)>,
    pub(crate) total_ns: f64,
    pub(crate) own_ns: f64,
    /// Nanoseconds on processors, polls and the longest of them, as far as the trace says them.
    pub(crate) busy_ns: Option<u64>,
    pub(crate) polls: Option<u64>,
    pub(crate) longest_poll_ns: Option<u64>,
    /// The services or programs in which they began; empty if these have no name.
    pub(crate) service: String,
    /// The value of their dimension, which is part of the name; empty if they have none.
    dimension: String,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) is_exact: bool,
    pub(crate) bars: Vec<(u64, u64, u64)>,
}

/// Errors, warnings or spans that failed, of one kind and at one place.
#[derive(Debug, Serialize)]
pub(crate) struct Wrong {
    pub(crate) provider: String,
    pub(crate) name: String,
    /// The name of its type, if that is a target: shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// The level, or the outcome of a span.
    pub(crate) what: String,
    /// Its number; `None` for spans that failed.
    #[serde(skip)]
    pub(crate) level: Option<u8>,
    /// What all their messages have in common.
    pub(crate) shape: String,
    /// The message of the first.
    pub(crate) example: String,
    /// The name of the span that they are in.
    pub(crate) place: Option<String>,
    pub(crate) count: u64,
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    /// The time of day of the first.
    pub(crate) time: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) span: Option<String>,
    /// How many there are in each interval.
    pub(crate) counts: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Slow {
    pub(crate) trace: Option<String>,
    /// The time of day at which the root began, or ended if its start is not in the trace.
    pub(crate) time: Option<String>,
    /// The name of the outermost span with a dimension, such as the route, if the root has none.
    pub(crate) about: Option<String>,
    pub(crate) remote_parent: Option<String>,
    /// The names of the spans without an end that it is below.
    pub(crate) within: Option<String>,
    /// From the first start to the last stop; `None` if the root is cut.
    pub(crate) extent_ns: Option<i64>,
    /// The span, or the equal siblings, with most of its time, unless that is the root: the name,
    /// and the own time.
    pub(crate) longest: Option<(String, i64)>,
    pub(crate) spans: Vec<Span>,
    pub(crate) left_out: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Span {
    pub(crate) depth: usize,
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) id: String,
    /// Nanoseconds since the start of the trace.
    pub(crate) start_ns: Option<i64>,
    pub(crate) duration_ns: Option<i64>,
    pub(crate) at_least_ns: Option<i64>,
    pub(crate) own_ns: Option<i64>,
    pub(crate) state: &'static str,
    pub(crate) outcome: Option<String>,
    /// What tells its process from others in the trace, unless it is that of its parent.
    pub(crate) process: Option<String>,
    pub(crate) thread: Option<u64>,
    pub(crate) start: String,
    pub(crate) stop: String,
    pub(crate) events: Vec<(i64, String)>,
    pub(crate) left_out: u64,
}

/// A flame graph.
#[derive(Debug, Serialize)]
struct Frames {
    names: Vec<String>,
    /// Name, place of the parent, value with all below, count. The first is the root.
    nodes: Vec<(u32, u32, u64, u64)>,
    total: u64,
    /// Frames that are too small to be shown.
    left_out: usize,
    /// Names with the most own value: name, own value, value with all below, count.
    top: Vec<(u32, u64, u64, u64)>,
}

impl Data {
    pub(crate) fn of<R: Source>(
        mut gathered: Gathered,
        events: &SortedReader<R>,
        options: &Options,
        damage: Option<String>,
    ) -> Self {
        let last_ns = gathered.spans.finish();
        let (trace, totals) = (events.trace(), events.totals());
        let (clock, counts) = (&gathered.clock, &gathered.counts);
        let processes = &Processes::of(trace);
        let moment = |ticks| Moment {
            time: clock.at(ticks).time.map(|time| time.to_string()),
            since_start_ns: clock.since_start(ticks),
        };
        let rate = rate(&gathered);
        let (threads, other_threads) = threads(&gathered, processes, events);
        let (types, other_types) = types(&gathered);
        let notes = notes(&gathered);
        let mut slowest = std::mem::take(&mut gathered.spans.slowest);
        let mut cut = std::mem::take(&mut gathered.spans.cut);
        gathered.spans.tell_apart();
        let named = &gathered.spans.named;
        let show = |tree: &mut Tree| slow(tree, named, processes, clock, last_ns);
        let key_values = trace.key_values.iter().take(MOST_ROWS);
        let data = Self {
            title: clip(&options.title, MOST_NAME),
            version: env!("CARGO_PKG_VERSION"),
            format: format!("NetTrace {}.{}", events.major_version(), events.minor_version()),
            start: trace.sync_time.to_string(),
            start_unix_ms: clock.start().and_then(|nanos| (nanos / 1_000_000).try_into().ok()),
            has_clock: clock.is_known(),
            first: gathered.first.map(moment),
            last: gathered.first.map(|_| moment(gathered.last)),
            key_values: key_values
                .map(|(key, value)| (clip(key, MOST_NAME), clip(value, MOST_NAME)))
                .collect(),
            bytes: events.offset(),
            events: totals.events,
            lost: totals.lost,
            step_backs: totals.step_backs,
            payload_bytes: totals.payload_bytes,
            undefined_stacks: totals.undefined_stacks,
            spans: counts.count,
            spans_without_end: counts.without_end(),
            spans_without_start: counts.without_start(),
            uncounted_spans: counts.uncounted,
            damage,
            notes,
            followed: None,
            rate,
            types,
            all_types: gathered
                .types
                .iter()
                .filter(|ty| ty.events > 0)
                .map(|ty| (name(&ty.provider), name(&ty.name), ty.events))
                .collect(),
            other_types,
            threads,
            other_threads,
            latencies: Vec::new(),
            other_latencies: 0,
            errors: wrong(&gathered.errors, named, clock),
            other_errors: gathered.errors.beyond,
            messages: messages(&gathered.messages, named, clock),
            other_messages: gathered.messages.beyond,
            slowest: slowest.iter_mut().map(show).collect(),
            cut: cut.iter_mut().map(show).collect(),
            cut_trees: gathered.spans.cut_trees,
            flame: span_frames(&gathered),
            samples: sample_frames(&gathered),
            instruments: gathered.instruments.shown(&gathered.clock, processes),
        };
        let (latencies, other_latencies) = latencies(&mut gathered.spans.named, processes);
        Self { latencies, other_latencies, ..data }
    }
}

impl Data {
    /// From the first event to the last.
    pub(crate) fn length_ns(&self) -> Option<i64> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        Some(last.since_start_ns.saturating_sub(first.since_start_ns))
    }

    /// Whether spans are of several services, so that it matters of which.
    pub(crate) fn has_services(&self) -> bool {
        let mut services = self.latencies.iter().map(|latency| &latency.service);
        let first = services.next();
        services.any(|service| Some(service) != first)
    }
}

fn name(name: &str) -> String {
    clip(name, MOST_NAME)
}

fn rate(gathered: &Gathered) -> Option<Rate> {
    gathered.first?;
    let (first, length) = gathered.timeline.intervals();
    let mut lines: Vec<_> = gathered
        .providers
        .iter()
        .map(|(provider, row)| {
            let counts = gathered.timeline.row(*row);
            Line { name: name(provider), events: counts.iter().sum(), counts }
        })
        .collect();
    lines.sort_by_key(|line| Reverse(line.events));
    let others =
        lines.split_off(lines.len().min(MOST_LINES)).into_iter().reduce(|mut all, line| {
            all.counts.iter_mut().zip(line.counts).for_each(|(sum, count)| *sum += count);
            all.events += line.events;
            all
        });
    Some(Rate {
        first_ns: gathered.clock.since_start(first),
        interval_ns: gathered.clock.length(length),
        providers: lines,
        others: others.map(|line| Line { name: "(others)".into(), ..line }),
    })
}

fn types(gathered: &Gathered) -> (Vec<Type>, Others) {
    let mut types: Vec<_> = gathered.types.iter().filter(|ty| ty.events > 0).collect();
    types.sort_by(|a, b| {
        let order = |ty: &TypeCount| (Reverse(ty.payload_bytes), Reverse(ty.events));
        let name = |ty: &TypeCount| (ty.provider.clone(), ty.id, ty.name.clone());
        order(a).cmp(&order(b)).then_with(|| name(a).cmp(&name(b)))
    });
    let mut places: HashMap<_, HashSet<_>> = HashMap::new();
    for ty in &types {
        places.entry((&ty.provider, &ty.name)).or_default().insert(&ty.place);
    }
    let place = |ty: &TypeCount| {
        let is_one_of_many = places[&(&ty.provider, &ty.name)].len() > 1;
        ty.place.as_deref().filter(|_| is_one_of_many).map(name)
    };
    let mut others = Others::default();
    for ty in types.iter().skip(MOST_ROWS) {
        others.rows += 1;
        others.events += ty.events;
        others.payload_bytes += ty.payload_bytes;
    }
    let shown = types.iter().take(MOST_ROWS).map(|ty| Type {
        provider: name(&ty.provider),
        name: name(&ty.name),
        id: ty.id,
        place: place(ty),
        events: ty.events,
        payload_bytes: ty.payload_bytes,
    });
    (shown.collect(), others)
}

fn threads<R: Source>(
    gathered: &Gathered,
    processes: &Processes,
    events: &SortedReader<R>,
) -> (Vec<Thread>, Others) {
    let threads = gathered.threads(events);
    let mut others = Others::default();
    for thread in threads.iter().skip(MOST_ROWS) {
        others.rows += 1;
        others.events += thread.events;
    }
    let shown = threads.iter().take(MOST_ROWS).enumerate().map(|(index, thread)| Thread {
        name: thread.name.as_deref().map(name),
        process: thread.process,
        process_name: processes.told_apart(thread.process).as_deref().map(name),
        id: thread.id,
        index: thread.index,
        events: thread.events,
        lost: thread.lost,
        counts: thread.row.filter(|_| index < MOST_LINES).map(|row| gathered.timeline.row(row)),
    });
    (shown.collect(), others)
}

/// The names of spans, those with the most time first, and how many are left out.
fn latencies(named: &mut [Named], processes: &Processes) -> (Vec<Latency>, usize) {
    let mut named: Vec<_> =
        named.iter_mut().filter(|named| named.durations.count + named.open > 0).collect();
    named.sort_by_key(|named| (Reverse(named.durations.sum), Reverse(named.durations.count)));
    let left_out = named.len().saturating_sub(MOST_ROWS);
    let shown = named.into_iter().take(MOST_ROWS).map(|named| {
        let shown = (named.durations.count > 0).then(|| named.durations.show());
        let [p50_ns, p90_ns, p99_ns] = shown.as_ref().map_or([0; 3], |shown| shown.percentiles);
        Latency {
            provider: name(&named.provider),
            name: name(&named.name),
            count: named.durations.count,
            open: named.open,
            outcomes: named.outcomes.iter().map(|(text, count)| (name(text), *count)).collect(),
            total_ns: named.durations.sum as f64,
            own_ns: named.own as f64,
            busy_ns: named.work.busy,
            polls: named.work.polls,
            longest_poll_ns: named.work.longest_poll,
            service: services(named, processes),
            dimension: name(&named.value),
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: named.durations.max,
            is_exact: shown.as_ref().is_none_or(|shown| shown.is_exact),
            bars: shown.map(|shown| shown.bars).unwrap_or_default(),
        }
    });
    (shown.collect(), left_out)
}

/// The names of the processes in which spans began.
fn services(named: &Named, processes: &Processes) -> String {
    /// How many of them are shown.
    const MOST_SERVICES: usize = 3;

    let of = |process: u32| processes.name(Some(process.into()));
    let names: BTreeSet<&str> = named.processes.iter().filter_map(|process| of(*process)).collect();
    let mut text = names.iter().take(MOST_SERVICES).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST_SERVICES {
        text.push_str(&format!(" and {} more", names.len() - MOST_SERVICES));
    }
    name(&text)
}

/// Errors, warnings and spans that failed.
fn wrong(errors: &Errors, named: &[Named], clock: &Clock) -> Vec<Wrong> {
    let mut groups: Vec<_> = errors.groups.iter().collect();
    // A span that failed is as bad as an error.
    let level = |group: &Group| group.level.unwrap_or(2);
    groups.sort_by_key(|group| (level(group), Reverse(group.count), group.ticks.0));
    shown(errors, groups, named, clock)
}

/// What is logged below a warning.
fn messages(said: &Errors, named: &[Named], clock: &Clock) -> Vec<Wrong> {
    let mut groups: Vec<_> = said.groups.iter().collect();
    groups.sort_by_key(|group| (Reverse(group.count), group.ticks.0));
    let severities: Vec<_> = groups.iter().map(|group| group.severity.name()).collect();
    let mut shown = shown(said, groups, named, clock);
    for (message, severity) in shown.iter_mut().zip(severities) {
        message.what = severity.into_owned();
    }
    shown
}

fn shown(errors: &Errors, groups: Vec<&Group>, named: &[Named], clock: &Clock) -> Vec<Wrong> {
    let shown = groups.into_iter().map(|group| {
        let (first, last) = group.ticks;
        Wrong {
            provider: name(&group.provider),
            name: name(&group.name),
            target: group.target.as_deref().map(str::to_owned),
            what: group.level.map_or("failed".into(), |it| level_name(it).into_owned()),
            level: group.level,
            shape: group.shape.to_string(),
            example: group.example.to_string(),
            place: group.place.map(|number| name(&named[number as usize].name)),
            count: group.count,
            first_ns: clock.since_start(first),
            last_ns: clock.since_start(last),
            time: clock.at(first).time.map(|time| time.to_string()),
            trace: group.trace.map(|id| id.to_string()),
            span: group.span.map(|key| id_text(&key, 0)),
            counts: errors.timeline.row(group.row),
        }
    });
    shown.collect()
}

fn slow(tree: &mut Tree, named: &[Named], processes: &Processes, clock: &Clock, last: i64) -> Slow {
    let text = |number: u32| name(&named[number as usize].name);
    let longest = tree.most_time().map(|(count, name, own)| match count {
        1 => (text(name), own),
        _ => (format!("{count} × {}", text(name)), own),
    });
    let within = tree.within.iter().map(|number| text(*number)).collect::<Vec<_>>();
    tree.forget(MOST_SPANS, last);
    let at = tree.spans.first().map(|root| root.record.first());
    let time = at.filter(|_| clock.is_known()).zip(clock.start());
    let time = time.and_then(|(at, start)| Time::of_unix(start + i128::from(at)));
    let walked = tree.walk();
    let names = walked.iter().map(|(span, _)| &named[span.name as usize]);
    let about = names.enumerate().find(|(_, named)| !named.value.is_empty());
    let about = about.filter(|(place, _)| *place > 0).map(|(_, named)| name(&named.name));
    // The processes of the current span and of those around it.
    let mut above: Vec<u32> = Vec::new();
    let spans = walked.into_iter().map(|(span, depth)| {
        above.truncate(depth);
        let record = &span.record;
        let is_as_parent = above.last() == Some(&record.process);
        above.push(record.process);
        let process = (record.process != 0 && !is_as_parent).then_some(record.process.into());
        let named = &named[span.name as usize];
        Span {
            depth,
            provider: name(&named.provider),
            name: name(&named.name),
            id: id_text(&span.key, record.process),
            start_ns: record.start,
            duration_ns: record.duration(),
            at_least_ns: record.at_least(last),
            own_ns: span.own,
            state: record.state.name(),
            outcome: record.outcome.as_deref().map(name),
            process: processes.told_apart(process).as_deref().map(name),
            thread: record.thread,
            start: span.start_text.to_string(),
            stop: span.stop_text.to_string(),
            events: span.events.iter().map(|(at, text)| (*at, text.to_string())).collect(),
            left_out: span.left_out,
        }
    });
    Slow {
        spans: spans.collect(),
        trace: tree.trace.map(|id| id.to_string()),
        time: time.map(|time| time.to_string()),
        about,
        remote_parent: tree.remote_parent.map(|key| id_text(&key, 0)),
        within: (!within.is_empty()).then(|| within.join(" › ")),
        extent_ns: tree.extent(),
        longest,
        left_out: tree.forgotten,
    }
}

fn id_text(key: &Key, process: u32) -> String {
    match key {
        Key::Span(_, id) => id.to_string(),
        Key::Activity(id) => match id.path_in(process).or(id.path()) {
            Some(path) => path.to_string(),
            None => id.to_string(),
        },
    }
}

fn span_frames(gathered: &Gathered) -> Option<Frames> {
    let named = &gathered.spans.named;
    frames(&gathered.spans.flame, |number| match named.get(number as usize) {
        Some(named) => name(&named.name),
        None => String::new(),
    })
}

fn sample_frames(gathered: &Gathered) -> Option<Frames> {
    let (flame, names) = gathered.samples.named();
    frames(&flame, |number| name(names.get(number as usize).map_or("", |name| name)))
}

/// The largest frames of a graph. `name` spells the names.
fn frames(flame: &Flame, name: impl Fn(u64) -> String) -> Option<Frames> {
    let totals = flame.totals();
    if totals[0] == 0 {
        return None;
    }
    // A parent is at least as large as its children, and comes before them.
    let mut order: Vec<usize> = (1..flame.nodes.len()).collect();
    order.sort_by_key(|at| (Reverse(totals[*at]), *at));
    let left_out = order.len().saturating_sub(MOST_FRAMES);
    order.truncate(MOST_FRAMES);
    order.sort_unstable();
    let mut names = Names::default();
    let mut places: HashMap<u32, u32> = HashMap::from([(0, 0)]);
    let mut nodes = vec![(names.number(u64::MAX, || "all".into()), 0, 0, 0)];
    for at in order {
        let node = &flame.nodes[at];
        let Some(parent) = places.get(&node.parent).copied() else { continue };
        let number = names.number(node.name, || name(node.name));
        places.insert(at as u32, nodes.len() as u32);
        nodes.push((number, parent, totals[at], node.count));
    }
    // The value of a name with all below: of its outermost frames.
    let mut by_name: HashMap<u64, (u64, u64, u64)> = HashMap::new();
    for (at, node) in flame.nodes.iter().enumerate().skip(1) {
        let (own, total, count) = by_name.entry(node.name).or_default();
        *own = own.saturating_add(node.own);
        *count += node.count;
        let mut above = node.parent;
        while above != 0 && flame.nodes[above as usize].name != node.name {
            above = flame.nodes[above as usize].parent;
        }
        if above == 0 {
            *total = total.saturating_add(totals[at]);
        }
    }
    let mut top: Vec<_> = by_name.into_iter().collect();
    top.sort_by_key(|(name, (own, ..))| (Reverse(*own), *name));
    top.truncate(30);
    let top = top
        .into_iter()
        .map(|(key, (own, total, count))| (names.number(key, || name(key)), own, total, count));
    let top = top.collect();
    Some(Frames { names: names.texts, nodes, total: totals[0], left_out, top })
}

/// Names that are written once.
#[derive(Default)]
struct Names {
    texts: Vec<String>,
    numbers: HashMap<u64, u32>,
}

impl Names {
    fn number(&mut self, key: u64, text: impl FnOnce() -> String) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.texts.push(text());
            self.texts.len() as u32 - 1
        })
    }
}

/// What the page cannot show, in sentences.
fn notes(gathered: &Gathered) -> Vec<String> {
    let spans = &gathered.spans;
    let mut notes = Vec::new();
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            notes.push(text.replace("{}", &count.to_string()));
        }
    };
    note(spans.given_up(), "{} spans are shown without an end: too many were under way.");
    note(spans.unnamed, "{} spans have names beyond the first 1,000, and count as one name.");
    note(spans.flame.cut, "{} paths of spans were cut: there are too many, or they are too deep.");
    note(gathered.samples.cut(), "{} stacks were cut: there are too many, or they are too deep.");
    note(gathered.samples.bare, "{} samples have no stack.");
    note(gathered.instruments.beyond(), "{} values are of instruments or tags beyond 1,000.");
    if !gathered.clock.is_known() {
        notes.push("The trace does not state how long a tick is: times are in ticks.".into());
    }
    notes
}
