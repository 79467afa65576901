//! The output of `info` as text.

use std::{
    fmt,
    io::{self, Write},
};

use nettrace_event::keys;
use nettrace_reader::Trace;

use crate::{
    files::RecordingFiles,
    info::{EventTime, Info, Rate, ThreadInfo},
    seconds::Seconds,
    spelling::OneLine,
};

/// The number of rows shown of a table, unless all are asked for.
pub(crate) const MOST_ROWS: usize = 20;

pub(super) fn write(info: &Info, all_threads: bool, out: &mut impl Write) -> io::Result<()> {
    write_trace(info, out)?;
    if let Some(rate) = &info.rate {
        write_rate(rate, out)?;
    }
    write_types(info, out)?;
    write_threads(&info.threads, all_threads, out)?;
    if info.damage.is_some() {
        writeln!(out, "\nThe trace is damaged; this is what could be read.")?;
    }
    Ok(())
}

/// The least width of the column of names. A longer name of a key-value widens the column.
const NAME_WIDTH: usize = 16;

/// The greatest width of that column. A longer name does not move the values of other lines.
const MAX_NAME_WIDTH: usize = 32;

fn write_trace(info: &Info, out: &mut impl Write) -> io::Result<()> {
    // The key-values of one recording are those of its first file. Origins are for programs.
    let of_file = [Trace::RECORDING, Trace::FILE];
    let is_of_file = |key: &str| {
        let is_origin = [keys::CONTAINS, keys::EXCERPT].contains(&key);
        !info.recordings.is_empty() && of_file.contains(&key) || is_origin
    };
    let key_values = info.key_values.0.iter().filter(|(key, _)| !is_of_file(key));
    let key_values: Vec<_> =
        key_values.map(|(key, value)| (OneLine(key).to_string(), OneLine(value))).collect();
    let longest = key_values.iter().map(|(key, _)| key.chars().count()).max();
    let width = longest.unwrap_or(0).clamp(NAME_WIDTH, MAX_NAME_WIDTH);
    let mut row = |what: &str, value: &dyn fmt::Display| writeln!(out, "{what:<width$} {value}");

    match info.major_version {
        major @ 6.. => {
            row("format", &format_args!("NetTrace V{major}.{}", info.minor_version))?;
        }
        0 => row("format", &info.format)?,
        major => row("format", &format_args!("NetTrace V{major}"))?,
    }
    match &info.recordings[..] {
        [] => {}
        [one] => row("files", &RecordingCount(one))?,
        several => {
            let files: usize = several.iter().map(|it| it.files).sum();
            row("files", &format_args!("{files} of {} recordings", several.len()))?;
        }
    }
    row("started", &info.start)?;
    row("clock", &format_args!("{} ticks a second", info.ticks_per_second))?;
    for (what, moment) in [("first event", &info.first_event), ("last event", &info.last_event)] {
        if let Some(moment) = moment {
            row(what, &EventTimeText(moment))?;
        }
    }
    row("pointer size", &format_args!("{} bytes", info.pointer_bytes))?;
    for (key, value) in &key_values {
        row(key, value)?;
    }
    row("events", &info.events)?;
    row("lost events", &info.lost)?;
    if let Some(before @ 1..) = info.events_before {
        let what = format!("at most {before} of these came before the first event of this dump");
        row("", &what)?;
    }
    if info.step_backs > 0 {
        let times = info.step_backs;
        let what = format!("not reliable: sequence numbers of a thread went back {times} times");
        row("", &what)?;
    }
    if info.spans > 0 {
        let shown = ShownSpans {
            count: info.spans,
            without_end: info.spans_without_end,
            without_start: info.spans_without_start,
            uncounted: info.uncounted_spans,
        };
        row("spans", &shown)?;
    }
    let per_event = match info.events {
        0 => 0.0,
        events => info.bytes.saturating_sub(info.payload_bytes) as f64 / events as f64,
    };
    row("payload bytes", &info.payload_bytes)?;
    let bytes = info.bytes;
    row("bytes read", &format_args!("{bytes} ({per_event:.2} an event beside payloads)"))?;
    let unknown = match info.padding_bytes {
        None => {
            row("blocks", &info.blocks)?;
            row("sequence points", &info.sequence_points)?;
            "unknown blocks"
        }
        Some(padding) => {
            row("packets", &info.blocks)?;
            if padding > 0 {
                row("padding", &format_args!("{padding} bytes"))?;
            }
            "unknown options"
        }
    };
    if info.unknown_blocks > 0 {
        row(unknown, &info.unknown_blocks)?;
    }
    if info.damaged_types > 0 {
        let count = info.damaged_types;
        row("damaged types", &format_args!("{count}; fields behind the damage are not shown"))?;
    }
    if info.deep_types > 0 {
        let count = info.deep_types;
        row("deep types", &format_args!("{count}; fields that are nested too deep are not shown"))?;
    }
    if info.undefined_stacks > 0 {
        writeln!(out, "events with an undefined stack  {}", info.undefined_stacks)?;
    }
    Ok(())
}

