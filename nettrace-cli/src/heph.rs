//! The commands for traces in Heph's format, which every command tells from NetTrace by the first
//! bytes. Events are shown in the order in which they stand in the trace: a writer puts a span there
//! when it ends.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt,
    io::{self, Read, Write},
    path::Path,
    time::Instant,
};

use nettrace_reader::heph::{
    Attributes, Event, Options, Reader, StreamTotals, Value, is_heph, verify,
};

use crate::{
    args::Limits,
    failure::Failure,
    json::{self, Members},
    number, shown,
    source::{self, Bytes, Source},
    verify::tell,
};

/// How many descriptions are counted one by one, and how many bytes they may take.
const MOST_NAMES: usize = 10_000;
const MOST_NAME_BYTES: usize = 16 << 20;

/// A trace, by the kind of its format.
pub(crate) enum Trace {
    NetTrace(Source),
    Heph(Bytes),
}

/// Opens a trace and looks which kind it is: whatever is no Heph trace counts as NetTrace.
pub(crate) fn open(file: &Path) -> Result<Trace, Failure> {
    let mut source = source::open(file)?;
    let mut first = Vec::new();
    (&mut source)
        .take(4)
        .read_to_end(&mut first)
        .map_err(|error| Failure::Open(file.display().to_string(), error))?;
    let is_heph = is_heph(&first);
    let source = io::Cursor::new(first).chain(source);
    if is_heph {
        return Ok(Trace::Heph(Box::new(source)));
    }
    let ahead = Source::new(source);
    Ok(Trace::NetTrace(ahead.map_err(|error| Failure::Open(file.display().to_string(), error))?))
}

/// `nettrace info`.
pub(crate) fn info(
    source: Bytes,
    limits: Limits,
    all_streams: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut reader = options(limits).open(source);
    let mut names = HashMap::<String, u64>::new();
    let (mut name_bytes, mut others) = (0, 0);
    let mut times: Option<(u64, u64)> = None;
    let end = loop {
        let event = match reader.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let (first, last) = times.unwrap_or((u64::MAX, 0));
        times = Some((first.min(event.start), last.max(event.end)));
        if let Some(count) = names.get_mut(event.description) {
            *count += 1;
        } else if names.len() < MOST_NAMES && name_bytes < MOST_NAME_BYTES {
            name_bytes += event.description.len();
            names.insert(event.description.to_owned(), 1);
        } else {
            others += 1;
        }
    };
    let totals = reader.totals();
    writeln!(out, "format           Heph 0.1.0")?;
    writeln!(out, "epoch            {}", Epoch(reader.epoch()))?;
    if let Some((first, last)) = times {
        writeln!(out, "first start      {} ms after the epoch", Millis(first))?;
        writeln!(out, "last end         {} ms after the epoch", Millis(last))?;
    }
    writeln!(out, "events           {}", totals.events)?;
    writeln!(out, "lost events      {}", totals.lost)?;
    if totals.step_backs > 0 {
        let times = totals.step_backs;
        writeln!(out, "                 numbers of a stream went back {times} times")?;
    }
    writeln!(out, "bytes read       {}", reader.offset())?;
    writeln!(out, "packets          {}", totals.packets)?;
    if totals.padding > 0 {
        writeln!(out, "padding          {} bytes", totals.padding)?;
    }
    if totals.unknown_options > 0 {
        writeln!(out, "unknown options  {}", totals.unknown_options)?;
    }
    write_names(names, others, out)?;
    write_streams(&reader, all_streams, out)?;
    Ok(end?)
}

/// `nettrace dump`.
pub(crate) fn dump(source: Bytes, limits: Limits, out: &mut impl Write) -> Result<(), Failure> {
    each(source, limits, out, |event, out| {
        write!(out, "{:>14} [#{}", Millis(event.start), event.stream)?;
        if event.substream != 0 {
            write!(out, "/{:x}", event.substream)?;
        }
        write!(out, "] {:?}", event.description)?;
        if event.end != event.start {
            let length = i128::from(event.end) - i128::from(event.start);
            write!(out, " ({length} ns)")?;
        }
        for attribute in event.attributes() {
            match attribute {
                Ok((name, value)) => write!(out, " {}={}", name.escape_debug(), Plain(&value))?,
                Err(error) => write!(out, " <<< {error} >>>")?,
            }
        }
        writeln!(out)
    })
}

/// `nettrace dump --json`.
pub(crate) fn dump_json(
    source: Bytes,
    limits: Limits,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut line = String::new();
    each(source, limits, out, |event, out| {
        line.clear();
        object(&mut line, event);
        line.push('\n');
        out.write_all(line.as_bytes())
    })
}

/// `nettrace headers`: stream, counter, substream, start, end, description.
pub(crate) fn headers(source: Bytes, limits: Limits, out: &mut impl Write) -> Result<(), Failure> {
    each(source, limits, out, |event, out| {
        let Event { stream, counter, substream, start, end, description, .. } = event;
        let description = description.escape_debug();
        writeln!(out, "{stream}\t{counter}\t{substream}\t{start}\t{end}\t{description}")
    })
}

