//! `nettrace tree`: what happened inside of what.
//!
//! A span begins with an event of opcode Start and ends with one of opcode Stop that has the same
//! id. Its id is the label `SpanId`, otherwise the activity id. Its parent is the related activity
//! id of the Start. An event with the id of a span is inside of it. In a Heph trace of another
//! program the times say what is inside of what.

mod choice;
mod fold;
mod forest;
mod json;
#[cfg(unix)]
mod live;
mod nesting;
mod order;
mod room;
mod short;
pub(crate) mod text;

#[cfg(unix)]
use self::live::OpenOptions;
#[cfg(unix)]
pub(crate) use self::live::OpenQuestion;
#[cfg(unix)]
pub(crate) use self::short::ShortDuration;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    io::{self, Write},
    str::FromStr,
};

use nettrace_event::{keys, trace_context::TraceId};
use nettrace_format::spelling::nearest;
use nettrace_reader::{Event, Label, SortedReader, Value};
use nettrace_views::{
    model::{
        EndFields, Ids, Key, PerType, Role, SpanEdge, SpanRef, SpanState, place, role_of,
        span_name, span_of_record,
    },
    text::{Detail, EventLook, EventType, Payload},
};

use crate::{
    color::ColorOption,
    dump::{self, Facts},
    duplicate_type_names::DuplicateTypeNames,
    failure::Failure,
    filter::{EventFilter, Filter, Pattern, Verdict},
    heph::SUBSTREAM,
    read_options::ReadOptions,
    seconds::Seconds,
    source::Source,
    spelling::{self, OneLine},
    standard_error::say,
    suggestions,
    tree::{
        choice::{Choice, Ranking},
        forest::{Edge, Flow, Forest, Span, Step},
        order::Trees,
    },
    wrap::columns_of_stdout,
};

/// Options of `tree`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TreeOptions {
    /// Print one JSON object per line for each tree, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Only the trees of this trace: its 32 hexadecimal digits, as in the header traceparent
    #[arg(long, value_name = "ID", value_parser = trace_id)]
    trace: Option<TraceId>,
    /// Only the N slowest trees, and the first N of those that are cut. With --open the N oldest
    #[arg(long, value_name = "N", aliases = ["top", "head", "limit"])]
    slow: Option<usize>,
    /// Rank the spans with this name, or NAME*, each with what is below it: by their durations,
    /// unless --own or --busy is given. PROVIDER/NAME is a name, too
    #[arg(long, value_name = "NAME")]
    span: Option<Pattern>,
    /// Rank spans by the time in which no child was under way: all, or those of --span
    #[arg(long, conflicts_with = "busy")]
    own: bool,
    /// Rank spans by their time on a processor, as far as the trace has it: all, or those of --span
    #[arg(long)]
    busy: bool,
    /// Only spans without an end, and those around them, the oldest first: what was under way at
    /// the end of the trace, each with its last event. As text three trees of each name, unless
    /// --slow or more than 1000 --lines are given
    #[arg(long, conflicts_with_all = ["span", "own", "busy"])]
    open: bool,
    /// Show each of many equal children. Otherwise five or more of one name and outcome are one
    /// line, behind which the longest is shown if anything is inside of it
    #[arg(long)]
    no_fold: bool,
    /// Show on an axis when each span was under way: gaps, and what was so at the same time
    #[arg(long)]
    axis: bool,
    /// The most lines of text, or all. One of several trees gets a fifth of them. The last line
    /// says what was left out
    #[arg(long, value_name = "N", default_value = "1000")]
    lines: LineLimit,
    /// Show fields without a value, too, and all of long texts. --json always does
    #[arg(long)]
    full: bool,
    /// Show the places of events and spans in the source code
    #[arg(long, conflicts_with = "json")]
    places: bool,
    #[command(flatten)]
    color: ColorOption,
    /// Limit on the memory for spans and the events inside, in MiB. What exceeds it is counted, not
    /// shown. What has ended and would not be shown anyway makes room first; a span that begins
    /// later in such a tree is then a root [default: 384, or 1024 if every tree is shown]
    #[arg(long, value_name = "MIB")]
    tree_limit: Option<usize>,
    #[cfg(unix)]
    #[command(flatten)]
    live: OpenOptions,
    #[command(flatten)]
    filter: EventFilter,
}

/// How many lines are shown unless --lines says it.
const USUAL_LINES: usize = 1000;

/// How many lines are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineLimit(usize);

impl FromStr for LineLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self(usize::MAX)),
            text => text.parse().map(Self).map_err(|_| "write a number of lines, or all"),
        }
    }
}

