//! The report as text of lines.

use std::{
    io::{self, Write},
    time::Duration,
};

use crate::{
    model::{FullName, OneLine},
    report::{
        data::{Data, Latency, Slow, Wrong},
        instruments::{Shown, ShownSeries},
    },
};

/// How many spans by name, and how many instruments, are shown.
pub(crate) const MOST_ROWS: usize = 30;

/// The greatest width of a first column. A longer name does not move the columns of other lines.
const MOST_WIDTH: usize = 64;

/// Writes the report.
pub(crate) fn write(data: &Data, mut out: impl Write) -> io::Result<()> {
    let out = &mut out;
    writeln!(out, "{}, started {}", OneLine(&data.title), data.start)?;
    let Data { events, lost, spans, .. } = data;
    write!(out, "{events} events, {lost} lost, {spans} spans")?;
    match data.length_ns() {
        Some(nanos) => writeln!(out, ", {} from first to last", time(data, nanos as f64))?,
        None => writeln!(out)?,
    }
    match data.spans_without_end {
        0 => {}
        1 => writeln!(out, "1 span has no end: nettrace tree --open FILE")?,
        open => writeln!(out, "{open} spans have no end: nettrace tree --open FILE")?,
    }
    if let Some(damage) = &data.damage {
        writeln!(out, "The trace is cut short or damaged: {}.", OneLine(damage))?;
    }
    for note in &data.notes {
        writeln!(out, "{}", OneLine(note))?;
    }
    write_latencies(data, out)?;
    write_errors(data, u8::MAX, MOST_ROWS, &mut *out)?;
    write_messages(data, &mut *out)?;
    write_slowest(data, out)?;
    if let Some(instruments) = &data.instruments {
        write_instruments(instruments, out)?;
    }
    out.flush()
}

/// A table: the first column is aligned to the left, the others to the right, and the last one, of
/// words, follows.
pub(crate) struct Table {
    rows: Vec<(String, Vec<String>, String)>,
}

