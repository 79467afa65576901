//! `nettrace info` for a Heph trace.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Write},
};

use nettrace_reader::heph::{Event, Reader, Span, SpanPart};
use nettrace_views::model::{Role, SpanCounts};
use serde::Serialize;

use crate::{
    failure::Failure,
    heph::{Epoch, HephSource},
    info::{InfoOptions, MOST_ROWS, Rate, Rates, ShownSpans, write_json, write_rate},
    read_options::ReadOptions,
    seconds::Seconds,
    source::Bytes,
    spelling::OneLine,
};

/// How many descriptions are counted separately, and how many bytes they may take.
const MOST_NAMES: usize = 10_000;
const MOST_NAME_BYTES: usize = 16 << 20;

/// Everything that `info` shows.
#[derive(Serialize)]
struct Info {
    format: &'static str,
    /// The epoch of the events' times, in UTC.
    epoch: Option<String>,
    first_start_ns: Option<u64>,
    last_end_ns: Option<u64>,
    events: u64,
    lost: u64,
    step_backs: u64,
    spans: u64,
    spans_without_end: u64,
    spans_without_start: u64,
    uncounted_spans: u64,
    bytes: u64,
    packets: u64,
    padding_bytes: u64,
    unknown_options: u64,
    rate: Option<Rate>,
    /// The descriptions, those with the most events first.
    types: Vec<TypeInfo>,
    /// The number of events whose descriptions are not in `types`, because there are too many.
    other_events: u64,
    streams: Vec<StreamInfo>,
    damage: Option<String>,
}

#[derive(Serialize)]
struct TypeInfo {
    description: String,
    events: u64,
}

#[derive(Serialize)]
struct StreamInfo {
    stream: u32,
    events: u64,
    lost: u64,
    step_backs: u64,
    first_counter: u32,
    last_counter: u32,
}

/// The counts that need every event.
#[derive(Default)]
struct Counts {
    /// By description.
    names: HashMap<String, u64>,
    name_bytes: usize,
    other_events: u64,
    /// The earliest start and the latest end.
    times: Option<(u64, u64)>,
    rates: Rates,
    /// By a hash of what the packets of a span have in common.
    spans: SpanCounts<u64>,
}

pub(crate) fn info(
    source: HephSource,
    limits: ReadOptions,
    wanted: InfoOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut reader = source.read(limits);
    let mut counts = Counts::default();
    counts.spans.has_repeats = true;
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => counts.count(&event),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let info = Info::of(&reader, counts, end.as_ref().err().map(ToString::to_string));
    if wanted.json {
        write_json(&info, out)?;
    } else {
        write_text(&info, wanted.threads, out)?;
    }
    Ok(end?)
}

impl Counts {
    fn count(&mut self, event: &Event<'_>) {
        let (first, last) = self.times.unwrap_or((u64::MAX, 0));
        self.times = Some((first.min(event.start), last.max(event.end)));
        self.rates.count(event.start);
        self.count_span(event);
        if let Some(count) = self.names.get_mut(event.description) {
            *count += 1;
        } else if self.names.len() < MOST_NAMES && self.name_bytes < MOST_NAME_BYTES {
            self.name_bytes += event.description.len();
            self.names.insert(event.description.to_owned(), 1);
        } else {
            self.other_events += 1;
        }
    }

    fn count_span(&mut self, event: &Event<'_>) {
        let spans = &mut self.spans;
        let Some(Span { part, provider, name, trace, id, .. }) = event.span() else {
            // Those of other writers are spans if they take time.
            spans.count += u64::from(event.end > event.start);
            return;
        };
        let key = spans.hash((provider, name, trace, id));
        match part {
            SpanPart::Whole => spans.complete(&key),
            SpanPart::Start => spans.count_as(Role::Start, key, 0),
            _ => spans.count_as(Role::Stop, key, 0),
        }
    }
}

