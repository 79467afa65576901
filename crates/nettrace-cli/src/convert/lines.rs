//! Conversion to lines: one for each event, as JSON or as CSV.

use std::io::{self, Write};

use nettrace_reader::{Event, Label, LastLabels, Totals, Trace};
use nettrace_views::{
    LeftOut, Target,
    model::{PerType, process_id},
    text::{EventType, JsonFields, JsonLabels, LabelValue, Payload, is_id},
};
use serde::Serialize;

use crate::{
    convert::{
        BATCH,
        extra_target::{Begin, ExtraTarget},
    },
    csv_cell::CsvCell,
    dump::{self, Extra, Facts, processor},
    spelling::{self, to_json},
};

pub(crate) const JSONL: ExtraTarget = ExtraTarget {
    name: "jsonl",
    title: "JSON lines",
    about: "one JSON object per line for each event, as `dump --json --show stack` prints it",
    endings: &["jsonl", "ndjson"],
    begin: Begin::File(|start, out| Ok(Box::new(Lines::new(start.trace, out, json, "")))),
};

pub(crate) const CSV: ExtraTarget = ExtraTarget {
    name: "csv",
    title: "CSV",
    about: "one row for each event; the fields are a JSON object in the last column",
    endings: &["csv"],
    begin: Begin::File(|start, out| Ok(Box::new(Lines::new(start.trace, out, csv, HEADER)))),
};

/// The names of the columns.
const HEADER: &str = "time,since_start_ns,provider,name,id,version,level,opcode,keywords,process,\
                      thread,thread_name,cpu,trace_id,span_id,related_id,payload_bytes,labels,\
                      fields\n";

/// Writes the lines of a trace: rows of CSV, or objects of JSON.
#[cfg(feature = "__fuzzing")]
pub(crate) fn write<R: nettrace_reader::Source>(
    events: &mut nettrace_reader::SortedReader<R>,
    is_csv: bool,
    out: &mut Vec<u8>,
) -> io::Result<nettrace_views::Written> {
    let trace = events.trace().clone();
    let lines = match is_csv {
        true => Lines::new(&trace, out, csv, HEADER),
        false => Lines::new(&trace, out, json, ""),
    };
    nettrace_views::drive(events, Box::new(lines))
}

/// Writes an event as a line.
type Form = fn(&Event<'_>, &EventType, &Payload<'_>, &Facts, Parts, &mut Vec<u8>) -> io::Result<()>;

/// Writes a line for each event.
struct Lines<'w> {
    sink: &'w mut dyn Write,
    out: Vec<u8>,
    facts: Facts,
    types: PerType<EventType>,
    form: Form,
    is_csv: bool,
    room: Room,
    left_out: Counts,
}

/// Which parts of an event a line has besides its own values.
#[derive(Clone, Copy, Debug)]
struct Parts {
    labels: bool,
    stack: bool,
}

/// Room for long label lists and stacks. Events of some bytes can all have one of megabytes, and
/// each line would repeat it.
#[derive(Debug)]
struct Room {
    left: usize,
    labels: LastLabels,
    /// The size of these.
    size: usize,
}

impl Room {
    /// What there is room for at first, and for each byte of a payload.
    const FIRST: usize = 64 << 20;
    const FOR_A_BYTE: usize = 16;
    /// What always has room.
    const SHORT: usize = 1 << 10;

    /// The parts of an event that have room.
    fn parts(&mut self, event: &Event<'_>, is_csv: bool) -> Parts {
        if event.labels_into(&mut self.labels) {
            let sizes = self.labels.labels().iter().map(|label| match label {
                Label::Str(key, value) => key.len() + value.len(),
                Label::Int(key, _) => key.len() + 8,
                _ => 16,
            });
            self.size = sizes.sum();
        }
        let stack = event.stack().filter(|_| !is_csv);
        let stack = stack.map_or(0, |stack| stack.bytes().len());
        self.left = self.left.saturating_add(event.payload.len() * Self::FOR_A_BYTE);
        let labels = self.take(self.size);
        Parts { labels, stack: self.take(stack) }
    }

