//! `tree --open` of a live process: the spans that are under way now.
//!
//! A session that attaches is not told which spans are under way: it learns of one when something
//! is recorded of it. So a span that began before is known by its id, from its first event on, and
//! one that says nothing is not known. With a flight recorder, `--past` tells of those
//! that began in the time that it keeps. A bridge states late how old a span is.

use std::{
    collections::HashMap,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nettrace_event::keys;
use nettrace_reader::{Event, Totals, Trace, Value};
use nettrace_views::{
    model::{Clock, Ids, Key, PerType, Role, SpanRef, SpanState, role_of},
    text::{EventType, Payload},
};
use serde::Serialize;

use super::{
    ProcessChoice,
    collect::past_of,
    find, name_of,
    session::Signals,
    wanted_by,
    watch::{OutputSurface, TraceView, WatchOptions, draw},
};
use crate::{
    excerpt::{Filters, SpanJudge},
    failure::Failure,
    read_options::ReadOptions,
    spelling::{self, OneLine},
    standard_error::say,
    tree::{self, OpenQuestion, ShortDuration},
};

/// The memory for spans under way.
const MOST_BYTES: usize = 64 << 20;

/// How many characters of the name of an event are kept.
const MOST_NAME: usize = 200;

/// How many rows are shown where no screen bounds them.
const ROWS: usize = 1000;

/// What is kept of a span.
#[derive(Debug, Default)]
struct OpenSpan {
    key: Option<Key>,
    ids: Ids,
    /// The fields of its start.
    details: String,
    /// How old it was when its start was told.
    age: i64,
    busy: Option<i64>,
    busy_since: Option<i64>,
    /// The last event of it, and whether one has passed the filters.
    last: Option<(i64, String)>,
    has_match: bool,
    thread: Option<u64>,
}

/// The spans of a process.
struct OpenSpans<'a> {
    question: &'a OpenQuestion<'a>,
    read: Option<(Filters, Clock, u32)>,
    judge: SpanJudge<OpenSpan>,
    types: PerType<EventType>,
    /// The latest time.
    latest: i64,
    given_up: u64,
    lost: u64,
}

impl TraceView for OpenSpans<'_> {
    const IN_ORDER: bool = true;

    fn begin(&mut self, trace: &Trace, version: u32) -> Result<(), Failure> {
        let filters = Filters::new(self.question.filter, trace, version)?;
        self.read = Some((filters, Clock::of(trace), version));
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some((filters, clock, version)) = &mut self.read else { return };
        let at = clock.since_start(event.header.timestamp);
        self.latest = self.latest.max(at);
        let ids = Ids::of(&event.labels());
        // Memory takes what is written of the event.
        let judged = self.judge.event(filters, event, &ids, |_| OpenSpan::default());
        let Some((span, judged)) = judged.ok().and_then(|it| Some((it.span?, it))) else { return };
        if judged.is_end {
            self.judge.spans.take(span);
            return;
        }
        let ty = self.types.of(event, EventType::of);
        let payload = Payload::of(event, ty);
        let metadata = event.metadata();
        let role = role_of(metadata, ids.overrides.opcode, *version);
        let name = format!("{}/{}", metadata.provider, spelling::event_name(metadata));
        let name: String = name.chars().take(MOST_NAME).collect();
        let is_late =
            metadata.key_values.iter().any(|(key, value)| (&**key, &**value) == keys::LATE);
        let details = match role {
            Role::Start => tree::text::details(event, &payload, true, self.question.detail).ok(),
            _ => None,
        };
        // The name takes the place of the one before.
        let bytes = details.as_ref().map_or(0, |details| details.len() + MOST_NAME);
        self.judge.keep(span, bytes, |kept| {
            (kept.key, kept.thread) = (ids.span, event.thread().os_thread_id);
            kept.ids = Ids { related: ids.related.or(kept.ids.related), ..ids };
            kept.has_match |= judged.passes;
            match role {
                Role::Resume => kept.busy_since = Some(at),
                Role::Suspend => {
                    let since = kept.busy_since.take().unwrap_or(at);
                    let polled = at.saturating_sub(since).max(0);
                    kept.busy = Some(kept.busy.unwrap_or(0).saturating_add(polled));
                }
                Role::Start => {
                    let age = payload.fields.iter().find(|(name, _)| is_late && *name == "age");
                    if let Some((_, Some(Value::U64(age)))) = age {
                        kept.age = i64::try_from(*age).unwrap_or(i64::MAX);
                    }
                    kept.details = details
                        .map(|text| String::from_utf8_lossy(&text).into_owned())
                        .unwrap_or_default();
                }
                _ => {}
            }
            if role != Role::Start {
                kept.last = Some((at, name));
            }
        });
        while let Some(oldest) = self.judge.spans.give_up() {
            self.judge.spans.take(oldest);
            self.given_up += 1;
        }
    }

    fn totals(&mut self, totals: &Totals) {
        self.lost = totals.lost;
    }
}