fn trace_id(text: &str) -> Result<TraceId, String> {
    text.to_ascii_lowercase().parse().map_err(|_| {
        "write the 32 hexadecimal digits of a trace id, as the header traceparent has them".into()
    })
}

pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    options: &TreeOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut events = limits.options().open(source)?.sorted();
    let facts = Facts::of(events.trace());
    if !facts.clock.is_known() {
        return Err(Failure::NoDurations);
    }
    let choice = options.choice(&facts)?;
    // If every tree is shown, none makes room.
    let usual = if choice.most_kept().is_some() { 384 } else { 1024 };
    let limit = options.tree_limit.unwrap_or(usual).saturating_mul(1 << 20);
    let mut reading = Reading {
        version: events.major_version(),
        facts,
        is_from_heph: events.trace().value(keys::SOURCE) == Some("heph"),
        types: PerType::default(),
        namesakes: DuplicateTypeNames::default(),
        forest: Forest::new(limit, choice),
        events: 0,
        outside: 0,
        other_traces: 0,
        last: i64::MIN,
        options,
    };
    let end = loop {
        match events.next_event() {
            Ok(Some(event)) => reading.event(&event)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    reading.outside += nesting::nest(&mut reading.forest);
    let Reading { forest, facts, last, options, .. } = &reading;
    let trees = Trees::new(forest, *last);
    let [shown, shown_cut] = show(&trees, forest, facts, options, out)?;
    let (units, cut) = (trees.units.len(), trees.cut.len());
    if let (count @ 1.., most) = trees.all_outside() {
        say(Some(format_args!(
            "{count} spans begin before their parent of another process, or end after it, by up to \
             {}: the clocks may disagree, and --align-clocks aligns those of several traces",
            Seconds(most.into())
        )))?;
    }
    reading.summarize([shown + shown_cut, units + cut, cut], &events)?;
    Ok(end?)
}

/// Shows the trees that are wanted. Returns how many are ranked, and how many are cut.
fn show(
    trees: &Trees<'_>,
    forest: &Forest,
    facts: &Facts,
    options: &TreeOptions,
    out: &mut impl Write,
) -> Result<[usize; 2], Failure> {
    let most = options.slow.unwrap_or(usize::MAX);
    let units = trees.units.iter().map(|unit| unit.at).take(most);
    let cut = match options.wants_examples() {
        true => trees.open_examples(),
        false => trees.cut[..trees.cut.len().min(most)].to_vec(),
    };
    let counts = [units.len(), cut.len()];
    if options.json {
        let mut all = units.chain(cut.iter().copied());
        all.try_for_each(|root| json::write(forest, trees, root, facts, out))?;
        return Ok(counts);
    }
    let look = text::Look {
        folds: !options.no_fold,
        has_axis: options.axis,
        has_places: options.places,
        has_colors: options.color.is_wanted(),
        columns: columns_of_stdout(),
    };
    let mut room = text::Room::new(options.lines.0, counts[0] + counts[1]);
    let mut shown = [0, 0];
    for root in units {
        if room.is_full() {
            break;
        }
        text::write(forest, trees, root, facts, (look, &mut room), out)?;
        shown[0] += 1;
    }
    if !cut.is_empty() && !room.is_full() {
        match options.open {
            true => text::write_open(forest, trees, &trees.cut, out)?,
            false => text::write_cut(trees.cut.len(), cut.len(), out)?,
        }
    }
    for root in &cut {
        if room.is_full() {
            break;
        }
        text::write(forest, trees, *root, facts, (look, &mut room), out)?;
        shown[1] += 1;
    }
    let mut left_out = counts[0] + counts[1] - shown[0] - shown[1];
    if options.wants_examples() {
        left_out += trees.cut.len() - cut.len();
    }
    room.write_left_out(left_out, out)?;
    Ok(shown)
}

/// The state while the trace is read.
struct Reading<'a> {
    options: &'a TreeOptions,
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

impl Reading<'_> {
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
        let verdict = match self.forest.choice.filter_mut() {
            Some(filter) => dump::judge(filter, event, ty, &payload, &self.facts.processes)?,
            None => Verdict::default(),
        };
        let role = role_of(event.metadata(), ids.overrides.opcode, self.version);
        let step = match role {
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
                if matches!(role, Role::Resume | Role::Suspend) && self.forest.choice.wants_busy() {
                    self.forest.polled(span, role, at);
                }
                if span_of_record(event.metadata()).is_some() {
                    self.forest.judged(span, verdict, true);
                }
                self.forest.judged(span, verdict, false);
                let place = self.namesakes.place(event.metadata());
                let text = self.options.inside(event, place, ty, &payload, &self.facts)?;
                self.forest.keep_event(span, at, text);
            }
            Step::Edge(span, is_start) => {
                self.forest.judged(span, verdict, true);
                if !is_start && self.forest.choice.wants_busy() {
                    let busy = payload.fields.iter().find(|(name, _)| *name == "busy");
                    if let Some((_, Some(Value::U64(nanos)))) = busy {
                        let nanos = i64::try_from(*nanos).unwrap_or(i64::MAX);
                        self.forest.aside(span).into_iter().for_each(|it| it.busy = Some(nanos));
                    }
                }
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
            roots as u64 + counts.trees_gone,
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
        let Self { events, other_traces, options, .. } = self;
        if !spans.is_empty() && forest.choice.is_picky() {
            return say(Some(self.why_none(&spans)));
        }
        match options.trace {
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
    /// What is asked of the spans of a live process.
    #[cfg(unix)]
    pub(crate) fn question(&self) -> OpenQuestion<'_> {
        let Self { live: options, filter, json: is_json, .. } = self;
        OpenQuestion { options, filter, is_json: *is_json, detail: self.detail() }
    }

    fn choice(&self, facts: &Facts) -> Result<Choice, Failure> {
        let ranking = match (self.own, self.busy, &self.span) {
            (true, ..) => Ranking::Own,
            (_, true, _) => Ranking::Busy,
            (.., Some(_)) => Ranking::Duration,
            _ => Ranking::Extent,
        };
        // Each tree has two lines at least.
        let lines = Some(self.lines.0 / 2).filter(|_| !self.json && self.lines.0 < usize::MAX);
        // What is open makes no room, so none of that is left out here.
        let slow = self.slow.filter(|_| !self.open);
        let most = [slow, lines].into_iter().flatten().min();
        let filter = match self.filter.is_given() {
            true => Some(Filter::new(&self.filter, facts.clock)?),
            false => None,
        };
        if filter.as_ref().is_some_and(Filter::has_too_many_conditions) {
            return Err(Failure::TooManyConditions);
        }
        Ok(Choice { filter, span: self.span.clone(), ranking, most, is_open: self.open })
    }

    /// Whether only some of many equal trees with open spans are shown.
    fn wants_examples(&self) -> bool {
        self.open && !self.json && self.slow.is_none() && self.lines.0 <= USUAL_LINES
    }

    fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Short }
    }

    fn event_look(&self) -> EventLook {
        EventLook {
            detail: self.detail(),
            has_place: self.places,
            has_colors: self.color.is_wanted(),
        }
    }

    /// An event inside of a span, in the form of the output.
    fn inside(
        &self,
        event: &Event<'_>,
        place: Option<&str>,
        ty: &EventType,
        payload: &Payload<'_>,
        facts: &Facts,
    ) -> io::Result<Vec<u8>> {
        match self.json {
            true => Ok(crate::dump::json(event, ty, payload, facts, &[], true)?),
            false => text::event(event, place, ty, payload, self.event_look()),
        }
    }
}