impl Table {
    pub(crate) fn new(head: &str, columns: &[&str], last: &str) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { rows: vec![(head.to_owned(), columns, last.to_owned())] }
    }

    pub(crate) fn row(&mut self, head: String, cells: Vec<String>, last: String) {
        self.rows.push((head, cells, last));
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let length = |text: &str| text.chars().count();
        let first = self.rows.iter().map(|(head, ..)| length(head)).max().unwrap_or(0);
        let first = first.min(MOST_WIDTH);
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells, _)| cells.get(at));
            cells.map(|cell| length(cell)).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.rows[0].1.len()).map(width).collect();
        writeln!(out)?;
        for (head, cells, last) in &self.rows {
            let mut line = format!("{head:first$}");
            for (cell, width) in cells.iter().zip(&widths) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            line.push_str("  ");
            line.push_str(last);
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Says how many rows there are beside those of a table.
pub(crate) fn write_more(more: usize, what: &str, out: &mut impl Write) -> io::Result<()> {
    if more > 0 { writeln!(out, "and {more} more {what}") } else { Ok(()) }
}

/// A length of time, or ticks if the trace does not state how long one is.
pub(crate) fn time(data: &Data, nanos: f64) -> String {
    match data.has_clock {
        true => format!("{:.3?}", Duration::from_nanos(nanos.max(0.0) as u64)),
        false => format!("{nanos:.0} ticks"),
    }
}

fn write_latencies(data: &Data, out: &mut impl Write) -> io::Result<()> {
    if data.latencies.is_empty() {
        return Ok(());
    }
    let mut columns = vec!["spans", "p50", "p90", "p99", "longest", "total", "own"];
    columns.extend(["busy", "polls"]);
    let has_polls = data.latencies.iter().any(|latency| latency.longest_poll_ns.is_some());
    let has_services = data.has_services();
    columns.extend(has_polls.then_some("longest poll"));
    columns.extend(has_services.then_some("service"));
    let mut table = Table::new("Span", &columns, "not ok");
    for latency in data.latencies.iter().take(MOST_ROWS) {
        let Latency { p50_ns, p90_ns, p99_ns, max_ns, total_ns, own_ns, .. } = *latency;
        let times = match latency.count {
            0 => vec![String::new(); 6],
            _ => [p50_ns, p90_ns, p99_ns, max_ns]
                .map(|nanos| time(data, nanos as f64))
                .into_iter()
                .chain([time(data, total_ns), time(data, own_ns)])
                .collect(),
        };
        let length =
            |nanos: Option<u64>| nanos.map_or_else(String::new, |nanos| time(data, nanos as f64));
        let polls = latency.polls.map_or_else(String::new, |polls| polls.to_string());
        let mut work = vec![length(latency.busy_ns), polls];
        work.extend(has_polls.then(|| length(latency.longest_poll_ns)));
        work.extend(has_services.then(|| OneLine(&latency.service).to_string()));
        let count = [latency.count.to_string()];
        let cells = count.into_iter().chain(times).chain(work).collect();
        let name = FullName(&latency.provider, &latency.name).to_string();
        table.row(name, cells, not_ok(latency));
    }
    table.write(out)?;
    let more = data.latencies.len().saturating_sub(MOST_ROWS) + data.other_latencies;
    write_more(more, "names", out)
}

/// How many spans ended in another way than well, or have no end.
fn not_ok(latency: &Latency) -> String {
    let bad = latency.outcomes.iter().filter(|(outcome, _)| !is_ok(outcome));
    let bad = bad.map(|(outcome, count)| format!("{count} {}", OneLine(outcome)));
    let open = (latency.open > 0).then(|| format!("{} no end", latency.open));
    bad.chain(open).collect::<Vec<_>>().join(", ")
}

fn is_ok(outcome: &str) -> bool {
    matches!(outcome, "ok" | "" | "Ok" | "success")
}

/// Errors of this level or a more severe one. Spans that failed are errors.
pub(crate) fn errors_of(data: &Data, level: u8) -> impl Iterator<Item = &Wrong> {
    /// The level of an error.
    const ERROR: u8 = 2;

    data.errors.iter().filter(move |wrong| wrong.level.unwrap_or(ERROR) <= level)
}

/// Writes the first groups of errors.
pub(crate) fn write_errors(
    data: &Data,
    level: u8,
    most: usize,
    mut out: impl Write,
) -> io::Result<()> {
    let count = errors_of(data, level).count();
    if count == 0 {
        return Ok(());
    }
    write_groups(data, "Error or warning", errors_of(data, level).take(most), &mut out)?;
    write_more(count.saturating_sub(most), "groups of errors and warnings", &mut out)?;
    match data.other_errors {
        0 => Ok(()),
        more => writeln!(out, "and {more} more errors and warnings of other kinds"),
    }
}

/// Writes what a program logs below a warning, by shape.
fn write_messages(data: &Data, mut out: impl Write) -> io::Result<()> {
    if data.messages.is_empty() {
        return Ok(());
    }
    write_groups(data, "Message", data.messages.iter().take(MOST_ROWS), &mut out)?;
    write_more(data.messages.len().saturating_sub(MOST_ROWS), "messages", &mut out)?;
    match data.other_messages {
        0 => Ok(()),
        more => writeln!(out, "and {more} more events with other messages"),
    }
}

fn write_groups<'a>(
    data: &Data,
    title: &str,
    groups: impl Iterator<Item = &'a Wrong>,
    out: &mut impl Write,
) -> io::Result<()> {
    let columns = ["", "count", "first", "last", "over time"];
    let mut table = Table::new(title, &columns, "where, first trace");
    for wrong in groups {
        let head = match (&wrong.target, &*wrong.shape) {
            (Some(target), "") => format!("({})", OneLine(target)),
            (Some(target), shape) => format!("{} ({})", OneLine(shape), OneLine(target)),
            (None, "") => FullName(&wrong.provider, &wrong.name).to_string(),
            (None, shape) => {
                format!("{}: {}", FullName(&wrong.provider, &wrong.name), OneLine(shape))
            }
        };
        let [first, last] = [wrong.first_ns, wrong.last_ns].map(|at| time(data, at as f64));
        let cells = [wrong.what.clone(), wrong.count.to_string(), first, last, over_time(wrong)];
        let place = wrong.place.as_deref().map(|place| format!("{} ", OneLine(place)));
        let id = wrong.trace.as_ref().or(wrong.span.as_ref());
        let last = place.unwrap_or_default() + id.map_or("", |id| id);
        table.row(head, cells.into(), last);
    }
    table.write(out)
}