/// A span under way.
#[derive(Debug, Serialize)]
struct OpenRow {
    /// How many open spans are around it.
    depth: usize,
    trace: Option<String>,
    span: String,
    parent: Option<String>,
    provider: Option<String>,
    name: Option<String>,
    /// Whether it began before this command attached, and its start is not known.
    began_before: bool,
    /// At least so long.
    age_ns: i64,
    busy_ns: Option<i64>,
    thread: Option<u64>,
    last_event: Option<String>,
    since_last_ns: Option<i64>,
    #[serde(skip)]
    details: String,
}

/// What is open at a moment.
#[derive(Debug, Serialize)]
struct OpenNow {
    attached_ns: i64,
    began_before: usize,
    given_up: u64,
    lost: u64,
    spans: Vec<OpenRow>,
}

impl<'a> OpenSpans<'a> {
    fn new(question: &'a OpenQuestion<'a>) -> Self {
        Self {
            question,
            read: None,
            judge: SpanJudge::new(MOST_BYTES),
            types: PerType::default(),
            latest: 0,
            given_up: 0,
            lost: 0,
        }
    }

    /// The spans under way, the oldest first, each with those below it.
    fn now(&self) -> OpenNow {
        let mut now = self.latest.max(0);
        if let Some((_, clock, _)) = &self.read {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).ok();
            let unix = unix.and_then(|it| i128::try_from(it.as_nanos()).ok());
            let since = unix.zip(clock.start()).map(|(unix, start)| unix - start);
            now = since.and_then(|it| i64::try_from(it).ok()).map_or(now, |since| since.max(now));
        }
        let places = self.shown();
        let shown: HashMap<SpanRef, usize> =
            places.iter().enumerate().map(|(at, place)| (*place, at)).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
        let mut tops = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let parent = self.judge.spans[*place].kept.ids.related;
            let parent = parent.and_then(|key| self.judge.spans.find(key));
            match parent.and_then(|parent| shown.get(&parent)).filter(|parent| **parent != at) {
                Some(parent) => below[*parent].push(at),
                None => tops.push(at),
            }
        }
        let age = |at: &usize| -self.age(places[*at], now);
        tops.sort_by_key(age);
        below.iter_mut().for_each(|all| all.sort_by_key(age));
        let mut rows = Vec::new();
        let mut is_done = vec![false; places.len()];
        let mut next: Vec<_> = tops.into_iter().rev().map(|at| (at, 0)).collect();
        // Spans that name each other as parents are below none.
        next.splice(0..0, (0..places.len()).map(|at| (at, 0)));
        while let Some((at, depth)) = next.pop() {
            if std::mem::replace(&mut is_done[at], true) {
                continue;
            }
            rows.push(self.row(places[at], depth, now));
            next.extend(below[at].iter().rev().map(|at| (*at, depth + 1)));
        }
        OpenNow {
            attached_ns: now,
            began_before: rows.iter().filter(|row| row.began_before).count(),
            given_up: self.given_up,
            lost: self.lost,
            spans: rows,
        }
    }

    /// The spans that pass the filters.
    fn shown(&self) -> Vec<SpanRef> {
        let Some((filters, ..)) = &self.read else { return Vec::new() };
        let mut places = self.judge.spans.places();
        let shows_all = !self.question.filter.is_given();
        places.retain(|place| {
            let passes = || shows_all || self.judge.spans[*place].kept.has_match;
            self.judge.spans.is_open(*place) && (passes() || self.judge.accepts(filters, *place))
        });
        places
    }

    /// How old a span is, or at least how old.
    fn age(&self, place: SpanRef, now: i64) -> i64 {
        let span = &self.judge.spans[place];
        match span.record().state {
            SpanState::Unknown => now,
            _ => now.saturating_sub(span.record().first()).saturating_add(span.kept.age),
        }
    }

    fn row(&self, place: SpanRef, depth: usize, now: i64) -> OpenRow {
        let span = &self.judge.spans[place];
        let kept = &span.kept;
        let id = |key: Key| match key {
            Key::Span(_, id) => id.to_string(),
            Key::Activity(id) => id.to_string(),
        };
        let busy = kept.busy_since.map(|since| now.saturating_sub(since).max(0));
        OpenRow {
            depth,
            trace: kept.ids.trace.map(|id| id.to_string()),
            span: kept.key.map(id).unwrap_or_default(),
            parent: kept.ids.related.map(id),
            provider: span.name().map(|(provider, _)| provider.to_owned()),
            name: span.name().map(|(_, name)| name.to_owned()),
            began_before: span.record().state == SpanState::Unknown,
            age_ns: self.age(place, now).max(0),
            busy_ns: busy
                .map_or(kept.busy, |busy| Some(busy.saturating_add(kept.busy.unwrap_or(0)))),
            thread: kept.thread,
            last_event: kept.last.as_ref().map(|(_, name)| name.clone()),
            since_last_ns: kept.last.as_ref().map(|(at, _)| now.saturating_sub(*at).max(0)),
            details: kept.details.clone(),
        }
    }
}