impl Reading<'_> {
    /// Why none of these spans was shown.
    fn why_none(&self, spans: &[SpanRef]) -> String {
        let Self { forest, options, .. } = self;
        let choice = &forest.choice;
        let count = spans.len();
        if let Some(name) = choice.span.as_ref().map(Pattern::to_string) {
            let is_known = forest.types.iter().any(|ty| choice.ranks(&ty.provider, &ty.name));
            if !is_known {
                let names: BTreeSet<_> = forest.types.iter().map(|ty| &*ty.name).collect();
                let hint = suggestions::hint(nearest(&name, names.iter().copied()));
                let names = suggestions::some_of(names.iter().copied());
                return format!(
                    "no span was shown: of {count} spans, none is called {}{hint}; there are \
                     {names}",
                    OneLine(&name)
                );
            }
        }
        let records = || spans.iter().map(|at| &forest.spans[*at].record);
        if choice.is_open && !records().any(|record| record.state == SpanState::Started) {
            return format!("no span was shown: all {count} spans have ended");
        }
        let mut why = choice.report(&options.filter).unwrap_or_else(|| {
            format!("no span was shown: of {count} spans, none is what was asked for")
        });
        if options.filter.asks_for("outcome") {
            let outcomes: BTreeSet<_> =
                records().filter_map(|record| record.outcome.as_deref()).collect();
            if !outcomes.is_empty() {
                why.push_str("; the outcomes are ");
                why.push_str(&suggestions::some_of(outcomes.iter().copied()));
            }
        }
        why
    }
}

/// The substream of an event that names no span, in a trace that was converted from Heph.
fn flow(event: &Event<'_>) -> Option<Flow> {
    let labels = event.labels();
    let substream = labels.iter().find_map(|label| match label {
        Label::Str(key, text) if key == SUBSTREAM => u64::from_str_radix(text, 16).ok(),
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
