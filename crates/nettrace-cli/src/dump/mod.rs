//! `nettrace dump`: every event, as text or as JSON.

mod json;
pub(crate) mod text;

use std::{
    borrow::Cow,
    io::{self, Write},
};

use nettrace_reader::{Event, Trace};
use nettrace_views::{
    model::{Clock, FrameNames, Instant, PerType, Processes, label_name, process_id},
    text::{Detail, EventLook, EventType, Payload, write_label, write_what},
};

use crate::{
    color::ColorOption,
    duplicate_type_names::DuplicateTypeNames,
    failure::Failure,
    filter::{Condition, Filter, FilterOptions, Outcome, Scalar, Verdict},
    lines::Lines,
    read_options::ReadOptions,
    source::Source,
    spelling,
    summary::{Reach, Summary},
    wrap::{columns_of_stdout, wrap},
};

/// Options of `dump`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DumpOptions {
    /// Print one JSON object per line for each event, and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Show more of each event, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) show: Vec<Extra>,
    /// Show the place of each event in the source code, after its name or its target
    #[arg(long, conflicts_with = "json")]
    places: bool,
    #[command(flatten)]
    color: ColorOption,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
}

/// The parts of an event that are shown only on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Extra {
    /// All ids of the event. Otherwise a line has the short id of its span, as tree has it. JSON
    /// has all ids in any case
    Ids,
    /// The thread that recorded the event. It may be another than the thread that the event is
    /// about
    CaptureThread,
    /// The event's number among the events of its capture thread, including lost ones
    Number,
    /// Whether the event is marked as sorted: no later event in the file has an earlier time
    Sorted,
    /// The frames of the event's stack, innermost first: by the names that the trace has stated
    /// before, else their addresses
    Stack,
    /// The description of the event's type
    Description,
    /// The bytes of the payload, in hexadecimal digits
    Payload,
}

/// One event, as the writers of text and JSON need it.
struct ShownEvent<'a> {
    event: &'a Event<'a>,
    ty: &'a EventType,
    payload: &'a Payload<'a>,
    time: Instant,
    extras: &'a [Extra],
    /// In text: how it looks.
    look: EventLook,
    /// In JSON: whether it has its labels.
    has_labels: bool,
    /// The place of its type in the source code, if another type has the same name.
    place: Option<&'a str>,
    facts: &'a Facts,
}

impl ShownEvent<'_> {
    /// The identity of its process among those in the trace.
    fn process_name(&self) -> Option<Cow<'_, str>> {
        self.facts.processes.told_apart(process_id(self.event))
    }

    /// The frames of the event's stack, innermost first: `module!function`, or less.
    fn frames(&self) -> Option<impl Iterator<Item = String> + '_> {
        let process = process_id(self.event);
        let stack = self.event.stack()?;
        Some(stack.addresses().map(move |address| self.facts.names.name(process, address)))
    }
}

/// By how many blanks the rest of a line is indented that a terminal is too narrow for.
const INDENT: usize = 4;

pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    options: &DumpOptions,
    out: &mut impl Write,
) -> Result<Reach, Failure> {
    let write = match options.json {
        true => json::write,
        false => text::write,
    };
    let mut namesakes = DuplicateTypeNames::default();
    let look = EventLook {
        detail: Detail::Full,
        has_place: options.places,
        has_colors: options.color.is_wanted(),
    };
    let columns = if options.json { None } else { columns_of_stdout() };
    let has_stacks = options.show.contains(&Extra::Stack);
    each(source, limits, &options.filter, has_stacks, out, |event, ty, payload, facts, line| {
        let time = facts.clock.at(event.header.timestamp);
        let place = namesakes.place(event.metadata());
        let extras = &options.show;
        let start = line.len();
        write(
            &ShownEvent { event, ty, payload, time, extras, look, has_labels: true, place, facts },
            line,
        )?;
        if let Some(columns) = columns {
            let whole = line.split_off(start);
            wrap(&String::from_utf8_lossy(&whole), columns, INDENT, line);
        }
        Ok(())
    })
}

/// Facts about a trace while its events are shown.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) clock: Clock,
    pub(crate) processes: Processes,
    /// Names of code from the events so far.
    pub(crate) names: FrameNames,
    /// The number of events lost so far. Only [`each`] counts them.
    pub(crate) lost: u64,
}

impl Facts {
    pub(crate) fn of(trace: &Trace) -> Self {
        let (clock, processes) = (Clock::of(trace), Processes::of(trace));
        Self { clock, processes, names: FrameNames::default(), lost: 0 }
    }
}

/// Whether an event could be shown.
pub(crate) type ShowOutcome = io::Result<()>;