impl OpenNow {
    /// The lines of text: at most so many spans.
    fn lines(&self, title: &str, rows: usize) -> Vec<String> {
        let Self { attached_ns, began_before, given_up, lost, spans } = self;
        let mut lines = vec![format!(
            "{title}: {} open, attached {} ago, {lost} lost",
            match spans.len() {
                1 => "1 span is".to_owned(),
                count => format!("{count} spans are"),
            },
            ShortDuration(*attached_ns)
        )];
        for row in spans.iter().take(rows) {
            let name = match (&row.provider, &row.name) {
                (Some(provider), Some(name)) => format!("{provider}/{name} "),
                _ => String::new(),
            };
            let mut line = format!(
                "{:>12}  {}{name}[{}]{}",
                format!(">{}", ShortDuration(row.age_ns)),
                "  ".repeat(row.depth.min(20)),
                row.span,
                row.details
            );
            if row.began_before {
                line.push_str(" began before");
            }
            if let Some(busy) = row.busy_ns {
                line.push_str(&format!(" (busy {})", ShortDuration(busy)));
            }
            if let Some(thread) = row.thread {
                line.push_str(&format!(", thread {thread}"));
            }
            if let (Some(last), Some(since)) = (&row.last_event, row.since_last_ns) {
                line.push_str(&format!(", last {last} {} ago", ShortDuration(since)));
            }
            lines.push(line);
        }
        if spans.len() > rows {
            lines.push(format!("… and {} more", spans.len() - rows));
        }
        if *given_up > 0 {
            lines.push(format!("{given_up} older spans had no room and are not shown"));
        }
        if *began_before > 0 {
            lines.push(format!(
                "{began_before} of them began before this attached, and are older than that"
            ));
        }
        lines
    }
}

/// What a session that attaches cannot know.
const LIMITS: &str = "of the spans that began before this attached, only those are known that have \
    said something since; --past shows others if the process has a flight recorder";

