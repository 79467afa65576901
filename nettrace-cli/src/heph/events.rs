//! `nettrace dump` and `nettrace headers` for a Heph trace.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
    time::Instant,
};

use nettrace_reader::heph::{Event, Reader, Value};
use nettrace_views::{
    model::{self, Clock},
    text::{Names, PlainFloat},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    dump::DumpOptions,
    failure::Failure,
    filter::{Condition, Filter, FilterOptions, Outcome, Scalar, Subject, ThreadPattern},
    heph::{Epoch, HephSource},
    lines::Lines,
    payload::JsonFloat,
    read_options::ReadOptions,
    seconds::Seconds,
    source::Bytes,
    spelling::{OneLine, to_json},
    standard_error::say,
    summary::PrintedCount,
};

pub(crate) fn dump(
    source: HephSource,
    limits: ReadOptions,
    wanted: &DumpOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if !wanted.show.is_empty() {
        return Err(Failure::NothingMoreInHeph);
    }
    each(source, limits, &wanted.filter, out, |event, time, out| {
        if wanted.json {
            to_json(&mut *out, &JsonEvent { event, time })?;
            out.push(b'\n');
            return Ok(());
        }
        write_text(event, time, out)
    })
}

/// Stream, counter, substream, start, end and description.
pub(crate) fn headers(
    source: HephSource,
    limits: ReadOptions,
    filter: &FilterOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    each(source, limits, filter, out, |event, _, out| {
        let Event { stream, counter, substream, start, end, description, .. } = event;
        let description = OneLine(description);
        writeln!(out, "{stream}\t{counter}\t{substream}\t{start}\t{end}\t{description}")
    })
}

/// Shows the events that pass the filters, and writes a summary to standard error.
fn each<W: Write>(
    source: HephSource,
    limits: ReadOptions,
    wanted: &FilterOptions,
    out: &mut W,
    mut show: impl FnMut(&Event<'_>, model::Instant, &mut Vec<u8>) -> io::Result<()>,
) -> Result<(), Failure> {
    for (is_given, what) in
        [(!wanted.provider.is_empty(), "provider"), (wanted.level.is_some(), "level")]
    {
        if is_given {
            return Err(Failure::NotInHeph(what));
        }
    }
    let started = Instant::now();
    let mut reader = source.read(limits);
    // The epoch can be anywhere in the trace, but is usually before the first event.
    let mut epoch = None;
    let mut clock = Clock::of_epoch(None);
    let mut filter = None;
    let mut lines = Lines::new(wanted, out);
    let mut shown = 0_u64;
    let mut damaged = None;
    let end = loop {
        if lines.has_enough() {
            break Ok(());
        }
        let event = match reader.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if event.epoch != epoch {
            epoch = event.epoch;
            clock = Clock::of_epoch(epoch);
        }
        let filter = match &mut filter {
            Some(filter) => filter,
            none => none.insert(Filter::new(wanted, clock)?),
        };
        if damaged.is_none() {
            damaged = event.attributes().find_map(Result::err);
        }
        let names = |met: &mut dyn FnMut(&str)| {
            event.attributes().filter_map(Result::ok).for_each(|(name, _)| met(name));
        };
        if filter.passes(&event) && filter.passes_conditions(|it| test(it, &event), names) {
            shown += 1;
            let time = clock.at(event.start);
            lines.line(|line| show(&event, time, line))?;
        }
    };
    let is_early = lines.has_enough();
    lines.finish()?;
    write_summary(&reader, PrintedCount::of(shown, wanted), is_early, started)?;
    if shown == 0 {
        say(filter.and_then(|filter| filter.report(wanted)))?;
    }
    end?;
    damaged.map_or(Ok(()), |error| Err(error.into()))
}

fn write_summary(
    reader: &Reader<Bytes>,
    printed: PrintedCount,
    is_early: bool,
    started: Instant,
) -> io::Result<()> {
    let totals = reader.totals();
    say(Some(format_args!(
        "# events={} shown={} lost={} packets={} streams={} bytes={} epoch={} read_ms={}{}{}",
        totals.events,
        printed.count,
        totals.lost,
        totals.packets,
        reader.streams().count(),
        reader.offset(),
        Epoch(reader.epoch()),
        started.elapsed().as_millis(),
        if is_early { " (not read to the end: --head)" } else { "" },
        printed,
    )))
}

impl Subject for Event<'_> {
    fn provider(&self) -> &str {
        ""
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.description)
    }

    fn is_of_thread(&self, pattern: &ThreadPattern) -> bool {
        match pattern {
            ThreadPattern::Id(id) | ThreadPattern::Index(id) => u64::from(self.stream) == *id,
            ThreadPattern::Name(_) => false,
        }
    }

    fn since_start(&self) -> Option<i128> {
        Some(self.start.into())
    }

    fn level(&self) -> u8 {
        0
    }
}