    fn take(&mut self, size: usize) -> bool {
        if size <= Self::SHORT {
            return true;
        }
        let left = self.left.checked_sub(size);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// What lines lack.
#[derive(Debug, Default)]
struct Counts {
    /// Events some of whose fields cannot be decoded.
    damaged: u64,
    /// Events with a payload whose fields the trace does not describe.
    undescribed: u64,
    /// Events that have a stack.
    stacks: u64,
    /// Events whose labels, or whose stack, had no room.
    long_labels: u64,
    long_stacks: u64,
}

impl<'w> Lines<'w> {
    fn new(trace: &Trace, sink: &'w mut dyn Write, form: Form, header: &str) -> Self {
        let (out, facts) = (header.as_bytes().to_vec(), Facts::of(trace));
        Self {
            sink,
            out,
            facts,
            types: PerType::default(),
            form,
            is_csv: !header.is_empty(),
            room: Room { left: Room::FIRST, labels: LastLabels::default(), size: 0 },
            left_out: Counts::default(),
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Target for Lines<'_> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        if !self.is_csv {
            self.facts.names.learn(event);
        }
        let ty = self.types.of(event, EventType::of);
        let payload = Payload::of(event, ty);
        let parts = self.room.parts(event, self.is_csv);
        let Counts { damaged, undescribed, stacks, long_labels, long_stacks } = &mut self.left_out;
        *long_labels += u64::from(!parts.labels);
        *long_stacks += u64::from(!parts.stack);
        *damaged += u64::from(payload.error.is_some());
        *undescribed += u64::from(payload.fields.is_empty() && !event.payload.is_empty());
        *stacks += u64::from(event.header.stack_id != 0 && event.stack().is_some());
        (self.form)(event, ty, &payload, &self.facts, parts, &mut self.out)?;
        if self.out.len() < BATCH { Ok(()) } else { self.write_out() }
    }

    fn finish(mut self: Box<Self>, _: &Totals) -> io::Result<LeftOut> {
        self.write_out()?;
        self.sink.flush()?;
        let mut left_out = LeftOut::default();
        let Counts { damaged, undescribed, stacks, long_labels, long_stacks } = self.left_out;
        left_out.miss(long_labels, "long label lists of events");
        left_out.miss(long_stacks, "long stacks of events");
        left_out.miss(damaged, "events' fields that cannot be decoded");
        left_out.add(undescribed, "payloads whose fields the trace does not describe");
        // Objects have them.
        left_out.add(if self.is_csv { stacks } else { 0 }, "stacks");
        Ok(left_out)
    }
}

fn json(
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    facts: &Facts,
    parts: Parts,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let has_stack =
        parts.stack && event.stack().is_some_and(|stack| stack.addresses().next().is_some());
    let extras = if has_stack { &[Extra::Stack][..] } else { &[] };
    out.extend_from_slice(&dump::json(event, ty, payload, facts, extras, parts.labels)?);
    out.push(b'\n');
    Ok(())
}

fn csv(
    event: &Event<'_>,
    _: &EventType,
    payload: &Payload<'_>,
    facts: &Facts,
    parts: Parts,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let (metadata, thread) = (event.metadata(), event.thread());
    let time = facts.clock.at(event.header.timestamp);
    let labels = if parts.labels { event.labels() } else { Default::default() };
    let id = |of: fn(&Label) -> bool| {
        let label = labels.iter().rev().find(|label| of(label));
        label.map(|label| LabelValue(label).to_string()).unwrap_or_default()
    };
    let span = match id(|label| matches!(label, Label::SpanId(_))) {
        span if span.is_empty() => id(|label| matches!(label, Label::ActivityId(_))),
        span => span,
    };
    if let Some(time) = time.time {
        write!(out, "{time}")?;
    }
    out.push(b',');
    if let Some(nanos) = time.since_start {
        write!(out, "{nanos}")?;
    }
    text(out, &metadata.provider)?;
    text(out, &spelling::event_name(metadata))?;
    write!(out, ",{},{}", metadata.event_id, event.version())?;
    text(out, &spelling::level(event.level()))?;
    write!(out, ",{},{}", event.opcode(), event.keywords())?;
    number(out, process_id(event))?;
    number(out, thread.os_thread_id)?;
    text(out, thread.name.as_deref().unwrap_or(""))?;
    number(out, processor(event).map(u64::from))?;
    text(out, &id(|label| matches!(label, Label::TraceId(_))))?;
    text(out, &span)?;
    text(out, &id(|label| matches!(label, Label::RelatedActivityId(_))))?;
    number(out, Some(event.payload.len() as u64))?;
    let others: Vec<_> = labels.iter().filter(|label| !is_id(label)).cloned().collect();
    match others.is_empty() {
        true => out.push(b','),
        false => object(out, &JsonLabels(&others))?,
    }
    object(out, &JsonFields(payload))?;
    out.push(b'\n');
    Ok(())
}

fn number(out: &mut Vec<u8>, number: Option<u64>) -> io::Result<()> {
    out.push(b',');
    number.map_or(Ok(()), |number| write!(out, "{number}"))
}

/// Writes a comma and a text.
fn text(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    write!(out, ",{}", CsvCell(text))
}

/// Writes a comma and a value as JSON.
fn object(out: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    let mut json = Vec::new();
    to_json(&mut json, value)?;
    text(out, &String::from_utf8_lossy(&json))
}
