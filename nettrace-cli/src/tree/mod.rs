//! `nettrace tree`: what happened inside of what.
//!
//! A span begins with an event of opcode Start and ends with one of opcode Stop that has the same
//! id. Its id is the label `SpanId`, otherwise the activity id. Its parent is the related activity
//! id of the Start. An event with the id of a span is inside of it. In a Heph trace of another
//! program the times say what is inside of what.

mod forest;
mod json;
mod nesting;
mod order;
pub(crate) mod text;

use std::{
    borrow::Cow,
    io::{self, Write},
};

use nettrace_event::{keys, trace_context::TraceId};
use nettrace_reader::{Event, Label, SortedReader};
use nettrace_views::{
    model::{EndFields, Ids, Key, PerType, SpanEdge, SpanState, place, role_of, span_name},
    text::{Detail, EventType, Payload},
};

use crate::{
    dump::Facts,
    duplicate_type_names::DuplicateTypeNames,
    failure::Failure,
    heph::SUBSTREAM,
    read_options::ReadOptions,
    seconds::Seconds,
    source::Source,
    spelling,
    standard_error::say,
    tree::{
        forest::{Edge, Flow, Forest, Span, Step},
        order::Trees,
    },
};

/// Options of `tree`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct TreeOptions {
    /// Print one JSON object per line for each tree, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Only the trees of this trace: its 32 hexadecimal digits, as in the header traceparent
    #[arg(long, value_name = "ID", value_parser = trace_id)]
    trace: Option<TraceId>,
    /// Only the N trees with the slowest roots, and the first N of those that are cut
    #[arg(long, value_name = "N")]
    slow: Option<usize>,
    /// Show fields without a value, too, and all of long texts. --json always does
    #[arg(long)]
    full: bool,
    /// Limit on the memory for spans and the events inside, in MiB. What exceeds it is counted, not
    /// shown. With --slow, trees that have ended and are not among the slowest make room first; a
    /// span that begins later in one of them is then a root
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    tree_limit: usize,
}

fn trace_id(text: &str) -> Result<TraceId, String> {
    text.to_ascii_lowercase().parse().map_err(|_| {
        "write the 32 hexadecimal digits of a trace id, as the header traceparent has them".into()
    })
}

pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    options: TreeOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut events = limits.options().open(source)?.sorted();
    let mut reading = Reading {
        options,
        version: events.major_version(),
        facts: Facts::of(events.trace()),
        is_from_heph: events.trace().value(keys::SOURCE) == Some("heph"),
        types: PerType::default(),
        namesakes: DuplicateTypeNames::default(),
        forest: Forest::new(options.tree_limit.saturating_mul(1 << 20), options.slow),
        events: 0,
        outside: 0,
        other_traces: 0,
        last: i64::MIN,
    };
    if !reading.facts.clock.is_known() {
        return Err(Failure::NoDurations);
    }
    let end = loop {
        match events.next_event() {
            Ok(Some(event)) => reading.event(&event)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    reading.outside += nesting::nest(&mut reading.forest);
    let Reading { forest, facts, last, .. } = &mut reading;
    let trees = Trees::new(forest, *last);
    let (whole, cut) = trees.roots.split_at(trees.whole);
    let most = options.slow.unwrap_or(usize::MAX);
    let (shown, shown_cut) = (whole.len().min(most), cut.len().min(most));
    let show = |root, out: &mut _| match options.json {
        true => json::write(forest, &trees, root, facts, out),
        false => Ok(text::write(forest, &trees, root, facts, out)?),
    };
    whole[..shown].iter().try_for_each(|root| show(*root, out))?;
    if shown_cut > 0 && !options.json {
        text::write_cut(cut.len(), shown_cut, out)?;
    }
    cut[..shown_cut].iter().try_for_each(|root| show(*root, out))?;
    let counts = [shown + shown_cut, trees.roots.len(), cut.len()];
    if let (count @ 1.., most) = trees.all_outside() {
        say(Some(format_args!(
            "{count} spans begin before their parent of another process, or end after it, by up to \
             {}: the clocks may disagree, and --align-clocks aligns those of several traces",
            Seconds(most.into())
        )))?;
    }
    reading.summarize(counts, &events)?;
    Ok(end?)
}

/// The state while the trace is read.
struct Reading {
    options: TreeOptions,
    version: u32,
    facts: Facts,
    is_from_heph: bool,
    types: PerType<EventType>,
    namesakes: DuplicateTypeNames,
    forest: Forest,
    events: u64,
    /// Events that belong to no span.
    outside: u64,
    /// Events of other traces than the one that is wanted.
    other_traces: u64,
    /// The latest time.
    last: i64,
}

impl Reading {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        self.events += 1;
        let at = self.facts.clock.since_start(event.header.timestamp);
        self.last = self.last.max(at);
        let flow = if self.is_from_heph { flow(event) } else { None };
        let ids = Ids::of(&event.labels());
        let Some(span) = ids.span else {
            match flow.filter(|_| self.options.trace.is_none()) {
                Some(flow) => {
                    let ty = self.types.of(event, EventType::of);
                    let payload = Payload::of(event, ty);
                    let place = self.namesakes.place(event.metadata());
                    let text = self.options.inside(event, place, ty, &payload, &self.facts)?;
                    self.forest.keep_loose(flow, at, text);
                }
                None => self.outside += 1,
            }
            return Ok(());
        };
        if self.options.trace.is_some() && self.options.trace != ids.trace {
            self.other_traces += 1;
            return Ok(());
        }
        let ty = self.types.of(event, EventType::of);
        let payload = Payload::of(event, ty);
        let step = match role_of(event.metadata(), ids.overrides.opcode, self.version) {
            role if !role.is_edge() => self.forest.inside(span, &ids, at),
            role => {
                let (duration, outcome) = EndFields::of(event.metadata()).stated(event);
                let name = spelling::event_name(event.metadata());
                let place = place(event.metadata());
                let edge = Edge {
                    of: SpanEdge::of(event, (span, ids), at, (duration, outcome.as_deref())),
                    provider: &event.metadata().provider,
                    name: span_name(&name),
                    place: place.as_deref(),
                    flow,
                };
                self.forest.edge(role, &edge)
            }
        };
        match step {
            Step::Inside(span) => {
                let place = self.namesakes.place(event.metadata());
                let text = self.options.inside(event, place, ty, &payload, &self.facts)?;
                self.forest.keep_event(span, at, text);
            }
            Step::Edge(span, is_start) => {
                let text = match self.options.json {
                    true => json::details(event, &payload, is_start)?,
                    false => text::details(event, &payload, is_start, self.options.detail())?,
                };
                self.forest.keep_details(span, is_start, text);
            }
            Step::NoRoom => {}
        }
        Ok(())
    }

    /// Writes one line of `key=value` to standard error, and why nothing was shown.
    fn summarize(
        &self,
        [shown, roots, cut]: [usize; 3],
        events: &SortedReader<Source>,
    ) -> io::Result<()> {
        let Self { forest, outside, .. } = self;
        let spans = forest.spans.places();
        let count = |state| {
            let states = spans.iter().map(|at| forest.spans[*at].record.state);
            states.filter(|it| *it == state).count() as u64
        };
        let counts = &forest.counts;
        say(Some(format_args!(
            "# events={} lost={} outside={outside} spans={} without_end={} without_start={} \
             unknown={} trees={} cut_trees={cut} shown={shown} left_out_spans={} \
             left_out_events={} left_out_fields={}",
            self.events,
            events.totals().lost,
            spans.len() as u64 - count(SpanState::Unknown) + counts.spans_gone,
            count(SpanState::Started),
            count(SpanState::OnlyStopped),
            count(SpanState::Unknown),
            roots as u64 + counts.roots_gone,
            counts.spans_left_out,
            counts.events_left_out,
            counts.fields_left_out,
        )))?;
        if counts.spans_left_out + counts.events_left_out + counts.fields_left_out > 0 {
            return say(Some("not everything had room: --tree-limit raises the limit on memory"));
        }
        if roots > 0 {
            return Ok(());
        }
        let Self { events, other_traces, .. } = self;
        match self.options.trace {
            Some(_) if self.version < 6 => {
                say(Some("no span was shown: versions 4 and 5 of the format have no trace ids"))
            }
            Some(id) => say(Some(format_args!(
                "no span was shown: of {events} events, none is of trace {id}; {other_traces} \
                 belong to spans of others"
            ))),
            None => say(Some(format_args!(
                "no span was shown: of {events} events, none has a span id or an activity id"
            ))),
        }
    }
}

impl TreeOptions {
    fn detail(self) -> Detail {
        if self.full { Detail::Full } else { Detail::Short }
    }

    /// An event inside of a span, in the form of the output.
    fn inside(
        self,
        event: &Event<'_>,
        place: Option<&str>,
        ty: &EventType,
        payload: &Payload<'_>,
        facts: &Facts,
    ) -> io::Result<Vec<u8>> {
        match self.json {
            true => Ok(crate::dump::json(event, ty, payload, facts, &[], true)?),
            false => text::event(event, place, ty, payload, self.detail()),
        }
    }
}

/// The substream of an event that names no span, in a trace that was converted from Heph.
fn flow(event: &Event<'_>) -> Option<Flow> {
    let labels = event.labels();
    let substream = labels.iter().find_map(|label| match label {
        Label::Text(key, text) if key == SUBSTREAM => u64::from_str_radix(text, 16).ok(),
        _ => None,
    })?;
    Some(Flow { thread: event.thread().os_thread_id?, substream })
}

/// What tells the process of a span from others in the trace.
fn process_name<'a>(span: &Span, facts: &'a Facts) -> Option<Cow<'a, str>> {
    facts.processes.told_apart(span.process_id())
}

/// The id of a span, as the output has it.
fn id_text(key: &Key) -> String {
    match key {
        Key::Span(_, id) => id.to_string(),
        Key::Activity(id) => id.to_string(),
    }
}