/// Shows what is open until the end.
pub(crate) fn run(
    question: &OpenQuestion<'_>,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let OpenQuestion { options, filter, is_json, .. } = question;
    let target = find(&ProcessChoice { pid: options.pid, name: options.name.clone() })?;
    let title = format!("{} {}", name_of(&target.info()?), target.pid);
    let asked = match options.past {
        Some(past) => vec![past_of(past)],
        None => wanted_by(filter),
    };
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let live = target.collect(&asked, 64)?;
    let surface = match is_json {
        true => OutputSurface::Lines,
        false => OutputSurface::of_stdout(),
    };
    let notes = match (options.past, &surface) {
        (Some(_), _) => Vec::new(),
        (None, OutputSurface::Screen(..)) => vec![LIMITS.to_owned()],
        (None, OutputSurface::Lines) => {
            say(Some(LIMITS))?;
            Vec::new()
        }
    };
    let interval = options.interval.max(Duration::from_millis(50));
    let watch = WatchOptions {
        target: &target,
        signals: &signals,
        interval,
        duration: if options.once { Some(interval) } else { options.duration },
        limits,
    };
    watch.run(live, OpenSpans::new(question), &mut |spans| {
        let now = spans.now();
        if *is_json {
            spelling::to_json(&mut *out, &now)?;
            out.write_all(b"\n")?;
            return Ok(out.flush()?);
        }
        match surface {
            OutputSurface::Screen(rows, columns) => {
                let shown = rows.saturating_sub(notes.len() + 4).max(1);
                draw(out, &now.lines(&title, shown), &notes, rows, columns)?;
            }
            OutputSurface::Lines => {
                for line in now.lines(&title, ROWS) {
                    writeln!(out, "{}", OneLine(line))?;
                }
            }
        }
        Ok(out.flush()?)
    })
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::net::UnixStream, sync::Mutex};

    use clap::Parser as _;
    use testkit::streams::{EventType, Row, Stream};

    use super::{super::watch, *};
    use crate::args::{Args, Command};

    /// What is open after a stream with spans 1 and 2: rows with type, thread, time and span.
    fn open_after(tick: u64, blocks: &[&[(u32, u64, u64, u32)]]) -> OpenNow {
        let Args { command, limits } = Args::parse_from(["nettrace", "tree", "-p1", "--open"]);
        let Command::Tree { options, .. } = command else { panic!("{command:?}") };
        let mut stream = Stream::at(tick);
        stream.thread(5).thread(6);
        for (id, name, opcode) in [(1, "payStart", 1), (2, "payStop", 2), (3, "payResume", 7)] {
            let ty = EventType::new(id, "Shop", id, name);
            stream.metadata(&ty.optional(&[8, 4, 1, opcode]));
        }
        let list = |span| vec![vec![3; 17], vec![4, span, 0, 0, 0, 0, 0, 0, 0]];
        stream.label_lists(1, &[&list(1), &list(2)]);
        let mut numbers = [0; 7];
        for rows in blocks {
            let row = |(ty, thread, time, span): &(u32, u64, u64, u32)| {
                let number = &mut numbers[*thread as usize];
                *number += 1;
                Row::new(*thread, *number, *time).metadata(*ty).labels(*span)
            };
            stream.events(&rows.iter().map(row).collect::<Vec<_>>());
        }
        let (source, mut sink) = UnixStream::pair().unwrap();
        sink.write_all(&stream.end()).unwrap();
        drop(sink);
        let question = options.question();
        let spans = Mutex::new(OpenSpans::new(&question));
        watch::read(source, limits, &spans).unwrap();
        let spans = spans.into_inner().unwrap();
        spans.now()
    }

    /// A task moves from thread to thread, and a stream has the events of each by themselves.
    #[test]
    fn a_span_can_end_on_another_thread() {
        let first = [(2, 6, 1020, 1), (1, 6, 1025, 2)];
        let now = open_after(1000, &[&first, &[(1, 5, 1010, 1)]]);
        let open: Vec<_> = now.spans.iter().map(|row| (&*row.span, row.began_before)).collect();
        assert_eq!(open, [("0000000000000002", false)]);
    }

    #[test]
    fn any_times_are_shown() {
        let earliest = [(1, 5, 0, 1), (3, 5, 0, 1), (3, 5, 0, 2)];
        for tick in [0, u64::MAX] {
            let rows = [(3, 6, u64::MAX, 1)];
            let now = open_after(tick, &[&earliest, &rows]);
            assert_eq!(now.spans.len(), 2, "{tick}");
            assert!(now.spans.iter().all(|row| row.age_ns >= 0), "{tick}");
        }
    }
}