/// The number of files of a recording, and which files they are.
struct RecordingCount<'a>(&'a RecordingFiles);

impl fmt::Display for RecordingCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordingFiles { recording, files, numbers, gaps } = self.0;
        write!(f, "{files}")?;
        if let Some(recording) = recording {
            write!(f, " of the recording {}", OneLine(recording))?;
        }
        for (at, (first, last)) in numbers.iter().enumerate() {
            write!(f, "{}{first}", if at == 0 { ": " } else { ", " })?;
            if last > first {
                write!(f, " to {last}")?;
            }
        }
        if gaps.is_empty() { Ok(()) } else { write!(f, "; those in between are missing") }
    }
}

/// The number of spans, and what is missing of some.
struct ShownSpans {
    count: u64,
    without_end: u64,
    without_start: u64,
    uncounted: u64,
}

impl fmt::Display for ShownSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, without_end, without_start, uncounted } = self;
        write!(f, "{count} ({without_end} without an end, {without_start} without a start)")?;
        match uncounted {
            0 => Ok(()),
            _ => write!(f, "; {uncounted} starts and stops had no room and are not counted"),
        }
    }
}

/// When an event was.
struct EventTimeText<'a>(&'a EventTime);

impl fmt::Display for EventTimeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.since_start_ns {
            Some(nanos) => write!(f, "{} after the start", Seconds(nanos))?,
            None => write!(f, "at tick {}", self.0.ticks)?,
        }
        match &self.0.time {
            Some(time) => write!(f, ", {time}"),
            None => Ok(()),
        }
    }
}

/// Events over time, as bars of eight heights.
fn write_rate(rate: &Rate, out: &mut impl Write) -> io::Result<()> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

    let most = rate.events.iter().copied().max().unwrap_or(0);
    let bar = |count: &u64| match count {
        0 => ' ',
        // Only the interval with the most events has the highest bar.
        count => BARS[((u128::from(*count) * 8 - 1) / u128::from(most.max(1))).min(7) as usize],
    };
    let bars: String = rate.events.iter().map(bar).collect();
    write!(out, "\nevents over time |{bars}|\n                 each column ")?;
    match rate.interval_seconds {
        Some(seconds) => {
            let per_second = most as f64 / seconds;
            writeln!(out, "{seconds:.9} s; at most {most} events in one, {per_second:.0} a second")
        }
        None => writeln!(out, "{} ticks; at most {most} events in one", rate.interval_ticks),
    }
}

fn write_types(info: &Info, out: &mut impl Write) -> io::Result<()> {
    if info.types.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:>12} {:>14} {:>7}  event", "events", "payload bytes", "part")?;
    for it in &info.types {
        let part = match info.payload_bytes {
            0 => 0.0,
            all => it.payload_bytes as f64 * 100.0 / all as f64,
        };
        let (provider, name) = (OneLine(&it.provider), OneLine(&it.name));
        write!(
            out,
            "{:>12} {:>14} {part:>6.1}%  {provider}/{name} (id {}",
            it.events, it.payload_bytes, it.id
        )?;
        match &it.place {
            Some(place) => writeln!(out, "; {})", OneLine(place))?,
            None => writeln!(out, ")")?,
        }
    }
    Ok(())
}

fn write_threads(threads: &[ThreadInfo], all: bool, out: &mut impl Write) -> io::Result<()> {
    if threads.is_empty() {
        return Ok(());
    }
    let most = if all { threads.len() } else { MOST_ROWS };
    writeln!(out, "\n{:>12} {:>14}  thread", "events", "lost")?;
    for thread in threads.iter().take(most) {
        write!(out, "{:>12} {:>14} ", thread.events, thread.lost)?;
        if thread.id.is_none() {
            write!(out, " #{}", thread.index)?;
        }
        for (what, id) in [("process", thread.process), ("tid", thread.id)] {
            if let Some(id) = id {
                write!(out, " {what} {id}")?;
            }
        }
        match &thread.name {
            Some(name) => writeln!(out, " {}", OneLine(format_args!("{name:?}")))?,
            None => writeln!(out)?,
        }
    }
    if threads.len() > most {
        writeln!(out, "{:>29}  and {} more: --threads shows them", "", threads.len() - most)?;
    }
    Ok(())
}