/// Shows the events that pass the filters, in the order of time, and writes a summary to standard
/// error. Frames of stacks have names only if the caller `has_stacks`.
pub(crate) fn each(
    source: Source,
    limits: ReadOptions,
    options: &FilterOptions,
    has_stacks: bool,
    out: &mut impl Write,
    mut show: impl FnMut(&Event<'_>, &EventType, &Payload<'_>, &Facts, &mut Vec<u8>) -> ShowOutcome,
) -> Result<Reach, Failure> {
    let mut summary = Summary::start();
    let mut events = limits.options().open(source)?.sorted();
    let mut facts = Facts::of(events.trace());
    let clock = facts.clock;
    let mut filter = Filter::new(&options.events, clock)?;
    let mut lines = Lines::new(options, out);
    let mut types = PerType::default();
    let end = loop {
        if lines.has_enough() {
            summary.reach = Reach::Head;
            break Ok(());
        }
        facts.lost = events.totals().lost;
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        summary.count(&event);
        if has_stacks {
            facts.names.learn(&event);
        }
        if !filter.passes(&event) {
            continue;
        }
        let ty = types.of(&event, EventType::of);
        let payload = Payload::of(&event, ty);
        if !passes(&mut filter, &event, ty, &payload, &facts.processes)? {
            continue;
        }
        summary.count_shown(payload.error.is_some());
        lines.line(|line| show(&event, ty, &payload, &facts, line))?;
    };
    lines.finish()?;
    summary.write(options, events.trace(), events.totals(), clock)?;
    if summary.shown() == 0 {
        crate::standard_error::say(filter.report(&options.events))?;
    }
    end?;
    Ok(summary.reach)
}

/// Tests a condition on an event: its fields, or else its labels, or else what it is of.
fn test(
    condition: &Condition,
    event: &Event<'_>,
    payload: &Payload<'_>,
    processes: &Processes,
) -> Outcome {
    let outcome = condition.test(&payload.fields, &event.labels());
    if outcome != Outcome::Absent {
        return outcome;
    }
    let text = |text| condition.test_scalars([Scalar::Text(text)].into_iter());
    match condition.field() {
        "provider" => text(Cow::Borrowed(&event.metadata().provider)),
        "event" => text(spelling::event_name(event.metadata())),
        "process" => test_process(condition, process_id(event), processes),
        _ => Outcome::Absent,
    }
}

/// What an event says of the filters.
pub(crate) fn judge(
    filter: &mut Filter,
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    processes: &Processes,
) -> io::Result<Verdict> {
    filter.judge(
        event,
        |condition| test(condition, event, payload, processes),
        |met| meet_names(event, payload, met),
        |out| write_all(event, ty, payload, out),
    )
}

/// Whether an event passes the filters that need its fields.
pub(crate) fn passes(
    filter: &mut Filter,
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    processes: &Processes,
) -> io::Result<bool> {
    let names = |met: &mut dyn FnMut(&str)| meet_names(event, payload, met);
    Ok(filter.passes_conditions(|it| test(it, event, payload, processes), names)
        && filter.passes_text(|out| write_all(event, ty, payload, out))?)
}

/// Passes the names of an event's fields and labels to a function.
fn meet_names(event: &Event<'_>, payload: &Payload<'_>, met: &mut dyn FnMut(&str)) {
    payload.fields.iter().for_each(|(name, _)| met(name));
    event.labels().iter().for_each(|label| met(label_name(label)));
}

/// Tests a condition on a process: its id, or its name.
fn test_process(condition: &Condition, id: Option<u64>, processes: &Processes) -> Outcome {
    let Some(id) = id else { return Outcome::Absent };
    let names = processes.named().filter(|(process, _)| *process == Some(id));
    let names = names.map(|(_, name)| Scalar::Text(name.into()));
    let spelled = [Scalar::Integer(id.into()), Scalar::Text(processes.spelled(id))];
    condition.test_scalars(names.chain(spelled))
}

/// Writes what is shown of an event, and all of it: what a text is looked for in.
pub(crate) fn write_all(
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    write_what(event, None, ty, payload, Detail::Full, out)?;
    event.labels().iter().try_for_each(|label| write_label(label, out))
}

/// An event as `dump --json` shows it, with these extras, and with its labels or without.
pub(crate) fn json(
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    facts: &Facts,
    extras: &[Extra],
    has_labels: bool,
) -> Result<Vec<u8>, serde_json::Error> {
    let time = facts.clock.at(event.header.timestamp);
    let mut out = Vec::new();
    let look = EventLook::default();
    let shown =
        ShownEvent { event, ty, payload, time, extras, look, has_labels, place: None, facts };
    spelling::to_json(&mut out, &shown)?;
    Ok(out)
}

/// The processor on which an event was recorded, if known.
pub(crate) fn processor(event: &Event<'_>) -> Option<u32> {
    (event.header.processor != u32::MAX).then_some(event.header.processor)
}