/// `nettrace verify`.
pub(crate) fn check(
    source: Bytes,
    limits: Limits,
    most: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let report = verify(source, options(limits), most)?;
    let totals = format!(
        "events={} lost={} packets={} bytes={}",
        report.events, report.lost, report.packets, report.bytes
    );
    tell(&report.violations, report.count, &totals, out)
}

fn options(limits: Limits) -> Options {
    Options::default().streams_limit(limits.definitions())
}

/// Shows every event, and a line of totals behind the last.
fn each<W: Write>(
    source: Bytes,
    limits: Limits,
    out: &mut W,
    mut show: impl FnMut(&Event<'_>, &mut W) -> io::Result<()>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut reader = options(limits).open(source);
    let mut damaged = None;
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                if damaged.is_none() {
                    damaged = event.attributes().find_map(Result::err);
                }
                show(&event, out)?;
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let totals = reader.totals();
    writeln!(
        out,
        "# events={} lost={} packets={} streams={} bytes={} epoch={} read_ms={}",
        totals.events,
        totals.lost,
        totals.packets,
        reader.streams().count(),
        reader.offset(),
        Epoch(reader.epoch()),
        started.elapsed().as_millis()
    )?;
    end?;
    damaged.map_or(Ok(()), |error| Err(error.into()))
}

fn write_names(
    names: HashMap<String, u64>,
    others: u64,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
    writeln!(out, "\n{:>12}  event", "events")?;
    for (name, count) in names {
        writeln!(out, "{count:>12}  {}", name.escape_debug())?;
    }
    if others > 0 {
        writeln!(out, "{others:>12}  (of other descriptions)")?;
    }
    Ok(())
}

fn write_streams(reader: &Reader<Bytes>, all: bool, out: &mut impl Write) -> Result<(), Failure> {
    let mut streams: Vec<&StreamTotals> = reader.streams().collect();
    if streams.is_empty() {
        return Ok(());
    }
    // The busiest first; those that lost something before all others.
    streams.sort_by_key(|totals| (totals.lost == 0, Reverse(totals.events), totals.stream));
    let most = if all { streams.len() } else { 20 };
    writeln!(out, "\n{:>12} {:>14}  stream", "events", "lost")?;
    for totals in streams.iter().take(most) {
        let StreamTotals { stream, events, lost, first_counter, last_counter, .. } = totals;
        writeln!(out, "{events:>12} {lost:>14}  #{stream} ({first_counter} to {last_counter})")?;
    }
    if streams.len() > most {
        writeln!(out, "{:>29}  and {} more: --threads shows them", "", streams.len() - most)?;
    }
    Ok(())
}

fn object(out: &mut String, event: &Event<'_>) {
    let mut members = Members::begin(out);
    json::text(members.key("description"), event.description);
    members.number("stream", event.stream);
    members.number("counter", event.counter);
    members.number("substream", event.substream);
    members.number("start", event.start);
    members.number("end", event.end);
    attributes(members.key("attributes"), event.attributes());
    members.end();
}

fn attributes(out: &mut String, attributes: Attributes<'_>) {
    let mut members = Members::begin(out);
    let mut names = HashMap::<&str, u64>::new();
    for attribute in attributes {
        match attribute {
            Ok((name, attribute)) => {
                // The format does not forbid two of one name; JSON shows only one.
                let count = names.entry(name).or_default();
                *count += 1;
                let out = match *count {
                    1 => members.key(name),
                    count => members.key(&format!("{name}#{count}")),
                };
                value(out, &attribute);
            }
            Err(error) => json::text(members.key("<<<"), &error.to_string()),
        }
    }
    members.end();
}

fn value(out: &mut String, value_: &Value<'_>) {
    match value_ {
        Value::U64(value) => json::push(out, value),
        Value::I64(value) => json::push(out, value),
        Value::F64(value) => json::double(out, *value),
        Value::Text(string) => json::text(out, string),
        Value::Array(values) => {
            json::array(out, values.iter(), |out, element| value(out, &element));
        }
        other => json::text(out, &format!("{other:?}")),
    }
}

/// A value for people.
struct Plain<'a>(&'a Value<'a>);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::U64(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::F64(value) => match number::double(*value) {
                Some(number) => f.write_str(&number),
                None => f.write_str(number::not_finite(*value)),
            },
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Array(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, Plain(&value))?;
                }
                f.write_str("]")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Nanoseconds as milliseconds, exactly.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000))
    }
}

/// The time that events count from.
struct Epoch(Option<u64>);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// 100 ns units from 1601 to 1970.
        const UNIX: u64 = 116_444_736_000_000_000;
        match self.0 {
            Some(nanos) => f.write_str(&shown::file_time(nanos / 100 + UNIX)),
            None => f.write_str("none"),
        }
    }
}