impl Info {
    fn of(reader: &Reader<Bytes>, counts: Counts, damage: Option<String>) -> Self {
        let totals = reader.totals();
        let names = counts.names.into_iter();
        let mut types: Vec<_> =
            names.map(|(description, events)| TypeInfo { description, events }).collect();
        types.sort_by(|a, b| (b.events, &a.description).cmp(&(a.events, &b.description)));
        let mut streams: Vec<_> = reader
            .streams()
            .map(|it| StreamInfo {
                stream: it.stream,
                events: it.events,
                lost: it.lost,
                step_backs: it.step_backs,
                first_counter: it.first_counter,
                last_counter: it.last_counter,
            })
            .collect();
        // Streams with losses first, then those with the most events.
        streams.sort_by_key(|it| (it.lost == 0, Reverse(it.events), it.stream));
        Self {
            format: "Heph 0.1.0",
            epoch: reader.epoch().map(|epoch| Epoch(Some(epoch)).to_string()),
            first_start_ns: counts.times.map(|(first, _)| first),
            last_end_ns: counts.times.map(|(_, last)| last),
            events: totals.events,
            lost: totals.lost,
            step_backs: totals.step_backs,
            spans: counts.spans.count,
            spans_without_end: counts.spans.without_end(),
            spans_without_start: counts.spans.without_start(),
            uncounted_spans: counts.spans.uncounted,
            bytes: reader.offset(),
            packets: totals.packets,
            padding_bytes: totals.padding,
            unknown_options: totals.unknown_options,
            // Ticks are nanoseconds.
            rate: counts.rates.finish(1_000_000_000),
            types,
            other_events: counts.other_events,
            streams,
            damage,
        }
    }
}

fn write_text(info: &Info, all_streams: bool, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "format           {}", info.format)?;
    writeln!(out, "epoch            {}", info.epoch.as_deref().unwrap_or("none"))?;
    for (what, time) in [("first start", info.first_start_ns), ("last end", info.last_end_ns)] {
        if let Some(nanos) = time {
            writeln!(out, "{what:<16} {} after the epoch", Seconds(nanos.into()))?;
        }
    }
    writeln!(out, "events           {}", info.events)?;
    writeln!(out, "lost events      {}", info.lost)?;
    if info.step_backs > 0 {
        let times = info.step_backs;
        writeln!(
            out,
            "                 not reliable: counters of a stream went back {times} times"
        )?;
    }
    if info.spans > 0 {
        let shown = ShownSpans {
            count: info.spans,
            without_end: info.spans_without_end,
            without_start: info.spans_without_start,
            uncounted: info.uncounted_spans,
        };
        writeln!(out, "spans            {shown}")?;
    }
    writeln!(out, "bytes read       {}", info.bytes)?;
    writeln!(out, "packets          {}", info.packets)?;
    if info.padding_bytes > 0 {
        writeln!(out, "padding          {} bytes", info.padding_bytes)?;
    }
    if info.unknown_options > 0 {
        writeln!(out, "unknown options  {}", info.unknown_options)?;
    }
    if let Some(rate) = &info.rate {
        write_rate(rate, out)?;
    }
    write_types(info, out)?;
    write_streams(&info.streams, all_streams, out)?;
    if info.damage.is_some() {
        writeln!(out, "\nThe trace is damaged; this is what could be read.")?;
    }
    Ok(())
}

fn write_types(info: &Info, out: &mut impl Write) -> io::Result<()> {
    if info.types.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:>12}  event", "events")?;
    for TypeInfo { description, events } in &info.types {
        writeln!(out, "{events:>12}  {}", OneLine(description))?;
    }
    if info.other_events > 0 {
        writeln!(out, "{:>12}  of other descriptions", info.other_events)?;
    }
    Ok(())
}

fn write_streams(streams: &[StreamInfo], all: bool, out: &mut impl Write) -> io::Result<()> {
    if streams.is_empty() {
        return Ok(());
    }
    let most = if all { streams.len() } else { MOST_ROWS };
    writeln!(out, "\n{:>12} {:>14}  stream", "events", "lost")?;
    for it in streams.iter().take(most) {
        let StreamInfo { stream, events, lost, first_counter, last_counter, .. } = it;
        writeln!(out, "{events:>12} {lost:>14}  #{stream} ({first_counter} to {last_counter})")?;
    }
    if streams.len() > most {
        writeln!(out, "{:>29}  and {} more: --threads shows them", "", streams.len() - most)?;
    }
    Ok(())
}