/// How many of the errors there were in each sixteenth of the time.
fn over_time(wrong: &Wrong) -> String {
    const PARTS: usize = 16;
    const SIGNS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

    let counts = &wrong.counts;
    let mut parts = [0_u64; PARTS];
    for (at, count) in counts.iter().enumerate() {
        parts[at * PARTS / counts.len().max(1)] += count;
    }
    let most = parts.iter().copied().max().unwrap_or(0).max(1);
    let sign = |count: &u64| SIGNS[(count * 8).div_ceil(most) as usize];
    parts.iter().map(sign).collect()
}

fn write_slowest(data: &Data, out: &mut impl Write) -> io::Result<()> {
    if data.slowest.is_empty() {
        return Ok(());
    }
    let mut table = Table::new("Slowest", &["took", "spans", "began"], "outcome, trace");
    for Slow { spans, time: began, about, trace, left_out, extent_ns, longest, within, .. } in
        &data.slowest
    {
        let Some(root) = spans.first() else { continue };
        let took = extent_ns.or(root.at_least_ns);
        let took = took.map_or_else(String::new, |nanos| time(data, nanos as f64));
        let count = (spans.len() as u64 + left_out).to_string();
        let began = began.clone().unwrap_or_default();
        let outcome = root.outcome.as_deref().unwrap_or_default();
        let mut last = format!("{} {}", OneLine(outcome), trace.as_ref().unwrap_or(&root.id));
        if let Some((name, own)) = longest {
            last = format!("{last}, {} of it in {}", time(data, *own as f64), OneLine(name));
        }
        let mut name = FullName(&root.provider, &root.name).to_string();
        if let Some(about) = about {
            name = format!("{name} › {}", OneLine(about));
        }
        if let Some(process) = &root.process {
            name = format!("{name} (process {})", OneLine(process));
        }
        if let Some(within) = within {
            name = format!("{name} (within {})", OneLine(within));
        }
        table.row(name, vec![took, count, began], last.trim().to_owned());
    }
    table.write(out)
}

fn write_instruments(shown: &Shown, out: &mut impl Write) -> io::Result<()> {
    let is_histogram = |one: &&ShownSeries| one.percentiles.is_some();
    let (histograms, values): (Vec<_>, Vec<_>) = shown.series.iter().partition(is_histogram);
    let columns = ["last", "mean", "lowest", "highest", "total"];
    let mut table = Table::new("Counter or gauge", &columns, "");
    for one in values.iter().take(MOST_ROWS) {
        let ShownSeries { last, mean, lowest, highest, total, .. } = *one;
        let cells = [last, mean, lowest, highest, total].map(|cell| number(*cell));
        let unit = if one.kind == "counter" { " a second" } else { "" };
        table.row(label(one), cells.into(), format!("{}{unit}", OneLine(&one.unit)));
    }
    if !values.is_empty() {
        table.write(out)?;
        write_more(values.len().saturating_sub(MOST_ROWS), "counters and gauges", out)?;
    }
    let columns = ["values", "mean", "p50", "p95", "p99"];
    let mut table = Table::new("Histogram (highest of an interval)", &columns, "");
    for one in histograms.iter().take(MOST_ROWS) {
        let [p50, p95, p99] = one.percentiles.unwrap_or_default().map(Some);
        let cells = [one.values, one.mean, p50, p95, p99].map(number);
        table.row(label(one), cells.into(), OneLine(&one.unit).to_string());
    }
    if !histograms.is_empty() {
        table.write(out)?;
        write_more(histograms.len().saturating_sub(MOST_ROWS), "histograms", out)?;
    }
    write_more(shown.left_out, "instruments with their tags", out)
}

fn label(one: &ShownSeries) -> String {
    let mut label = FullName(&one.source, &one.name).to_string();
    if !one.tags.is_empty() {
        label.push_str(&format!("{{{}}}", OneLine(&one.tags)));
    }
    if let Some(process) = &one.process {
        label.push_str(&format!(" (process {})", OneLine(process)));
    }
    label
}

/// A number for people: whole ones as they are, others with about four digits.
fn number(number: Option<f64>) -> String {
    let Some(number) = number else { return String::new() };
    let size = number.abs();
    match size {
        _ if size >= 1e15 => format!("{number:e}"),
        _ if number.fract() == 0.0 => format!("{number:.0}"),
        _ if size >= 1000.0 => format!("{number:.0}"),
        _ if size >= 10.0 => format!("{number:.1}"),
        _ if size >= 0.1 => format!("{number:.3}"),
        _ => format!("{number:.2e}"),
    }
}