/// The attributes in which this project writes ids, and the labels of NetTrace that have them. A
/// condition can use either name.
const ID_LABELS: [(&str, &str); 5] = [
    ("@trace", "TraceId"),
    ("@span", "SpanId"),
    // A label has it as the activity of the parent.
    ("@parent", "@parent"),
    ("@activity", "ActivityId"),
    ("@related", "RelatedActivityId"),
];

/// Tests a condition against the attributes with its name.
fn test(condition: &Condition, event: &Event<'_>) -> Outcome {
    let attributes = event.attributes().filter_map(Result::ok);
    let mut values = Vec::new();
    let field = condition.field();
    let id = ID_LABELS.iter().find(|(attribute, label)| field == *label || field == *attribute);
    let wanted = id.map_or(field, |(attribute, _)| attribute);
    for (_, value) in attributes.filter(|(name, _)| *name == wanted) {
        match value {
            Value::Text(text) if id.is_some() => {
                values.push(Scalar::Id(text.to_ascii_lowercase()));
            }
            Value::Array(elements) => values.extend(elements.iter().map(scalar)),
            value => values.push(scalar(value)),
        }
    }
    condition.test_scalars(values.into_iter())
}

fn scalar(value: Value<'_>) -> Scalar<'_> {
    match value {
        Value::U64(value) => Scalar::Integer(value.into()),
        Value::I64(value) => Scalar::Integer(value.into()),
        Value::F64(value) => Scalar::Float(value),
        Value::Text(text) => Scalar::Text(Cow::Borrowed(text)),
        other => Scalar::Text(format!("{other:?}").into()),
    }
}

fn write_text(event: &Event<'_>, time: model::Instant, out: &mut Vec<u8>) -> io::Result<()> {
    match time.time {
        Some(time) => write!(out, "{time}")?,
        None => write!(out, "{:>30}", "-")?,
    }
    write!(out, " {:>15}", Seconds(event.start.into()).to_string())?;
    write!(out, " [#{}", event.stream)?;
    if event.substream != 0 {
        write!(out, "/{:x}", event.substream)?;
    }
    write!(out, "] {}", OneLine(format_args!("{:?}", event.description)))?;
    if event.end != event.start {
        let length = i128::from(event.end) - i128::from(event.start);
        write!(out, " ({})", Seconds(length))?;
    }
    for attribute in event.attributes() {
        match attribute {
            Ok((name, value)) => write!(out, " {}={}", OneLine(name), OneLine(PlainValue(&value)))?,
            Err(error) => write!(out, " (the next attribute cannot be decoded: {error})")?,
        }
    }
    writeln!(out)
}

/// An event as a JSON object. Its keys are documented in `docs/json.md`.
struct JsonEvent<'a> {
    event: &'a Event<'a>,
    time: model::Instant,
}

impl Serialize for JsonEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.event;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &self.time.time)?;
        map.serialize_entry("start_ns", &event.start)?;
        map.serialize_entry("end_ns", &event.end)?;
        map.serialize_entry("description", event.description)?;
        map.serialize_entry("stream", &event.stream)?;
        map.serialize_entry("counter", &event.counter)?;
        map.serialize_entry("substream", &event.substream)?;
        map.serialize_entry("attributes", &JsonAttributes(event))?;
        if let Some(error) = event.attributes().find_map(Result::err) {
            map.serialize_entry("attributes_error", &error.to_string())?;
        }
        map.end()
    }
}

struct JsonAttributes<'a>(&'a Event<'a>);

impl Serialize for JsonAttributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut names = Names::default();
        for (name, value) in self.0.attributes().filter_map(Result::ok) {
            map.serialize_entry(&*names.unique(name), &JsonValue(&value))?;
        }
        map.end()
    }
}

struct JsonValue<'a>(&'a Value<'a>);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U64(value) => serializer.serialize_u64(*value),
            Value::I64(value) => serializer.serialize_i64(*value),
            Value::F64(value) => JsonFloat(*value).serialize(serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Array(values) => {
                // Elements are lent one by one.
                let values: Vec<_> = values.iter().collect();
                serializer.collect_seq(values.iter().map(JsonValue))
            }
            other => serializer.collect_str(&format_args!("{other:?}")),
        }
    }
}

/// A value for people.
struct PlainValue<'a>(&'a Value<'a>);

impl fmt::Display for PlainValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::U64(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::F64(value) => PlainFloat(*value).fmt(f),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Array(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, PlainValue(&value))?;
                }
                f.write_str("]")
            }
            other => write!(f, "{other:?}"),
        }
    }
}
